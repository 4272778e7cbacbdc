//! Where scripts see the files that a node fetched: under a path that is the same on every host, in every run and in every
//! try, so that what they return, print and raise is the same, too.
//!
//! The path is `/tmp/prs-job-NAME/inputs`, with the name of the job. The first worker with such a job has a link there. The
//! processes of another one of the same user have a mount namespace of their own, in which their files are there. Where
//! that cannot be had, or the folder is another user's, the path is that of the node's own folder, and the log says why.
//!
//! The folder in `/tmp` is this user's alone ([`PrivateFolder`]). All who use it have it locked, so that none removes it from
//! under the others, and the one with the link has a file in it locked. What killed workers left is removed by the
//! next one of the same user that takes a place.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use prs_common::job::{InputKind, JobSpec, SideInput};
use prs_common::private_folder::{PrivateFolder, PrivateFolderError};
use prs_common::tree;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, open, symlinkat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::is_fetched;
use crate::host::folder_lock::{LOCK, lock_in};

/// The folder that every host has and everybody may make folders in. It is no other where `TMPDIR` names one: the path is to
/// be the same everywhere.
const SHARED: &str = "/tmp";
/// What the name of the folder there begins with.
const PREFIX: &str = "prs-job-";
/// The link.
const INPUTS: &str = "inputs";
/// Name of the folder of a node that its processes see instead.
const SEEN: &str = "seen";
/// How often the folder may be taken away, or locked by who removes it, while it is taken.
const ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// Where the scripts of a node see its files; given up when dropped.
#[derive(Debug)]
pub struct InputPlace {
    inputs: PathBuf,
    mount: Option<Mount>,
    /// Why it is a path of this node alone.
    refused: Option<String>,
    _held: Option<Held>,
}

/// The folder in the shared one.
#[derive(Debug)]
struct Held {
    folder: PrivateFolder,
    /// Locked, where the link is this worker's.
    link: Option<File>,
}

/// A folder that a process sees in the place of another one, in a mount namespace of its own.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    source: CString,
    target: CString,
    /// What makes the process's user and group in a user namespace of its own those that they are.
    users: Vec<u8>,
    groups: Vec<u8>,
}

impl InputPlace {
    /// The place for the files in `tree` of a node for a job with these settings. `folder` is the node's own.
    pub fn of(spec: &JobSpec, tree: &Path, folder: &Path) -> Self {
        let has_files = spec.inputs.iter().any(|input| input.kind == InputKind::File && is_fetched(input));
        if has_files || spec.with_model().any(SideInput::is_fetched) {
            Self::take(Path::new(SHARED), &spec.name, tree, folder)
        } else {
            Self::own(tree)
        }
    }

    /// The folder itself: a place of this node alone.
    pub fn own(tree: &Path) -> Self {
        Self { inputs: tree.to_owned(), mount: None, refused: None, _held: None }
    }

    fn take(shared: &Path, job: &str, tree: &Path, folder: &Path) -> Self {
        remove_leftovers(shared);
        let path = shared.join(format!("{PREFIX}{job}"));
        let taken = Held::take(&path, tree).and_then(|held| match held.link {
            Some(_) => Ok((held, None)),
            None => Ok((held, Some(Mount::of(&path, tree, folder)?))),
        });
        match taken {
            Ok((held, mount)) => Self { inputs: path.join(INPUTS), mount, refused: None, _held: Some(held) },
            Err(reason) => Self { refused: Some(reason), ..Self::own(tree) },
        }
    }

    /// What the paths of all files begin with, for scripts.
    pub fn inputs(&self) -> &Path {
        &self.inputs
    }

    /// What a process has to enter before the paths mean something.
    pub(crate) fn mount(&self) -> Option<&Mount> {
        self.mount.as_ref()
    }

    /// Why the paths are those of this node alone, where they should not be.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }
}

impl Held {
    /// Takes the folder at `path`, with the link to `tree` in it where no other worker has that.
    fn take(path: &Path, tree: &Path) -> Result<Self, String> {
        let says = |error: Errno| format!("{}: {}", path.display(), io::Error::from(error));
        for _ in 0..ATTEMPTS {
            let folder = match PrivateFolder::make(path) {
                Err(error) if is_gone(&error) => continue,
                made => made.map_err(|error| error.to_string())?,
            };
            match flock(&folder, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                locked => locked.map_err(says)?,
            }
            if !folder.is_there() {
                continue;
            }
            let link = lock_in(&folder).map_err(says)?;
            let held = Self { folder, link };
            if held.link.is_none() {
                return Ok(held);
            }
            // That of a worker that was killed may be there.
            let _ = unlinkat(&held.folder, INPUTS, AtFlags::empty());
            symlinkat(tree, &held.folder, INPUTS).map_err(says)?;
            return Ok(held);
        }
        Err(format!("{} is removed again and again", path.display()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.link.is_some() {
            let _ = unlinkat(&self.folder, INPUTS, AtFlags::empty());
        }
        remove_unused(&self.folder);
    }
}

fn is_gone(error: &PrivateFolderError) -> bool {
    error.io_kind() == Some(io::ErrorKind::NotFound)
}

/// Removes a folder in the shared one that nobody uses, with what prs puts there.
fn remove_unused(folder: &PrivateFolder) {
    if flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok() && folder.is_there() {
        let _ = unlinkat(folder, INPUTS, AtFlags::empty());
        let _ = unlinkat(folder, LOCK, AtFlags::empty());
        // One in which another program put something stays.
        let _ = tree::remove_folder(folder.path());
    }
}

/// Removes what killed workers of this user left.
fn remove_leftovers(shared: &Path) {
    for entry in fs::read_dir(shared).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Ok(folder) = PrivateFolder::open(&entry.path())
        {
            remove_unused(&folder);
        }
    }
}

impl Mount {
    /// Lets processes see a folder with a link to `tree` at `path`. Fails where this host does not let them.
    fn of(path: &Path, tree: &Path, folder: &Path) -> Result<Self, String> {
        let made = || {
            let seen = folder.join(SEEN);
            tree::make_folders(&seen)?;
            tree::link(tree, seen.join(INPUTS))?;
            let c_string = |path: PathBuf| CString::new(path.into_os_string().into_vec());
            let (user, group) = (geteuid(), getegid());
            let mount = Self {
                source: c_string(seen.canonicalize()?)?,
                target: c_string(path.to_owned())?,
                users: format!("{user} {user} 1").into_bytes(),
                groups: format!("{group} {group} 1").into_bytes(),
            };
            mount.try_out()?;
            Ok(mount)
        };
        made().map_err(|error: io::Error| {
            let path = path.display();
            format!("another worker has {path}, and processes cannot have a mount namespace here: {error}")
        })
    }

    /// Starts a program that enters it and does nothing.
    #[expect(unsafe_code, reason = "a process enters its namespace between fork and exec")]
    fn try_out(&self) -> io::Result<()> {
        // This program, also where an upgrade has removed its file.
        let mut command = Command::new("/proc/self/exe");
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mount = self.clone();
        // SAFETY: `enter` does nothing but system calls.
        unsafe { command.pre_exec(move || mount.enter()) };
        command.spawn()?.wait().map(drop)
    }

    /// Enters it; for a process that was just forked, since only system calls are made.
    #[expect(
        unsafe_code,
        reason = "leaving a namespace may pull what it relies on from under another thread"
    )]
    pub(crate) fn enter(&self) -> io::Result<()> {
        // SAFETY: a process that was just forked has one thread.
        match unsafe { unshare_unsafe(UnshareFlags::NEWNS) } {
            Err(Errno::PERM) => {
                // SAFETY: the same.
                unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
                write(c"/proc/self/setgroups", b"deny")?;
                write(c"/proc/self/uid_map", &self.users)?;
                write(c"/proc/self/gid_map", &self.groups)?;
            }
            unshared => unshared?,
        }
        // What is mounted here is not to be seen by the host; what the host mounts is still seen here.
        mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        mount_bind(&*self.source, &*self.target)?;
        Ok(())
    }
}

fn write(path: &std::ffi::CStr, text: &[u8]) -> io::Result<()> {
    let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

    use super::*;

    const NOBODY: u32 = 65_534;

    /// A shared folder, and the folders of nodes below another one.
    struct Host {
        shared: tempfile::TempDir,
        nodes: tempfile::TempDir,
    }

    impl Host {
        fn new() -> Self {
            let host = Self { shared: tempfile::tempdir().unwrap(), nodes: tempfile::tempdir().unwrap() };
            fs::set_permissions(host.shared.path(), fs::Permissions::from_mode(0o1777)).unwrap();
            host
        }

        /// The place of a node whose only file says its name.
        fn place(&self, job: &str, node: &str) -> InputPlace {
            let folder = self.nodes.path().join(node);
            let tree = folder.join(INPUTS);
            fs::create_dir_all(&tree).unwrap();
            fs::write(tree.join("name"), node).unwrap();
            InputPlace::take(self.shared.path(), job, &tree, &folder)
        }

        /// What is in the shared folder.
        fn entries(&self) -> usize {
            fs::read_dir(self.shared.path()).unwrap().count()
        }
    }

    /// What a process of the node reads.
    #[expect(unsafe_code, reason = "it enters its namespace between fork and exec")]
    fn read(place: &InputPlace) -> String {
        let mut command = Command::new("cat");
        command.arg(place.inputs().join("name"));
        if let Some(mount) = place.mount().cloned() {
            // SAFETY: `enter` does nothing but system calls.
            unsafe { command.pre_exec(move || mount.enter()) };
        }
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn nodes_of_one_host_have_one_path_and_leave_nothing() {
        let host = Host::new();
        let (first, second) = (host.place("score", "a"), host.place("score", "b"));
        assert!(second.refused().is_none(), "this is tested where processes may have a mount namespace");
        assert!(first.mount().is_none() && second.mount().is_some());
        assert_eq!(first.inputs(), host.shared.path().join("prs-job-score/inputs"));
        assert_eq!(first.inputs(), second.inputs());
        assert_eq!((read(&first), read(&second)), ("a".to_owned(), "b".to_owned()));
        drop(first);
        assert_eq!(read(&second), "b", "the folder stays as long as it is used");
        let third = host.place("score", "c");
        assert!(third.mount().is_none());
        assert_eq!((read(&second), read(&third)), ("b".to_owned(), "c".to_owned()));
        let other = host.place("other", "d");
        assert_eq!((read(&other), host.entries()), ("d".to_owned(), 2));
        drop((second, other, third));
        assert_eq!(host.entries(), 0);
    }

    #[test]
    #[expect(unsafe_code, reason = "it becomes another user between fork and exec")]
    fn a_user_without_privileges_gets_a_namespace_too() {
        let host = Host::new();
        let folder = host.nodes.path();
        fs::write(folder.join("name"), "of nobody").unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        let target = host.shared.path().join("target");
        fs::create_dir(&target).unwrap();
        let c_string = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
        let [users, groups] = [(); 2].map(|()| format!("{NOBODY} {NOBODY} 1").into_bytes());
        let mount = Mount { source: c_string(folder), target: c_string(&target), users, groups };
        let mut command = Command::new("sh");
        command.args(["-c", "id -u; cat \"$0\""]).arg(target.join("name"));
        let become_nobody = move || {
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            set_thread_groups(&[])?;
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)?;
            set_dumpable_behavior(DumpableBehavior::Dumpable)?;
            mount.enter()
        };
        // SAFETY: it does nothing but system calls.
        unsafe { command.pre_exec(become_nobody) };
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{NOBODY}\nof nobody"));
    }

    #[test]
    fn what_a_killed_worker_left_is_replaced_and_removed() {
        let host = Host::new();
        for job in ["one", "two"] {
            let left = host.shared.path().join(format!("{PREFIX}{job}"));
            fs::create_dir(&left).unwrap();
            fs::write(left.join(LOCK), "").unwrap();
            symlink("/nowhere", left.join(INPUTS)).unwrap();
        }
        let place = host.place("one", "a");
        assert_eq!((read(&place), host.entries()), ("a".to_owned(), 1));
        let used = host.shared.path().join(format!("{PREFIX}three"));
        fs::create_dir(&used).unwrap();
        fs::write(used.join("of another"), "").unwrap();
        drop((place, host.place("one", "b")));
        assert!(used.join("of another").is_file());
    }

    #[test]
    fn a_folder_that_others_could_change_is_not_used() {
        let host = Host::new();
        let of_others = host.shared.path().join(format!("{PREFIX}score"));
        fs::create_dir(&of_others).unwrap();
        fs::set_permissions(&of_others, fs::Permissions::from_mode(0o777)).unwrap();
        let place = host.place("score", "a");
        assert!(place.refused().unwrap().contains("is writable by other users"), "{place:?}");
        assert_eq!((place.inputs(), read(&place)), (&*host.nodes.path().join("a/inputs"), "a".to_owned()));
        fs::remove_dir(&of_others).unwrap();
        symlink("/root", &of_others).unwrap();
        assert!(host.place("score", "a").refused().unwrap().contains("is a link"));
    }
}
