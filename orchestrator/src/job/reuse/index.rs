//! The jobs of a fleet that can give their output to others, by their recipes: an empty object
//! `reuse/<recipe>/<job>` in its storage.
//!
//! A hint, and no more: the record of the job says whether it has the recipe and all of its output. An entry whose job is
//! gone is removed when it is met.

use prs_common::storage::{PutMode, Storage, StorageError, StorageExt};

use super::{fits, rank};
use crate::JobContext;
use crate::job::fleet::job_storage;
use crate::job::record::{JobRecord, JobRecordError};

/// Jobs of one recipe that are looked at, the newest.
const MOST: usize = 16;

fn key(recipe: &str, job_id: &str) -> String {
    format!("reuse/{recipe}/{job_id}")
}

/// Enters a job that can give its output to others; none else.
pub async fn enter(storage: &dyn Storage, record: &JobRecord) -> Result<(), StorageError> {
    let Some(recipe) = record.recipe.as_deref().filter(|_| record.is_done_with()) else { return Ok(()) };
    storage.put(&key(recipe, &record.job_id), "".into(), PutMode::Overwrite).await.map(drop)
}

/// The same, for a job of a fleet that has ended. Where that fails the job is not found by others, and no more.
pub(crate) async fn enter_ended(job: &JobContext, record: &JobRecord) {
    let Some(active) = &job.active else { return };
    if let Err(error) = enter(&*active.storage, record).await {
        tracing::warn!(job = job.id, %error, "later jobs will not find the output of this one");
    }
}

/// Takes a job out that is about to be removed.
pub(crate) async fn leave(storage: &dyn Storage, record: &JobRecord) -> Result<(), StorageError> {
    match &record.recipe {
        Some(recipe) => storage.delete(&key(recipe, &record.job_id)).await,
        None => Ok(()),
    }
}

/// The jobs that have this recipe and all of their output, in the order in which they are asked for it.
pub async fn find(storage: &dyn Storage, recipe: &str) -> Result<Vec<JobRecord>, StorageError> {
    let prefix = key(recipe, "");
    let entries = storage.list_all(&prefix).await?;
    let ids = entries.iter().filter_map(|entry| entry.key.strip_prefix(&prefix));
    let mut found = Vec::new();
    // Ids of one name sort by age.
    for id in ids.rev().take(MOST) {
        match JobRecord::read(&*job_storage(storage, id)).await {
            Ok(record) => {
                if fits(&record, recipe) {
                    found.push(record);
                }
            }
            Err(JobRecordError::Absent { .. }) => {
                if let Err(error) = storage.delete(&key(recipe, id)).await {
                    tracing::debug!(job = id, %error, "it is gone, and its place among those with this recipe stays");
                }
            }
            // One that cannot be read or understood gives nothing.
            Err(error) => tracing::debug!(job = id, %error, "it is passed over"),
        }
    }
    found.sort_by_key(rank);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use prs_common::storage::LocalStorage;

    use super::*;
    use crate::job::record::tests::{end, record};

    #[tokio::test]
    async fn jobs_are_found_while_they_are_there_and_complete() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let mut former = record();
        former.recipe = Some("5f".into());
        enter(&storage, &former).await.unwrap();
        assert!(find(&storage, "5f").await.unwrap().is_empty(), "it has not ended");
        end(&mut former);
        enter(&storage, &former).await.unwrap();
        let job = job_storage(&storage, &former.job_id);
        former.write(&*job).await.unwrap();
        let found = find(&storage, "5f").await.unwrap();
        assert_eq!(found.iter().map(|one| &*one.job_id).collect::<Vec<_>>(), [&*former.job_id]);
        assert!(find(&storage, "60").await.unwrap().is_empty());
        job.delete(prs_common::layout::JOB).await.unwrap();
        assert!(find(&storage, "5f").await.unwrap().is_empty());
        assert!(storage.list_all("").await.unwrap().is_empty(), "an entry of a job that is gone goes");
    }
}
