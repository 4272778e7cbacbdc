//! Files the script writes below `EntryScript().output_dir` (spec E15).
//!
//! After each mini-batch the files found there are moved to `<staging>/<seq>/`, when it succeeded, or deleted,
//! when it failed, so that a file belongs to exactly one mini-batch and what a failed try wrote is never seen.
//! Looking costs one `fstat` as long as nothing is there. Folders stay where they are. Nothing is published
//! here: that is the agent's, after the commit.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use prs_common::output_name::check_output_name;
use prs_common::wire::Start;

/// A folder's time of change tells about later changes only when it is older than the clock ticks,
/// nanoseconds.
const SETTLED_NS: i128 = 50_000_000;
/// From this many folders the script made since `init()`, the empty ones of former mini-batches are removed.
const MANY_FOLDERS: usize = 256;

/// What lies below the output folder; all paths are relative to it.
#[derive(Debug, Default)]
struct Found {
    files: Vec<PathBuf>,
    folders: BTreeSet<PathBuf>,
    /// Symbolic links and special files, with what they are.
    others: Vec<(PathBuf, &'static str)>,
}

/// Watches one process's output folder.
#[derive(Debug)]
pub(crate) struct Outputs {
    root: PathBuf,
    staging: PathBuf,
    /// Longest path below the folder, bytes.
    longest: usize,
    folder: File,
    /// Time of change of the folder when it was last seen empty, if that time is settled.
    empty_since: Option<(i64, i64)>,
    /// Folders that outlive a failed try.
    folders: BTreeSet<PathBuf>,
    /// Folders that were there after `init()`; never removed.
    first_folders: BTreeSet<PathBuf>,
    /// Files that `init()` left; they go with the first mini-batch that succeeds.
    first_files: HashSet<PathBuf>,
}

impl Outputs {
    /// Begins to watch the output folder, after `init()`.
    pub(crate) fn watch(start: &Start) -> io::Result<Self> {
        let root = Path::new(&start.output_dir);
        fs::create_dir_all(root)?;
        let mut outputs = Self {
            root: root.to_owned(),
            staging: start.staging_dir.clone().into(),
            longest: start.longest_output_path as usize,
            folder: File::open(root)?,
            empty_since: None,
            folders: BTreeSet::new(),
            first_folders: BTreeSet::new(),
            first_files: HashSet::new(),
        };
        let found = outputs.scan()?;
        outputs.first_folders.clone_from(&found.folders);
        outputs.folders = found.folders;
        outputs.first_files = found.files.into_iter().collect();
        Ok(outputs)
    }

    /// True when there may be something; costs one system call as long as the folder is empty.
    #[inline]
    fn may_hold_something(&mut self) -> io::Result<bool> {
        let stat = rustix::fs::fstat(self.folder.as_fd())?;
        if stat.st_nlink == 0 {
            // The script removed the folder, and perhaps made it again.
            fs::create_dir_all(&self.root)?;
            self.folder = File::open(&self.root)?;
            self.empty_since = None;
            return Ok(true);
        }
        Ok(self.empty_since != Some((stat.st_mtime as i64, stat.st_mtime_nsec as i64)))
    }

    /// The mini-batch `seq` succeeded: moves its files and names them. An error says, for the script's author,
    /// why they cannot be taken; then [`discard`](Self::discard) is due.
    #[inline]
    pub(crate) fn take(&mut self, seq: u32) -> Result<Vec<String>, String> {
        match self.may_hold_something() {
            Ok(false) => Ok(Vec::new()),
            Ok(true) => self.take_found(seq),
            Err(error) => Err(self.cannot("look into", &error)),
        }
    }

    #[cold]
    fn take_found(&mut self, seq: u32) -> Result<Vec<String>, String> {
        let found = self.scan().map_err(|error| self.cannot("look into", &error))?;
        if let Some((path, what)) = found.others.first() {
            return Err(format!(
                "{} is {what}; only regular files can be written below EntryScript().output_dir",
                self.root.join(path).display()
            ));
        }
        let mut names = Vec::with_capacity(found.files.len());
        if !found.files.is_empty() {
            self.refuse_open(&found.files)?;
            for file in &found.files {
                let name = file.to_str().ok_or_else(|| {
                    format!("the name of {} is not valid UTF-8", self.root.join(file).display())
                })?;
                check_output_name(name, self.longest).map_err(|what| {
                    let file = self.root.join(file).display().to_string();
                    format!("{} cannot be in the output: {what}", file.replace(char::is_control, "?"))
                })?;
                names.push(name.to_owned());
            }
            let target = self.staging.join(seq.to_string());
            if let Err(error) = self.move_all(&found.files, &target) {
                // What was moved already is of a failed try now.
                let _ = fs::remove_dir_all(&target);
                return Err(self.cannot("move the files of", &error));
            }
            self.first_files.clear();
        }
        self.keep_folders(found);
        Ok(names)
    }

    fn move_all(&self, files: &[PathBuf], target: &Path) -> io::Result<()> {
        fs::create_dir_all(target)?;
        let mut made = PathBuf::new();
        for file in files {
            let to = target.join(file);
            if let Some(parent) = file.parent().filter(|parent| **parent != made) {
                fs::create_dir_all(target.join(parent))?;
                made = parent.to_owned();
            }
            fs::rename(self.root.join(file), to)?;
        }
        Ok(())
    }

    /// Remembers the folders. A script that makes a folder for every mini-batch would make looking ever
    /// slower, so when there are many, the empty ones this mini-batch did not write to are removed.
    fn keep_folders(&mut self, found: Found) {
        let mut folders = found.folders;
        if folders.len() > self.first_folders.len() + MANY_FOLDERS {
            let used: HashSet<&Path> = found.files.iter().flat_map(|file| file.ancestors().skip(1)).collect();
            let old: Vec<PathBuf> = folders
                .iter()
                .rev()
                .filter(|folder| {
                    self.folders.contains(*folder)
                        && !self.first_folders.contains(*folder)
                        && !used.contains(folder.as_path())
                })
                .cloned()
                .collect();
            for folder in old {
                if fs::remove_dir(self.root.join(&folder)).is_ok() {
                    folders.remove(&folder);
                }
            }
        }
        self.folders = folders;
    }

    /// The mini-batch failed: deletes what it wrote. An error means that files of a failed try may still be
    /// there; the process must not go on then.
    #[inline]
    pub(crate) fn discard(&mut self) -> Result<(), String> {
        match self.may_hold_something() {
            Ok(false) => Ok(()),
            Ok(true) => self.discard_found().map_err(|error| self.cannot("clear", &error)),
            Err(error) => Err(self.cannot("look into", &error)),
        }
    }

    #[cold]
    fn discard_found(&mut self) -> io::Result<()> {
        let found = self.scan()?;
        let files = found.files.iter().filter(|file| !self.first_files.contains(*file));
        for file in files.chain(found.others.iter().map(|(path, _)| path)) {
            fs::remove_file(self.root.join(file))?;
        }
        for folder in found.folders.iter().rev().filter(|folder| !self.folders.contains(*folder)) {
            fs::remove_dir(self.root.join(folder))?;
        }
        Ok(())
    }

    /// Everything below the folder; remembers when there is nothing.
    fn scan(&mut self) -> io::Result<Found> {
        let before = rustix::fs::fstat(self.folder.as_fd())?;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let mut found = Found::default();
        let mut ahead = vec![PathBuf::new()];
        while let Some(folder) = ahead.pop() {
            for entry in fs::read_dir(self.root.join(&folder))? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    found.folders.insert(path.clone());
                    ahead.push(path);
                } else if kind.is_file() {
                    found.files.push(path);
                } else {
                    found.others.push((path, name_of(kind)));
                }
            }
        }
        found.files.sort_unstable();
        let mtime = (before.st_mtime as i64, before.st_mtime_nsec as i64);
        let age_ns = i128::from(now.tv_sec - mtime.0) * 1_000_000_000 + i128::from(now.tv_nsec - mtime.1);
        let is_empty = found.files.is_empty() && found.folders.is_empty() && found.others.is_empty();
        self.empty_since = (is_empty && age_ns > SETTLED_NS).then_some(mtime);
        Ok(found)
    }

    /// Refuses files this process still has open for writing: their bytes may not all be there.
    fn refuse_open(&self, files: &[PathBuf]) -> Result<(), String> {
        let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
        let written: HashSet<(u64, u64)> =
            files.iter().filter_map(|file| identity(&self.root.join(file)).ok()).collect();
        let descriptors =
            fs::read_dir("/proc/self/fd").map_err(|error| format!("cannot list /proc/self/fd: {error}"))?;
        for descriptor in descriptors.flatten() {
            let is_written = identity(&descriptor.path()).is_ok_and(|id| written.contains(&id));
            if is_written && is_writable(&descriptor.file_name().to_string_lossy()) {
                let name = fs::read_link(descriptor.path()).unwrap_or_default();
                return Err(format!(
                    "{} is still open when run() returned; close it, or write to EntryScript().working_dir",
                    name.display()
                ));
            }
        }
        Ok(())
    }

    fn cannot(&self, verb: &str, error: &io::Error) -> String {
        format!("cannot {verb} the output folder {}: {error}", self.root.display())
    }
}

/// Whether a descriptor of this process was opened for writing; unknown counts as yes.
fn is_writable(number: &str) -> bool {
    let Ok(info) = fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else { return true };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & 3 != 0)
}

fn name_of(kind: fs::FileType) -> &'static str {
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a special file"
    }
}
