//! Folders that no other user can change: for code that prs runs, and for data of a job.
//!
//! A host has other users. One who owns a folder, may write to it, or to a folder above it, can put other files in the
//! place of ours, code included. So prs makes a folder with mode 0700, and looks at one that is there through an opened
//! descriptor before it uses it: the folder must be no link, belong to this user, and be writable by this user alone.
//! The folders above it must belong to this user or to the system, and let no other user put another folder in its
//! place. As long as it is in use, what is done with paths below it goes through that descriptor (see [`crate::tree`]).
//!
//! Two kinds of users are trusted all the same: the system's own, and the members of a group of this user's, where a
//! folder above is writable by that group. Who may read a folder that was there before is up to its owner, and so is
//! what lies in it.

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, lstat, mkdirat, openat, statat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};

use crate::tree::Held;

/// How a folder is opened that is only passed through.
const PASSED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// How a folder is opened that is used.
const USED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Write permission of the group.
const GROUP: u32 = 0o020;
/// Write permission of everybody.
const EVERYBODY: u32 = 0o002;
/// In a folder with this bit, only the owner of an entry may rename or remove it.
const STICKY: u32 = 0o1000;

/// A folder of this user that no other user can change, held open.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    held: Held,
    mode: u32,
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}{}", path.display(), problem)]
pub struct PrivateFolderError {
    path: PathBuf,
    problem: Problem,
}

impl PrivateFolderError {
    /// What the system said, where the folder itself was not at fault.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match &self.problem {
            Problem::Io(error) => Some(error.kind()),
            _ => None,
        }
    }
}

/// What is wrong with a folder, as the end of a sentence that begins with its path.
#[derive(Debug)]
enum Problem {
    Io(io::Error),
    Link,
    NotAFolder,
    Foreign { owner: u32, own: u32 },
    Writable { mode: u32 },
    Above { folder: PathBuf, why: Above },
}

/// What is wrong with a folder above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Above {
    Foreign { owner: u32 },
    OfEverybody { mode: u32 },
    OfGroup { group: u32, mode: u32 },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, ": {error}"),
            Self::Link => {
                f.write_str(" is a link, which can be made to lead elsewhere: name the folder it leads to")
            }
            Self::NotAFolder => f.write_str(" is not a folder"),
            Self::Foreign { owner, own } => write!(
                f,
                " belongs to another user ({owner}, and this is {own}), who can change what is in it: name a folder of your own, or one that is not there yet"
            ),
            Self::Writable { mode } if mode & STICKY != 0 => {
                write!(f, " is writable by other users (mode {mode:04o}): name a folder below it")
            }
            Self::Writable { mode } => write!(
                f,
                " is writable by other users (mode {mode:04o}), and what is in it may be theirs: name another folder, or take the right from them with chmod go-w"
            ),
            Self::Above { folder, why } => {
                write!(f, " can be replaced by other users, for {} ", folder.display())?;
                match why {
                    Above::Foreign { owner } => write!(f, "belongs to user {owner}")?,
                    Above::OfEverybody { mode } => write!(f, "is writable by everybody (mode {mode:04o})")?,
                    Above::OfGroup { group, mode } => {
                        write!(f, "is writable by group {group}, which is none of yours (mode {mode:04o})")?;
                    }
                }
                f.write_str(": name a folder elsewhere")
            }
        }
    }
}

/// What decides about a folder.
#[derive(Debug, Clone, Copy)]
struct Facts {
    owner: u32,
    group: u32,
    mode: u32,
}

/// Whom folders may belong to.
#[derive(Debug)]
struct Trusted {
    own: u32,
    groups: Vec<u32>,
    /// The owner of `/`: the system's own user, under whatever number a user namespace shows it.
    system: u32,
}

impl Trusted {
    fn new(root: Facts) -> Self {
        // Without a list of groups, none is trusted but the first.
        let groups = getgroups().unwrap_or_default().into_iter().chain([getegid()]);
        Self {
            own: geteuid().as_raw(),
            groups: groups.map(rustix::fs::Gid::as_raw).collect(),
            system: root.owner,
        }
    }

    /// Why a folder cannot be used.
    fn refuse(&self, folder: Facts) -> Option<Problem> {
        let Facts { owner, mode, .. } = folder;
        if owner != self.own {
            return Some(Problem::Foreign { owner, own: self.own });
        }
        (mode & (GROUP | EVERYBODY) != 0).then_some(Problem::Writable { mode })
    }

    /// Why nothing below a folder can be used.
    fn refuse_above(&self, folder: Facts) -> Option<Above> {
        let Facts { owner, group, mode } = folder;
        if ![self.own, 0, self.system].contains(&owner) {
            return Some(Above::Foreign { owner });
        }
        if mode & STICKY != 0 {
            return None;
        }
        if mode & EVERYBODY != 0 {
            return Some(Above::OfEverybody { mode });
        }
        (mode & GROUP != 0 && !self.groups.contains(&group)).then_some(Above::OfGroup { group, mode })
    }
}

impl PrivateFolder {
    /// Opens the folder `path`, which is made, with those above it, where it is not there.
    pub fn make(path: &Path) -> Result<Self, PrivateFolderError> {
        Self::at(path, true)
    }

    /// Opens the folder `path`, which must be there.
    pub fn open(path: &Path) -> Result<Self, PrivateFolderError> {
        Self::at(path, false)
    }

    /// Makes a new folder in `parent`, where others may make folders too; its name is `prefix` and 16 hexadecimal digits.
    pub fn fresh(parent: &Path, prefix: &str) -> Result<Self, PrivateFolderError> {
        let failed = |problem| PrivateFolderError { path: parent.to_owned(), problem };
        let resolved = parent.canonicalize().map_err(|error| failed(Problem::Io(error)))?;
        let (parent, trusted) = pass(&resolved).map_err(failed)?;
        loop {
            let name = format!("{prefix}{:016x}", RandomState::new().hash_one(prefix));
            let path = resolved.join(&name);
            let failed = |problem| PrivateFolderError { path: path.clone(), problem };
            match mkdirat(&parent, &name, Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                made => made.map_err(|error| failed(io_problem(error)))?,
            }
            match open_folder(parent.as_fd(), name.as_ref(), &trusted) {
                Ok((descriptor, mode)) => return Ok(Self::of(path, descriptor, mode)),
                // Another program of this user has removed it already.
                Err(Problem::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(problem) => return Err(failed(problem)),
            }
        }
    }

    /// The folder `name` below this one, which is made where it is not there.
    pub fn make_below(&self, name: &str) -> Result<Self, PrivateFolderError> {
        let path = self.path.join(name);
        let opened = trusted().and_then(|trusted| {
            make_folder(self.as_fd(), name.as_ref())?;
            open_folder(self.as_fd(), name.as_ref(), &trusted)
        });
        match opened {
            Ok((descriptor, mode)) => Ok(Self::of(path, descriptor, mode)),
            Err(problem) => Err(PrivateFolderError { path, problem }),
        }
    }

    /// Its absolute path, without a link in it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether others can look into it.
    pub fn is_open_to_others(&self) -> bool {
        self.mode & 0o077 != 0
    }

    /// Whether it is still at its path: the user may have removed it, or given it another name.
    pub fn is_there(&self) -> bool {
        let at_path = lstat(&self.path).map(|at| (at.st_dev, at.st_ino));
        fstat(self).is_ok_and(|own| at_path == Ok((own.st_dev, own.st_ino)))
    }

    fn at(path: &Path, is_made: bool) -> Result<Self, PrivateFolderError> {
        let failed = |path: &Path, problem| PrivateFolderError { path: path.to_owned(), problem };
        let (mut so_far, names) = resolve(path).map_err(|error| failed(path, Problem::Io(error)))?;
        let (mut folder, trusted) = pass(&so_far).map_err(|problem| failed(path, problem))?;
        let mut mode = 0;
        for name in names {
            so_far.push(&name);
            let opened = if is_made { make_folder(folder.as_fd(), &name) } else { Ok(()) };
            let opened = opened.and_then(|()| open_folder(folder.as_fd(), &name, &trusted));
            (folder, mode) = opened.map_err(|problem| failed(&so_far, problem))?;
        }
        Ok(Self::of(so_far, folder, mode))
    }

    fn of(path: PathBuf, descriptor: OwnedFd, mode: u32) -> Self {
        let held = Held::of(&path, Arc::new(descriptor.into()));
        Self { path, held, mode }
    }
}

impl AsFd for PrivateFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.folder().as_fd()
    }
}

/// The nearest folder above `path` that is there, without links, and the names from there to `path`: at least that of
/// `path` itself, which may be a link.
fn resolve(path: &Path) -> io::Result<(PathBuf, Vec<OsString>)> {
    let mut path = std::path::absolute(path)?;
    if !matches!(path.components().next_back(), Some(Component::Normal(_))) {
        path = path.canonicalize()?;
    }
    let mut missing = Vec::new();
    let mut above = &*path;
    loop {
        let (Some(name), Some(parent)) = (above.file_name(), above.parent()) else {
            // Nothing of its own is in `/`, nor in a folder that is not there.
            return Err(io::Error::other("it cannot be a folder of its own"));
        };
        missing.insert(0, name.to_owned());
        match parent.canonicalize() {
            Ok(resolved) => return Ok((resolved, missing)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => above = parent,
            Err(error) => return Err(error),
        }
    }
}

fn io_problem(error: Errno) -> Problem {
    Problem::Io(error.into())
}

fn facts(folder: impl AsFd) -> Result<Facts, Problem> {
    let stat = fstat(folder).map_err(io_problem)?;
    Ok(Facts { owner: stat.st_uid, group: stat.st_gid, mode: stat.st_mode & 0o7777 })
}

fn trusted() -> Result<Trusted, Problem> {
    let root = openat(CWD, "/", PASSED, Mode::empty()).map_err(io_problem)?;
    Ok(Trusted::new(facts(&root)?))
}

/// Goes from `/` to `path`, which has no links, and refuses a folder in which others can replace what is below it. From
/// then on only trusted users can replace one of them.
fn pass(path: &Path) -> Result<(OwnedFd, Trusted), Problem> {
    let mut folder = openat(CWD, "/", PASSED, Mode::empty()).map_err(io_problem)?;
    let trusted = Trusted::new(facts(&folder)?);
    let mut so_far = PathBuf::from("/");
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    loop {
        if let Some(why) = trusted.refuse_above(facts(&folder)?) {
            return Err(Problem::Above { folder: so_far, why });
        }
        let Some(name) = names.next() else { return Ok((folder, trusted)) };
        so_far.push(name);
        folder = openat(&folder, name, PASSED, Mode::empty()).map_err(io_problem)?;
    }
}

/// Makes the folder `name`, unless it is there.
fn make_folder(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Problem> {
    match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(io_problem(error)),
    }
}

/// Opens the folder `name` if it is this user's alone. Returns its mode, too.
fn open_folder(parent: BorrowedFd<'_>, name: &OsStr, trusted: &Trusted) -> Result<(OwnedFd, u32), Problem> {
    let folder = openat(parent, name, USED, Mode::empty()).map_err(|error| {
        let kind = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        match kind.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Symlink) => Problem::Link,
            Ok(FileType::Directory) | Err(_) => io_problem(error),
            Ok(_) => Problem::NotAFolder,
        }
    })?;
    let facts = facts(&folder)?;
    match trusted.refuse(facts) {
        Some(problem) => Err(problem),
        None => Ok((folder, facts.mode)),
    }
}
