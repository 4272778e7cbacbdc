//! A bucket of an S3-compatible server as an object store: the storage of a fleet.
//!
//! `connection` makes the client, `retry` decides about attempts, `failure` gives answers their meaning, `integrity`
//! says which answers count, `trust` which refusals may pass, `read` and `write` move bytes, `conditions` says who of
//! several may write, `multipart` and `writer` write large objects, `delete` removes one or many. Deliberately absent:
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
mod write;
mod writer;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::DateTime;
use futures_util::{StreamExt, TryStreamExt, future, stream};
use tokio::task::JoinSet;

use crate::refusals::PATIENCE;

use super::{
    GetOptions, GetResult, IfExists, LONGEST_KEY, Listing, ObjectMeta, Payload, PutMode, Storage,
    StorageError, StorageErrorKind, StorageExt, Version, Writer, is_valid_key, is_valid_prefix,
};

pub use access::BucketAccess;
use conditions::Heeds;
pub use connection::{S3Credentials, S3Options};
use failure::Failure;
use trust::Trust;
use writer::S3Writer;

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

impl Bucket {
    fn new(client: Client, name: &str, endpoint: Option<String>, prefix: &str, options: &S3Options) -> Self {
        Self {
            client,
            name: name.to_owned(),
            server: endpoint.unwrap_or_else(|| AWS.to_owned()),
            refuses_checksums: AtomicBool::new(false),
            refuses_deletes: AtomicBool::new(false),
            heeds: Heeds::default(),
            probe: format!("{prefix}.prs-probe-read"),
            trust: Trust::new(options.refusal_patience.unwrap_or(PATIENCE)),
            aborts: Mutex::default(),
        }
    }
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
            return Err(error(Failure::of(StorageErrorKind::InvalidKey, "not a valid prefix")));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (client, endpoint) = connection::connect(options).await.map_err(error)?;
        let bucket = Arc::new(Bucket::new(client, bucket, endpoint, &prefix, options));
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
        let bucket = &self.bucket;
        let list = || {
            let request = bucket.client.list_objects_v2().bucket(&bucket.name);
            request.prefix(&self.prefix).max_keys(1).send()
        };
        let read = || bucket.client.get_object().bucket(&bucket.name).key(&bucket.probe).send();
        let list = bucket.call(("open", "", 0), list, Ok);
        let read = bucket.call(("open", "", 0), read, Ok);
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
            let request = || {
                let request = bucket.client.list_multipart_uploads().bucket(&bucket.name).prefix(prefix);
                let request = request.set_key_marker(key_marker.clone());
                request.set_upload_id_marker(id_marker.clone()).send()
            };
            let page = bucket.call(("list uploads", prefix, 0), request, Ok).await?;
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
            Err(failure) if failure.may_be_over_headers() => {
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
        self.error(key, Failure::of(StorageErrorKind::InvalidKey, "not a valid object name"))
    }

    fn error(&self, key: &str, failure: Failure) -> StorageError {
        StorageError {
            kind: failure.kind,
            place: self.to_string(),
            key: key.to_owned(),
            message: failure.message,
        }
    }

    /// One page of a listing, and what the next one is asked for with. Objects with names that cannot be used here, such
    /// as the `folder/` that consoles make, are left out.
    async fn page(
        &self,
        prefix: &str,
        after: Option<String>,
        token: Option<String>,
    ) -> Result<(Vec<ObjectMeta>, Option<String>), Failure> {
        let bucket = &self.bucket;
        let request = || {
            let request = bucket.client.list_objects_v2().bucket(&bucket.name).prefix(prefix);
            request.set_start_after(after.clone()).set_continuation_token(token.clone()).send()
        };
        let page = bucket.call(("list", prefix, 0), request, Ok).await?;
        let objects = page.contents().iter().filter_map(|object| {
            let key = object.key()?.strip_prefix(&self.prefix).filter(|key| is_valid_key(key))?;
            let size = object.size().unwrap_or_default().max(0) as u64;
            let version = version(object.e_tag().unwrap_or_default(), size);
            let modified = object.last_modified().and_then(seconds);
            Some(ObjectMeta { key: key.to_owned(), size, version, modified })
        });
        let objects = objects.collect();
        Ok((objects, page.next_continuation_token.filter(|_| page.is_truncated == Some(true))))
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
    async fn put(&self, key: &str, payload: Payload, mode: PutMode) -> Result<Version, StorageError> {
        let full = self.full(key)?;
        let is_update = matches!(mode, PutMode::Update(_));
        self.write(&full, payload, mode)
            .await
            .map_err(|failure| self.error(key, if is_update { failure.if_replaced() } else { failure }))
    }

    async fn writer(&self, key: &str, if_exists: IfExists) -> Result<Box<dyn Writer>, StorageError> {
        Ok(Box::new(S3Writer::new(self.clone(), self.full(key)?, if_exists.into(), None)))
    }

    async fn get_opts(&self, key: &str, options: GetOptions) -> Result<GetResult, StorageError> {
        let full = self.full(key)?;
        let etag = options.version.as_deref().map(etag_of);
        let read = self.read(&full, options.range.unwrap_or(0..u64::MAX), etag).await;
        read.map_err(|failure| self.error(key, failure))
    }

    fn list(&self, prefix: &str, after: &str) -> Listing {
        if !is_valid_prefix(prefix) {
            return stream::once(future::ready(Err(self.invalid(prefix)))).boxed();
        }
        let (storage, key, full) = (self.clone(), prefix.to_owned(), format!("{}{prefix}", self.prefix));
        let after = (!after.is_empty()).then(|| format!("{}{after}", self.prefix));
        // Nothing is left to ask for behind the page without a token.
        let pages = stream::try_unfold(Some(None), move |next| {
            let (storage, key, full, after) = (storage.clone(), key.clone(), full.clone(), after.clone());
            async move {
                let Some(token) = next else { return Ok(None) };
                let page = storage.page(&full, after, token).await;
                let (objects, token) = page.map_err(|failure| storage.error(&key, failure))?;
                Ok(Some((stream::iter(objects.into_iter().map(Ok)), token.map(Some))))
            }
        });
        pages.try_flatten().boxed()
    }

    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        let full = self.full(key)?;
        let seen = self.look_up(&full).await.map_err(|failure| self.error(key, failure))?;
        let (size, version, modified) = (seen.size, seen.version, seen.modified);
        Ok(ObjectMeta { key: key.to_owned(), size, version, modified })
    }

    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError> {
        let (source, target) = (self.full(from)?, self.full(to)?);
        self.copy_object(&source, &target, if_exists).await.map_err(|failure| {
            let key = if failure.kind == StorageErrorKind::NotFound { from } else { to };
            self.error(key, failure)
        })
    }

    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError> {
        self.delete_many(keys).await
    }

    fn uri(&self, key: &str) -> String {
        let path = format!("s3://{}/{}{key}", self.bucket.name, self.prefix);
        path.strip_suffix('/').map_or(path.clone(), str::to_owned)
    }

    fn below(&self, prefix: &str) -> Arc<dyn Storage> {
        Arc::new(Self { bucket: Arc::clone(&self.bucket), prefix: format!("{}{prefix}/", self.prefix) })
    }

    fn longest_key(&self) -> usize {
        LONGEST_KEY.saturating_sub(self.prefix.len())
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
}
