//! Jobs on a fleet: handing them in, following them, ending them.
//!
//! The job runs on the workers. What this program does for it (uploading, publishing the plan, waiting) may be
//! interrupted at any point: what is handed in goes on without it.

mod control;
mod follow;
mod patience;
mod reader;
mod start;
#[cfg(test)]
mod tests;
mod workers;

use prs_common::servers::ServerUrls;
use prs_common::storage::{Storage, is_valid_key};
use prs_orchestrator::job::record::JobRecordError;
use prs_orchestrator::{Fleet, JobRecord};
use prs_worker::connect_fleet;

pub(crate) use control::{cancel, check_at_rest, ended_already, resume};
pub(crate) use follow::{Waited, leave, until_ended, wait};
pub(crate) use reader::Reader;
pub(crate) use start::{Handed, NewJob, start, waits_for_gc};

use crate::failure::Failure;

/// Connects to the fleet a command is for, if it is for one.
pub(crate) async fn connect(urls: Option<ServerUrls>) -> Result<Option<Fleet>, Failure> {
    let Some(urls) = urls else { return Ok(None) };
    Ok(Some(connect_fleet(&urls).await?))
}

/// Refuses what cannot be the id of a job.
pub(crate) fn check_id(job_id: &str) -> Result<(), Failure> {
    if is_valid_key(job_id) && !job_id.contains('/') {
        return Ok(());
    }
    Err(Failure::wrong(format!("{job_id:?} is not the id of a job")))
}

/// The record of the job that a command names.
pub(crate) async fn find(fleet: &Fleet, job_id: &str) -> Result<JobRecord, Failure> {
    check_id(job_id)?;
    let record = JobRecord::read(&*fleet.job_storage(job_id)).await;
    record.map_err(|error| unreadable(&*fleet.storage, job_id, error))
}

/// What it means that the record of a job cannot be read.
pub(crate) fn unreadable(storage: &dyn Storage, job_id: &str, error: JobRecordError) -> Failure {
    match error {
        JobRecordError::Absent { removed: true, .. } => Failure::wrong(format!(
            "job {job_id} is being removed; where that was interrupted, prs rm {job_id} goes on with it"
        )),
        JobRecordError::Absent { .. } => Failure::wrong(format!(
            "there is no job {job_id:?} in {storage}; prs list shows the jobs of the fleet"
        )),
        JobRecordError::Storage(error) => Failure::server(error),
        error @ (JobRecordError::Malformed { .. }
        | JobRecordError::OtherVersion { .. }
        | JobRecordError::Damaged { .. }) => Failure::usage(error),
    }
}
