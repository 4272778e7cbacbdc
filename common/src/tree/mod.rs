//! Folders that are opened, and what is below them: every step goes by descriptor and name, and none through a link.
//!
//! A script owns the folders that it writes to, and may put anything in the place of anything. What is removed, moved or made
//! here lies below the folder that was opened, whatever stands at its path meanwhile. A link is removed and never what it leads
//! to. A file that others may hold is copied and not moved: one with another name elsewhere, or of another owner.

mod place;
mod remove;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

pub use place::Place;
pub use remove::remove_tree;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat, openat2, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;

/// How a folder is opened.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// How a file is opened that may be anything by now.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// Name of a copy until it is whole.
const COPY: &str = ".prs-copy";

/// A folder that is opened.
#[derive(Debug)]
pub struct OpenFolder(OwnedFd);

/// Kind of an entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// Something else, in words with their article.
    Other(&'static str),
}

/// Which file or folder it is: device and number.
pub type Identity = (u64, u64);

/// Metadata of an entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its kind.
    pub kind: Kind,
    /// Its identity.
    pub identity: Identity,
    /// Time of its last change: seconds and nanoseconds.
    pub changed: (i64, i64),
    /// Number of its names.
    links: u64,
    owner: u32,
}

impl Seen {
    #[expect(clippy::unnecessary_cast, reason = "the types of these fields differ between architectures")]
    fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Kind::Folder,
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Other("a symbolic link"),
            FileType::Fifo => Kind::Other("a pipe"),
            FileType::Socket => Kind::Other("a socket"),
            _ => Kind::Other("a special file"),
        };
        Self {
            kind,
            identity: (stat.st_dev as u64, stat.st_ino as u64),
            changed: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            links: stat.st_nlink as u64,
            owner: stat.st_uid,
        }
    }

    /// Tells whether others may hold it.
    fn is_shared(&self) -> bool {
        self.links != 1 || self.owner != rustix::process::geteuid().as_raw()
    }
}

impl OpenFolder {
    /// Opens `path`, whose last part may be no link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, FOLDER, Mode::empty())?))
    }

    /// Opens the folder `name` of this one. Refuses links and mount points.
    pub fn child(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self(open_child(self.0.as_fd(), name)?))
    }

    /// Opens the folder at `relative`.
    pub fn below(&self, relative: &Path) -> io::Result<Self> {
        let mut folder = Self(self.0.try_clone()?);
        for name in names(relative)? {
            folder = folder.child(name)?;
        }
        Ok(folder)
    }

    /// Opens the folder at `relative`, and makes the folders that are missing.
    pub fn make(&self, relative: &Path) -> io::Result<Self> {
        let mut folder = Self(self.0.try_clone()?);
        for name in names(relative)? {
            match mkdirat(&folder.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = folder.child(name)?;
        }
        Ok(folder)
    }

    /// Returns the metadata of the folder itself.
    pub fn seen(&self) -> io::Result<Seen> {
        Ok(Seen::of(&fstat(&self.0)?))
    }

    /// Returns the metadata of the entry `name`, if there is one.
    pub fn look_at(&self, name: &OsStr) -> io::Result<Option<Seen>> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Seen::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the entries, in no order.
    pub fn entries(&self) -> io::Result<Vec<(OsString, Seen)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            // What is gone by now is no entry.
            if let Some(seen) = self.look_at(name)? {
                entries.push((name.to_owned(), seen));
            }
        }
        Ok(entries)
    }

    /// Calls `act` for each of these paths below, with the opened folder and the name in it.
    pub fn for_each<P: AsRef<Path>>(
        &self,
        files: impl IntoIterator<Item = P>,
        mut act: impl FnMut(&Self, &OsStr, &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        // Files of a folder come together.
        let mut known = (PathBuf::new(), self.below(Path::new(""))?);
        for file in files {
            let file = file.as_ref();
            let name = file.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let folder = file.parent().unwrap_or(Path::new(""));
            if known.0 != folder {
                known = (folder.to_owned(), self.below(folder)?);
            }
            act(&known.1, name, file)?;
        }
        Ok(())
    }

    /// Opens the regular file `name`.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let file = File::from(openat(&self.0, name, FILE, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
    }

    /// Returns a path to `name` that leads through this folder. It is valid as long as the folder is open.
    pub fn path_to(&self, name: &OsStr) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string()).join(name)
    }

    /// Removes the file or the link `name`.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes the empty folder `name`.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes `name` with everything below it, if it is there. Errors name it by `path`.
    pub fn remove_all(&self, name: &OsStr, path: &Path) -> io::Result<()> {
        remove::remove(self.0.as_fd(), name, path, 0)
    }

    /// Moves the regular file `name` into `target`, a folder of the same file system. A file that others may hold is copied, and
    /// loses its name here.
    pub fn move_file(&self, name: &OsStr, target: &Self, to: &OsStr) -> io::Result<()> {
        renameat(&self.0, name, &target.0, to)?;
        // Looked at where no path leads to any more that the script was given.
        let seen = target.look_at(to)?.ok_or(io::ErrorKind::NotFound)?;
        if seen.kind == Kind::File && !seen.is_shared() {
            return Ok(());
        }
        let copied = if seen.kind == Kind::File { target.copy_itself(to) } else { Err(not_regular()) };
        if copied.is_err() {
            // Back to where it was: what becomes of it is not decided here.
            renameat(&target.0, to, &self.0, name)?;
        }
        copied
    }

    /// Replaces the file by a copy of it.
    fn copy_itself(&self, name: &OsStr) -> io::Result<()> {
        let mut source = self.open_file(name)?;
        let metadata = source.metadata()?;
        let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&metadata) & 0o777);
        let mut copy = File::from(openat(&self.0, COPY, how, mode)?);
        let copied =
            io::copy(&mut source, &mut copy).and_then(|_| Ok(renameat(&self.0, COPY, &self.0, name)?));
        if copied.is_err() {
            let _ = unlinkat(&self.0, COPY, AtFlags::empty());
        }
        copied
    }
}

/// Opens the folder `name` of `parent`, which is neither a link nor mounted.
fn open_child(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    match openat2(parent, name, FOLDER, Mode::empty(), ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS) {
        // A kernel, or a sandbox, without this call: then the device tells, of all mounts but those of the same one.
        Err(Errno::NOSYS | Errno::PERM) => {
            let folder = openat(parent, name, FOLDER, Mode::empty())?;
            if fstat(&folder)?.st_dev == fstat(parent)?.st_dev { Ok(folder) } else { Err(Errno::XDEV) }
        }
        Err(Errno::LOOP) => Err(Errno::NOTDIR),
        opened => opened,
    }
}

fn not_regular() -> io::Error {
    io::Error::other("it is no regular file any more")
}

/// The parts of a path that leads down.
fn names(relative: &Path) -> io::Result<Vec<&OsStr>> {
    let name = |part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "the path leads out of its folder")),
    };
    relative.components().map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder to work in, `a`, beside one of others.
    fn scene() -> (tempfile::TempDir, OpenFolder) {
        let scene = tempfile::tempdir().unwrap();
        fs::create_dir_all(scene.path().join("a/b/c")).unwrap();
        fs::create_dir_all(scene.path().join("others/c")).unwrap();
        fs::write(scene.path().join("others/c/file"), "of others").unwrap();
        let folder = OpenFolder::open(&scene.path().join("a")).unwrap();
        (scene, folder)
    }

    #[test]
    fn no_step_goes_through_a_link_or_out() {
        let (scene, folder) = scene();
        symlink("../others", scene.path().join("a/link")).unwrap();
        assert!(folder.below(Path::new("b/c")).is_ok());
        for path in ["link", "link/c", "../others", "/tmp", "none"] {
            assert!(folder.below(Path::new(path)).is_err(), "{path}");
        }
        for path in ["link", "link/c/new", "../others/new"] {
            assert!(folder.make(Path::new(path)).is_err(), "{path}");
        }
        folder.make(Path::new("b/d/e")).unwrap();
        assert!(scene.path().join("a/b/d/e").is_dir());
        let files = [Path::new("link/c/file")];
        assert!(folder.for_each(files, |folder, name, _| folder.remove_file(name)).is_err());
        folder.remove_all("link".as_ref(), Path::new("link")).unwrap();
        assert_eq!(fs::read(scene.path().join("others/c/file")).unwrap(), b"of others");
        // Wherever its path leads by now, it is the folder that was opened.
        fs::rename(scene.path().join("a"), scene.path().join("moved")).unwrap();
        symlink("others", scene.path().join("a")).unwrap();
        fs::write(scene.path().join("moved/b/file"), "own").unwrap();
        let opened = folder.child("b".as_ref()).unwrap();
        assert_eq!(fs::read(opened.path_to("file".as_ref())).unwrap(), b"own");
        assert_eq!(io::read_to_string(opened.open_file("file".as_ref()).unwrap()).unwrap(), "own");
        assert!(folder.open_file("link".as_ref()).is_err() && folder.open_file("b".as_ref()).is_err());
        folder.child("b".as_ref()).unwrap().remove_all("c".as_ref(), Path::new("c")).unwrap();
        assert!(scene.path().join("others/c/file").is_file() && !scene.path().join("moved/b/c").exists());
    }

    #[test]
    fn a_file_that_others_hold_is_copied() {
        let (scene, folder) = scene();
        let target = folder.child("b".as_ref()).unwrap();
        let at = |path: &str| scene.path().join(path);
        fs::write(at("a/own"), "own").unwrap();
        fs::hard_link(at("others/c/file"), at("a/held")).unwrap();
        fs::set_permissions(at("others/c/file"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("others/c/file", at("a/link")).unwrap();
        let of_own = folder.look_at("own".as_ref()).unwrap().unwrap();
        for name in ["own", "held"] {
            folder.move_file(name.as_ref(), &target, name.as_ref()).unwrap();
            assert!(!at("a").join(name).exists(), "{name}");
        }
        assert_eq!(target.look_at("own".as_ref()).unwrap(), Some(of_own));
        fs::write(at("a/b/held"), "changed").unwrap();
        assert_eq!(fs::read(at("others/c/file")).unwrap(), b"of others");
        assert_eq!(fs::metadata(at("a/b/held")).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(folder.move_file("link".as_ref(), &target, "link".as_ref()).is_err());
        assert!(at("a/link").is_symlink() && !at("a/b/link").is_symlink());
        let mut names: Vec<_> = target.entries().unwrap().into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["c", "held", "own"]);
    }
}
