//! The result of a job: what its committed segments become (spec S9, S10, S11, E15).
//!
//! The rows are assembled in input order while the job runs; at its end the tail is added, the files of mini-batches are
//! published, and the object of the rows gets its name. Doing it again writes the same bytes.
//!
//! | file | duty |
//! |---|---|
//! | `rows` | reads rows of many segments at a time, and checks them |
//! | `assembly` | the object of the rows, written batch by batch |
//! | `check` | finds what storage damaged |
//! | `form` | what the result begins with: a header, or the columns of a file |
//! | `frames` | a Parquet file of the rows |
//! | `growth` | when an assembly begins, and what becomes of one that fails |

mod assembly;
pub(crate) mod check;
mod form;
mod frames;
mod growth;
mod rows;

use prs_common::end_reason::EndReason;
use prs_common::job::OutputAction;
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::storage::StorageError;

use self::assembly::Written;
use self::check::damaged_files;
pub(crate) use self::growth::Growth;
use crate::JobContext;
use crate::job::record::Output;
use crate::publish::{self, Room};
use crate::segments::catalog::Catalog;
use crate::segments::damage::Damaged;

/// Why the output cannot be made of the segments.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FinalizeError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("{}: {}", .0.segment, .0.reason)]
    Damaged(Damaged),
    /// No file of the form that the job asks for can have the rows.
    #[error("{0}")]
    Unfit(EndReason),
}

/// Finishes the result and publishes the files of the mini-batches.
pub(crate) async fn finalize(
    job: &JobContext,
    catalog: &Catalog,
    growth: &mut Growth,
) -> Result<Output, FinalizeError> {
    let mut output = Output { uri: job.output.uri(""), rows: catalog.returned, ..Output::default() };
    if catalog.failures.listed().next().is_some() {
        // Written when the nodes have left, which is too late to hear that the name is taken.
        publish::check_room(job, FAILED_MINI_BATCHES).await?;
    }
    if job.spec.output_action == OutputAction::AppendRow {
        let name = &job.spec.append_row_file_name;
        let Written { upload, bytes, sha256 } = growth.finish(job, catalog).await?;
        if publish::make_room(job, name, &sha256).await? == Room::Free {
            publish::placed(job, name, &sha256, upload.finish().await).await?;
        }
        output = Output { uri: job.output.uri(name), bytes, sha256: Some(sha256), ..output };
    }
    if let Some(damaged) = damaged_files(&*job.storage, catalog).await?.pop() {
        return Err(FinalizeError::Damaged(damaged));
    }
    publish::files(job, &catalog.files).await?;
    Ok(output)
}
