//! The folder in which a worker keeps what its jobs need: code, inputs, logs on their way, scratch files.
//!
//! Every worker has one of its own, which no other user can look into, and holds a lock in it as long as it lives. A
//! worker that starts removes those that killed workers left beside its own: folders with such a name that belong to
//! this user and whose lock is free. A folder that has just been made and is not locked yet may be taken for one of
//! them. Its maker finds that out, for who removes a folder gives it another name first, with the lock in hand: the
//! maker does not get the lock, or gets it in a folder that is not where it was made, and makes another.

use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prs_common::private_folder::{PrivateFolder, PrivateFolderError};
use prs_common::tree::{self, remove_tree};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::host::folder_lock::lock_in;

/// What the name of a worker's folder begins with; 16 hexadecimal digits follow.
const PREFIX: &str = "prs-worker-";
/// Name of the folder for all workers of this user, where only the folder above it is known.
const OF_ALL: &str = "prs-worker";
/// How many folders of this worker others may take away while it starts.
const MOST_LOST: usize = 100;

/// Why there is no folder to work in.
#[derive(Debug, thiserror::Error)]
pub enum WorkFolderError {
    /// The folder is not safe, or cannot be made.
    #[error("cannot use the work folder {0}")]
    Refused(PrivateFolderError),
    /// No lock can be had in it.
    #[error("cannot lock the work folder {}: {reason}", path.display())]
    Lock {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
}

impl From<PrivateFolderError> for WorkFolderError {
    fn from(refused: PrivateFolderError) -> Self {
        Self::Refused(refused)
    }
}

impl WorkFolderError {
    fn is_gone(&self) -> bool {
        matches!(self, Self::Refused(refused) if refused.io_kind() == Some(io::ErrorKind::NotFound))
    }
}

/// The folder of one worker; removed when dropped.
#[derive(Debug)]
pub struct WorkFolder {
    parent: Parent,
    own: Mutex<Own>,
}

/// Where the folders of workers lie.
#[derive(Debug, PartialEq, Eq)]
enum Parent {
    /// In a folder of this user's alone.
    Private(PathBuf),
    /// In one where everybody may make folders.
    Temporary(PathBuf),
}

/// A worker's folder and its lock.
#[derive(Debug)]
struct Own {
    folder: PrivateFolder,
    _lock: File,
}

impl WorkFolder {
    /// Makes the worker's folder: in `named`, or else where the environment says, or in the temporary folder.
    pub fn open(named: Option<&Path>) -> Result<Self, WorkFolderError> {
        let parent = parent(named, |variable| std::env::var_os(variable));
        let own = Mutex::new(Own::make(&parent)?);
        Ok(Self { parent, own })
    }

    /// Makes one in a folder where everybody may make folders.
    pub(crate) fn open_among_others(parent: PathBuf) -> Result<Self, WorkFolderError> {
        let parent = Parent::Temporary(parent);
        let own = Mutex::new(Own::make(&parent)?);
        Ok(Self { parent, own })
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.own().folder.path().to_owned()
    }

    /// The folder `name` in it, made where it is not there. A worker's folder that was removed is made anew.
    pub fn folder(&self, name: &str) -> Result<PrivateFolder, WorkFolderError> {
        let mut own = self.own();
        match own.folder.make_below(name).map_err(WorkFolderError::from) {
            Err(error) if error.is_gone() => {
                tracing::warn!(path = %own.folder.path().display(), "the folder of this worker was removed; another one is made");
                *own = Own::make(&self.parent)?;
                Ok(own.folder.make_below(name)?)
            }
            made => made,
        }
    }

    /// The folder `name` beside it, which all workers of this user there share; made where it is not there.
    pub(crate) fn beside(&self, name: &str) -> Result<PrivateFolder, WorkFolderError> {
        let path = match &self.parent {
            Parent::Private(path) => PrivateFolder::make(path)?.path().join(format!("prs-{name}")),
            Parent::Temporary(path) => path.join(format!("prs-{name}-{}", geteuid().as_raw())),
        };
        Ok(PrivateFolder::make(&path)?)
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        remove(self.own().folder.path());
    }
}

/// Removes a folder of this worker. A script may have left something in it that cannot be removed: that is logged.
pub(crate) fn remove(folder: &Path) {
    if let Err(error) = remove_tree(folder) {
        tracing::warn!(path = %folder.display(), %error, "a folder is left behind");
    }
}

/// Chooses where workers have their folders.
fn parent(named: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Parent {
    if let Some(named) = named {
        return Parent::Private(named.to_owned());
    }
    // A service may have several, with colons between them.
    let state = variable("STATE_DIRECTORY").and_then(|folders| std::env::split_paths(&folders).next());
    if let Some(state) = state.filter(|state| state.is_absolute()) {
        // The service manager may have made a link to it.
        return Parent::Private(state.canonicalize().unwrap_or(state));
    }
    if let Some(runtime) = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        // It is inherited also where it is of another user, as under sudo, or not there, as in a container.
        match PrivateFolder::open(&runtime) {
            Ok(runtime) => return Parent::Private(runtime.path().join(OF_ALL)),
            Err(error) => tracing::warn!(%error, "XDG_RUNTIME_DIR is not used"),
        }
    }
    Parent::Temporary(std::env::temp_dir())
}

impl Parent {
    /// The folder, which is made where it is not there.
    fn path(&self) -> Result<PathBuf, PrivateFolderError> {
        match self {
            Self::Private(path) => Ok(PrivateFolder::make(path)?.path().to_owned()),
            Self::Temporary(path) => Ok(path.clone()),
        }
    }
}

impl Own {
    /// Makes a worker's folder, when what killed workers left beside it is removed.
    fn make(parent: &Parent) -> Result<Self, WorkFolderError> {
        let parent = parent.path()?;
        remove_leftovers(&parent);
        let mut lost = 0;
        loop {
            let folder = PrivateFolder::fresh(&parent, PREFIX)?;
            let path = folder.path().to_owned();
            match Self::lock(folder) {
                Ok(Some(own)) => return Ok(own),
                Ok(None) if lost < MOST_LOST => lost += 1,
                outcome => {
                    let reason = outcome.err().map_or_else(|| Errno::AGAIN.into(), io::Error::from);
                    remove(&path);
                    return Err(WorkFolderError::Lock { path, reason });
                }
            }
        }
    }

    /// Locks a worker's folder and a file in it; nothing when another program has one of the locks, or the folder is
    /// no more where it was.
    fn lock(folder: PrivateFolder) -> Result<Option<Self>, Errno> {
        // Not every file system has locks for folders. Where it has, programs that tidy temporary folders heed them.
        if flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Ok(None);
        }
        let lock = match lock_in(&folder) {
            Err(Errno::NOENT) => return Ok(None),
            locked => locked?,
        };
        Ok(lock.filter(|_| folder.is_there()).map(|lock| Self { folder, _lock: lock }))
    }

    /// Removes a folder in `parent` whose worker is gone. It gets another name first: its maker may still be about to
    /// lock it, and could do so between the removal of the lock and that of the folder.
    fn remove_from(self, parent: &Path) {
        let path = self.folder.path();
        let aside = parent.join(format!("{PREFIX}{:016x}", RandomState::new().hash_one(path)));
        match tree::rename(path, &aside) {
            Ok(()) => remove(&aside),
            Err(error) => tracing::warn!(path = %path.display(), %error, "a folder is left behind"),
        }
    }
}

/// Removes the folders of workers that are no more.
pub(crate) fn remove_leftovers(parent: &Path) {
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::debug!(path = %parent.display(), %error, "what killed workers left cannot be looked for");
            return;
        }
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if is_of_a_worker(&entry.file_name().to_string_lossy())
            && let Some(left) = claim(&path)
        {
            tracing::info!(path = %path.display(), "what a killed worker left is removed");
            left.remove_from(parent);
        }
    }
}

fn is_of_a_worker(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A worker's folder, locked, if it is this user's and its worker is gone.
fn claim(path: &Path) -> Option<Own> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
        return None;
    }
    let claimed = || {
        if metadata.mode() & 0o777 != 0o700 {
            // A script has changed it.
            tree::set_mode(path, 0o700).map_err(|error| error.to_string())?;
        }
        let folder = PrivateFolder::open(path).map_err(|error| error.to_string())?;
        Own::lock(folder).map_err(|error| error.to_string())
    };
    claimed().unwrap_or_else(|error| {
        tracing::debug!(path = %path.display(), error, "whether a worker has this folder is not known");
        None
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::host::folder_lock::LOCK;

    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_folder_is_where_it_is_named_or_else_private() {
        let runtime = tempfile::tempdir().unwrap();
        let runtime = runtime.path().canonicalize().unwrap();
        let named = Parent::Private("/named".into());
        let state = Parent::Private("/var/lib/a".into());
        let in_runtime = Parent::Private(runtime.join("prs-worker"));
        let temporary = || Parent::Temporary(std::env::temp_dir());
        let runtime = runtime.to_str().unwrap();
        for (option, state_directory, runtime_dir, expected) in [
            (Some("/named"), "/var/lib/a", runtime, named),
            (None, "/var/lib/a:/var/lib/b", runtime, state),
            (None, "", runtime, in_runtime),
            (None, "", "", temporary()),
            (None, "", "relative", temporary()),
            (None, "", "/not/there", temporary()),
            (None, "", "/", temporary()),
        ] {
            let variable = |name: &str| match name {
                "STATE_DIRECTORY" => Some(state_directory.into()),
                "XDG_RUNTIME_DIR" => Some(runtime_dir.into()),
                _ => None,
            };
            assert_eq!(
                parent(option.map(Path::new), variable),
                expected,
                "{state_directory:?} {runtime_dir:?}"
            );
        }
    }

    #[test]
    fn only_what_dead_workers_left_is_removed() {
        let above = tempfile::tempdir().unwrap();
        let at = |name: &str| above.path().join(name);
        let living = WorkFolder::open(Some(above.path())).unwrap();
        let job = living.folder("job").unwrap();
        let dead = "prs-worker-0123456789abcdef";
        let without_lock = "prs-worker-0000000000000000";
        fs::create_dir_all(at(dead).join("job")).unwrap();
        fs::write(at(dead).join(LOCK), "").unwrap();
        fs::set_permissions(at(dead), fs::Permissions::from_mode(0o055)).unwrap();
        fs::create_dir(at(without_lock)).unwrap();
        let kept = ["prs-worker-0123", "prs-worker-0123456789abcdeg", "work"];
        for name in kept {
            fs::create_dir(at(name)).unwrap();
        }
        std::os::unix::fs::symlink("work", at("prs-worker-1111111111111111")).unwrap();
        fs::write(at("prs-worker-2222222222222222"), "").unwrap();

        let other = WorkFolder::open(Some(above.path())).unwrap();
        let left = names(above.path());
        assert!(!left.contains(dead) && !left.contains(without_lock), "{left:?}");
        assert_eq!(left.len(), kept.len() + 4, "{left:?}");
        assert!(job.is_there() && job.path().starts_with(living.path()));
        drop((living, other));
        assert_eq!(names(above.path()).len(), kept.len() + 2);
    }

    #[test]
    fn a_maker_does_not_get_what_another_worker_removes() {
        let above = tempfile::tempdir().unwrap();
        let made = || PrivateFolder::fresh(above.path(), PREFIX).unwrap();
        let removed = made();
        remove_leftovers(above.path());
        assert!(Own::lock(removed).unwrap().is_none());
        assert_eq!(names(above.path()), BTreeSet::new());

        // The other one is at work: it has the locks, then the folder has another name, and its lock is removed.
        let maker = made();
        let again = || PrivateFolder::open(maker.path()).unwrap();
        let (first, second) = (again(), again());
        let other = claim(maker.path()).unwrap();
        assert!(Own::lock(first).unwrap().is_none());
        fs::rename(maker.path(), above.path().join("aside")).unwrap();
        fs::remove_file(above.path().join("aside").join(LOCK)).unwrap();
        drop(other);
        assert!(Own::lock(second).unwrap().is_none());
    }

    #[test]
    fn workers_that_start_at_once_do_not_take_each_others_folders() {
        let above = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let own = WorkFolder::open(Some(above.path())).unwrap();
                        let job = own.folder("job").unwrap();
                        std::thread::yield_now();
                        assert!(job.is_there());
                    }
                });
            }
        });
        assert_eq!(names(above.path()), BTreeSet::new());
    }

    #[test]
    fn a_folder_that_was_removed_is_made_again() {
        let above = tempfile::tempdir().unwrap();
        let own = WorkFolder::open(Some(&above.path().join("work"))).unwrap();
        let before = own.path();
        fs::remove_dir_all(above.path().join("work")).unwrap();
        let job = own.folder("job").unwrap();
        assert!(job.is_there() && own.path() != before);
        assert_eq!(fs::metadata(above.path().join("work")).unwrap().mode() & 0o777, 0o700);
    }
}
