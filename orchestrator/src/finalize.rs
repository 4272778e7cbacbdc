//! The finalizer: turns committed segments into the output of the job (spec S9, S10, S11, E15).
//!
//! Rows are read in input order. Within a segment they lie in that order too, so each segment is read from its
//! beginning to its end, a window at a time, and memory stays bounded whatever the size of the result. Doing it
//! again writes the same bytes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use prs_common::hexadecimal;
use prs_common::job::OutputAction;
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, Work, id_of};
use prs_common::segment::OutputFile;
use prs_common::storage::{PutOptions, StorageError, StorageErrorKind, Upload};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::JobContext;
use crate::catalog::{Catalog, TryFailure};
use crate::damage::{Damaged, FinalizeError};
use crate::job_record::Output;
use crate::segment_rows::{SegmentRows, what_is_wrong};

/// Files published side by side.
const PUBLISHED_AT_ONCE: usize = 16;
/// Bytes written to the result at a time.
const PIECE: usize = 4 << 20;

/// Writes the result and publishes the files of the mini-batches.
pub(crate) async fn finalize(job: &JobContext, catalog: &Catalog) -> Result<Output, FinalizeError> {
    let mut output = Output { uri: job.output.uri(""), rows: catalog.returned, ..Output::default() };
    if job.spec.output_action == OutputAction::AppendRow {
        write_result(job, catalog, &mut output).await?;
    }
    publish_files(job, catalog).await?;
    Ok(output)
}

async fn write_result(job: &JobContext, catalog: &Catalog, output: &mut Output) -> Result<(), FinalizeError> {
    let name = &job.spec.append_row_file_name;
    let mut result = ResultFile { upload: job.output.upload(name).await?, hasher: Sha256::new(), bytes: 0 };
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
    upload.finish().await?;
    output.bytes = bytes;
    output.sha256 = Some(hexadecimal(&hasher.finalize()));
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

/// Publishes what mini-batches wrote below their output folder. Of several mini-batches that wrote the same
/// path, the first in input order keeps it; the others get their id into the name.
async fn publish_files(job: &JobContext, catalog: &Catalog) -> Result<(), FinalizeError> {
    let mut files: Vec<_> = catalog.files.iter().collect();
    files.sort_by_key(|(index, file)| (*index, &file.path));
    let spec = &job.spec;
    let own_file = (spec.output_action == OutputAction::AppendRow).then_some(&*spec.append_row_file_name);
    let names = names(files.iter().map(|(index, file)| (*index, &*file.path)), own_file);
    let mut to_publish = Vec::with_capacity(names.len());
    for ((index, file), name) in files.into_iter().zip(names) {
        to_publish.push(publish_checked(job, catalog, *index, file, name));
    }
    let mut published = futures_util::stream::iter(to_publish).buffer_unordered(PUBLISHED_AT_ONCE);
    while let Some(done) = published.next().await {
        done?;
    }
    Ok(job.output.flush().await?)
}

/// Publishes a file after it was found to be the one that the mini-batch wrote.
async fn publish_checked(
    job: &JobContext,
    catalog: &Catalog,
    index: MiniBatchIndex,
    file: &OutputFile,
    name: String,
) -> Result<(), FinalizeError> {
    if let Some(reason) = what_is_wrong(&*job.storage, file).await? {
        return Err(FinalizeError::Damaged(Damaged {
            segment: catalog.segment_of(index).to_owned(),
            reason,
        }));
    }
    Ok(publish(job, index, &file.key, name).await?)
}

/// The name in the output of each file, given in input order. `own_file` is what prs itself writes there.
fn names<'a>(
    files: impl Iterator<Item = (MiniBatchIndex, &'a str)> + Clone,
    own_file: Option<&'a str>,
) -> Vec<String> {
    let mut taken: HashSet<Cow<'a, str>> = own_file.into_iter().map(Cow::Borrowed).collect();
    taken.insert(FAILED_MINI_BATCHES.into());
    // First everyone who comes first keeps the name; then no made-up name takes one of these. What is a folder
    // to one file cannot be another file.
    let mut folders: HashSet<&str> = HashSet::new();
    let mut keeps = |path: &'a str| {
        let parents = || path.match_indices('/').map(|(at, _)| &path[..at]);
        let free = !folders.contains(path) && !parents().any(|parent| taken.contains(parent));
        if free && taken.insert(path.into()) {
            folders.extend(parents());
            return true;
        }
        false
    };
    let first: Vec<bool> = files.clone().map(|(_, path)| keeps(path)).collect();
    let name = |((index, path), first): ((MiniBatchIndex, &'a str), bool)| {
        if first {
            return path.to_owned();
        }
        let id = id_of(index);
        let mut candidates = std::iter::once(id.clone()).chain((2..).map(|number| format!("{id}-{number}")));
        let free = candidates.find_map(|id| {
            // Where a folder of it is somebody's file, the folder is renamed, else the file.
            let file = path.match_indices('/').find(|(at, _)| taken.contains(&path[..*at]));
            let renamed = file.map_or(path.len(), |(at, _)| at);
            let name = with_id(&path[..renamed], &id) + &path[renamed..];
            taken.insert(name.clone().into()).then_some(name)
        });
        let name = free.expect("there are more numbers than files");
        tracing::info!(path, name, "several mini-batches wrote this file; all are kept");
        name
    };
    files.zip(first).map(name).collect()
}

/// Copies a staged object to the output; a piece at a time where that is another store. There may be files of
/// somebody else there: these are left alone, and ours gets its id into the name.
async fn publish(
    job: &JobContext,
    index: MiniBatchIndex,
    key: &str,
    name: String,
) -> Result<(), StorageError> {
    if let Some(prefix) = job.output_prefix {
        return job.storage.copy(key, &format!("{prefix}{name}")).await;
    }
    let renamed = || with_id(&name, &id_of(index));
    for name in [name.clone(), renamed()] {
        match is_published(job, key, &name).await? {
            Some(true) => return Ok(()),
            Some(false) => {}
            None => return copy_over(job, key, &name).await,
        }
    }
    Err(StorageError {
        kind: StorageErrorKind::AlreadyExists,
        place: job.output.to_string(),
        key: renamed(),
        message: "somebody else's files have this name and the one without the id; move them away".to_owned(),
    })
}

/// Whether the output has `name` with the bytes of the staged object `key`; nothing where it has no such file.
async fn is_published(job: &JobContext, key: &str, name: &str) -> Result<Option<bool>, StorageError> {
    let mut offset = 0;
    loop {
        let range = offset..offset + PIECE as u64;
        let there = match job.output.get_range(name, range.clone()).await {
            Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(None),
            there => there?,
        };
        if there != job.storage.get_range(key, range).await? {
            return Ok(Some(false));
        }
        if there.len() < PIECE {
            return Ok(Some(true));
        }
        offset += PIECE as u64;
    }
}

async fn copy_over(job: &JobContext, key: &str, name: &str) -> Result<(), StorageError> {
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
            "items": items(&mini_batch),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_gets_a_name_of_its_own() {
        let files = [(0, "x"), (1, "x/y"), (1, "u/v"), (2, "u")];
        assert_eq!(names(files.into_iter(), None), ["x", "x.mb-0000000001/y", "u/v", "u.mb-0000000002"]);
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
