//! An HTTP server as the store of an input: read-only, a file at a time.
//!
//! `client` makes requests, `guard` says which of them a server makes for others, `answer` gives them their meaning, `version` compares states of a file, `read` moves bytes and
//! decides about further attempts, `spool` keeps what a server gives only as a whole, `azure` lists containers. A key is the
//! path and query of a URL. The credentials and the query of a URL appear in no error, log or `Debug` of these.

mod answer;
mod azure;
mod client;
mod guard;
mod read;
mod request;
mod spool;
mod version;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{
    FolderListing, GetOptions, GetResult, IfExists, Listing, ObjectMeta, Payload, Presign, Presigned,
    PutMode, Reach, Room, Storage, StorageError, StorageErrorKind, Version, Writer, folders_of,
};
use crate::dataset::http_url::{FOLDER, key_shown, lists};

use answer::HttpFailure;
use client::Server;
pub use request::{HttpAnswer, HttpClient};
use spool::Spool;
use version::SeenState;

/// How long an answer, or the next bytes of it, may stay away.
const STALL: Duration = Duration::from_mins(1);
/// Longest path with its query, bytes; many servers take less.
const LONGEST_URL: usize = 16 << 10;

/// Files of one HTTP server. Clones share what they know.
#[derive(Clone)]
pub struct HttpStorage {
    inner: Arc<Inner>,
    /// Empty, or ends in `/`.
    prefix: String,
}

struct Inner {
    server: Server,
    spool: Spool,
}

impl HttpStorage {
    /// The server at `url`: `https://host:port`, with `user:password@` where it asks for that. Nothing is asked yet.
    pub fn new(url: &str) -> Self {
        Self::with_stall(url, STALL)
    }

    /// The same, which takes an answer for lost that says nothing for so long; a minute otherwise.
    pub fn with_stall(url: &str, stall: Duration) -> Self {
        Self::of(Server::new(url, stall, None))
    }

    /// The same, of which no more is read than `reach` allows: what is named there, and otherwise files at public addresses, which no
    /// redirect leads away from the host.
    pub fn within(url: &str, reach: Arc<Reach>) -> Self {
        Self::of(Server::new(url, STALL, Some(reach)))
    }

    fn of(server: Server) -> Self {
        Self { inner: Arc::new(Inner { server, spool: Spool::default() }), prefix: String::new() }
    }

    fn full(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    fn error(&self, key: &str, failure: HttpFailure) -> StorageError {
        let HttpFailure { kind, message, .. } = failure;
        StorageError { kind, place: self.to_string(), key: key_shown(key).into_owned(), message }
    }

    fn read_only(&self, key: &str) -> StorageError {
        let message = "an HTTP server is only read: give s3:// or a folder for what is written";
        self.error(key, HttpFailure::of(StorageErrorKind::PermissionDenied, message))
    }
}

impl Inner {
    /// A whole answer that is text, of at most so many bytes.
    async fn read_text(&self, key: &str, most: usize) -> Result<String, HttpFailure> {
        let read = self.read(key, 0..u64::MAX, None).await?;
        if read.bytes.len() > most {
            return Err(HttpFailure::of(StorageErrorKind::PermissionDenied, "the answer is too large"));
        }
        String::from_utf8(read.bytes.into()).map_err(|_| HttpFailure::unanswered("the answer is no text"))
    }
}

impl fmt::Display for HttpStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.uri("").trim_end_matches('/'))
    }
}

impl fmt::Debug for HttpStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpStorage({self})")
    }
}

#[async_trait]
impl Storage for HttpStorage {
    async fn put(&self, key: &str, _: Payload, _: PutMode) -> Result<Version, StorageError> {
        Err(self.read_only(key))
    }

    async fn writer(&self, key: &str, _: IfExists) -> Result<Box<dyn Writer>, StorageError> {
        Err(self.read_only(key))
    }

    async fn get_opts(&self, key: &str, options: GetOptions) -> Result<GetResult, StorageError> {
        let wanted = options.version.as_deref().and_then(SeenState::parse);
        let range = options.range.unwrap_or(0..u64::MAX);
        let read = self.inner.read(&self.full(key), range, wanted.as_ref()).await;
        read.map_err(|failure| self.error(key, failure))
    }

    fn list(&self, prefix: &str, after: &str) -> Listing {
        if !lists(&self.inner.server.url) {
            let error = self.error(prefix, HttpFailure::of(StorageErrorKind::InvalidKey, FOLDER));
            return stream::iter([Err(error)]).boxed();
        }
        let (storage, prefix, after) = (self.clone(), prefix.to_owned(), after.to_owned());
        // Nothing is left to ask for behind the page without a marker.
        let pages = stream::try_unfold(Some(None::<String>), move |next| {
            let (storage, prefix) = (storage.clone(), prefix.clone());
            async move {
                let Some(marker) = next else { return Ok(None) };
                let page = storage.inner.page(&storage.full(&prefix), marker.as_deref()).await;
                let (mut objects, marker) = page.map_err(|failure| storage.error(&prefix, failure))?;
                for object in &mut objects {
                    object.key = object.key.split_off(storage.prefix.len());
                }
                Ok(Some((stream::iter(objects.into_iter().map(Ok)), marker.map(Some))))
            }
        });
        let behind = move |object: &ObjectMeta| std::future::ready(object.key > after);
        pages.try_flatten().try_filter(behind).boxed()
    }

    fn list_folder(&self, prefix: &str, after: &str) -> FolderListing {
        folders_of(self.list(prefix, ""), prefix, after)
    }

    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        let seen = self.inner.look_up(&self.full(key)).await.map_err(|failure| self.error(key, failure))?;
        Ok(ObjectMeta {
            key: key.to_owned(),
            size: seen.size,
            version: seen.listed(),
            ..ObjectMeta::default()
        })
    }

    async fn copy(&self, _: &str, to: &str, _: IfExists) -> Result<(), StorageError> {
        Err(self.read_only(to))
    }

    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError> {
        keys.first().map_or(Ok(()), |key| Err(self.read_only(key)))
    }

    async fn presign(&self, _: &str, _: &Presign, _: Duration) -> Result<Option<Presigned>, StorageError> {
        Ok(None)
    }

    fn uri(&self, key: &str) -> String {
        format!("{}/{}", self.inner.server.url, key_shown(&self.full(key)))
    }

    fn below(&self, prefix: &str) -> Arc<dyn Storage> {
        Arc::new(Self { inner: Arc::clone(&self.inner), prefix: format!("{}{prefix}/", self.prefix) })
    }

    fn longest_key(&self) -> usize {
        LONGEST_URL.saturating_sub(self.prefix.len())
    }

    async fn flush(&self) -> Result<(), StorageError> {
        Ok(())
    }

    async fn sweep(&self) -> Result<(), StorageError> {
        Ok(())
    }

    async fn sweep_of(&self, _: &[String]) -> Result<(), StorageError> {
        Ok(())
    }

    async fn may_write(&self, key: &str) -> Result<(), StorageError> {
        Err(self.read_only(key))
    }

    async fn probe(&self, key: &str) -> Result<bool, StorageError> {
        Err(self.read_only(key))
    }

    async fn room(&self) -> Result<Room, StorageError> {
        Ok(Room::default())
    }
}
