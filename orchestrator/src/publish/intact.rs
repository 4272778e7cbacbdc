//! Comparison of an output with what its job wrote, before something else reads it.
//!
//! Names and sizes come from one listing and are compared first. Bytes are read and compared with the checksums of the job's
//! record where the caller asks for that: a reader that checks what it reads need not have all of it read before. In a folder of
//! this machine nothing is followed that is a link.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::dataset::remote::is_remote;
use prs_common::layout::{FAILED_MINI_BATCHES, OUTPUT};
use prs_common::storage::{
    ObjectMeta, Storage, StorageError, StorageErrorKind, StorageExt, is_kept_by_stores,
};
use prs_common::tree::{Kind, OpenFolder};

use super::former::{COPIED_AT_ONCE, Content, FormerError, FormerOutput, below, check};
use crate::job::record::JobRecord;

/// How thoroughly an output is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Names and sizes.
    Sizes,
    /// The same, and the bytes of files whose names end so.
    BytesOf(&'static str),
    /// All bytes.
    Bytes,
}

impl Depth {
    fn reads(self, name: &str) -> bool {
        match self {
            Self::Sizes => false,
            Self::BytesOf(suffix) => name.ends_with(suffix),
            Self::Bytes => true,
        }
    }
}

/// How an output differs from what its job wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Difference {
    /// A file is missing.
    #[error("output/{0} is gone")]
    Gone(String),
    /// A file has another size.
    #[error("output/{name} has {bytes} bytes in place of {size}")]
    Size {
        /// Its name.
        name: String,
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that the job wrote.
        size: u64,
    },
    /// A file has the size and not the checksum.
    #[error("output/{0} has other bytes")]
    Bytes(String),
    /// Something else stands where the job wrote a file.
    #[error("output/{name} is {what} in place of a file")]
    Replaced {
        /// The name of the file.
        name: String,
        /// What it is, with an article.
        what: &'static str,
    },
    /// Something is there that the job did not write.
    #[error("output/{name} is {what} that is not of the job")]
    Foreign {
        /// Its name.
        name: String,
        /// What it is, with an article.
        what: &'static str,
    },
    /// The list of its files is not what the job wrote.
    #[error("{0}, the list of its files, is gone or damaged")]
    List(String),
}

impl Difference {
    /// Whether the job makes the output whole when it runs again: no file of somebody else is in the way.
    pub(crate) fn is_mended_by_job(&self) -> bool {
        !matches!(self, Self::Foreign { .. })
    }
}

/// Compares the file or the folder `path` of the output of a job (all of it where that is empty) with what the job wrote.
/// `storage` is the prefix of the job.
pub(crate) async fn difference(
    record: &JobRecord,
    storage: &dyn Storage,
    path: &str,
    depth: Depth,
) -> Result<Option<Difference>, StorageError> {
    let files = match FormerOutput::all_of(record, storage).await {
        Ok(FormerOutput(files)) => files,
        Err(FormerError::Storage(error)) => return Err(error),
        Err(FormerError::List(list)) => return Ok(Some(Difference::List(list))),
        Err(error) => return Ok(Some(Difference::List(error.to_string()))),
    };
    let output = storage.below(OUTPUT.trim_end_matches('/'));
    let is_of_path = |name: &str| below(name, path).is_some();
    let leads_to_path = |name: &str| is_of_path(name) || below(path, name).is_some();
    let files: BTreeMap<&str, &Content> = (files.iter())
        .map(|(name, content)| (&**name, content))
        .filter(|(name, _)| is_of_path(name))
        .collect();
    if let Some((name, what)) = no_files(storage).await?.into_iter().find(|(name, _)| leads_to_path(name)) {
        let is_of_job = files.contains_key(&*name);
        return Ok(Some(if is_of_job {
            Difference::Replaced { name, what }
        } else {
            Difference::Foreign { name, what }
        }));
    }
    let mut there = BTreeMap::new();
    for object in objects(&*output, path).await? {
        there.insert(object.key, object.size);
    }
    for (name, content) in &files {
        let size = content.size();
        match there.remove(*name) {
            None => return Ok(Some(Difference::Gone((*name).to_owned()))),
            Some(bytes) if bytes != size => {
                return Ok(Some(Difference::Size { name: (*name).to_owned(), bytes, size }));
            }
            Some(_) => {}
        }
    }
    // The list of what failed is written when the nodes have left, and no output of a step.
    if let Some(name) = there.into_keys().find(|name| name != FAILED_MINI_BATCHES) {
        return Ok(Some(Difference::Foreign { name, what: "a file" }));
    }
    let read = files.iter().filter(|(name, _)| depth.reads(name));
    let read: Vec<_> = read.map(|(name, content)| compare(&*output, name, content)).collect();
    let mut compared = stream::iter(read).buffered(COPIED_AT_ONCE);
    while let Some(difference) = compared.try_next().await? {
        if difference.is_some() {
            return Ok(difference);
        }
    }
    Ok(None)
}

/// Compares the bytes of a file.
async fn compare(
    output: &dyn Storage,
    name: &str,
    content: &Content,
) -> Result<Option<Difference>, StorageError> {
    match check(output, name, content).await {
        Ok(()) => Ok(None),
        Err(FormerError::Storage(error)) if error.kind == StorageErrorKind::NotFound => {
            Ok(Some(Difference::Gone(name.to_owned())))
        }
        Err(FormerError::Storage(error)) if error.kind != StorageErrorKind::Damaged => Err(error),
        Err(_) => Ok(Some(Difference::Bytes(name.to_owned()))),
    }
}

/// The object `path` of an output, and those in the folder `path`.
async fn objects(output: &dyn Storage, path: &str) -> Result<Vec<ObjectMeta>, StorageError> {
    if path.is_empty() {
        return output.list_all("").await;
    }
    let mut found = output.list_all(&format!("{path}/")).await?;
    match output.head(path).await {
        Ok(object) => found.push(object),
        Err(error) if error.kind == StorageErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// Removes what a job brought to its output, so that its next start makes all of it. Tells what is in the way then: something
/// that the job did not bring, which stays.
pub(crate) async fn clear(
    record: &JobRecord,
    storage: &dyn Storage,
) -> Result<Option<Difference>, StorageError> {
    let names = match FormerOutput::all_of(record, storage).await {
        Ok(FormerOutput(files)) => files.into_iter().map(|(name, _)| name).collect(),
        Err(FormerError::Storage(error)) => return Err(error),
        // Nothing tells whose the files are.
        Err(_) => Vec::new(),
    };
    let names: Vec<String> = names.into_iter().chain([FAILED_MINI_BATCHES.to_owned()]).collect();
    let output = storage.below(OUTPUT.trim_end_matches('/'));
    match folder_here(storage) {
        Some(folder) => remove_here(folder, names).await.map_err(|error| failed(&*output, &error))?,
        None => output.delete_all(&names).await?,
    }
    if let Some((name, what)) = no_files(storage).await?.into_iter().next() {
        return Ok(Some(Difference::Foreign { name, what }));
    }
    let left = output.list_all("").await?.into_iter().next();
    Ok(left.map(|object| Difference::Foreign { name: object.key, what: "a file" }))
}

/// The folder of the output of a job of this machine.
fn folder_here(storage: &dyn Storage) -> Option<PathBuf> {
    let uri = storage.uri(OUTPUT.trim_end_matches('/'));
    (!is_remote(&uri)).then(|| PathBuf::from(uri))
}

/// All that is neither a file nor a folder in the output of a job, with what it is; nothing in a bucket.
async fn no_files(storage: &dyn Storage) -> Result<Vec<(String, &'static str)>, StorageError> {
    let Some(folder) = folder_here(storage) else { return Ok(Vec::new()) };
    let found = blocking(move || {
        let mut found = Vec::new();
        match OpenFolder::open(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                found.push((String::new(), "a link or a file"));
            }
            folder => collect(&folder?, "", &mut found)?,
        }
        Ok(found)
    });
    found.await.map_err(|error| failed(storage, &error))
}

fn collect(folder: &OpenFolder, path: &str, found: &mut Vec<(String, &'static str)>) -> io::Result<()> {
    for (name, seen) in folder.entries()? {
        let below = format!("{path}{}", name.to_string_lossy());
        match seen.kind {
            Kind::Folder if !is_kept_by_stores(&below) => {
                collect(&folder.child(&name)?, &format!("{below}/"), found)?;
            }
            Kind::Other(what) => found.push((below, what)),
            Kind::Folder | Kind::File => {}
        }
    }
    Ok(())
}

/// Removes files of a folder of this machine, where no link leads to them.
async fn remove_here(folder: PathBuf, names: Vec<String>) -> io::Result<()> {
    blocking(move || {
        let root = match OpenFolder::open(&folder) {
            // What stands there instead is told of by what looks next.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(());
            }
            root => root?,
        };
        for name in names {
            let path = Path::new(&name);
            let parent = match root.below(path.parent().unwrap_or(Path::new(""))) {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
                {
                    continue;
                }
                parent => parent?,
            };
            match parent.remove_file(path.file_name().unwrap_or(OsStr::new(""))) {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {}
                removed => removed?,
            }
        }
        Ok(())
    })
    .await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn failed(storage: &dyn Storage, error: &io::Error) -> StorageError {
    StorageError {
        kind: StorageErrorKind::Unavailable,
        place: storage.to_string(),
        key: OUTPUT.to_owned(),
        message: error.to_string(),
    }
}
