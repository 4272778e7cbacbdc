//! What every store can do by means of the methods of [`Storage`]: whole objects, streams that read ahead, local files
//! up and down, folders of objects. Written once, for all stores and all that wrap one.

use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt, future};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{GetOptions, GetResult, IfExists, ObjectMeta, Storage, StorageError, StorageErrorKind, Version};
use crate::checksum::StoredChecksum;
use crate::tree;

/// Bytes that a stream asks for at a time, and that a local file is read by.
pub const STREAM_PIECE: u64 = 8 << 20;
/// Pieces that are on their way while one is used.
const AHEAD: usize = 4;
/// How often a download starts again because the object was replaced meanwhile.
const REPLACED: usize = 5;
/// How often it starts again because what came is not what the store keeps a checksum of.
const DAMAGED: usize = 2;
/// Objects below a folder that are deleted together: enough for several requests on their way at a time, and little memory.
const DELETED_TOGETHER: usize = 8_000;
/// How often objects below a folder are listed again once those that were listed are deleted.
const LISTED_AGAIN: usize = 3;

/// An error of the local disk, and not of a store.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct DiskError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

impl DiskError {
    /// Makes one of what the system says about `path`.
    pub fn about(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| Self { path: path.to_owned(), source }
    }

    /// Whether no room is left.
    pub fn is_full(&self) -> bool {
        StorageErrorKind::of_file(&self.source) == StorageErrorKind::Full
    }
}

/// Why a file did not get into a store, or out of it.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StorageError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The bytes of an object in order, `piece` of them at a time, some pieces ahead of the one that is used. All are of one
/// version: where the object is replaced meanwhile, the stream ends with [`StorageErrorKind::Changed`].
pub fn pieces<'a, S>(
    storage: S,
    key: String,
    options: GetOptions,
    piece: u64,
) -> BoxStream<'a, Result<Bytes, StorageError>>
where
    S: Deref<Target: Storage> + Clone + Send + Sync + 'a,
{
    let Range { start, end } = options.range.unwrap_or(0..u64::MAX);
    // A server that does not heed the version that is asked for.
    let (place, shortened) = (storage.to_string(), key.clone());
    let shorter = move || StorageError {
        kind: StorageErrorKind::Changed,
        place: place.clone(),
        key: shortened.clone(),
        message: "the object was replaced by a shorter one while it was read".to_owned(),
    };
    let read = move |start: u64, end: u64, version: Option<Version>| {
        let (storage, key) = (storage.clone(), key.clone());
        async move { storage.get_opts(&key, GetOptions { range: Some(start..end), version }).await }
    };
    // The first piece tells how large the object is, and which version.
    let first = read(start, end.min(start.saturating_add(piece)), options.version);
    let all = stream::once(first).map_ok(move |GetResult { bytes, size, version }| {
        let next = start + bytes.len() as u64;
        let (end, read, shorter) = (end.min(size), read.clone(), shorter.clone());
        let rest = stream::iter((next..end).step_by(piece as usize))
            .map(move |start| {
                let end = end.min(start + piece);
                let (read, shorter) = (read(start, end, Some(version.clone())), shorter.clone());
                async move {
                    let bytes = read.await?.bytes;
                    if bytes.len() as u64 == end - start { Ok(bytes) } else { Err(shorter()) }
                }
            })
            .buffered(AHEAD);
        stream::once(future::ready(Ok(bytes))).chain(rest)
    });
    all.try_flatten().boxed()
}

/// What is made of the methods of [`Storage`].
#[async_trait]
pub trait StorageExt: Storage {
    /// Reads a whole object.
    async fn get(&self, key: &str) -> Result<Bytes, StorageError> {
        Ok(self.get_opts(key, GetOptions::default()).await?.bytes)
    }

    /// Reads a whole object, and its version.
    async fn get_versioned(&self, key: &str) -> Result<(Bytes, Version), StorageError> {
        let read = self.get_opts(key, GetOptions::default()).await?;
        Ok((read.bytes, read.version))
    }

    /// Reads `range` of an object; an end past the object's end is cut there.
    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StorageError> {
        let options = GetOptions { range: Some(range), version: None };
        Ok(self.get_opts(key, options).await?.bytes)
    }

    /// The bytes of an object in order, as [`pieces`] of [`STREAM_PIECE`] bytes.
    fn stream<'a>(&'a self, key: &str, options: GetOptions) -> BoxStream<'a, Result<Bytes, StorageError>> {
        pieces(self, key.to_owned(), options, STREAM_PIECE)
    }

    /// All objects below `prefix`, sorted.
    async fn list_all(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        let mut objects: Vec<_> = self.list(prefix, "").try_collect().await?;
        // Most servers sort; not every one.
        objects.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(objects)
    }

    /// Removes an object.
    async fn delete(&self, key: &str) -> Result<(), StorageError> {
        self.delete_all(&[key.to_owned()]).await
    }

    /// Removes all objects below `prefix` (a folder ending in `/`, or empty) but `kept`, while the rest is still listed,
    /// and lists them again until none is there, three times at most: a listing that is damaged on its way
    /// names an object that is not there in place of one that is. What is written there meanwhile may stay.
    async fn delete_below(&self, prefix: &str, kept: Option<&str>) -> Result<(), StorageError> {
        for _ in 0..=LISTED_AGAIN {
            let mut found = false;
            let keys = self.list(prefix, "").map_ok(|object| object.key);
            let keys =
                keys.try_filter(|key| future::ready(Some(&**key) != kept)).inspect_ok(|_| found = true);
            let together = keys.try_chunks(DELETED_TOGETHER).map_err(|error| error.1);
            together.try_for_each_concurrent(2, |keys| async move { self.delete_all(&keys).await }).await?;
            if !found {
                break;
            }
        }
        Ok(())
    }

    /// Reads an object, or one version of it, into a new local file. The folder must exist; after an error the file may
    /// hold a part of the object. A version of more than [`STREAM_PIECE`] bytes is compared with the checksum that the
    /// store keeps of it; the call fails with [`StorageErrorKind::Damaged`] where it differs, also when it is read again.
    async fn download(&self, key: &str, file: &Path, version: Option<&str>) -> Result<u64, TransferError> {
        let (mut replaced, mut damaged) = (0..REPLACED, 0..DAMAGED);
        loop {
            match self.download_once(key, file, version).await {
                Err(TransferError::Store(error))
                    if error.kind == StorageErrorKind::Changed && version.is_none() =>
                {
                    if replaced.next().is_none() {
                        let message = "the object is replaced again and again while it is read".to_owned();
                        return Err(
                            StorageError { kind: StorageErrorKind::Unavailable, message, ..error }.into()
                        );
                    }
                }
                Err(TransferError::Store(error))
                    if error.kind == StorageErrorKind::Damaged && damaged.next().is_some() => {}
                downloaded => return downloaded,
            }
        }
    }

    #[doc(hidden)]
    async fn download_once(
        &self,
        key: &str,
        file: &Path,
        version: Option<&str>,
    ) -> Result<u64, TransferError> {
        let disk = DiskError::about(file);
        let mut pieces = self.stream(key, GetOptions { range: None, version: version.map(str::to_owned) });
        let Some(first) = pieces.try_next().await? else { return Ok(0) };
        // A smaller one would cost twice the requests; and what the checksum is of is known of one version alone.
        let stored = match version.filter(|_| first.len() as u64 >= STREAM_PIECE) {
            Some(version) => self.head(key).await?.checksum_of(version),
            None => None,
        };
        let mut compared = stored.map(StoredChecksum::compare);
        let path = file.to_owned();
        let made = tokio::task::spawn_blocking(move || tree::create(path)).await;
        let made = made.unwrap_or_else(|error| Err(io::Error::other(error)));
        let mut target = tokio::fs::File::from_std(made.map_err(&disk)?);
        let (mut next, mut size) = (Some(first), 0);
        while let Some(piece) = next {
            if let Some(compared) = &mut compared {
                compared.update(&piece);
            }
            target.write_all(&piece).await.map_err(&disk)?;
            size += piece.len() as u64;
            next = pieces.try_next().await?;
        }
        target.flush().await.map_err(&disk)?;
        if compared.is_some_and(|compared| !compared.is_equal()) {
            let message =
                "the object is damaged: its bytes are not those of the checksum that the store keeps";
            return Err(StorageError {
                kind: StorageErrorKind::Damaged,
                place: self.to_string(),
                key: key.to_owned(),
                message: message.to_owned(),
            }
            .into());
        }
        Ok(size)
    }

    /// Writes an object with what a local file holds, which stays; a file that grows meanwhile up to its end.
    async fn upload(&self, key: &str, file: &Path) -> Result<(), TransferError> {
        let disk = DiskError::about(file);
        let mut source = tokio::fs::File::open(file).await.map_err(&disk)?;
        let mut writer = self.writer(key, IfExists::Overwrite).await?;
        loop {
            let mut piece = Vec::new();
            (&mut source).take(STREAM_PIECE).read_to_end(&mut piece).await.map_err(&disk)?;
            if piece.is_empty() {
                return Ok(writer.finish().await?);
            }
            writer.write(piece.into()).await?;
        }
    }
}

impl<S: Storage + ?Sized> StorageExt for S {}
