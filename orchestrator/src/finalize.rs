//! The finalizer: turns committed segments into the output of the job (spec S9, S10, S11, E15).
//!
//! Rows are read in input order. Within a segment they lie in that order too, so each segment is read from its
//! beginning to its end, a window at a time, and memory stays bounded whatever the size of the result. Doing it
//! again writes the same bytes.

use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use prs_common::hexadecimal;
use prs_common::job::OutputAction;
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::mini_batch::{MiniBatch, Work, id_of};
use prs_common::storage::{StorageError, Upload};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::JobContext;
use crate::catalog::{Catalog, TryFailure};
use crate::damage::{FinalizeError, damaged_files};
use crate::job_record::Output;
use crate::publish::{self, NEW, Room};
use crate::segment_rows::SegmentRows;

/// Bytes written to the result at a time.
const PIECE: usize = 4 << 20;

/// Writes the result and publishes the files of the mini-batches.
pub(crate) async fn finalize(job: &JobContext, catalog: &Catalog) -> Result<Output, FinalizeError> {
    let mut output = Output { uri: job.output.uri(""), rows: catalog.returned, ..Output::default() };
    if catalog.failures.values().any(|failures| failures.body.is_some()) {
        // Written when the nodes have left, which is too late to hear that the name is taken.
        publish::check_room(job, FAILED_MINI_BATCHES).await?;
    }
    if job.spec.output_action == OutputAction::AppendRow {
        write_result(job, catalog, &mut output).await?;
    }
    if let Some(damaged) = damaged_files(&*job.storage, catalog).await?.pop() {
        return Err(FinalizeError::Damaged(damaged));
    }
    publish::files(job, &catalog.files).await?;
    Ok(output)
}

async fn write_result(job: &JobContext, catalog: &Catalog, output: &mut Output) -> Result<(), FinalizeError> {
    let name = &job.spec.append_row_file_name;
    let mut result =
        ResultFile { upload: job.output.upload(name, NEW).await?, hasher: Sha256::new(), bytes: 0 };
    let mut piece = BytesMut::with_capacity(PIECE);
    if let Some((_, header)) = &catalog.header {
        piece.extend_from_slice(header.as_bytes());
    }
    let mut segments = SegmentRows::new(&*job.storage, &catalog.segments);
    for place in catalog.places.iter().flatten() {
        if place.length == 0 {
            continue;
        }
        let rows = segments.rows(place).await?;
        let large = rows.len() >= PIECE;
        if large || piece.len() + rows.len() > PIECE {
            let full = std::mem::replace(&mut piece, BytesMut::with_capacity(PIECE)).freeze();
            result.write(full).await?;
        }
        if large {
            result.write(rows).await?;
        } else {
            piece.extend_from_slice(&rows);
        }
    }
    result.write(piece.freeze()).await?;
    let ResultFile { upload, hasher, bytes } = result;
    let sha256 = hexadecimal(&hasher.finalize());
    if publish::make_room(job, name, &sha256).await? == Room::Free {
        publish::placed(job, name, &sha256, upload.finish().await).await?;
    }
    output.bytes = bytes;
    output.sha256 = Some(sha256);
    output.uri = job.output.uri(name);
    Ok(())
}

/// The result file, being written.
struct ResultFile {
    upload: Box<dyn Upload>,
    hasher: Sha256,
    bytes: u64,
}

impl ResultFile {
    async fn write(&mut self, rows: Bytes) -> Result<(), StorageError> {
        self.hasher.update(&rows);
        self.bytes += rows.len() as u64;
        self.upload.write(rows).await
    }
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
