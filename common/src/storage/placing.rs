//! Giving a whole file the name of an object: in any case, as a new one, or in place of one version of it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::{PutMode, Version};
use crate::tree::OpenFolder;

/// How long others may hold the lock on a file that is to be replaced: for as long as a rename takes.
const LOCKED: Duration = Duration::from_secs(2);
/// Between two attempts at it.
const PAUSE: Duration = Duration::from_millis(2);

/// Gives the whole file `name` of `folder` the name `key` below `root`. Returns the folder that it is in.
pub(super) fn place(
    (folder, name): (&OpenFolder, &OsStr),
    (root, key): (&OpenFolder, &str),
    mode: &PutMode,
) -> io::Result<OpenFolder> {
    let key = Path::new(key);
    let above = key.parent().unwrap_or(Path::new(""));
    let to = key.file_name().unwrap_or_default();
    // Another program may remove the folder, when it is empty, just after it was made.
    let mut again = 0..3;
    loop {
        let placed = root.below(above).and_then(|target| {
            match mode {
                PutMode::Overwrite => folder.put(name, &target, to)?,
                PutMode::Create => folder.put_new(name, &target, to)?,
                PutMode::Update(version) => replace((folder, name), (&target, to), version)?,
            }
            Ok(target)
        });
        match placed {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !matches!(mode, PutMode::Update(_))
                    && again.next().is_some() =>
            {
                root.make(above)?;
            }
            placed => return placed,
        }
    }
}

/// The file is another version than the one that was to be replaced.
#[derive(Debug, thiserror::Error)]
#[error("the object was replaced by another one")]
pub(super) struct Replaced;

/// Gives a whole file the name of another, when that is of this version. Who does so holds the lock on the file that has
/// the name.
fn replace(
    (folder, name): (&OpenFolder, &OsStr),
    (target, to): (&OpenFolder, &OsStr),
    wanted: &str,
) -> io::Result<()> {
    let deadline = Instant::now() + LOCKED;
    loop {
        let file = open_to_lock(target, to)?;
        let lock = flock(&file, FlockOperation::NonBlockingLockExclusive);
        // The program that had the lock before may have replaced the file. Where the file system knows no locks, this only looks.
        if lock != Err(Errno::WOULDBLOCK) && has_the_name(&file, target, to)? {
            if version(&file.metadata()?) != wanted {
                return Err(io::Error::other(Replaced));
            }
            return folder.put(name, target, to);
        }
        if Instant::now() > deadline {
            return Err(io::Error::other("other programs lock or replace the file all the time"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether `file` is what has the name.
pub(super) fn has_the_name(file: &File, folder: &OpenFolder, name: &OsStr) -> io::Result<bool> {
    let file = file.metadata()?;
    Ok(folder.look_at(name)?.is_some_and(|named| named.identity == (file.dev(), file.ino())))
}

/// Opens a file as far as its rights allow. A lock over NFS wants a file that is open for writing.
pub(super) fn open_to_lock(folder: &OpenFolder, name: &OsStr) -> io::Result<File> {
    match folder.open_with(name, OFlags::RDWR) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => folder.open_file(name),
        file => file,
    }
}

/// The version of a file.
pub(super) fn version(meta: &fs::Metadata) -> Version {
    format!("{}-{}-{}.{:09}", meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a file `new`, and how it gets the name `to`.
    fn scene() -> (tempfile::TempDir, impl Fn(&str, &PutMode) -> io::Result<()>) {
        let scene = tempfile::tempdir().unwrap();
        fs::write(scene.path().join("new"), "new").unwrap();
        fs::write(scene.path().join("target"), "old").unwrap();
        let root = OpenFolder::open(scene.path()).unwrap();
        let place =
            move |to: &str, mode: &PutMode| place((&root, "new".as_ref()), (&root, to), mode).map(drop);
        (scene, place)
    }

    #[test]
    fn a_file_that_another_program_has_locked_is_not_waited_for_without_end() {
        let (folder, place) = scene();
        let target = folder.path().join("target");
        let old = PutMode::Update(version(&fs::metadata(&target).unwrap()));
        let locked = File::open(&target).unwrap();
        flock(&locked, FlockOperation::LockExclusive).unwrap();
        let refused = place("target", &old).unwrap_err();
        assert!(refused.to_string().contains("other programs lock"), "{refused}");
        assert_eq!(fs::read(&target).unwrap(), b"old");
        drop(locked);
        place("target", &old).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn a_link_is_no_version() {
        let (folder, place) = scene();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("target", at("link")).unwrap();
        let stale = PutMode::Update("1-2-3.4".to_owned());
        assert!(place("target", &stale).unwrap_err().downcast::<Replaced>().is_ok());
        let old = PutMode::Update(version(&fs::metadata(at("target")).unwrap()));
        assert!(place("link", &old).is_err() && place("link/new", &PutMode::Overwrite).is_err());
        assert!(at("link").is_symlink() && fs::read(at("target")).unwrap() == b"old");
        place("link", &PutMode::Overwrite).unwrap();
        assert!(!at("link").is_symlink() && fs::read(at("target")).unwrap() == b"old");
    }
}
