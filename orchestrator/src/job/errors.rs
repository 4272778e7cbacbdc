//! The distinct errors of a job, with counts and one example each: what `job_error.txt`, `user/error.txt` and
//! `job_errors.json` say, and the first of them the end of a job.
//!
//! Errors are alike when the same line of the user's code raised them, whatever their message says of the item; those
//! that come from no line, when their messages differ in numbers and names alone. Of each only an example is kept, one
//! that cost items where there is one.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use prs_common::layout;
use prs_common::mini_batch::id_of;
use prs_common::segment::{ErrorDetail, SegmentIndex, TryRecord, TryStatus};
use prs_common::source_line::SourceLine;
use serde::{Deserialize, Serialize};

use super::count;
use super::error_pattern::pattern;

/// Distinct errors that are told apart; more are only counted.
const MOST: usize = 500;
/// Longest message of an example, bytes.
const LONGEST_MESSAGE: usize = 2_000;

/// Tries that failed alike, or that lack items for the same reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorGroup {
    /// How the tries ended: `RUN_EXCEPTION`, ...; `RUN_DONE` where only items are missing.
    pub status: String,
    /// Class of the exception, or what stands for it.
    pub category: String,
    /// The message of the example.
    pub message: String,
    /// Whether others of them have another message.
    pub messages_differ: bool,
    /// The last line of the user's code in it.
    pub frame: Option<SourceLine>,
    /// So many tries; of `init()`, processes; of lost nodes, nodes.
    pub tries: u64,
    /// Mini-batches whose items are missing because of it.
    pub mini_batches_lost: u64,
    /// Those items.
    pub items_lost: u64,
    /// The nodes that had it.
    pub nodes: BTreeSet<u32>,
    /// One of the tries.
    pub example: Example,
    /// Traceback of the example; empty where there is none.
    pub traceback: String,
}

/// A try that stands for others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Example {
    /// Its mini-batch; empty for `init()`.
    pub mini_batch_id: String,
    /// What the mini-batch consists of.
    pub detail: String,
    /// Which try it was, from 1.
    #[serde(rename = "try")]
    pub number: u32,
    /// The node where it ran.
    pub node_id: u32,
    /// The process that ran it.
    pub process: String,
    /// The log that has it in full, below the folder of the logs; empty where none has.
    pub log: String,
    /// Whether its mini-batch got no other try.
    pub is_lost: bool,
}

impl ErrorGroup {
    /// The error in one line: class and first line of the message.
    pub fn headline(&self) -> String {
        format!("{}: {}", self.category, self.message.lines().next().unwrap_or_default())
    }

    /// The same, with the line of the user's code.
    pub fn in_one_line(&self) -> String {
        match &self.frame {
            Some(frame) => format!("{} ({frame})", self.headline()),
            None => self.headline(),
        }
    }

    /// Where the example is, of one that is of no mini-batch.
    pub fn place(&self) -> String {
        let Example { process, node_id, .. } = &self.example;
        if process.is_empty() { format!("node {node_id}") } else { format!("{process} of node {node_id}") }
    }

    /// Whether tries failed, and not only items are missing.
    pub fn is_failure(&self) -> bool {
        self.status != "RUN_DONE"
    }

    /// The error as `job_error.txt` has it.
    pub(crate) fn entry(&self) -> String {
        let Self { status, tries, mini_batches_lost, items_lost, example, .. } = self;
        let times = if *tries == 1 { "once".to_owned() } else { format!("{tries} times") };
        let mut text = format!("{status} {}\n  {times}", self.headline());
        if *items_lost > 0 || *mini_batches_lost > 0 {
            let _ = write!(
                text,
                "; missing because of it: {} in {}",
                count(*items_lost, "item"),
                count(*mini_batches_lost, "mini-batch")
            );
        }
        if self.messages_differ {
            text.push_str("; the messages differ");
        }
        if let Some(frame) = &self.frame {
            let _ = write!(text, "\n  {frame}: {}", frame.text);
        }
        let Example { mini_batch_id, detail, number, log, .. } = example;
        if mini_batch_id.is_empty() {
            let _ = write!(text, "\n  for example {}", self.place());
        } else {
            let _ = write!(text, "\n  for example mini-batch {mini_batch_id} ({detail}), try {number}");
        }
        if !log.is_empty() {
            let _ = write!(text, ": logs/{log}");
        }
        text.push_str("\n\n");
        text
    }
}

/// What makes errors alike.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Kind {
    status: &'static str,
    category: String,
    /// The line of the user's code, or what the messages have in common.
    cause: Result<(String, u32), String>,
}

/// The distinct errors of a job.
#[derive(Debug, Default)]
pub struct ErrorSummary {
    groups: HashMap<Kind, ErrorGroup>,
    others: u64,
    failed_tries: u64,
}

impl ErrorSummary {
    /// Adds a try that failed or lacks items. `is_lost` says whether that is the outcome of its mini-batch.
    pub fn add(&mut self, index: &SegmentIndex, record: &TryRecord, is_lost: bool) {
        let detail = index.error_of(record);
        let failed = record.status != TryStatus::RunDone;
        // What was carried over, or is put together of parts, is told once more, and was tried once.
        let together = record.put_together();
        let is_own = !layout::is_carried(&index.key) && together.is_none();
        self.failed_tries += u64::from(failed && is_own);
        let kind = kind(record, detail);
        if !self.groups.contains_key(&kind) && self.groups.len() >= MOST {
            self.others += u64::from(is_own);
            return;
        }
        let process = index.processes.get(record.process as usize).map_or("", |process| &*process.name);
        let group = self.groups.entry(kind).or_insert_with(|| ErrorGroup {
            status: record.error_status().as_str().to_owned(),
            category: record.category.clone(),
            frame: detail.and_then(|detail| detail.frame.clone()),
            ..ErrorGroup::default()
        });
        group.messages_differ |= group.tries > 0 && cut(&record.message) != group.message;
        if group.tries == 0 || (is_lost && !group.example.is_lost) {
            cut(&record.message).clone_into(&mut group.message);
            group.traceback = detail.map(|detail| detail.traceback.clone()).unwrap_or_default();
            let has_log = record.error_status() != TryStatus::RunDone && !process.is_empty();
            let log =
                if has_log { format!("user/error/{}/{process}.txt", index.node_id) } else { String::new() };
            group.example = Example {
                mini_batch_id: id_of(record.index),
                detail: record.detail.clone(),
                number: together.map_or(record.number, |together| together.failed_try),
                node_id: index.node_id,
                process: process.to_owned(),
                log,
                is_lost,
            };
        }
        group.tries += u64::from(is_own);
        group.nodes.insert(index.node_id);
        if is_lost {
            group.mini_batches_lost += 1;
            group.items_lost += record.items.saturating_sub(record.succeeded);
        }
    }

    /// The distinct errors: first those that cost most items, then those of most tries. `more` are put among them.
    pub fn groups(&self, more: Vec<ErrorGroup>) -> Vec<ErrorGroup> {
        let mut groups: Vec<_> = self.groups.values().cloned().chain(more).collect();
        let rank = |group: &ErrorGroup| (group.items_lost, group.mini_batches_lost, group.tries);
        groups.sort_by_cached_key(|group| (Reverse(rank(group)), group.in_one_line()));
        groups
    }

    /// Tries that failed.
    pub fn failed_tries(&self) -> u64 {
        self.failed_tries
    }

    /// Tries with errors that are not told apart any more.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The error that most tries had, in one line.
    pub fn most_frequent(&self) -> Option<String> {
        let most = self
            .groups
            .values()
            .max_by(|a, b| a.tries.cmp(&b.tries).then_with(|| b.in_one_line().cmp(&a.in_one_line())));
        most.map(ErrorGroup::in_one_line)
    }
}

fn kind(record: &TryRecord, detail: Option<&ErrorDetail>) -> Kind {
    let frame = detail.and_then(|detail| detail.frame.as_ref());
    let cause = frame
        .map(|frame| (frame.file.clone(), frame.line))
        .ok_or_else(|| pattern(record.message.lines().next().unwrap_or_default()));
    Kind { status: record.error_status().as_str(), category: record.category.clone(), cause }
}

fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(LONGEST_MESSAGE)]
}

#[cfg(test)]
mod tests {
    use prs_common::segment::{ProcessRef, SegmentBuilder};

    use super::*;
    use crate::report::error_list::ErrorList;

    /// Tries with message, line, and whether each is the outcome; all of one segment.
    fn summary(tries: &[(&str, Option<u32>, bool)]) -> ErrorSummary {
        let mut summary = ErrorSummary::default();
        for (index, (message, line, is_lost)) in (0..).zip(tries) {
            let mut segment = SegmentBuilder::default();
            let frame = line.map(|line| SourceLine { file: "/c/x.py".into(), line, ..SourceLine::default() });
            let detail = ErrorDetail::new("ValueError", frame, &format!("traceback of {message}"));
            let mut record = TryRecord {
                category: "ValueError".into(),
                message: (*message).to_owned(),
                items: 5,
                number: 1,
                ..TryRecord::new(index, b"", TryStatus::RunException)
            };
            record.error = segment.explain(&detail);
            segment.add(record, &ProcessRef { name: "process003".into(), pid: 1 }, "".into());
            let (_, index) = segment.seal("k", 1, 2, "");
            summary.add(&index, &index.tries[0], *is_lost);
        }
        summary
    }

    #[test]
    fn errors_of_one_line_are_one_whatever_they_say() {
        let summary = summary(&[
            ("cannot parse a.txt", Some(5), false),
            ("cannot parse b.txt", Some(5), true),
            ("cannot parse b.txt", Some(7), false),
            ("cannot parse b.txt", Some(7), false),
            ("cannot parse b.txt", Some(7), false),
        ]);
        let groups = summary.groups(Vec::new());
        assert_eq!(groups.len(), 2);
        let first = &groups[0];
        assert_eq!((first.tries, first.mini_batches_lost, first.items_lost), (2, 1, 5), "what costs most");
        assert!(first.messages_differ && !groups[1].messages_differ);
        // The example is one that was lost.
        assert_eq!(
            (&*first.message, &*first.traceback),
            ("cannot parse b.txt", "traceback of cannot parse b.txt")
        );
        assert_eq!(first.example.log, "user/error/2/process003.txt");
        assert_eq!(summary.most_frequent().unwrap(), "ValueError: cannot parse b.txt (/c/x.py:7)");
        assert_eq!(summary.failed_tries(), 5);
        let text = ErrorList::new(&summary, Vec::new()).text();
        assert!(
            text.starts_with(
                "RUN_EXCEPTION ValueError: cannot parse b.txt\n  2 times; missing because of it: 5 items in 1"
            ),
            "{text}"
        );
        assert!(
            text.contains("mini-batch mb-0000000001 (), try 1: logs/user/error/2/process003.txt"),
            "{text}"
        );
    }

    #[test]
    fn errors_of_no_line_are_told_apart_by_what_their_messages_have_in_common() {
        let tries: Vec<(String, Option<u32>, bool)> = (0..2 * MOST)
            .map(|number| (format!("file '{number}.csv', byte {number}: bad"), None, true))
            .collect();
        let tries: Vec<_> = tries.iter().map(|(message, line, lost)| (&**message, *line, *lost)).collect();
        let summary = summary(&tries);
        assert_eq!(summary.groups(Vec::new()).len(), 1);
        assert_eq!(summary.groups(Vec::new())[0].tries, 2 * MOST as u64);
    }

    #[test]
    fn what_was_carried_over_is_one_try() {
        let mut summary = summary(&[("cannot parse a.txt", Some(5), false)]);
        let mut segment = SegmentBuilder::default();
        let frame = SourceLine { file: "/c/x.py".into(), line: 5, ..SourceLine::default() };
        let mut record = TryRecord {
            category: "ValueError".into(),
            message: "cannot parse a.txt".into(),
            items: 5,
            number: 1,
            ..TryRecord::new(0, b"", TryStatus::RunException)
        };
        record.error = segment.explain(&ErrorDetail::new("ValueError", Some(frame), ""));
        segment.add(record, &ProcessRef { name: "process003".into(), pid: 1 }, "".into());
        let (_, index) = segment.seal(&layout::segment(2, 2, layout::CARRIED, 0), 2, 2, "");
        summary.add(&index, &index.tries[0], true);
        let groups = summary.groups(Vec::new());
        assert_eq!((groups.len(), groups[0].tries, summary.failed_tries()), (1, 1, 1));
        assert_eq!((groups[0].mini_batches_lost, groups[0].items_lost), (1, 5), "what it cost counts now");
    }

    #[test]
    fn no_more_than_so_many_are_told_apart() {
        let tries: Vec<_> = (0..MOST as u32 + 7).map(|line| ("m", Some(line), false)).collect();
        let summary = summary(&tries);
        assert_eq!(
            (summary.groups(Vec::new()).len(), summary.others(), summary.failed_tries()),
            (MOST, 7, MOST as u64 + 7)
        );
        let text = |summary: &ErrorSummary| ErrorList::new(summary, Vec::new()).text();
        assert!(text(&summary).ends_with("and 7 tries with other errors\n"));
        assert_eq!(text(&ErrorSummary::default()), "no error\n");
    }
}
