//! The files of the localizer: which there are, who needs them, and which go when others come.
//!
//! All files of a mini-batch are admitted together, and those that must wait do so in the order they came: no two
//! ever hold a part of what they need and wait for each other. Nothing is fetched here.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OnceCell};

/// Where files lie while they are fetched, below the folder.
const TEMPORARY: &str = ".tmp";

/// Files in a folder, of a limited number of bytes.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    limit: u64,
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
    ready: Arc<OnceCell<()>>,
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
    entries: Vec<(Arc<str>, Arc<OnceCell<()>>)>,
}

impl Pin {
    /// Keeps nothing.
    pub fn none() -> Self {
        Self { cache: None, entries: Vec::new() }
    }

    /// The files, and what is set once they are there.
    pub(super) fn entries(&self) -> &[(Arc<str>, Arc<OnceCell<()>>)] {
        &self.entries
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let Some(cache) = &self.cache else { return };
        let mut state = cache.state();
        for (path, _) in &self.entries {
            state.unpin(path);
        }
        state.evict(cache.limit, &cache.folder);
        drop(state);
        cache.unpinned.notify_waiters();
    }
}

impl Cache {
    pub(super) fn new(folder: PathBuf, limit: u64) -> Self {
        Self {
            folder,
            limit,
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            unpinned: Notify::new(),
            numbers: AtomicU64::new(0),
        }
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
    pub(super) async fn pin(self: &Arc<Self>, wanted: Vec<Wanted>) -> Result<Pin, Arc<str>> {
        let _turn = self.turn.lock().await;
        loop {
            let mut unpinned = std::pin::pin!(self.unpinned.notified());
            unpinned.as_mut().enable();
            if let Some(pin) = self.try_pin(&wanted)? {
                return Ok(pin);
            }
            unpinned.await;
        }
    }

    fn try_pin(self: &Arc<Self>, wanted: &[Wanted]) -> Result<Option<Pin>, Arc<str>> {
        let mut state = self.state();
        let mut more = 0;
        for file in wanted {
            match state.entries.get(&file.path) {
                None => more += file.bytes,
                Some(entry) if entry.object != file.object => {
                    if entry.pins > 0 {
                        return Err(Arc::clone(&file.path));
                    }
                    more += file.bytes;
                }
                Some(entry) if entry.pins == 0 => more += entry.bytes,
                Some(_) => {}
            }
        }
        if state.pinned > 0 && state.pinned + more > self.limit {
            return Ok(None);
        }
        let entries = wanted.iter().map(|file| (Arc::clone(&file.path), state.pin(file, &self.folder)));
        let entries = entries.collect();
        state.evict(self.limit, &self.folder);
        Ok(Some(Pin { cache: Some(Arc::clone(self)), entries }))
    }

    /// Notes how large a pinned file turned out to be.
    pub(super) fn arrived(&self, path: &str, bytes: u64) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(path) else { return };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        state.used = state.used - before + bytes;
        state.pinned = state.pinned - before + bytes;
        state.evict(self.limit, &self.folder);
    }

    /// Removes what nobody needs.
    pub(super) fn evict_idle(&self) {
        self.state().evict(0, &self.folder);
    }
}

impl State {
    fn pin(&mut self, file: &Wanted, folder: &Path) -> Arc<OnceCell<()>> {
        if self.entries.get(&file.path).is_some_and(|entry| entry.object != file.object) {
            self.remove(&file.path, folder);
        }
        let (object, bytes) = (&file.object, file.bytes);
        let entry = self.entries.entry(Arc::clone(&file.path)).or_insert_with(|| {
            self.used += bytes;
            let ready = Arc::default();
            Entry { object: object.clone(), bytes, pins: 0, last_used: 0, ready }
        });
        if entry.pins == 0 {
            self.pinned += entry.bytes;
            self.idle.remove(&entry.last_used);
        }
        entry.pins += 1;
        Arc::clone(&entry.ready)
    }

    fn unpin(&mut self, path: &Arc<str>) {
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
            // It never came.
            self.used -= entry.bytes;
            self.entries.remove(path);
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
mod tests {
    use std::time::Duration;

    use super::*;

    fn cache(limit: u64) -> (Arc<Cache>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (Arc::new(Cache::new(folder.path().to_owned(), limit)), folder)
    }

    fn wanted(names: &[(&str, u64)]) -> Vec<Wanted> {
        let wanted =
            |&(path, bytes): &(&str, u64)| Wanted { path: path.into(), bytes, object: path.to_owned() };
        names.iter().map(wanted).collect()
    }

    /// Pins files and puts those there that are missing.
    async fn take(cache: &Arc<Cache>, names: &[(&str, u64)]) -> Pin {
        let pin = cache.pin(wanted(names)).await.unwrap();
        for (path, ready) in pin.entries() {
            let path = cache.path(path);
            ready
                .get_or_init(|| async {
                    // Another file that goes takes an empty folder along.
                    while std::fs::write(&path, "x").is_err() {
                        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    }
                })
                .await;
        }
        pin
    }

    fn there(cache: &Cache) -> Vec<String> {
        let mut names: Vec<String> = cache.state().entries.keys().map(ToString::to_string).collect();
        names.sort();
        assert!(names.iter().all(|name| cache.path(name).is_file()));
        names
    }

    /// Bytes used and pinned.
    fn held(cache: &Cache) -> (u64, u64) {
        let state = cache.state();
        (state.used, state.pinned)
    }

    #[tokio::test]
    async fn the_least_recently_used_go_first_and_pinned_ones_stay() {
        let (cache, folder) = cache(10);
        drop(take(&cache, &[("a/1", 4)]).await);
        drop(take(&cache, &[("b/1", 4)]).await);
        drop(take(&cache, &[("a/1", 4)]).await);
        let pin = take(&cache, &[("c", 4)]).await;
        assert_eq!(there(&cache), ["a/1", "c"]);
        assert!(!folder.path().join("b").exists());
        drop(take(&cache, &[("d", 6)]).await);
        assert_eq!(there(&cache), ["c", "d"]);
        drop(pin);
        assert_eq!(there(&cache), ["c", "d"]);
        assert_eq!(held(&cache), (10, 0));
    }

    #[tokio::test]
    async fn what_is_larger_than_the_bound_is_there_alone() {
        let (cache, _folder) = cache(10);
        drop(take(&cache, &[("small", 4)]).await);
        let large = take(&cache, &[("large/1", 20), ("large/2", 20)]).await;
        assert_eq!(there(&cache), ["large/1", "large/2"]);
        let next = tokio::spawn({
            let cache = Arc::clone(&cache);
            async move { take(&cache, &[("next", 1)]).await }
        });
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(!next.is_finished());
        drop(large);
        let _next = next.await.unwrap();
        assert_eq!(there(&cache), ["next"]);
    }

    #[tokio::test]
    async fn what_never_came_leaves_nothing() {
        let (cache, _folder) = cache(10);
        let pin = cache.pin(wanted(&[("a", 4)])).await.unwrap();
        let again = cache.pin(wanted(&[("a", 4)])).await.unwrap();
        assert_eq!(cache.state().pinned, 4);
        drop((pin, again));
        let state = cache.state();
        assert!(state.entries.is_empty() && state.idle.is_empty());
        assert_eq!((state.used, state.pinned), (0, 0));
    }

    #[tokio::test]
    async fn sizes_that_were_not_known_count_once_they_are() {
        let (cache, _folder) = cache(10);
        drop(take(&cache, &[("known", 8)]).await);
        let pin = take(&cache, &[("unknown", 0)]).await;
        assert_eq!(there(&cache), ["known", "unknown"]);
        cache.arrived("unknown", 5);
        assert_eq!(there(&cache), ["unknown"]);
        drop(pin);
        assert_eq!(held(&cache), (5, 0));
    }

    #[tokio::test]
    async fn one_path_is_a_copy_of_one_object() {
        let (cache, _folder) = cache(10);
        let other = || vec![Wanted { path: "a".into(), bytes: 1, object: "other".to_owned() }];
        let pin = take(&cache, &[("a", 4)]).await;
        assert_eq!(cache.pin(other()).await.unwrap_err(), Arc::from("a"));
        drop(pin);
        let pin = cache.pin(other()).await.unwrap();
        assert!(!cache.path("a").exists() && !pin.entries()[0].1.initialized());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_with_little_room_all_get_their_turn() {
        let (cache, _folder) = cache(10);
        let tasks: Vec<_> = (0..64u64)
            .map(|number| {
                let cache = Arc::clone(&cache);
                tokio::spawn(async move {
                    let names: Vec<String> =
                        (0..3).map(|file| format!("f/{}", (number + file) % 16)).collect();
                    let names: Vec<(&str, u64)> =
                        names.iter().map(|name| (&**name, 1 + number % 4)).collect();
                    for _ in 0..20 {
                        let pin = take(&cache, &names).await;
                        assert!(names.iter().all(|(name, _)| cache.path(name).is_file()));
                        drop(pin);
                    }
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_mins(1), task).await.unwrap().unwrap();
        }
        assert_eq!(cache.state().pinned, 0);
        assert!(cache.state().used <= 10);
    }
}
