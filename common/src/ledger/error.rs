//! What a call of the ledger fails with.

use super::Duty;

/// Meaning of a ledger error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerErrorKind {
    /// The job is not known (any more).
    NotFound,
    /// A job of this id exists.
    AlreadyExists,
    /// The server refuses the caller (password, rights).
    Refused,
    /// Another program has the duty by now that the call is a part of.
    Superseded,
    /// The server cannot be reached for now.
    Unavailable,
}

/// An error of the ledger.
#[derive(Debug, thiserror::Error)]
#[error("{}{message}", of_job(.job))]
pub struct LedgerError {
    /// What the error means to a caller.
    pub kind: LedgerErrorKind,
    /// The job; empty when there was no connection yet.
    pub job: String,
    /// The cause, in words.
    pub message: String,
}

impl LedgerError {
    /// An error of a call about `job`.
    pub(super) fn new(kind: LedgerErrorKind, job: &str, message: impl Into<String>) -> Self {
        Self { kind, job: job.to_owned(), message: message.into() }
    }

    /// The error of a program that writes without its duty.
    pub(super) fn superseded(job: &str, duty: Duty) -> Self {
        let message = format!("another program has the duty to {} it by now", duty.as_str());
        Self::new(LedgerErrorKind::Superseded, job, message)
    }

    /// Whether the same call may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        self.kind == LedgerErrorKind::Unavailable
    }
}

fn of_job(job: &str) -> String {
    if job.is_empty() { String::new() } else { format!("job {job}: ") }
}
