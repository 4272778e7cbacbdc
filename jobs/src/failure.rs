//! How a call fails: what kind of failure it is, and what is said of it.

use std::fmt;
use std::io;
use std::path::Path;

use prs_common::job::JobFileError;
use prs_common::ledger::{LedgerError, LedgerErrorKind};
use prs_common::queue::{QueueError, QueueErrorKind};
use prs_common::servers::ConnectError;
use prs_common::storage::{StorageError, StorageErrorKind};
use prs_orchestrator::job::ServerError;
use prs_orchestrator::job::record::JobRecordError;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// What was asked is wrong: a job file, a setting, a state of the job in which it cannot be done.
    Usage,
    /// What was asked for is not there: a job, a log, a registered version. To a person it is a kind of usage.
    NotFound,
    /// A server of the fleet cannot be used, or refuses this program.
    CannotConnect,
    /// prs itself could not go on.
    Failed,
    /// The caller interrupted.
    Interrupted,
}

/// A server behind a call that failed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerFault {
    /// Which: `storage`, `ledger` or `broker`.
    pub server: &'static str,
    /// Whether it does not answer, which may pass; else it refuses what it is asked, or answers wrongly.
    pub is_away: bool,
}

/// An error of a call, with its kind.
#[derive(Debug)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    error: anyhow::Error,
}

/// Something lies where the output of a job is to go, and is not overwritten.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OutputExists(pub String);

/// The place that the output of a job is to go to does not answer, and is no server of the jobs.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OutputAway(pub String);

/// Another program works on the job.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AtWork(pub(crate) String);

impl Failure {
    /// Another program works on the job.
    pub(crate) fn at_work(message: impl fmt::Display) -> Self {
        Self::usage(AtWork(message.to_string()))
    }

    /// The place that the output of a job is to go to does not answer.
    pub(crate) fn output_away(message: impl fmt::Display) -> Self {
        Self::server(OutputAway(message.to_string()))
    }

    /// Something lies where the output of a job is to go.
    pub(crate) fn output_exists(message: impl fmt::Display) -> Self {
        Self::usage(OutputExists(message.to_string()))
    }

    /// What was asked is wrong.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { kind: FailureKind::Usage, error: error.into() }
    }

    /// The same, in words.
    pub fn wrong(message: impl fmt::Display) -> Self {
        Self::usage(anyhow::anyhow!("{message}"))
    }

    /// What was asked for is not there.
    pub fn not_found(message: impl fmt::Display) -> Self {
        Self { kind: FailureKind::NotFound, ..Self::wrong(message) }
    }

    /// What is wrong with a job file, or with settings, where that is it.
    pub fn job_file(&self) -> Option<&JobFileError> {
        self.error.downcast_ref()
    }

    /// The error of this type, where that is it.
    pub fn cause<E: std::error::Error + Send + Sync + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }

    /// Whether it is that no room is left on a disk, or in the storage.
    pub fn is_full(&self) -> bool {
        self.error.chain().any(|cause| {
            let of_storage = cause.downcast_ref::<StorageError>().map(|error| error.kind);
            let of_disk = cause.downcast_ref::<io::Error>().map(io::Error::kind);
            of_storage == Some(StorageErrorKind::Full)
                || matches!(of_disk, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
        })
    }

    /// The server behind the call that is at fault; nothing where none is known to be.
    pub fn server_fault(&self) -> Option<ServerFault> {
        self.error.chain().find_map(fault_in)
    }

    /// Whether what was asked is at fault, or asks for what is not there.
    pub fn is_usage(&self) -> bool {
        matches!(self.kind, FailureKind::Usage | FailureKind::NotFound)
    }

    /// A server of the fleet cannot be used, or refuses this program.
    pub fn server(error: impl Into<anyhow::Error>) -> Self {
        Self { kind: FailureKind::CannotConnect, error: error.into() }
    }

    /// The same failure, with what else there is to know.
    #[must_use]
    pub fn and(self, more: impl fmt::Display) -> Self {
        let message = format!("{self}; {more}");
        self.in_words(message)
    }

    /// The same failure, with `what` it is of in front.
    #[must_use]
    pub(crate) fn of(self, what: impl fmt::Display) -> Self {
        Self { error: self.error.context(what.to_string()), ..self }
    }

    /// The same failure without the name of `folder`, which says nothing to who sent what is in it.
    #[must_use]
    pub(crate) fn without(self, folder: &Path) -> Self {
        let (message, folder) = (self.to_string(), folder.display().to_string());
        if self.job_file().is_some() || !message.contains(&folder) {
            return self;
        }
        self.in_words(message.replace(&format!("{folder}/"), "").replace(&folder, "."))
    }

    /// Replaces the words of the failure.
    fn in_words(self, message: String) -> Self {
        if self.cause::<OutputExists>().is_some() {
            return Self::output_exists(message);
        }
        if self.cause::<OutputAway>().is_some() {
            return Self::output_away(message);
        }
        if self.cause::<AtWork>().is_some() {
            return Self::at_work(message);
        }
        Self { error: anyhow::anyhow!("{message}"), ..self }
    }

    /// The caller interrupted the call.
    pub fn interrupted(message: impl fmt::Display) -> Self {
        Self { kind: FailureKind::Interrupted, error: anyhow::anyhow!("{message}") }
    }

    /// What led to it, the nearest first; empty where the message is all there is.
    pub fn causes(&self) -> Vec<String> {
        self.error.chain().skip(1).map(ToString::to_string).collect()
    }
}

/// The server that is at fault as this one of the causes of a failure says.
fn fault_in(cause: &(dyn std::error::Error + 'static)) -> Option<ServerFault> {
    let fault = |server, is_away| Some(ServerFault { server, is_away });
    let of_storage = |error: &StorageError| match error.kind {
        StorageErrorKind::Unavailable => fault("storage", true),
        StorageErrorKind::PermissionDenied | StorageErrorKind::Damaged => fault("storage", false),
        _ => None,
    };
    let of_ledger = |error: &LedgerError| match error.kind {
        LedgerErrorKind::Unavailable => fault("ledger", true),
        LedgerErrorKind::Refused => fault("ledger", false),
        _ => None,
    };
    if let Some(error) = cause.downcast_ref() {
        return of_storage(error);
    }
    if let Some(error) = cause.downcast_ref() {
        return of_ledger(error);
    }
    if let Some(error) = cause.downcast_ref::<QueueError>() {
        return match error.kind {
            QueueErrorKind::Unavailable | QueueErrorKind::NotServed => fault("broker", true),
            QueueErrorKind::Refused | QueueErrorKind::Forbidden => fault("broker", false),
            QueueErrorKind::NotFound => None,
        };
    }
    // These stand in the place of their causes.
    match (cause.downcast_ref::<ServerError>(), cause.downcast_ref::<JobRecordError>()) {
        (Some(ServerError::Storage(error)), _) | (_, Some(JobRecordError::Storage(error))) => {
            of_storage(error)
        }
        (Some(ServerError::Ledger(error)), _) => of_ledger(error),
        _ => None,
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let kind = if error.is_usage() { FailureKind::Usage } else { FailureKind::CannotConnect };
        Self { kind, error: error.into() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { kind: FailureKind::Failed, error }
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

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_server_that_is_at_fault_is_known_through_all_that_is_said_of_it() {
        let stored = |kind| StorageError {
            kind,
            place: "s3://fleet".to_owned(),
            key: "job.json".to_owned(),
            message: String::new(),
        };
        let ledger = |kind| LedgerError { kind, job: String::new(), message: String::new() };
        let (away, wrong) = (StorageErrorKind::Unavailable, StorageErrorKind::PermissionDenied);
        let fault = |server, is_away| Some(ServerFault { server, is_away });
        let of = |error: anyhow::Error| Failure::from(error.context("cannot look")).server_fault();
        assert_eq!(of(stored(away).into()), fault("storage", true));
        assert_eq!(of(stored(wrong).into()), fault("storage", false));
        assert_eq!(of(stored(StorageErrorKind::Damaged).into()), fault("storage", false));
        assert_eq!(of(stored(StorageErrorKind::NotFound).into()), None);
        assert_eq!(of(JobRecordError::Storage(stored(away)).into()), fault("storage", true));
        assert_eq!(of(ServerError::Storage(stored(wrong)).into()), fault("storage", false));
        let server = ServerError::Ledger(ledger(LedgerErrorKind::Unavailable));
        assert_eq!(of(server.into()), fault("ledger", true));
        let refused = ConnectError::Redis(ledger(LedgerErrorKind::Refused));
        assert_eq!(Failure::from(refused).server_fault(), fault("ledger", false));
        let (name, message) = (String::new(), String::new());
        let queue = QueueError { kind: QueueErrorKind::NotServed, name, message };
        assert_eq!(Failure::from(ConnectError::Broker(queue)).server_fault(), fault("broker", true));
        assert_eq!(Failure::wrong("no").server_fault(), None);
    }

    #[test]
    fn a_job_that_is_at_work_is_known_whatever_else_is_said_of_it() {
        let failure = Failure::at_work("/runs/a is in use").and("try later").without(Path::new("/runs"));
        assert_eq!(failure.to_string(), "a is in use; try later");
        assert!(failure.cause::<AtWork>().is_some() && failure.is_usage());
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let of = |kind| anyhow::Error::from(io::Error::from(kind));
        assert!(Failure::usage(of(io::ErrorKind::StorageFull).context("cannot write")).is_full());
        assert!(!Failure::usage(of(io::ErrorKind::NotFound)).is_full());
        let (place, key) = (String::new(), String::new());
        let full = StorageError { kind: StorageErrorKind::Full, place, key, message: String::new() };
        let failed: Result<(), _> = Err(full);
        assert!(Failure::from(failed.context("cannot store it").unwrap_err()).is_full());
    }
}
