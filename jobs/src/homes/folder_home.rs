//! A job in a run folder of this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use prs_common::ledger::{JobLedger, JobState};
use prs_common::storage::{LocalStorage, Storage, StorageError};
use prs_orchestrator::job::record::JobRecordError;
use prs_orchestrator::{JobRecord, JobResult};
use tokio::sync::watch::Sender;

use super::CANCEL_PATIENCE;
use super::home::{EncodedParts, JobHome, Seen, Settled, ended_already, object_of};
use super::run_folder;
use crate::failure::Failure;
use crate::standing::{Shown, Standing};

/// Between two looks at a run folder that is followed.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(150);
/// Between two looks at logs that grow.
const LOG_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks whether a run that is canceled has ended.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// A job in a run folder.
#[derive(Debug)]
pub(crate) struct FolderHome {
    folder: PathBuf,
    storage: Arc<dyn Storage>,
}

impl FolderHome {
    /// The job in this folder.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { storage: Arc::new(LocalStorage::new(&folder)), folder }
    }
}

#[async_trait]
impl JobHome for FolderHome {
    fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    fn called(&self) -> String {
        run_folder::called(&self.folder)
    }

    fn known_id(&self) -> Option<&str> {
        None
    }

    fn output(&self, record: &JobRecord) -> Arc<dyn Storage> {
        Arc::new(LocalStorage::new(run_folder::output(&self.folder, record)))
    }

    fn run_folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    fn step_storage(&self, id: &str) -> Arc<dyn Storage> {
        Arc::new(LocalStorage::new(self.folder.join(run_folder::STEPS).join(id)))
    }

    fn logs(&self) -> String {
        self.folder.join("logs").display().to_string()
    }

    fn log_interval(&self) -> Duration {
        LOG_INTERVAL
    }

    fn shared_inputs(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.storage)
    }

    fn failure(&self, error: anyhow::Error) -> Failure {
        error.into()
    }

    fn unreadable(&self, error: JobRecordError) -> Failure {
        match error {
            error @ JobRecordError::Absent { .. } => Failure::not_found(error),
            error => Failure::usage(error),
        }
    }

    fn has_ended(&self, _: &JobRecord) -> bool {
        !run_folder::is_locked(&self.folder)
    }

    fn interrupted(&self) -> Option<String> {
        Some(run_folder::interrupted(&self.folder))
    }

    async fn is_listed(&self) -> Result<bool, Failure> {
        Ok(false)
    }

    /// A job that nobody works on any more, and that has no end, was interrupted.
    async fn settle(&self, record: JobRecord, _: &[&'static str]) -> Result<Settled, Failure> {
        let mut record = record;
        if !record.state.is_final() && !run_folder::is_locked(&self.folder) {
            // It may have ended between the two looks.
            record = JobRecord::read(&*self.storage).await.map_err(|error| self.unreadable(error))?;
            if !record.state.is_final() {
                record.state = JobState::Failed;
            }
        }
        let cancel_asked_us = run_folder::cancel_asked_us(&self.folder).filter(|_| !record.state.is_final());
        Ok((record, Standing { cancel_asked_us, ..Standing::default() }, EncodedParts::new()))
    }

    async fn ledger(&self, _: &JobRecord) -> Result<Option<Arc<dyn JobLedger>>, Failure> {
        Ok(None)
    }

    async fn object(&self, _: &JobRecord, key: &str) -> Result<Option<Bytes>, StorageError> {
        object_of(&*self.storage, key).await
    }

    async fn until_ended(&self, mut seen: Seen, view: Sender<Shown>) -> Result<JobResult, Failure> {
        while !seen.result.state.is_final() {
            view.send_replace(seen.shown());
            tokio::time::sleep(FOLLOW_INTERVAL).await;
            seen = (self as &dyn JobHome).look().await?;
        }
        Ok(seen.result)
    }

    /// Asks the program that runs the job.
    async fn cancel(&self, who: &str) -> Result<JobResult, Failure> {
        let folder = &self.folder;
        if !run_folder::is_locked(folder) {
            let record = (self as &dyn JobHome).record().await?;
            let id = &record.job_id;
            return Err(record.result.as_ref().map_or_else(
                || Failure::wrong(format!("job {id} is not running: {}", run_folder::interrupted(folder))),
                ended_already,
            ));
        }
        let asked = Instant::now();
        while run_folder::is_locked(folder) {
            // Again, for the program forgets what was asked before it began.
            run_folder::ask_to_cancel(folder, who).map_err(Failure::usage)?;
            if asked.elapsed() > CANCEL_PATIENCE {
                return Err(anyhow::anyhow!(
                    "the run in {} was asked to end and has not ended after {} s",
                    folder.display(),
                    CANCEL_PATIENCE.as_secs()
                )
                .into());
            }
            tokio::time::sleep(CANCEL_INTERVAL).await;
        }
        run_folder::forget_cancel(folder);
        let result = (self as &dyn JobHome).record().await?.result;
        result.ok_or_else(|| {
            anyhow::anyhow!("the run ended without a result: {}", run_folder::interrupted(folder)).into()
        })
    }

    async fn clear(&self, start: Option<u32>, keeps_output: bool) -> Result<bool, Failure> {
        run_folder::remove(&self.folder, start, keeps_output).await
    }
}
