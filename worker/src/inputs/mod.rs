//! Makes the data of a mini-batch local before it runs (spec P5, E4).
//!
//! A descriptor that names objects becomes one that names files of this node: a process does no network
//! I/O. Files lie below one folder, those of each source of an input together, with the folders that the dataset
//! has. The folder is a cache with a bound. What can never be fetched becomes a mini-batch that fails with the
//! reason (D5); what may be fetched later is an error, and the caller's to repeat. Small files lie in memory while there is
//! room. Scripts see the files under the paths of an [`InputPlace`], which are the same on every host.

mod cache;
mod fetch;
pub(crate) mod model;
mod place;
pub mod side;
mod slices;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use prs_common::dataset::names;
use prs_common::file_version::{FileVersion, PackedVersions, SeenFile};
use prs_common::job::{Input, InputSource, JobSpec};
use prs_common::mini_batch::{self, MiniBatch, ObjectRef, ObjectSource, StoreRef, Work};
use prs_common::storage::{DiskError, StorageError, StorageErrorKind, StorageExt};
use prs_common::tree;
use prs_orchestrator::inputs::{InputStores, unnamed_store};

use tokio::sync::Semaphore;

pub use cache::Pin;
use cache::{Cache, Medium, Pinned, Wanted};
use fetch::{FetchError, Object, Part, changed, link};
pub use place::InputPlace;
pub(crate) use place::Mount;
use slices::PlacesInDoubt;

use crate::host::memory_folder::MemoryFolder;
use crate::metrics::Metrics;

/// Downloads of small files at a time, over all mini-batches: these wait for the store more than for their bytes.
const DOWNLOADS: usize = 256;
/// Bytes of a download that takes one place of these; more take more.
const OF_ONE_PLACE: u64 = 256 << 10;
/// Most places of one download: large ones come [`DOWNLOADS`] by this at a time.
const MOST_PLACES: u64 = 4;
/// How often what comes damaged is read: on the way, damage passes.
const READS: u32 = 3;

const SAME_NAME: &str = "another file of the input has the same name";

/// Whether nodes fetch the files of an input: those that every node has stay where they are.
fn is_fetched(input: &Input) -> bool {
    matches!(input.source, InputSource::Manifest { .. })
}

/// Places of [`DOWNLOADS`] that one of so many bytes takes; of unknown size, as a large one.
fn places(bytes: Option<u64>) -> u32 {
    bytes.map_or(MOST_PLACES, |bytes| bytes.div_ceil(OF_ONE_PLACE).clamp(1, MOST_PLACES)) as u32
}

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

impl Localized {
    /// One that is run as it was planned.
    fn as_planned(planned: Bytes) -> Self {
        Self { local: planned.clone(), planned, pin: Pin::none() }
    }
}

/// Fetches data into a folder of the node. Cheap to clone.
#[derive(Clone)]
pub struct Localizer {
    inner: Arc<Inner>,
}

struct Inner {
    stores: InputStores,
    spec: Arc<JobSpec>,
    cache: Arc<Cache>,
    place: InputPlace,
    downloads: Semaphore,
    metrics: Metrics,
    /// Where the data lies that decides on types, of the Parquet files used last.
    places_in_doubt: PlacesInDoubt,
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
    /// It may be later, or at another place of this node.
    Node(DiskError),
}

impl LocalizeError {
    /// What it means for the mini-batch with this descriptor: it fails with the reason when it is run, or is localized
    /// later.
    fn of(self, planned: Bytes) -> Result<Localized, StorageError> {
        let (origin, reason) = match self {
            Self::Unreadable { origin, reason } => (origin, reason),
            Self::Store(error) => return Err(error),
            Self::Node(error) => return Err(of_node(&error)),
        };
        let (index, input) = match MiniBatch::decode(&planned) {
            Ok(mini_batch) => (mini_batch.index, mini_batch.input),
            Err(_) => (MiniBatch::peek_index(&planned).unwrap_or_default(), 0),
        };
        let work = Work::Unreadable { origin: &origin, offset: 0, reason: &reason };
        let local = MiniBatch::new(index, input, work).encode().into();
        Ok(Localized { local, planned, pin: Pin::none() })
    }
}

/// A file to be fetched.
struct File<'a> {
    store: StoreRef<'a>,
    object: Object,
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
    /// Keeps files of at most `limit` bytes in `folder`, which is its own and empty or absent; a single mini-batch may
    /// need more, and is then the only one there. Of these bytes at most `in_memory`, and no more than half, are of small
    /// files in memory. Scripts see them below the folder that `place` gives for the one with the files. What is fetched is
    /// counted in `metrics`. Blocks.
    pub fn new(
        stores: InputStores,
        spec: Arc<JobSpec>,
        folder: &Path,
        limit: u64,
        in_memory: u64,
        place: impl FnOnce(&Path) -> InputPlace,
        metrics: Metrics,
    ) -> std::io::Result<Self> {
        let folder = tree::make_root(folder)?.whereabouts()?;
        let in_memory = if spec.inputs.iter().any(is_fetched) { in_memory.min(limit / 2) } else { 0 };
        let memory = MemoryFolder::open(in_memory, &folder);
        Self::with_memory(stores, spec, folder, limit, memory, place, metrics)
    }

    fn with_memory(
        stores: InputStores,
        spec: Arc<JobSpec>,
        folder: PathBuf,
        limit: u64,
        memory: Option<MemoryFolder>,
        place: impl FnOnce(&Path) -> InputPlace,
        metrics: Metrics,
    ) -> std::io::Result<Self> {
        let cache = Arc::new(Cache::new(folder, limit, memory)?);
        let place = place(cache.tree());
        let downloads = Semaphore::new(DOWNLOADS);
        let places_in_doubt = PlacesInDoubt::default();
        let inner = Inner { stores, spec, cache, place, downloads, metrics, places_in_doubt };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Where scripts see the files.
    pub fn place(&self) -> &InputPlace {
        &self.inner.place
    }

    /// Bytes of the files that are kept.
    pub(crate) fn cached(&self) -> u64 {
        self.inner.cache.used()
    }

    /// The folder with all files.
    pub(crate) fn tree(&self) -> &Path {
        self.inner.cache.tree()
    }

    /// The folder for the files of a source of an input, below that of all. A job's inputs have names of their own, in which
    /// there is no dot.
    fn folder_of(&self, input: u32, source: u32) -> String {
        let name = self.inner.spec.inputs.get(input as usize).map_or("", |input| &input.name);
        if source == 0 { name.to_owned() } else { format!("{name}.{source}") }
    }

    /// The descriptor as it was planned: `body` itself, unless it names an object that holds it.
    async fn planned(&self, body: &Bytes) -> Result<Bytes, LocalizeError> {
        let Ok(MiniBatch { index, work: Work::Stored { key, checksum, .. }, .. }) = MiniBatch::decode(body)
        else {
            return Ok(body.clone());
        };
        let store = self.inner.stores.job();
        let origin = store.uri(key);
        for _ in 0..READS {
            let planned = match store.get(key).await {
                Ok(planned) => planned,
                Err(error) => {
                    let reason = lasting(error).map_err(LocalizeError::Store)?;
                    let reason = format!("the descriptor of the mini-batch: {reason}");
                    return Err(LocalizeError::Unreadable { origin, reason });
                }
            };
            if mini_batch::checksum(&planned) != checksum {
                tracing::warn!(key, "a descriptor does not have its checksum; it is read again");
                continue;
            }
            let unnamed = match MiniBatch::decode(&planned) {
                Ok(found) if found.index == index => unnamed_store(&self.inner.spec, &found),
                _ => Some("another mini-batch".to_owned()),
            };
            let Some(unnamed) = unnamed else { return Ok(planned) };
            return Err(LocalizeError::Unreadable { origin, reason: format!("it names {unnamed}") });
        }
        let reason = "the descriptor of the mini-batch is damaged; resume the job, which plans it anew";
        Err(LocalizeError::Unreadable { origin, reason: reason.to_owned() })
    }

    /// Makes the data that `body` describes local.
    ///
    /// It waits while the files of other mini-batches fill the cache: hand over each mini-batch as it becomes
    /// ready, for none of a group gets any further while the others hold on to their pins. An error is one of
    /// the node, or of a store that does not answer or cannot be opened here, and leaves nothing pinned.
    pub async fn localize(&self, body: &Bytes) -> Result<Localized, StorageError> {
        if MiniBatch::is_local(body) {
            return Ok(Localized::as_planned(body.clone()));
        }
        let planned = match self.planned(body).await {
            Ok(planned) => planned,
            Err(error) => return error.of(body.clone()),
        };
        let Ok(mini_batch) = MiniBatch::decode(&planned) else {
            // The process says what is wrong with it.
            return Ok(Localized::as_planned(planned));
        };
        let made = match &mini_batch.work {
            Work::Objects { sources, files } => self.files(&mini_batch, sources, files).await,
            Work::Slice(slice) if slice.store != StoreRef::Local => {
                self.slices(&mini_batch, std::slice::from_ref(slice)).await
            }
            Work::Slices(slices) if !MiniBatch::is_local(&planned) => self.slices(&mini_batch, slices).await,
            Work::Stored { .. } => Err(LocalizeError::Unreadable {
                origin: format!("mini-batch {}", mini_batch.index),
                reason: "its descriptor names another one".to_owned(),
            }),
            Work::Files { .. } | Work::Slice(_) | Work::Slices(_) | Work::Unreadable { .. } => {
                return Ok(Localized::as_planned(planned));
            }
        };
        match made {
            Ok((local, pin)) => Ok(Localized { planned, local, pin }),
            Err(error) => error.of(planned),
        }
    }

    /// Files of a file dataset.
    async fn files(
        &self,
        planned: &MiniBatch<'_>,
        sources: &[ObjectSource<'_>],
        files: &[ObjectRef<'_>],
    ) -> Result<(Bytes, Pin), LocalizeError> {
        let (input, names) = (planned.input, planned.item_names());
        let mut fetched: HashMap<String, File<'_>> = HashMap::with_capacity(files.len());
        // A file of this host, or the path of one that is to be fetched.
        let mut places: Vec<Result<String, String>> = Vec::with_capacity(files.len());
        for file in files {
            let source = sources.get(file.source as usize).ok_or_else(|| LocalizeError::Unreadable {
                origin: file.relative.to_owned(),
                reason: "the descriptor does not say where it is".to_owned(),
            })?;
            let origin = source.name(file);
            if source.store == StoreRef::Local {
                places.push(Ok(origin));
                continue;
            }
            if let Some(reason) = names::unusable(file.relative) {
                return Err(LocalizeError::Unreadable { origin, reason: reason.to_owned() });
            }
            let path = format!("{}/{}", self.folder_of(input, source.number), file.relative);
            places.push(Err(path.clone()));
            let part = Part::Whole { size: file.size };
            let object = Object { key: source.key(file), version: file.version.to_owned(), part };
            let file = File { store: source.store, object, origin };
            let is_other = |twin: &File<'_>| (twin.store, &twin.object.key) != (file.store, &file.object.key);
            if fetched.get(&path).is_some_and(is_other) {
                let reason = SAME_NAME.to_owned();
                return Err(LocalizeError::Unreadable { origin: file.origin, reason });
            }
            fetched.insert(path, file);
        }
        let pin = self.fetch_all(fetched).await?;
        let versions = versions(&pin, &places);
        let seen = |path: String| self.place().inputs().join(path).to_string_lossy().into_owned();
        let paths: Vec<_> = places.into_iter().map(|place| place.unwrap_or_else(&seen)).collect();
        let (base, paths): (_, Vec<&str>) = match sources {
            [only] if only.store != StoreRef::Local => {
                (seen(self.folder_of(input, only.number)), files.iter().map(|file| file.relative).collect())
            }
            _ => (String::new(), paths.iter().map(String::as_str).collect()),
        };
        let versions = versions.as_bytes();
        let names = if names == paths { Vec::new() } else { names.iter().map(|name| &**name).collect() };
        let local = MiniBatch { work: Work::Files { base: &base, paths, versions, names }, ..*planned };
        Ok((local.encode().into(), pin))
    }

    /// Pins files and fetches those that are not there.
    async fn fetch_all(&self, mut files: HashMap<String, File<'_>>) -> Result<Pin, LocalizeError> {
        let cache = &self.inner.cache;
        // Without its size, a file would have room in the cache whatever that holds already.
        let unknown = |file: &&mut File<'_>| file.object.part.bytes().is_none();
        let sized = files.values_mut().filter(unknown).map(|file| self.find_size(file));
        try_join_all(sized).await?;
        let wanted = files.iter().map(|(path, file)| Wanted {
            path: path.as_str().into(),
            bytes: file.object.part.bytes().unwrap_or(0),
            object: format!("{:?} {}", file.store, file.object.key),
        });
        let wanted: Vec<_> = wanted.collect();
        let same_name = |path: Arc<str>| LocalizeError::Unreadable {
            origin: files.get(&*path).map(|file| file.origin.clone()).unwrap_or_default(),
            reason: SAME_NAME.to_owned(),
        };
        let limit = cache.memory_limit();
        let pin = cache.pin(&wanted, true).await.map_err(&same_name)?;
        match self.fetch_pinned(&pin, &files).await {
            Err(LocalizeError::Node(error)) if cache.medium_at(&error.path) == Medium::Memory => {
                cache.memory_is_full(limit, &error);
            }
            fetched => return fetched.map(|()| pin),
        }
        drop(pin);
        let pin = cache.pin(&wanted, false).await.map_err(&same_name)?;
        self.fetch_pinned(&pin, &files).await.map(|()| pin)
    }

    /// Fetches the pinned files that are not there.
    async fn fetch_pinned(&self, pin: &Pin, files: &HashMap<String, File<'_>>) -> Result<(), LocalizeError> {
        let Inner { cache, downloads, .. } = &*self.inner;
        // None is cut off in the middle; those that have not begun are spared when the mini-batch fails anyway.
        let failed = AtomicBool::new(false);
        let failed = &failed;
        let fetched = join_all(pin.entries().iter().map(|Pinned { path, medium, known, ready }| {
            let file = &files[&**path];
            ready.get_or_try_init(async move || {
                let places = places(file.object.part.bytes()).saturating_mul(file.object.part.streams());
                let places = places.min(DOWNLOADS as u32);
                let _permit = downloads.acquire_many(places).await.expect("the semaphore is never closed");
                if failed.load(Ordering::Relaxed) {
                    return Err(None);
                }
                if let Some(known) = *known
                    && file.object.is_whole(&cache.path(path), known).await
                {
                    return Ok(known);
                }
                let fetched = self.fetch_one(path, *medium, file).await;
                failed.fetch_or(fetched.is_err(), Ordering::Relaxed);
                fetched.map_err(Some)
            })
        }));
        fetched.await.into_iter().find_map(|fetched| fetched.err().flatten()).map_or(Ok(()), Err)
    }

    /// Asks the store how large a file is, and which version of it is there.
    async fn find_size(&self, file: &mut File<'_>) -> Result<(), LocalizeError> {
        let Inner { stores, downloads, .. } = &*self.inner;
        let _permit = downloads.acquire().await.expect("the semaphore is never closed");
        let store = stores.get(file.store).await.map_err(LocalizeError::Store)?;
        let found = store.head(&file.object.key).await.map_err(|error| file.refused(error))?;
        file.object.part = Part::Whole { size: Some(found.size) };
        if file.object.version.is_empty() {
            file.object.version = found.version;
        }
        Ok(())
    }

    /// Fetches one file; when what it lies on is full, once more without what nobody needs there, and when it comes
    /// damaged, some times more.
    async fn fetch_one(
        &self,
        path: &str,
        medium: Medium,
        file: &File<'_>,
    ) -> Result<SeenFile, LocalizeError> {
        let Inner { stores, cache, metrics, .. } = &*self.inner;
        // A store that cannot be opened here says nothing of the mini-batch.
        let store = stores.get(file.store).await.map_err(LocalizeError::Store)?;
        let mut evicted = Vec::new();
        let mut again = 1..READS;
        loop {
            // A link that finds no room costs no download.
            let fetching = async {
                if let Some(target) = cache.link(path, medium) {
                    link(&cache.path(path), target).await?;
                }
                file.object.fetch(&*store, cache.place(path, medium), cache.temporary(medium)).await
            };
            let fetched = fetching.await;
            match fetched {
                Ok((bytes, seen)) => {
                    metrics.fetched(bytes);
                    cache.arrived(path, bytes);
                    return Ok(seen);
                }
                Err(FetchError::Local(error)) => {
                    let full = cache.medium_at(&error.path);
                    if !error.is_full() || evicted.contains(&full) {
                        return Err(LocalizeError::Node(error));
                    }
                    evicted.push(full);
                    cache.evict_idle(full);
                }
                Err(FetchError::Store(error)) => return Err(file.refused(error)),
                Err(FetchError::Damaged(reason)) if again.next().is_some() => {
                    tracing::warn!(input = file.origin, reason, "an input came damaged; it is read again");
                }
                Err(FetchError::Wrong(reason) | FetchError::Damaged(reason)) => {
                    return Err(LocalizeError::Unreadable { origin: file.origin.clone(), reason });
                }
            }
        }
    }
}

/// The data is not to blame for what is wrong with the disk of this node, which may pass unless no room is left.
fn of_node(error: &DiskError) -> StorageError {
    let kind = if error.is_full() { StorageErrorKind::Full } else { StorageErrorKind::Unavailable };
    let (place, message) = (error.path.display().to_string(), error.source.to_string());
    StorageError { kind, place, key: String::new(), message }
}

/// The versions of fetched files, so that a process knows whether they are still what came; none where some are files of
/// the user.
fn versions(pin: &Pin, places: &[Result<String, String>]) -> PackedVersions {
    let seen = pin.entries().iter().filter_map(|entry| Some((&*entry.path, entry.ready.get()?.version)));
    let seen: HashMap<&str, FileVersion> = seen.collect();
    let version = |place: &Result<String, String>| seen.get(&**place.as_ref().err()?).copied();
    places.iter().map(version).collect::<Option<PackedVersions>>().unwrap_or_default()
}

/// What to tell of an error that repeating cannot help; the others come back.
fn lasting(error: StorageError) -> Result<String, StorageError> {
    match error.kind {
        StorageErrorKind::NotFound => Ok(format!("it is not there any more: {}", error.message)),
        StorageErrorKind::PermissionDenied => Ok(format!("the store refuses access: {}", error.message)),
        StorageErrorKind::InvalidKey => Ok(format!("the store does not take its name: {}", error.message)),
        StorageErrorKind::Changed => Ok(changed(&error.message)),
        StorageErrorKind::Damaged => Ok(format!("{}; write it anew", error.message)),
        _ => Err(error),
    }
}
