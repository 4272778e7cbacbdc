//! The files of the localizer: where they lie, who needs them, and which go when others come.
//!
//! Scripts see all of them in one tree of folders, each always under the same path of it. Where there is memory for small
//! files ([`MemoryFolder`]), the tree is there, and a file on the disk is a link in it. A file goes to memory where that has
//! room; none waits for room there, and none fails for the lack of it.
//!
//! All files of a mini-batch are admitted together, and those that must wait do so in the order they came: no two
//! ever hold a part of what they need and wait for each other. Nothing is fetched here.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prs_common::file_version::SeenFile;
use prs_common::storage::DiskError;
use prs_common::tree::{self, Held};
use prs_orchestrator::inputs::blob::digest;
use tokio::sync::{Notify, OnceCell};

use super::fetch::SMALL;
use crate::host::memory_folder::MemoryFolder;

/// Where files lie while they are fetched, below the folder of their medium.
const TEMPORARY: &str = ".tmp";
/// What leads from a tree in memory to the files on the disk.
const DISK: &str = ".disk";
/// Where the files on the disk lie to which a link from their path in a tree in memory would be long.
const LONG: &str = ".long";
/// Links up to this length take no room in memory, bytes.
const SHORT_LINK: usize = 127;
/// Memory is given in pages of this size, bytes.
const PAGE: u64 = 4 << 10;
/// A limit of the memory below this is none, bytes.
const LEAST: u64 = 1 << 20;

/// What files lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    Memory,
    Disk,
}

/// Files of a limited number of bytes.
#[derive(Debug)]
pub(super) struct Cache {
    folders: Folders,
    /// Of those on the disk.
    limit: AtomicU64,
    /// Of those in memory.
    memory_limit: AtomicU64,
    state: Mutex<State>,
    /// Held by the one that waits for room; the others wait behind it.
    turn: tokio::sync::Mutex<()>,
    unpinned: Notify,
    numbers: AtomicU64,
    /// The folder that all of it was given, whatever a script puts in its place.
    _held: Held,
    /// Removed with this.
    _memory: Option<MemoryFolder>,
}

/// Where the files lie.
#[derive(Debug)]
struct Folders {
    tree: PathBuf,
    /// Those on the disk, where the tree is in memory.
    disk: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Arc<str>, CacheEntry>,
    memory: Stock,
    disk: Stock,
    clock: u64,
}

/// What is on one medium.
#[derive(Debug, Default)]
struct Stock {
    /// What is there and needed by nobody, by its last use.
    idle: BTreeMap<u64, Arc<str>>,
    /// Bytes of all entries.
    used: u64,
    /// Bytes of those that are pinned.
    pinned: u64,
}

#[derive(Debug)]
struct CacheEntry {
    object: String,
    medium: Medium,
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
    /// Its path in the tree.
    pub(super) path: Arc<str>,
    /// What it lies on.
    pub(super) medium: Medium,
    /// What it was when it was last needed, where it may be there still: to be looked at before it is fetched.
    pub(super) known: Option<SeenFile>,
    /// Set once it is there.
    pub(super) ready: Ready,
}

/// A file that a mini-batch needs.
pub(super) struct Wanted {
    /// Its path in the tree.
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
            state.unpin(&entry.path, &cache.folders);
        }
        cache.evict(&mut state);
        drop(state);
        cache.unpinned.notify_waiters();
    }
}

impl Cache {
    /// Files of at most `limit` bytes in `folder`, which is there, and in `memory`, which gets its part of the limit.
    pub(super) fn new(folder: PathBuf, limit: u64, memory: Option<MemoryFolder>) -> io::Result<Self> {
        let held = Held::open(&folder)?;
        let (folders, memory_limit) = match &memory {
            None => (Folders { tree: folder, disk: None }, 0),
            Some(memory) => {
                let tree = memory.path().join("inputs");
                tree::make_folder(&tree)?;
                tree::link(&folder, tree.join(DISK))?;
                (Folders { tree, disk: Some(folder) }, memory.bytes)
            }
        };
        Ok(Self {
            folders,
            limit: limit.saturating_sub(memory_limit).into(),
            memory_limit: memory_limit.into(),
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            unpinned: Notify::new(),
            numbers: AtomicU64::new(0),
            _held: held,
            _memory: memory,
        })
    }

    /// Where all files are seen.
    pub(super) fn tree(&self) -> &Path {
        &self.folders.tree
    }

    /// The absolute path of `path` in the tree.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folders.tree.join(path)
    }

    /// Where the bytes of `path` lie.
    pub(super) fn place(&self, path: &str, medium: Medium) -> PathBuf {
        self.folders.place(path, medium)
    }

    /// A new path for a file that is being fetched.
    pub(super) fn temporary(&self, medium: Medium) -> PathBuf {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.folders.of(medium).join(TEMPORARY).join(number.to_string())
    }

    /// What a link at `path` of the tree holds, where the file of an entry on this medium is seen through one.
    pub(super) fn link(&self, path: &str, medium: Medium) -> Option<PathBuf> {
        let is_linked = medium == Medium::Disk && self.folders.disk.is_some();
        is_linked.then(|| short_link(path).unwrap_or_else(|| self.tree().join(DISK).join(short_place(path))))
    }

    /// What the absolute path of a file or a link is on.
    pub(super) fn medium_at(&self, path: &Path) -> Medium {
        let is_in_memory = self.folders.disk.is_some() && path.starts_with(&self.folders.tree);
        if is_in_memory { Medium::Memory } else { Medium::Disk }
    }

    /// Most bytes of its files on the disk.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Most bytes of its files in memory.
    pub(super) fn memory_limit(&self) -> u64 {
        self.memory_limit.load(Ordering::Relaxed)
    }

    /// Bytes of its files.
    pub(super) fn used(&self) -> u64 {
        let state = self.state();
        state.memory.used + state.disk.used
    }

    /// Takes note that there was no room in memory for what was to have it when its limit was `before`: others fill it.
    /// Half of it is given up, and all in the end. The disk gets it back.
    pub(super) fn memory_is_full(&self, before: u64, error: &DiskError) {
        let mut state = self.state();
        if self.memory_limit() != before {
            // Another mini-batch that met the same has said so.
            return;
        }
        let left = Some(before / 2).filter(|half| *half >= LEAST).unwrap_or(0);
        tracing::info!(%error, bytes = left, "fewer small inputs are kept in memory, the others in the work folder");
        self.memory_limit.store(left, Ordering::Relaxed);
        self.limit.fetch_add(before - left, Ordering::Relaxed);
        self.evict(&mut state);
        drop(state);
        self.unpinned.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins `wanted`, no path twice, as soon as there is room for all of it; what comes new goes to memory only where it
    /// `may`. What needs nothing on the disk does not wait. Fails with the path that is a copy of something else.
    pub(super) async fn pin(self: &Arc<Self>, wanted: &[Wanted], may: bool) -> Result<Pin, Arc<str>> {
        if let Some(pin) = self.try_pin(wanted, may, false)? {
            return Ok(pin);
        }
        let _turn = self.turn.lock().await;
        loop {
            let mut unpinned = std::pin::pin!(self.unpinned.notified());
            unpinned.as_mut().enable();
            if let Some(pin) = self.try_pin(wanted, may, true)? {
                return Ok(pin);
            }
            unpinned.await;
        }
    }

    /// Pins `wanted` if there is room for it now; files on the disk only for the one whose turn it is.
    fn try_pin(
        self: &Arc<Self>,
        wanted: &[Wanted],
        may: bool,
        is_its_turn: bool,
    ) -> Result<Option<Pin>, Arc<str>> {
        let mut state = self.state();
        let (media, on_disk) = self.media(&state, wanted, may)?;
        let Stock { pinned, .. } = state.disk;
        let has_room = on_disk == 0 || pinned == 0 || pinned + on_disk <= self.limit();
        if media.contains(&Medium::Disk) && !(is_its_turn && has_room) {
            return Ok(None);
        }
        let entries = wanted.iter().zip(media);
        let entries = entries.map(|(file, medium)| state.pin(file, medium, &self.folders)).collect();
        self.evict(&mut state);
        Ok(Some(Pin { cache: Some(Arc::clone(self)), entries }))
    }

    /// What each of `wanted` lies on or goes to, and the bytes on the disk that are to be pinned for them.
    fn media(&self, state: &State, wanted: &[Wanted], may: bool) -> Result<(Vec<Medium>, u64), Arc<str>> {
        let memory_limit = if may { self.memory_limit() } else { 0 };
        let (mut in_memory, mut on_disk) = (0, 0);
        let mut media = Vec::with_capacity(wanted.len());
        for file in wanted {
            let known = state.entries.get(&file.path);
            if known.is_some_and(|entry| entry.object != file.object && entry.pins > 0) {
                return Err(Arc::clone(&file.path));
            }
            let (medium, more) = if let Some(entry) = known.filter(|entry| entry.object == file.object) {
                (entry.medium, if entry.pins == 0 { entry.bytes } else { 0 })
            } else {
                let bytes = Medium::Memory.taken_by(file.bytes);
                let has_room = state.memory.pinned + in_memory + bytes <= memory_limit;
                let medium = if file.bytes <= SMALL && has_room { Medium::Memory } else { Medium::Disk };
                (medium, medium.taken_by(file.bytes))
            };
            match medium {
                Medium::Memory => in_memory += more,
                Medium::Disk => on_disk += more,
            }
            media.push(medium);
        }
        Ok((media, on_disk))
    }

    /// Notes how large a pinned file turned out to be.
    pub(super) fn arrived(&self, path: &str, bytes: u64) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(path) else { return };
        let medium = entry.medium;
        let bytes = medium.taken_by(bytes);
        let before = std::mem::replace(&mut entry.bytes, bytes);
        let stock = state.stock(medium);
        stock.used = stock.used - before + bytes;
        stock.pinned = stock.pinned - before + bytes;
        self.evict(&mut state);
    }

    /// Removes what nobody needs from a medium.
    pub(super) fn evict_idle(&self, medium: Medium) {
        self.state().evict(medium, 0, &self.folders);
    }

    fn evict(&self, state: &mut State) {
        state.evict(Medium::Memory, self.memory_limit(), &self.folders);
        state.evict(Medium::Disk, self.limit(), &self.folders);
    }
}

impl Medium {
    /// What a file of so many bytes takes.
    fn taken_by(self, bytes: u64) -> u64 {
        match self {
            // An empty file takes a page, too.
            Self::Memory => bytes.max(1).next_multiple_of(PAGE),
            Self::Disk => bytes,
        }
    }
}

/// The link at `path` of a tree in memory to its file on the disk, where it is short.
fn short_link(path: &str) -> Option<PathBuf> {
    let link = format!("{}{DISK}/{path}", "../".repeat(path.matches('/').count()));
    (link.len() <= SHORT_LINK).then(|| link.into())
}

/// Where the file with a long path lies below the folder on the disk.
fn short_place(path: &str) -> String {
    let digest = digest(path.as_bytes()).expect("bytes can be read");
    format!("{LONG}/{}", &digest[..32])
}

impl Folders {
    /// Where the bytes of `path` lie.
    fn place(&self, path: &str, medium: Medium) -> PathBuf {
        match (&self.disk, medium) {
            (Some(disk), Medium::Disk) if short_link(path).is_none() => disk.join(short_place(path)),
            _ => self.of(medium).join(path),
        }
    }

    fn of(&self, medium: Medium) -> &Path {
        match (&self.disk, medium) {
            (Some(disk), Medium::Disk) => disk,
            _ => &self.tree,
        }
    }

    /// Removes a file, where it is seen and where it lies.
    fn remove(&self, path: &str, medium: Medium) {
        let seen = (&*self.tree, self.tree.join(path));
        let disk = self.disk.as_deref().filter(|_| medium == Medium::Disk);
        let lies = disk.map(|disk| (disk, self.place(path, medium)));
        for (folder, path) in [Some(seen), lies].into_iter().flatten() {
            if let Err(error) = tree::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "a file stays in the cache of inputs; it takes room");
            }
            // Its folders go when they are empty.
            let _ = path.ancestors().skip(1).take_while(|up| *up != folder).try_for_each(tree::remove_folder);
        }
    }
}

impl State {
    fn stock(&mut self, medium: Medium) -> &mut Stock {
        match medium {
            Medium::Memory => &mut self.memory,
            Medium::Disk => &mut self.disk,
        }
    }

    fn pin(&mut self, file: &Wanted, medium: Medium, folders: &Folders) -> Pinned {
        if self.entries.get(&file.path).is_some_and(|entry| entry.object != file.object) {
            self.remove(&file.path, folders);
        }
        let stock = match medium {
            Medium::Memory => &mut self.memory,
            Medium::Disk => &mut self.disk,
        };
        let object = &file.object;
        let entry = self.entries.entry(Arc::clone(&file.path)).or_insert_with(|| {
            let bytes = medium.taken_by(file.bytes);
            stock.used += bytes;
            let ready = Arc::default();
            CacheEntry { object: object.clone(), medium, bytes, pins: 0, last_used: 0, known: None, ready }
        });
        if entry.pins == 0 {
            stock.pinned += entry.bytes;
            stock.idle.remove(&entry.last_used);
            // It lay there unneeded, and may have been damaged meanwhile: it is looked at anew.
            entry.known = std::mem::take(&mut entry.ready).get().copied();
        }
        entry.pins += 1;
        let (known, ready) = (entry.known, Arc::clone(&entry.ready));
        Pinned { path: Arc::clone(&file.path), medium, known, ready }
    }

    fn unpin(&mut self, path: &Arc<str>, folders: &Folders) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        entry.pins -= 1;
        if entry.pins > 0 {
            return;
        }
        let (medium, bytes, is_there) = (entry.medium, entry.bytes, entry.ready.initialized());
        self.clock += 1;
        entry.last_used = self.clock;
        let clock = self.clock;
        let stock = self.stock(medium);
        stock.pinned -= bytes;
        if is_there {
            stock.idle.insert(clock, Arc::clone(path));
        } else {
            // It never came, or is not known to be whole any more.
            self.remove(path, folders);
        }
    }

    /// Removes what was not used for the longest time until `limit` is kept, or nothing is left to remove.
    fn evict(&mut self, medium: Medium, limit: u64, folders: &Folders) {
        // Without a limit to keep, empty files go as well.
        while self.stock(medium).used > limit || limit == 0 {
            let Some((_, path)) = self.stock(medium).idle.pop_first() else { break };
            self.remove(&path, folders);
        }
    }

    /// Removes an entry that nobody needs, with its file. The lock is held meanwhile: else the file could be
    /// removed that another mini-batch has just fetched in its place.
    fn remove(&mut self, path: &Arc<str>, folders: &Folders) {
        let Some(entry) = self.entries.remove(path) else { return };
        let stock = self.stock(entry.medium);
        stock.idle.remove(&entry.last_used);
        stock.used -= entry.bytes;
        folders.remove(path, entry.medium);
    }
}

#[cfg(test)]
mod tests;
