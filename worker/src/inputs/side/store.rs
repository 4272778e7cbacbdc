//! The side inputs that a host has: each once, for all jobs and all workers of this user, named by its content.
//!
//! A side input is a folder, `<content>.<number>`, that nobody writes to, and beside it a file that is locked: shared by
//! who uses it, alone by who fetches it, or removes it for others that need the room. What was used longest ago goes first.
//! The file says what the folder held when it was whole; one that a script has changed since is fetched again, under
//! another number as long as others use it. The whole goes with the last worker that uses it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use prs_common::job::InputSource;
use prs_common::private_folder::PrivateFolder;
use prs_common::tree::{self, remove_tree};
use prs_orchestrator::inputs::side::seen;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::host::blocking::blocking;
use crate::host::work_folder::{WorkFolder, WorkFolderError};

/// Between two looks at a side input that another node fetches.
const PAUSE: Duration = Duration::from_millis(100);
/// How often one that is not whole is found in use before it is fetched under another number.
const IN_USE: u32 = 10;
/// How often the folder may be taken away while it is opened.
const ATTEMPTS: usize = 100;
/// What the name of a file ends with that is locked.
const LOCK: &str = ".lock";
/// Of a folder that is being filled.
const PART: &str = ".part";

/// Why a side input cannot be kept on this host.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// There is no folder for it.
    #[error(transparent)]
    Folder(#[from] WorkFolderError),
    /// A file of it.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
}

impl StoreError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |reason| Self::Io { path, reason }
    }
}

/// The side inputs of a host. The folder is made when the first of them comes.
#[derive(Debug)]
pub struct SideInputStore {
    whereabouts: Whereabouts,
    /// Bytes that are kept, where more is not needed at once.
    limit: u64,
    folder: Mutex<Option<PrivateFolder>>,
}

#[derive(Debug)]
enum Whereabouts {
    /// Beside the folders of the workers of this user.
    Beside(Arc<WorkFolder>),
    /// For one job.
    At(PathBuf),
}

/// A side input that is here, as long as this is kept.
#[derive(Debug)]
pub(super) struct Kept {
    /// Its folder.
    pub(super) folder: PathBuf,
    _lock: File,
}

impl SideInputStore {
    /// The one that all workers with their folder beside `work_folder` share.
    pub fn shared(work_folder: Arc<WorkFolder>, limit: u64) -> Self {
        Self { whereabouts: Whereabouts::Beside(work_folder), limit, folder: Mutex::default() }
    }

    /// One for a single job, at `folder`, which goes with what it is in.
    pub fn of_job(folder: PathBuf, limit: u64) -> Self {
        Self { whereabouts: Whereabouts::At(folder), limit, folder: Mutex::default() }
    }

    /// Its folder, locked with others. Blocks.
    fn open(&self) -> Result<PathBuf, StoreError> {
        let mut opened = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = opened.as_ref().filter(|folder| folder.is_there()) {
            return Ok(folder.path().to_owned());
        }
        let mut path = PathBuf::new();
        for _ in 0..ATTEMPTS {
            let folder = match &self.whereabouts {
                Whereabouts::Beside(work_folder) => work_folder.beside("side-inputs"),
                Whereabouts::At(path) => PrivateFolder::make(path).map_err(WorkFolderError::from),
            };
            let folder = folder?;
            folder.path().clone_into(&mut path);
            match flock(&folder, FlockOperation::NonBlockingLockShared) {
                // The last of those before removes it.
                Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                Err(error) => return Err(StoreError::Io { path, reason: error.into() }),
                Ok(()) if folder.is_there() => {
                    *opened = Some(folder);
                    return Ok(path);
                }
                Ok(()) => {}
            }
        }
        let reason = io::Error::other("it is removed again and again");
        Err(StoreError::Io { path, reason })
    }

    /// The side input with this content, which has so many bytes, or the place for it where it is not here whole. Waits
    /// while another node of this host fetches it, and tells `is_awaited` so again and again.
    pub(super) async fn find(
        &self,
        content: &str,
        bytes: u64,
        is_awaited: &(dyn Fn() + Sync),
    ) -> Result<Found, StoreError> {
        let (mut number, mut in_use) = (0, 0);
        loop {
            let store = self.open()?;
            match look(store.clone(), format!("{content}.{number}"), bytes).await? {
                Looked::Found(found) => {
                    if let Found::Vacant(_) = found {
                        let most = self.limit.saturating_sub(bytes);
                        blocking(move || evict(&store, most)).await;
                    }
                    return Ok(found);
                }
                Looked::Busy => {
                    in_use = 0;
                    is_awaited();
                }
                Looked::Damaged if in_use == IN_USE => (number, in_use) = (number + 1, 0),
                Looked::Damaged => in_use += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Removes all that nobody uses. Blocks.
    pub(super) fn make_room(&self) {
        if let Ok(folder) = self.open() {
            evict(&folder, 0);
        }
    }
}

impl Drop for SideInputStore {
    fn drop(&mut self) {
        let opened = self.folder.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = opened.take()
            && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
            && folder.is_there()
            && let Err(error) = remove_tree(folder.path())
        {
            tracing::warn!(path = %folder.path().display(), %error, "side inputs are left behind");
        }
    }
}

/// A side input in the store, or the place for one.
#[derive(Debug)]
pub(super) enum Found {
    /// It is here whole.
    Here(Kept),
    /// It is to be fetched, and nobody else does meanwhile.
    Vacant(Vacant),
}

/// The place for a side input that is not here.
#[derive(Debug)]
pub(super) struct Vacant {
    folder: PathBuf,
    bytes: u64,
    lock: File,
}

impl Vacant {
    /// The folder to fill, which is not there.
    pub(super) fn part(&self) -> PathBuf {
        with(&self.folder, PART)
    }

    /// Keeps what was fetched.
    pub(super) async fn settle(self) -> Result<Kept, StoreError> {
        blocking(move || settle(self)).await
    }
}

/// What there is under a name.
enum Looked {
    Found(Found),
    /// Another node brings it, or removes it.
    Busy,
    /// It is not whole, and others use it.
    Damaged,
}

async fn look(store: PathBuf, name: String, bytes: u64) -> Result<Looked, StoreError> {
    blocking(move || {
        let (folder, path) = (store.join(&name), store.join(name.clone() + LOCK));
        let mut file = tree::append(&path).map_err(StoreError::io(&path))?;
        if !locks(&file, FlockOperation::NonBlockingLockShared, &path)? {
            return Ok(Looked::Busy);
        }
        if is_whole(&mut file, &folder) {
            let _ = file.set_modified(SystemTime::now());
            return Ok(Looked::Found(Found::Here(Kept { folder, _lock: file })));
        }
        let is_there = folder.exists();
        locks(&file, FlockOperation::Unlock, &path)?;
        if !locks(&file, FlockOperation::NonBlockingLockExclusive, &path)? {
            return Ok(if is_there { Looked::Damaged } else { Looked::Busy });
        }
        if is_whole(&mut file, &folder) {
            // Another node brought it at this moment. For a moment nobody holds the lock: it is looked for again.
            return Ok(Looked::Busy);
        }
        empty(&mut file, &folder).map_err(StoreError::io(&folder))?;
        Ok(Looked::Found(Found::Vacant(Vacant { folder, bytes, lock: file })))
    })
    .await
}

/// Whether the lock could be had.
fn locks(file: &File, how: FlockOperation, path: &Path) -> Result<bool, StoreError> {
    match flock(file.as_fd(), how) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        locked => locked.map(|()| true).map_err(|error| StoreError::io(path)(error.into())),
    }
}

/// Removes the side input at `folder`, whose lock is held alone, and what a killed worker left of it.
fn empty(lock: &mut File, folder: &Path) -> io::Result<()> {
    lock.set_len(0)?;
    remove_tree(folder)?;
    remove_tree(with(folder, PART))
}

fn with(folder: &Path, end: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Whether `folder` is what it was when it came.
fn is_whole(lock: &mut File, folder: &Path) -> bool {
    let Some((_, known)) = noted(lock) else { return false };
    look_at(folder).is_ok_and(|found| found == known)
}

/// Size and checksum that are noted in `lock`.
fn noted(lock: &mut File) -> Option<(u64, String)> {
    let mut text = String::new();
    lock.rewind().and_then(|()| lock.read_to_string(&mut text)).ok()?;
    let (bytes, known) = text.trim_end().split_once(' ')?;
    Some((bytes.parse().ok()?, known.to_owned()))
}

fn look_at(folder: &Path) -> io::Result<String> {
    // A listing would take it for a glob.
    folder.metadata()?;
    let seen = seen(&InputSource::Paths(vec![folder.to_string_lossy().into_owned()]));
    seen.map(|seen| seen.checksum).map_err(io::Error::other)
}

/// Gives what was fetched its name, and shares its lock. Blocks.
fn settle(vacant: Vacant) -> Result<Kept, StoreError> {
    let part = vacant.part();
    let Vacant { folder, bytes, mut lock } = vacant;
    rename(&part, &folder, bytes, &mut lock).map_err(StoreError::io(&folder))?;
    Ok(Kept { folder, _lock: lock })
}

/// Gives `part` its name, notes in `lock` what it is, and shares that.
fn rename(part: &Path, folder: &Path, bytes: u64, lock: &mut File) -> io::Result<()> {
    protect(part)?;
    // A folder may only be renamed by who may write to it.
    tree::set_mode(part, 0o755)?;
    tree::rename(part, folder)?;
    tree::set_mode(folder, 0o555)?;
    let known = look_at(folder)?;
    lock.rewind()?;
    lock.write_all(format!("{bytes} {known}\n").as_bytes())?;
    flock(lock.as_fd(), FlockOperation::LockShared)?;
    Ok(())
}

/// Takes the right to write from everything in `path`.
fn protect(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            protect(&entry?.path())?;
        }
        return tree::set_mode(path, 0o555);
    }
    tree::set_mode(path, 0o444)
}

/// Removes what was used longest ago, and is used by nobody, until at most `most` bytes are left.
fn evict(store: &Path, most: u64) {
    let mut known = Vec::new();
    let mut total = 0;
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|end| end != &LOCK[1..]) {
            continue;
        }
        let Ok(mut lock) = tree::open_to_write(&path) else { continue };
        let Ok(metadata) = lock.metadata() else { continue };
        let bytes = noted(&mut lock).map_or(0, |(bytes, _)| bytes);
        total += bytes;
        known.push(((metadata.mtime(), metadata.mtime_nsec()), path, lock, bytes));
    }
    known.sort_by_key(|(used, ..)| *used);
    for (_, path, mut lock, bytes) in known {
        let folder = path.with_extension("");
        let has_rest = with(&folder, PART).exists();
        if (total <= most || bytes == 0) && !has_rest {
            continue;
        }
        if flock(lock.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if total <= most {
            // What a killed worker left of one.
            let _ = remove_tree(with(&folder, PART));
        } else if let Err(error) = empty(&mut lock, &folder) {
            tracing::warn!(path = %folder.display(), %error, "a side input that nobody uses takes room");
        } else {
            total -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The side input with this content, and whether it was not here.
    async fn get(store: &SideInputStore, content: &str, bytes: u64, text: &str) -> (Kept, bool) {
        match store.find(content, bytes, &|| {}).await.unwrap() {
            Found::Here(kept) => (kept, false),
            Found::Vacant(vacant) => {
                tokio::time::sleep(PAUSE / 2).await;
                let part = vacant.part();
                fs::create_dir_all(part.join("deep")).unwrap();
                fs::write(part.join("deep/file"), text).unwrap();
                (vacant.settle().await.unwrap(), true)
            }
        }
    }

    #[tokio::test]
    async fn what_is_here_is_not_fetched_again_unless_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("side");
        let store = SideInputStore::of_job(at.clone(), 1_000);
        let (first, was_fetched) = get(&store, "aa", 10, "one").await;
        assert!(was_fetched);
        let other = SideInputStore::of_job(at.clone(), 1_000);
        let (second, was_fetched) = get(&other, "aa", 10, "two").await;
        assert!(!was_fetched && first.folder == second.folder);
        let file = second.folder.join("deep/file");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o444);
        // A script that is allowed to change it does.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&file, "changed").unwrap();
        let (third, was_fetched) = get(&other, "aa", 10, "two").await;
        assert!(was_fetched && third.folder != first.folder, "others use the changed one");
        drop((first, second, third));
        let (fourth, was_fetched) = get(&other, "aa", 10, "three").await;
        assert!(was_fetched);
        assert_eq!(fs::read_to_string(fourth.folder.join("deep/file")).unwrap(), "three");
        drop(store);
        assert!(at.exists());
        drop(fourth);
        drop(other);
        assert!(!at.exists(), "the last one removes it");
    }

    #[tokio::test]
    async fn what_was_used_longest_ago_makes_room_and_what_is_used_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = SideInputStore::of_job(folder.path().join("side"), 100);
        let (used, _) = get(&store, "aa", 40, "a").await;
        for (content, second) in [("bb", 1), ("cc", 2)] {
            drop(get(&store, content, 30, content).await);
            let lock = File::options()
                .write(true)
                .open(folder.path().join(format!("side/{content}.0.lock")))
                .unwrap();
            lock.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
        }
        drop(get(&store, "dd", 30, "d").await);
        let is_here = |content: &str| folder.path().join(format!("side/{content}.0")).exists();
        assert_eq!(["aa", "bb", "cc", "dd"].map(is_here), [true, false, true, true]);
        // More than there is room for at all.
        drop(get(&store, "ee", 500, "e").await);
        assert_eq!(["aa", "bb", "cc", "dd", "ee"].map(is_here), [true, false, false, false, true]);
        assert!(used.folder.exists());
    }

    #[tokio::test]
    async fn of_two_that_need_it_at_once_one_fetches_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("side");
        let stores = [0; 4].map(|_| SideInputStore::of_job(at.clone(), 1_000));
        let got = futures_util::future::join_all(stores.iter().map(|store| get(store, "aa", 1, "x"))).await;
        assert_eq!(got.iter().filter(|(_, was_fetched)| *was_fetched).count(), 1);
        // Who waits tells so.
        let Found::Vacant(vacant) = stores[0].find("cc", 1, &|| {}).await.unwrap() else {
            panic!("it is here")
        };
        let (told, limit) = (std::sync::atomic::AtomicBool::new(false), PAUSE * 3);
        let is_awaited = || told.store(true, std::sync::atomic::Ordering::Relaxed);
        let waiting = stores[1].find("cc", 1, &is_awaited);
        assert!(tokio::time::timeout(limit, waiting).await.is_err());
        assert!(told.into_inner());
        drop(vacant);
        // What a killed worker left is no hindrance.
        fs::create_dir_all(at.join("bb.0.part/x")).unwrap();
        assert!(get(&stores[0], "bb", 1, "b").await.1);
        assert!(!at.join("bb.0.part").exists());
    }
}
