//! A store whose calls are counted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};

use super::{
    FolderListing, GetOptions, GetResult, IfExists, Listing, ObjectMeta, Payload, Presign, Presigned,
    PutMode, Room, Storage, StorageError, StorageErrorKind, Version, Writer,
};
use crate::calls::{Called, Calls, OK, UnderWay};

/// A store, and who counts its calls. An object that is written piece by piece is one call, and so is a listing.
#[derive(Debug, Clone)]
pub struct CountedStorage {
    inner: Arc<dyn Storage>,
    calls: Arc<dyn Calls>,
}

impl CountedStorage {
    /// The same store, of which `calls` hears.
    pub fn new(inner: Arc<dyn Storage>, calls: Arc<dyn Calls>) -> Self {
        Self { inner, calls }
    }

    fn begin(&self, operation: &'static str) -> UnderWay {
        UnderWay::begin(&self.calls, Called::Storage, operation)
    }

    async fn count<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StorageError>> + Send,
    ) -> Result<T, StorageError> {
        let mut under_way = self.begin(operation);
        let ended = call.await;
        under_way.is(result(&ended));
        ended
    }

    fn count_listing<T: Send + 'static>(
        &self,
        listing: BoxStream<'static, Result<T, StorageError>>,
    ) -> BoxStream<'static, Result<T, StorageError>> {
        let state = (listing, Some(self.begin("list")));
        stream::unfold(state, |(mut listing, mut under_way)| async move {
            let next = listing.next().await;
            match (&next, &mut under_way) {
                (None, Some(call)) => call.is(OK),
                (Some(Err(_)), Some(call)) => {
                    call.is(next.as_ref().map_or(OK, result));
                    under_way = None;
                }
                _ => {}
            }
            Some((next?, (listing, under_way)))
        })
        .boxed()
    }
}

/// What became of a call, as a word.
fn result<T>(ended: &Result<T, StorageError>) -> &'static str {
    let Err(error) = ended else { return OK };
    match error.kind {
        StorageErrorKind::NotFound => "not_found",
        StorageErrorKind::AlreadyExists => "exists",
        StorageErrorKind::PermissionDenied => "refused",
        StorageErrorKind::Changed => "changed",
        StorageErrorKind::Full => "full",
        StorageErrorKind::InvalidKey => "invalid",
        StorageErrorKind::Unavailable => "unavailable",
        StorageErrorKind::Damaged => "damaged",
    }
}

impl fmt::Display for CountedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl Storage for CountedStorage {
    async fn put(&self, key: &str, payload: Payload, mode: PutMode) -> Result<Version, StorageError> {
        self.count("put", self.inner.put(key, payload, mode)).await
    }

    async fn writer(&self, key: &str, if_exists: IfExists) -> Result<Box<dyn Writer>, StorageError> {
        let mut under_way = self.begin("write");
        match self.inner.writer(key, if_exists).await {
            Ok(inner) => Ok(Box::new(CountedWriter { inner, under_way })),
            Err(error) => {
                let ended = Err(error);
                under_way.is(result(&ended));
                ended
            }
        }
    }

    async fn get_opts(&self, key: &str, options: GetOptions) -> Result<GetResult, StorageError> {
        self.count("get", self.inner.get_opts(key, options)).await
    }

    fn list(&self, prefix: &str, after: &str) -> Listing {
        self.count_listing(self.inner.list(prefix, after))
    }

    fn list_names(&self, prefix: &str) -> Listing {
        self.count_listing(self.inner.list_names(prefix))
    }

    fn list_folder(&self, prefix: &str, after: &str) -> FolderListing {
        self.count_listing(self.inner.list_folder(prefix, after))
    }

    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        self.count("head", self.inner.head(key)).await
    }

    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError> {
        self.count("copy", self.inner.copy(from, to, if_exists)).await
    }

    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError> {
        self.count("delete", self.inner.delete_all(keys)).await
    }

    fn uri(&self, key: &str) -> String {
        self.inner.uri(key)
    }

    fn below(&self, prefix: &str) -> Arc<dyn Storage> {
        Arc::new(Self { inner: self.inner.below(prefix), calls: Arc::clone(&self.calls) })
    }

    fn longest_key(&self) -> usize {
        self.inner.longest_key()
    }

    async fn flush(&self) -> Result<(), StorageError> {
        self.count("flush", self.inner.flush()).await
    }

    async fn sweep(&self) -> Result<(), StorageError> {
        self.count("sweep", self.inner.sweep()).await
    }

    async fn sweep_of(&self, keys: &[String]) -> Result<(), StorageError> {
        self.count("sweep", self.inner.sweep_of(keys)).await
    }

    async fn may_write(&self, key: &str) -> Result<(), StorageError> {
        self.count("probe", self.inner.may_write(key)).await
    }

    async fn probe(&self, key: &str) -> Result<bool, StorageError> {
        self.count("probe", self.inner.probe(key)).await
    }

    /// Nothing is asked of the store.
    async fn presign(
        &self,
        key: &str,
        what: &Presign,
        time: Duration,
    ) -> Result<Option<Presigned>, StorageError> {
        self.inner.presign(key, what, time).await
    }

    async fn room(&self) -> Result<Room, StorageError> {
        self.count("room", self.inner.room()).await
    }
}

/// A writer, and the call that it is.
struct CountedWriter {
    inner: Box<dyn Writer>,
    under_way: UnderWay,
}

#[async_trait]
impl Writer for CountedWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let written = self.inner.write(bytes).await;
        if written.is_err() {
            self.under_way.is(result(&written));
        }
        written
    }

    async fn finish(self: Box<Self>) -> Result<(), StorageError> {
        let Self { inner, mut under_way } = *self;
        let finished = inner.finish().await;
        under_way.is(result(&finished));
        finished
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::storage::{LocalStorage, StorageExt};

    /// What was heard: operations and results, in their order.
    #[derive(Debug, Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Calls for Heard {
        fn ended(&self, called: Called, operation: &'static str, result: &'static str, _: Duration) {
            assert_eq!(called, Called::Storage);
            self.0.lock().unwrap().push(format!("{operation} {result}"));
        }
    }

    #[tokio::test]
    async fn each_call_is_heard_of_once_with_what_became_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let heard = Arc::new(Heard::default());
        let inner: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        let storage = CountedStorage::new(inner, Arc::clone(&heard) as Arc<dyn Calls>);
        let take = || std::mem::take(&mut *heard.0.lock().unwrap());
        storage.put("a/b", "x".into(), PutMode::Create).await.unwrap();
        storage.put("a/b", "x".into(), PutMode::Create).await.unwrap_err();
        storage.get("a/c").await.unwrap_err();
        assert_eq!(take(), ["put ok", "put exists", "get not_found"]);
        // Parts of it are counted, too.
        let below = storage.below("a");
        assert_eq!(below.list_all("").await.unwrap().len(), 1);
        drop(below.list("", ""));
        assert!(below.list("../", "").next().await.unwrap().is_err());
        assert_eq!(take(), ["list ok", "list left", "list invalid"]);
        let mut writer = below.writer("d", IfExists::Fail).await.unwrap();
        writer.write("y".into()).await.unwrap();
        assert!(take().is_empty(), "a part of the upload was counted before its end");
        writer.finish().await.unwrap();
        drop(below.writer("e", IfExists::Fail).await.unwrap());
        assert_eq!(take(), ["write ok", "write left"]);
        assert!(storage.room().await.unwrap().free_bytes.is_some());
        storage.delete("a/b").await.unwrap();
        assert_eq!(take(), ["room ok", "delete ok"]);
    }
}
