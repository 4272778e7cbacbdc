//! How the program ends: exit codes (spec S12), and what is printed for programs where a command failed.

use std::process::ExitCode;

use prs_jobs::FailureKind;
use serde::Serialize;

pub(crate) use prs_jobs::Failure;

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
    #[cfg_attr(not(feature = "fleet"), expect(dead_code, reason = "there is no worker"))]
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

impl From<FailureKind> for Code {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Usage | FailureKind::NotFound => Self::Usage,
            FailureKind::CannotConnect => Self::CannotConnect,
            FailureKind::Failed => Self::Failed,
            FailureKind::Interrupted => Self::Interrupted,
        }
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

impl From<&Failure> for CommandError {
    fn from(failure: &Failure) -> Self {
        let code = Code::from(failure.kind);
        let (name, exit_code, message) = (code.name(), code as u8, failure.to_string());
        Self { error: ErrorDetail { code: name, exit_code, message, causes: failure.causes() } }
    }
}
