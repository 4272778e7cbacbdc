//! A command that has ended.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::records;

/// What a command leaves: exit code and output.
#[derive(Debug)]
pub struct Ended {
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// Exit code; absent when it was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// When it was seen to have ended.
    pub at: SystemTime,
    /// How long it ran.
    pub took: Duration,
}

impl Ended {
    /// Asserts the exit code.
    #[track_caller]
    pub fn expect_code(&self, code: i32) {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
    }

    /// Asserts that it waited for a job that completed, with all items or without some, as the exit code tells. Returns the
    /// object that is printed.
    #[track_caller]
    pub fn expect_completed(&self) -> Value {
        let printed = self.json();
        assert_eq!(printed["state"], "completed", "{printed}\n{}", self.stderr);
        let nothing_failed = printed["mini_batches"]["failed"] == 0 && printed["items"]["failed"] == 0;
        assert_eq!(printed["complete"], nothing_failed, "{printed}");
        self.expect_code(if nothing_failed || printed["failures_allowed"] == true { 0 } else { 10 });
        printed
    }

    /// The one JSON object on standard output; it is as the schema says of what this command prints.
    #[track_caller]
    pub fn json(&self) -> Value {
        let text = &self.stdout;
        let printed = serde_json::from_str(text);
        let printed = printed.unwrap_or_else(|error| panic!("{error} in {text:?}\n{}", self.stderr));
        records::check(&self.arguments, &printed);
        printed
    }

    /// Asserts that it printed no data: nothing, or to programs the failure that standard error has.
    #[track_caller]
    pub fn has_no_data(&self) {
        if self.stdout.is_empty() {
            return;
        }
        let error = &self.json()["error"];
        let message = error["message"].as_str().unwrap_or_else(|| panic!("data: {}", self.stdout));
        assert!(self.stderr.contains(message), "{message:?} is not said: {}", self.stderr);
        assert_eq!(error["exit_code"].as_i64(), self.code.map(i64::from), "{error}");
    }
}

/// Checks the exit code, and that all `parts` stand in what the program printed.
#[track_caller]
pub fn says(ended: &Ended, code: i32, parts: &[&str]) {
    ended.expect_code(code);
    let said = format!("{}\n{}", ended.stdout, ended.stderr);
    for part in parts {
        assert!(said.contains(part), "{part:?} is not said:\n{said}");
    }
}
