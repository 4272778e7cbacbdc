//! Jobs on a fleet: handing them in, following them, ending them.
//!
//! The job runs on the workers. What this program does for it (uploading, publishing the plan, waiting) may be
//! interrupted at any point: what is handed in goes on without it.

mod control;
mod follow;
mod reader;
mod start;
#[cfg(test)]
mod tests;

use prs_common::servers::ServerUrls;
use prs_common::storage::{Storage, is_valid_key};
use prs_orchestrator::job_record::JobRecordError;
use prs_orchestrator::{Fleet, JobRecord};
use prs_worker::connect_fleet;

pub(crate) use control::{cancel, ended_already, resume};
pub(crate) use follow::{Waited, leave, until_ended, wait};
pub(crate) use reader::Reader;
pub(crate) use start::{Handed, NewJob, start};

use crate::cli::Servers;
use crate::failure::Failure;

/// The fleet a command is for; nothing when it is for this machine alone.
pub(crate) async fn connect(servers: &Servers) -> Result<Option<Fleet>, Failure> {
    let Some(urls) = urls(servers)? else { return Ok(None) };
    Ok(Some(connect_fleet(&urls).await?))
}

/// Whether a command is for a fleet; an error where only some of its servers are named.
pub(crate) fn is_meant(servers: &Servers) -> Result<bool, Failure> {
    Ok(urls(servers)?.is_some())
}

/// Where the servers are that a command names; nothing when it names none. An empty variable names none.
fn urls(servers: &Servers) -> Result<Option<ServerUrls>, Failure> {
    let Servers { broker, redis, storage } = servers;
    if [broker, redis, storage].into_iter().flatten().all(String::is_empty) {
        return Ok(None);
    }
    Ok(Some(ServerUrls::all(broker.clone(), redis.clone(), storage.clone())?))
}

/// The record of the job that a command names.
pub(crate) async fn find(fleet: &Fleet, job_id: &str) -> Result<JobRecord, Failure> {
    if !is_valid_key(job_id) || job_id.contains('/') {
        return Err(Failure::wrong(format!("{job_id:?} is not the id of a job")));
    }
    let record = JobRecord::read(&*fleet.job_storage(job_id)).await;
    record.map_err(|error| unreadable(&*fleet.storage, job_id, error))
}

/// What it means that the record of a job cannot be read.
pub(crate) fn unreadable(storage: &dyn Storage, job_id: &str, error: JobRecordError) -> Failure {
    match error {
        JobRecordError::Absent { .. } => Failure::wrong(format!(
            "there is no job {job_id:?} in {storage}; prs-producer list shows the jobs of the fleet"
        )),
        JobRecordError::Storage(error) => Failure::server(error),
        error @ JobRecordError::Damaged { .. } => Failure::usage(error),
    }
}
