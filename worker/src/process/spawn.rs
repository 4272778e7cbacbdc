//! Starting a Python process: its interpreter, environment, folders and inherited descriptors.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use prs_common::config::password_variables;
use prs_common::job::{LONGEST_VARIABLE, OF_VARIABLE};
use prs_common::log_file::open_append;
use prs_common::process_page::ProcessPage;
use prs_common::tree::{self, OpenFolder};
use prs_common::wire::{HELD_VARIABLE, PAGE_VARIABLE, SOCKET_VARIABLE};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process_group};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::host::descendants::{Mark, TOKEN_VARIABLE};
use crate::host::gpu::Variable;
use crate::inputs::Mount;

/// Everything that makes one process.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSettings {
    /// The interpreter.
    pub(crate) python: PathBuf,
    /// Folder with prs's own Python.
    pub(crate) python_home: PathBuf,
    /// The current directory of the process.
    pub(crate) working_dir: PathBuf,
    /// Other folders that must exist.
    pub(crate) folders: Vec<PathBuf>,
    /// File that the process writes its stack to, when it is asked.
    pub(crate) stack: PathBuf,
    /// Where its standard streams go.
    pub(crate) streams: Streams,
    /// Variables to set.
    pub(crate) variables: Vec<(String, String)>,
    /// Index of its GPU.
    pub(crate) gpu: Vec<Variable>,
    /// Mini-batches that it may have under way at once.
    pub(crate) lanes: usize,
    /// What it enters before it begins.
    pub(crate) mount: Option<Mount>,
    /// What the process and its children are known by.
    pub(crate) token: String,
    /// What they are known by when they have lost the token.
    pub(crate) mark: Mark,
}

/// Where the standard streams of a process go.
#[derive(Debug, Clone)]
pub(crate) enum Streams {
    /// Output to files; there is no input. The process leads a group of its own.
    Files {
        /// For standard output.
        stdout: PathBuf,
        /// For standard error.
        stderr: PathBuf,
    },
    /// They are those of this program, whose group the process stays in, so that it may read from the terminal.
    Inherited {
        /// Whether standard output is this program's standard error.
        stdout_is_stderr: bool,
    },
}

/// A process that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {}: {source}", what.display())]
pub(crate) struct SpawnError {
    what: PathBuf,
    source: io::Error,
}

impl SpawnError {
    /// Whether no process of this host can be started so.
    pub(crate) fn is_permanent(&self) -> bool {
        self.source.kind() == io::ErrorKind::ArgumentListTooLong
    }
}

/// A process that was started.
pub(crate) struct Spawned {
    pub(crate) child: Child,
    pub(crate) socket: UnixStream,
    pub(crate) page: ProcessPage,
}

/// Starts the process.
pub(crate) fn spawn(settings: &ProcessSettings) -> Result<Spawned, SpawnError> {
    let failed = |what: &PathBuf| {
        let what = what.clone();
        move |source| SpawnError { what, source }
    };
    for folder in settings.folders.iter().chain([&settings.working_dir]) {
        tree::make_folders(folder).map_err(failed(folder))?;
    }
    let python = failed(&settings.python);
    let page = ProcessPage::create(settings.lanes).map_err(failed(&settings.python))?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed(&settings.python))?;
    let socket = ours.set_nonblocking(true).and_then(|()| UnixStream::from_std(ours));
    let socket = socket.map_err(failed(&settings.python))?;

    let working_dir = tree::root(&settings.working_dir).map_err(failed(&settings.working_dir))?;
    let mut command = Command::new(&settings.python);
    for name in password_variables() {
        command.env_remove(name);
    }
    command
        .args(["-m", "azureml_user.parallel_run.process"])
        .current_dir(working_dir.path())
        .kill_on_drop(true)
        // A server of the host's is not the job's.
        .env_remove("MLFLOW_TRACKING_URI")
        .env_remove("MLFLOW_RUN_ID")
        .envs(settings.variables.iter().map(|(name, value)| (name, value)))
        .env("PYTHONPATH", python_path(settings))
        .env(TOKEN_VARIABLE, &settings.token);
    direct(&mut command, &settings.streams)?;
    command.envs(settings.gpu.iter().map(|(name, value)| (name, value)));
    let inherited = [
        (SOCKET_VARIABLE, theirs.as_fd().try_clone_to_owned()),
        (PAGE_VARIABLE, page.descriptor().try_clone_to_owned()),
    ];
    let mut kept: Vec<OwnedFd> = Vec::new();
    for (variable, descriptor) in inherited {
        let descriptor = descriptor.map_err(failed(&settings.python))?;
        command.env(variable, descriptor.as_raw_fd().to_string());
        kept.push(descriptor);
    }
    let mut held = Vec::new();
    for (path, folder) in holders(settings) {
        let descriptor = folder.to_owned_descriptor().map_err(failed(&settings.python))?;
        held.push(format!("{}:{}", descriptor.as_raw_fd(), path.display()));
        kept.push(descriptor);
    }
    command.env(HELD_VARIABLE, held.join("//"));
    let numbers: Vec<RawFd> = kept.iter().map(AsRawFd::as_raw_fd).collect();
    check_environment(command.as_std(), settings).map_err(failed(&settings.python))?;
    prepare(&mut command, numbers, settings.mark, settings.mount.clone());
    let child = command.spawn().map_err(python)?;
    Ok(Spawned { child, socket, page })
}

/// Bytes of arguments and environment that Linux takes whatever the limit of the stack is.
const LEAST_ROOM: u64 = 128 << 10;
/// Bytes of them that Linux takes at most.
const MOST_ROOM: u64 = 6 << 20;
/// Bytes for the arguments of the interpreter and what the kernel adds.
const OF_ARGUMENTS: usize = 16 << 10;

/// Says which variables are too long, where Linux would say no more than that something is.
fn check_environment(command: &std::process::Command, settings: &ProcessSettings) -> io::Result<()> {
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => drop(variables.insert(name.to_owned(), value.to_owned())),
            None => drop(variables.remove(name)),
        }
    }
    let stack = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
    let of_job: BTreeSet<&OsStr> = settings.variables.iter().map(|(name, _)| OsStr::new(name)).collect();
    let room = (stack / 4).clamp(LEAST_ROOM, MOST_ROOM) as usize;
    let sizes = variables.iter().map(|(name, value)| {
        (name.as_os_str(), name.len() + value.len() + OF_VARIABLE, of_job.contains(name.as_os_str()))
    });
    match too_long(sizes, room) {
        Some(message) => Err(io::Error::new(io::ErrorKind::ArgumentListTooLong, message)),
        None => Ok(()),
    }
}

/// What is wrong with variables of these names and sizes, some of them of the job, where Linux has `room` for all of them.
fn too_long<'a>(variables: impl Iterator<Item = (&'a OsStr, usize, bool)>, room: usize) -> Option<String> {
    let (mut all, mut of_job, mut count) = (OF_ARGUMENTS, 0, 0);
    for (name, size, is_of_job) in variables {
        let bytes = size - size_of::<usize>();
        if bytes > LONGEST_VARIABLE {
            return Some(format!(
                "the environment variable {} has {bytes} bytes with its name and the paths put into it, and Linux takes \
                 {LONGEST_VARIABLE} at most: give a file under side_inputs, and its path as the variable",
                name.display()
            ));
        }
        (all, count) = (all + size, count + 1);
        of_job += if is_of_job { size } else { 0 };
    }
    (all > room).then(|| {
        format!(
            "the environment has {all} bytes in {count} variables, {of_job} of them of the job, and Linux takes {room} here: \
             give fewer environment_variables or shorter ones, or raise the limit of the stack (ulimit -s) where prs is started"
        )
    })
}

/// The folders that this program holds above those of the process.
fn holders(settings: &ProcessSettings) -> BTreeMap<PathBuf, Arc<OpenFolder>> {
    let logs = match &settings.streams {
        Streams::Files { stdout, .. } => Some(stdout),
        Streams::Inherited { .. } => None,
    };
    let own = settings.folders.iter().chain([&settings.working_dir, &settings.stack]).chain(logs);
    own.filter_map(|path| tree::holder(path)).collect()
}

/// Directs the standard streams of the child.
fn direct(command: &mut Command, streams: &Streams) -> Result<(), SpawnError> {
    match streams {
        Streams::Files { stdout, stderr } => {
            let open = |path: &PathBuf| -> Result<File, SpawnError> {
                open_append(path).map_err(|source| SpawnError { what: path.clone(), source })
            };
            command.stdin(Stdio::null()).stdout(open(stdout)?).stderr(open(stderr)?).process_group(0);
        }
        Streams::Inherited { stdout_is_stderr } => {
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
            command.stdout(if *stdout_is_stderr { Stdio::from(io::stderr()) } else { Stdio::inherit() });
        }
    }
    Ok(())
}

/// Gives the child its `mark`, has it enter the `mount`, and lets it inherit `descriptors`: they are closed on exec in this
/// process, so that no other child that is being started at the same time gets them.
#[expect(unsafe_code, reason = "descriptors are passed on between fork and exec")]
fn prepare(command: &mut Command, descriptors: Vec<RawFd>, mark: Mark, mount: Option<Mount>) {
    let inherit = move || {
        mark.set();
        if let Some(mount) = &mount {
            mount.enter()?;
        }
        for &descriptor in &descriptors {
            // SAFETY: the caller keeps the descriptors open until the child has been started.
            let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec there are but system calls, which allocate nothing and take no lock.
    unsafe { command.pre_exec(inherit) };
}

/// prs's own folder, then what the user has.
fn python_path(settings: &ProcessSettings) -> OsString {
    let mut path = settings.python_home.clone().into_os_string();
    let job = settings.variables.iter().find(|(name, _)| name == "PYTHONPATH").map(|(_, value)| value.into());
    if let Some(users) = job.or_else(|| std::env::var_os("PYTHONPATH")) {
        path.push(":");
        path.push(users);
    }
    path
}

/// Kills the process group that a process leads.
pub(super) fn kill_group(pid: u32) {
    if let Some(group) = Pid::from_raw(pid as i32) {
        // Nobody may be left in it.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, sizes, and whether they are of the job.
    type Variables<'a> = &'a [(&'a str, usize, bool)];

    #[test]
    fn what_linux_does_not_take_is_named() {
        let limit = LONGEST_VARIABLE + size_of::<usize>();
        let many = vec![("A", 1000, true); 3000];
        let table: [(Variables<'_>, &str); 5] = [
            (&[], ""),
            (&[("A", limit, true), ("PATH", 1000, false)], ""),
            (
                &[("A", 100, true), ("LONG", limit + 1, true)],
                "the environment variable LONG has 131073 bytes",
            ),
            (
                &many,
                "has 3016384 bytes in 3000 variables, 3000000 of them of the job, and Linux takes 2097152 here",
            ),
            (&many[..2000], ""),
        ];
        for (variables, expected) in table {
            let sizes = variables.iter().map(|(name, size, of_job)| (OsStr::new(name), *size, *of_job));
            let told = too_long(sizes, 2 << 20).unwrap_or_default();
            assert!(told.contains(expected) && told.is_empty() == expected.is_empty(), "{told}");
        }
    }
}
