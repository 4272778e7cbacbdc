//! Object storage: where a job's specification, segments, output and logs live.
//!
//! Storage is the truth of a job: from the specification and the segments alone everything else can be
//! rebuilt. The interface has what an S3-compatible store gives and no more. Keys are relative to the place the
//! store was opened at: non-empty, `/`-separated, without empty, `.` or `..` parts.

mod claim;
#[cfg(feature = "fleet")]
mod identity;
mod local;
mod open;
mod placing;
#[cfg(feature = "fleet")]
mod s3;

use std::fmt::{Debug, Display};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncWriteExt;

#[cfg(feature = "fleet")]
pub use self::identity::identity;
#[cfg(feature = "fleet")]
pub use self::s3::{BucketAccess, S3Credentials, S3Options, S3Storage};
pub use claim::{Claim, ClaimError, ClaimHolder};
pub use local::{LocalStorage, TEMPORARY, is_kept_by_stores};
pub use open::{open, probe_writable};

/// Longest name of an object anywhere, bytes.
const LONGEST_KEY: usize = 1024;
/// Objects below a folder that are deleted together: enough for several requests on their way at a time, and little memory.
const DELETED_TOGETHER: usize = 8_000;
/// Bytes that a download asks for at a time.
const PIECE: u64 = 8 << 20;

/// Meaning of a storage error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// No object has this key.
    NotFound,
    /// The object exists and the call asked for a new one.
    AlreadyExists,
    /// The store refuses the caller.
    PermissionDenied,
    /// The object is not of the version that was asked for.
    Changed,
    /// No room is left.
    Full,
    /// The key is malformed.
    InvalidKey,
    /// The store cannot be reached or answers wrongly for now.
    Unavailable,
    /// What the store gives back is not what it was given, however often it is asked.
    Damaged,
}

/// An error of a store, with the key it is about.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {key}: {message}")]
pub struct StorageError {
    /// What the error means to a caller.
    pub kind: StorageErrorKind,
    /// The store, without credentials.
    pub place: String,
    /// The object.
    pub key: String,
    /// The cause, in words.
    pub message: String,
}

impl StorageError {
    /// Whether the same call may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        self.kind == StorageErrorKind::Unavailable
    }
}

/// Tells an object from whatever else had its key before or has it later: an etag, or size and time of change.
pub type Version = String;

/// When an object is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutMode {
    /// In any case.
    Overwrite,
    /// When there is none, else the call fails with [`StorageErrorKind::AlreadyExists`].
    Create,
    /// When there is this version, else the call fails: with [`StorageErrorKind::Changed`] where there is another, with
    /// [`StorageErrorKind::NotFound`] where there is none.
    Update(Version),
}

/// What an upload or a copy does when there is an object of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// It replaces the object.
    Overwrite,
    /// It fails with [`StorageErrorKind::AlreadyExists`].
    Fail,
}

impl From<IfExists> for PutMode {
    fn from(if_exists: IfExists) -> Self {
        match if_exists {
            IfExists::Overwrite => Self::Overwrite,
            IfExists::Fail => Self::Create,
        }
    }
}

/// An object in a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Its key.
    pub key: String,
    /// Its size, bytes.
    pub size: u64,
    /// Changes whenever the object is replaced.
    pub version: Version,
    /// When it was written, seconds since the Unix epoch by the clock of the store; nothing where the store does not say.
    pub modified: Option<u64>,
}

/// A store of objects.
///
/// # Contract
/// * An object is seen whole or not at all: a reader never meets a part of a `put`, an `upload` that was not
///   finished, or a mixture of two writers.
/// * When a write returns, a reader on any host sees it, and the death of the writer does not undo it. The loss
///   of power does not either, but for `put_file` and `copy`, of which many come together: these are safe
///   from it after the next `flush`.
/// * Of many who create an object, or update one version of it, at a time, one succeeds. Where the server (or the file
///   system) does not decide that, which [`Self::probe`] finds out, this looks first and then writes, and more than one
///   may succeed. Who overwrites or deletes meanwhile asks nobody.
/// * `delete` of an absent object succeeds. `list` is sorted bytewise by key and shows what was written before
///   the call.
/// * Every call may be repeated safely.
#[async_trait]
pub trait Storage: Debug + Display + Send + Sync {
    /// Writes a whole object, and gives back its version.
    async fn put(&self, key: &str, body: Bytes, mode: PutMode) -> Result<Version, StorageError>;

    /// Writes a whole object from parts, one after the other.
    async fn put_parts(&self, key: &str, parts: Vec<Bytes>) -> Result<(), StorageError>;

    /// Moves a local file into the store; the file is gone afterwards.
    async fn put_file(&self, key: &str, file: &Path) -> Result<(), StorageError>;

    /// Starts an object of unknown size; nothing is visible before [`Upload::finish`], which is also when `if_exists`
    /// is heeded.
    async fn upload(&self, key: &str, if_exists: IfExists) -> Result<Box<dyn Upload>, StorageError>;

    /// Reads a whole object, and its version.
    async fn get_versioned(&self, key: &str) -> Result<(Bytes, Version), StorageError>;

    /// Reads a whole object.
    async fn get(&self, key: &str) -> Result<Bytes, StorageError> {
        Ok(self.get_versioned(key).await?.0)
    }

    /// Reads `range` of an object; an end past the object's end is cut there.
    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StorageError>;

    /// The same of one version of the object, as [`ObjectMeta::version`] tells it; of any other it fails with
    /// [`StorageErrorKind::Changed`].
    async fn get_range_of(&self, key: &str, range: Range<u64>, version: &str) -> Result<Bytes, StorageError> {
        let bytes = self.get_range(key, range).await;
        // Whatever was there before, it was this one if it still is.
        if self.head(key).await?.version == version { bytes } else { Err(changed(self, key)) }
    }

    /// Copies an object within the store. A store whose server copies by itself may look first and then copy: of
    /// several who ask for a new object at once, more than one may win.
    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError>;

    /// All objects whose keys start with `prefix` (a folder ending in `/`, or empty).
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StorageError>;

    /// The first objects below `prefix` whose keys are greater than `after`, as [`Self::list`] has them; how
    /// many is up to the store, and none means the end. Stores of any size tell a part at a time.
    async fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        let mut objects = self.list(prefix).await?;
        objects.retain(|object| object.key.as_str() > after);
        Ok(objects)
    }

    /// Size and version of an object. A store that can look up a single object should.
    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        let folder = key.rfind('/').map_or("", |slash| &key[..=slash]);
        let found = self.list(folder).await?.into_iter().find(|object| object.key == key);
        found.ok_or_else(|| StorageError {
            kind: if is_valid_key(key) { StorageErrorKind::NotFound } else { StorageErrorKind::InvalidKey },
            place: self.to_string(),
            key: key.to_owned(),
            message: "there is no such object".to_owned(),
        })
    }

    /// Removes an object.
    async fn delete(&self, key: &str) -> Result<(), StorageError>;

    /// Removes any number of objects, many at a time where the store can do so. After an error some of them may be
    /// gone.
    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError>;

    /// Makes everything written before survive the loss of power.
    async fn flush(&self) -> Result<(), StorageError>;

    /// Removes what writers left unfinished when they were killed. To be called when nobody writes here any more:
    /// one who does may fail.
    async fn sweep(&self) -> Result<(), StorageError>;

    /// Puts and deletes the small object `key`, and tells whether the store itself decides who of many creates or updates
    /// an object.
    async fn probe(&self, key: &str) -> Result<bool, StorageError>;

    /// Longest key that this store takes, bytes.
    fn longest_key(&self) -> usize {
        LONGEST_KEY
    }

    /// Where the object is, for people.
    fn uri(&self, key: &str) -> String;

    /// The part of this store below `prefix` (a valid key), as a store of its own.
    fn below(&self, prefix: &str) -> Arc<dyn Storage>;

    /// Reads a whole object into a new local file, a piece at a time. The folder must exist; after an error the
    /// file may hold a part of the object.
    async fn download(&self, key: &str, file: &Path) -> Result<u64, StorageError> {
        download_pieces(self, key, file, None).await
    }

    /// The same of one version of the object; of any other it fails with [`StorageErrorKind::Changed`].
    async fn download_of(&self, key: &str, file: &Path, version: &str) -> Result<u64, StorageError> {
        download_pieces(self, key, file, Some(version)).await
    }
}

async fn download_pieces<S: Storage + ?Sized>(
    store: &S,
    key: &str,
    file: &Path,
    version: Option<&str>,
) -> Result<u64, StorageError> {
    let failed = |error: std::io::Error| StorageError {
        kind: if error.kind() == std::io::ErrorKind::StorageFull {
            StorageErrorKind::Full
        } else {
            StorageErrorKind::PermissionDenied
        },
        place: file.display().to_string(),
        key: key.to_owned(),
        message: error.to_string(),
    };
    let mut target = tokio::fs::File::create(file).await.map_err(failed)?;
    let mut offset = 0;
    loop {
        let range = offset..offset + PIECE;
        let piece = match version {
            Some(version) => store.get_range_of(key, range, version).await?,
            None => store.get_range(key, range).await?,
        };
        target.write_all(&piece).await.map_err(failed)?;
        offset += piece.len() as u64;
        if (piece.len() as u64) < PIECE {
            target.flush().await.map_err(failed)?;
            return Ok(offset);
        }
    }
}

/// Removes all objects below `prefix` (a folder ending in `/`), some pages of the listing at a time. What is written
/// there meanwhile may stay.
pub async fn delete_below(storage: &dyn Storage, prefix: &str) -> Result<(), StorageError> {
    delete_below_but(storage, prefix, "").await
}

/// The same, but for the object `kept`.
pub async fn delete_below_but(storage: &dyn Storage, prefix: &str, kept: &str) -> Result<(), StorageError> {
    let mut keys = Vec::new();
    let mut page = storage.list_after(prefix, "").await?;
    while let Some(last) = page.last().map(|object| object.key.clone()) {
        keys.extend(page.into_iter().map(|object| object.key).filter(|key| key != kept));
        let next = storage.list_after(prefix, &last);
        if keys.len() < DELETED_TOGETHER {
            page = next.await?;
        } else {
            let (deleted, next) = tokio::join!(storage.delete_all(&keys), next);
            deleted?;
            page = next?;
            keys.clear();
        }
    }
    storage.delete_all(&keys).await
}

/// The error of an object that is not of the version that was asked for.
fn changed(store: &(impl Storage + ?Sized), key: &str) -> StorageError {
    StorageError {
        kind: StorageErrorKind::Changed,
        place: store.to_string(),
        key: key.to_owned(),
        message: "the object was replaced by another one".to_owned(),
    }
}

/// An object being written piece by piece. Dropping it without `finish` leaves nothing behind.
#[async_trait]
pub trait Upload: Send {
    /// Appends bytes.
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError>;
    /// Makes the object visible. Where that is refused, nothing is left of it.
    async fn finish(self: Box<Self>) -> Result<(), StorageError>;
}

/// Whether `key` can name an object.
pub fn is_valid_key(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= LONGEST_KEY
        && !key.contains(|character: char| character == '\\' || character.is_control())
        && key.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
