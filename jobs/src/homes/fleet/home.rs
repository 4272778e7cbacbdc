//! A job in the storage of a fleet.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use prs_common::job::pipeline::step_id;
use prs_common::layout;
use prs_common::ledger::{JobLedger, LedgerError, LedgerErrorKind};
use prs_common::storage::{Storage, StorageError, is_valid_key};
use prs_common::timestamp::now_us;
use prs_orchestrator::gc::removal::remove_job;
use prs_orchestrator::job::record::JobRecordError;
use prs_orchestrator::{JobRecord, JobResult, Policy, run_name};
use prs_worker::connect_fleet;
use tokio::sync::watch::Sender;

use super::cancel::{cancel, cancel_unread};
use super::ended::EndedObject;
use super::follow::{LEDGER, ask, until_ended};
use super::pipeline;
use super::reader::Reader;
use super::workers::workers;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::home::{EncodedParts, JobHome, Seen, Settled, object_of};
use crate::standing::{Shown, Standing, WaitsFor};

/// A job of a fleet.
#[derive(Debug)]
pub(crate) struct FleetHome {
    reader: Arc<Reader>,
    caller: Arc<dyn Caller>,
    job_id: String,
    storage: Arc<dyn Storage>,
}

impl FleetHome {
    /// The job with this id; what cannot be an id is refused. `caller` hears what there is to say.
    pub(crate) fn new(reader: Arc<Reader>, caller: &Arc<dyn Caller>, job_id: &str) -> Result<Self, Failure> {
        if !is_valid_key(job_id) || job_id.contains('/') {
            return Err(Failure::not_found(format!("{job_id:?} is not the id of a job")));
        }
        let (storage, caller) = (reader.job_storage(job_id), Arc::clone(caller));
        Ok(Self { storage, caller, job_id: job_id.to_owned(), reader })
    }
}

impl FleetHome {
    /// Removes what the ledger has of the job up to its start `last`, and notes in the index of jobs that it is removed. Where that
    /// fails, its keys expire, and the keeper of the index finds the job gone.
    async fn leave_ledger(&self, last: Option<u32>) {
        let ledger = match self.reader.ledger(&*self.caller).await {
            Ok(Some(ledger)) => ledger,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(job = self.job_id, %error, "lists show the removed job a little longer");
                return;
            }
        };
        let left = async {
            ledger.forget_job(&self.job_id).await?;
            for start in 1..=last.unwrap_or(1) {
                ledger.job(&run_name(&self.job_id, start)).remove().await?;
            }
            Ok::<_, LedgerError>(())
        };
        if let Err(error) = left.await {
            tracing::debug!(job = self.job_id, %error, "the ledger has the removed job a little longer");
        }
    }
}

#[async_trait]
impl JobHome for FleetHome {
    fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    fn called(&self) -> String {
        self.job_id.clone()
    }

    fn known_id(&self) -> Option<&str> {
        Some(&self.job_id)
    }

    fn output(&self, record: &JobRecord) -> Arc<dyn Storage> {
        let main = record.main_step().map(|main| self.reader.job_storage(&main));
        main.as_ref().unwrap_or(&self.storage).below(layout::OUTPUT.trim_end_matches('/'))
    }

    fn run_folder(&self) -> Option<&Path> {
        None
    }

    fn step_storage(&self, id: &str) -> Arc<dyn Storage> {
        self.reader.job_storage(id)
    }

    fn logs(&self) -> String {
        self.storage.uri(layout::LOGS)
    }

    /// Each node delivers its own every now and then.
    fn log_interval(&self) -> Duration {
        Policy::fleet().logs / 2
    }

    fn shared_inputs(&self) -> Arc<dyn Storage> {
        Arc::clone(self.reader.storage())
    }

    fn failure(&self, error: anyhow::Error) -> Failure {
        Failure::server(error)
    }

    fn unreadable(&self, error: JobRecordError) -> Failure {
        let Self { job_id, reader, .. } = self;
        match error {
            JobRecordError::Absent { removed: true, .. } => Failure::not_found(format!(
                "job {job_id} is being removed; where that was interrupted, prs rm {job_id} goes on with it"
            )),
            JobRecordError::Absent { .. } => Failure::not_found(format!(
                "there is no job {job_id:?} in {}; prs list shows the jobs of the fleet",
                reader.storage()
            )),
            JobRecordError::Storage(error) => Failure::server(error),
            error @ JobRecordError::OtherVersion { .. } => Failure::usage(error),
            error @ (JobRecordError::Malformed { .. } | JobRecordError::Damaged { .. }) => Failure::usage(error)
                .and(format_args!(
                    "prs cancel {job_id} takes the job from the workers that are to serve it, and prs rm {job_id} removes it"
                )),
        }
    }

    async fn check_storage(&self) -> Result<(), Failure> {
        self.reader.check_identity_again().await
    }

    fn has_ended(&self, record: &JobRecord) -> bool {
        record.result.is_some()
    }

    fn interrupted(&self) -> Option<String> {
        None
    }

    async fn is_listed(&self) -> Result<bool, Failure> {
        Ok(self.reader.job_ids().await?.contains(&self.job_id))
    }

    async fn settle(&self, record: JobRecord, parts: &[&'static str]) -> Result<Settled, Failure> {
        let mut standing = Standing { target: record.spec.compute_target.clone(), ..Standing::default() };
        let none = EncodedParts::new();
        if record.result.is_some() {
            return Ok((record, standing, none));
        }
        let away = |reason: String| {
            let seconds = self.reader.ledger_away_for().map(|away| away.as_secs_f64());
            Some(WaitsFor { server: LEDGER, seconds, reason })
        };
        let Some(ledger) = self.reader.ledger(&*self.caller).await? else {
            standing.waits_for = away("it gives no answer".to_owned());
            return Ok((record, standing, none));
        };
        match ask(&*ledger, &record, parts).await {
            Ok((state, status, found)) if !state.is_final() => {
                standing.obstacle = WaitsFor::of(status.progress.obstacle.as_ref());
                // Workers serve the steps of a pipeline; it has no node itself.
                if status.nodes == 0 && record.pipeline.is_none() {
                    standing.workers = workers(&*ledger, &record).await;
                }
                let found = parts.iter().zip(found).filter_map(|(name, part)| Some((*name, part?)));
                Ok((JobRecord { state, status, ..record }, standing, found.collect()))
            }
            Err(error) if error.kind == LedgerErrorKind::Unavailable => {
                standing.waits_for = away(error.to_string());
                self.reader.without_ledger(error, &*self.caller)?;
                Ok((record, standing, none))
            }
            Err(error) if error.kind != LedgerErrorKind::NotFound => Err(Failure::server(error)),
            // It has ended meanwhile, was never handed in, or the ledger lost it.
            _ => {
                let record = (self as &dyn JobHome).record().await?;
                if record.result.is_none() && record.pipeline.is_none() {
                    standing.workers = workers(&*ledger, &record).await;
                }
                Ok((record, standing, none))
            }
        }
    }

    async fn ledger(&self, record: &JobRecord) -> Result<Option<Arc<dyn JobLedger>>, Failure> {
        if record.result.is_some() {
            return Ok(None);
        }
        let run = run_name(&record.job_id, record.incarnation);
        Ok(self.reader.ledger(&*self.caller).await?.map(|ledger| ledger.job(&run)))
    }

    async fn object(&self, record: &JobRecord, key: &str) -> Result<Option<Bytes>, StorageError> {
        let kept = self.reader.ended();
        let name = EndedObject::of(record, key, now_us());
        if let Some(found) = name.as_ref().and_then(|name| kept.get(name)) {
            return Ok(found);
        }
        let found = object_of(&*self.storage, key).await?;
        if let Some(name) = name {
            kept.put(name, found.clone());
        }
        Ok(found)
    }

    async fn until_ended(&self, seen: Seen, view: Sender<Shown>) -> Result<JobResult, Failure> {
        let ledger = self.reader.ledger(&*self.caller).await?;
        let ledger = ledger.as_deref();
        until_ended(ledger, &*self.storage, &seen.record, view, &*self.caller).await
    }

    async fn cancel(&self, who: &str) -> Result<JobResult, Failure> {
        let fleet = connect_fleet(self.reader.urls()).await?;
        let record = match JobRecord::read(&*self.storage).await {
            Err(error) if error.is_for_good() => {
                let ended = cancel_unread(&fleet, &self.job_id, who, &*self.caller).await?;
                return ended.ok_or_else(|| self.unreadable(error));
            }
            Ok(record) => record,
            Err(_) => (self as &dyn JobHome).record().await?,
        };
        match (&record.pipeline, &record.result) {
            (Some(_), None) => pipeline::cancel(&fleet, &record, who, &*self.caller).await,
            _ => cancel(&fleet, &record, who, &*self.caller).await,
        }
    }

    async fn clear(&self, start: Option<u32>, keeps_output: bool) -> Result<bool, Failure> {
        // Its steps first: as long as it has its record, a removal that was interrupted goes on with them.
        if let Ok(JobRecord { pipeline: Some(plan), incarnation, result: Some(_), .. }) =
            JobRecord::read(&*self.storage).await
            && start == Some(incarnation)
        {
            for step in &plan.pipeline.steps {
                let id = step_id(&self.job_id, &step.name);
                let step = FleetHome::new(Arc::clone(&self.reader), &self.caller, &id)?;
                let start = JobRecord::read(&*step.storage).await.ok().map(|record| record.incarnation);
                step.clear(start, keeps_output).await?;
            }
        }
        let leave = async |last| self.leave_ledger(last).await;
        let removed = remove_job(&**self.reader.storage(), &self.job_id, start, keeps_output, leave).await;
        removed.map_err(|error| match error {
            JobRecordError::Storage(error) => Failure::server(
                anyhow::Error::from(error).context(format!("cannot remove job {}", self.job_id)),
            ),
            error => self.unreadable(error),
        })
    }
}
