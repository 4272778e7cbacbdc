//! The folder in a bucket that a job has its output delivered to, beside its own output.
//!
//! All that holds of an output holds there: a note of the job says what it brings before it does, so what is found there and was
//! noted is its own, of a former start or of an orchestrator that died over it, and makes room; nothing else does. The result
//! comes last, so who finds it finds everything. What cannot be delivered stays in the job's own output.

use std::sync::Arc;

use prs_common::dataset::remote::RemotePath;
use prs_common::failpoint;
use prs_common::job::OutputAction;
use prs_common::layout::{self, FAILED_MINI_BATCHES};
use prs_common::mini_batch::{MiniBatchIndex, StoreRef};
use prs_common::segment::OutputFile;
use prs_common::storage::{PutMode, Reach, Storage, StorageError, StorageErrorKind};

use super::files::{bring, names_of};
use super::former::{Content, FormerError, copy_checked};
use super::{Room, check_room, make_room, placed, withdraw};
use crate::JobContext;
use crate::inputs::Opener;
use crate::job::record::Output;

/// The folder `place` of a bucket, an `s3://` URL, of which no more than `reach` may be used.
///
/// # Errors
/// The bucket cannot be opened.
pub async fn open_folder(
    place: &str,
    opener: &Opener,
    reach: Option<Arc<Reach>>,
) -> Result<Arc<dyn Storage>, StorageError> {
    let RemotePath { bucket, key } = apart(place)?;
    Ok(below(opener(bucket, reach).await?, &key))
}

fn apart(place: &str) -> Result<RemotePath, StorageError> {
    RemotePath::parse(place).map_err(|message| StorageError {
        kind: StorageErrorKind::InvalidKey,
        place: place.to_owned(),
        key: String::new(),
        message,
    })
}

fn below(bucket: Arc<dyn Storage>, key: &str) -> Arc<dyn Storage> {
    if key.is_empty() { bucket } else { bucket.below(key) }
}

/// The job as one whose output is that folder; nothing where it names none.
pub(crate) async fn there(job: &JobContext) -> Result<Option<JobContext>, StorageError> {
    let Some(place) = &job.spec.deliver_to else { return Ok(None) };
    let RemotePath { bucket, key } = apart(place)?;
    let output = below(job.inputs.get(StoreRef::Url(&bucket)).await?, &key);
    Ok(Some(JobContext { output, output_prefix: None, ..job.clone() }))
}

/// Takes back what a former delivery of the job, which was killed over it, left unfinished there. Without the right to do so it stays.
pub(crate) async fn take_back_unfinished(
    job: &JobContext,
    files: &[(MiniBatchIndex, OutputFile)],
) -> Result<(), StorageError> {
    let Some(there) = there(job).await? else { return Ok(()) };
    // Only where there was one: another may write an object of this name to a bucket that is not the job's.
    match job.storage.put(layout::DELIVERY, "".into(), PutMode::Create).await {
        Err(error) if error.kind == StorageErrorKind::AlreadyExists => {}
        noted => return noted.map(drop),
    }
    let mut names = names_of(job, files);
    names.push(FAILED_MINI_BATCHES.to_owned());
    if job.spec.output_action == OutputAction::AppendRow {
        names.push(job.spec.append_row_file_name.clone());
    }
    match there.output.sweep_of(&names).await {
        Err(error) if !error.is_retryable() => {
            tracing::warn!(job = job.id, %error, "unfinished uploads of a former delivery may stay where the output goes");
            Ok(())
        }
        swept => swept,
    }
}

/// Delivers what is in the `output` of a job, but for the list of what failed, and says where the result is then; nothing where
/// the job names no place. May be repeated.
pub(crate) async fn deliver(
    job: &JobContext,
    (files, has_failed): (&[(MiniBatchIndex, OutputFile)], bool),
    output: &Output,
) -> Result<Option<String>, StorageError> {
    let Some(there) = there(job).await? else { return Ok(None) };
    if has_failed {
        // Written when the nodes have left, which is too late to hear that the name is taken.
        check_room(&there, FAILED_MINI_BATCHES).await?;
    }
    bring(&there, files).await?;
    failpoint::pass("files_delivered");
    let Some(sha256) = &output.sha256 else { return Ok(Some(there.output.uri(""))) };
    let name = &job.spec.append_row_file_name;
    if make_room(&there, name, sha256).await? == Room::Free {
        let content = Content::Sha256(sha256.clone(), output.bytes);
        let copied = copy_checked((&*job.output, name), (&*there.output, name), &content).await;
        placed(&there, name, sha256, copied.map_err(|error| of_copy(job, name, error))).await?;
    }
    failpoint::pass("result_delivered");
    Ok(Some(there.output.uri(name)))
}

/// Takes the result back from there, where the job brought it.
pub(crate) async fn withdraw_delivered(job: &JobContext, name: &str) -> Result<(), StorageError> {
    match there(job).await? {
        Some(there) => withdraw(&there, name).await,
        None => Ok(()),
    }
}

fn of_copy(job: &JobContext, name: &str, error: FormerError) -> StorageError {
    match error {
        FormerError::Storage(error) => error,
        error => StorageError {
            kind: StorageErrorKind::Damaged,
            place: job.output.to_string(),
            key: name.to_owned(),
            message: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prs_common::hexadecimal;
    use prs_common::job::JobSpec;
    use prs_common::storage::{LocalStorage, StorageExt};
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::fixtures::Fixture;
    use crate::inputs::InputStores;

    const RESULT: &str = "parallel_run_step.txt";

    /// A job whose place is a folder that stands for a bucket, with this result.
    async fn job(fixture: &Fixture, bucket: &LocalStorage, rows: &'static str) -> (JobContext, Output) {
        let opened: Arc<dyn Storage> = Arc::new(bucket.clone());
        let open: Opener = Arc::new(move |_, _| {
            let opened = Arc::clone(&opened);
            Box::pin(async move { Ok(opened) })
        });
        let own = Arc::clone(&fixture.job.storage);
        let spec = JobSpec { deliver_to: Some("s3://bucket/out".to_owned()), ..(*fixture.job.spec).clone() };
        let job = JobContext {
            spec: Arc::new(spec),
            inputs: InputStores::new(Arc::clone(&own), own, open),
            ..fixture.job.clone()
        };
        let sha256 = hexadecimal(&Sha256::digest(rows));
        super::super::put(&job, RESULT, rows.into(), &sha256).await.unwrap();
        let output = Output {
            uri: job.output.uri(RESULT),
            bytes: rows.len() as u64,
            sha256: Some(sha256),
            ..Output::default()
        };
        (job, output)
    }

    #[tokio::test]
    async fn the_result_is_delivered_once_and_over_nothing_but_what_was_delivered() {
        let folder = tempfile::tempdir().unwrap();
        let bucket = LocalStorage::new(folder.path());
        let mut fixture = Fixture::new(1).await;
        let there = async || bucket.get(&format!("out/{RESULT}")).await.ok();
        let (first, output) = job(&fixture, &bucket, "first").await;
        for _ in 0..2 {
            let uri = deliver(&first, (&[], false), &output).await.unwrap();
            assert!(uri.unwrap().ends_with(&format!("out/{RESULT}")));
            assert_eq!(there().await.unwrap(), "first");
        }
        // A later start brings another one.
        fixture.job.incarnation = 2;
        let (second, output) = job(&fixture, &bucket, "second").await;
        deliver(&second, (&[], false), &output).await.unwrap();
        assert_eq!(there().await.unwrap(), "second");
        // Somebody else puts something there.
        bucket.put(&format!("out/{RESULT}"), "mine".into(), PutMode::Overwrite).await.unwrap();
        let refused = deliver(&second, (&[], false), &output).await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::AlreadyExists, "{refused}");
        withdraw_delivered(&second, RESULT).await.unwrap();
        assert_eq!(there().await.unwrap(), "mine");
        bucket.delete(&format!("out/{RESULT}")).await.unwrap();
        deliver(&second, (&[], false), &output).await.unwrap();
        withdraw_delivered(&second, RESULT).await.unwrap();
        assert_eq!(there().await, None);
        assert_eq!(second.output.get(RESULT).await.unwrap(), "second", "it stays in the output of the job");
    }

    #[tokio::test]
    async fn what_the_own_output_lost_is_not_delivered() {
        let folder = tempfile::tempdir().unwrap();
        let bucket = LocalStorage::new(folder.path());
        let fixture = Fixture::new(1).await;
        let (job, output) = job(&fixture, &bucket, "rows").await;
        job.output.put(RESULT, "rose".into(), PutMode::Overwrite).await.unwrap();
        let damaged = deliver(&job, (&[], false), &output).await.unwrap_err();
        assert_eq!(damaged.kind, StorageErrorKind::Damaged, "{damaged}");
        assert!(bucket.list_all("").await.unwrap().is_empty());
    }
}
