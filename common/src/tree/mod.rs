//! Folders that are opened, and what is below them: every step goes by descriptor and name, and none through a link.
//!
//! A script owns the folders that it writes to, and may put anything in the place of anything. What is removed, moved or made
//! here lies below the folder that was opened, whatever stands at its path meanwhile. A link is removed and never what it leads
//! to. A file that others may hold is copied and not moved: one with another name elsewhere, or of another owner.
//!
//! Whoever knows a path alone uses the functions of `by_path`: they go down from the folder that this program [holds](Held)
//! above it. Nothing else of prs removes, renames, makes folders or changes rights.

mod by_path;
mod held;
mod place;
mod remove;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub use by_path::{
    above, append, copy, create, create_private, link, make_folder, make_folders, open_file, open_to_write,
    read, remove_file, remove_folder, remove_tree, rename, rename_new, set_mode, write, write_whole,
};
pub use held::{Held, holder, make_root, root};
pub use place::Place;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, chmodat, fstat, fsync,
    linkat, mkdirat, openat, openat2, renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

/// How a folder is opened.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
/// How one is opened through which others are reached. It need not be readable.
const PASSED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// How a file is opened that may be anything by now.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);
/// Name of a copy until it is whole.
const COPY: &str = ".prs-copy";
/// How often a name is taken from others for a new file.
const ATTEMPTS: usize = 100;

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
    pub fn is_shared(&self) -> bool {
        self.links != 1 || !self.is_own()
    }

    fn is_own(&self) -> bool {
        self.owner == rustix::process::geteuid().as_raw()
    }
}

impl OpenFolder {
    /// Opens `path`, whose last part may be no link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, FOLDER | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens the folder that a person names: links are followed. It cannot be listed itself.
    fn follow(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self(openat(CWD, path, PASSED | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens the folder `name` of this one. Refuses links and mount points.
    pub fn child(&self, name: &OsStr) -> io::Result<Self> {
        self.below(Path::new(name))
    }

    /// Opens the folder at `relative`.
    pub fn below(&self, relative: &Path) -> io::Result<Self> {
        self.opened(relative, FOLDER)
    }

    /// Opens the folder above `relative`. Returns the name in it, too.
    pub fn above<'a>(&self, relative: &'a Path) -> io::Result<(Self, &'a OsStr)> {
        let name = relative.file_name().ok_or_else(leads_out)?;
        Ok((self.opened(relative.parent().unwrap_or(Path::new("")), PASSED)?, name))
    }

    fn opened(&self, relative: &Path, how: OFlags) -> io::Result<Self> {
        Ok(Self(open_at(self.0.as_fd(), relative, how, Mode::empty())?))
    }

    /// Opens the folder at `relative`, and makes the folders that are missing.
    pub fn make(&self, relative: &Path) -> io::Result<Self> {
        self.made(relative, FOLDER)
    }

    fn made(&self, relative: &Path, how: OFlags) -> io::Result<Self> {
        match self.opened(relative, how) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let mut folder = self.opened(Path::new(""), PASSED)?;
        for name in names(relative)? {
            match folder.make_folder(name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => folder = folder.opened(Path::new(name), PASSED)?,
            }
        }
        folder.opened(Path::new(""), how)
    }

    /// Makes the folder `name`, which must be new.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::from_raw_mode(0o777))?)
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
        self.open_with(name, OFlags::RDONLY)
    }

    /// Opens it in this way.
    pub(crate) fn open_with(&self, name: &OsStr, how: OFlags) -> io::Result<File> {
        self.regular(name, FILE | how).map(|(file, _)| file)
    }

    /// Returns the metadata of `name`, which need not be readable.
    pub fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        File::from(open_at(self.0.as_fd(), Path::new(name), OFlags::PATH, Mode::empty())?).metadata()
    }

    /// Replaces the regular file `name` by a copy, where others may hold it.
    pub(crate) fn own(&self, name: &OsStr) -> io::Result<()> {
        let seen = self.look_at(name)?.ok_or(io::ErrorKind::NotFound)?;
        match seen.kind {
            Kind::File if seen.is_shared() => self.copy_itself(name),
            Kind::File => Ok(()),
            _ => Err(not_regular()),
        }
    }

    /// Opens the regular file `name` to read and write it, unless others may hold it, too.
    pub fn open_to_write(&self, name: &OsStr) -> io::Result<File> {
        let (file, seen) = self.regular(name, FILE | OFlags::RDWR)?;
        if seen.is_shared() { Err(of_others()) } else { Ok(file) }
    }

    /// Opens the file `name` to read it and to append to it, or makes it. One with other names elsewhere makes room for a new one.
    pub fn append(&self, name: &OsStr) -> io::Result<File> {
        let how = FILE | OFlags::RDWR | OFlags::APPEND;
        for _ in 0..ATTEMPTS {
            match self.regular(name, how) {
                Ok((file, seen)) if seen.links == 1 => return Ok(file),
                Ok(_) => self.remove_file(name)?,
                Err(error) if is_link(&error) => self.remove_file(name)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match self.new_file(name, how, 0o666) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        made => return made,
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(of_others())
    }

    fn regular(&self, name: &OsStr, how: OFlags) -> io::Result<(File, Seen)> {
        let file = open_at(self.0.as_fd(), Path::new(name), how, Mode::empty())?;
        let seen = Seen::of(&fstat(&file)?);
        match seen.kind {
            Kind::File => Ok((file.into(), seen)),
            Kind::Folder => Err(Errno::ISDIR.into()),
            Kind::Other(_) => Err(not_regular()),
        }
    }

    /// Makes the file `name`, to be read and written: a new one, also where another has the name, or a link.
    pub fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        for _ in 0..ATTEMPTS {
            match self.new_file(name, OFlags::RDWR, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match self.remove_file(name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                },
                outcome => return outcome,
            }
        }
        Err(of_others())
    }

    /// Makes the file `name`, which must be new.
    fn new_file(&self, name: &OsStr, how: OFlags, mode: u32) -> io::Result<File> {
        let how = how | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, how, Mode::from_raw_mode(mode))?.into())
    }

    /// Gives the file `name` this content: all of it at once, for those who read it.
    pub fn write_whole(&self, name: &OsStr, content: &[u8]) -> io::Result<()> {
        self.replace_with(name, 0o666, |file| file.write_all(content))
    }

    /// Gives `name` to a new file, once `fill` has filled it.
    fn replace_with(
        &self,
        name: &OsStr,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let aside = format!("{COPY}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut new = self.create(aside.as_ref(), mode)?;
        let outcome = fill(&mut new).and_then(|()| self.put(aside.as_ref(), self, name));
        if outcome.is_err() {
            let _ = self.remove_file(aside.as_ref());
        }
        outcome
    }

    /// Returns a path to `name` that leads through this folder. It is valid as long as the folder is open.
    pub fn path_to(&self, name: &OsStr) -> PathBuf {
        self.path().join(name)
    }

    /// Returns a path to this folder that is valid as long as it is open.
    pub fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string())
    }

    /// Returns a descriptor of it for another owner.
    pub fn to_owned_descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Returns its present path, without a link in it.
    pub fn whereabouts(&self) -> io::Result<PathBuf> {
        std::fs::read_link(self.path())
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

    /// Makes `name` a link that holds `target`.
    pub fn link(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        Ok(symlinkat(target, &self.0, name)?)
    }

    /// Gives `name`, which this program made, the name `to` in `target`, a folder of the same file system.
    pub fn put(&self, name: &OsStr, target: &Self, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, name, &target.0, to)?)
    }

    /// Gives `name`, which this program made, a name that nothing has.
    pub fn put_new(&self, name: &OsStr, target: &Self, to: &OsStr) -> io::Result<()> {
        match renameat_with(&self.0, name, &target.0, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            renamed => return Ok(renamed?),
        }
        match linkat(&self.0, name, &target.0, to, AtFlags::empty()) {
            Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::MLINK) => {}
            linked => return linked.map_err(io::Error::from).and_then(|()| self.remove_file(name)),
        }
        match target.look_at(to)? {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => self.put(name, target, to),
        }
    }

    /// Gives the regular file `name` a second name. A file that others may hold is copied.
    pub fn second_name(&self, name: &OsStr, target: &Self, to: &OsStr) -> io::Result<()> {
        let (mut file, seen) = self.regular(name, FILE)?;
        if !seen.is_shared() && linkat(&self.0, name, &target.0, to, AtFlags::empty()).is_ok() {
            return Ok(());
        }
        let mut copy = target.new_file(to, OFlags::WRONLY, 0o666)?;
        io::copy(&mut file, &mut copy).map(drop)
    }

    /// Moves `name` into `target`, a folder of the same file system. A file that others may hold is copied, and loses its
    /// name here.
    pub fn rename(&self, name: &OsStr, target: &Self, to: &OsStr) -> io::Result<()> {
        self.moved(name, target, to, |_| true)
    }

    /// Moves the regular file `name` as [`OpenFolder::rename`] does, and nothing else.
    pub fn move_file(&self, name: &OsStr, target: &Self, to: &OsStr) -> io::Result<()> {
        self.moved(name, target, to, |kind| kind == Kind::File)
    }

    fn moved(&self, name: &OsStr, target: &Self, to: &OsStr, may: fn(Kind) -> bool) -> io::Result<()> {
        self.put(name, target, to)?;
        // Looked at where no path leads to any more that the script was given.
        let seen = target.look_at(to)?.ok_or(io::ErrorKind::NotFound)?;
        let done = match seen.kind {
            kind if !may(kind) => Err(not_regular()),
            Kind::File if seen.is_shared() => target.copy_itself(to),
            _ => return Ok(()),
        };
        if done.is_err() {
            // Back to where it was: what becomes of it is not decided here.
            target.put(to, self, name)?;
        }
        done
    }

    /// Replaces the file by a copy of it.
    fn copy_itself(&self, name: &OsStr) -> io::Result<()> {
        let mut source = self.open_file(name)?;
        let mode = std::os::unix::fs::MetadataExt::mode(&source.metadata()?) & 0o777;
        self.replace_with(name, mode, |copy| io::copy(&mut source, copy).map(drop))
    }

    /// Changes the rights of the folder or the regular file `name`. Another one's file is replaced by a copy first, another
    /// one's folder refused.
    pub fn set_mode(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let look = || {
            let opened = open_at(self.0.as_fd(), Path::new(name), OFlags::PATH, Mode::empty())?;
            Ok::<_, io::Error>((Seen::of(&fstat(&opened)?), opened))
        };
        let (mut seen, mut opened) = look()?;
        if seen.kind == Kind::File && seen.is_shared() {
            self.copy_itself(name)?;
            (seen, opened) = look()?;
        }
        match seen.kind {
            Kind::Other(_) => return Err(not_regular()),
            Kind::File if seen.is_shared() => return Err(of_others()),
            Kind::Folder if !seen.is_own() => return Err(of_others()),
            _ => {}
        }
        // By its name, something else could be in its place by now.
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
        Ok(chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())?)
    }

    /// Has what was done in the folder outlive a loss of power.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }
}

impl AsFd for OpenFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for OpenFolder {
    fn from(folder: OwnedFd) -> Self {
        Self(folder)
    }
}

/// Opens what is at `relative`, which leads through no link, into nothing that is mounted, and not out of `folder`.
fn open_at(folder: BorrowedFd<'_>, relative: &Path, how: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let names = names(relative)?;
    let how = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if names.is_empty() {
        return Ok(openat(folder, ".", how, mode)?);
    }
    match openat2(folder, relative, how, mode, ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS) {
        // A kernel, or a sandbox, without this call.
        Err(Errno::NOSYS | Errno::PERM) => open_step_by_step(folder, &names, how, mode),
        opened => opened.map_err(met),
    }
}

/// The same where the system opens one name at a time.
fn open_step_by_step(
    folder: BorrowedFd<'_>,
    names: &[&OsStr],
    how: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let Some((last, above)) = names.split_last() else { return Err(leads_out()) };
    let mut at = folder.try_clone_to_owned()?;
    for name in above {
        let how = PASSED | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = step(at.as_fd(), name, how, Mode::empty()).map_err(met)?;
    }
    step(at.as_fd(), last, how, mode).map_err(met)
}

/// One step of it. The device tells of all mounted folders but those of the same one.
fn step(folder: BorrowedFd<'_>, name: &OsStr, how: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let opened = openat(folder, name, how, mode)?;
    let stat = fstat(&opened)?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if is_folder && stat.st_dev != fstat(folder)?.st_dev { Err(Errno::XDEV) } else { Ok(opened) }
}

/// What stands where a folder or a file should.
#[derive(Debug, thiserror::Error)]
enum InTheWay {
    #[error("a link is in its place")]
    Link,
    #[error("something is mounted in its place")]
    Mount,
}

/// Says what was met on the way. Nothing is gained by another attempt.
fn met(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => io::Error::new(io::ErrorKind::NotADirectory, InTheWay::Link),
        Errno::XDEV => io::Error::new(io::ErrorKind::CrossesDevices, InTheWay::Mount),
        error => error.into(),
    }
}

fn is_link(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| matches!(cause.downcast_ref(), Some(InTheWay::Link)))
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "it is no regular file any more")
}

fn of_others() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "it is of others, who put it there meanwhile")
}

fn leads_out() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the path leads out of its folder")
}

/// The parts of a path that leads down.
fn names(relative: &Path) -> io::Result<Vec<&OsStr>> {
    let name = |part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(leads_out()),
    };
    relative.components().map(name).collect()
}
