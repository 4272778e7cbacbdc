//! Where a host keeps the environments that it has made: one folder each, named by its content, in this user's cache.
//!
//! `<key>.lock` is locked by the worker that makes an environment, and shared by all that use it; the kernel frees the lock of a
//! program that was killed. An environment counts once `<key>/made.json` names the folder that it is in. It is not moved
//! there: the programs of a virtual environment have its path in their first lines. Whatever a killed program left, or
//! its installer still writes to, lies in another folder beside it and is never used.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use prs_common::private_folder::{PrivateFolder, PrivateFolderError};
use prs_common::tree::{self, remove_tree};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use crate::host::unique::unique;

/// Names the folder of an environment that was made.
const MADE: &str = "made.json";
/// Between two attempts to get a lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

/// The environments of this user on this host.
#[derive(Debug)]
pub(super) struct Store {
    folder: PrivateFolder,
}

/// What is known of an environment that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    /// Its folder, below that of its key.
    folder: String,
    /// What is in it, bytes.
    bytes: u64,
}

/// An environment that can be used, as long as this is kept.
#[derive(Debug)]
pub(crate) struct Held {
    /// Its folder.
    pub(super) folder: PathBuf,
    _lock: File,
}

/// The right to make an environment.
#[derive(Debug)]
pub(super) struct Making {
    folder: PrivateFolder,
    name: String,
    _lock: File,
}

/// What there is of an environment.
pub(super) enum Found {
    /// It is there.
    There(Held),
    /// It is to be made.
    Missing(Making),
}

impl Store {
    /// The folder of the user's cache, which is made where it is not there.
    pub(super) fn open() -> Result<Self, String> {
        Self::at(&Self::place()?).map_err(|error| error.to_string())
    }

    /// The same where it is there.
    pub(super) fn open_if_there() -> Option<Self> {
        Some(Self { folder: PrivateFolder::open(&Self::place().ok()?).ok()? })
    }

    /// Where environments lie, as the variables of this program say.
    pub(super) fn place() -> Result<PathBuf, String> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        // A service has a folder of its own; there may be several.
        let service = std::env::var_os("CACHE_DIRECTORY").and_then(|all| std::env::split_paths(&all).next());
        let cache = service.filter(|path| path.is_absolute()).or_else(|| {
            let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
            Some(cache.join("prs"))
        });
        let cache = cache.ok_or("there is no folder for it: neither XDG_CACHE_HOME nor HOME names one")?;
        Ok(cache.join("environments"))
    }

    /// The folder at `path`.
    pub(super) fn at(path: &Path) -> Result<Self, PrivateFolderError> {
        Ok(Self { folder: PrivateFolder::make(path)? })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn lock_file(&self, key: &str) -> io::Result<File> {
        tree::append(self.path().join(format!("{key}.lock")))
    }

    /// The environment `key`, where it is made; waits for nobody.
    pub(super) fn find(&self, key: &str) -> Option<Held> {
        let lock = self.lock_file(key).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockShared).ok()?;
        self.held(key, lock)
    }

    /// The environment under a lock that is shared, or not.
    fn held(&self, key: &str, lock: File) -> Option<Held> {
        let folder = PrivateFolder::open(&self.path().join(key)).ok()?;
        let made = read(folder.path())?;
        let marker = tree::open_to_write(folder.path().join(MADE));
        // What was used last goes last.
        let touched = marker.and_then(|marker| marker.set_modified(SystemTime::now()));
        if let Err(error) = touched {
            tracing::debug!(%error, key, "an environment counts as unused");
        }
        Some(Held { folder: folder.path().join(made.folder), _lock: lock })
    }

    /// The environment `key`, or the right to make it. Waits while another program makes it, of which `waits` hears.
    pub(super) async fn find_or_make(&self, key: &str, waits: impl Fn()) -> io::Result<Found> {
        let lock = self.lock_file(key)?;
        loop {
            // Shared first: many use what one has made.
            match flock(&lock, FlockOperation::NonBlockingLockShared) {
                Ok(()) => {
                    if let Some(held) = self.held(key, lock.try_clone()?) {
                        return Ok(Found::There(held));
                    }
                    // Another program may make it between the two locks: then this one is refused, or it is found.
                    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                        Ok(()) if read(&self.path().join(key)).is_none() => {
                            return Ok(Found::Missing(self.making(key, lock)?));
                        }
                        Ok(()) | Err(Errno::WOULDBLOCK) => {}
                        Err(error) => return Err(error.into()),
                    }
                    flock(&lock, FlockOperation::Unlock)?;
                }
                Err(Errno::WOULDBLOCK) => waits(),
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(LOCK_INTERVAL).await;
        }
    }

    fn making(&self, key: &str, lock: File) -> io::Result<Making> {
        let folder = self.folder.make_below(key).map_err(io::Error::other)?;
        // What a program that was killed has left.
        for entry in fs::read_dir(folder.path())?.flatten() {
            if let Err(error) = remove_tree(entry.path()) {
                tracing::debug!(%error, "what a killed program left of an environment stays");
            }
        }
        Ok(Making { folder, name: unique(), _lock: lock })
    }

    /// Removes the environments that were used longest ago, until those that stay take at most `most` bytes. What is used
    /// or made stays.
    pub(super) fn shrink(&self, most: u64) {
        let mut kept: Vec<(SystemTime, String, u64)> = Vec::new();
        for entry in
            fs::read_dir(self.path()).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir())
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            match read(&entry.path()) {
                Some(made) => {
                    let marker = fs::metadata(entry.path().join(MADE)).and_then(|marker| marker.modified());
                    kept.push((marker.unwrap_or(SystemTime::UNIX_EPOCH), name, made.bytes));
                }
                None => self.remove(&name),
            }
        }
        kept.sort();
        let mut sum: u64 = kept.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, name, bytes) in kept {
            if sum <= most {
                break;
            }
            self.remove(&name);
            sum = sum.saturating_sub(bytes);
        }
    }

    /// Removes an environment, unless it is used or made at the moment.
    fn remove(&self, key: &str) {
        let Ok(lock) = self.lock_file(key) else { return };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let folder = self.path().join(key);
        // From here on it is none.
        let removed = match tree::remove_file(folder.join(MADE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => remove_tree(&folder),
        };
        match removed {
            Ok(()) => tracing::info!(key, "an environment that was not used for long is removed"),
            Err(error) => tracing::warn!(key, %error, "an environment cannot be removed"),
        }
    }

    /// How many environments there are, and their bytes.
    pub(super) fn count(&self) -> (usize, u64) {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten();
        let made = entries.filter_map(|entry| read(&entry.path()));
        made.fold((0, 0), |(count, bytes), made| (count + 1, bytes + made.bytes))
    }
}

impl Making {
    /// Where to make it.
    pub(super) fn folder(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Has it count.
    pub(super) fn done(self) -> io::Result<()> {
        let sizes =
            WalkDir::new(self.folder()).into_iter().flatten().filter_map(|entry| entry.metadata().ok());
        let bytes = sizes.filter(fs::Metadata::is_file).map(|file| file.len()).sum();
        let made = Made { folder: self.name.clone(), bytes };
        let temporary = self.folder.path().join(format!("{}.json", self.name));
        tree::write(&temporary, serde_json::to_vec(&made).map_err(io::Error::other)?)?;
        File::open(&temporary)?.sync_all()?;
        tree::rename(temporary, self.folder.path().join(MADE))
    }

    /// Removes what was made of it.
    pub(super) fn abandon(self) {
        if let Err(error) = remove_tree(self.folder()) {
            tracing::debug!(%error, "a part of an environment stays until it is made anew");
        }
    }
}

/// The interpreter of the environment in `folder`.
pub(super) fn python_of(folder: &Path) -> PathBuf {
    folder.join("bin/python")
}

fn read(folder: &Path) -> Option<Made> {
    let made: Made = serde_json::from_slice(&tree::read(folder.join(MADE)).ok()?).ok()?;
    // The Python that it was made of may be gone.
    (!made.folder.contains('/') && python_of(&folder.join(&made.folder)).is_file()).then_some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(making: &Making, bytes: usize) {
        fs::create_dir_all(making.folder().join("bin")).unwrap();
        fs::write(python_of(&making.folder()), vec![0; bytes]).unwrap();
    }

    async fn make(store: &Store, key: &str, bytes: usize) {
        let Ok(Found::Missing(making)) = store.find_or_make(key, || {}).await else {
            panic!("{key} is there")
        };
        fill(&making, bytes);
        making.done().unwrap();
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(&folder.path().join("environments")).unwrap();
        (folder, store)
    }

    #[tokio::test]
    async fn what_is_not_done_never_counts() {
        let (_folder, store) = store();
        assert!(store.find("a").is_none());
        let Ok(Found::Missing(making)) = store.find_or_make("a", || {}).await else { panic!("it is there") };
        fill(&making, 1);
        assert!(store.find("a").is_none(), "it is being made");
        let left = making.folder();
        drop(making);
        assert!(store.find("a").is_none() && left.is_dir(), "it was killed");
        make(&store, "a", 10).await;
        assert!(!left.exists());
        let held = store.find("a").unwrap();
        assert_eq!(fs::read(python_of(&held.folder)).unwrap().len(), 10);
        assert_eq!(store.count(), (1, 10));
        fs::remove_file(python_of(&held.folder)).unwrap();
        assert!(store.find("a").is_none(), "it has no Python any more");
    }

    #[tokio::test]
    async fn one_makes_it_and_the_others_wait() {
        let (_folder, store) = store();
        let Ok(Found::Missing(making)) = store.find_or_make("a", || {}).await else { panic!("it is there") };
        let waited = std::cell::Cell::new(0);
        let finish = async {
            tokio::time::sleep(LOCK_INTERVAL * 3).await;
            fill(&making, 1);
            making.done().unwrap();
        };
        let (found, ()) = tokio::join!(store.find_or_make("a", || waited.set(waited.get() + 1)), finish);
        assert!(matches!(found, Ok(Found::There(_))) && waited.get() > 0);
        assert!(store.find("a").is_some(), "it is shared");
    }

    #[tokio::test]
    async fn the_one_that_was_used_longest_ago_goes_and_none_that_is_used() {
        let (_folder, store) = store();
        for key in ["a", "b", "c", "d"] {
            make(&store, key, 100).await;
            let marker = File::options().write(true).open(store.path().join(key).join(MADE)).unwrap();
            let age = Duration::from_secs(1_000 - u64::from(key.as_bytes()[0]));
            marker.set_modified(SystemTime::now() - age).unwrap();
        }
        fs::create_dir(store.path().join("left")).unwrap();
        let held = store.find("d").unwrap();
        drop(store.find("a").unwrap());
        store.shrink(200);
        assert!(!store.path().join("left").exists());
        let there: Vec<bool> = ["a", "b", "c", "d"].map(|key| store.find(key).is_some()).into();
        assert_eq!(there, [true, false, false, true]);
        store.shrink(0);
        assert_eq!(store.count(), (1, 100));
        drop(held);
        store.shrink(0);
        assert_eq!(store.count(), (0, 0));
    }
}
