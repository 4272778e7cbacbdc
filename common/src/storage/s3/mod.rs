//! A bucket of an S3-compatible server as an object store: the storage of a fleet.
//!
//! `connection` makes the client, `retry` decides about attempts, `failure` gives answers their meaning, `answers`
//! says which ones count, `trust` which refusals may pass, `read` and `write` move bytes, `conditions` says who of
//! several may write, `multipart` and `writer` write large objects, `delete` removes one or many, `presign` makes requests for
//! others. Deliberately absent:
//! caching, and any lock of its own; the server's conditional put is the only one.
//!
//! # What is left when a writer is killed
//! An object that was being written in parts leaves an incomplete upload. Nobody sees it in a listing, but its
//! parts take room until [`Storage::sweep`] or a lifecycle rule of the bucket
//! (`AbortIncompleteMultipartUpload`) removes them.

mod answers;
mod conditions;
mod connection;
mod delete;
mod failure;
mod multipart;
mod presign;
mod read;
mod retry;
mod trust;
mod write;
mod writer;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::EncodingType;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio_util::task::TaskTracker;

use crate::refusals::PATIENCE;

use super::{
    FolderEntry, FolderListing, GetOptions, GetResult, IfExists, LONGEST_KEY, Listing, ObjectMeta, Payload,
    Presign, Presigned, PutMode, Room, S3Options, Storage, StorageError, StorageErrorKind, StorageExt,
    Version, Writer, is_valid_key, is_valid_prefix,
};

use answers::{confirm_page, listed_name};
use conditions::Heeds;
pub(super) use failure::causes;
use failure::{NO_UPLOAD, S3Failure};
use multipart::Multipart;
use trust::Trust;
use writer::S3Writer;

/// How long a bucket that is opened may take to answer.
const OPEN: Duration = Duration::from_secs(15);
/// Names whose uploads are asked for one by one.
const FEW: usize = 8;
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
    aborts: TaskTracker,
}

impl Bucket {
    async fn new(name: &str, prefix: &str, options: &S3Options) -> Result<Self, S3Failure> {
        Ok(Self {
            client: connection::connect(options).await?,
            name: name.to_owned(),
            server: options.endpoint.clone().unwrap_or_else(|| AWS.to_owned()),
            refuses_checksums: AtomicBool::new(false),
            refuses_deletes: AtomicBool::new(false),
            heeds: Heeds::default(),
            probe: format!("{prefix}.prs-probe-read"),
            trust: Trust::new(options.refusal_patience.unwrap_or(PATIENCE)),
            aborts: TaskTracker::new(),
        })
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
        let error = |failure| failed(place.clone(), "open", failure);
        if !prefix.is_empty() && !is_valid_key(prefix) {
            return Err(error(S3Failure::of(StorageErrorKind::InvalidKey, "not a valid prefix")));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let bucket = Arc::new(Bucket::new(bucket, &prefix, options).await.map_err(error)?);
        let storage = Self { bucket, prefix };
        let checked = tokio::time::timeout(OPEN, storage.check()).await;
        let checked = checked
            .unwrap_or_else(|_| Err(S3Failure::unanswered(format!("no answer within {} s", OPEN.as_secs()))));
        let server = &storage.bucket.server;
        checked.map_err(|failure| {
            if failure.kind != StorageErrorKind::Unavailable {
                return error(failure);
            }
            // The server may be what is wrong.
            let remedy = "check AWS_ENDPOINT_URL_S3 and that the server runs and can be reached from here";
            error(S3Failure { message: format!("{server}: {}; {remedy}", failure.message), ..failure })
        })?;
        storage.bucket.trust.is_open.store(true, Ordering::Relaxed);
        tracing::debug!(%storage, server, "opened a bucket");
        Ok(storage)
    }

    /// Whether the bucket is there, lists, and is read.
    async fn check(&self) -> Result<(), S3Failure> {
        let bucket = &self.bucket;
        let list = || {
            let request = bucket.client.list_objects_v2().bucket(&bucket.name);
            request.prefix(&self.prefix).max_keys(1).send()
        };
        let read = || bucket.client.get_object().bucket(&bucket.name).key(&bucket.probe).send();
        let list = bucket.call(("open", "", 0), list, Ok);
        let read = bucket.call(("open", "", 0), read, Ok);
        // Of a server that does not answer, nothing is known.
        let told = |what: &str, failure: S3Failure| match failure.kind {
            StorageErrorKind::Unavailable => failure,
            _ => S3Failure { message: format!("{what}: {}", failure.message), ..failure },
        };
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

    /// Uploads in parts that are not complete, of those the server tells for `prefix`, and below this place: the object's
    /// name in the bucket, and the upload's own.
    async fn incomplete(&self, prefix: &str) -> Result<Vec<(String, String)>, S3Failure> {
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
                if let (Some(key), Some(id)) = (upload.key, upload.upload_id)
                    && key.starts_with(&self.prefix)
                {
                    found.push((key, id));
                }
            }
            (key_marker, id_marker) = (page.next_key_marker, page.next_upload_id_marker);
            if page.is_truncated != Some(true) || key_marker.is_none() {
                return Ok(found);
            }
        }
    }

    /// All of them that are below this place.
    async fn all_incomplete(&self) -> Result<Vec<(String, String)>, StorageError> {
        // MinIO takes the prefix of uploads for the name of one object, but without any it tells them all.
        let prefix = if self.bucket.server == AWS { &self.prefix } else { "" };
        let found = match self.incomplete(prefix).await {
            // Credentials may be good for the prefix only.
            Err(failure) if failure.kind == StorageErrorKind::PermissionDenied => {
                self.incomplete(&self.prefix).await
            }
            found => found,
        };
        found.map_err(|failure| self.error("", failure))
    }

    /// Makes a write with a checksum of its body; without one where the server refuses that, which it is asked once.
    async fn with_checksum<T, F: Future<Output = Result<T, S3Failure>> + Send>(
        &self,
        write: impl Fn(bool) -> F,
    ) -> Result<T, S3Failure> {
        let refuses = &self.bucket.refuses_checksums;
        if !refuses.load(Ordering::Relaxed) {
            match write(true).await {
                Err(failure) if failure.may_be_over_headers() => {}
                written => return written,
            }
        }
        let written = write(false).await?;
        if !refuses.swap(true, Ordering::Relaxed) {
            tracing::info!(storage = %self, "the server refuses checksums of bodies; none are sent");
        }
        Ok(written)
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
        self.error(key, S3Failure::of(StorageErrorKind::InvalidKey, "not a valid object name"))
    }

    fn error(&self, key: &str, failure: S3Failure) -> StorageError {
        failed(self.to_string(), key, failure)
    }

    /// A listing, page by page.
    fn pages(&self, prefix: &str, listed: Listed, after: &str) -> FolderListing {
        let (storage, prefix, after) = (self.clone(), prefix.to_owned(), after.to_owned());
        // Nothing is left to ask for behind the page without a token.
        let pages = stream::try_unfold(Some(None), move |next| {
            let (storage, prefix, after) = (storage.clone(), prefix.clone(), after.clone());
            async move {
                let Some(token) = next else { return Ok(None) };
                let (entries, token) = storage.page(&prefix, listed, &after, token).await?;
                Ok(Some((stream::iter(entries.into_iter().map(Ok)), token.map(Some))))
            }
        });
        pages.try_flatten().boxed()
    }

    fn objects(&self, prefix: &str, listed: Listed, after: &str) -> Listing {
        let objects = |entry| {
            std::future::ready(Ok(match entry {
                FolderEntry::Object(object) => Some(object),
                FolderEntry::Folder(_) => None,
            }))
        };
        self.pages(prefix, listed, after).try_filter_map(objects).boxed()
    }

    /// One page of a listing, and what the next one is asked for with. The server is asked to encode names, for XML has
    /// no way to write a control character.
    async fn page(
        &self,
        prefix: &str,
        listed: Listed,
        after: &str,
        token: Option<String>,
    ) -> Result<(Vec<FolderEntry>, Option<String>), StorageError> {
        if !is_valid_prefix(prefix) {
            return Err(self.invalid(prefix));
        }
        let (bucket, full) = (&self.bucket, format!("{}{prefix}", self.prefix));
        let is_flat = listed == Listed::Folder;
        // Behind a folder there is what comes behind all that is in it.
        let last = if is_flat && after.ends_with('/') { "\u{10ffff}" } else { "" };
        let start = (!after.is_empty()).then(|| format!("{}{after}{last}", self.prefix));
        let request = || {
            let request = bucket.client.list_objects_v2().bucket(&bucket.name).prefix(&full);
            let request =
                request.set_delimiter(is_flat.then(|| "/".to_owned())).encoding_type(EncodingType::Url);
            request.set_start_after(start.clone()).set_continuation_token(token.clone()).send()
        };
        let page = bucket.call(("list", &full, 0), request, |page| confirm_page(page, &full)).await;
        let page = page.map_err(|failure| self.error(prefix, failure))?;
        let named = |name: &str| listed_name(&page, name).strip_prefix(&self.prefix).map(str::to_owned);
        let objects = page.contents().iter().filter_map(|object| {
            let key = named(object.key()?).filter(|key| listed == Listed::AllNames || is_valid_key(key))?;
            let etag = object.e_tag().unwrap_or_default();
            let seen = described(key, object.size(), etag, object.last_modified().copied());
            Some(FolderEntry::Object(seen))
        });
        let folders = page.common_prefixes().iter().filter_map(|folder| {
            let key = named(folder.prefix()?)?;
            (*key > *after && is_valid_prefix(&key)).then_some(FolderEntry::Folder(key))
        });
        let mut entries: Vec<_> = objects.chain(folders).collect();
        if is_flat {
            entries.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        }
        Ok((entries, page.next_continuation_token.filter(|_| page.is_truncated == Some(true))))
    }
}

/// What a listing has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    /// Objects that can be used here: without the `folder/` that consoles make, and others whose names are no keys.
    Keys,
    /// All objects.
    AllNames,
    /// The objects of the folder itself that can be used here, and its folders.
    Folder,
}

fn failed(place: String, key: &str, failure: S3Failure) -> StorageError {
    let kind = match failure.code.as_str() {
        // Another writer replaced the upload, or it was swept away, or forgotten: writing the object again settles it.
        NO_UPLOAD => StorageErrorKind::Unavailable,
        _ => failure.kind,
    };
    StorageError { kind, place, key: key.to_owned(), message: failure.message }
}

/// What an answer says of an object.
fn described(key: String, size: Option<i64>, etag: &str, modified: Option<DateTime>) -> ObjectMeta {
    let size = size.unwrap_or_default().max(0) as u64;
    let modified = modified.and_then(|time| u64::try_from(time.secs()).ok());
    ObjectMeta { key, size, version: version(etag, size), modified, checksum: None }
}

/// The version of an object is its etag, `-` and its size, bytes.
fn version(etag: &str, size: u64) -> Version {
    format!("{etag}-{size}")
}

/// The etag in a version.
fn etag_of(version: &str) -> &str {
    version.rsplit_once('-').map_or(version, |(etag, _)| etag)
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
        self.write(&full, payload, mode).await.map_err(|failure| self.error(key, failure))
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
        self.objects(prefix, Listed::Keys, after)
    }

    fn list_names(&self, prefix: &str) -> Listing {
        self.objects(prefix, Listed::AllNames, "")
    }

    fn list_folder(&self, prefix: &str, after: &str) -> FolderListing {
        self.pages(prefix, Listed::Folder, after)
    }

    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        let full = self.full(key)?;
        let (seen, _) = self.look_up(&full).await.map_err(|failure| self.error(key, failure))?;
        Ok(ObjectMeta { key: key.to_owned(), ..seen })
    }

    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError> {
        let (source, target) = (self.full(from)?, self.full(to)?);
        self.copy_object(&source, &target, if_exists).await.map_err(|failure| {
            let is_source = failure.kind == StorageErrorKind::NotFound && failure.code != NO_UPLOAD;
            self.error(if is_source { from } else { to }, failure)
        })
    }

    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError> {
        self.delete_many(keys).await
    }

    async fn presign(
        &self,
        key: &str,
        what: &Presign,
        time: Duration,
    ) -> Result<Option<Presigned>, StorageError> {
        let full = self.full(key)?;
        let made = self.presigned(&full, what, time).await.map_err(|failure| self.error(key, failure))?;
        Ok(Some(made))
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
        self.bucket.aborts.close();
        self.bucket.aborts.wait().await;
        Ok(())
    }

    async fn sweep(&self) -> Result<(), StorageError> {
        self.flush().await?;
        for (key, id) in self.all_incomplete().await? {
            multipart::abort(&self.bucket, &key, &id).await.map_err(|failure| self.error("", failure))?;
        }
        Ok(())
    }

    async fn sweep_of(&self, keys: &[String]) -> Result<(), StorageError> {
        let names = keys.iter().map(|key| self.full(key)).collect::<Result<HashSet<_>, _>>()?;
        let mut found = Vec::new();
        if names.len() <= FEW {
            for name in &names {
                found.extend(self.incomplete(name).await.map_err(|failure| self.error("", failure))?);
            }
        } else {
            found = self.all_incomplete().await?;
        }
        for (name, id) in found.iter().filter(|(name, _)| names.contains(name)) {
            multipart::abort(&self.bucket, name, id).await.map_err(|failure| self.error("", failure))?;
        }
        Ok(())
    }

    /// An upload in parts that has none takes no room, and is no version of an object.
    async fn may_write(&self, key: &str) -> Result<(), StorageError> {
        let begun = Multipart::begin(self.clone(), self.full(key)?).await;
        let begun = begun.map_err(|failure| self.error(key, failure))?;
        if let Err(failure) = begun.take_back().await {
            let error = failure.message;
            tracing::warn!(storage = %self, key, error, "an upload without a part is left behind: it cannot be taken back");
        }
        Ok(())
    }

    async fn probe(&self, key: &str) -> Result<bool, StorageError> {
        let full = self.full(key)?;
        let probed = self.probe_conditions(&full).await.map_err(|failure| self.error(key, failure));
        self.delete(key).await.and(probed)
    }

    async fn room(&self) -> Result<Room, StorageError> {
        let incomplete_uploads = Some(self.all_incomplete().await?.len() as u64);
        Ok(Room { free_bytes: None, incomplete_uploads })
    }
}
