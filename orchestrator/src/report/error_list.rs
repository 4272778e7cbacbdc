//! `job_errors.json`: the distinct errors of a job for programs, with a traceback each. `errors` reads it, also while the
//! job runs and when its segments are gone.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::job::errors::{ErrorGroup, ErrorSummary};

/// Its name among the logs.
pub const NAME: &str = "job_errors.json";
/// The form of the file.
pub const SCHEMA: u32 = 1;

/// The content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorList {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Tries that failed.
    pub failed_tries: u64,
    /// Tries with errors that are not told apart any more.
    pub others: u64,
    /// The distinct errors: first those that cost most items, then those of most tries.
    pub errors: Vec<ErrorGroup>,
}

impl ErrorList {
    /// The errors of tries, and of `init()`.
    pub fn new(summary: &ErrorSummary, init: Vec<ErrorGroup>) -> Self {
        let mut errors: Vec<_> = summary.groups().into_iter().cloned().chain(init).collect();
        let rank = |group: &ErrorGroup| (group.items_lost, group.mini_batches_lost, group.tries);
        errors.sort_by_key(|group| std::cmp::Reverse(rank(group)));
        Self { schema: SCHEMA, failed_tries: summary.failed_tries(), others: summary.others(), errors }
    }

    /// The text of `job_error.txt` and `user/error.txt`.
    pub fn text(&self) -> String {
        if self.errors.is_empty() {
            return "no error\n".to_owned();
        }
        let mut text: String = self.errors.iter().map(ErrorGroup::entry).collect();
        if self.others > 0 {
            let _ = writeln!(text, "and {} tries with other errors", self.others);
        }
        text
    }
}
