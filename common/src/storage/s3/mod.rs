//! A bucket of an S3-compatible server as an object store: the storage of a fleet.
//!
//! `connection` makes the client, `retry` decides about attempts, `failure` gives answers their meaning, `integrity`
//! says which answers count, `trust` which refusals may pass, `read` and `write` move bytes, `conditions` says who of
//! several may write, `multipart` and `upload` write large objects, `delete` removes one or many. Deliberately absent:
//! caching, and any lock of its own; the server's conditional put is the only one.
//!
//! # What is left when a writer is killed
//! An object that was being written in parts leaves an incomplete upload. Nobody sees it in a listing, but its
//! parts take room until [`S3Storage::abort_incomplete`] or a lifecycle rule of the bucket
//! (`AbortIncompleteMultipartUpload`) removes them.

mod access;
mod conditions;
mod connection;
mod delete;
mod failure;
mod integrity;
mod multipart;
mod read;
mod retry;
mod trust;
mod upload;
mod write;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::DateTime;
use bytes::Bytes;
use tokio::task::JoinSet;

use crate::refusals::PATIENCE;

use super::{
    IfExists, LONGEST_KEY, ObjectMeta, PutMode, Storage, StorageError, StorageErrorKind, Upload, Version,
    is_valid_key,
};

pub use access::BucketAccess;
use conditions::Heeds;
pub use connection::{S3Credentials, S3Options};
use failure::Failure;
use integrity::may_refuse_checksums;
use retry::{Retry, retried};
use trust::Trust;
use upload::S3Upload;

/// How long a bucket that is opened may take to answer.
const OPEN: Duration = Duration::from_secs(15);
/// What is said to be the server where no endpoint is given.
const AWS: &str = "AWS";

/// Objects of one bucket whose names start with one prefix.
///
/// Clones share their connections. Who creates or updates an object is decided by the server; where it knows no
/// `If-None-Match` or no `If-Match`, this looks first and then writes, and of several who do so at once more than one
/// may win.
#[derive(Clone)]
pub struct S3Storage {
    bucket: Arc<Bucket>,
    /// Empty, or ends in `/`.
    prefix: String,
}

struct Bucket {
    client: Client,
    name: String,
    /// The server, for people: its endpoint, or [`AWS`].
    server: String,
    /// Whether the server is known to refuse the checksums of bodies.
    refuses_checksums: AtomicBool,
    /// Whether the server is known not to delete many objects in one request.
    refuses_deletes: AtomicBool,
    /// Whether the server refuses what conditions forbid, where that is known.
    heeds: Heeds,
    /// The object whose reading shows whether the credentials are good; there need not be one.
    probe: String,
    trust: Trust,
    /// Uploads that were dropped and are being taken back.
    aborts: Mutex<JoinSet<()>>,
}

impl S3Storage {
    /// Opens `prefix` (empty, or a valid key) of `bucket`, and asks the server whether it lets itself be listed
    /// and read. Errors say what is wrong and what helps: no server ([`StorageErrorKind::Unavailable`]), wrong
    /// or missing credentials, a wrong clock, permissions ([`StorageErrorKind::PermissionDenied`]), no bucket
    /// ([`StorageErrorKind::NotFound`]).
    pub async fn open(bucket: &str, prefix: &str, options: &S3Options) -> Result<Self, StorageError> {
        let place =
            if prefix.is_empty() { format!("s3://{bucket}") } else { format!("s3://{bucket}/{prefix}") };
        let error = |failure: Failure| StorageError {
            kind: failure.kind,
            place: place.clone(),
            key: "open".to_owned(),
            message: failure.message,
        };
        if !prefix.is_empty() && !is_valid_key(prefix) {
            let kind = StorageErrorKind::InvalidKey;
            return Err(error(Failure { kind, ..Failure::unanswered("not a valid prefix") }));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (client, endpoint) = connection::connect(options).await.map_err(error)?;
        let server = endpoint.unwrap_or_else(|| AWS.to_owned());
        let probe = format!("{prefix}.prs-probe-read");
        let bucket = Arc::new(Bucket {
            client,
            name: bucket.to_owned(),
            server,
            refuses_checksums: AtomicBool::new(false),
            refuses_deletes: AtomicBool::new(false),
            heeds: Heeds::default(),
            probe,
            trust: Trust::new(options.refusal_patience.unwrap_or(PATIENCE)),
            aborts: Mutex::default(),
        });
        let storage = Self { bucket, prefix };
        let checked = tokio::time::timeout(OPEN, storage.check())
            .await
            .unwrap_or_else(|_| Err(Failure::unanswered(format!("no answer within {} s", OPEN.as_secs()))));
        checked.map_err(|failure| error(storage.explained(failure)))?;
        storage.bucket.trust.begin();
        tracing::debug!(storage = %storage, server = storage.bucket.server, "opened a bucket");
        Ok(storage)
    }

    /// Whether the bucket is there, lists, and is read.
    async fn check(&self) -> Result<(), Failure> {
        let client = &self.bucket.client;
        let list = retried(Retry::new("open", 0).at_most(3), || {
            client.list_objects_v2().bucket(&self.bucket.name).prefix(&self.prefix).max_keys(1).send()
        });
        let read = retried(Retry::new("open", 0).at_most(3), || {
            client.get_object().bucket(&self.bucket.name).key(&self.bucket.probe).send()
        });
        // Side by side: the store may be far away.
        let (listed, read) = tokio::join!(list, read);
        listed.map_err(|failure| told("the bucket cannot be listed", failure))?;
        match read {
            Err(failure) if failure.kind != StorageErrorKind::NotFound => {
                Err(told("the bucket can be listed but its objects cannot be read", failure))
            }
            _ => Ok(()),
        }
    }

    /// Says which server a failure is about, where that may be what is wrong.
    fn explained(&self, failure: Failure) -> Failure {
        if failure.kind == StorageErrorKind::Unavailable {
            let server = &self.bucket.server;
            let remedy = "check AWS_ENDPOINT_URL_S3 and that the server runs and can be reached from here";
            return Failure { message: format!("{server}: {}; {remedy}", failure.message), ..failure };
        }
        failure
    }

    /// Takes back what writers of objects below this place left when they were killed: uploads in parts that
    /// began more than `older_than` ago. Writers that are still at work on one of these fail.
    pub async fn abort_incomplete(&self, older_than: Duration) -> Result<usize, StorageError> {
        self.settle().await;
        let bucket = &self.bucket;
        let began_before = SystemTime::now().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut found = self.incomplete(&self.prefix).await.map_err(|failure| self.error("", failure))?;
        if found.is_empty() && !self.prefix.is_empty() && bucket.server != AWS {
            // MinIO takes the prefix of uploads for the name of one object, but without any it tells them all.
            found = match self.incomplete("").await {
                // Credentials may be good for the prefix only.
                Err(failure) if failure.kind == StorageErrorKind::PermissionDenied => Vec::new(),
                all => all.map_err(|failure| self.error("", failure))?,
            };
        }
        found.retain(|(.., began)| began.is_none_or(|began| began <= began_before));
        for (key, id, _) in &found {
            multipart::abort(bucket, key, id).await.map_err(|failure| self.error("", failure))?;
        }
        Ok(found.len())
    }

    /// Uploads in parts that are not complete, of those the server tells for `prefix`, and below this place: the
    /// object's name in the bucket, the upload's own, and its begin.
    async fn incomplete(&self, prefix: &str) -> Result<Vec<(String, String, Option<SystemTime>)>, Failure> {
        let bucket = &self.bucket;
        let (mut key_marker, mut id_marker) = (None, None);
        let mut found = Vec::new();
        loop {
            let page = retried(Retry::new("list uploads", 0).about(bucket, prefix), || {
                let request = bucket.client.list_multipart_uploads().bucket(&bucket.name).prefix(prefix);
                let request = request.set_key_marker(key_marker.clone());
                request.set_upload_id_marker(id_marker.clone()).send()
            })
            .await?;
            for upload in page.uploads.unwrap_or_default() {
                let began = upload.initiated.and_then(|time| SystemTime::try_from(time).ok());
                if let (Some(key), Some(id)) = (upload.key, upload.upload_id)
                    && key.starts_with(&self.prefix)
                {
                    found.push((key, id, began));
                }
            }
            (key_marker, id_marker) = (page.next_key_marker, page.next_upload_id_marker);
            if page.is_truncated != Some(true) || key_marker.is_none() {
                return Ok(found);
            }
        }
    }

    /// Makes a write with a checksum of its body; without one where the server refuses that, which it is asked once.
    async fn with_checksum<T, F: Future<Output = Result<T, Failure>> + Send>(
        &self,
        write: impl Fn(bool) -> F,
    ) -> Result<T, Failure> {
        if self.bucket.refuses_checksums.load(Ordering::Relaxed) {
            return write(false).await;
        }
        match write(true).await {
            Err(failure) if may_refuse_checksums(&failure) => {
                let written = write(false).await?;
                if !self.bucket.refuses_checksums.swap(true, Ordering::Relaxed) {
                    tracing::info!(storage = %self, "the server refuses checksums of bodies; none are sent");
                }
                Ok(written)
            }
            written => written,
        }
    }

    /// Waits until every upload that was dropped is taken back.
    async fn settle(&self) {
        let mut aborts =
            std::mem::take(&mut *self.bucket.aborts.lock().unwrap_or_else(PoisonError::into_inner));
        while aborts.join_next().await.is_some() {}
    }

    /// The object's name in the bucket.
    fn full(&self, key: &str) -> Result<String, StorageError> {
        if is_valid_key(key) && key.len() <= self.longest_key() {
            Ok(format!("{}{key}", self.prefix))
        } else {
            Err(self.invalid(key))
        }
    }

    fn invalid(&self, key: &str) -> StorageError {
        let kind = StorageErrorKind::InvalidKey;
        self.error(key, Failure { kind, ..Failure::unanswered("not a valid object name") })
    }

    fn error(&self, key: &str, failure: Failure) -> StorageError {
        StorageError {
            kind: failure.kind,
            place: self.to_string(),
            key: key.to_owned(),
            message: failure.message,
        }
    }

    /// One page of a listing after another, from the key `after` on; with `enough`, until something was found.
    async fn pages(
        &self,
        prefix: &str,
        after: Option<String>,
        enough: bool,
    ) -> Result<Vec<ObjectMeta>, Failure> {
        let mut found = Vec::new();
        let mut token = None;
        loop {
            let page = retried(Retry::new("list", 0).about(&self.bucket, prefix), || {
                let request = self.bucket.client.list_objects_v2().bucket(&self.bucket.name).prefix(prefix);
                request.set_start_after(after.clone()).set_continuation_token(token.clone()).send()
            })
            .await?;
            for object in page.contents() {
                let Some(key) = object.key().and_then(|key| key.strip_prefix(&self.prefix)) else { continue };
                // Not an object of ours: consoles make `folder/`, and it could not be read by this name.
                if is_valid_key(key) {
                    let size = object.size().unwrap_or_default().max(0) as u64;
                    let version = version(object.e_tag().unwrap_or_default(), size);
                    let modified = object.last_modified().and_then(seconds);
                    found.push(ObjectMeta { key: key.to_owned(), size, version, modified });
                }
            }
            token = page.next_continuation_token;
            if page.is_truncated != Some(true) || token.is_none() || (enough && !found.is_empty()) {
                return Ok(found);
            }
        }
    }
}

/// Seconds since the Unix epoch.
pub(super) fn seconds(time: &DateTime) -> Option<u64> {
    u64::try_from(time.secs()).ok()
}

/// The version of an object is its etag, `-` and its size, bytes.
fn version(etag: &str, size: u64) -> Version {
    format!("{etag}-{size}")
}

/// The etag in a version.
fn etag_of(version: &str) -> &str {
    version.rsplit_once('-').map_or(version, |(etag, _)| etag)
}

fn told(what: &str, failure: Failure) -> Failure {
    // Of a server that does not answer, nothing is known.
    match failure.kind {
        StorageErrorKind::Unavailable => failure,
        _ => Failure { message: format!("{what}: {}", failure.message), ..failure },
    }
}

impl fmt::Display for S3Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri(""))
    }
}

impl fmt::Debug for S3Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("S3Storage").field(&self.uri("")).finish()
    }
}

#[async_trait]
impl Storage for S3Storage {
    async fn put(&self, key: &str, body: Bytes, mode: PutMode) -> Result<Version, StorageError> {
        let (full, size) = (self.full(key)?, body.len() as u64);
        match self.write_whole(&full, &[body], &mode).await {
            Ok(etag) => Ok(version(&etag, size)),
            Err(failure) if mode == PutMode::Create => Err(self.error(key, failure)),
            Err(failure) => Err(self.error(key, failure.if_replaced())),
        }
    }

    async fn put_parts(&self, key: &str, parts: Vec<Bytes>) -> Result<(), StorageError> {
        let full = self.full(key)?;
        let written = self.write_whole(&full, &parts, &PutMode::Overwrite).await;
        written.map(drop).map_err(|failure| self.error(key, failure))
    }

    async fn put_file(&self, key: &str, file: &Path) -> Result<(), StorageError> {
        let full = self.full(key)?;
        self.write_file(&full, file).await.map_err(|failure| self.error(key, failure))
    }

    async fn upload(&self, key: &str, if_exists: IfExists) -> Result<Box<dyn Upload>, StorageError> {
        let full = self.full(key)?;
        Ok(Box::new(S3Upload::new(self.clone(), key.to_owned(), full, if_exists)))
    }

    async fn get_versioned(&self, key: &str) -> Result<(Bytes, Version), StorageError> {
        let full = self.full(key)?;
        let (bytes, etag) = self.read_whole(&full).await.map_err(|failure| self.error(key, failure))?;
        let version = version(&etag, bytes.len() as u64);
        Ok((bytes, version))
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StorageError> {
        let full = self.full(key)?;
        self.read_range(&full, range, None).await.map_err(|failure| self.error(key, failure))
    }

    async fn get_range_of(&self, key: &str, range: Range<u64>, version: &str) -> Result<Bytes, StorageError> {
        let full = self.full(key)?;
        let read = self.read_range(&full, range, Some(etag_of(version))).await;
        read.map_err(|failure| self.error(key, failure.if_replaced()))
    }

    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError> {
        let (source, target) = (self.full(from)?, self.full(to)?);
        self.copy_object(&source, &target, if_exists).await.map_err(|failure| {
            let key = if failure.kind == StorageErrorKind::NotFound { from } else { to };
            self.error(key, failure)
        })
    }

    /// Objects with names that cannot be used here, such as the `folder/` that consoles make, are left out.
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        if !prefix.is_empty() && !prefix.strip_suffix('/').is_some_and(is_valid_key) {
            return Err(self.invalid(prefix));
        }
        let listed = self.pages(&format!("{}{prefix}", self.prefix), None, false).await;
        let mut found = listed.map_err(|failure| self.error(prefix, failure))?;
        // Most servers sort so; not every one.
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }

    async fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        if !prefix.is_empty() && !prefix.strip_suffix('/').is_some_and(is_valid_key) {
            return Err(self.invalid(prefix));
        }
        let after = (!after.is_empty()).then(|| format!("{}{after}", self.prefix));
        let listed = self.pages(&format!("{}{prefix}", self.prefix), after, true).await;
        listed.map_err(|failure| self.error(prefix, failure))
    }

    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        let full = self.full(key)?;
        let seen = self.look_up(&full).await.map_err(|failure| self.error(key, failure))?;
        let (size, version) = (seen.size, version(&seen.etag, seen.size));
        Ok(ObjectMeta { key: key.to_owned(), size, version, modified: seen.modified })
    }

    async fn delete(&self, key: &str) -> Result<(), StorageError> {
        self.delete_one(key).await
    }

    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError> {
        self.delete_many(keys).await
    }

    /// What a server has acknowledged is safe already; this waits for uploads that are being taken back.
    async fn flush(&self) -> Result<(), StorageError> {
        self.settle().await;
        Ok(())
    }

    async fn sweep(&self) -> Result<(), StorageError> {
        self.abort_incomplete(Duration::ZERO).await.map(drop)
    }

    async fn probe(&self, key: &str) -> Result<bool, StorageError> {
        let full = self.full(key)?;
        let probed = self.probe_conditions(&full).await.map_err(|failure| self.error(key, failure));
        self.delete(key).await.and(probed)
    }

    fn longest_key(&self) -> usize {
        LONGEST_KEY.saturating_sub(self.prefix.len())
    }

    fn uri(&self, key: &str) -> String {
        let path = format!("s3://{}/{}{key}", self.bucket.name, self.prefix);
        path.strip_suffix('/').map_or(path.clone(), str::to_owned)
    }

    fn below(&self, prefix: &str) -> Arc<dyn Storage> {
        Arc::new(Self { bucket: Arc::clone(&self.bucket), prefix: format!("{}{prefix}/", self.prefix) })
    }

    async fn download(&self, key: &str, file: &Path) -> Result<u64, StorageError> {
        let full = self.full(key)?;
        self.read_into_file(&full, file, None).await.map_err(|failure| self.error(key, failure))
    }

    async fn download_of(&self, key: &str, file: &Path, version: &str) -> Result<u64, StorageError> {
        let full = self.full(key)?;
        let read = self.read_into_file(&full, file, Some(etag_of(version))).await;
        read.map_err(|failure| self.error(key, failure.if_replaced()))
    }
}
