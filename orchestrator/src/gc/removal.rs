//! Removing a job from the storage of a fleet (`prs rm`, `prs gc`).
//!
//! The first step puts a mark in place of the record, on condition that this is the record that was seen. From then on
//! the job cannot be started again; a start that came first keeps the job. The mark is deleted last, also behind what the ledger
//! has of the job: the next removal goes on where one was interrupted.

use futures_util::TryStreamExt;
use prs_common::failpoint;
use prs_common::layout;
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt};

use crate::job::fleet::{INDEX, job_storage};
use crate::job::record::{CONFLICTS, JobRecord, JobRecordError, RemovalMark, is_conflict};
use crate::job::reuse;

/// Objects that are deleted together.
const DELETED_TOGETHER: usize = 1_000;

/// Removes a job that has ended, as it was seen at its `start` (1 for the first; nothing where it had no record that can be
/// read). False
/// when it was started again since: then all of it stays. With `keeps_output` its result stays, where it is among what the job has.
/// `leave_ledger` removes what the ledger has of the job up to its last start, where that is known. May be repeated.
pub async fn remove_job(
    storage: &dyn Storage,
    job_id: &str,
    start: Option<u32>,
    keeps_output: bool,
    leave_ledger: impl AsyncFnOnce(Option<u32>),
) -> Result<bool, JobRecordError> {
    let job = job_storage(storage, job_id);
    // First, so that no entry is left of a job that is gone; one that stays is not found by others, and no more.
    if let Ok(record) = JobRecord::read(&*job).await {
        reuse::index::leave(storage, &record).await.map_err(JobRecordError::Storage)?;
    }
    if !withdraw(&*job, start).await? {
        return Ok(false);
    }
    failpoint::pass("job_withdrawn");
    let rest = async {
        if keeps_output && job.list(layout::OUTPUT, "").try_next().await?.is_some() {
            // First, so that nobody tidies up what is to stay.
            job.put(layout::KEPT, "".into(), PutMode::Overwrite).await?;
            delete_all_but_output(&*job).await?;
        } else {
            job.delete_below("", Some(layout::JOB)).await?;
        }
        failpoint::pass("job_emptied");
        leave_ledger(marked_start(&*job).await?).await;
        storage.delete(&format!("{INDEX}{job_id}")).await?;
        job.delete(layout::JOB).await
    };
    rest.await.map(|()| true).map_err(JobRecordError::Storage)
}

/// The last start of a job that is being removed.
async fn marked_start(job: &dyn Storage) -> Result<Option<u32>, StorageError> {
    match job.get(layout::JOB).await {
        Ok(mark) => Ok(RemovalMark::parse(&mark).and_then(|mark| mark.start)),
        // Another program removed it at this moment.
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn delete_all_but_output(job: &dyn Storage) -> Result<(), StorageError> {
    let keys = job.list("", "").map_ok(|object| object.key);
    let goes = |key: &str| !key.starts_with(layout::OUTPUT) && key != layout::JOB && key != layout::KEPT;
    let keys = keys.try_filter(|key| std::future::ready(goes(key)));
    let together = keys.try_chunks(DELETED_TOGETHER).map_err(|error| error.1);
    together.try_for_each(|keys| async move { job.delete_all(&keys).await }).await
}

/// Puts the mark in place of the record; false where this is of another start, or of one that has not ended. One that cannot
/// be read is of no start.
async fn withdraw(job: &dyn Storage, start: Option<u32>) -> Result<bool, JobRecordError> {
    let mut again = 0..CONFLICTS;
    loop {
        let mode = match JobRecord::read(job).await {
            Ok(JobRecord { incarnation, result: Some(_), version: Some(version), .. })
                if Some(incarnation) == start =>
            {
                PutMode::Update(version)
            }
            Ok(_) => return Ok(false),
            Err(JobRecordError::Absent { removed: true, .. }) => return Ok(true),
            // A gateway may lack it for a moment.
            Err(JobRecordError::Absent { .. }) => PutMode::Create,
            Err(error) if error.is_for_good() && start.is_none() => {
                let version = job.head(layout::JOB).await.map_err(JobRecordError::Storage)?.version;
                match JobRecord::read(job).await {
                    Err(error) if error.is_for_good() => PutMode::Update(version),
                    // It was written anew at this moment.
                    _ => return Ok(false),
                }
            }
            Err(error) => return Err(error),
        };
        match job.put(layout::JOB, RemovalMark::of(start).into(), mode).await {
            Err(error) if is_conflict(error.kind) && again.next().is_some() => {}
            put => return put.map(|_| true).map_err(JobRecordError::Storage),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prs_common::storage::LocalStorage;
    use tempfile::TempDir;

    use super::*;
    use crate::job::log_shipper::LogShipper;
    use crate::job::record::tests::{end, record};

    /// A job that has ended at its first start.
    async fn ended() -> (TempDir, LocalStorage, Arc<dyn Storage>, JobRecord) {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let job = job_storage(&storage, "job-1");
        let mut record = record();
        end(&mut record);
        record.write(&*job).await.unwrap();
        for (store, key) in [(&*job, "code/x"), (&*job, "logs/x"), (&storage as &dyn Storage, "index/job-1")]
        {
            store.put(key, "x".into(), PutMode::Create).await.unwrap();
        }
        (folder, storage, job, record)
    }

    async fn count(storage: &dyn Storage) -> usize {
        storage.list_all("").await.unwrap().len()
    }

    #[tokio::test]
    async fn a_job_that_was_started_again_since_it_was_seen_stays() {
        let (_folder, storage, job, mut record) = ended().await;
        record.start_again();
        record.write(&*job).await.unwrap();
        for start in [Some(1), Some(2), None] {
            assert!(!remove_job(&storage, "job-1", start, false, async |_| {}).await.unwrap(), "{start:?}");
        }
        end(&mut record);
        record.write(&*job).await.unwrap();
        assert!(!remove_job(&storage, "job-1", Some(1), false, async |_| {}).await.unwrap());
        assert_eq!((count(&storage).await, JobRecord::read(&*job).await.unwrap()), (4, record));
        assert!(remove_job(&storage, "job-1", Some(2), false, async |_| {}).await.unwrap());
        assert_eq!(count(&storage).await, 0);
        assert!(
            remove_job(&storage, "job-1", Some(2), false, async |_| {}).await.unwrap(),
            "another program did it"
        );
    }

    #[tokio::test]
    async fn no_log_of_a_removed_job_comes_back() {
        let (_folder, storage, job, record) = ended().await;
        let here = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(here.path().join(name), name).unwrap();
        std::fs::create_dir(here.path().join("perf")).unwrap();
        let shipper = LogShipper::new(Arc::clone(&job), here.path().to_owned());
        write("perf/first");
        shipper.ship(true).await.unwrap();
        assert!(job.get("logs/perf/first").await.is_ok(), "the job is there");
        assert!(remove_job(&storage, "job-1", Some(record.incarnation), false, async |_| {}).await.unwrap());
        write("perf/second");
        shipper.ship(true).await.unwrap();
        assert_eq!(count(&storage).await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_a_removal_and_a_resume_one_succeeds() {
        for _ in 0..20 {
            let (_folder, storage, job, mut record) = ended().await;
            record.start_again();
            let resume = tokio::spawn(async move { record.write(&*job).await.is_ok() });
            let removed = remove_job(&storage, "job-1", Some(1), false, async |_| {}).await.unwrap();
            assert_ne!(resume.await.unwrap(), removed);
            assert_eq!(count(&storage).await, if removed { 0 } else { 4 });
        }
    }

    #[tokio::test]
    async fn a_job_whose_record_cannot_be_read_goes_as_one_without_a_record() {
        let (_folder, storage, job, record) = ended().await;
        for (start, goes) in [(Some(record.incarnation), false), (None, true)] {
            job.put(layout::JOB, "{".into(), PutMode::Overwrite).await.unwrap();
            let removed = remove_job(&storage, "job-1", start, false, async |_| {}).await;
            assert_eq!(removed.is_ok_and(|removed| removed), goes, "{start:?}");
            assert_eq!(job.list_all("").await.unwrap().is_empty(), goes, "{start:?}");
        }
        let mut record = JobRecord { version: None, ..record };
        record.write(&*job).await.unwrap();
        assert!(!remove_job(&storage, "job-1", None, false, async |_| {}).await.unwrap(), "it can be read");
    }

    #[tokio::test]
    async fn an_interrupted_removal_is_taken_up_by_the_next() {
        let (_folder, storage, job, mut record) = ended().await;
        assert!(withdraw(&*job, Some(1)).await.unwrap());
        let read = JobRecord::read(&*job).await;
        assert!(matches!(read, Err(JobRecordError::Absent { removed: true, .. })), "{read:?}");
        record.start_again();
        assert!(record.write(&*job).await.is_err());
        assert!(record.write_unless_ended(&*job).await.is_err());
        assert!(remove_job(&storage, "job-1", None, false, async |_| {}).await.unwrap());
        assert_eq!(count(&storage).await, 0);
    }
}
