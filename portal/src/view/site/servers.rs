//! The servers behind this one: whether each answers, how fast, and what it has room for.

use askama::Template;

use super::Chrome;
use super::simple::rendered;
use crate::text::times::{duration, utc};
use crate::text::{bytes, counted, percent};
use crate::view::header::Chip;

/// A share of its memory from which on a ledger is nearly full, percent.
const NEARLY_FULL: u64 = 85;

/// A server.
#[derive(Debug, Clone, Default)]
pub struct ServerRow {
    /// What it is for: `storage`, `ledger` or `broker`.
    pub dependency: &'static str,
    /// What it is: `s3`, `folder`, `redis` or `rabbitmq`.
    pub kind: &'static str,
    /// Where it is; empty where that is not told.
    pub place: String,
    /// Whether it answers.
    pub is_reachable: bool,
    /// Why it does not; empty where that is not told.
    pub problem: String,
    /// How long its answer took, seconds.
    pub latency_seconds: Option<f64>,
    /// Its version; empty where it is not told.
    pub version: String,
    /// Bytes of memory that a ledger uses, and may use.
    pub memory: Option<(u64, Option<u64>)>,
    /// Messages of a broker that no node understood.
    pub dead_messages: Option<u64>,
    /// Bytes that are free where a folder is.
    pub free_bytes: Option<u64>,
    /// Uploads to a bucket that were not finished.
    pub incomplete_uploads: Option<u64>,
}

impl ServerRow {
    fn chip(&self) -> Chip {
        if self.is_reachable {
            Chip { family: "good", word: "answers" }
        } else {
            Chip { family: "bad", word: "no answer" }
        }
    }

    /// Whether it answers, and how fast, in a few words.
    pub(super) fn brief(&self) -> String {
        if self.is_reachable { format!("ok {}", self.answers_in()) } else { "does not answer".to_owned() }
    }

    fn is(&self) -> &'static str {
        match self.kind {
            "s3" => "S3",
            "redis" => "Redis",
            "rabbitmq" => "RabbitMQ",
            _ => "folder",
        }
    }

    fn answers_in(&self) -> String {
        self.latency_seconds.map(duration).unwrap_or_default()
    }

    /// What it has room for, in words.
    fn has_room(&self) -> String {
        let memory = self.memory.map(|(used, limit)| match limit {
            Some(limit) => format!("{} of {} ({})", bytes(used), bytes(limit), percent(used, limit)),
            None => format!("{}, without a limit", bytes(used)),
        });
        let all = [
            memory,
            self.dead_messages.map(|dead| counted(dead, "dead message")),
            self.free_bytes.map(|free| format!("{} free", bytes(free))),
            self.incomplete_uploads.map(|uploads| counted(uploads, "unfinished upload")),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// What needs a person; empty where nothing does.
    fn says(&self) -> String {
        if !self.is_reachable {
            let what = match self.dependency {
                "broker" => "Jobs wait; pages and figures are as ever",
                "ledger" => "Lists show what storage knows, and autoscalers have no figure",
                _ => "Nothing can be shown or handed in",
            };
            let why = if self.problem.is_empty() { String::new() } else { format!(": {}", self.problem) };
            return format!("{what}{why}");
        }
        if self.memory.is_some_and(|(used, limit)| {
            limit.is_some_and(|limit| used.saturating_mul(100) > limit.saturating_mul(NEARLY_FULL))
        }) {
            return "Nearly full: give Redis more memory (maxmemory), or let fewer jobs run at once"
                .to_owned();
        }
        if self.dead_messages.is_some_and(|dead| dead > 0) {
            return "Messages that no node understood: the runbook says what to do about PrsDeadMessages"
                .to_owned();
        }
        String::new()
    }
}

/// The servers as a page.
#[derive(Debug, Template)]
#[template(path = "site/servers.html")]
pub struct ServersPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The servers.
    pub rows: Vec<ServerRow>,
    /// Whether who asks sees where they are and what they have room for.
    pub is_admin: bool,
    /// Version of this server.
    pub version: &'a str,
    /// When this was so, microseconds since the Unix epoch.
    pub at_us: u64,
}

impl ServersPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn as_of(&self) -> (String, String) {
        utc(self.at_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XSS: &str = "<script>alert(1)</script>\"'";

    #[test]
    fn a_row_says_what_needs_a_person() {
        let row = |dependency| ServerRow { dependency, is_reachable: true, ..ServerRow::default() };
        for (row, expected) in [
            (row("storage"), ""),
            (ServerRow { is_reachable: false, ..row("ledger") }, "autoscalers have no figure"),
            (ServerRow { is_reachable: false, problem: "why".to_owned(), ..row("broker") }, "Jobs wait"),
            (ServerRow { memory: Some((85, Some(100))), ..row("ledger") }, ""),
            (ServerRow { memory: Some((86, Some(100))), ..row("ledger") }, "Nearly full"),
            (ServerRow { memory: Some((86, None)), ..row("ledger") }, ""),
            (ServerRow { dead_messages: Some(0), ..row("broker") }, ""),
            (ServerRow { dead_messages: Some(2), ..row("broker") }, "PrsDeadMessages"),
        ] {
            let says = row.says();
            assert!(says.contains(expected) && says.is_empty() == expected.is_empty(), "{row:?}: {says}");
        }
        let row = ServerRow { memory: Some((2_000_000, Some(8_000_000))), ..row("ledger") };
        assert!(row.has_room().contains("25"), "{}", row.has_room());
    }

    #[test]
    fn the_page_has_all_of_them_and_no_markup_of_theirs() {
        let chrome = Chrome { has_fleet: true, ..Chrome::default() };
        let row = ServerRow {
            dependency: "ledger",
            kind: "redis",
            place: XSS.to_owned(),
            problem: XSS.to_owned(),
            version: XSS.to_owned(),
            ..ServerRow::default()
        };
        for is_admin in [true, false] {
            let rows = vec![row.clone(), row.clone()];
            let html = ServersPage { chrome: &chrome, rows, is_admin, version: "1.2.3", at_us: 0 }.html();
            assert!(!html.contains("<script>alert") && !html.contains("style="), "{html}");
            assert_eq!(html.matches("no answer").count(), 2);
            assert_eq!(html.contains("/admin/audit"), is_admin);
        }
    }
}
