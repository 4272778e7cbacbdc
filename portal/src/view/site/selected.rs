//! Jobs that were selected in the list: what is about to be done with them, and what became of it.

use askama::Template;

use super::Chrome;
use super::simple::rendered;

/// A job that was selected.
#[derive(Debug, Clone, Default)]
pub struct SelectedRow {
    /// Its id.
    pub job_id: String,
    /// Its state, or what became of it.
    pub says: String,
    /// The id of a job that came of it; empty where none did.
    pub link: String,
    /// Whether it is there no more.
    pub is_gone: bool,
}

/// The question before something is done with several jobs, or the answer behind it.
#[derive(Debug, Template)]
#[template(path = "site/selected.html")]
pub struct SelectedPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// What is done, in a few words.
    pub title: String,
    /// What will happen, or happened.
    pub says: String,
    /// `cancel`, `resume`, `resubmit` or `delete`.
    pub verb: &'a str,
    /// The word on the button.
    pub button: String,
    /// The jobs.
    pub rows: Vec<SelectedRow>,
    /// What was wrong with the last answer; empty before the first.
    pub wrong: &'a str,
    /// What makes a request that comes twice one.
    pub key: &'a str,
    /// Whether it was done.
    pub is_done: bool,
}

impl SelectedPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}
