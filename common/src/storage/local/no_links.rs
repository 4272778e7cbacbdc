//! Opens the file of an object without following a link below the root: a link is no object, and what it leads to may be no business of
//! those who read the store. A pipe in the place of a file holds no reader up.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// Opens the object `key` below `root` to be read; not found where it is none.
pub(super) fn open(root: impl AsFd, key: &str) -> io::Result<File> {
    found(root, key, OFlags::RDONLY | OFlags::NONBLOCK)
}

/// What is known of it, for those who may not read it, too.
pub(super) fn look(root: impl AsFd, key: &str) -> io::Result<Metadata> {
    let meta = found(root, key, OFlags::PATH)?.metadata()?;
    if meta.is_file() { Ok(meta) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Whether `folder` (with a `/` at its end, or empty for `root` itself) is a folder below `root`.
pub(super) fn leads_to_folder(root: impl AsFd, folder: &str) -> io::Result<bool> {
    let Some(key) = folder.strip_suffix('/') else { return Ok(true) };
    match found(root, key, OFlags::PATH | OFlags::DIRECTORY) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn found(root: impl AsFd, key: &str, flags: OFlags) -> io::Result<File> {
    opened(root, key, flags).map_err(|error| match error {
        // What a link, or a file in the place of a folder, is found for.
        Errno::LOOP | Errno::NOTDIR | Errno::NXIO => io::ErrorKind::NotFound.into(),
        error => error.into(),
    })
}

fn opened(root: impl AsFd, key: &str, flags: OFlags) -> Result<File, Errno> {
    let folders = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder: Option<OwnedFd> = None;
    let mut parts = key.split('/').peekable();
    loop {
        let part = parts.next().unwrap_or_default();
        let above = folder.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        if parts.peek().is_none() {
            let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            return openat(above, part, flags, Mode::empty()).map(File::from);
        }
        folder = Some(openat(above, part, folders | OFlags::NOFOLLOW, Mode::empty())?);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_below_the_root_lead_nowhere() {
        let scene = tempfile::tempdir().unwrap();
        let at = |path: &str| scene.path().join(path);
        fs::create_dir_all(at("store/a/b")).unwrap();
        fs::create_dir(at("beside")).unwrap();
        for path in ["store/a/b/c", "beside/c"] {
            fs::write(at(path), path).unwrap();
        }
        symlink(at("beside"), at("store/a/folder")).unwrap();
        symlink(at("beside/c"), at("store/a/file")).unwrap();
        symlink("b/c", at("store/a/within")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("store/a/pipe"), Mode::from_raw_mode(0o600)).unwrap();
        symlink(at("store"), at("also")).unwrap();
        for root in ["store", "also"] {
            let opened = File::open(at(root)).unwrap();
            let kinds = |key: &str| {
                let (read, seen) = (open(&opened, key).map(drop), look(&opened, key).map(drop));
                [read, seen].map(|done| done.map_err(|error| error.kind()))
            };
            assert_eq!(kinds("a/b/c"), [Ok(()); 2], "{root}");
            for key in ["a/folder/c", "a/file", "a/within", "a/b/d", "a/b/c/d", "d/e"] {
                assert_eq!(kinds(key), [Err(io::ErrorKind::NotFound); 2], "{root} {key}");
            }
            let folder = |key: &str| leads_to_folder(&opened, key).unwrap();
            assert_eq!(
                ["", "a/", "a/b/", "a/folder/", "a/b/c/", "d/"].map(folder),
                [true, true, true, false, false, false]
            );
            // It is none, and is not waited for.
            assert!(!open(&opened, "a/pipe").unwrap().metadata().unwrap().is_file());
        }
    }
}
