//! Where the files of mini-batches lie that are all small: in memory, as long as there is room.
//!
//! The folder in memory has a cache of its own beside that on the disk, and a mini-batch has all its files in one of the
//! two. None waits for room in memory, and none fails for the lack of it: it goes to the disk then.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use prs_common::storage::StorageError;
use tokio::sync::OnceCell;

use super::cache::{Cache, Wanted};
use super::fetch::SMALL;
use crate::memory_folder::MemoryFolder;

/// Memory is given in pages of this size, bytes.
const PAGE: u64 = 4 << 10;
/// A limit below this is none, bytes.
const LEAST: u64 = 1 << 20;

/// The small files of a job, and what they take of the room on the disk.
pub(super) struct Small {
    disk: Arc<Cache>,
    /// Most bytes in memory.
    wanted: u64,
    /// Where the folder is to be made, for a test.
    place: Option<PathBuf>,
    /// Made when it is first needed; absent where it cannot be made.
    memory: OnceCell<Option<Memory>>,
}

/// The folder in memory, and which files are there.
pub(super) struct Memory {
    pub(super) cache: Arc<Cache>,
    /// Held while the limits change.
    limits: Mutex<()>,
    /// Removed with this.
    _folder: MemoryFolder,
}

impl Small {
    /// Takes at most `wanted` bytes from those of the cache on the `disk`.
    pub(super) fn new(disk: Arc<Cache>, wanted: u64) -> Self {
        Self { disk, wanted, place: None, memory: OnceCell::new() }
    }

    /// The same, at a place that a test names.
    #[cfg(test)]
    pub(super) fn at(disk: Arc<Cache>, wanted: u64, place: PathBuf) -> Self {
        Self { place: Some(place), ..Self::new(disk, wanted) }
    }

    /// The memory, when the files of a mini-batch may be there.
    pub(super) async fn place_for(&self, files: &[Wanted]) -> Option<&Memory> {
        if self.wanted < LEAST || files.is_empty() || files.iter().any(|file| file.bytes > SMALL) {
            return None;
        }
        let memory = self.memory.get_or_init(async || {
            let (wanted, place, instead) = (self.wanted, self.place.clone(), self.disk.path(""));
            let opened = tokio::task::spawn_blocking(move || match place {
                Some(place) => MemoryFolder::open_in(&place, wanted),
                None => MemoryFolder::open(wanted, &instead),
            });
            let folder = opened.await.ok().flatten()?;
            let path = folder.path().join("inputs");
            tracing::debug!(path = %path.display(), bytes = folder.bytes, "small inputs are kept in memory");
            self.disk.set_limit(self.disk.limit().saturating_sub(folder.bytes));
            let cache = Arc::new(Cache::new(path, folder.bytes, PAGE));
            Some(Memory { cache, limits: Mutex::default(), _folder: folder })
        });
        memory.await.as_ref().filter(|memory| memory.cache.limit() >= LEAST)
    }

    /// Takes note that there was no room in memory for what was to have it when the limit was `before`: others fill it.
    /// Half of it is given up, and all in the end. The disk gets it back.
    pub(super) fn is_full(&self, memory: &Memory, before: u64, error: &StorageError) {
        let _changing = memory.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.cache.limit() != before {
            // Another mini-batch that met the same has said so.
            return;
        }
        let left = Some(before / 2).filter(|half| *half >= LEAST).unwrap_or(0);
        tracing::info!(%error, bytes = left, "fewer small inputs are kept in memory, the others in the work folder");
        memory.cache.set_limit(left);
        self.disk.set_limit(self.disk.limit() + (before - left));
    }
}
