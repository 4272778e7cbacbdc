//! A store of which a job may use a part.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, future, stream};

use super::{
    FolderEntry, FolderListing, GetOptions, GetResult, IfExists, Listing, ObjectMeta, Payload, Presign,
    Presigned, PutMode, Reach, Room, Storage, StorageError, StorageErrorKind, Use, Version, Writer,
};

/// A store, and which of its objects may be used. Of what is listed those are left out that may not be read.
#[derive(Debug, Clone)]
pub(super) struct FencedStorage {
    inner: Arc<dyn Storage>,
    /// What stands before its keys, with a `/` at its end.
    base: String,
    reach: Arc<Reach>,
}

impl FencedStorage {
    /// The part of the store at `url` that `reach` allows.
    pub(super) fn new(inner: Arc<dyn Storage>, url: &str, reach: Arc<Reach>) -> Self {
        Self { inner, base: format!("{}/", url.trim_end_matches('/')), reach }
    }

    fn check(&self, key: &str, usage: Use) -> Result<(), StorageError> {
        self.reach.check_key(&format!("{}{key}", self.base), usage).map_err(|message| StorageError {
            kind: StorageErrorKind::PermissionDenied,
            place: self.inner.to_string(),
            key: key.to_owned(),
            message,
        })
    }

    /// What may be read of a `listing` of `prefix`.
    fn readable(&self, prefix: &str, listing: Listing) -> Listing {
        if let Err(error) = self.check(prefix, Use::Read) {
            return stream::iter([Err(error)]).boxed();
        }
        let fence = self.clone();
        let may_be_read =
            move |object: &ObjectMeta| future::ready(fence.check(&object.key, Use::Read).is_ok());
        listing.try_filter(may_be_read).boxed()
    }
}

impl fmt::Display for FencedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl Storage for FencedStorage {
    async fn put(&self, key: &str, payload: Payload, mode: PutMode) -> Result<Version, StorageError> {
        self.check(key, Use::Write)?;
        self.inner.put(key, payload, mode).await
    }

    async fn writer(&self, key: &str, if_exists: IfExists) -> Result<Box<dyn Writer>, StorageError> {
        self.check(key, Use::Write)?;
        self.inner.writer(key, if_exists).await
    }

    async fn get_opts(&self, key: &str, options: GetOptions) -> Result<GetResult, StorageError> {
        self.check(key, Use::Read)?;
        self.inner.get_opts(key, options).await
    }

    fn list(&self, prefix: &str, after: &str) -> Listing {
        self.readable(prefix, self.inner.list(prefix, after))
    }

    fn list_names(&self, prefix: &str) -> Listing {
        self.readable(prefix, self.inner.list_names(prefix))
    }

    fn list_folder(&self, prefix: &str, after: &str) -> FolderListing {
        if let Err(error) = self.check(prefix, Use::Read) {
            return stream::iter([Err(error)]).boxed();
        }
        let fence = self.clone();
        let may_be_read =
            move |entry: &FolderEntry| future::ready(fence.check(entry.key(), Use::Read).is_ok());
        self.inner.list_folder(prefix, after).try_filter(may_be_read).boxed()
    }

    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        self.check(key, Use::Read)?;
        self.inner.head(key).await
    }

    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError> {
        self.check(from, Use::Read)?;
        self.check(to, Use::Write)?;
        self.inner.copy(from, to, if_exists).await
    }

    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError> {
        keys.iter().try_for_each(|key| self.check(key, Use::Write))?;
        self.inner.delete_all(keys).await
    }

    async fn presign(
        &self,
        key: &str,
        what: &Presign,
        time: Duration,
    ) -> Result<Option<Presigned>, StorageError> {
        let usage = if matches!(what, Presign::Read { .. }) { Use::Read } else { Use::Write };
        self.check(key, usage)?;
        self.inner.presign(key, what, time).await
    }

    fn uri(&self, key: &str) -> String {
        self.inner.uri(key)
    }

    fn below(&self, prefix: &str) -> Arc<dyn Storage> {
        let base = format!("{}{prefix}/", self.base);
        Arc::new(Self { inner: self.inner.below(prefix), base, reach: Arc::clone(&self.reach) })
    }

    fn longest_key(&self) -> usize {
        self.inner.longest_key()
    }

    async fn flush(&self) -> Result<(), StorageError> {
        self.inner.flush().await
    }

    async fn sweep(&self) -> Result<(), StorageError> {
        self.inner.sweep().await
    }

    async fn sweep_of(&self, keys: &[String]) -> Result<(), StorageError> {
        keys.iter().try_for_each(|key| self.check(key, Use::Write))?;
        self.inner.sweep_of(keys).await
    }

    async fn may_write(&self, key: &str) -> Result<(), StorageError> {
        self.check(key, Use::Write)?;
        self.inner.may_write(key).await
    }

    async fn probe(&self, key: &str) -> Result<bool, StorageError> {
        self.check(key, Use::Write)?;
        self.inner.probe(key).await
    }

    async fn room(&self) -> Result<Room, StorageError> {
        self.inner.room().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{LocalStorage, StorageExt};

    #[tokio::test]
    async fn what_a_job_may_not_use_is_not_there_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let inner: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        for key in ["in/a", "prs/jobs/a/output/x", "prs/registry/keys/session-1", "prs/audit/x"] {
            inner.put(key, "x".into(), PutMode::Create).await.unwrap();
        }
        let reach = Arc::new(Reach::new(Some("s3://jobs/prs"), []));
        let fenced = FencedStorage::new(Arc::clone(&inner), "s3://jobs", Arc::clone(&reach));
        let listed: Vec<String> =
            fenced.list_all("").await.unwrap().into_iter().map(|object| object.key).collect();
        assert_eq!(listed, ["in/a", "prs/jobs/a/output/x"]);
        assert!(fenced.head("in/a").await.is_ok());
        let refused =
            fenced.get_opts("prs/registry/keys/session-1", GetOptions::default()).await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::PermissionDenied);
        assert!(fenced.below("prs/registry").head("keys/session-1").await.is_err());
        assert!(fenced.list_all("prs/registry/keys/").await.is_err());
        for key in ["prs/registry/data/x", "prs/blobs/x"] {
            assert!(fenced.put(key, "x".into(), PutMode::Create).await.is_err(), "{key}");
            assert!(fenced.copy("in/a", key, IfExists::Fail).await.is_err(), "{key}");
        }
        assert!(fenced.put("out/x", "x".into(), PutMode::Create).await.is_ok());
        let other = FencedStorage::new(inner, "s3://other", reach);
        assert!(other.head("in/a").await.is_err() && other.list_all("").await.is_err());
    }
}
