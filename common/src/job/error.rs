//! What is wrong with a job file: all of it at once.
//!
//! A job file is corrected in one go only if one reading names every problem, so validation
//! collects [`Problem`]s instead of stopping at the first. Each names the key, the value, what is
//! allowed and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

/// Everything that keeps a job file from becoming a [`JobSpec`](super::JobSpec), or a configuration file from being used.
///
/// Never retryable: the file, or something it names, has to change (exit code 2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct JobFileError {
    /// The file as it was given, or the job that was to be changed.
    pub path: PathBuf,
    /// What is wrong, in the order of the file where that is known; never empty.
    pub problems: Vec<Problem>,
    /// Whether the problems are local paths that lead out of what came with the job, of one that comes as a text.
    pub leads_outside: bool,
}

impl JobFileError {
    /// That the file, or the job, at `path` has these problems.
    pub fn new(path: impl Into<PathBuf>, problems: Vec<Problem>) -> Self {
        Self { path: path.into(), problems, leads_outside: false }
    }
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&problem.in_file(&self.path))?;
        }
        Ok(())
    }
}

/// One thing that is wrong with a job file, or that its author should know of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The key, with its place, such as `inputs[0].path`; empty when the file as a whole is meant.
    pub key: String,
    /// Line in the job file, from 1; `None` for an absent key or a value from the command line.
    pub line: Option<usize>,
    /// The value, what is allowed and the remedy.
    pub message: String,
}

impl Problem {
    /// The problem behind the place where it is in the file at `path`.
    pub(super) fn in_file(&self, path: &Path) -> String {
        let line = self.line.map_or_else(String::new, |line| format!(":{line}"));
        format!("{}{line}: {self}", path.display())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}
