//! The result of a job: what its committed segments become (spec S9, S10, S11, E15).
//!
//! The rows are assembled in input order while the job runs; at its end the tail is added, the files of mini-batches are
//! published, and the object of the rows gets its name. Doing it again writes the same bytes.
//!
//! | file | duty |
//! |---|---|
//! | `rows` | reads rows of many segments at a time, and checks them |
//! | `assembly` | the object of the rows, written batch by batch |
//! | `growth` | when an assembly begins, and what becomes of one that fails |

mod assembly;
mod growth;
pub(crate) mod rows;

use std::fmt::Write as _;

use prs_common::job::OutputAction;
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::mini_batch::{MiniBatch, Work, id_of};
use prs_common::storage::StorageError;
use serde_json::{Value, json};

use self::assembly::Written;
pub(crate) use self::growth::Growth;
use crate::JobContext;
use crate::catalog::{Catalog, TryFailure};
use crate::damage::{FinalizeError, damaged_files};
use crate::job_record::Output;
use crate::publish::{self, Room};

/// Finishes the result and publishes the files of the mini-batches.
pub(crate) async fn finalize(
    job: &JobContext,
    catalog: &Catalog,
    growth: &mut Growth,
) -> Result<Output, FinalizeError> {
    let mut output = Output { uri: job.output.uri(""), rows: catalog.returned, ..Output::default() };
    if catalog.failures.values().any(|failures| failures.body.is_some()) {
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

/// Writes `failed_mini_batches.jsonl`, or removes that of a former start when nothing failed.
pub(crate) async fn list_failures(job: &JobContext, catalog: &Catalog) -> Result<(), StorageError> {
    let mut text = String::new();
    for (index, failures) in &catalog.failures {
        let Some(body) = &failures.body else { continue };
        let Ok(mini_batch) = MiniBatch::decode(body) else {
            tracing::error!(
                index,
                "a failed mini-batch is listed without its items: its descriptor is damaged"
            );
            continue;
        };
        let input = job.spec.inputs.get(mini_batch.input as usize).map(|input| input.name.as_str());
        let mut tries = failures.tries.clone();
        tries.sort_by_key(TryFailure::order);
        let line = json!({
            "mini_batch_id": id_of(*index),
            "minibatch_index": index,
            "input": input,
            "items": items(&mini_batch),
            "tries": tries,
        });
        let _ = writeln!(text, "{line}");
    }
    if text.is_empty() {
        publish::withdraw(job, FAILED_MINI_BATCHES).await
    } else {
        publish::put(job, FAILED_MINI_BATCHES, text.into()).await
    }
}

fn items(mini_batch: &MiniBatch<'_>) -> Vec<Value> {
    match &mini_batch.work {
        Work::Files { .. } | Work::Objects { .. } => {
            mini_batch.file_names().into_iter().map(Value::from).collect()
        }
        Work::Delimited { origin, start, end, records, .. }
        | Work::DelimitedObject { origin, start, end, records, .. } => {
            vec![json!({"file": origin, "start": start, "end": end, "records": records})]
        }
        Work::Stored { key, .. } => vec![json!({"descriptor": key})],
        Work::Unreadable { origin, offset, .. } => vec![json!({"file": origin, "start": offset})],
    }
}
