//! Removes a folder with everything in it, whatever a script has made of it.
//!
//! Links are removed and never followed: every step goes through the opened folder above it. What is mounted below is left: it is
//! of others. Folders without permissions, which a script may leave, are given them first. What cannot be removed is passed
//! over, so that it keeps as little as possible from going.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, chmodat, fchmod, fstat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{FOLDER, PASSED, open_at};

/// Folders within folders: deeper ones are left, for every level takes a descriptor.
const DEEPEST: usize = 512;
/// How often a folder is emptied into which a program puts things meanwhile.
const PASSES: usize = 3;

pub(super) fn remove(parent: BorrowedFd<'_>, name: &OsStr, path: &Path, depth: usize) -> io::Result<()> {
    let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // A folder; not all file systems say so.
        Err(Errno::ISDIR | Errno::PERM | Errno::ACCESS) => {}
        Err(error) => return Err(failed(error.into())),
    }
    if depth == DEEPEST {
        return Err(failed(io::Error::other("there are too many folders in folders")));
    }
    let folder = open(parent, name).map_err(failed)?;
    let mut emptied = Ok(());
    for _ in 0..PASSES {
        emptied = empty(&folder, path, depth);
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) if emptied.is_ok() => {}
            Err(error) => return emptied.and(Err(failed(error.into()))),
        }
    }
    emptied.and_then(|()| Err(failed(Errno::NOTEMPTY.into())))
}

/// Removes what is in a folder; the first failure is told when all was tried.
fn empty(folder: &OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
    let mut outcome = Ok(());
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let name = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name);
        let removed = remove(folder.as_fd(), name, &path.join(name), depth + 1);
        outcome = outcome.and(removed);
    }
    outcome
}

/// Opens a folder so that what is in it can be removed.
fn open(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let child = |how| open_at(parent, Path::new(name), how, Mode::empty());
    let folder = match child(FOLDER) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // Through what was opened: by its name, a link could be in its place by now.
            let named = child(PASSED)?;
            chmodat(CWD, format!("/proc/self/fd/{}", named.as_raw_fd()), Mode::RWXU, AtFlags::empty())?;
            child(FOLDER)?
        }
        opened => opened?,
    };
    let stat = fstat(&folder)?;
    if stat.st_mode & 0o700 != 0o700 && stat.st_uid == geteuid().as_raw() {
        // Where that is not allowed, removing says so.
        let _ = fchmod(&folder, Mode::RWXU);
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::openat;

    use super::*;
    use crate::tree::remove_tree;

    #[test]
    fn links_are_removed_and_what_they_lead_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("kept/below")).unwrap();
        fs::write(at("kept/file"), "").unwrap();
        fs::create_dir_all(at("gone/a/b")).unwrap();
        fs::write(at("gone/a/file"), "").unwrap();
        symlink("../kept", at("gone/link")).unwrap();
        symlink("nowhere", at("gone/a/dangling")).unwrap();
        remove_tree(at("gone")).unwrap();
        assert!(!at("gone").exists() && at("kept/file").exists() && at("kept/below").exists());
        remove_tree(at("gone")).unwrap();
        remove_tree(at("gone/never/was")).unwrap();
        symlink("kept", at("link")).unwrap();
        remove_tree(at("link")).unwrap();
        assert!(!at("link").is_symlink() && at("kept/file").exists());
        remove_tree(at("kept/file")).unwrap();
        assert!(remove_tree(Path::new("/")).is_err());
    }

    #[test]
    fn folders_without_permissions_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        for mode in [0o000, 0o100, 0o500, 0o400] {
            fs::create_dir_all(gone.join("closed/below")).unwrap();
            fs::write(gone.join("closed/below/file"), "").unwrap();
            for name in ["closed/below", "closed"] {
                fs::set_permissions(gone.join(name), fs::Permissions::from_mode(mode)).unwrap();
            }
            remove_tree(&gone).unwrap();
            assert!(!gone.exists(), "{mode:o}");
        }
    }

    #[test]
    fn what_is_too_deep_is_left_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        fs::create_dir(&gone).unwrap();
        fs::write(gone.join("file"), "").unwrap();
        let mut deep = openat(CWD, &gone, FOLDER, Mode::empty()).unwrap();
        for _ in 0..=DEEPEST {
            rustix::fs::mkdirat(&deep, "d", Mode::RWXU).unwrap();
            deep = openat(&deep, "d", FOLDER, Mode::empty()).unwrap();
        }
        let error = remove_tree(&gone).unwrap_err().to_string();
        assert!(error.contains("too many folders") && error.contains("/d/d/d"), "{error}");
        assert!(!gone.join("file").exists());
        // What is left is less deep from further down.
        remove_tree(gone.join("d/d")).unwrap();
        remove_tree(&gone).unwrap();
    }
}
