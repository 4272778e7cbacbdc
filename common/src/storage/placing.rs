//! Giving a whole file the name of an object: in any case, as a new one, or in place of one version of it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use super::{PutMode, Version};

/// How long others may hold the lock on a file that is to be replaced: for as long as a rename takes.
const LOCKED: Duration = Duration::from_secs(2);
/// Between two attempts at it.
const PAUSE: Duration = Duration::from_millis(2);

/// Gives a whole file its name.
pub(super) fn place(temporary: &Path, target: &Path, mode: &PutMode) -> io::Result<()> {
    // Another program may remove the folder, when it is empty, just after it was made.
    let mut again = 0..3;
    loop {
        let placed = match mode {
            PutMode::Overwrite => fs::rename(temporary, target),
            PutMode::Create => place_new(temporary, target),
            PutMode::Update(version) => return replace(temporary, target, version),
        };
        match (placed, target.parent()) {
            (Err(error), Some(folder))
                if error.kind() == io::ErrorKind::NotFound && again.next().is_some() =>
            {
                fs::create_dir_all(folder)?;
            }
            (placed, _) => return placed,
        }
    }
}

/// The file is another version than the one that was to be replaced.
#[derive(Debug, thiserror::Error)]
#[error("the object was replaced by another one")]
pub(super) struct Replaced;

/// Gives a whole file the name of another, when that is of this version. Who does so holds the lock on the file that has
/// the name.
fn replace(temporary: &Path, target: &Path, wanted: &str) -> io::Result<()> {
    let deadline = Instant::now() + LOCKED;
    loop {
        let file = open_to_lock(target)?;
        let lock = flock(&file, FlockOperation::NonBlockingLockExclusive);
        // The program that had the lock before may have replaced the file. Where the file system knows no locks, this only looks.
        if lock != Err(Errno::WOULDBLOCK) && has_the_name(&file, target)? {
            if version(&file.metadata()?) != wanted {
                return Err(io::Error::other(Replaced));
            }
            return fs::rename(temporary, target);
        }
        if Instant::now() > deadline {
            return Err(io::Error::other("other programs lock or replace the file all the time"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether `path`, links followed, leads to `file`.
fn has_the_name(file: &File, path: &Path) -> io::Result<bool> {
    let (file, named) = (file.metadata()?, fs::metadata(path)?);
    Ok((file.dev(), file.ino()) == (named.dev(), named.ino()))
}

/// Opens a file as far as its rights allow. A lock over NFS wants a file that is open for writing.
pub(super) fn open_to_lock(path: &Path) -> io::Result<File> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(path),
        file => file,
    }
}

/// Gives a whole file a name that no other file has.
fn place_new(temporary: &Path, target: &Path) -> io::Result<()> {
    match renameat_with(CWD, temporary, CWD, target, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        placed => return Ok(placed?),
    }
    match fs::hard_link(temporary, target) {
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::MLINK)
            ) => {}
        linked => return linked.and_then(|()| fs::remove_file(temporary)),
    }
    match fs::symlink_metadata(target) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(temporary, target),
        Err(error) => Err(error),
    }
}

/// The version of a file.
pub(super) fn version(meta: &fs::Metadata) -> Version {
    format!("{}-{}-{}.{:09}", meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_program_has_locked_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let (new, target) = (folder.path().join("new"), folder.path().join("target"));
        fs::write(&new, "new").unwrap();
        fs::write(&target, "old").unwrap();
        let old = PutMode::Update(version(&fs::metadata(&target).unwrap()));
        let locked = File::open(&target).unwrap();
        flock(&locked, FlockOperation::LockExclusive).unwrap();
        let refused = place(&new, &target, &old).unwrap_err();
        assert!(refused.to_string().contains("other programs lock"), "{refused}");
        assert_eq!(fs::read(&target).unwrap(), b"old");
        drop(locked);
        place(&new, &target, &old).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn a_link_is_replaced_when_it_leads_to_the_version() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("new"), "new").unwrap();
        fs::write(at("file"), "old").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        let stale = PutMode::Update("1-2-3.4".to_owned());
        assert!(place(&at("new"), &at("link"), &stale).unwrap_err().downcast::<Replaced>().is_ok());
        let old = PutMode::Update(version(&fs::metadata(at("file")).unwrap()));
        place(&at("new"), &at("link"), &old).unwrap();
        assert!(!at("link").is_symlink() && fs::read(at("file")).unwrap() == b"old");
        assert_eq!(fs::read(at("link")).unwrap(), b"new");
    }
}
