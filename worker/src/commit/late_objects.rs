//! What a node stored too late. A worker that slept over the end of its job stores a segment that no program reads, when
//! the cleaning up behind the job is long done: the node removes it itself.
//!
//! Only the record of the job decides. While a job goes on, or may be resumed, every segment in its storage counts,
//! committed or not, also when the ledger has lost the job.

use std::time::Duration;

use futures_util::{TryStreamExt, future};
use prs_common::layout;
use prs_common::storage::{Storage, StorageError};
use prs_orchestrator::JobRecord;
use prs_orchestrator::job::record::JobRecordError;

/// How long a worker that leaves waits for the storage.
const PATIENCE: Duration = Duration::from_secs(2);

/// Removes what `writer` stored, if nothing that is stored for the job's result is needed any more.
pub(crate) async fn remove_late_objects(storage: &dyn Storage, writer: &str) {
    let removed = tokio::time::timeout(PATIENCE, remove(storage, writer)).await;
    let error = match removed {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(elapsed) => elapsed.to_string(),
    };
    tracing::warn!(%storage, writer, error, "segments that came too late may be left behind");
}

async fn remove(storage: &dyn Storage, writer: &str) -> Result<(), StorageError> {
    match JobRecord::read(storage).await {
        Ok(record) if record.is_done_with() => {}
        Err(JobRecordError::Storage(error)) => return Err(error),
        _ => return Ok(()),
    }
    for folder in [layout::SEGMENTS, layout::FILES] {
        let late = written_by(storage, folder, writer).await?;
        if let Some(first) = late.first() {
            tracing::info!(objects = late.len(), first, "they came after the end of the job and are removed");
        }
        storage.delete_all(&late).await?;
    }
    Ok(())
}

/// The keys below `folder` that begin with `writer`; others are not listed.
async fn written_by(storage: &dyn Storage, folder: &str, writer: &str) -> Result<Vec<String>, StorageError> {
    let start = format!("{folder}{writer}");
    let objects = storage.list(folder, &start);
    let late = objects.try_take_while(|object| future::ready(Ok(object.key.starts_with(&start))));
    late.map_ok(|object| object.key).try_collect().await
}

#[cfg(test)]
mod tests {
    use prs_common::job::JobSpec;
    use prs_common::ledger::JobState;
    use prs_common::storage::{LocalStorage, PutMode, StorageExt};
    use prs_orchestrator::JobResult;
    use prs_orchestrator::job::record::{ItemCounts, MiniBatchCounts, Output};

    use prs_orchestrator::job::findings::Findings;

    use super::*;

    fn ended(record: &mut JobRecord, state: JobState, failed: u64) {
        record.state = state;
        record.result = Some(JobResult {
            job_id: record.job_id.clone(),
            name: "job".to_owned(),
            submitted_us: record.submitted_us,
            ended_us: None,
            kept_until_us: None,
            state,
            reason: None,
            reused: None,
            output: Output::default(),
            logs: String::new(),
            mini_batches: MiniBatchCounts { scheduled: 2, succeeded: 2 - failed, failed },
            items: ItemCounts::default(),
            seconds: 1.0,
            waited_seconds: 0.0,
            starts: Vec::new(),
            findings: Findings::default(),
            steps: Vec::new(),
        });
    }

    #[tokio::test]
    async fn what_may_still_be_of_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let (writer, other) = (layout::writer(1, 0, "5f"), layout::writer(1, 1, "5f"));
        let own =
            [layout::segment(1, 0, "5f", 3), layout::staged_file(&format!("{writer}process000-1"), "a/b")];
        let others =
            [layout::segment(1, 1, "5f", 3), layout::staged_file(&format!("{other}process000-1"), "a/b")];
        for key in own.iter().chain(&others) {
            storage.put(key, "rows".into(), PutMode::Overwrite).await.unwrap();
        }
        let keys = async || {
            let (segments, files) =
                tokio::join!(storage.list_all(layout::SEGMENTS), storage.list_all(layout::FILES));
            let listed = segments.unwrap().into_iter().chain(files.unwrap());
            listed.map(|object| object.key).collect::<Vec<_>>()
        };
        let all = keys().await;
        assert_eq!(all.len(), 4);
        remove_late_objects(&storage, &writer).await;
        assert_eq!(keys().await, all, "without a record nothing is known");

        let spec = JobSpec::new("job", "/code", "main.py", vec![]);
        let mut record = JobRecord::new("job-1".to_owned(), "code/x.tar.gz".to_owned(), spec);
        let states = [
            None,
            Some((JobState::Canceled, 0)),
            Some((JobState::Failed, 0)),
            Some((JobState::Completed, 1)),
        ];
        for state in states {
            if let Some((state, failed)) = state {
                ended(&mut record, state, failed);
            }
            record.write(&storage).await.unwrap();
            remove_late_objects(&storage, &writer).await;
            assert_eq!(keys().await, all, "the job goes on, or may be resumed: {state:?}");
        }
        ended(&mut record, JobState::Completed, 0);
        record.write(&storage).await.unwrap();
        remove_late_objects(&storage, &writer).await;
        let left = keys().await;
        assert!(left.len() == 2 && others.iter().all(|key| left.contains(key)), "{left:?}");
    }
}
