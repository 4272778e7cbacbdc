//! Fetches one file into the cache: a small one in one step, a large one under a temporary name first, so that a file
//! there is whole. What comes is compared with what was planned: the version of an object, the content that a blob is
//! named by, the checksum of a slice.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, TryStreamExt, future, stream};
use prs_common::checksum::{Crc32c, crc32c};
use prs_common::file_version::SeenFile;
use prs_common::storage::{
    DiskError, GetOptions, STREAM_PIECE, Storage, StorageError, StorageErrorKind, StorageExt, TransferError,
    Version, pieces,
};
use prs_common::tree;
use prs_orchestrator::inputs::blob::{digest, promised_digest};

/// Files up to this size are kept in memory where there is room, bytes.
pub(super) const SMALL: u64 = 1 << 20;
/// Objects up to this size are read whole, so that their store compares its checksum, then written at once, bytes.
const AT_ONCE: u64 = STREAM_PIECE;

/// Bytes of a slice that are read at a time, some of them ahead, for each of many slices at once.
const SLICE_PIECE: u64 = 1 << 20;
/// Places of one file that are fetched at a time.
const RANGES: usize = 8;

/// An object, or a part of it, as it was planned.
#[derive(Debug, Clone)]
pub(super) struct Object {
    /// Its key.
    pub(super) key: String,
    /// Its version; empty where the key tells it, or where it is not known.
    pub(super) version: String,
    /// What of it is needed.
    pub(super) part: Part,
}

/// What of an object is needed.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// All of it.
    Whole {
        /// Its size, where it is known.
        size: Option<u64>,
    },
    /// Some bytes, which the file has at the same place; before them it has a hole.
    Range {
        /// Which ones.
        range: Range<u64>,
        /// Their CRC32C.
        checksum: u32,
    },
    /// Bytes in several places, in their order, which the file has at the same ones, between holes. What reads them knows
    /// whether they are right; there may be none.
    Places(Vec<Range<u64>>),
}

impl Part {
    /// What it takes on the disk, where that is known.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::Whole { size } => *size,
            Self::Range { range, .. } => Some(length(range)),
            Self::Places(places) => Some(places.iter().map(length).fold(0, u64::saturating_add)),
        }
    }

    /// Requests for it that are on their way together.
    pub(super) fn streams(&self) -> u32 {
        match self {
            Self::Whole { .. } | Self::Range { .. } => 1,
            Self::Places(places) => places.len().clamp(1, RANGES) as u32,
        }
    }
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Why a file is not there.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The store fails.
    Store(StorageError),
    /// The node fails.
    Local(DiskError),
    /// The object is not what was planned.
    Wrong(String),
    /// What came is not what was planned, though the object was not replaced: it is damaged, or was on its way here.
    Damaged(String),
}

impl Object {
    /// Fetches it to the path `target`; `temporary` is one on the same file system that nothing has. Returns what it takes
    /// there, and the file.
    pub(super) async fn fetch(
        &self,
        store: &dyn Storage,
        target: PathBuf,
        temporary: PathBuf,
    ) -> Result<(u64, SeenFile), FetchError> {
        if let Part::Whole { size: Some(size) } = self.part
            && size <= AT_ONCE
        {
            return self.at_once(store, size, &target).await;
        }
        let temporary = Temporary(temporary);
        // Errors of the node are met here, not taken for errors of the store later.
        blocking(&temporary.0, |temporary| {
            if let Some(folder) = temporary.parent() {
                tree::make_folders(folder)?;
            }
            tree::create(temporary).map(drop)
        })
        .await?;
        let bytes = match &self.part {
            Part::Whole { size } => self.whole(store, *size, &temporary.0).await?,
            Part::Range { range, checksum } => self.slice(store, range, *checksum, &temporary.0).await?,
            Part::Places(places) => self.places(store, places, &temporary.0).await?,
        };
        let seen = blocking(&temporary.0, move |temporary| {
            in_its_folder(&target, || tree::rename(temporary, &target))?;
            SeenFile::at(&target)
        });
        Ok((bytes, seen.await?))
    }

    /// Whether the file at `path` is still what it was when it was `known`, as far as can be told without fetching it
    /// again.
    pub(super) async fn is_whole(&self, path: &Path, known: SeenFile) -> bool {
        let part = self.part.clone();
        let looked = blocking(path, move |file| {
            if SeenFile::at(file)? != known {
                return Ok(false);
            }
            let Part::Range { range, checksum } = part else { return Ok(true) };
            let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
            File::open(file)?.read_exact_at(&mut bytes, range.start)?;
            Ok(crc32c(&bytes) == checksum)
        });
        looked.await.unwrap_or(false)
    }

    /// Nobody else knows of the file before it is there: the cache has one fetched once, in a folder of this node's own.
    async fn at_once(
        &self,
        store: &dyn Storage,
        planned: u64,
        file: &Path,
    ) -> Result<(u64, SeenFile), FetchError> {
        let version = self.wanted();
        // Whole, for of a part no store has a checksum to compare with. One whose version is not known may have become any
        // size; what it holds is told by its key.
        let range = version.is_none().then_some(0..planned + 1);
        let options = GetOptions { range, version };
        let bytes = store.get_opts(&self.key, options).await.map_err(FetchError::Store)?.bytes;
        if bytes.len() as u64 > planned {
            return Err(FetchError::Wrong(changed(&format!("it had {planned} bytes and has more now"))));
        }
        check_size(planned, bytes.len() as u64)?;
        if let Some(promised) = promised_digest(&self.key)
            && digest(&bytes[..]).is_ok_and(|found| found != promised)
        {
            return Err(self.damaged(store));
        }
        let seen = blocking(file, move |file| {
            let written = in_its_folder(file, || tree::write(file, &bytes));
            if written.is_err() {
                let _ = tree::remove_file(file);
            }
            written.and_then(|()| SeenFile::at(file))
        });
        Ok((planned, seen.await?))
    }

    async fn whole(&self, store: &dyn Storage, planned: Option<u64>, file: &Path) -> Result<u64, FetchError> {
        let size =
            store.download(&self.key, file, self.wanted().as_deref()).await.map_err(|error| match error {
                TransferError::Store(error) => FetchError::Store(error),
                TransferError::Disk(error) => FetchError::Local(error),
            })?;
        planned.map_or(Ok(()), |planned| check_size(planned, size))?;
        if let Some(promised) = promised_digest(&self.key)
            && blocking(file, |file| digest(File::open(file)?)).await? != promised
        {
            return Err(self.damaged(store));
        }
        Ok(size)
    }

    async fn slice(
        &self,
        store: &dyn Storage,
        range: &Range<u64>,
        planned: u32,
        file: &Path,
    ) -> Result<u64, FetchError> {
        lengthen(file, range.end).await?;
        if self.range(store, range, file).await? == planned {
            Ok(length(range))
        } else {
            Err(self.damaged(store))
        }
    }

    async fn places(
        &self,
        store: &dyn Storage,
        places: &[Range<u64>],
        file: &Path,
    ) -> Result<u64, FetchError> {
        lengthen(file, places.last().map_or(0, |last| last.end)).await?;
        let fetched: Vec<_> = places.iter().map(|range| self.range(store, range, file)).collect();
        stream::iter(fetched).buffer_unordered(RANGES).try_for_each(|_| future::ready(Ok(()))).await?;
        Ok(places.iter().map(length).sum())
    }

    /// Fetches some bytes to their place in `file`; gives their CRC32C.
    async fn range(&self, store: &dyn Storage, range: &Range<u64>, file: &Path) -> Result<u32, FetchError> {
        let (mut checksum, mut at) = (Crc32c::new(), range.start);
        let options = GetOptions { range: Some(range.clone()), version: self.wanted() };
        let mut slice = pieces(store, self.key.clone(), options, SLICE_PIECE);
        while let Some(bytes) = slice.try_next().await.map_err(|error| self.replaced(store, error))? {
            checksum.update(&bytes);
            let start = at;
            at += bytes.len() as u64;
            blocking(file, move |file| tree::open_to_write(file)?.write_all_at(&bytes, start)).await?;
        }
        if at < range.end {
            let end = range.end;
            return Err(FetchError::Wrong(changed(&format!("it had at least {end} bytes and has {at} now"))));
        }
        Ok(checksum.finish())
    }

    /// The version that was planned, where one was.
    fn wanted(&self) -> Option<Version> {
        Some(self.version.clone()).filter(|version| !version.is_empty())
    }

    /// What `error` means. An object whose version is not known may be written anew with the same bytes: it is read again.
    fn replaced(&self, store: &dyn Storage, error: StorageError) -> FetchError {
        if error.kind == StorageErrorKind::Changed && self.version.is_empty() {
            self.damaged(store)
        } else {
            FetchError::Store(error)
        }
    }

    fn damaged(&self, store: &dyn Storage) -> FetchError {
        let object = store.uri(&self.key);
        FetchError::Damaged(match &self.part {
            Part::Whole { .. } | Part::Places(_) => format!(
                "{object} is damaged: it does not hold what its name says; remove it and submit the job again, which \
                 uploads it anew"
            ),
            Part::Range { range: Range { start, end }, .. } => format!(
                "{object} is damaged: its bytes {start}-{end} are not those that were planned; resume the job where the \
                 object is a copy that prs made, else submit it again as a new one"
            ),
        })
    }
}

/// What to say of an object that is no longer what was planned.
pub(super) fn changed(what: &str) -> String {
    format!("it changed since it was planned: {what}; submit the job again as a new one")
}

fn check_size(planned: u64, size: u64) -> Result<(), FetchError> {
    if planned == size {
        return Ok(());
    }
    Err(FetchError::Wrong(changed(&format!("it had {planned} bytes and has {size} now"))))
}

/// Makes `file` as long as its last byte asks for.
async fn lengthen(file: &Path, end: u64) -> Result<(), FetchError> {
    blocking(file, move |file| tree::open_to_write(file)?.set_len(end)).await
}

/// Makes `path` a link that holds `target`.
pub(super) async fn link(path: &Path, target: PathBuf) -> Result<(), FetchError> {
    blocking(path, move |path| {
        // One is left where its file was damaged.
        let _ = tree::remove_file(path);
        in_its_folder(path, || tree::link(&target, path))
    })
    .await
}

/// Makes a file by `write`, and its folder where there is none.
fn in_its_folder(file: &Path, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    // Another program may remove the folder, when it is empty, while it is being made and just after it was.
    let mut again = 0..100;
    let mut written = write();
    while let Err(error) = &written
        && matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
        && again.next().is_some()
    {
        written = tree::make_folders(folder).and_then(|()| write());
    }
    written
}

async fn blocking<T: Send + 'static>(
    file: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, FetchError> {
    let path = file.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&path)).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| local(file, error))
}

fn local(file: &Path, error: io::Error) -> FetchError {
    match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
            FetchError::Wrong("it is a folder of the dataset and a file as well".to_owned())
        }
        _ => FetchError::Local(DiskError::about(file)(error)),
    }
}

/// A file that is removed unless it was given its name.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = tree::remove_file(&self.0);
    }
}
