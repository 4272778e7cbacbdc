//! Where a job lives: a run folder of this machine, or a prefix in the storage of a fleet.
//!
//! Both have the same inside (spec section 7). They differ in who knows how a job that has not ended stands: the lock of
//! the run folder, or the ledger. What differs is the trait [`JobHome`]; what is the same is written once, for any home, so
//! commands do not ask which it is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use prs_common::code::archive::is_intact;
use prs_common::failpoint;
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::storage::{Storage, StorageExt};
use prs_orchestrator::inputs::InputStores;
use prs_orchestrator::job::findings::Findings;
use prs_orchestrator::job::record::{JobRecordError, Output};
use prs_orchestrator::{JobRecord, JobResult};
use prs_worker::opener;
use tokio::sync::watch::Sender;

use super::naming::Id;
use super::standing::{Shown, Standing};
use crate::failure::Failure;

/// A job's home.
pub(crate) type Home = Box<dyn JobHome>;

/// What differs between a run folder and a fleet.
#[async_trait]
pub(crate) trait JobHome: fmt::Debug + Send + Sync {
    /// Everything of the job.
    fn storage(&self) -> &Arc<dyn Storage>;
    /// What commands call the job.
    fn called(&self) -> String;
    /// The id of the job, where the home tells it without the record.
    fn known_id(&self) -> Option<&str>;
    /// Where the output of the job is, or will be.
    fn output(&self, record: &JobRecord) -> Arc<dyn Storage>;
    /// Folder of the logs: a path, or a URL.
    fn logs(&self) -> String;
    /// Between two looks at the logs.
    fn log_interval(&self) -> Duration;
    /// Where inputs are that several jobs may name.
    fn shared_inputs(&self) -> Arc<dyn Storage>;
    /// What it means that the storage fails.
    fn failure(&self, error: anyhow::Error) -> Failure;
    /// What it means that the record cannot be read.
    fn unreadable(&self, error: JobRecordError) -> Failure;
    /// Whether nobody works on the job any more.
    fn has_ended(&self, record: &JobRecord) -> bool;
    /// Why the job has a final state and no result.
    fn interrupted(&self) -> Option<String>;
    /// Whether the list of jobs has it, where it has no record.
    async fn is_listed(&self) -> Result<bool, Failure>;
    /// What is true of `record`, as it was just read, and what a fleet does for the job.
    async fn settle(&self, record: JobRecord) -> Result<(JobRecord, Standing), Failure>;
    /// Looks at the job, as it was seen, until it has ended; tells `view` what it sees.
    async fn until_ended(&self, seen: Seen, view: Sender<Shown>) -> Result<JobResult, Failure>;
    /// Cancels the job for `who`, and waits until it has ended.
    async fn cancel(&self, who: &str) -> Result<JobResult, Failure>;
    /// Removes everything of the job, as it was seen at its `start`; false where it is in use, or was started again since.
    async fn clear(&self, start: Option<u32>) -> Result<bool, Failure>;
}

/// A job at one moment.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Its record, with state and counts of now.
    pub(crate) record: JobRecord,
    /// Its result, or the result so far.
    pub(crate) result: JobResult,
    /// What a fleet does for it.
    pub(crate) standing: Standing,
}

impl Seen {
    /// The job as it is shown.
    pub(crate) fn shown(&self) -> Shown {
        let JobRecord { state, status, .. } = &self.record;
        Shown { state: Some(*state), status: status.clone(), standing: self.standing.clone() }
    }
}

/// What is there of a job that is to be removed.
#[derive(Debug)]
pub(crate) enum Leftover {
    /// It has ended.
    Job { state: JobState, name: String, submitted_us: u64, kept_until_us: Option<u64>, start: u32 },
    /// It has no record: a program was stopped while it removed the job, which `removed` tells for certain, or before the job
    /// was handed in.
    Remains { removed: bool },
}

impl Leftover {
    /// The last start of the job, from 1; nothing where it has no record.
    pub(crate) fn start(&self) -> Option<u32> {
        match self {
            Self::Job { start, .. } => Some(*start),
            Self::Remains { .. } => None,
        }
    }
}

impl dyn JobHome + '_ {
    /// The id of the job; nothing where its record cannot be read, or it has an id of another form.
    pub(crate) async fn id(&self) -> Option<Id> {
        match self.known_id() {
            Some(id) => Id::parse(id),
            None => Id::parse(&self.record().await.ok()?.job_id),
        }
    }

    /// Whether the job may have this name in its job file, as far as its id tells.
    pub(crate) fn may_have_name(&self, name: &str) -> bool {
        self.known_id().and_then(Id::parse).is_none_or(|id| id.name == name)
    }

    /// What it means that its storage fails; `what` completes "cannot ...".
    pub(crate) fn cannot<E: Into<anyhow::Error>>(&self, what: &str) -> impl Fn(E) -> Failure {
        move |error| self.failure(error.into().context(format!("cannot {what}")))
    }

    /// The record as it is stored.
    pub(crate) async fn record(&self) -> Result<JobRecord, Failure> {
        JobRecord::read(&**self.storage()).await.map_err(|error| self.unreadable(error))
    }

    /// The job as it is now.
    pub(crate) async fn look(&self) -> Result<Seen, Failure> {
        let (record, standing) = self.settle(self.record().await?).await?;
        let result = record.result.clone().unwrap_or_else(|| self.result_so_far(&record));
        Ok(Seen { record, result, standing })
    }

    /// The archive of the code that the job ran last. `remedy` says what to do where it is damaged.
    pub(crate) async fn code(&self, record: &JobRecord, remedy: &str) -> Result<Bytes, Failure> {
        let archive = self.storage().get(&record.code).await;
        let archive = archive.map_err(self.cannot("read the code of the job"))?;
        if !is_intact(&archive, layout::checksum_of_code(&record.code)) {
            return Err(Failure::wrong(format!(
                "the code of the job is damaged in storage: {} is not what its name says; {remedy}",
                self.storage().uri(&record.code)
            )));
        }
        Ok(archive)
    }

    /// Where the data of the job's inputs is.
    pub(crate) fn inputs(&self) -> InputStores {
        InputStores::new(self.shared_inputs(), Arc::clone(self.storage()), opener())
    }

    /// How many objects the job has, and their bytes.
    pub(crate) async fn amount(&self) -> Result<(u64, u64), Failure> {
        let listed = self.storage().list_all("").await.map_err(self.cannot("list what the job has"))?;
        Ok((listed.len() as u64, listed.iter().map(|object| object.size).sum()))
    }

    /// What is there to be removed; a job that has not ended is refused.
    pub(crate) async fn leftover(&self) -> Result<Leftover, Failure> {
        let record = match JobRecord::read(&**self.storage()).await {
            Ok(record) => record,
            Err(JobRecordError::Absent { removed, .. }) if removed || self.is_listed().await? => {
                return Ok(Leftover::Remains { removed });
            }
            Err(error) => return Err(self.unreadable(error)),
        };
        if !self.has_ended(&record) {
            let id = self.called();
            return Err(Failure::wrong(format!(
                "job {id} has not ended; prs cancel {id} ends it, and then it can be removed"
            )));
        }
        Ok(Leftover::Job {
            state: record.state,
            name: record.spec.name,
            submitted_us: record.submitted_us,
            kept_until_us: record.result.and_then(|result| result.kept_until_us),
            start: record.incarnation,
        })
    }

    /// Removes the job, as it was seen at its `start`; one that was started again since stays, which is an error of usage.
    /// What was interrupted can be done again.
    pub(crate) async fn remove(&self, start: Option<u32>) -> Result<(), Failure> {
        failpoint::pass("removes_job");
        if self.clear(start).await? {
            return Ok(());
        }
        Err(Failure::wrong(format!(
            "job {} is in use, or was started again meanwhile: it is not removed",
            self.called()
        )))
    }

    fn result_so_far(&self, record: &JobRecord) -> JobResult {
        let progress = &record.status.progress;
        JobResult {
            job_id: record.job_id.clone(),
            name: record.spec.name.clone(),
            submitted_us: record.submitted_us,
            ended_us: None,
            kept_until_us: None,
            state: record.state,
            reason: self.interrupted().filter(|_| record.state.is_final()),
            output: Output { uri: self.output(record).uri(""), ..Output::default() },
            logs: self.logs(),
            mini_batches: progress.into(),
            items: progress.into(),
            seconds: record.status.seconds,
            starts: Vec::new(),
            findings: Findings { failures_allowed: record.spec.failures_allowed, ..Findings::default() },
        }
    }
}

/// Why there is nothing to cancel.
pub(super) fn ended_already(result: &JobResult) -> Failure {
    let how = match result.state {
        JobState::Completed => "completed",
        JobState::Canceled => "was canceled",
        _ => "failed",
    };
    Failure::wrong(format!("job {} has ended already: it {how}", result.job_id))
}
