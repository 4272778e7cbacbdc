//! The finalizer: turns committed segments into the output of the job (spec S9, S10, S11, E15).
//!
//! Rows are read in input order. Within a segment they lie in that order too, so each segment is read from its
//! beginning to its end, a window at a time, and memory stays bounded whatever the size of the result. Doing it
//! again writes the same bytes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use prs_common::job::OutputAction;
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, Work, id_of};
use prs_common::storage::{PutOptions, StorageError};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::JobContext;
use crate::catalog::{Catalog, Place, TryFailure};
use crate::job_record::Output;

/// Bytes read from a segment at a time.
const WINDOW: u64 = 1 << 20;
/// Segments read side by side at most; more cost another read, not memory.
const MOST_WINDOWS: usize = 64;
/// Bytes written to the result at a time.
const PIECE: usize = 4 << 20;

/// Writes the result, publishes the files of the mini-batches, and lists the failed ones.
pub(crate) async fn finalize(job: &JobContext, catalog: &Catalog) -> Result<Output, StorageError> {
    let mut output = Output { uri: job.output.uri(""), rows: catalog.returned, ..Output::default() };
    if job.spec.output_action == OutputAction::AppendRow {
        write_result(job, catalog, &mut output).await?;
    }
    publish_files(job, catalog).await?;
    list_failures(job, catalog).await?;
    Ok(output)
}

async fn write_result(job: &JobContext, catalog: &Catalog, output: &mut Output) -> Result<(), StorageError> {
    let name = &job.spec.append_row_file_name;
    let mut upload = job.output.upload(name).await?;
    let mut hasher = Sha256::new();
    let mut piece = BytesMut::with_capacity(PIECE);
    if let Some((_, header)) = &catalog.header {
        piece.extend_from_slice(header.as_bytes());
    }
    let mut windows = Windows { job, catalog, open: HashMap::new(), clock: 0 };
    for place in catalog.places.iter().flatten().filter(|place| place.length > 0) {
        piece.extend_from_slice(&windows.rows(place).await?);
        if piece.len() >= PIECE {
            let full = std::mem::replace(&mut piece, BytesMut::with_capacity(PIECE)).freeze();
            hasher.update(&full);
            output.bytes += full.len() as u64;
            upload.write(full).await?;
        }
    }
    hasher.update(&piece);
    output.bytes += piece.len() as u64;
    upload.write(piece.freeze()).await?;
    upload.finish().await?;
    let sum = hasher.finalize();
    output.sha256 = Some(sum.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }));
    output.uri = job.output.uri(name);
    Ok(())
}

/// The parts of segments that are in memory.
struct Windows<'a> {
    job: &'a JobContext,
    catalog: &'a Catalog,
    open: HashMap<u32, Window>,
    clock: u64,
}

struct Window {
    start: u64,
    bytes: Bytes,
    used: u64,
}

impl Windows<'_> {
    async fn rows(&mut self, place: &Place) -> Result<Bytes, StorageError> {
        self.clock += 1;
        let within = |window: &Window| {
            let from = place.offset.checked_sub(window.start)?;
            (from + place.length <= window.bytes.len() as u64)
                .then(|| window.bytes.slice(from as usize..(from + place.length) as usize))
        };
        if let Some(window) = self.open.get_mut(&place.segment)
            && let Some(rows) = within(window)
        {
            window.used = self.clock;
            return Ok(rows);
        }
        let end = place.offset + place.length.max(WINDOW);
        let key = &self.catalog.segments[place.segment as usize];
        let bytes = self.job.storage.get_range(key, place.offset..end).await?;
        let window = Window { start: place.offset, bytes, used: self.clock };
        let rows = within(&window).ok_or_else(|| StorageError {
            kind: prs_common::storage::StorageErrorKind::NotFound,
            place: self.job.storage.to_string(),
            key: key.clone(),
            message: "the segment is shorter than its index says".to_owned(),
        })?;
        self.open.insert(place.segment, window);
        if self.open.len() > MOST_WINDOWS {
            let oldest = self.open.iter().min_by_key(|(_, window)| window.used).map(|(&segment, _)| segment);
            if let Some(oldest) = oldest {
                self.open.remove(&oldest);
            }
        }
        Ok(rows)
    }
}

/// Publishes what mini-batches wrote below their output folder. Of several mini-batches that wrote the same
/// path, the first in input order keeps it; the others get their id into the name.
async fn publish_files(job: &JobContext, catalog: &Catalog) -> Result<(), StorageError> {
    let mut files: Vec<_> = catalog.files.iter().collect();
    files.sort_by_key(|(index, file)| (*index, &file.path));
    let spec = &job.spec;
    let own_file = (spec.output_action == OutputAction::AppendRow).then_some(&*spec.append_row_file_name);
    let names = names(files.iter().map(|(index, file)| (*index, &*file.path)), own_file);
    for ((_, file), name) in files.into_iter().zip(names) {
        publish(job, &file.key, &name).await?;
    }
    Ok(())
}

/// The name in the output of each file, given in input order. `own_file` is what prs itself writes there.
fn names<'a>(
    files: impl Iterator<Item = (MiniBatchIndex, &'a str)> + Clone,
    own_file: Option<&'a str>,
) -> Vec<String> {
    let mut taken: HashSet<Cow<'a, str>> = own_file.into_iter().map(Cow::Borrowed).collect();
    taken.insert(FAILED_MINI_BATCHES.into());
    // First everyone who comes first keeps the name; then no made-up name takes one of these.
    let first: Vec<bool> = files.clone().map(|(_, path)| taken.insert(path.into())).collect();
    let name = |((index, path), first): ((MiniBatchIndex, &'a str), bool)| {
        if first {
            return path.to_owned();
        }
        let id = id_of(index);
        let mut candidates = std::iter::once(id.clone()).chain((2..).map(|number| format!("{id}-{number}")));
        let free = candidates.find_map(|id| {
            let name = with_id(path, &id);
            taken.insert(name.clone().into()).then_some(name)
        });
        let name = free.expect("there are more numbers than files");
        tracing::info!(path, name, "several mini-batches wrote this file; all are kept");
        name
    };
    files.zip(first).map(name).collect()
}

/// Copies a staged object to the output, a piece at a time: the two may be different stores.
async fn publish(job: &JobContext, key: &str, name: &str) -> Result<(), StorageError> {
    let mut upload = job.output.upload(name).await?;
    let mut offset = 0;
    loop {
        let piece = job.storage.get_range(key, offset..offset + PIECE as u64).await?;
        let length = piece.len();
        if length > 0 {
            upload.write(piece).await?;
        }
        offset += length as u64;
        if length < PIECE {
            return upload.finish().await;
        }
    }
}

/// `a/b.csv` with `mb-7` becomes `a/b.mb-7.csv`.
fn with_id(path: &str, id: &str) -> String {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let slash = if folder.is_empty() { "" } else { "/" };
    match name.rsplit_once('.') {
        Some((stem, suffix)) if !stem.is_empty() => format!("{folder}{slash}{stem}.{id}.{suffix}"),
        _ => format!("{folder}{slash}{name}.{id}"),
    }
}

/// Writes `failed_mini_batches.jsonl`, or removes an older one when nothing failed.
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
            "items": items(&mini_batch.work),
            "tries": tries,
        });
        let _ = writeln!(text, "{line}");
    }
    if text.is_empty() {
        job.output.delete(FAILED_MINI_BATCHES).await
    } else {
        job.output.put(FAILED_MINI_BATCHES, text.into(), PutOptions::default()).await
    }
}

fn items(work: &Work<'_>) -> Vec<Value> {
    match work {
        Work::Files { base: "", paths } => paths.iter().map(|path| json!(path)).collect(),
        Work::Files { base, paths } => paths.iter().map(|path| json!(format!("{base}/{path}"))).collect(),
        Work::Delimited { origin, start, end, records, .. } => {
            vec![json!({"file": origin, "start": start, "end": end, "records": records})]
        }
        Work::Unreadable { origin, offset, .. } => vec![json!({"file": origin, "start": offset})],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_gets_a_name_of_its_own() {
        let files = [(0, "a.txt"), (1, "a.txt"), (1, "rows.txt"), (2, "a.mb-0000000001.txt"), (2, "a.txt")];
        let expected = [
            "a.txt",
            "a.mb-0000000001-2.txt",
            "rows.mb-0000000001.txt",
            "a.mb-0000000001.txt",
            "a.mb-0000000002.txt",
        ];
        assert_eq!(names(files.into_iter(), Some("rows.txt")), expected);
    }

    #[test]
    fn the_id_goes_before_the_suffix() {
        let table = [
            ("a.csv", "a.mb-7.csv"),
            ("x/y/a.csv", "x/y/a.mb-7.csv"),
            ("x.d/a", "x.d/a.mb-7"),
            (".hidden", ".hidden.mb-7"),
            ("a.tar.gz", "a.tar.mb-7.gz"),
        ];
        for (path, expected) in table {
            assert_eq!(with_id(path, "mb-7"), expected);
        }
    }
}
