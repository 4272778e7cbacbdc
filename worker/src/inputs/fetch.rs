//! Fetches one file into the cache: a small one in one step, a large one under a temporary name first, so that a file
//! there is whole.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use prs_common::storage::{Storage, StorageError, StorageErrorKind};

use super::cache::Cache;

/// Bytes of a slice that are asked for at a time.
const PIECE: u64 = 8 << 20;

/// Objects up to this size are read whole, then written at once, bytes.
const SMALL: u64 = 1 << 20;

/// What of an object is needed.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// All of it.
    Whole {
        /// Its size, where it is known.
        size: Option<u64>,
    },
    /// These bytes, which the file has at the same place; before them it has a hole.
    Range(Range<u64>),
}

impl Part {
    /// What it takes on the disk, where that is known.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::Whole { size } => *size,
            Self::Range(range) => Some(range.end.saturating_sub(range.start)),
        }
    }
}

/// Why a file is not there.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The store fails.
    Store(StorageError),
    /// The node fails.
    Local(StorageError),
    /// The object is not what was planned.
    Wrong(String),
}

/// Fetches `part` of the object `key` to `path` of the cache. Returns what it takes on the disk.
pub(super) async fn fetch(
    store: &dyn Storage,
    key: &str,
    part: &Part,
    cache: &Cache,
    path: &str,
) -> Result<u64, FetchError> {
    let target = cache.path(path);
    if let &Part::Whole { size: Some(size) } = part
        && size <= SMALL
    {
        return small(store, key, size, &target).await;
    }
    let temporary = Temporary(cache.temporary());
    // Errors of the node are met here, not taken for errors of the store later.
    blocking(&temporary.0, |temporary| {
        if let Some(folder) = temporary.parent() {
            fs::create_dir_all(folder)?;
        }
        File::create(temporary).map(drop)
    })
    .await?;
    let bytes = match part {
        Part::Whole { size } => whole(store, key, *size, &temporary.0).await?,
        Part::Range(range) => slice(store, key, range.clone(), &temporary.0).await?,
    };
    blocking(&temporary.0, move |temporary| in_its_folder(&target, || fs::rename(temporary, &target)))
        .await?;
    Ok(bytes)
}

/// Nobody else knows of the file before it is there: the cache has one fetched once, in a folder of this node's own.
async fn small(store: &dyn Storage, key: &str, planned: u64, file: &Path) -> Result<u64, FetchError> {
    let bytes = store.get_range(key, 0..planned + 1).await.map_err(FetchError::Store)?;
    if bytes.len() as u64 > planned {
        let what = format!(
            "the object has more than the {planned} bytes now that it had when the job was submitted"
        );
        return Err(FetchError::Wrong(what));
    }
    check_size(planned, bytes.len() as u64)?;
    blocking(file, move |file| {
        let written = in_its_folder(file, || fs::write(file, &bytes));
        if written.is_err() {
            let _ = fs::remove_file(file);
        }
        written
    })
    .await?;
    Ok(planned)
}

fn check_size(planned: u64, size: u64) -> Result<(), FetchError> {
    if planned == size {
        return Ok(());
    }
    let what = format!("the object has {size} bytes now and had {planned} when the job was submitted");
    Err(FetchError::Wrong(what))
}

async fn whole(store: &dyn Storage, key: &str, planned: Option<u64>, file: &Path) -> Result<u64, FetchError> {
    let size = store.download(key, file).await.map_err(|mut error| {
        if error.place != file.display().to_string() {
            return FetchError::Store(error);
        }
        // Whatever is wrong with the folder, the data is not to blame.
        if error.kind != StorageErrorKind::Full {
            error.kind = StorageErrorKind::Unavailable;
        }
        FetchError::Local(error)
    })?;
    planned.map_or(Ok(()), |planned| check_size(planned, size))?;
    Ok(size)
}

async fn slice(store: &dyn Storage, key: &str, range: Range<u64>, file: &Path) -> Result<u64, FetchError> {
    let end = range.end;
    blocking(file, move |file| File::options().write(true).open(file)?.set_len(end)).await?;
    let mut at = range.start;
    while at < range.end {
        let piece = at..range.end.min(at + PIECE);
        let bytes: Bytes = store.get_range(key, piece.clone()).await.map_err(FetchError::Store)?;
        if bytes.len() as u64 != piece.end - piece.start {
            return Err(FetchError::Wrong(format!(
                "the object has {} bytes now and had at least {} when the job was planned",
                piece.start + bytes.len() as u64,
                range.end
            )));
        }
        blocking(file, move |file| File::options().write(true).open(file)?.write_all_at(&bytes, piece.start))
            .await?;
        at += PIECE;
    }
    Ok(range.end.saturating_sub(range.start))
}

/// Makes a file by `write`, and its folder where there is none.
fn in_its_folder(file: &Path, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    // Somebody may remove the folder, when it is empty, while it is being made and just after it was.
    let mut again = 0..100;
    let mut written = write();
    while let Err(error) = &written
        && matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
        && again.next().is_some()
    {
        written = fs::create_dir_all(folder).and_then(|()| write());
    }
    written
}

async fn blocking(
    file: &Path,
    work: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
) -> Result<(), FetchError> {
    let path = file.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&path)).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| local(file, &error))
}

fn local(file: &Path, error: &io::Error) -> FetchError {
    let kind = match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
            return FetchError::Wrong("it is a folder of the dataset and a file as well".to_owned());
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StorageErrorKind::Full
        }
        _ => StorageErrorKind::Unavailable,
    };
    let (place, message) = (file.display().to_string(), error.to_string());
    FetchError::Local(StorageError { kind, place, key: String::new(), message })
}

/// A file that is removed unless it was given its name.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
