//! The stores that the data of a job is in, opened once each.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use prs_common::mini_batch::StoreRef;
use prs_common::storage::{Reach, Storage, StorageError, StorageErrorKind};
use tokio::sync::OnceCell;

/// Opens the store at a URL, such as `s3://bucket`, of which no more may be used than this.
pub type Opener = Arc<
    dyn Fn(String, Option<Arc<Reach>>) -> BoxFuture<'static, Result<Arc<dyn Storage>, StorageError>>
        + Send
        + Sync,
>;

/// What [`StoreRef`] stands for on this host. Cheap to clone.
#[derive(Clone)]
pub struct InputStores {
    inner: Arc<Inner>,
}

/// A store that is opened when it is first asked for.
type Opened = Arc<OnceCell<Arc<dyn Storage>>>;

struct Inner {
    shared: Arc<dyn Storage>,
    job: Arc<dyn Storage>,
    open: Opener,
    /// What the job may use of it.
    reach: Option<Arc<Reach>>,
    opened: Mutex<HashMap<String, Opened>>,
}

impl InputStores {
    /// `shared` is what all jobs of a fleet share, `job` the job's own prefix of it.
    pub fn new(shared: Arc<dyn Storage>, job: Arc<dyn Storage>, open: Opener) -> Self {
        Self { inner: Arc::new(Inner { shared, job, open, reach: None, opened: Mutex::default() }) }
    }

    /// The same for a job that may use no more than `reach` elsewhere.
    #[must_use]
    pub fn within(&self, reach: Option<Arc<Reach>>) -> Self {
        let Inner { shared, job, open, .. } = &*self.inner;
        let (shared, job, open) = (Arc::clone(shared), Arc::clone(job), Arc::clone(open));
        Self { inner: Arc::new(Inner { shared, job, open, reach, opened: Mutex::default() }) }
    }

    /// What all jobs of a fleet share.
    pub fn shared(&self) -> &Arc<dyn Storage> {
        &self.inner.shared
    }

    /// The job's own prefix.
    pub fn job(&self) -> &Arc<dyn Storage> {
        &self.inner.job
    }

    /// The store that `store` stands for; one that is named by a URL is opened when it is first asked for.
    pub async fn get(&self, store: StoreRef<'_>) -> Result<Arc<dyn Storage>, StorageError> {
        match store {
            StoreRef::Shared => Ok(Arc::clone(&self.inner.shared)),
            StoreRef::Job => Ok(Arc::clone(&self.inner.job)),
            StoreRef::Url(url) => {
                let cell = {
                    let mut opened = self.inner.opened.lock().unwrap_or_else(PoisonError::into_inner);
                    Arc::clone(opened.entry(url.to_owned()).or_default())
                };
                cell.get_or_try_init(|| (self.inner.open)(url.to_owned(), self.inner.reach.clone()))
                    .await
                    .cloned()
            }
            StoreRef::Local => Err(StorageError {
                kind: StorageErrorKind::InvalidKey,
                place: "the file system of the node".to_owned(),
                key: String::new(),
                message: "it is no object store".to_owned(),
            }),
        }
    }
}

impl fmt::Debug for InputStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { shared, job, .. } = &*self.inner;
        f.debug_struct("InputStores").field("shared", shared).field("job", job).finish_non_exhaustive()
    }
}
