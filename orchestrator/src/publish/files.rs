//! The files that mini-batches wrote below their output folder (spec E15).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use futures_util::{StreamExt, TryStreamExt};
use prs_common::checksum::Crc32c;
use prs_common::failpoint;
use prs_common::job::OutputAction;
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::mini_batch::{MiniBatchIndex, id_of};
use prs_common::segment::{OutputFile, READS, read_again_after};
use prs_common::storage::{GetOptions, IfExists, StorageError, StorageErrorKind, StorageExt, pieces};
use tokio::sync::OnceCell;

use super::former::{self, BroughtFile};
use super::notes::{former_files, note_files};
use super::{FILE_PIECE, NEW, error};
use crate::JobContext;

/// Files published side by side.
const PUBLISHED_AT_ONCE: usize = 16;

/// Publishes `files`. Of several mini-batches that wrote the same path, the first in input order keeps it; the others
/// get their id into the name.
pub(crate) async fn publish(
    job: &JobContext,
    files: &[(MiniBatchIndex, OutputFile)],
) -> Result<(), StorageError> {
    let brought = bring(job, files).await?;
    if !brought.is_empty() {
        former::note(job, brought).await?;
    }
    job.output.flush().await
}

/// The same, but for the list of what was brought, which is given back.
pub(super) async fn bring(
    job: &JobContext,
    files: &[(MiniBatchIndex, OutputFile)],
) -> Result<Vec<BroughtFile>, StorageError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|(index, file)| (*index, &file.path));
    let names = names_for(job, &files);
    let mut brought = Vec::with_capacity(names.len());
    let noted = names.iter().cloned().zip(files.iter().map(|(_, file)| file.key.clone())).collect();
    let earlier = EarlierNames { job, latest: note_files(job, &noted).await?, names: OnceCell::new() };
    let mut to_publish = Vec::with_capacity(names.len());
    for ((index, file), name) in files.into_iter().zip(names) {
        to_publish.push(publish_one(job, &earlier, *index, file, name));
    }
    let mut published = futures_util::stream::iter(to_publish).buffer_unordered(PUBLISHED_AT_ONCE);
    while let Some(done) = published.next().await {
        brought.push(done?);
        failpoint::pass("file_published");
    }
    Ok(brought)
}

/// All names that these files may get in the output.
pub(super) fn names_of(job: &JobContext, files: &[(MiniBatchIndex, OutputFile)]) -> Vec<String> {
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|(index, file)| (*index, &file.path));
    let names = names_for(job, &files);
    let renamed: Vec<_> =
        names.iter().zip(&files).map(|(name, (index, _))| with_id(name, &id_of(*index))).collect();
    names.into_iter().chain(renamed).collect()
}

/// The name in the output of each of these sorted files.
fn names_for(job: &JobContext, files: &[&(MiniBatchIndex, OutputFile)]) -> Vec<String> {
    let spec = &job.spec;
    let own_file = (spec.output_action == OutputAction::AppendRow).then_some(&*spec.append_row_file_name);
    names(files.iter().map(|(index, file)| (*index, &*file.path)), own_file)
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
            // Where a folder of it is another's file, the folder is renamed, else the file.
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

/// The names under which files were published before; read when it matters.
struct EarlierNames<'a> {
    job: &'a JobContext,
    /// Key of the note of what is being published.
    latest: String,
    names: OnceCell<HashMap<String, Vec<String>>>,
}

impl EarlierNames<'_> {
    /// Keys of the staged files that had the name before.
    async fn keys(&self, name: &str) -> Result<&[String], StorageError> {
        let names = self.names.get_or_try_init(|| former_files(self.job, &self.latest)).await?;
        Ok(names.get(name).map_or(&[], Vec::as_slice))
    }

    /// Whether what has the name in the output is what the job brought under it before.
    async fn brought(&self, name: &str) -> Result<bool, StorageError> {
        for key in self.keys(name).await? {
            if is_published(self.job, key, name).await? == Some(true) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Copies a staged object to the output; a piece at a time where that is another store. Files that the job did not
/// bring are left alone, and ours gets its id into the name.
async fn publish_one(
    job: &JobContext,
    earlier: &EarlierNames<'_>,
    index: MiniBatchIndex,
    file: &OutputFile,
    name: String,
) -> Result<BroughtFile, StorageError> {
    let key = &file.key;
    let brought = |name: &str| BroughtFile { name: name.to_owned(), size: file.size, crc: file.crc };
    if let Some(prefix) = job.output_prefix {
        let target = format!("{prefix}{name}");
        match job.storage.copy(key, &target, NEW).await {
            Err(error) if error.kind == StorageErrorKind::AlreadyExists => {}
            copied => return copied.map(|()| brought(&name)),
        }
        if !earlier.keys(&name).await?.is_empty() {
            job.storage.copy(key, &target, IfExists::Overwrite).await?;
            return Ok(brought(&name));
        }
    }
    let renamed = with_id(&name, &id_of(index));
    for name in [&name, &renamed] {
        match is_published(job, key, name).await? {
            Some(true) => return Ok(brought(name)),
            Some(false) if earlier.brought(name).await? => job.output.delete(name).await?,
            Some(false) => continue,
            None => {}
        }
        match copy_over(job, file, name).await {
            // A folder, or a file that came at this moment.
            Err(error) if error.kind == StorageErrorKind::AlreadyExists => {}
            copied => return copied.map(|()| brought(name)),
        }
    }
    let message = "files that the job did not bring have this name and the one without the id, and they are not \
                   overwritten: move them away and resume the job";
    Err(error(job, StorageErrorKind::AlreadyExists, &renamed, message))
}

/// Whether the output has `name` with the bytes of the staged object `key`; nothing where it has no such file.
async fn is_published(job: &JobContext, key: &str, name: &str) -> Result<Option<bool>, StorageError> {
    let read = |storage, key: &str| pieces(storage, key.to_owned(), GetOptions::default(), FILE_PIECE);
    let (mut there, mut ours) = (read(&*job.output, name), read(&*job.storage, key));
    loop {
        let there = match there.try_next().await {
            Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(None),
            there => there?,
        };
        if there != ours.try_next().await? {
            return Ok(Some(false));
        }
        if there.is_none() {
            return Ok(Some(true));
        }
    }
}

/// Copies a staged object to another store. It gets its name when what was read for it is what the mini-batch wrote;
/// what was damaged on the way is read again.
async fn copy_over(job: &JobContext, file: &OutputFile, name: &str) -> Result<(), StorageError> {
    let mut reads = 1;
    loop {
        let mut writer = job.output.writer(name, NEW).await?;
        let (mut size, mut sum) = (0, Crc32c::new());
        let mut staged = pieces(&*job.storage, file.key.clone(), GetOptions::default(), FILE_PIECE);
        while let Some(piece) = staged.try_next().await? {
            size += piece.len() as u64;
            sum.update(&piece);
            writer.write(piece).await?;
        }
        if (size, sum.finish()) == (file.size, file.crc) {
            return writer.finish().await;
        }
        drop(writer);
        if reads == READS {
            let message = "what storage gives back is not what the mini-batch wrote".to_owned();
            let (kind, place) = (StorageErrorKind::Damaged, job.storage.to_string());
            return Err(StorageError { kind, place, key: file.key.clone(), message });
        }
        tokio::time::sleep(read_again_after(reads)).await;
        reads += 1;
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

#[cfg(test)]
mod tests {
    use prs_common::output_name::longest_addition;

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
    fn a_name_grows_by_no_more_than_was_counted_with() {
        let last = u64::from(u32::MAX);
        let files = [(0, "a/b"), (last, "a/b"), (last, "a/b.mb-4294967295"), (last, "a/b.mb-4294967295-2")];
        for ((index, path), name) in files.into_iter().zip(names(files.into_iter(), None)) {
            // Once more where the output has such a file of others.
            let longest = with_id(&name, &id_of(index)).len() - path.len();
            assert!(longest <= longest_addition(), "{path} became {name}");
        }
        let number = u32::MAX.to_string().len() - "2".len();
        assert_eq!(
            with_id("a", &format!("{}-2", id_of(last))).len() + number + 1 + id_of(last).len(),
            1 + longest_addition()
        );
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
