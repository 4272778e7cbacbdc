//! Files the script writes below `EntryScript().output_dir` (spec E15).
//!
//! After each mini-batch the files found there are moved to `<staging>/<seq>/`, when it succeeded, or deleted,
//! when it failed, so that a file belongs to exactly one mini-batch and what a failed try wrote is never seen.
//! Looking costs one `fstat` as long as nothing is there. Folders stay where they are. Nothing is published
//! here: that is the agent's, after the commit.
//!
//! Folders that the script knows by name ([`NamedOutput`], dialects A.4) are there whenever it runs, and then empty: what a
//! mini-batch left in them goes as its files go, folders too. Each costs one more `fstat`.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use prs_common::job::kept_folders;
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

/// A folder that is there whenever the script runs.
#[derive(Debug)]
struct Kept {
    /// Below the output folder; empty for that itself.
    path: PathBuf,
    folder: File,
    /// Its time of change when it was last seen with nothing but kept folders in it, if that time is settled.
    empty_since: Option<(i64, i64)>,
}

impl Kept {
    fn make(root: &Path, path: &Path) -> io::Result<Self> {
        let whole = root.join(path);
        fs::create_dir_all(&whole)?;
        Ok(Self { path: path.to_owned(), folder: File::open(whole)?, empty_since: None })
    }
}

/// Watches one process's output folder.
#[derive(Debug)]
pub(crate) struct Outputs {
    root: PathBuf,
    staging: PathBuf,
    /// Longest path below the folder, bytes.
    longest: usize,
    /// Those that are there whenever the script runs: the output folder itself, then named ones, those above others first.
    kept: Vec<Kept>,
    /// What is to be empty, or not there, whenever the script runs: the named outputs.
    named: Vec<PathBuf>,
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
        let kept = std::iter::once(String::new()).chain(kept_folders(&start.outputs));
        let mut outputs = Self {
            root: root.to_owned(),
            staging: start.staging_dir.clone().into(),
            longest: start.longest_output_path as usize,
            kept: kept.map(|path| Kept::make(root, Path::new(&path))).collect::<io::Result<_>>()?,
            named: start.outputs.iter().map(|output| PathBuf::from(&output.path)).collect(),
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

    /// The output folder of one mini-batch among several that are under way. Named outputs are those of the process.
    fn of_one(&self, root: &Path) -> io::Result<Self> {
        Ok(Self {
            root: root.to_owned(),
            staging: self.staging.clone(),
            longest: self.longest,
            kept: vec![Kept::make(root, Path::new(""))?],
            named: Vec::new(),
            folders: BTreeSet::new(),
            first_folders: BTreeSet::new(),
            first_files: HashSet::new(),
        })
    }

    /// Whether there is anything but what `init()` left: who wrote it cannot be told.
    fn stray(&mut self) -> io::Result<Option<PathBuf>> {
        if !self.may_hold_something()? {
            return Ok(None);
        }
        let found = self.scan()?;
        let mut files = found.files.into_iter().chain(found.others.into_iter().map(|(path, _)| path));
        Ok(files.find(|file| !self.first_files.contains(file)))
    }

    /// True when there may be something; costs one system call for each kept folder as long as they are empty.
    #[inline]
    fn may_hold_something(&mut self) -> io::Result<bool> {
        for kept in &self.kept {
            let stat = rustix::fs::fstat(kept.folder.as_fd())?;
            if stat.st_nlink == 0 {
                // The script removed the folder, and perhaps made it again.
                fs::create_dir_all(&self.root)?;
                return Ok(true);
            }
            if kept.empty_since != Some((stat.st_mtime as i64, stat.st_mtime_nsec as i64)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes kept folders anew that the script took away.
    #[cold]
    fn restore(&mut self) -> io::Result<()> {
        for kept in &mut self.kept {
            let is_there = fs::metadata(self.root.join(&kept.path)).is_ok_and(|there| {
                kept.folder
                    .metadata()
                    .is_ok_and(|known| (known.dev(), known.ino()) == (there.dev(), there.ino()))
            });
            if !is_there {
                // A file in its place went, or will go, with its mini-batch.
                let path = std::mem::take(&mut kept.path);
                *kept = Kept::make(&self.root, &path)?;
                self.folders.insert(path);
            }
        }
        Ok(())
    }

    /// The mini-batch `seq` succeeded: moves its files and names them. An error says, for the script's author,
    /// why they cannot be taken; then [`discard`](Self::discard) is due.
    #[inline]
    pub(crate) fn take(&mut self, seq: u32) -> Result<Vec<String>, String> {
        match self.may_hold_something() {
            Ok(false) => Ok(Vec::new()),
            Ok(true) => self.take_found(seq, &[], false),
            Err(error) => Err(self.cannot("look into", &error)),
        }
    }

    /// The same, beside files of these names that the mini-batch has already; they count more. `is_of_init_only`: what
    /// `init()` did not leave stays, for it is nobody's.
    fn take_beside(
        &mut self,
        seq: u32,
        names: &[String],
        is_of_init_only: bool,
    ) -> Result<Vec<String>, String> {
        match self.may_hold_something() {
            Ok(false) => Ok(Vec::new()),
            Ok(true) => self.take_found(seq, names, is_of_init_only),
            Err(error) => Err(self.cannot("look into", &error)),
        }
    }

    #[cold]
    fn take_found(
        &mut self,
        seq: u32,
        beside: &[String],
        is_of_init_only: bool,
    ) -> Result<Vec<String>, String> {
        let mut found = self.scan().map_err(|error| self.cannot("look into", &error))?;
        if is_of_init_only {
            found.files.retain(|file| self.first_files.contains(file));
            found.others.clear();
        }
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
            let beside: HashSet<&Path> = beside.iter().map(Path::new).collect();
            let (replaced, files): (Vec<_>, Vec<_>) =
                found.files.iter().partition(|file| beside.contains(file.as_path()));
            if let Err(error) = self.move_all(&files, &target) {
                // What is of the failed try goes; what init() left goes with another.
                for file in files {
                    let _ = fs::rename(target.join(file), self.root.join(file));
                }
                let _ = fs::remove_dir_all(&target);
                return Err(self.cannot("move the files of", &error));
            }
            self.first_files.clear();
            for file in replaced {
                fs::remove_file(self.root.join(file)).map_err(|error| self.cannot("clear", &error))?;
            }
        }
        self.keep_folders(found);
        self.restore().map_err(|error| self.cannot("make", &error))?;
        Ok(names)
    }

    fn move_all(&self, files: &[&PathBuf], target: &Path) -> io::Result<()> {
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
        for folder in folders.iter().rev().filter(|folder| self.is_left_in_named(folder)) {
            // One that is not empty holds one that `init()` made.
            let _ = fs::remove_dir(self.root.join(folder));
        }
        folders.retain(|folder| !self.is_left_in_named(folder) || self.root.join(folder).is_dir());
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

    /// Whether a mini-batch left this folder where the next one is to find nothing.
    fn is_left_in_named(&self, folder: &Path) -> bool {
        self.named.iter().any(|named| folder.starts_with(named))
            && !self.first_folders.contains(folder)
            && self.kept.iter().all(|kept| kept.path != folder)
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
        self.restore()
    }

    /// Everything below the folder; remembers when there is nothing.
    fn scan(&mut self) -> io::Result<Found> {
        let before = self.kept.iter().map(|kept| rustix::fs::fstat(kept.folder.as_fd()));
        let before = before.collect::<Result<Vec<_>, _>>()?;
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
        let is_empty = found.files.is_empty()
            && found.others.is_empty()
            && found.folders.iter().all(|folder| self.kept.iter().any(|kept| kept.path == *folder))
            && found.folders.len() + 1 == self.kept.len();
        for (kept, before) in self.kept.iter_mut().zip(before) {
            let mtime = (before.st_mtime, before.st_mtime_nsec as i64);
            let age_ns = i128::from(now.tv_sec - mtime.0) * 1_000_000_000 + i128::from(now.tv_nsec - mtime.1);
            kept.empty_since = (is_empty && age_ns > SETTLED_NS).then_some(mtime);
        }
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

/// The output folders of a process that has several mini-batches under way: one for each, and the one of the process, which
/// nobody but `init()` may write to, for nobody could tell whose files they are.
#[derive(Debug)]
pub(crate) struct SharedOutputs {
    of_process: Outputs,
    /// Then the files in the folder of the process are those of the one that is under way.
    is_one_at_a_time: bool,
    /// Whether there are files that are nobody's.
    has_stray: bool,
}

impl SharedOutputs {
    /// `of_process` watches the folder of the process.
    pub(crate) fn new(of_process: Outputs, is_one_at_a_time: bool) -> Self {
        Self { of_process, is_one_at_a_time, has_stray: false }
    }

    /// Whether files were seen that are nobody's, and are there still: [`discard_stray`](Self::discard_stray) is due once
    /// nothing is under way.
    pub(crate) fn has_stray(&self) -> bool {
        self.has_stray
    }

    /// Nothing is under way: deletes what nobody knows whose it is. An error means that the process must not go on.
    pub(crate) fn discard_stray(&mut self) -> Result<(), String> {
        self.of_process.discard()?;
        self.has_stray = false;
        Ok(())
    }

    /// A file that is nobody's.
    fn find_stray(&mut self) -> Result<Option<PathBuf>, String> {
        if self.is_one_at_a_time {
            return Ok(None);
        }
        let stray = self.of_process.stray().map_err(|error| self.of_process.cannot("look into", &error))?;
        self.has_stray |= stray.is_some();
        Ok(stray)
    }

    /// The mini-batch `seq` succeeded: moves what is in its own folder, and what `init()` left, and names it.
    /// After an error, [`discard`](Self::discard) is due.
    pub(crate) fn take(&mut self, seq: u32, own: &str) -> Result<Vec<String>, String> {
        if let Some(stray) = self.find_stray()? {
            return Err(format!(
                "{} is in the output folder of the process, where several mini-batches are under way: nobody can tell \
                 whose it is. Write below EntryScript().output_dir as it is inside run(), or \
                 mini_batch_context.output_dir, or set max_concurrency: 1",
                self.of_process.root.join(stray).display()
            ));
        }
        let names = self.take_both(seq, Path::new(own));
        if names.is_err() {
            // What was taken already is of a failed try now.
            let _ = fs::remove_dir_all(self.of_process.staging.join(seq.to_string()));
        }
        names
    }

    /// Its own files first, which may be refused: what `init()` left goes only with a mini-batch that succeeds.
    fn take_both(&mut self, seq: u32, own: &Path) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        if own.is_dir() {
            let mut outputs =
                self.of_process.of_one(own).map_err(|error| self.of_process.cannot("look into", &error))?;
            names = outputs.take(seq)?;
            fs::remove_dir_all(own).map_err(|error| outputs.cannot("clear", &error))?;
        }
        let of_process = self.of_process.take_beside(seq, &names, !self.is_one_at_a_time)?;
        names.extend(of_process);
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// It failed: deletes what it wrote. What nobody knows whose it is goes when no other is under way: until then it keeps
    /// all of them from being taken for whole. An error means that the process must not go on.
    pub(crate) fn discard(&mut self, own: &str, is_alone: bool) -> Result<(), String> {
        match fs::remove_dir_all(own) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.of_process.cannot("clear", &error));
            }
            _ => {}
        }
        if is_alone {
            return self.discard_stray();
        }
        // A folder that cannot be looked into now, for others write to it, is cleared when they have ended.
        self.has_stray |= self.find_stray().is_err();
        Ok(())
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
