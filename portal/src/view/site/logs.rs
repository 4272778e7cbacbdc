//! The logs of a job: which there are, and a window of one. A window is plain text, so the search of the browser works in it.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Tab};
use crate::text::{Run, bytes, runs};

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
    /// Where the windows before and behind begin; nothing where there are none.
    pub neighbours: (Option<u64>, Option<u64>),
    /// Where the last window begins.
    pub last: u64,
}

impl LogLines {
    fn size(&self) -> String {
        bytes(self.total)
    }

    fn shown(&self) -> Vec<(u64, Vec<Run>)> {
        self.lines.iter().map(|(at, text)| (*at, runs(text))).collect()
    }
}

/// The tab of the logs.
#[derive(Debug, Template)]
#[template(path = "site/logs.html")]
pub struct LogPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The tab.
    pub tab: Tab,
    /// The job.
    pub job_id: &'a str,
    /// What people call it.
    pub title: &'a str,
    /// The logs, those that fit `query`.
    pub entries: Vec<LogEntry>,
    /// Logs that are left out of the list.
    pub more: usize,
    /// What is looked for in the names.
    pub query: &'a str,
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

    fn is_open(&self, path: &str) -> bool {
        self.open.as_ref().is_some_and(|open| open.path == path)
    }
}
