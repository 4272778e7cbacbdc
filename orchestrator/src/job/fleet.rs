//! A fleet: the servers that all its programs share, and what a job is called there.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use prs_common::ledger::Ledger;
use prs_common::queue::Queue;
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt};

use crate::inputs::{InputStores, Opener};

/// Folder of the jobs in the storage of a fleet.
pub(crate) const JOBS: &str = "jobs";
/// A small object a job, so that jobs are listed without listing what they hold.
pub(crate) const INDEX: &str = "index/";

/// The servers of a fleet. Cheap to clone.
#[derive(Clone)]
pub struct Fleet {
    /// Carries mini-batches.
    pub queue: Arc<dyn Queue>,
    /// Counts outcomes and tries, and knows who serves what.
    pub ledger: Arc<dyn Ledger>,
    /// Holds everything that lasts.
    pub storage: Arc<dyn Storage>,
    /// Opens the buckets that inputs are in.
    pub open: Opener,
}

/// Local folders of one program for one job.
#[derive(Debug, Clone)]
pub struct LocalFolders {
    /// Logs, until they are in storage.
    pub logs: PathBuf,
    /// What need not outlive the program.
    pub work: PathBuf,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fleet of {}, {} and {}", self.queue, self.ledger, self.storage)
    }
}

/// The prefix of a job in the storage of a fleet.
pub fn job_storage(storage: &dyn Storage, job_id: &str) -> Arc<dyn Storage> {
    storage.below(&job_prefix(job_id))
}

/// What the keys of a job begin with there, but for a `/`.
pub fn job_prefix(job_id: &str) -> String {
    format!("{JOBS}/{job_id}")
}

/// The ids of all jobs in the storage of a fleet, in their order.
pub async fn job_ids(storage: &dyn Storage) -> Result<Vec<String>, StorageError> {
    let listed = storage.list_all(INDEX).await?;
    Ok(listed.iter().filter_map(|object| Some(object.key.strip_prefix(INDEX)?.to_owned())).collect())
}

impl Fleet {
    /// The prefix of a job.
    pub fn job_storage(&self, job_id: &str) -> Arc<dyn Storage> {
        job_storage(&*self.storage, job_id)
    }

    /// Enters a job into the list of jobs.
    pub async fn list_job(&self, job_id: &str) -> Result<(), StorageError> {
        self.storage.put(&format!("{INDEX}{job_id}"), "".into(), PutMode::Overwrite).await.map(drop)
    }

    /// Enters a job into the list of jobs, unless one has the id; says whether it did.
    pub async fn take_id(&self, job_id: &str) -> Result<bool, StorageError> {
        match self.storage.put(&format!("{INDEX}{job_id}"), "".into(), PutMode::Create).await {
            Err(error) if error.kind == StorageErrorKind::AlreadyExists => Ok(false),
            put => put.map(|_| true),
        }
    }

    /// Gives an id back that was taken and that no job has.
    pub async fn give_id_back(&self, job_id: &str) -> Result<(), StorageError> {
        self.storage.delete(&format!("{INDEX}{job_id}")).await
    }

    /// Where the data of a job is.
    pub fn inputs(&self, job_id: &str) -> InputStores {
        InputStores::new(Arc::clone(&self.storage), self.job_storage(job_id), Arc::clone(&self.open))
    }
}
