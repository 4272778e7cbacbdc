//! A folder as an object store: the storage of embedded jobs.
//!
//! A write goes to a temporary name in the store's own `.tmp` folder, is synced, renamed into place, and the
//! folder is synced. An object that must be new gets its name by a rename that replaces nothing; where the file
//! system knows none, as NFS, as a second name of the temporary file; where it knows neither, this looks first and
//! then renames, and of several who do so at once more than one may win. One version is replaced by another under a
//! lock on the file that has it. A link is no object: none is listed, and none is followed to read.

mod buffers;
mod no_links;
mod writer;

use std::fmt;
use std::fs::{self, File, OpenOptions};
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

    fn path(&self, key: &str) -> Result<PathBuf, StorageError> {
        if is_valid_key(key) && !is_kept_by_stores(key) {
            Ok(self.root.join(key))
        } else {
            Err(self.invalid(key))
        }
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

    /// A new file of this process in the folder for temporary files.
    pub(super) fn temporary(&self) -> io::Result<(PathBuf, File)> {
        let folder = self.root.join(TEMPORARY);
        let path = folder.join(format!("{}-{}", *WRITER, COUNTER.fetch_add(1, Ordering::Relaxed)));
        // Another process may sweep the folder away just after it was made.
        let mut again = 0..3;
        loop {
            match OpenOptions::new().write(true).create(true).truncate(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && again.next().is_some() => {
                    fs::create_dir_all(&folder)?;
                }
                opened => return opened.map(|file| (path, file)),
            }
        }
    }

    /// Removes what writers of this host left when they were killed, and the folder for it where nothing else
    /// is in it. Other writers may be at work meanwhile.
    fn sweep_now(&self) -> io::Result<()> {
        let folder = self.root.join(TEMPORARY);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries.flatten() {
            if entry.file_name().to_str().is_some_and(is_left_behind) {
                // Another program may sweep as well.
                let _ = fs::remove_file(entry.path());
            }
        }
        let _ = fs::remove_dir(&folder);
        Ok(())
    }

    /// Gives a whole file its name, safe from the loss of power.
    fn publish(file: &File, temporary: &Path, target: &Path, mode: &PutMode) -> io::Result<Version> {
        file.sync_data()?;
        let version = version(&file.metadata()?);
        place(temporary, target, mode)?;
        target.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
        Ok(version)
    }

    fn write_whole(&self, target: &Path, parts: &[Bytes], mode: &PutMode) -> io::Result<Version> {
        let (temporary, mut file) = self.temporary()?;
        let written = parts
            .iter()
            .try_for_each(|part| file.write_all(part))
            .and_then(|()| Self::publish(&file, &temporary, target, mode));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes an object, and the folders that are empty without it.
    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if self.error("", &error).kind == StorageErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                // Folders are no objects: an empty one goes, but for those at the top.
                let below_top = |folder: &&Path| folder.parent().is_some_and(|parent| *parent != **self.root);
                let folders = path.ancestors().skip(1).take_while(|folder| **folder != **self.root);
                let _ = folders.take_while(below_top).try_for_each(fs::remove_dir);
                Ok(())
            }
        }
    }

    /// Moves a file into the store. It is safe from the loss of power after the next `flush`.
    fn move_in(&self, source: &Path, target: &Path, mode: &PutMode) -> io::Result<Version> {
        let moved = version(&fs::metadata(source)?);
        match place(source, target, mode) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            placed => return placed.map(|()| moved),
        }
        let (temporary, mut file) = self.temporary()?;
        let copied = File::open(source)
            .and_then(|mut source| io::copy(&mut source, &mut file))
            .and_then(|_| Ok(version(&file.metadata()?)))
            .and_then(|version| place(&temporary, target, mode).map(|()| version));
        match copied {
            Ok(version) => fs::remove_file(source).map(|()| version),
            Err(error) => fs::remove_file(&temporary).and(Err(error)),
        }
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

    /// The same with the path of an object.
    async fn with_path<T: Send + 'static>(
        &self,
        key: &str,
        work: impl FnOnce(&Self, &Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let path = self.path(key)?;
        self.blocking(key, move |store| work(store, &path)).await
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
fn entries(root: &Path, prefix: &str) -> io::Result<Vec<FolderEntry>> {
    if no_links::leads_to_folder(root, prefix)? {
        entries_of(&root.join(prefix), prefix)
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
        self.with_path(key, move |store, path| match payload {
            Payload::Parts(parts) => store.write_whole(path, &parts, &mode),
            Payload::File(file) => store.move_in(&file, path, &mode),
        })
        .await
    }

    async fn writer(&self, key: &str, if_exists: IfExists) -> Result<Box<dyn Writer>, StorageError> {
        let name = key.to_owned();
        let writer = self.with_path(key, move |store, path| {
            let (temporary, file) = store.temporary()?;
            Ok(LocalWriter::new(store.clone(), name, path.to_owned(), temporary, file, if_exists))
        });
        Ok(Box::new(writer.await?))
    }

    async fn get_opts(&self, key: &str, options: GetOptions) -> Result<GetResult, StorageError> {
        let name = key.to_owned();
        self.with_path(key, move |store, _| {
            let file = no_links::open(&store.root, &name)?;
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
            let mut found =
                store.blocking(&prefix.clone(), move |store| entries(&store.root, &prefix)).await?;
            found.retain(|entry| *entry.key() > *after);
            found.sort_unstable_by(|a, b| a.key().cmp(b.key()));
            Ok(stream::iter(found.into_iter().map(Ok)))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn head(&self, key: &str) -> Result<ObjectMeta, StorageError> {
        let name = key.to_owned();
        let meta = self.with_path(key, move |store, _| no_links::look(&store.root, &name));
        Ok(describe(key.to_owned(), &meta.await?))
    }

    async fn copy(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), StorageError> {
        let source = self.path(from)?;
        let copied = self.with_path(to, move |store, path| {
            let (temporary, _) = store.temporary()?;
            // Objects never change in place, so a second name is as good as a copy.
            fs::remove_file(&temporary)?;
            let copied = fs::hard_link(&source, &temporary)
                .or_else(|_| {
                    let mut file = File::create(&temporary)?;
                    io::copy(&mut File::open(&source)?, &mut file).map(drop)
                })
                .and_then(|()| place(&temporary, path, &if_exists.into()));
            // Renaming one name of a file to another of its names does nothing: it may still be there.
            let _ = fs::remove_file(&temporary);
            copied
        });
        copied.await.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => StorageError { key: from.to_owned(), ..error },
            _ => error,
        })
    }

    async fn delete_all(&self, keys: &[String]) -> Result<(), StorageError> {
        let paths = keys.iter().map(|key| Ok((key.clone(), self.path(key)?)));
        let paths: Vec<_> = paths.collect::<Result<_, StorageError>>()?;
        let removed = self.blocking("", move |store| {
            let remove = |(key, path): &(String, PathBuf)| {
                store.remove(path).map_err(|error| store.error(key, &error))
            };
            Ok(paths.iter().try_for_each(remove))
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
        let flushed = self.blocking("", |store| match File::open(&*store.root) {
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
        let knows_locks = self.with_path(key, |_, path| {
            let lock = flock(open_to_lock(path)?, FlockOperation::NonBlockingLockExclusive);
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
        assert!(kept.exists());
        for (name, stays) in table {
            assert_eq!(folder.path().join(TEMPORARY).join(&name).exists(), stays, "{name}");
        }
    }

    #[test]
    fn an_empty_temporary_folder_is_swept_away_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStorage::new(folder.path());
        let (temporary, _) = store.temporary().unwrap();
        fs::remove_file(&temporary).unwrap();
        store.sweep_now().unwrap();
        assert!(!folder.path().join(TEMPORARY).exists());
        assert!(store.temporary().is_ok());
    }
}
