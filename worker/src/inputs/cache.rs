//! The files of the localizer: which there are, who needs them, and which go when others come.
//!
//! All files of a mini-batch are admitted together, and those that must wait do so in the order they came: no two
//! ever hold a part of what they need and wait for each other. Nothing is fetched here.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prs_common::file_version::SeenFile;
use tokio::sync::{Notify, OnceCell};

/// Where files lie while they are fetched, below the folder.
const TEMPORARY: &str = ".tmp";

/// Files in a folder, of a limited number of bytes.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    limit: AtomicU64,
    /// What a file takes is a multiple of this, bytes.
    grain: u64,
    state: Mutex<State>,
    /// Held by the one that waits for room; the others wait behind it.
    turn: tokio::sync::Mutex<()>,
    unpinned: Notify,
    numbers: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Arc<str>, Entry>,
    /// What is there and needed by nobody, by its last use.
    idle: BTreeMap<u64, Arc<str>>,
    clock: u64,
    /// Bytes of all entries.
    used: u64,
    /// Bytes of those that are pinned.
    pinned: u64,
}

#[derive(Debug)]
struct Entry {
    object: String,
    bytes: u64,
    pins: u32,
    last_used: u64,
    /// As it was when it came, or was last found to be whole.
    known: Option<SeenFile>,
    ready: Ready,
}

/// Set once a file is there, to what it is.
pub(super) type Ready = Arc<OnceCell<SeenFile>>;

/// A file that is pinned.
#[derive(Debug, Clone)]
pub(super) struct Pinned {
    /// Its path below the folder.
    pub(super) path: Arc<str>,
    /// What it was when it was last needed, where it may be there still: to be looked at before it is fetched.
    pub(super) known: Option<SeenFile>,
    /// Set once it is there.
    pub(super) ready: Ready,
}

/// A file that a mini-batch needs.
pub(super) struct Wanted {
    /// Its path below the folder.
    pub(super) path: Arc<str>,
    /// Its size, or 0 where that is not known before it is there.
    pub(super) bytes: u64,
    /// What it is a copy of.
    pub(super) object: String,
}

/// Keeps files in the cache until it is dropped.
#[derive(Debug)]
pub struct Pin {
    cache: Option<Arc<Cache>>,
    entries: Vec<Pinned>,
}

impl Pin {
    /// Keeps nothing.
    pub fn none() -> Self {
        Self { cache: None, entries: Vec::new() }
    }

    /// The absolute path of `path` where the files lie.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.cache.as_ref().map_or_else(PathBuf::new, |cache| cache.path(path))
    }

    /// The files.
    pub(super) fn entries(&self) -> &[Pinned] {
        &self.entries
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let Some(cache) = &self.cache else { return };
        let mut state = cache.state();
        for entry in &self.entries {
            state.unpin(&entry.path, &cache.folder);
        }
        state.evict(cache.limit(), &cache.folder);
        drop(state);
        cache.unpinned.notify_waiters();
    }
}

impl Cache {
    /// Files of at most `limit` bytes, each of which takes a multiple of `grain`.
    pub(super) fn new(folder: PathBuf, limit: u64, grain: u64) -> Self {
        Self {
            folder,
            limit: limit.into(),
            grain,
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            unpinned: Notify::new(),
            numbers: AtomicU64::new(0),
        }
    }

    /// Most bytes of its files.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes what it holds at most; what is needed stays.
    pub(super) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.state().evict(limit, &self.folder);
        self.unpinned.notify_waiters();
    }

    /// What a file of so many bytes takes.
    fn taken_by(&self, bytes: u64) -> u64 {
        // Where there is a grain, an empty file takes one too.
        if self.grain > 1 { bytes.max(1).next_multiple_of(self.grain) } else { bytes }
    }

    /// The absolute path of `path`.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// A new path for a file that is being fetched.
    pub(super) fn temporary(&self) -> PathBuf {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.folder.join(TEMPORARY).join(number.to_string())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins `wanted`, no path twice, as soon as there is room for all of it. Fails with the path that is a copy of
    /// something else.
    pub(super) async fn pin(self: &Arc<Self>, wanted: &[Wanted]) -> Result<Pin, Arc<str>> {
        let _turn = self.turn.lock().await;
        loop {
            let mut unpinned = std::pin::pin!(self.unpinned.notified());
            unpinned.as_mut().enable();
            if let Some(pin) = self.try_pin(wanted)? {
                return Ok(pin);
            }
            unpinned.await;
        }
    }

    /// The same at once, where there is room for all of it without that of anything that is needed.
    pub(super) fn pin_if_room(self: &Arc<Self>, wanted: &[Wanted]) -> Result<Option<Pin>, Arc<str>> {
        let total: u64 = wanted.iter().map(|file| self.taken_by(file.bytes)).sum();
        if total > self.limit() { Ok(None) } else { self.try_pin(wanted) }
    }

    fn try_pin(self: &Arc<Self>, wanted: &[Wanted]) -> Result<Option<Pin>, Arc<str>> {
        let mut state = self.state();
        let mut more = 0;
        for file in wanted {
            match state.entries.get(&file.path) {
                None => more += self.taken_by(file.bytes),
                Some(entry) if entry.object != file.object => {
                    if entry.pins > 0 {
                        return Err(Arc::clone(&file.path));
                    }
                    more += self.taken_by(file.bytes);
                }
                Some(entry) if entry.pins == 0 => more += entry.bytes,
                Some(_) => {}
            }
        }
        if state.pinned > 0 && state.pinned + more > self.limit() {
            return Ok(None);
        }
        let entries = wanted.iter();
        let entries = entries.map(|file| state.pin(file, self.taken_by(file.bytes), &self.folder)).collect();
        state.evict(self.limit(), &self.folder);
        Ok(Some(Pin { cache: Some(Arc::clone(self)), entries }))
    }

    /// Notes how large a pinned file turned out to be.
    pub(super) fn arrived(&self, path: &str, bytes: u64) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(path) else { return };
        let bytes = self.taken_by(bytes);
        let before = std::mem::replace(&mut entry.bytes, bytes);
        state.used = state.used - before + bytes;
        state.pinned = state.pinned - before + bytes;
        state.evict(self.limit(), &self.folder);
    }

    /// Removes what nobody needs.
    pub(super) fn evict_idle(&self) {
        self.state().evict(0, &self.folder);
    }
}

impl State {
    fn pin(&mut self, file: &Wanted, bytes: u64, folder: &Path) -> Pinned {
        if self.entries.get(&file.path).is_some_and(|entry| entry.object != file.object) {
            self.remove(&file.path, folder);
        }
        let object = &file.object;
        let entry = self.entries.entry(Arc::clone(&file.path)).or_insert_with(|| {
            self.used += bytes;
            let ready = Arc::default();
            Entry { object: object.clone(), bytes, pins: 0, last_used: 0, known: None, ready }
        });
        if entry.pins == 0 {
            self.pinned += entry.bytes;
            self.idle.remove(&entry.last_used);
            // It lay there unneeded, and may have been damaged meanwhile: it is looked at anew.
            entry.known = std::mem::take(&mut entry.ready).get().copied();
        }
        entry.pins += 1;
        Pinned { path: Arc::clone(&file.path), known: entry.known, ready: Arc::clone(&entry.ready) }
    }

    fn unpin(&mut self, path: &Arc<str>, folder: &Path) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        entry.pins -= 1;
        if entry.pins > 0 {
            return;
        }
        self.pinned -= entry.bytes;
        if entry.ready.initialized() {
            self.clock += 1;
            entry.last_used = self.clock;
            self.idle.insert(self.clock, Arc::clone(path));
        } else {
            // It never came, or is not known to be whole any more.
            self.remove(path, folder);
        }
    }

    /// Removes what was not used for the longest time until `limit` is kept, or nothing is left to remove.
    fn evict(&mut self, limit: u64, folder: &Path) {
        // Without a limit to keep, empty files go as well.
        while self.used > limit || limit == 0 {
            let Some((_, path)) = self.idle.pop_first() else { break };
            self.remove(&path, folder);
        }
    }

    /// Removes an entry that nobody needs, with its file. The lock is held meanwhile: else the file could be
    /// removed that another mini-batch has just fetched in its place.
    fn remove(&mut self, path: &Arc<str>, folder: &Path) {
        let Some(entry) = self.entries.remove(path) else { return };
        self.idle.remove(&entry.last_used);
        self.used -= entry.bytes;
        let path = folder.join(&**path);
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a file stays in the cache of inputs; it takes room");
        }
        // Its folders go when they are empty.
        let _ = path.ancestors().skip(1).take_while(|up| *up != folder).try_for_each(std::fs::remove_dir);
    }
}

#[cfg(test)]
mod tests;
