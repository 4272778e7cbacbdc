//! What a job brought.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Tabs};
use crate::text::{bytes, counted};

/// A file of the output.
#[derive(Debug, Clone)]
pub struct OutputFile {
    /// Its path below the output.
    pub path: String,
    /// Its address on this server.
    pub link: String,
    /// Its size, bytes.
    pub bytes: u64,
}

impl OutputFile {
    fn size(&self) -> String {
        bytes(self.bytes)
    }
}

/// A file of the output that is a picture.
#[derive(Debug, Clone)]
pub struct PictureFile {
    /// The file.
    pub file: OutputFile,
    /// The address that gives the picture to a page.
    pub picture: String,
}

/// Rows of the result.
#[derive(Debug, Clone, Default)]
pub struct Preview {
    /// The parts of it that are shown: the first rows, and the last where there are more.
    pub parts: Vec<PreviewPart>,
    /// The names of the columns; empty where nobody gave any.
    pub columns: Vec<String>,
    /// Whether its rows are cells of a table, or lines.
    pub is_table: bool,
    /// Whether it was guessed how the table is written.
    pub is_guessed: bool,
    /// Why it is not shown; empty where it is.
    pub why_not: String,
}

/// Rows from one end of the result.
#[derive(Debug, Clone, Default)]
pub struct PreviewPart {
    /// What they are: `First rows`.
    pub title: &'static str,
    /// Their cells; of lines there is one in each.
    pub rows: Vec<Vec<String>>,
}

impl Preview {
    /// Cells of the longest row, at most those that fit a page.
    fn width(&self) -> usize {
        let rows = self.parts.iter().flat_map(|part| &part.rows);
        rows.map(Vec::len).max().unwrap_or_default().max(self.columns.len())
    }

    /// What a column is called.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates hand in references")]
    fn name(&self, column: &usize) -> String {
        self.columns.get(*column).cloned().unwrap_or_else(|| (column + 1).to_string())
    }
}

/// The tab of the output.
#[derive(Debug, Template)]
#[template(path = "site/output.html")]
pub struct OutputPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The tabs.
    pub tabs: Tabs<'a>,
    /// The job.
    pub job_id: &'a str,
    /// What people call it.
    pub title: &'a str,
    /// Where the output is, or will be.
    pub uri: String,
    /// The result file; nothing where there is none.
    pub result: Option<OutputFile>,
    /// Rows in it, and its SHA-256.
    pub about: (u64, Option<String>),
    /// Why there is no result file; empty where there is.
    pub why_not: String,
    /// Rows of the result.
    pub preview: Preview,
    /// The list of the items that are missing.
    pub failed: Option<OutputFile>,
    /// The other files of the output, as far as they are listed.
    pub files: Vec<OutputFile>,
    /// Those of them that are pictures, as far as they were looked into.
    pub pictures: Vec<PictureFile>,
    /// The address that lists on; empty where all are listed.
    pub next: String,
}

impl OutputPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn rows(&self) -> String {
        counted(self.about.0, "row")
    }
}
