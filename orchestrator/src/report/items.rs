//! What a mini-batch consists of, as reports name it: by names and places alone. A descriptor has whole addresses, also what a signed one
//! keeps secret, and stays where rows are.

use std::ops::Range;

use prs_common::mini_batch::{MiniBatch, SliceRef, Work};
use serde_json::{Value, json};

/// The items of a mini-batch, of files only those at the positions `failed` where they are known.
pub(crate) fn items(mini_batch: &MiniBatch<'_>, failed: Option<&[Range<u64>]>) -> Vec<Value> {
    match &mini_batch.work {
        Work::Files { .. } | Work::Objects { .. } => {
            let is_wanted =
                |at: u64| failed.is_none_or(|failed| failed.iter().any(|items| items.contains(&at)));
            let names = mini_batch.file_names().into_iter().zip(0..);
            names.filter(|(_, at)| is_wanted(*at)).map(|(name, _)| Value::from(name)).collect()
        }
        Work::Slice(slice) => vec![of_slice(slice)],
        Work::Slices(slices) => slices.iter().map(of_slice).collect(),
        Work::Stored { key, .. } => vec![json!({"descriptor": key})],
        Work::Unreadable { origin, offset, .. } => vec![json!({"file": origin, "start": offset})],
    }
}

fn of_slice(slice: &SliceRef<'_>) -> Value {
    let SliceRef { origin, start, end, records, .. } = slice;
    json!({"file": origin, "start": start, "end": end, "records": records})
}

/// The input that a descriptor is of, by its position, and its items, as JSON, of files only those at the positions `failed`
/// where they are known; empty where it is damaged.
pub(crate) fn named(descriptor: &[u8], failed: Option<&[Range<u64>]>) -> Vec<u8> {
    let named = MiniBatch::decode(descriptor)
        .ok()
        .and_then(|mini_batch| serde_json::to_vec(&(mini_batch.input, items(&mini_batch, failed))).ok());
    named.unwrap_or_default()
}
