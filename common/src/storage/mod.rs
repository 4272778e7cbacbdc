//! Object storage: where a job's specification, segments, output and logs live.
//!
//! Storage is the truth of a job: from the specification and the segments alone everything else can be
//! rebuilt. The interface has what an S3-compatible store gives and no more; what is made of it for every store alike is
//! in [`StorageExt`]. Keys are relative to the place the store was opened at: non-empty, `/`-separated, without empty,
//! `.` or `..` parts.

mod claim;
mod counted;
mod ext;
mod fenced;
pub mod fixtures;
#[cfg(feature = "s3")]
mod http;
mod identity;
mod local;
mod open;
mod placing;
mod public;
mod reach;
#[cfg_attr(not(feature = "s3"), path = "no_remote.rs")]
mod remote;
mod room;
#[cfg(feature = "s3")]
mod s3;
mod s3_options;

use std::fmt::{Debug, Display};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

#[cfg(feature = "s3")]
pub use self::{
    http::{HttpAnswer, HttpClient, HttpStorage},
    s3::S3Storage,
};
use crate::checksum::StoredChecksum;
pub use claim::{Claim, ClaimError, ClaimHolder};
pub use counted::CountedStorage;
pub use ext::{DiskError, STREAM_PIECE, StorageExt, TransferError, pieces};
pub use identity::{has_identity, identity};
pub use local::{LocalStorage, TEMPORARY, is_kept_by_stores};
pub use open::{open, open_input, open_within, probe_writable};
pub use public::is_public;
pub use reach::{Reach, Use};
pub use room::Room;
pub use s3_options::{S3Credentials, S3Options};

/// Longest name of an object anywhere, bytes.
pub const LONGEST_KEY: usize = 1024;

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

impl StorageErrorKind {
    /// What it means that the system failed with `error` over the file of an object.
    fn of_file(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
                Self::NotFound
            }
            io::ErrorKind::InvalidFilename => Self::InvalidKey,
            io::ErrorKind::AlreadyExists => Self::AlreadyExists,
            // What is mounted in the place of a folder stays there.
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::CrossesDevices => Self::PermissionDenied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full
            }
            _ => Self::Unavailable,
        }
    }
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

    /// Whether the store has lost, or changed, what it was given.
    pub fn is_damage(&self) -> bool {
        matches!(self.kind, StorageErrorKind::Damaged | StorageErrorKind::NotFound)
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

/// What an object is made of.
#[derive(Debug, Clone)]
pub enum Payload {
    /// These bytes, one part after the other.
    Parts(Vec<Bytes>),
    /// A local file, which is moved into the store: it is gone afterwards. A store that is a folder makes it safe from
    /// the loss of power with the next [`Storage::flush`].
    File(PathBuf),
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::Parts(vec![bytes])
    }
}

impl From<Vec<Bytes>> for Payload {
    fn from(parts: Vec<Bytes>) -> Self {
        Self::Parts(parts)
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Payload {
    fn from(text: &'static str) -> Self {
        Bytes::from(text).into()
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
    /// The checksum of all its bytes that the store keeps; nothing in a listing, or where it keeps none.
    pub checksum: Option<StoredChecksum>,
}

impl ObjectMeta {
    /// Its checksum, where it is of this version.
    pub fn checksum_of(&self, version: &str) -> Option<StoredChecksum> {
        self.checksum.filter(|_| self.version == version)
    }
}

/// What stands in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderEntry {
    /// A folder in it: what the keys of its objects begin with, with the `/` at the end. A store that is itself a folder may have empty ones.
    Folder(String),
    /// An object.
    Object(ObjectMeta),
}

impl FolderEntry {
    /// The key, or what keys begin with.
    pub fn key(&self) -> &str {
        match self {
            Self::Folder(key) => key,
            Self::Object(object) => &object.key,
        }
    }
}

/// What of an object is read.
#[derive(Debug, Clone, Default)]
pub struct GetOptions {
    /// These bytes; an end past the object's end is cut there. All of them without it.
    pub range: Option<Range<u64>>,
    /// This version, as [`ObjectMeta::version`] tells it; of any other the call fails with
    /// [`StorageErrorKind::Changed`]. Whichever is there without it.
    pub version: Option<Version>,
}

/// What was read of an object.
#[derive(Debug, Clone)]
pub struct GetResult {
    /// The bytes that were asked for.
    pub bytes: Bytes,
    /// Size of the whole object, bytes.
    pub size: u64,
    /// Which version the bytes are of.
    pub version: Version,
}

/// What a request that others make is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presign {
    /// Reads the object, which a browser is to keep under this name.
    Read {
        /// The name, as RFC 8187 has it.
        name: String,
    },
    /// Writes the object: exactly these bytes.
    Write {
        /// How many.
        bytes: u64,
        /// Their SHA-256, which the server of the store compares.
        sha256: [u8; 32],
    },
}

/// A request that others make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presigned {
    /// Its URL, which is a secret as long as it holds.
    pub url: String,
    /// The headers that it must have.
    pub headers: Vec<(String, String)>,
}

/// Objects, sorted bytewise by key.
pub type Listing = BoxStream<'static, Result<ObjectMeta, StorageError>>;

/// Objects and folders, sorted bytewise by key.
pub type FolderListing = BoxStream<'static, Result<FolderEntry, StorageError>>;

/// A store of objects.
///
/// Reads give whole buffers: what a store gives back is checked before a caller sees it, and read again when it is
/// damaged or cut. [`StorageExt::stream`] makes a stream of them. No method has a default, so that no store and no
/// wrapper of one misses any.
///
/// # Contract
/// * An object is seen whole or not at all: a reader never meets a part of a `put`, a `writer` that was not
///   finished, or a mixture of two writers.
/// * When a write returns, a reader on any host sees it, and the death of the writer does not undo it. The loss
///   of power does not either, but for `put` of a file and `copy`, of which many come together: these are safe
///   from it after the next `flush`.
/// * Of many who create an object, or update one version of it, at a time, one succeeds. Where the server (or the file
///   system) does not decide that, which [`Self::probe`] finds out, this looks first and then writes, and more than one
///   may succeed. Who overwrites or deletes meanwhile asks nobody.
/// * Deleting an absent object succeeds. `list` shows what was written before the call.
/// * Every call may be repeated safely.
#[async_trait]
pub trait Storage: Debug + Display + Send + Sync {
    /// Writes a whole object, and gives back its version.
    async fn put(&self, key: &str, payload: Payload, mode: PutMode) -> Result<Version, StorageError>;

    /// Starts an object of unknown size; nothing is visible before [`Writer::finish`], which is also when `if_exists`
    /// is heeded.
    async fn writer(&self, key: &str, if_exists: IfExists) -> Result<Box<dyn Writer>, StorageError>;

    /// Reads an object, or a part of it.
    async fn get_opts(&self, key: &str, options: GetOptions) -> Result<GetResult, StorageError>;

    /// The objects whose keys start with `prefix` (a folder ending in `/`, or empty) and are greater than `after`, which
    /// may be empty. A store of any size tells a part at a time.
    fn list(&self, prefix: &str, after: &str) -> Listing;

    /// All objects below the folder `prefix`, also those whose names are no keys here, which nothing else takes: for who tells
    /// of them by name.
    fn list_names(&self, prefix: &str) -> Listing {
        self.list(prefix, "")
    }

    /// What stands in the folder `prefix` itself (it ends in `/`, or is empty) with keys greater than `after`, which may be empty: the objects
    /// there, and the folders, whatever is in them. A server of objects is asked once for each 1,000 of them.
    fn list_folder(&self, prefix: &str, after: &str) -> FolderListing;

    /// Size and version of an object.
    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError>;

    /// Copies an object within the store. A store whose server copies by itself may look first and then copy: of
    /// several who ask for a new object at once, more than one may win.
    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError>;

    /// Removes any number of objects, many at a time where the store can do so. After an error some of them may be
    /// gone.
    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError>;

    /// A request that works for so long without credentials, signed for the server of the store; nothing where the store
    /// has no such requests. It is not looked whether there is an object.
    async fn presign(
        &self,
        key: &str,
        what: &Presign,
        time: Duration,
    ) -> Result<Option<Presigned>, StorageError>;

    /// Where the object is, for people.
    fn uri(&self, key: &str) -> String;

    /// The part of this store below `prefix` (a valid key), as a store of its own.
    fn below(&self, prefix: &str) -> Arc<dyn Storage>;

    /// Longest key that this store takes, bytes.
    fn longest_key(&self) -> usize;

    /// Makes everything written before survive the loss of power.
    async fn flush(&self) -> Result<(), StorageError>;

    /// Removes what writers left unfinished when they were killed. To be called when nobody writes here any more:
    /// one who does may fail.
    async fn sweep(&self) -> Result<(), StorageError>;

    /// The same of the objects with these names alone.
    async fn sweep_of(&self, keys: &[String]) -> Result<(), StorageError>;

    /// Fails where a write of the object `key` would. Begins one and takes it back, so that nobody ever sees anything of it; what has
    /// the name already stays, and says nothing.
    async fn may_write(&self, key: &str) -> Result<(), StorageError>;

    /// Puts and deletes the small object `key`, and tells whether the store itself decides who of many creates or updates
    /// an object.
    async fn probe(&self, key: &str) -> Result<bool, StorageError>;

    /// What there is room for, as far as the store tells.
    async fn room(&self) -> Result<Room, StorageError>;
}

/// What stands in the folder `prefix` itself, behind `after`, of a store that lists all that is below it: the sorted objects are told
/// by the folders they are in.
fn folders_of(listing: Listing, prefix: &str, after: &str) -> FolderListing {
    let (prefix, after, mut last) = (prefix.to_owned(), after.to_owned(), String::new());
    let entry = move |object: ObjectMeta| {
        let below = object.key.strip_prefix(&prefix).and_then(|below| below.split_once('/'));
        let entry = match below {
            Some((name, _)) => FolderEntry::Folder(format!("{prefix}{name}/")),
            None => FolderEntry::Object(object),
        };
        let is_new = *entry.key() > *after && entry.key() != last;
        entry.key().clone_into(&mut last);
        std::future::ready(is_new.then_some(Ok(entry)))
    };
    let mut entry = entry;
    listing
        .filter_map(move |listed| match listed {
            Ok(object) => entry(object),
            Err(error) => std::future::ready(Some(Err(error))),
        })
        .boxed()
}

/// An object being written piece by piece. Dropping it without `finish` leaves nothing behind.
#[async_trait]
pub trait Writer: Send {
    /// Appends bytes.
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError>;
    /// Makes the object visible. Where that is refused, nothing is left of it.
    async fn finish(self: Box<Self>) -> Result<(), StorageError>;
}

/// Whether `prefix` can be listed.
fn is_valid_prefix(prefix: &str) -> bool {
    prefix.is_empty() || prefix.strip_suffix('/').is_some_and(is_valid_key)
}

/// Whether `key` can name an object.
pub fn is_valid_key(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= LONGEST_KEY
        && !key.contains(|character: char| character == '\\' || character.is_control())
        && key.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
