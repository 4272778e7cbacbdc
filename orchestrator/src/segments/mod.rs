//! What the committed segments of a job tell: where its rows are, what failed, what storage damaged.

pub(crate) mod audit;
pub(crate) mod bundles;
pub(crate) mod catalog;
pub mod damage;
pub mod failed;
pub mod failed_mini_batches;
pub(crate) mod headers;
pub mod recover;
pub(crate) mod starts;

use prs_common::layout;
use prs_common::storage::{Storage, StorageError, StorageExt};

/// Segments read side by side.
const READ_AT_ONCE: usize = 64;

/// Removes what only served to make the result: the rows are in there, and nothing is left to resume.
pub(crate) async fn remove(storage: &dyn Storage) -> Result<(), StorageError> {
    // The notes last: they tell what of the output is the job's own.
    for folder in [
        layout::SEGMENTS,
        layout::INDICES,
        layout::FILES,
        layout::DAMAGED,
        layout::PLAN,
        layout::PLAIN,
        layout::NOTES,
    ] {
        storage.delete_below(folder, None).await?;
    }
    Ok(())
}
