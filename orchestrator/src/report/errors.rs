//! `job_error.txt` and `user/error.txt`: the distinct errors of a job, with counts and one example each.

use std::collections::HashMap;
use std::fmt::Write;

use prs_common::mini_batch::id_of;
use prs_common::segment::TryRecord;

/// Distinct errors that are told apart; more are only counted.
const MOST: usize = 1_000;

#[derive(Debug)]
struct Group {
    count: u64,
    example: String,
}

/// Errors by kind and first line.
#[derive(Debug, Default)]
pub struct ErrorSummary {
    groups: HashMap<(String, String), Group>,
    others: u64,
}

impl ErrorSummary {
    /// Adds a failed try.
    pub fn add(&mut self, node_id: u32, process: &str, record: &TryRecord) {
        let first_line = record.message.lines().next().unwrap_or_default();
        let kind = format!("{} {}", record.status.as_str(), record.category);
        let key = (kind, first_line.to_owned());
        if let Some(group) = self.groups.get_mut(&key) {
            group.count += 1;
        } else if self.groups.len() < MOST {
            let example = format!(
                "mini-batch {} ({}), try {}: logs/user/error/{node_id}/{process}.txt",
                id_of(record.index),
                record.detail,
                record.number
            );
            self.groups.insert(key, Group { count: 1, example });
        } else {
            self.others += 1;
        }
    }

    /// The error that most tries failed with, in one line.
    pub fn most_frequent(&self) -> Option<String> {
        let most = self
            .groups
            .iter()
            .max_by(|(a_key, a), (b_key, b)| a.count.cmp(&b.count).then_with(|| b_key.cmp(a_key)));
        most.map(|((kind, message), _)| format!("{}: {message}", kind.trim()))
    }

    /// Whether there was no error.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The text of the file: the most frequent error first.
    pub fn text(&self) -> String {
        if self.is_empty() {
            return "no error\n".to_owned();
        }
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by(|(a_key, a), (b_key, b)| b.count.cmp(&a.count).then_with(|| a_key.cmp(b_key)));
        let mut text = String::new();
        for ((kind, message), group) in groups {
            let times = if group.count == 1 { "once".to_owned() } else { format!("{} times", group.count) };
            let _ = write!(text, "{}: {message}\n  {times}, for example {}\n\n", kind.trim(), group.example);
        }
        if self.others > 0 {
            let _ = writeln!(text, "and {} more of other kinds", self.others);
        }
        text
    }
}
