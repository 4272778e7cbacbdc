//! A folder as an object store: the storage of embedded jobs.
//!
//! A write goes to a temporary name in the store's own `.tmp` folder, is synced, renamed into place, and the
//! folder is synced. An object that must be new gets its name by a rename that replaces nothing; where the file
//! system knows none, as NFS, as a second name of the temporary file; where it knows neither, this looks first and
//! then renames, and of several who do so at once more than one may win. One version is replaced by another under a
//! lock on the file that has it. A link is no object: none is listed, and none is followed, to read or to write. The root
//! is the folder that is held at its path (see [`crate::tree`]), or else the one that a person names.

mod buffers;
mod no_links;
mod writer;

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use self::buffers::Buffers;
use self::writer::LocalWriter;
use super::placing::{Replaced, open_to_lock, place, version};
use super::{
    FolderEntry, FolderListing, GetOptions, GetResult, IfExists, LONGEST_KEY, Listing, ObjectMeta, Payload,
    Presign, Presigned, PutMode, Room, Storage, StorageError, StorageErrorKind, StorageExt, Version, Writer,
    is_valid_key, is_valid_prefix,
};
use crate::host_name;
use crate::layout::CLAIM;
use crate::tree::{self, OpenFolder};

/// Where objects are written before they have their names, below the root.
pub const TEMPORARY: &str = ".tmp";

/// Longest path that the system takes, bytes.
const LONGEST_PATH: usize = 4095;

/// Objects as files below one folder.
#[derive(Debug, Clone)]
pub struct LocalStorage {
    root: Arc<PathBuf>,
    buffers: Buffers,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);
/// Begins the temporary names of this process: `<host>-<process id>-<time>`. Process ids alone come again, after
/// a restart and in another container, and what a dead writer left may be a second name of a published object.
static WRITER: LazyLock<String> = LazyLock::new(|| {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{}-{}-{:x}", *HOST, std::process::id(), now.as_nanos())
});
static HOST: LazyLock<String> = LazyLock::new(|| host_name().replace('/', "_").chars().take(64).collect());

impl LocalStorage {
    /// Opens the store in `root`; the folder is made with the first object.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: Arc::new(root.into()), buffers: Buffers::default() }
    }

    fn check(&self, key: &str) -> Result<(), StorageError> {
        if is_valid_key(key) && !is_kept_by_stores(key) { Ok(()) } else { Err(self.invalid(key)) }
    }

    fn invalid(&self, key: &str) -> StorageError {
        StorageError {
            kind: StorageErrorKind::InvalidKey,
            place: self.to_string(),
            key: key.to_owned(),
            message: "not a valid object name".to_owned(),
        }
    }

    fn error(&self, key: &str, error: &io::Error) -> StorageError {
        let is_replaced = error.get_ref().is_some_and(|cause| cause.downcast_ref::<Replaced>().is_some());
        let kind = if is_replaced { StorageErrorKind::Changed } else { StorageErrorKind::of_file(error) };
        StorageError { kind, place: self.to_string(), key: key.to_owned(), message: error.to_string() }
    }

    fn root(&self) -> io::Result<Arc<OpenFolder>> {
        tree::root(&self.root)
    }

    /// A new file of this process in the folder for temporary files.
    pub(super) fn temporary(&self) -> io::Result<(Temporary, File)> {
        let root = tree::make_root(&self.root)?;
        let name = format!("{}-{}", *WRITER, COUNTER.fetch_add(1, Ordering::Relaxed));
        // Another process may sweep the folder away just after it was made.
        let mut again = 0..3;
        loop {
            let folder = root.make(TEMPORARY.as_ref())?;
            match folder.create(name.as_ref(), 0o666) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && again.next().is_some() => {}
                made => return made.map(|file| (Temporary { root, folder, name }, file)),
            }
        }
    }

    /// Removes what writers of this host left when they were killed, and the folder for it where nothing else
    /// is in it. Other writers may be at work meanwhile.
    fn sweep_now(&self) -> io::Result<()> {
        let opened = self.root().and_then(|root| Ok((root.below(TEMPORARY.as_ref())?, root)));
        let (folder, root) = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        for (name, _) in folder.entries()? {
            if name.to_str().is_some_and(is_left_behind) {
                // Another program may sweep as well.
                let _ = folder.remove_file(&name);
            }
        }
        let _ = root.remove_folder(TEMPORARY.as_ref());
        Ok(())
    }

    /// Gives a whole file its name, safe from the loss of power.
    fn publish(file: &File, temporary: &Temporary, key: &str, mode: &PutMode) -> io::Result<Version> {
        file.sync_data()?;
        let version = version(&file.metadata()?);
        temporary.place(key, mode)?.sync()?;
        Ok(version)
    }

    fn write_whole(&self, key: &str, parts: &[Bytes], mode: &PutMode) -> io::Result<Version> {
        let (temporary, mut file) = self.temporary()?;
        let written = parts
            .iter()
            .try_for_each(|part| file.write_all(part))
            .and_then(|()| Self::publish(&file, &temporary, key, mode));
        if written.is_err() {
            temporary.remove();
        }
        written
    }

    /// Removes an object, and the folders that are empty without it.
    fn remove(&self, key: &str) -> io::Result<()> {
        let remove = || {
            let root = self.root()?;
            let (folder, name) = root.above(key.as_ref())?;
            folder.remove_file(name)?;
            Ok(root)
        };
        let root = match remove() {
            Err(error) if self.error("", &error).kind == StorageErrorKind::NotFound => return Ok(()),
            removed => removed?,
        };
        // Folders are no objects: an empty one goes, but for those at the top.
        let folders = Path::new(key).ancestors().skip(1).filter(|folder| folder.components().count() > 1);
        let mut gone = folders.map(|folder| {
            let (above, name) = root.above(folder)?;
            above.remove_folder(name)
        });
        let _ = gone.try_for_each(|gone: io::Result<()>| gone);
        Ok(())
    }

    /// Moves a file into the store. It is safe from the loss of power after the next `flush`. One that others may hold is
    /// copied.
    fn move_in(&self, source: &Path, key: &str, mode: &PutMode) -> io::Result<Version> {
        let (folder, name) = tree::above(source)?;
        let root = tree::make_root(&self.root)?;
        let to = Path::new(key).file_name().unwrap_or_default();
        if !folder.look_at(name)?.is_some_and(|seen| seen.is_shared()) {
            match place((&folder, name), (&root, key), mode) {
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
                placed => {
                    let placed = placed?;
                    // It may be another file by now.
                    placed.own(to)?;
                    return Ok(version(&placed.metadata(to)?));
                }
            }
        }
        let (temporary, mut file) = self.temporary()?;
        let copied = folder
            .open_file(name)
            .and_then(|mut source| io::copy(&mut source, &mut file))
            .and_then(|_| Ok(version(&file.metadata()?)))
            .and_then(|version| temporary.place(key, mode).map(|_| version));
        match copied {
            Ok(version) => folder.remove_file(name).map(|()| version),
            Err(error) => {
                temporary.remove();
                Err(error)
            }
        }
    }

    /// Gives the object `from` the name `to`, too. Objects never change in place, so a second name is as good as a copy.
    fn copy_now(&self, from: &str, to: &str, mode: &PutMode) -> io::Result<()> {
        let (temporary, _) = self.temporary()?;
        temporary.remove();
        let root = self.root()?;
        let copied = root
            .above(from.as_ref())
            .and_then(|(source, name)| source.second_name(name, &temporary.folder, temporary.name()))
            .and_then(|()| temporary.place(to, mode));
        // Renaming one name of a file to another of its names does nothing: it may still be there.
        temporary.remove();
        copied.map(drop)
    }

    /// Lets a thread that may wait for the disk do `work`; errors are about `key`.
    async fn blocking<T: Send + 'static>(
        &self,
        key: &str,
        work: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| self.error(key, &error))
    }

    /// Lets a thread that may wait for the disk do `work` with the key of an object.
    async fn with_key<T: Send + 'static>(
        &self,
        key: &str,
        work: impl FnOnce(&Self, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.check(key)?;
        let name = key.to_owned();
        self.blocking(key, move |store| work(store, &name)).await
    }
}

/// A file of this process that has no name of its own yet.
#[derive(Debug)]
pub(super) struct Temporary {
    /// The root of the store.
    pub(super) root: Arc<OpenFolder>,
    pub(super) folder: OpenFolder,
    name: String,
}

impl Temporary {
    pub(super) fn name(&self) -> &OsStr {
        self.name.as_ref()
    }

    /// Gives it the name `key`. Returns the folder that it is in.
    pub(super) fn place(&self, key: &str, mode: &PutMode) -> io::Result<OpenFolder> {
        place((&self.folder, self.name()), (&self.root, key), mode)
    }

    /// Removes it, unless it has another name by now.
    pub(super) fn remove(&self) {
        let _ = self.folder.remove_file(self.name());
    }
}

impl fmt::Display for LocalStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.root.display())
    }
}

/// Whether stores keep the name `key` for themselves: no object can have it.
pub fn is_kept_by_stores(key: &str) -> bool {
    matches!(key.split('/').next(), Some(TEMPORARY | CLAIM))
}

/// Whether the writer of the temporary file `name` is dead for sure: a process of this host that is no more.
fn is_left_behind(name: &str) -> bool {
    let Some((writer, _number)) = name.rsplit_once('-') else { return false };
    let mut parts = writer.rsplitn(3, '-').skip(1);
    let (Some(pid), Some(host)) = (parts.next(), parts.next()) else { return false };
    let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) else { return false };
    if host != *HOST || writer == *WRITER {
        return false;
    }
    // Its id may be another process's by now, even this one's.
    pid == rustix::process::getpid() || test_kill_process(pid) == Err(Errno::SRCH)
}

/// Reads `range` of a file of this size.
fn read_range(mut file: &File, range: &Range<u64>, size: u64, buffers: &Buffers) -> io::Result<Bytes> {
    file.seek(SeekFrom::Start(range.start))?;
    let length = range.end.saturating_sub(range.start);
    let there = size.saturating_sub(range.start);
    let mut bytes = buffers.take(length.min(there) as usize);
    file.take(length).read_to_end(&mut bytes)?;
    Ok(buffers.share(bytes))
}

/// All objects in a folder and below.
fn collect(folder: &Path, key: &str, found: &mut Vec<ObjectMeta>) -> io::Result<()> {
    for entry in entries_of(folder, key)? {
        match entry {
            FolderEntry::Object(object) => found.push(object),
            FolderEntry::Folder(below) => collect(&folder.join(&below[key.len()..]), &below, found)?,
        }
    }
    Ok(())
}

/// What stands in the folder `prefix` below `root`, to which no link leads.
fn entries(store: &LocalStorage, prefix: &str) -> io::Result<Vec<FolderEntry>> {
    let root = match store.root() {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        root => root?,
    };
    if no_links::leads_to_folder(&*root, prefix)? {
        entries_of(&store.root.join(prefix), prefix)
    } else {
        Ok(Vec::new())
    }
}

/// What stands in a folder, whose objects have keys that begin with `key`.
fn entries_of(folder: &Path, key: &str) -> io::Result<Vec<FolderEntry>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let key = format!("{key}{name}");
        let kind = entry.file_type()?;
        if is_kept_by_stores(&key) {
            continue;
        }
        if kind.is_dir() {
            found.push(FolderEntry::Folder(format!("{key}/")));
        } else if kind.is_file() {
            match entry.metadata() {
                Ok(meta) => found.push(FolderEntry::Object(describe(key, &meta))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

fn describe(key: String, meta: &fs::Metadata) -> ObjectMeta {
    let modified = u64::try_from(meta.mtime()).ok();
    ObjectMeta { key, size: meta.len(), version: version(meta), modified, checksum: None }
}

#[async_trait]
impl Storage for LocalStorage {
    async fn put(&self, key: &str, payload: Payload, mode: PutMode) -> Result<Version, StorageError> {
        self.with_key(key, move |store, key| match payload {
            Payload::Parts(parts) => store.write_whole(key, &parts, &mode),
            Payload::File(file) => store.move_in(&file, key, &mode),
        })
        .await
    }

    async fn writer(&self, key: &str, if_exists: IfExists) -> Result<Box<dyn Writer>, StorageError> {
        let writer = self.with_key(key, move |store, key| {
            let (temporary, file) = store.temporary()?;
            Ok(LocalWriter::new(store.clone(), key.to_owned(), temporary, file, if_exists))
        });
        Ok(Box::new(writer.await?))
    }

    async fn get_opts(&self, key: &str, options: GetOptions) -> Result<GetResult, StorageError> {
        self.with_key(key, move |store, key| {
            let file = no_links::open(&*store.root()?, key)?;
            let look = || -> io::Result<_> {
                let meta = file.metadata()?;
                let version = version(&meta);
                match &options.version {
                    Some(wanted) if *wanted != version => Err(io::Error::other(Replaced)),
                    _ => Ok((meta.len(), version)),
                }
            };
            let (size, version) = look()?;
            let range = options.range.clone().unwrap_or(0..u64::MAX);
            let bytes = read_range(&file, &range, size, &store.buffers)?;
            // A foreign writer may write in place: what was read counts if the file was still the same after it.
            look()?;
            Ok(GetResult { bytes, size, version })
        })
        .await
    }

    fn list(&self, prefix: &str, after: &str) -> Listing {
        let (store, prefix, after) = (self.clone(), prefix.to_owned(), after.to_owned());
        let listed = async move {
            if !is_valid_prefix(&prefix) {
                return Err(store.invalid(&prefix));
            }
            let mut found = store
                .blocking(&prefix.clone(), move |store| {
                    let mut found = Vec::new();
                    collect(&store.root.join(&prefix), &prefix, &mut found).map(|()| found)
                })
                .await?;
            found.retain(|object| object.key > after);
            found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            Ok(stream::iter(found.into_iter().map(Ok)))
        };
        stream::once(listed).try_flatten().boxed()
    }

    fn list_folder(&self, prefix: &str, after: &str) -> FolderListing {
        let (store, prefix, after) = (self.clone(), prefix.to_owned(), after.to_owned());
        let listed = async move {
            if !is_valid_prefix(&prefix) {
                return Err(store.invalid(&prefix));
            }
            let mut found = store.blocking(&prefix.clone(), move |store| entries(store, &prefix)).await?;
            found.retain(|entry| *entry.key() > *after);
            found.sort_unstable_by(|a, b| a.key().cmp(b.key()));
            Ok(stream::iter(found.into_iter().map(Ok)))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        let meta = self.with_key(key, |store, key| no_links::look(&*store.root()?, key));
        Ok(describe(key.to_owned(), &meta.await?))
    }

    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError> {
        self.check(from)?;
        let from_name = from.to_owned();
        let copied = self.with_key(to, move |store, to| store.copy_now(&from_name, to, &if_exists.into()));
        copied.await.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => StorageError { key: from.to_owned(), ..error },
            _ => error,
        })
    }

    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError> {
        keys.iter().try_for_each(|key| self.check(key))?;
        let keys = keys.to_vec();
        let removed = self.blocking("", move |store| {
            let remove = |key: &String| store.remove(key).map_err(|error| store.error(key, &error));
            Ok(keys.iter().try_for_each(remove))
        });
        removed.await?
    }

    async fn presign(&self, _: &str, _: &Presign, _: Duration) -> Result<Option<Presigned>, StorageError> {
        Ok(None)
    }

    fn uri(&self, key: &str) -> String {
        if key.is_empty() { self.to_string() } else { self.root.join(key).display().to_string() }
    }

    fn below(&self, prefix: &str) -> Arc<dyn Storage> {
        Arc::new(Self::new(self.root.join(prefix)))
    }

    fn longest_key(&self) -> usize {
        LONGEST_PATH.saturating_sub(self.root.as_os_str().len() + 1).min(LONGEST_KEY)
    }

    async fn flush(&self) -> Result<(), StorageError> {
        let opened = |store: &Self| store.root()?.below(Path::new(""));
        let flushed = self.blocking("", move |store| match opened(store) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            folder => Ok(rustix::fs::syncfs(folder?)?),
        });
        flushed.await
    }

    async fn sweep(&self) -> Result<(), StorageError> {
        self.blocking(TEMPORARY, Self::sweep_now).await
    }

    /// What is unfinished has no name here.
    async fn sweep_of(&self, _: &[String]) -> Result<(), StorageError> {
        Ok(())
    }

    async fn may_write(&self, key: &str) -> Result<(), StorageError> {
        self.writer(key, IfExists::Fail).await.map(drop)
    }

    async fn probe(&self, key: &str) -> Result<bool, StorageError> {
        self.put(key, "probe".into(), PutMode::Overwrite).await?;
        let knows_locks = self.with_key(key, |store, key| {
            let root = store.root()?;
            let (folder, name) = root.above(key.as_ref())?;
            let lock = flock(open_to_lock(&folder, name)?, FlockOperation::NonBlockingLockExclusive);
            Ok(matches!(lock, Ok(()) | Err(Errno::WOULDBLOCK)))
        });
        let knows_locks = knows_locks.await;
        self.delete(key).await?;
        knows_locks
    }

    async fn room(&self) -> Result<Room, StorageError> {
        let looked = self.blocking("", |store| {
            // What is written first makes the folder.
            let root = std::path::absolute(&*store.root)?;
            let there = root.ancestors().find(|folder| folder.is_dir());
            let seen = rustix::fs::statvfs(there.unwrap_or(&root))?;
            Ok(seen.f_bavail.saturating_mul(seen.f_frsize))
        });
        Ok(Room { free_bytes: Some(looked.await?), incomplete_uploads: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_of_dead_writers_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStorage::new(folder.path());
        store.sweep_now().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (dead, own) = (child.id(), std::process::id());
        child.wait().unwrap();
        let (kept, _file) = store.temporary().unwrap();
        let table = [
            (format!("{}-{dead}-5f-0", *HOST), false),
            (format!("{}-{own}-5f-0", *HOST), false),
            (format!("{}-1-5f-0", *HOST), true),
            (format!("elsewhere-{dead}-5f-0"), true),
            ("-".to_owned(), true),
            ("unknown".to_owned(), true),
        ];
        for (name, _) in &table {
            fs::write(folder.path().join(TEMPORARY).join(name), "x").unwrap();
        }
        store.sweep_now().unwrap();
        assert!(kept.folder.look_at(kept.name()).unwrap().is_some());
        for (name, stays) in table {
            assert_eq!(folder.path().join(TEMPORARY).join(&name).exists(), stays, "{name}");
        }
    }

    #[test]
    fn an_empty_temporary_folder_is_swept_away_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStorage::new(folder.path());
        let (temporary, _) = store.temporary().unwrap();
        temporary.remove();
        store.sweep_now().unwrap();
        assert!(!folder.path().join(TEMPORARY).exists());
        assert!(store.temporary().is_ok());
    }

    #[tokio::test]
    async fn nothing_goes_through_a_link_or_to_a_file_of_others() {
        let scene = tempfile::tempdir().unwrap();
        let at = |path: &str| scene.path().join(path);
        fs::create_dir_all(at("store/a")).unwrap();
        fs::create_dir_all(at("others/b")).unwrap();
        fs::write(at("others/b/file"), "of others").unwrap();
        std::os::unix::fs::symlink(at("others"), at("store/a/link")).unwrap();
        let store = LocalStorage::new(at("store"));
        let put = |key| store.put(key, "own".into(), PutMode::Overwrite);
        for key in ["a/link/b/file", "a/link/new", "a/link/c/new"] {
            assert!(!put(key).await.unwrap_err().is_retryable(), "{key}");
            assert!(store.writer(key, IfExists::Overwrite).await.unwrap().finish().await.is_err(), "{key}");
            store.delete(key).await.unwrap();
            assert!(store.copy("a/link/b/file", "a/copy", IfExists::Fail).await.is_err());
        }
        // A file with another name elsewhere is copied, whatever is done with it.
        fs::hard_link(at("others/b/file"), at("store/a/held")).unwrap();
        store.copy("a/held", "a/copied", IfExists::Fail).await.unwrap();
        let held = Payload::File(at("store/a/held"));
        store.put("a/moved", held, PutMode::Create).await.unwrap();
        let [seen, copied, moved] =
            ["others/b/file", "store/a/copied", "store/a/moved"].map(|path| fs::metadata(at(path)).unwrap());
        assert_eq!((seen.nlink(), fs::read(at("others/b/file")).unwrap()), (1, b"of others".to_vec()));
        assert!(seen.ino() != copied.ino() && seen.ino() != moved.ino() && !at("store/a/held").exists());
        assert_eq!(fs::read_dir(at("others")).unwrap().count(), 1);
        put("a/link").await.unwrap();
        assert!(!at("store/a/link").is_symlink());
    }
}
