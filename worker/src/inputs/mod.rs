//! Makes the data of a mini-batch local before it runs (spec P5, E4).
//!
//! A descriptor that names objects becomes one that names files of this node: a process does no network
//! I/O. Files lie below one folder, those of each source of an input together, with the folders that the dataset
//! has. The folder is a cache with a bound. What can never be fetched becomes a mini-batch that fails with the
//! reason (D5); what may be fetched later is an error, and the caller's to repeat.

mod cache;
mod fetch;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use prs_common::dataset::names;
use prs_common::mini_batch::{MiniBatch, ObjectRef, ObjectSource, StoreRef, Work};
use prs_common::storage::{StorageError, StorageErrorKind};
use prs_orchestrator::inputs::InputStores;
use tokio::sync::Semaphore;

pub use cache::Pin;
use cache::{Cache, Wanted};
use fetch::{FetchError, Part, fetch};

/// Downloads at a time, over all mini-batches.
const DOWNLOADS: usize = 64;

const SAME_NAME: &str = "another file of the input has the same name";

/// A mini-batch whose data is on this node.
#[derive(Debug)]
pub struct Localized {
    /// The descriptor as it was planned, whole: what checksums and reports are made of.
    pub planned: Bytes,
    /// The descriptor to run: it names local files only.
    pub local: Bytes,
    /// Keeps the files here; to be dropped when the mini-batch will not run again on this node.
    pub pin: Pin,
}

/// Fetches data into a folder of the node. Cheap to clone.
#[derive(Clone)]
pub struct Localizer {
    inner: Arc<Inner>,
}

struct Inner {
    stores: InputStores,
    cache: Arc<Cache>,
    downloads: Semaphore,
}

impl fmt::Debug for Localizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Localizer").field("cache", &self.inner.cache).finish_non_exhaustive()
    }
}

/// Why a mini-batch cannot be made local.
enum LocalizeError {
    /// It never will be.
    Unreadable { origin: String, reason: String },
    /// It may be later.
    Store(StorageError),
}

/// A file to be fetched.
struct File<'a> {
    store: StoreRef<'a>,
    key: String,
    part: Part,
    /// As the user knows it.
    origin: String,
}

impl File<'_> {
    /// What an error of its store means.
    fn refused(&self, error: StorageError) -> LocalizeError {
        match lasting(error) {
            Ok(reason) => LocalizeError::Unreadable { origin: self.origin.clone(), reason },
            Err(error) => LocalizeError::Store(error),
        }
    }
}

impl Localizer {
    /// Keeps files of at most `limit` bytes in `folder`, which is its own and empty or absent; a single
    /// mini-batch may need more, and is then the only one there.
    pub fn new(stores: InputStores, folder: &Path, limit: u64) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let folder = std::fs::canonicalize(folder)?;
        let cache = Arc::new(Cache::new(folder, limit));
        Ok(Self { inner: Arc::new(Inner { stores, cache, downloads: Semaphore::new(DOWNLOADS) }) })
    }

    /// The descriptor as it was planned: `body` itself, unless it names an object that holds it.
    async fn planned(&self, body: &Bytes) -> Result<Bytes, StorageError> {
        if MiniBatch::is_local(body) {
            return Ok(body.clone());
        }
        match MiniBatch::decode(body) {
            Ok(MiniBatch { work: Work::Stored { key, .. }, .. }) => self.inner.stores.job().get(key).await,
            _ => Ok(body.clone()),
        }
    }

    /// Makes the data that `body` describes local.
    ///
    /// It waits while the files of other mini-batches fill the cache: hand over each mini-batch as it becomes
    /// ready, for none of a group gets any further while the others hold on to their pins. An error is one of
    /// the node, or of a store that does not answer or cannot be opened here, and leaves nothing pinned.
    pub async fn localize(&self, body: &Bytes) -> Result<Localized, StorageError> {
        if MiniBatch::is_local(body) {
            return Ok(Localized { planned: body.clone(), local: body.clone(), pin: Pin::none() });
        }
        let planned = match self.planned(body).await {
            Ok(planned) => planned,
            Err(error) => {
                let (place, key) = (error.place.clone(), error.key.clone());
                let reason = lasting(error)?;
                let origin = format!("{place}: {key}");
                return Ok(unreadable(body.clone(), &origin, &format!("its descriptor: {reason}")));
            }
        };
        let Ok(MiniBatch { index, input, work }) = MiniBatch::decode(&planned) else {
            // The process says what is wrong with it.
            return Ok(Localized { local: planned.clone(), planned, pin: Pin::none() });
        };
        let made = match work {
            Work::Objects { sources, files } => self.files(index, input, &sources, &files).await,
            Work::DelimitedObject { .. } => self.slice(index, input, &work).await,
            Work::Stored { .. } => Err(LocalizeError::Unreadable {
                origin: format!("mini-batch {index}"),
                reason: "its descriptor names another one".to_owned(),
            }),
            Work::Files { .. } | Work::Delimited { .. } | Work::Unreadable { .. } => {
                return Ok(Localized { local: planned.clone(), planned, pin: Pin::none() });
            }
        };
        match made {
            Ok((local, pin)) => Ok(Localized { planned, local, pin }),
            Err(LocalizeError::Store(error)) => Err(error),
            Err(LocalizeError::Unreadable { origin, reason }) => Ok(unreadable(planned, &origin, &reason)),
        }
    }

    /// Files of a file dataset.
    async fn files(
        &self,
        index: u64,
        input: u32,
        sources: &[ObjectSource<'_>],
        files: &[ObjectRef<'_>],
    ) -> Result<(Bytes, Pin), LocalizeError> {
        let mut fetched: HashMap<String, File<'_>> = HashMap::with_capacity(files.len());
        let mut paths = Vec::with_capacity(files.len());
        for file in files {
            let source = sources.get(file.source as usize).ok_or_else(|| LocalizeError::Unreadable {
                origin: file.relative.to_owned(),
                reason: "the descriptor does not say where it is".to_owned(),
            })?;
            let origin = source.name(file);
            if source.store == StoreRef::Local {
                paths.push(origin);
                continue;
            }
            if let Some(reason) = names::unusable(file.relative) {
                return Err(LocalizeError::Unreadable { origin, reason: reason.to_owned() });
            }
            let path = format!("{input}/{}/{}", source.number, file.relative);
            paths.push(self.inner.cache.path(&path).to_string_lossy().into_owned());
            let file = File {
                store: source.store,
                key: source.key(file),
                part: Part::Whole { size: file.size },
                origin,
            };
            let twin = fetched.get(&path).filter(|twin| (twin.store, &twin.key) != (file.store, &file.key));
            if twin.is_some() {
                let reason = SAME_NAME.to_owned();
                return Err(LocalizeError::Unreadable { origin: file.origin, reason });
            }
            fetched.insert(path, file);
        }
        let pin = self.fetch_all(fetched).await?;
        let shared =
            self.inner.cache.path(&format!("{input}/{}", sources.first().map_or(0, |source| source.number)));
        let (base, paths): (_, Vec<&str>) = match sources {
            [only] if only.store != StoreRef::Local => {
                (shared.to_string_lossy(), files.iter().map(|file| file.relative).collect())
            }
            _ => ("".into(), paths.iter().map(String::as_str).collect()),
        };
        let local = MiniBatch { index, input, work: Work::Files { base: &base, paths } };
        Ok((local.encode().into(), pin))
    }

    /// A slice of a delimited text file.
    async fn slice(&self, index: u64, input: u32, work: &Work<'_>) -> Result<(Bytes, Pin), LocalizeError> {
        let &Work::DelimitedObject { store, key, origin, version, start, end, records, schema } = work else {
            unreachable!("the caller looked at the kind of work");
        };
        let mut hasher = DefaultHasher::new();
        (store, key).hash(&mut hasher);
        let name = format!("{input}/slices/{:016x}-{start}-{end}", hasher.finish());
        let file =
            File { store, key: key.to_owned(), part: Part::Range(start..end), origin: origin.to_owned() };
        let pin = self.fetch_all(HashMap::from([(name.clone(), file)])).await?;
        let path = self.inner.cache.path(&name);
        let path = path.to_string_lossy();
        let work = Work::Delimited { path: &path, origin, version, start, end, records, schema };
        Ok((MiniBatch { index, input, work }.encode().into(), pin))
    }

    /// Pins files and fetches those that are not there.
    async fn fetch_all(&self, mut files: HashMap<String, File<'_>>) -> Result<Pin, LocalizeError> {
        let Inner { cache, downloads, .. } = &*self.inner;
        // Without its size, a file would have room in the cache whatever that holds already.
        let sized =
            files.values_mut().filter(|file| file.part.bytes().is_none()).map(|file| self.find_size(file));
        try_join_all(sized).await?;
        let wanted = files.iter().map(|(path, file)| Wanted {
            path: path.as_str().into(),
            bytes: file.part.bytes().unwrap_or(0),
            object: format!("{:?} {}", file.store, file.key),
        });
        let pin = cache.pin(wanted.collect()).await.map_err(|path| LocalizeError::Unreadable {
            origin: files.get(&*path).map(|file| file.origin.clone()).unwrap_or_default(),
            reason: SAME_NAME.to_owned(),
        })?;
        // None is cut off in the middle; those that have not begun are spared when the mini-batch fails anyway.
        let failed = AtomicBool::new(false);
        let failed = &failed;
        let fetched = join_all(pin.entries().iter().map(|(path, ready)| {
            let file = &files[&**path];
            ready.get_or_try_init(async move || {
                let _permit = downloads.acquire().await.expect("the semaphore is never closed");
                if failed.load(Ordering::Relaxed) {
                    return Err(None);
                }
                let fetched = self.fetch_one(path, file).await;
                failed.fetch_or(fetched.is_err(), Ordering::Relaxed);
                fetched.map_err(Some)
            })
        }));
        match fetched.await.into_iter().find_map(|fetched| fetched.err().flatten()) {
            Some(error) => Err(error),
            None => Ok(pin),
        }
    }

    /// Asks the store how large a file is.
    async fn find_size(&self, file: &mut File<'_>) -> Result<(), LocalizeError> {
        let Inner { stores, downloads, .. } = &*self.inner;
        let _permit = downloads.acquire().await.expect("the semaphore is never closed");
        let store = stores.get(file.store).await.map_err(LocalizeError::Store)?;
        match store.head(&file.key).await {
            Ok(object) => file.part = Part::Whole { size: Some(object.size) },
            Err(error) => return Err(file.refused(error)),
        }
        Ok(())
    }

    /// Fetches one file; when the disk is full, once more without what nobody needs.
    async fn fetch_one(&self, path: &Arc<str>, file: &File<'_>) -> Result<(), LocalizeError> {
        let Inner { stores, cache, .. } = &*self.inner;
        // A store that cannot be opened here says nothing of the mini-batch.
        let store = stores.get(file.store).await.map_err(LocalizeError::Store)?;
        let mut evicted = false;
        loop {
            match fetch(&*store, &file.key, &file.part, cache, path).await {
                Ok(bytes) => {
                    cache.arrived(path, bytes);
                    return Ok(());
                }
                Err(FetchError::Local(error)) if error.kind == StorageErrorKind::Full && !evicted => {
                    evicted = true;
                    cache.evict_idle();
                }
                Err(FetchError::Local(error)) => return Err(LocalizeError::Store(error)),
                Err(FetchError::Store(error)) => return Err(file.refused(error)),
                Err(FetchError::Wrong(reason)) => {
                    return Err(LocalizeError::Unreadable { origin: file.origin.clone(), reason });
                }
            }
        }
    }
}

/// What to tell of an error that repeating cannot help; the others come back.
fn lasting(error: StorageError) -> Result<String, StorageError> {
    match error.kind {
        StorageErrorKind::NotFound => Ok(format!("it is not there any more: {}", error.message)),
        StorageErrorKind::PermissionDenied => Ok(format!("the store refuses access: {}", error.message)),
        StorageErrorKind::InvalidKey => Ok(format!("the store does not take its name: {}", error.message)),
        _ => Err(error),
    }
}

/// A mini-batch that fails with a reason when it is run.
fn unreadable(planned: Bytes, origin: &str, reason: &str) -> Localized {
    let (index, input) = match MiniBatch::decode(&planned) {
        Ok(mini_batch) => (mini_batch.index, mini_batch.input),
        Err(_) => (MiniBatch::peek_index(&planned).unwrap_or_default(), 0),
    };
    let local = MiniBatch { index, input, work: Work::Unreadable { origin, offset: 0, reason } };
    Localized { local: local.encode().into(), planned, pin: Pin::none() }
}
