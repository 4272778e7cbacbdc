//! The logs of a job: which there are, and a window of one. A window is plain text, so the search of the browser works in it.

use askama::Template;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::simple::rendered;
use super::{Chrome, Tabs};
use crate::text::json::{Piece, pieces};
use crate::text::{Run, bytes, counted, runs};

/// A log in the list.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// Its path below the logs.
    pub path: String,
    /// Its size, bytes.
    pub bytes: u64,
}

impl LogEntry {
    fn size(&self) -> String {
        bytes(self.bytes)
    }
}

/// A folder in the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFolder {
    /// Its path below the logs, with `/` at its end.
    pub path: String,
    /// Logs in it and in the folders below.
    pub logs: u64,
    /// Their size, bytes.
    pub bytes: u64,
}

impl LogFolder {
    fn in_address(&self) -> String {
        utf8_percent_encode(&self.path, NON_ALPHANUMERIC).to_string()
    }

    fn size(&self) -> String {
        format!("{}, {}", counted(self.logs, "log"), bytes(self.bytes))
    }
}

/// A window of a log.
#[derive(Debug, Clone, Default)]
pub struct LogLines {
    /// Which log.
    pub path: String,
    /// Its size, bytes.
    pub total: u64,
    /// Where the window begins and ends, bytes.
    pub window: (u64, u64),
    /// The lines, each with where it begins.
    pub lines: Vec<(u64, String)>,
    /// Whether the last of them has its end.
    pub is_whole: bool,
    /// Where the windows before and behind begin; nothing where there are none.
    pub neighbours: (Option<u64>, Option<u64>),
    /// Where the last window begins.
    pub last: u64,
}

/// A line as a page shows it.
#[derive(Debug)]
enum Shown {
    /// Text with its colours.
    Plain(Vec<Run>),
    /// An object of JSON, which can be folded open.
    Json(Vec<Piece>),
}

/// Lines of a log, each with where it begins: what a window holds, and what comes behind it as the log grows.
#[derive(Debug, Template)]
#[template(path = "site/log_lines.html")]
pub struct LogRows {
    /// How much before them is left out; empty where nothing is.
    left_out: String,
    lines: Vec<(u64, Shown)>,
}

impl LogRows {
    /// Of these lines, each with where it begins.
    pub fn new(lines: &[(u64, String)]) -> Self {
        let shown = |text: &String| pieces(text).map_or_else(|| Shown::Plain(runs(text)), Shown::Json);
        Self { left_out: String::new(), lines: lines.iter().map(|(at, text)| (*at, shown(text))).collect() }
    }

    /// The same behind so many bytes that are left out.
    #[must_use]
    pub fn behind(self, left_out: Option<u64>) -> Self {
        Self { left_out: left_out.map(bytes).unwrap_or_default(), ..self }
    }

    /// All of them.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

impl LogLines {
    fn size(&self) -> String {
        bytes(self.total)
    }

    fn rows(&self) -> LogRows {
        LogRows::new(&self.lines)
    }

    /// From where on one follows the log: a last line that has no end comes once more, when it has.
    fn grows_from(&self) -> u64 {
        if self.is_whole { self.window.1 } else { self.lines.last().map_or(self.window.1, |(at, _)| *at) }
    }

    /// The path as it stands in an address.
    fn in_address(&self) -> String {
        utf8_percent_encode(&self.path, NON_ALPHANUMERIC).to_string()
    }
}

/// A line that a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogHit {
    /// The log.
    pub path: String,
    /// Where the line begins, bytes.
    pub offset: u64,
    /// The line: what does not fit, and what fits behind it, in turns.
    pub parts: Vec<(String, String)>,
    /// The lines before it.
    pub before: Vec<String>,
    /// The lines behind it.
    pub after: Vec<String>,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSearch {
    /// The lines.
    pub matches: Vec<LogHit>,
    /// Bytes that were read for this page.
    pub scanned: u64,
    /// Bytes of all logs that are searched.
    pub total: u64,
    /// How many these are.
    pub files: usize,
    /// The address that searches on; empty where nothing is left.
    pub next: String,
}

impl LogSearch {
    fn says(&self) -> String {
        format!(
            "{} on this page, in {} read of {} in {}.",
            counted(self.matches.len() as u64, "matching line"),
            bytes(self.scanned),
            bytes(self.total),
            counted(self.files as u64, "log")
        )
    }
}

/// The tab of the logs.
#[derive(Debug, Template)]
#[template(path = "site/logs.html")]
pub struct LogPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The tabs.
    pub tabs: Tabs<'a>,
    /// The job.
    pub job_id: &'a str,
    /// What people call it.
    pub title: &'a str,
    /// The folder that is listed; empty for all of it.
    pub folder: &'a str,
    /// The folders in it.
    pub folders: Vec<LogFolder>,
    /// The logs, those that fit `query`.
    pub entries: Vec<LogEntry>,
    /// Logs that are left out of the list.
    pub more: usize,
    /// What is looked for in the names.
    pub query: &'a str,
    /// What is looked for in the logs.
    pub wanted: &'a str,
    /// Whether that is a pattern.
    pub is_regex: bool,
    /// The log that it is looked for in; empty where it is all of them.
    pub within: &'a str,
    /// What was found.
    pub search: Option<LogSearch>,
    /// The window of the log that is open.
    pub open: Option<LogLines>,
    /// Whether logs may still grow.
    pub grows: bool,
}

impl LogPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// The address of the log that is open.
    fn here(&self) -> String {
        let path = self.open.as_ref().map_or("", |open| &open.path);
        format!("/jobs/{}/logs/{path}", self.job_id)
    }

    /// The folder that the one that is listed is in.
    fn above(&self) -> &str {
        self.folder.trim_end_matches('/').rsplit_once('/').map_or("", |(above, _)| above)
    }

    fn is_open(&self, path: &str) -> bool {
        self.open.as_ref().is_some_and(|open| open.path == path)
    }
}
