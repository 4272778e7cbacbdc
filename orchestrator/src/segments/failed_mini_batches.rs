//! `failed_mini_batches.jsonl`: the mini-batches that failed for good or lack items, with their items and tries (spec S11).
//!
//! The orchestrator writes the list at the end of a job. Before that, the segments tell the same.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use prs_common::hexadecimal;
use prs_common::job::JobSpec;
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, id_of};
use prs_common::storage::{DiskError, Payload, Storage, StorageError, StorageErrorKind};
use prs_common::tree;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::job::record::JobRecord;
use crate::report::items::items;
use crate::segments::catalog::Catalog;
use crate::segments::failures::{Failures, Found, TryFailure};
use crate::{JobContext, publish};

/// Mini-batches that are written before others of the program have a turn.
const AT_ONCE: usize = 1_000;

/// Writes the list, or removes that of a former start when there is nothing to list. It is as long as mini-batches have failed, so it
/// is made in a local file.
pub(crate) async fn list(job: &JobContext, catalog: &Catalog) -> Result<(), StorageError> {
    let path = job.work.join(format!("{FAILED_MINI_BATCHES}.new"));
    let failed = |source| {
        let error = DiskError { path: path.clone(), source };
        let kind = if error.is_full() { StorageErrorKind::Full } else { StorageErrorKind::Unavailable };
        let (place, message) = (job.work.display().to_string(), error.to_string());
        StorageError { kind, place, key: FAILED_MINI_BATCHES.to_owned(), message }
    };
    let mut file = None;
    let mut digest = Sha256::new();
    for (done, index) in catalog.failures.listed().enumerate() {
        if done % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        let Some(line) = line(&job.spec, index, &catalog.failures.read(index).map_err(failed)?) else {
            continue;
        };
        let line = format!("{line}\n");
        digest.update(&line);
        if file.is_none() {
            file = Some(BufWriter::new(tree::create(&path).map_err(failed)?));
        }
        file.iter_mut().try_for_each(|file| file.write_all(line.as_bytes())).map_err(failed)?;
    }
    let Some(file) = file else { return publish::withdraw(job, FAILED_MINI_BATCHES).await };
    file.into_inner().map_err(|error| failed(error.into_error()))?;
    let sha256 = hexadecimal(&digest.finalize());
    publish::put(job, FAILED_MINI_BATCHES, Payload::File(path), &sha256).await
}

/// The same lines for a job that has no such list yet, as far as its segments tell. Damaged segments are left out.
pub async fn of_segments(
    storage: &Arc<dyn Storage>,
    record: &JobRecord,
) -> Result<BTreeMap<MiniBatchIndex, Value>, StorageError> {
    Ok(lines(Found::read(storage).await?, record.incarnation, &record.spec))
}

fn lines(found: Found, start: u32, spec: &JobSpec) -> BTreeMap<MiniBatchIndex, Value> {
    let failed = found.of_start(start);
    failed.filter_map(|(index, failures)| Some((index, line(spec, index, &failures)?))).collect()
}

/// A line of the list; nothing where the mini-batch has not failed, or its descriptor is damaged.
fn line(spec: &JobSpec, index: MiniBatchIndex, failures: &Failures) -> Option<Value> {
    let Ok(mini_batch) = MiniBatch::decode(failures.body.as_deref()?) else {
        tracing::error!(index, "a failed mini-batch is not listed: its descriptor is damaged");
        return None;
    };
    let input = spec.inputs.get(mini_batch.input as usize).map(|input| input.name.as_str());
    let mut tries = failures.tries.clone();
    tries.sort_by_key(TryFailure::order);
    let (total, missing) = failures.items;
    let failed = failures.failed_items.as_deref();
    let positions =
        failed.map(|failed| failed.iter().map(|items| (items.start, items.end)).collect::<Vec<_>>());
    Some(json!({
        "mini_batch_id": id_of(index),
        "minibatch_index": index,
        "input": input,
        "items": items(&mini_batch, failed),
        "items_total": total,
        "items_missing": missing,
        "failed_items": positions,
        "tries": tries,
    }))
}

#[cfg(test)]
mod tests {
    use prs_common::mini_batch::Work;
    use prs_common::segment::{ProcessRef, SegmentBuilder, TryRecord, TryStatus};

    use super::*;

    /// Segments of (start of the job, mini-batch, status, whether it is the outcome, items that succeeded of two).
    fn found(tries: &[(u32, MiniBatchIndex, TryStatus, bool, u64)]) -> BTreeMap<MiniBatchIndex, Value> {
        let mut found = Found::default();
        for (incarnation, index, status, last, succeeded) in tries {
            let work =
                Work::Files { base: "", paths: vec!["/d/a", "/d/b"], versions: &[], names: Vec::new() };
            let body = MiniBatch::new(*index, 0, work).encode();
            let mut segment = SegmentBuilder::default();
            let mut record = TryRecord::new(*index, &body, *status);
            (record.last, record.items, record.succeeded, record.number) = (*last, 2, *succeeded, 1);
            record.failed = (*last && !record.is_whole()).then_some(body);
            segment.add(record, &ProcessRef::default(), "".into());
            found.add(&segment.seal("k", *incarnation, 0, "").1);
        }
        lines(found, 2, &JobSpec::new("job", "/", "x.py", vec![]))
    }

    #[test]
    fn segments_tell_what_is_missing() {
        let (done, raised) = (TryStatus::RunDone, TryStatus::RunException);
        let lines = found(&[
            (2, 0, done, true, 2),
            (2, 1, raised, false, 0),
            (2, 1, raised, true, 0),
            (2, 2, raised, false, 0),
            (2, 3, done, true, 1),
            // Of the former start: it runs again.
            (1, 4, raised, true, 0),
            (1, 5, done, true, 1),
            (1, 6, done, true, 2),
            // Another node was first.
            (2, 7, raised, true, 0),
            (2, 7, done, true, 2),
        ]);
        assert_eq!(lines.keys().copied().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(lines[&1]["items"], json!(["/d/a", "/d/b"]));
        assert_eq!(lines[&1]["tries"].as_array().unwrap().len(), 2);
        assert_eq!((&lines[&3]["items_total"], &lines[&3]["items_missing"]), (&json!(2), &json!(1)));
    }
}
