//! What the committed segments of a job tell: where its rows are, what failed, what storage damaged.

pub(crate) mod audit;
pub(crate) mod bundles;
pub mod carry;
pub(crate) mod catalog;
pub mod damage;
pub(crate) mod durations;
pub mod failed_mini_batches;
pub mod failures;
pub(crate) mod headers;
mod kept_failures;
pub mod recover;
pub(crate) mod schemas;
pub(crate) mod starts;

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use prs_common::job::JobSpec;
use prs_common::job::shuffle::ShuffleStage;
use prs_common::layout;
use prs_common::segment::{ReadIndex, SegmentError, read_index};
use prs_common::storage::{ObjectMeta, Storage, StorageError, StorageExt};

/// Segments read side by side.
const READ_AT_ONCE: usize = 64;

/// The table of contents of a segment, or how storage damaged it, in words.
pub(crate) type Contents = Result<ReadIndex, String>;

/// The tables of contents of `segments`, each with the segment, in their order; an error is one of the store.
pub(crate) fn read_all(
    storage: &Arc<dyn Storage>,
    segments: impl IntoIterator<Item = ObjectMeta>,
) -> impl Stream<Item = Result<(ObjectMeta, Contents), StorageError>> {
    let read = |object: ObjectMeta| {
        let storage = Arc::clone(storage);
        async move {
            let contents = read_segment(&*storage, &object).await?;
            Ok((object, contents))
        }
    };
    stream::iter(segments.into_iter().map(read)).buffered(READ_AT_ONCE)
}

/// The table of contents of one segment.
pub(crate) async fn read_segment(
    storage: &dyn Storage,
    segment: &ObjectMeta,
) -> Result<Contents, StorageError> {
    match read_index(storage, segment).await {
        Ok(read) => Ok(Ok(read)),
        Err(SegmentError::Storage(error)) if !error.is_damage() => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// All segments of a job.
pub(crate) async fn list(storage: &dyn Storage) -> Result<Vec<ObjectMeta>, StorageError> {
    let mut listed = storage.list_all(layout::SEGMENTS).await?;
    listed.retain(|object| layout::is_segment(&object.key));
    Ok(listed)
}

/// Removes what only served to make the result of a job with these settings: the rows are in there, and nothing is left to
/// resume. Of a step that puts rows together for others the plan stays: it tells which inputs these are of.
pub(crate) async fn remove_of(spec: &JobSpec, storage: &dyn Storage) -> Result<(), StorageError> {
    if spec.shuffle != Some(ShuffleStage::Split) {
        return remove(storage).await;
    }
    for folder in FOLDERS.into_iter().filter(|folder| ![layout::PLAN, layout::NOTES].contains(folder)) {
        storage.delete_below(folder, None).await?;
    }
    let notes = storage.list_all(layout::NOTES).await?.into_iter().map(|object| object.key);
    let others: Vec<String> = notes.filter(|key| !key.starts_with(layout::LISTED)).collect();
    storage.delete_all(&others).await
}

/// Folders of what only serves to make the result. The notes come last: they tell what of the output is the job's own.
const FOLDERS: [&str; 7] = [
    layout::SEGMENTS,
    layout::INDICES,
    layout::FILES,
    layout::DAMAGED,
    layout::PLAN,
    layout::PLAIN,
    layout::NOTES,
];

/// Removes all that served to make a result that is made anew.
pub(crate) async fn remove(storage: &dyn Storage) -> Result<(), StorageError> {
    for folder in FOLDERS {
        storage.delete_below(folder, None).await?;
    }
    Ok(())
}
