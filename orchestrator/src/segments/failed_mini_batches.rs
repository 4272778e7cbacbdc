//! `failed_mini_batches.jsonl`: the mini-batches that failed for good or lack items, with their items and tries (spec S11).
//!
//! The orchestrator writes the list at the end of a job. Before that, the segments tell the same.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::StreamExt;
use prs_common::job::JobSpec;
use prs_common::layout::{self, FAILED_MINI_BATCHES};
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, SliceRef, Work, id_of};
use prs_common::segment::{SegmentError, SegmentIndex, TryStatus, read_index};
use prs_common::storage::{ObjectMeta, Storage, StorageError, StorageExt};
use serde_json::{Value, json};

use super::READ_AT_ONCE;
use crate::job::record::JobRecord;
use crate::segments::catalog::{Catalog, Failures, TryFailure};
use crate::{JobContext, publish};

/// Writes the list, or removes that of a former start when there is nothing to list.
pub(crate) async fn list(job: &JobContext, catalog: &Catalog) -> Result<(), StorageError> {
    let mut text = String::new();
    for (index, failures) in &catalog.failures {
        let Some(body) = &failures.body else { continue };
        if let Some(line) = line(&job.spec, *index, body, failures) {
            let _ = writeln!(text, "{line}");
        }
    }
    if text.is_empty() {
        publish::withdraw(job, FAILED_MINI_BATCHES).await
    } else {
        publish::put(job, FAILED_MINI_BATCHES, text.into()).await
    }
}

/// The same lines for a job that has no such list yet, as far as its segments tell. Segments that cannot be read are left
/// out.
///
/// # Errors
/// The store failed.
pub async fn of_segments(
    storage: &Arc<dyn Storage>,
    record: &JobRecord,
) -> Result<BTreeMap<MiniBatchIndex, Value>, StorageError> {
    let mut found = Found::default();
    let mut listed = storage.list_all(layout::SEGMENTS).await?;
    listed.retain(|object| layout::is_segment(&object.key));
    let read = |object: ObjectMeta| {
        let storage = Arc::clone(storage);
        async move { read_index(&*storage, &object).await }
    };
    let mut read = futures_util::stream::iter(listed.into_iter().map(read)).buffered(READ_AT_ONCE);
    while let Some(read) = read.next().await {
        match read {
            Ok(read) => found.add(&read.index, record.incarnation),
            Err(SegmentError::Damaged { .. }) => {}
            // It went when the job ended.
            Err(error) if error.is_damage() => {}
            Err(SegmentError::Storage(error)) => return Err(error),
        }
    }
    Ok(found.lines(&record.spec))
}

/// What segments tell of mini-batches.
#[derive(Default)]
struct Found {
    whole: HashSet<MiniBatchIndex>,
    failures: BTreeMap<MiniBatchIndex, Failures>,
}

impl Found {
    fn add(&mut self, index: &SegmentIndex, incarnation: u32) {
        let current = index.incarnation == incarnation;
        for record in &index.tries {
            let is_outcome = record.is_outcome(current);
            if is_outcome && record.is_whole() {
                self.whole.insert(record.index);
                continue;
            }
            if record.status == TryStatus::RunDone && !is_outcome {
                continue;
            }
            let process = index.processes.get(record.process as usize).map_or("", |process| &*process.name);
            let failures = self.failures.entry(record.index).or_default();
            failures.tries.push(TryFailure::new(index, process, record));
            if is_outcome {
                failures.items = (record.items, record.items - record.succeeded);
                failures.body.clone_from(&record.failed);
            }
        }
    }

    fn lines(self, spec: &JobSpec) -> BTreeMap<MiniBatchIndex, Value> {
        let open = self.failures.into_iter().filter(|(index, _)| !self.whole.contains(index));
        let line = |(index, failures): (MiniBatchIndex, Failures)| {
            let body = failures.body.as_deref()?;
            Some((index, line(spec, index, body, &failures)?))
        };
        open.filter_map(line).collect()
    }
}

/// A line of the list; nothing where the descriptor is damaged.
fn line(spec: &JobSpec, index: MiniBatchIndex, body: &[u8], failures: &Failures) -> Option<Value> {
    let Ok(mini_batch) = MiniBatch::decode(body) else {
        tracing::error!(index, "a failed mini-batch is not listed: its descriptor is damaged");
        return None;
    };
    let input = spec.inputs.get(mini_batch.input as usize).map(|input| input.name.as_str());
    let mut tries = failures.tries.clone();
    tries.sort_by_key(TryFailure::order);
    let (total, missing) = failures.items;
    Some(json!({
        "mini_batch_id": id_of(index),
        "minibatch_index": index,
        "input": input,
        "items": items(&mini_batch),
        "items_total": total,
        "items_missing": missing,
        "tries": tries,
    }))
}

fn items(mini_batch: &MiniBatch<'_>) -> Vec<Value> {
    match &mini_batch.work {
        Work::Files { .. } | Work::Objects { .. } => {
            mini_batch.file_names().into_iter().map(Value::from).collect()
        }
        Work::Slice(SliceRef { origin, start, end, records, .. }) => {
            vec![json!({"file": origin, "start": start, "end": end, "records": records})]
        }
        Work::Stored { key, .. } => vec![json!({"descriptor": key})],
        Work::Unreadable { origin, offset, .. } => vec![json!({"file": origin, "start": offset})],
    }
}

#[cfg(test)]
mod tests {
    use prs_common::segment::{ProcessRef, SegmentBuilder, TryRecord};

    use super::*;

    /// Segments of (start of the job, mini-batch, status, whether it is the outcome, items that succeeded of two).
    fn found(tries: &[(u32, MiniBatchIndex, TryStatus, bool, u64)]) -> BTreeMap<MiniBatchIndex, Value> {
        let mut found = Found::default();
        for (incarnation, index, status, last, succeeded) in tries {
            let work =
                Work::Files { base: "", paths: vec!["/d/a", "/d/b"], versions: &[], names: Vec::new() };
            let body = MiniBatch { index: *index, input: 0, work }.encode();
            let mut segment = SegmentBuilder::default();
            let mut record = TryRecord::new(*index, &body, *status);
            (record.last, record.items, record.succeeded, record.number) = (*last, 2, *succeeded, 1);
            record.failed = (*last && !record.is_whole()).then_some(body);
            segment.add(record, &ProcessRef::default(), "".into());
            found.add(&segment.seal("k", *incarnation, 0, "").1, 2);
        }
        found.lines(&JobSpec::new("job", "/", "x.py", vec![]))
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
