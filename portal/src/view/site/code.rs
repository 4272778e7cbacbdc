//! The code that a job ran: its files, and one of them with a number at each line.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Tabs};
use crate::text::bytes;

/// A file.
#[derive(Debug, Clone, Default)]
pub struct CodeRow {
    /// Its path.
    pub path: String,
    /// Its address.
    pub link: String,
    /// Its size.
    pub bytes: u64,
}

impl CodeRow {
    fn size(&self) -> String {
        bytes(self.bytes)
    }
}

/// The files, or the lines of one.
#[derive(Debug, Template)]
#[template(path = "site/code.html")]
pub struct CodePage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The tabs.
    pub tabs: Tabs<'a>,
    /// Id of the job.
    pub job_id: &'a str,
    /// What people call it.
    pub title: &'a str,
    /// What there is to say first; empty where nothing is.
    pub says: String,
    /// The file whose lines are shown; empty for the list of files.
    pub path: &'a str,
    /// The files.
    pub rows: Vec<CodeRow>,
    /// The lines.
    pub lines: Vec<String>,
    /// Whether the file has more of them.
    pub is_cut: bool,
}

impl CodePage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}
