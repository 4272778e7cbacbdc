//! The mini-batches of a job: a filter, and a page of them.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Tabs};
use crate::chart::{SortLink, Table};
use crate::text::times::{clock, duration_us, utc};
use crate::text::{count, cut, plain};

/// A try, as the pages show it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TryLine {
    /// The mini-batch.
    pub index: u64,
    /// Which try, from 1.
    pub number: u32,
    /// The start of the job that it is of.
    pub incarnation: u32,
    /// How it ended: `RUN_DONE`, ...
    pub status: String,
    /// Whether it failed.
    pub has_failed: bool,
    /// Whether it is the outcome of its mini-batch.
    pub is_outcome: bool,
    /// The node.
    pub node_id: u32,
    /// The process.
    pub process: String,
    /// When it began, all of it, until `run()`, within `run()`: microseconds.
    pub times_us: [u64; 4],
    /// Items, and those that succeeded.
    pub items: (u64, u64),
    /// Class of the error and its message; empty where there is none.
    pub error: String,
    /// Id of its error group; empty where there is none.
    pub group: String,
    /// What the mini-batch consists of.
    pub detail: String,
}

impl TryLine {
    pub(super) fn shape(&self) -> &'static str {
        match (self.has_failed, self.items.1 < self.items.0) {
            (true, _) => "bad",
            (false, true) => "warn",
            (false, false) => "good",
        }
    }

    pub(super) fn word(&self) -> &str {
        match self.status.as_str() {
            "RUN_DONE" if self.items.1 < self.items.0 => "items missing",
            "RUN_DONE" => "succeeded",
            status => status,
        }
    }

    pub(super) fn took(&self) -> String {
        duration_us(self.times_us[1])
    }

    pub(super) fn ran(&self) -> String {
        duration_us(self.times_us[3])
    }

    pub(super) fn began(&self) -> (String, String) {
        utc(self.times_us[0])
    }

    pub(super) fn message(&self) -> String {
        plain(&self.error)
    }

    fn clock(&self) -> String {
        format!("{} UTC", clock(self.times_us[0]))
    }

    fn succeeded(&self) -> String {
        format!("{} of {}", count(self.items.1), count(self.items.0))
    }

    fn says(&self) -> String {
        let line = self.error.lines().next().unwrap_or_default();
        cut(&plain(if line.is_empty() { &self.detail } else { line }), 160)
    }
}

/// A choice of the filter: its word in the address, and what it says.
pub type Choice = (&'static str, &'static str);

/// The tab of the mini-batches.
#[derive(Debug, Template)]
#[template(path = "site/mini_batches.html")]
pub struct MiniBatchesPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The tabs.
    pub tabs: Tabs<'a>,
    /// The job.
    pub job_id: &'a str,
    /// What people call it.
    pub title: &'a str,
    /// The states, and the one that is listed.
    pub states: (&'static [Choice], &'a str),
    /// The orders, and the one of the list.
    pub orders: (&'static [Choice], &'a str),
    /// What sorts the list by mini-batch, by how long tries took and by when they began.
    pub sorts: [SortLink; 3],
    /// The other fields of the filter: name in the address, what it is, what stands in it.
    pub fields: Vec<(&'static str, &'static str, &'a str)>,
    /// The tries.
    pub tries: Vec<TryLine>,
    /// What the statistics list, where that is asked for and there is any.
    pub table: Option<Table>,
    /// The address of the next page; empty where there is none.
    pub next: String,
    /// The address of the same list for programs.
    pub api: String,
    /// When the statistics that are listed are of, microseconds since the Unix epoch; nothing where that is all the same.
    pub as_of_us: Option<u64>,
    /// What is not all, in sentences.
    pub notes: Vec<String>,
    /// Whether the filter leaves anything out.
    pub is_filtered: bool,
    /// Whether more may come.
    pub grows: bool,
    /// The mini-batches with an outcome when the list was made.
    pub ended: u64,
}

impl MiniBatchesPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn as_of(&self) -> Option<(String, String)> {
        self.as_of_us.map(utc)
    }

    /// Why there are none, where the filter alone leaves out none.
    fn none(&self) -> &'static str {
        match (self.states.1, self.grows) {
            ("running", true) => "No mini-batch runs.",
            ("running", false) => "The job has ended: no mini-batch runs.",
            ("slow", true) => "No try has ended so far.",
            ("slow", false) => "No try ended.",
            ("waiting", _) => "All mini-batches have an outcome.",
            (_, true) => "No mini-batch has failed so far.",
            (_, false) => "No mini-batch failed.",
        }
    }
}
