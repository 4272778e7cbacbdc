//! Where a job lives: a run folder of this machine, or a prefix in the storage of a fleet.
//!
//! Both have the same inside (spec section 7). They differ in who knows how a job that has not ended stands: the lock of
//! the run folder, or the ledger. What differs is the trait [`JobHome`]; what is the same is written once, for any home, so
//! commands do not ask which it is.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use prs_common::code::archive::is_intact;
use prs_common::failpoint;
use prs_common::job::InputSource;
use prs_common::job::pipeline::step_id;
use prs_common::layout;
use prs_common::ledger::{JobLedger, JobState};
use prs_common::storage::{Storage, StorageError, StorageErrorKind, StorageExt};
use prs_orchestrator::inputs::InputStores;
use prs_orchestrator::job::active::active_ids;
use prs_orchestrator::job::record::{JobRecordError, Output};
use prs_orchestrator::job::targets::wanted_nodes;
use prs_orchestrator::{JobRecord, JobResult};
use prs_worker::opener;
use tokio::sync::watch::Sender;

use super::naming::Id;
use crate::failure::Failure;
use crate::standing::{Shown, Standing};

/// A job's home.
pub type Home = Box<dyn JobHome>;

/// Parts of the statistics of a job by their names, encoded.
pub type EncodedParts = HashMap<&'static str, Bytes>;

/// A job as it is now: its record, what a fleet does for it, and parts of its statistics.
pub type Settled = (JobRecord, Standing, EncodedParts);

/// What differs between a run folder and a fleet.
#[async_trait]
pub trait JobHome: fmt::Debug + Send + Sync {
    /// Everything of the job.
    fn storage(&self) -> &Arc<dyn Storage>;
    /// What commands call the job.
    fn called(&self) -> String;
    /// The id of the job, where the home tells it without the record.
    fn known_id(&self) -> Option<&str>;
    /// Where the output of the job is, or will be.
    fn output(&self, record: &JobRecord) -> Arc<dyn Storage>;
    /// The folder of the run, where it is on this machine.
    fn run_folder(&self) -> Option<&Path>;
    /// Everything of the job of a step, which has this id, where the job is a pipeline.
    fn step_storage(&self, id: &str) -> Arc<dyn Storage>;
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
    /// Refuses a storage that is known to have lost everything.
    async fn check_storage(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// Whether nobody works on the job any more.
    fn has_ended(&self, record: &JobRecord) -> bool;
    /// Why the job has a final state and no result.
    fn interrupted(&self) -> Option<String>;
    /// Whether the list of jobs has it, where it has no record.
    async fn is_listed(&self) -> Result<bool, Failure>;
    /// What is true of `record`, as it was just read, and what a fleet does for the job; with the parts of its statistics of these names,
    /// as far as its ledger has them now. A fleet is asked once.
    async fn settle(&self, record: JobRecord, parts: &[&'static str]) -> Result<Settled, Failure>;
    /// What the ledger of a fleet keeps of the job, as it was seen; none where there is no ledger to ask, or the job has ended.
    async fn ledger(&self, record: &JobRecord) -> Result<Option<Arc<dyn JobLedger>>, Failure>;
    /// An object of the job, as it was seen; nothing where there is none. Of a job that has ended it may be that of a moment ago.
    async fn object(&self, record: &JobRecord, key: &str) -> Result<Option<Bytes>, StorageError>;
    /// Looks at the job, as it was seen, until it has ended; tells `view` what it sees.
    async fn until_ended(&self, seen: Seen, view: Sender<Shown>) -> Result<JobResult, Failure>;
    /// Cancels the job for `who`, and waits until it has ended.
    async fn cancel(&self, who: &str) -> Result<JobResult, Failure>;
    /// Removes everything of the job, as it was seen at its `start`, but for its result where that is to be kept; false where it is in
    /// use, or was started again since.
    async fn clear(&self, start: Option<u32>, keeps_output: bool) -> Result<bool, Failure>;
}

/// A job at one moment.
#[derive(Debug)]
pub struct Seen {
    /// Its record, with state and counts of now.
    pub record: JobRecord,
    /// Its result, or the result so far.
    pub result: JobResult,
    /// What a fleet does for it.
    pub standing: Standing,
}

impl Seen {
    /// The job as it is shown.
    pub fn shown(&self) -> Shown {
        let JobRecord { state, status, .. } = &self.record;
        let state = Some(*state).filter(|_| self.is_known());
        Shown { state, status: status.clone(), standing: self.standing.clone() }
    }

    /// Whether it is known where the job stands. While the ledger of a fleet gives no answer, storage knows how the job was
    /// handed in, and no more.
    pub fn is_known(&self) -> bool {
        self.result.state.is_final() || self.standing.waits_for.is_none()
    }

    /// Returns how many nodes the job can use now; 0 once it has ended, and of a pipeline, whose steps have the nodes.
    pub fn nodes_wanted(&self) -> u64 {
        let JobRecord { spec, status, pipeline, .. } = &self.record;
        let wants = !self.result.state.is_final() && pipeline.is_none();
        if wants { wanted_nodes(spec.node_count, Some(&status.progress)) } else { 0 }
    }
}

/// What is there of a job that is to be removed.
#[derive(Debug)]
pub enum Leftover {
    /// It has ended.
    Job {
        /// How.
        state: JobState,
        /// Its name in the job file.
        name: String,
        /// When it was submitted, microseconds since 1970.
        submitted_us: u64,
        /// Until when it is kept, microseconds since 1970; nothing where nobody said.
        kept_until_us: Option<u64>,
        /// Its last start, from 1.
        start: u32,
    },
    /// It has no record: a program was stopped while it removed the job, which `removed` tells for certain, or before the job
    /// was handed in.
    Remains {
        /// Whether it is certain that there was a job, which was being removed.
        removed: bool,
    },
    /// Its record cannot be read, and no worker is to serve it.
    Unread,
}

impl Leftover {
    /// The last start of the job, from 1; nothing where it has no record.
    pub fn start(&self) -> Option<u32> {
        match self {
            Self::Job { start, .. } => Some(*start),
            Self::Remains { .. } | Self::Unread => None,
        }
    }
}

impl dyn JobHome + '_ {
    /// The id of the job; nothing where that says too little and the record cannot be read, and of a step.
    pub async fn id(&self) -> Option<Id> {
        if let Some(id) = self.known_id().and_then(Id::parse) {
            return Some(id);
        }
        let record = self.record().await.ok()?;
        // One that its user chose says nothing of when the job was submitted.
        Id::parse(&record.job_id).or_else(|| record.parent.is_none().then(|| Id::of(&record)))
    }

    /// Whether the job may have this name in its job file, as far as its id tells.
    pub fn may_have_name(&self, name: &str) -> bool {
        self.known_id().and_then(Id::parse).is_none_or(|id| id.name == name)
    }

    /// What it means that its storage fails; `what` completes "cannot ...".
    pub fn cannot<E: Into<anyhow::Error>>(&self, what: &str) -> impl Fn(E) -> Failure {
        move |error| self.failure(error.into().context(format!("cannot {what}")))
    }

    /// The record as it is stored.
    pub async fn record(&self) -> Result<JobRecord, Failure> {
        match JobRecord::read(&**self.storage()).await {
            Err(error @ JobRecordError::Absent { removed: false, .. }) => {
                self.check_storage().await?;
                Err(self.unreadable(error))
            }
            read => read.map_err(|error| self.unreadable(error)),
        }
    }

    /// The job as it is now.
    pub async fn look(&self) -> Result<Seen, Failure> {
        self.settled(self.record().await?).await
    }

    /// The job of a record that was just read, as it is now.
    pub async fn settled(&self, record: JobRecord) -> Result<Seen, Failure> {
        Ok(self.settled_with(record, &[]).await?.0)
    }

    /// The same, with the parts of its statistics of these names, as far as its ledger has them now.
    pub(crate) async fn settled_with(
        &self,
        record: JobRecord,
        parts: &[&'static str],
    ) -> Result<(Seen, EncodedParts), Failure> {
        let (record, standing, parts) = self.settle(record, parts).await?;
        let result = record.result.clone().unwrap_or_else(|| self.result_so_far(&record));
        Ok((Seen { record, result, standing }, parts))
    }

    /// The archive of the code that the job ran last. `remedy` says what to do where it is damaged.
    pub async fn code(&self, record: &JobRecord, remedy: &str) -> Result<Bytes, Failure> {
        let (storage, code) = (self.main_storage(record), record.as_given().code);
        let archive = storage.get(&code).await;
        let archive = archive.map_err(self.cannot("read the code of the job"))?;
        if !is_intact(&archive, layout::checksum_of_code(&code)) {
            return Err(Failure::wrong(format!(
                "the code of the job is damaged in storage: {} is not what its name says; {remedy}",
                storage.uri(&code)
            )));
        }
        Ok(archive)
    }

    /// Where the code of the job is, and what its nodes brought.
    pub fn main_storage(&self, record: &JobRecord) -> Arc<dyn Storage> {
        record.main_step().map_or_else(|| Arc::clone(self.storage()), |main| self.step_storage(&main))
    }

    /// Where the listings of its inputs and side inputs are.
    pub fn listings(&self, record: &JobRecord) -> Vec<Arc<dyn Storage>> {
        let Some(plan) = record.pipeline.as_deref().filter(|_| record.main_step().is_some()) else {
            return vec![Arc::clone(self.storage())];
        };
        let steps = plan.pipeline.steps.iter();
        // What the inputs are in the eyes of the user, the first step knows.
        steps.map(|step| self.step_storage(&step_id(&record.job_id, &step.name))).collect()
    }

    /// Refuses a pipeline, which has no mini-batches of its own.
    pub fn check_has_mini_batches(&self, record: &JobRecord) -> Result<(), Failure> {
        let Some(plan) = &record.pipeline else { return Ok(()) };
        let steps: Vec<_> =
            plan.pipeline.steps.iter().map(|step| step_id(&record.job_id, &step.name)).collect();
        Err(Failure::wrong(format!(
            "{} is a pipeline, which has no mini-batches of its own: name the job of a step ({})",
            self.called(),
            steps.join(", ")
        )))
    }

    /// Refuses what cannot be run by itself again: a pipeline, and a step of one that never began.
    pub fn check_runs_alone(&self, record: &JobRecord) -> Result<(), Failure> {
        let id = self.called();
        if record.pipeline.is_some() && record.main_step().is_none() {
            return Err(Failure::wrong(format!(
                "{id} is a pipeline: submit its file again; its steps are jobs, which prs list --parent {id} lists"
            )));
        }
        if record.spec.sources().any(|source| matches!(source, InputSource::Output(_))) {
            return Err(Failure::wrong(format!("{id} is a step that was not run: prs resume its pipeline")));
        }
        Ok(())
    }

    /// Where the data of the job's inputs is.
    pub fn inputs(&self) -> InputStores {
        InputStores::new(self.shared_inputs(), Arc::clone(self.storage()), opener())
    }

    /// How many objects the job has, and their bytes.
    pub async fn amount(&self) -> Result<(u64, u64), Failure> {
        let listed = self.storage().list_all("").await.map_err(self.cannot("list what the job has"))?;
        Ok((listed.len() as u64, listed.iter().map(|object| object.size).sum()))
    }

    /// What is there to be removed; a job that has not ended is refused.
    pub async fn leftover(&self) -> Result<Leftover, Failure> {
        let record = match JobRecord::read(&**self.storage()).await {
            Ok(record) => record,
            Err(JobRecordError::Absent { removed, .. }) if removed || self.is_listed().await? => {
                return Ok(Leftover::Remains { removed });
            }
            Err(error) if error.is_for_good() && self.run_folder().is_none() => {
                let ids = active_ids(&*self.shared_inputs()).await;
                return if ids
                    .map_err(self.cannot("list the jobs that workers are to serve"))?
                    .contains(&self.called())
                {
                    Err(self.unreadable(error))
                } else {
                    Ok(Leftover::Unread)
                };
            }
            Err(error) => return Err(self.unreadable(error)),
        };
        if !self.has_ended(&record) {
            let id = self.called();
            return Err(Failure::wrong(format!(
                "job {id} has not ended; prs cancel {id} ends it, and then it can be removed"
            )));
        }
        if let Some(parent) = &record.parent {
            let (id, parent) = (self.called(), &parent.job_id);
            return Err(Failure::wrong(format!(
                "job {id} is a step of {parent}, which would run it again: prs rm {parent} removes both"
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
    pub async fn remove(&self, start: Option<u32>) -> Result<(), Failure> {
        self.remove_but(start, false).await
    }

    /// The same, which leaves the result where it is to be kept.
    pub async fn remove_but(&self, start: Option<u32>, keeps_output: bool) -> Result<(), Failure> {
        failpoint::pass("removes_job");
        if self.clear(start, keeps_output).await? {
            return Ok(());
        }
        Err(Failure::wrong(format!(
            "job {} is in use, or was started again meanwhile: it is not removed",
            self.called()
        )))
    }

    /// The result so far of a job that was seen.
    pub(crate) fn result_so_far(&self, record: &JobRecord) -> JobResult {
        JobResult {
            reason: self.interrupted().filter(|_| record.state.is_final()),
            output: Output {
                // Where it will be.
                uri: record.spec.deliver_to.clone().unwrap_or_else(|| self.output(record).uri("")),
                ..Output::default()
            },
            logs: self.logs(),
            ..record.result_so_far()
        }
    }
}

/// Why there is nothing to cancel.
pub(crate) fn ended_already(result: &JobResult) -> Failure {
    let how = match result.state {
        JobState::Completed => "completed",
        JobState::Canceled => "was canceled",
        _ => "failed",
    };
    Failure::wrong(format!("job {} has ended already: it {how}", result.job_id))
}

/// An object; nothing where there is none.
pub(super) async fn object_of(storage: &dyn Storage, key: &str) -> Result<Option<Bytes>, StorageError> {
    match storage.get(key).await {
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}
