//! Fetches the files of a side input into a folder, many side by side, and says meanwhile how far it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::dataset::names;
use prs_common::failpoint;
use prs_common::job::SideInput;
use prs_common::mini_batch::StoreRef;
use prs_common::storage::{StorageError, StorageErrorKind};
use prs_common::tree;
use prs_orchestrator::inputs::InputStores;
use prs_orchestrator::inputs::manifest::{ManifestError, Source, Store};
use prs_orchestrator::inputs::side::{FetchedSideInput, key_of, listing_of};
use tokio::runtime::Handle;

use super::super::fetch::{FetchError, Object, Part};
use super::super::{READS, lasting};
use super::store::SideInputStore;
use crate::host::blocking::blocking;

/// Files fetched side by side.
const AT_ONCE: usize = 32;
/// Pause before a store that did not answer is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two words about how far it is.
const TOLD: Duration = Duration::from_millis(500);

/// The files of `side_input`, as often as it takes to read which they are.
pub(super) async fn listing(
    side_input: &SideInput,
    stores: &InputStores,
) -> Result<FetchedSideInput, String> {
    loop {
        let (side_input, storage, handle) = (side_input.clone(), Arc::clone(stores.job()), Handle::current());
        let name = side_input.name.clone();
        match blocking(move || listing_of(&side_input, &storage, &handle)).await {
            Ok(listing) => return Ok(listing),
            Err(ManifestError::Storage(error)) => wait(&name, error).await?,
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Waits until a store may be asked again; fails with what repeating cannot help.
async fn wait(what: &str, error: StorageError) -> Result<(), String> {
    let error = match lasting(error) {
        Ok(reason) => return Err(reason),
        Err(error) if error.kind == StorageErrorKind::Full => return Err(error.to_string()),
        Err(error) => error,
    };
    tracing::warn!(what, %error, "a side input is not here yet; trying again");
    tokio::time::sleep(PAUSE).await;
    Ok(())
}

/// A side input on its way.
pub(super) struct Fetching<'a> {
    pub(super) listing: &'a FetchedSideInput,
    pub(super) stores: &'a InputStores,
    pub(super) store: &'a SideInputStore,
    /// Hears how many bytes are here.
    pub(super) tell: &'a (dyn Fn(u64) + Sync),
}

/// What the files of one attempt share.
struct Way {
    folder: PathBuf,
    /// Where files lie while they come.
    temporary: PathBuf,
    done: AtomicU64,
    /// Whether room was made already, for the lack of which a file failed.
    made_room: AtomicBool,
}

impl Fetching<'_> {
    /// Fetches all files into `folder`, which is not there.
    pub(super) async fn fill(&self, folder: PathBuf) -> Result<(), String> {
        let way = Way {
            temporary: folder.join(".prs-tmp"),
            folder,
            done: AtomicU64::new(0),
            made_room: AtomicBool::new(false),
        };
        let made = tree::make_folders(&way.temporary);
        made.map_err(|error| format!("{}: {error}", way.folder.display()))?;
        let file = |number| -> BoxFuture<'_, _> { Box::pin(self.file(&way, number)) };
        let files = stream::iter(0..self.listing.files.len()).map(file);
        let fetched = files.buffer_unordered(AT_ONCE).try_collect::<()>();
        tokio::select! {
            fetched = fetched => fetched?,
            never = self.tell_how_far(&way) => never,
        }
        let removed = tree::remove_tree(&way.temporary);
        removed.map_err(|error| format!("{}: {error}", way.temporary.display()))
    }

    async fn tell_how_far(&self, way: &Way) -> ! {
        loop {
            tokio::time::sleep(TOLD).await;
            let coming = fs::read_dir(&way.temporary).into_iter().flatten().flatten();
            let coming: u64 = coming.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
            (self.tell)((way.done.load(Ordering::Relaxed) + coming).min(self.listing.bytes));
        }
    }

    /// Fetches one file, as often as it takes.
    async fn file(&self, way: &Way, number: usize) -> Result<(), String> {
        let file = &self.listing.files[number];
        let source = &self.listing.sources[file.source as usize];
        let named = format!("{}{}", source.origin, file.relative);
        let failed = |reason: String| format!("{named}: {reason}");
        if let Some(reason) = names::unusable(&file.relative) {
            return Err(failed(reason.to_owned()));
        }
        let part = Part::Whole { size: file.size };
        let object = Object { key: key_of(source, file), version: file.version.clone(), part };
        let (target, temporary) = (way.folder.join(&file.relative), way.temporary.join(number.to_string()));
        let mut reads = 0;
        loop {
            match self.once(source, &object, &target, &temporary).await {
                Ok(bytes) => {
                    way.done.fetch_add(bytes, Ordering::Relaxed);
                    failpoint::pass("side_input_file");
                    return Ok(());
                }
                Err(FetchError::Store(error)) => wait(&named, error).await.map_err(failed)?,
                Err(FetchError::Local(error))
                    if error.is_full() && !way.made_room.swap(true, Ordering::Relaxed) =>
                {
                    self.store.make_room();
                }
                Err(FetchError::Local(error)) => {
                    return Err(failed(format!("{}: {}", error.path.display(), error.source)));
                }
                Err(FetchError::Damaged(reason)) if reads + 1 < READS => {
                    reads += 1;
                    tracing::warn!(file = named, reason, "a side input came damaged; it is read again");
                }
                Err(FetchError::Wrong(reason) | FetchError::Damaged(reason)) => return Err(failed(reason)),
            }
        }
    }

    async fn once(
        &self,
        source: &Source,
        object: &Object,
        target: &Path,
        temporary: &Path,
    ) -> Result<u64, FetchError> {
        let store = match &source.store {
            Store::Shared => StoreRef::Shared,
            Store::Url(url) => StoreRef::Url(url),
            Store::Local => StoreRef::Local,
        };
        let store = self.stores.get(store).await.map_err(FetchError::Store)?;
        let (bytes, _) = object.fetch(&*store, target.to_owned(), temporary.to_owned()).await?;
        Ok(bytes)
    }
}
