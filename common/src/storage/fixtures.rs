//! A store for tests: another one behind hooks, which see every call, may let it fail, and may change what it gives.

use std::fmt::{self, Debug, Display};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{
    FolderListing, GetOptions, GetResult, IfExists, Listing, ObjectMeta, Payload, Presign, Presigned,
    PutMode, Room, Storage, StorageError, StorageErrorKind, Version, Writer, folders_of,
};

/// What a test does at the calls of a store.
#[async_trait]
pub trait Hooks: Debug + Send + Sync + 'static {
    /// Comes before each call, with the name of the method and the first key it is about; an error is that of the call.
    async fn before(&self, _method: &'static str, _key: &str) -> Result<(), StorageErrorKind> {
        Ok(())
    }

    /// What a reader gets for what was read.
    fn read(&self, bytes: Bytes) -> Bytes {
        bytes
    }

    /// What a listing shows in place of what is there, where it shows something else.
    fn listed(&self, _prefix: &str) -> Option<Vec<ObjectMeta>> {
        None
    }
}

/// A store behind hooks. The parts of it have the same hooks, which hear keys of the whole store.
#[derive(Debug)]
pub struct Hooked<H> {
    inner: Arc<dyn Storage>,
    hooks: Arc<H>,
    prefix: String,
}

impl<H: Hooks> Hooked<H> {
    /// Puts `hooks` before `inner`.
    pub fn new(inner: impl Storage + 'static, hooks: H) -> Self {
        Self { inner: Arc::new(inner), hooks: Arc::new(hooks), prefix: String::new() }
    }

    async fn before(&self, method: &'static str, key: &str) -> Result<(), StorageError> {
        let passed = self.hooks.before(method, &format!("{}{key}", self.prefix)).await;
        passed.map_err(|kind| StorageError {
            kind,
            place: self.to_string(),
            key: key.to_owned(),
            message: "told to fail".to_owned(),
        })
    }
}

/// A test talks to the hooks.
impl<H> Deref for Hooked<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.hooks
    }
}

impl<H> Display for Hooked<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl<H: Hooks> Storage for Hooked<H> {
    async fn put(&self, key: &str, payload: Payload, mode: PutMode) -> Result<Version, StorageError> {
        self.before("put", key).await?;
        self.inner.put(key, payload, mode).await
    }
    async fn writer(&self, key: &str, if_exists: IfExists) -> Result<Box<dyn Writer>, StorageError> {
        self.before("writer", key).await?;
        self.inner.writer(key, if_exists).await
    }
    async fn get_opts(&self, key: &str, options: GetOptions) -> Result<GetResult, StorageError> {
        self.before("get", key).await?;
        let read = self.inner.get_opts(key, options).await?;
        Ok(GetResult { bytes: self.hooks.read(read.bytes), ..read })
    }
    fn list(&self, prefix: &str, after: &str) -> Listing {
        let (inner, hooks) = (Arc::clone(&self.inner), Arc::clone(&self.hooks));
        let this = Self { inner, hooks, prefix: self.prefix.clone() };
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        let listing = async move {
            this.before("list", &prefix).await?;
            Ok(match this.hooks.listed(&prefix) {
                Some(objects) => {
                    let objects = objects.into_iter().filter(move |object| object.key > after);
                    stream::iter(objects.map(Ok)).boxed()
                }
                None => this.inner.list(&prefix, &after),
            })
        };
        stream::once(listing).try_flatten().boxed()
    }
    fn list_folder(&self, prefix: &str, after: &str) -> FolderListing {
        folders_of(self.list(prefix, ""), prefix, after)
    }
    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        self.before("head", key).await?;
        self.inner.head(key).await
    }
    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError> {
        self.before("copy", from).await?;
        self.inner.copy(from, to, if_exists).await
    }
    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError> {
        self.before("delete_all", keys.first().map_or("", String::as_str)).await?;
        self.inner.delete_all(keys).await
    }
    async fn presign(
        &self,
        key: &str,
        what: &Presign,
        time: Duration,
    ) -> Result<Option<Presigned>, StorageError> {
        self.before("presign", key).await?;
        self.inner.presign(key, what, time).await
    }
    fn uri(&self, key: &str) -> String {
        self.inner.uri(key)
    }
    fn below(&self, prefix: &str) -> Arc<dyn Storage> {
        Arc::new(Self {
            inner: self.inner.below(prefix),
            hooks: Arc::clone(&self.hooks),
            prefix: format!("{}{prefix}/", self.prefix),
        })
    }
    fn longest_key(&self) -> usize {
        self.inner.longest_key()
    }
    async fn flush(&self) -> Result<(), StorageError> {
        self.before("flush", "").await?;
        self.inner.flush().await
    }
    async fn sweep(&self) -> Result<(), StorageError> {
        self.before("sweep", "").await?;
        self.inner.sweep().await
    }
    async fn sweep_of(&self, keys: &[String]) -> Result<(), StorageError> {
        self.before("sweep_of", keys.first().map_or("", String::as_str)).await?;
        self.inner.sweep_of(keys).await
    }
    async fn may_write(&self, key: &str) -> Result<(), StorageError> {
        self.before("may_write", key).await?;
        self.inner.may_write(key).await
    }
    async fn probe(&self, key: &str) -> Result<bool, StorageError> {
        self.before("probe", key).await?;
        self.inner.probe(key).await
    }
    async fn room(&self) -> Result<Room, StorageError> {
        self.before("room", "").await?;
        self.inner.room().await
    }
}
