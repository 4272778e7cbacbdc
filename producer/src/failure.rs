//! How a command fails: what is said, and the exit code (spec S12).

use std::fmt;
use std::process::ExitCode;

use prs_common::servers::ConnectError;
use serde::Serialize;

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// The command did its work, the job completed.
    Completed = 0,
    /// Bad usage or job file.
    Usage = 2,
    /// A server of the fleet cannot be used.
    CannotConnect = 3,
    /// The job completed without some of its items, and its job file does not say that any may be missing.
    Incomplete = 10,
    /// A worker that serves one job left it while it goes on.
    LeftJob = 41,
    /// The job failed, or prs itself could not go on.
    Failed = 42,
    /// The user interrupted.
    Interrupted = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

impl Code {
    /// What programs call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Usage => "usage",
            Self::CannotConnect => "cannot_connect",
            Self::Incomplete => "incomplete",
            Self::LeftJob => "left_job",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// That a command failed. It is printed where nothing else is.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CommandError {
    /// The failure.
    error: ErrorDetail,
}

/// Why a command failed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ErrorDetail {
    /// What kind of failure it is.
    #[cfg_attr(test, schemars(extend("enum" = ["usage", "cannot_connect", "failed", "interrupted"])))]
    code: &'static str,
    /// The exit code of the command.
    exit_code: u8,
    /// What standard error says: the cause, and what helps against it.
    message: String,
    /// What led to it, the nearest first; empty where the message is all there is.
    causes: Vec<String>,
}

/// An error with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: Code,
    error: anyhow::Error,
}

impl Failure {
    /// The command was used wrongly, or names something that is not there.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { code: Code::Usage, error: error.into() }
    }

    /// The same, in words.
    pub(crate) fn wrong(message: impl fmt::Display) -> Self {
        Self::usage(anyhow::anyhow!("{message}"))
    }

    /// Whether the command itself is at fault.
    pub(crate) fn is_usage(&self) -> bool {
        self.code == Code::Usage
    }

    /// A server of the fleet cannot be used, or refuses this program.
    pub(crate) fn server(error: impl Into<anyhow::Error>) -> Self {
        Self { code: Code::CannotConnect, error: error.into() }
    }

    /// The same failure, with what else there is to know.
    pub(crate) fn and(self, more: impl fmt::Display) -> Self {
        Self { error: anyhow::anyhow!("{self}; {more}"), ..self }
    }

    /// The same for programs.
    pub(crate) fn record(&self) -> CommandError {
        let causes = self.error.chain().skip(1).map(ToString::to_string).collect();
        let (code, exit_code, message) = (self.code.name(), self.code as u8, self.to_string());
        CommandError { error: ErrorDetail { code, exit_code, message, causes } }
    }

    /// The user interrupted the command.
    pub(crate) fn interrupted(message: impl fmt::Display) -> Self {
        Self { code: Code::Interrupted, error: anyhow::anyhow!("{message}") }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = if error.is_usage() { Code::Usage } else { Code::CannotConnect };
        Self { code, error: error.into() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { code: Code::Failed, error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for cause in self.error.chain() {
            let cause = cause.to_string();
            // Many errors name their cause themselves.
            if !text.contains(&cause) {
                text.push_str(if text.is_empty() { "" } else { ": " });
                text.push_str(&cause);
            }
        }
        f.write_str(&text)
    }
}
