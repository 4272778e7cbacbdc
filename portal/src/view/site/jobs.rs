//! The list of jobs: is anything wrong, what runs and how far, where is mine.

use askama::Template;
use prs_common::ledger::JobState;

use super::Chrome;
use super::simple::rendered;
use crate::chart::{Progress, SortLink};
use crate::text::times::{duration, utc};
use crate::text::{count, counted, cut, per_second, percent, plain};
use crate::view::header::Chip;

/// Letters of a name, and of what needs a person.
const LETTERS: (usize, usize) = (80, 140);

/// A job in the list.
#[derive(Debug, Clone, Default)]
pub struct JobRow {
    /// Its id.
    pub job_id: String,
    /// What people call it.
    pub title: String,
    /// Its state.
    pub state: Option<JobState>,
    /// Whether it completed with every item; nothing before its end.
    pub complete: Option<bool>,
    /// Mini-batches: planned, succeeded, failed.
    pub mini_batches: (u64, u64, u64),
    /// Mini-batches a second.
    pub per_second: f64,
    /// Seconds to its end, where that can be said.
    pub eta_seconds: Option<f64>,
    /// When it was submitted, microseconds since the Unix epoch.
    pub submitted_us: u64,
    /// Seconds that it took, or takes so far.
    pub seconds: f64,
    /// What needs a person; empty where nothing does.
    pub attention: String,
}

impl JobRow {
    pub(super) fn chip(&self) -> Chip {
        let state = self.state.unwrap_or(JobState::Queued);
        Chip::of(state, self.complete.unwrap_or(true))
    }

    pub(super) fn name(&self) -> String {
        cut(&self.title, LETTERS.0)
    }

    fn bar(&self) -> Progress {
        let (planned, succeeded, failed) = self.mini_batches;
        let waiting = planned.saturating_sub(succeeded + failed);
        let text = format!("{} of {}", count(succeeded), counted(planned, "mini-batch"));
        Progress::new(succeeded, failed, 0, waiting, text)
    }

    fn done(&self) -> String {
        let (planned, succeeded, failed) = self.mini_batches;
        if planned == 0 { "\u{2013}".to_owned() } else { percent(succeeded + failed, planned) }
    }

    fn rate(&self) -> String {
        if self.per_second > 0.0 { per_second(self.per_second) } else { String::new() }
    }

    pub(super) fn submitted(&self) -> (String, String) {
        utc(self.submitted_us)
    }

    pub(super) fn took(&self) -> String {
        let left = self.eta_seconds.map(|eta| format!(", about {} left", duration(eta)));
        format!("{}{}", duration(self.seconds), left.unwrap_or_default())
    }

    pub(super) fn says(&self) -> String {
        cut(&plain(&self.attention), LETTERS.1)
    }
}

/// How many jobs are in a state, as a link that shows them.
#[derive(Debug, Clone)]
pub struct StateCount {
    /// What they are called.
    pub name: String,
    /// How many there are.
    pub count: u64,
    /// The address that shows them.
    pub link: String,
    /// Whether they are what is shown.
    pub is_shown: bool,
}

/// The list.
#[derive(Debug, Template)]
#[template(path = "site/jobs.html", blocks = ["rows"])]
pub struct JobsPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The jobs of this page.
    pub rows: Vec<JobRow>,
    /// By state.
    pub states: Vec<StateCount>,
    /// What is searched for.
    pub query: String,
    /// What of the address a search keeps: names and values.
    pub kept: Vec<(String, String)>,
    /// Searches that many come for.
    pub saved: Vec<StateCount>,
    /// The address of the server.
    pub url: &'a str,
    /// How many jobs fit the filters.
    pub total: u64,
    /// Jobs found so far, and jobs there are, while the list is filled from storage.
    pub partial: Option<(u64, u64)>,
    /// What became of a job that the reader has just removed; empty where there is none.
    pub removed: String,
    /// Whether there is a filter.
    pub is_filtered: bool,
    /// The address of the first page, and of the next one; empty where it is this one, or there is none.
    pub pages: (String, String),
    /// How it is sorted: by state, by when jobs were submitted, by how long they took.
    pub sorts: [SortLink; 3],
    /// The address of the same list for programs.
    pub api: String,
    /// The address of the rows of this page alone.
    pub rows_address: String,
    /// When they were seen, microseconds since the Unix epoch.
    pub at_us: u64,
    /// Whether who looks may change jobs.
    pub may_submit: bool,
}

impl JobsPage<'_> {
    /// That not all jobs are found yet; empty where they are.
    fn finds(&self) -> String {
        let Some((found, total)) = self.partial else { return String::new() };
        match total {
            0 => "The list is filled from storage: looking for jobs".to_owned(),
            total => {
                format!("The list is filled from storage: {} of {} jobs found", count(found), count(total))
            }
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// The rows alone, for a page that is kept new.
    pub fn rows_html(&self) -> String {
        rendered(&self.as_rows())
    }

    /// The address of this page, without the part that is asked for alone.
    fn here(&self) -> &str {
        self.rows_address.trim_end_matches("part=rows").trim_end_matches(['&', '?'])
    }

    fn as_of(&self) -> (String, String) {
        utc(self.at_us)
    }

    fn says(&self) -> String {
        let shown = self.rows.len() as u64;
        if shown == self.total {
            counted(self.total, "job")
        } else {
            format!("{} of {}", count(shown), counted(self.total, "job"))
        }
    }
}
