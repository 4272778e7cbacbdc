//! Why a look, or the end of a job, fails, and the one table of what becomes of it.

use std::path::PathBuf;

use prs_common::end_reason::EndReason;
use prs_common::ledger::{LedgerError, LedgerErrorKind, ObstacleKind};
use prs_common::queue::QueueError;
use prs_common::storage::StorageError;

use crate::job::ServerError;
use crate::job::policy::Policy;
use crate::job::reach::Server;
use crate::job::record::JobRecordError;
use crate::plan::PlanError;
use crate::segments::damage::{self, Damaged};

/// Why an orchestrator cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The queue cannot be looked after.
    #[error("the queue of the job cannot be looked after: {0}")]
    Queue(#[from] QueueError),
    /// The plan cannot be compared with what was run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Committed segments are not what was written, or not of this job.
    #[error("{}", damage::describe(.0))]
    Damaged(Vec<Damaged>),
    /// Damaged segments were set aside: the ledger must be filled anew, and what has no outcome runs again.
    #[error("mini-batches run again: {reason}")]
    RunAgain {
        /// Which segments, and why.
        reason: String,
    },
    /// The logs cannot be written.
    #[error("cannot write the logs in {}: {source}", path.display())]
    Logs {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// This host cannot make the plan.
    #[error("the plan cannot be made on this host: {reason}")]
    NoPlan {
        /// Why.
        reason: String,
    },
    /// A server that others reach does not answer this host.
    #[error("this host does not reach the {}, and others do: {error}", server.as_str())]
    Alone {
        /// The server.
        server: Server,
        /// What it says, or does not say.
        error: String,
    },
    /// No worker that tried can watch over the job.
    #[error("no worker could for {seconds} s: {reason}")]
    Stuck {
        /// For how long.
        seconds: u64,
        /// What the last one failed with.
        reason: String,
    },
    /// Another node watches over the job.
    #[error("the lease of the job is held by another node")]
    NotTheOrchestrator,
    /// The ledger lost what it had: the watching must begin anew.
    #[error("the ledger lost what it knew of the job")]
    LedgerLost,
    /// The watching panicked.
    #[error("a fault of prs ended the job: {text}")]
    Panicked {
        /// The panic's words.
        text: String,
    },
    /// There is no such start of the job any more.
    #[error("the job was started anew, or removed")]
    Superseded,
    /// The job's record cannot be understood.
    #[error(transparent)]
    Record(JobRecordError),
}

impl From<ServerError> for WatchError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Ledger(error) => error.into(),
            ServerError::Storage(error) => error.into(),
        }
    }
}

impl From<&WatchError> for EndReason {
    fn from(error: &WatchError) -> Self {
        match error {
            WatchError::Panicked { text } => Self::Fault { text: text.clone() },
            WatchError::NoPlan { reason } => Self::NoPlan { error: reason.clone() },
            error => Self::NotWatched { error: error.to_string() },
        }
    }
}

impl From<JobRecordError> for WatchError {
    fn from(error: JobRecordError) -> Self {
        match error {
            JobRecordError::Storage(error) => Self::Storage(error),
            error => Self::Record(error),
        }
    }
}

/// What becomes of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The same is tried again, a little later.
    Retry,
    /// The orchestrator watches no longer; another one, or a later attempt of this one, goes on.
    HandOver,
    /// The segments it names are set aside, and their mini-batches run again.
    RunAgain,
    /// The job fails with it.
    Fail,
}

/// When an error came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// While the job runs.
    Looking,
    /// While it ends.
    Ending,
}

/// What becomes of `error`. `others_may_serve` tells whether another worker may do what this host cannot.
pub(super) fn disposition(
    error: &WatchError,
    when: When,
    policy: &Policy,
    others_may_serve: bool,
) -> Disposition {
    use Disposition::{Fail, HandOver, Retry, RunAgain};
    match error {
        WatchError::Damaged(_) => RunAgain,
        // The job itself is not to blame.
        WatchError::Alone { .. }
        | WatchError::NotTheOrchestrator
        | WatchError::LedgerLost
        | WatchError::RunAgain { .. }
        | WatchError::Superseded
        | WatchError::Record(_) => HandOver,
        WatchError::Ledger(error)
            if matches!(error.kind, LedgerErrorKind::NotFound | LedgerErrorKind::Superseded) =>
        {
            HandOver
        }
        error if error.is_retryable() && (when == When::Looking || policy.waits_for_servers) => Retry,
        error if error.is_of_this_host() && others_may_serve => HandOver,
        _ => Fail,
    }
}

impl WatchError {
    /// Whether the same may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Ledger(error) => error.is_retryable(),
            Self::Storage(error) => error.is_retryable(),
            Self::Plan(error) => error.is_retryable(),
            // Nodes that cannot use it say so, and fail the job where no other can.
            Self::Queue(_) => true,
            Self::Damaged(_)
            | Self::RunAgain { .. }
            | Self::Logs { .. }
            | Self::NoPlan { .. }
            | Self::Alone { .. }
            | Self::Stuck { .. }
            | Self::NotTheOrchestrator
            | Self::LedgerLost
            | Self::Panicked { .. }
            | Self::Superseded
            | Self::Record(_) => false,
        }
    }

    /// The server that does not answer. Without the ledger nobody has a duty.
    pub(crate) fn server(&self) -> Option<Server> {
        match self {
            Self::Queue(error) => error.is_retryable().then_some(Server::Broker),
            Self::Storage(error) => error.is_retryable().then_some(Server::Storage),
            Self::Plan(error) => error.is_retryable().then_some(Server::Inputs),
            _ => None,
        }
    }

    /// What keeps a job from going on whose orchestrator met this; nothing where another one may go on at once.
    pub(crate) fn obstacle(&self) -> Option<ObstacleKind> {
        match self {
            Self::Alone { .. } | Self::NotTheOrchestrator | Self::Superseded | Self::RunAgain { .. } => None,
            error if error.is_retryable() => error.server().map(ObstacleKind::from),
            _ => Some(ObstacleKind::Watch),
        }
    }

    /// Whether it is a fault of this host, which another one may not have.
    pub(super) fn is_of_this_host(&self) -> bool {
        match self {
            Self::Logs { .. } | Self::NoPlan { .. } => true,
            Self::Plan(error) => error.is_of_this_host(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use prs_common::queue::QueueErrorKind;
    use prs_common::storage::StorageErrorKind;

    use super::*;

    fn storage(kind: StorageErrorKind) -> StorageError {
        StorageError { kind, place: String::new(), key: String::new(), message: String::new() }
    }

    fn ledger(kind: LedgerErrorKind) -> WatchError {
        LedgerError { kind, job: String::new(), message: String::new() }.into()
    }

    #[test]
    fn what_becomes_of_an_error() {
        use Disposition::{Fail, HandOver, Retry, RunAgain};
        let queue = |kind| QueueError { kind, name: String::new(), message: String::new() };
        let logs =
            || WatchError::Logs { path: PathBuf::new(), source: std::io::ErrorKind::StorageFull.into() };
        // On a fleet while it runs and while it ends; in one process the same.
        let table = [
            (ledger(LedgerErrorKind::Unavailable), [Retry, Retry, Retry, Fail]),
            (ledger(LedgerErrorKind::Refused), [Fail; 4]),
            (ledger(LedgerErrorKind::NotFound), [HandOver; 4]),
            (ledger(LedgerErrorKind::Superseded), [HandOver; 4]),
            (storage(StorageErrorKind::Unavailable).into(), [Retry, Retry, Retry, Fail]),
            (storage(StorageErrorKind::PermissionDenied).into(), [Fail; 4]),
            (storage(StorageErrorKind::Full).into(), [Fail; 4]),
            (queue(QueueErrorKind::Refused).into(), [Retry, Retry, Retry, Fail]),
            (WatchError::Damaged(Vec::new()), [RunAgain; 4]),
            (WatchError::RunAgain { reason: String::new() }, [HandOver; 4]),
            (WatchError::NotTheOrchestrator, [HandOver; 4]),
            (WatchError::Alone { server: Server::Broker, error: String::new() }, [HandOver; 4]),
            (WatchError::LedgerLost, [HandOver; 4]),
            (WatchError::Superseded, [HandOver; 4]),
            (WatchError::NoPlan { reason: String::new() }, [HandOver, HandOver, Fail, Fail]),
            (logs(), [HandOver, HandOver, Fail, Fail]),
        ];
        for (error, expected) in table {
            let seen = [(Policy::fleet(), true), (Policy::embedded(), false)].map(|(policy, others)| {
                [When::Looking, When::Ending].map(|when| disposition(&error, when, &policy, others))
            });
            assert_eq!(seen.concat(), expected, "{error:?}");
        }
        assert_eq!(disposition(&logs(), When::Looking, &Policy::fleet(), false), Fail);
    }

    #[test]
    fn what_an_error_lets_a_job_wait_for() {
        use ObstacleKind::{Broker, Storage, Watch};
        let queue =
            QueueError { kind: QueueErrorKind::Unavailable, name: String::new(), message: String::new() };
        let logs = WatchError::Logs { path: PathBuf::new(), source: std::io::ErrorKind::StorageFull.into() };
        let table = [
            (ledger(LedgerErrorKind::Unavailable), None),
            (ledger(LedgerErrorKind::Refused), Some(Watch)),
            (ledger(LedgerErrorKind::NotFound), Some(Watch)),
            (storage(StorageErrorKind::Unavailable).into(), Some(Storage)),
            (storage(StorageErrorKind::PermissionDenied).into(), Some(Watch)),
            (queue.into(), Some(Broker)),
            (logs, Some(Watch)),
            (WatchError::NoPlan { reason: String::new() }, Some(Watch)),
            (WatchError::LedgerLost, Some(Watch)),
            (WatchError::Damaged(Vec::new()), Some(Watch)),
            (WatchError::Alone { server: Server::Broker, error: String::new() }, None),
            (WatchError::NotTheOrchestrator, None),
            (WatchError::Superseded, None),
            (WatchError::RunAgain { reason: String::new() }, None),
        ];
        for (error, expected) in table {
            assert_eq!(error.obstacle(), expected, "{error:?}");
        }
    }
}
