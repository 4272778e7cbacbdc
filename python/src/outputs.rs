//! Files the script writes below `EntryScript().output_dir` (spec E15).
//!
//! After each mini-batch the files found there are moved to `<staging>/<seq>/`, when it succeeded, or deleted,
//! when it failed, so that a file belongs to exactly one mini-batch and what a failed try wrote is never seen.
//! Looking costs one `fstat` as long as nothing is there. Folders stay where they are. Nothing is published
//! here: that is the agent's, after the commit. The script may put a link, or anything else, in the place of any folder: every
//! step goes through opened folders, and no file is touched that a link leads to.
//!
//! Folders that the script knows by name ([`NamedOutput`], dialects A.4) are there whenever it runs, and then empty: what a
//! mini-batch left in them goes as its files go, folders too. Each costs one more `fstat`.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use prs_common::job::kept_folders;
use prs_common::output_name::check_output_name;
use prs_common::tree::{Identity, Kind, OpenFolder, Place, Seen};
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
    /// Symbolic links and special files, with what they are; with an empty path, what stands in the place of the folder.
    others: Vec<(PathBuf, &'static str)>,
}

/// A folder that is there whenever the script runs.
#[derive(Debug)]
struct Kept {
    /// Below the output folder.
    path: PathBuf,
    folder: OpenFolder,
    identity: Identity,
    /// Its time of change when it was last seen with nothing but kept folders in it, if that time is settled.
    empty_since: Option<(i64, i64)>,
}

impl Kept {
    fn make(root: &OpenFolder, path: &Path) -> io::Result<Self> {
        let folder = root.make(path)?;
        let identity = folder.seen()?.identity;
        Ok(Self { path: path.to_owned(), folder, identity, empty_since: None })
    }
}

/// Watches one process's output folder.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// Its path, for messages.
    path: PathBuf,
    place: Place,
    /// As that of a kept folder.
    empty_since: Option<(i64, i64)>,
    staging: Arc<Place>,
    /// Longest path below the folder, bytes.
    longest: usize,
    /// Named ones that are there whenever the script runs, those above others first.
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
        let path = Path::new(&start.output_dir);
        let place = Place::make(path)?;
        let kept =
            kept_folders(&start.outputs).into_iter().map(|path| Kept::make(place.folder(), Path::new(&path)));
        let mut outputs = Self {
            path: path.to_owned(),
            kept: kept.collect::<io::Result<_>>()?,
            place,
            empty_since: None,
            staging: Arc::new(Place::make(Path::new(&start.staging_dir))?),
            longest: start.longest_output_path as usize,
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
    fn of_one(&self, path: &Path, place: Place) -> Self {
        Self {
            path: path.to_owned(),
            place,
            empty_since: None,
            staging: Arc::clone(&self.staging),
            longest: self.longest,
            kept: Vec::new(),
            named: Vec::new(),
            folders: BTreeSet::new(),
            first_folders: BTreeSet::new(),
            first_files: HashSet::new(),
        }
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
        // Of one that is another folder by now nothing is known.
        let changed = self.place.changed()?;
        if changed.is_none() || changed != self.empty_since {
            return Ok(true);
        }
        // One that the script took away has changed the folder above it.
        for kept in &self.kept {
            if kept.empty_since != Some(kept.folder.seen()?.changed) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes kept folders anew that the script took away.
    #[cold]
    fn restore(&mut self) -> io::Result<()> {
        self.place.refresh()?.map_err(io::Error::other)?;
        let root = self.place.folder();
        for kept in &mut self.kept {
            let there = root.below(&kept.path).and_then(|folder| folder.seen());
            if !there.is_ok_and(|there| there.identity == kept.identity) {
                // A file in its place went, or will go, with its mini-batch.
                let path = std::mem::take(&mut kept.path);
                *kept = Kept::make(root, &path)?;
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
                self.shown(path)
            ));
        }
        let mut names = Vec::with_capacity(found.files.len());
        if !found.files.is_empty() {
            self.refuse_open(&found.files)?;
            for file in &found.files {
                let name = file
                    .to_str()
                    .ok_or_else(|| format!("the name of {} is not valid UTF-8", self.shown(file)))?;
                self.check_name(name).map_err(|what| {
                    let file = self.shown(file).replace(char::is_control, "?");
                    format!("{file} cannot be in the output: {what}")
                })?;
                names.push(name.to_owned());
            }
            let beside: HashSet<&Path> = beside.iter().map(Path::new).collect();
            let (replaced, files): (Vec<_>, Vec<_>) =
                found.files.iter().partition(|file| beside.contains(file.as_path()));
            if let Err(error) = self.move_all(&files, seq) {
                self.move_back(&files, seq);
                return Err(self.cannot("move the files of", &error));
            }
            self.first_files.clear();
            let root = self.place.folder();
            root.for_each(replaced, |folder, name, _| folder.remove_file(name))
                .map_err(|error| self.cannot("clear", &error))?;
        }
        self.keep_folders(found);
        self.restore().map_err(|error| self.cannot("make", &error))?;
        Ok(names)
    }

    /// Judges the name of a file, also as it is called in the folder of a named output, which may be brought elsewhere.
    fn check_name(&self, name: &str) -> Result<(), String> {
        let in_named =
            self.named.iter().filter_map(|named| Path::new(name).strip_prefix(named).ok()?.to_str());
        let in_named = in_named.filter(|below| !below.is_empty());
        std::iter::once(name).chain(in_named).try_for_each(|name| check_output_name(name, self.longest))
    }

    /// Moves files to those of the mini-batch `seq`.
    fn move_all(&self, files: &[&PathBuf], seq: u32) -> io::Result<()> {
        let target = self.staging.folder().make(Path::new(&seq.to_string()))?;
        let mut known = (PathBuf::new(), target.below(Path::new(""))?);
        self.place.folder().for_each(files, |folder, name, file| {
            if let Some(parent) = file.parent().filter(|parent| **parent != known.0) {
                known = (parent.to_owned(), target.make(parent)?);
            }
            folder.move_file(name, &known.1, name)
        })
    }

    /// Moves those back that were moved: what is of the failed try goes, and what `init()` left goes with another one.
    fn move_back(&self, files: &[&PathBuf], seq: u32) {
        let name = seq.to_string();
        if let Ok(staged) = self.staging.folder().child(OsStr::new(&name)) {
            for file in files {
                let _ = staged.for_each([file], |folder, name, file| {
                    let home = self.place.folder().below(file.parent().unwrap_or(Path::new("")))?;
                    folder.move_file(name, &home, name)
                });
            }
        }
        let _ = self.staging.folder().remove_all(OsStr::new(&name), Path::new(&name));
    }

    /// Remembers the folders. A script that makes a folder for every mini-batch would make looking ever
    /// slower, so when there are many, the empty ones this mini-batch did not write to are removed.
    fn keep_folders(&mut self, found: Found) {
        let mut folders = found.folders;
        let root = self.place.folder();
        for folder in folders.iter().rev().filter(|folder| self.is_left_in_named(folder)) {
            // One that is not empty holds one that `init()` made.
            let _ = remove_folder(root, folder);
        }
        folders.retain(|folder| !self.is_left_in_named(folder) || root.below(folder).is_ok());
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
                if remove_folder(root, &folder).is_ok() {
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
        let is_here = |path: &&PathBuf| !path.as_os_str().is_empty();
        let others = found.others.iter().map(|(path, _)| path);
        if others.clone().any(|path| !is_here(&path)) {
            self.place.clear()?;
        }
        let root = self.place.folder();
        let files = found.files.iter().filter(|file| !self.first_files.contains(*file));
        let files = files.chain(others.filter(is_here));
        root.for_each(files, |folder, name, _| folder.remove_file(name))?;
        for folder in found.folders.iter().rev().filter(|folder| !self.folders.contains(*folder)) {
            remove_folder(root, folder)?;
        }
        self.restore()
    }

    /// Everything below the folder; remembers when there is nothing.
    fn scan(&mut self) -> io::Result<Found> {
        let mut found = Found::default();
        if let Err(what) = self.place.refresh()? {
            found.others.push((PathBuf::new(), what));
            self.empty_since = None;
            return Ok(found);
        }
        let root = self.place.folder();
        let seen = root.seen()?.changed;
        let before = self.kept.iter().map(|kept| Ok(kept.folder.seen()?.changed));
        let before = before.collect::<io::Result<Vec<_>>>()?;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let mut ahead = vec![PathBuf::new()];
        while let Some(folder) = ahead.pop() {
            let opened = match root.below(&folder) {
                // What is there is of others.
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                    found.folders.remove(&folder);
                    found.others.push((folder, "a mounted file system"));
                    continue;
                }
                opened => opened?,
            };
            for (name, seen) in opened.entries()? {
                let path = folder.join(name);
                match seen.kind {
                    Kind::Folder => {
                        found.folders.insert(path.clone());
                        ahead.push(path);
                    }
                    Kind::File => found.files.push(path),
                    Kind::Other(what) => found.others.push((path, what)),
                }
            }
        }
        found.files.sort_unstable();
        let is_empty = found.files.is_empty()
            && found.others.is_empty()
            && found.folders.iter().all(|folder| self.kept.iter().any(|kept| kept.path == *folder))
            && found.folders.len() == self.kept.len();
        let settled = |changed: (i64, i64)| {
            let age = (i128::from(now.tv_sec - changed.0), i128::from(now.tv_nsec - changed.1));
            (is_empty && age.0 * 1_000_000_000 + age.1 > SETTLED_NS).then_some(changed)
        };
        self.empty_since = settled(seen);
        for (kept, before) in self.kept.iter_mut().zip(before) {
            kept.empty_since = settled(before);
        }
        Ok(found)
    }

    /// Refuses files this process still has open for writing: their bytes may not all be there.
    fn refuse_open(&self, files: &[PathBuf]) -> Result<(), String> {
        let mut written = HashSet::<Identity>::new();
        let looked = self.place.folder().for_each(files, |folder, name, _| {
            written.extend(folder.look_at(name)?.map(|seen| seen.identity));
            Ok(())
        });
        looked.map_err(|error| self.cannot("look into", &error))?;
        let descriptors =
            fs::read_dir("/proc/self/fd").map_err(|error| format!("cannot list /proc/self/fd: {error}"))?;
        for descriptor in descriptors.flatten() {
            let identity = fs::metadata(descriptor.path()).map(|meta| (meta.dev(), meta.ino()));
            let is_written = identity.is_ok_and(|identity| written.contains(&identity));
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

    /// A path below the folder, for messages.
    fn shown(&self, path: &Path) -> String {
        let path = if path.as_os_str().is_empty() { self.path.clone() } else { self.path.join(path) };
        path.display().to_string()
    }

    fn cannot(&self, verb: &str, error: &io::Error) -> String {
        format!("cannot {verb} the output folder {}: {error}", self.path.display())
    }
}

/// The output folders of a process that has several mini-batches under way: one for each, and the one of the process, which
/// nobody but `init()` may write to, for nobody could tell whose files they are.
#[derive(Debug)]
pub(crate) struct SharedOutputs {
    of_process: Outputs,
    /// The folder of the others.
    of_others: Place,
    /// Then the files in the folder of the process are those of the one that is under way.
    is_one_at_a_time: bool,
    /// Whether there are files that are nobody's.
    has_stray: bool,
}

impl SharedOutputs {
    /// `of_process` watches the folder of the process; those of the mini-batches are in the folder at `path`.
    pub(crate) fn new(of_process: Outputs, path: &Path, is_one_at_a_time: bool) -> io::Result<Self> {
        Ok(Self { of_process, of_others: Place::make(path)?, is_one_at_a_time, has_stray: false })
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
                self.of_process.shown(&stray)
            ));
        }
        let names = self.take_both(seq, Path::new(own));
        if names.is_err() {
            // What was taken already is of a failed try now.
            let name = seq.to_string();
            let _ = self.of_process.staging.folder().remove_all(OsStr::new(&name), Path::new(&name));
        }
        names
    }

    /// Its own files first, which may be refused: what `init()` left goes only with a mini-batch that succeeds.
    fn take_both(&mut self, seq: u32, own: &Path) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        let cannot =
            |verb, error: &io::Error| format!("cannot {verb} the output folder {}: {error}", own.display());
        if let Some(place) = self.place_of(own).map_err(|error| cannot("look into", &error))? {
            let mut outputs = self.of_process.of_one(own, place);
            names = outputs.take(seq)?;
            self.clear(own).map_err(|error| cannot("clear", &error))?;
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
        self.clear(Path::new(own)).map_err(|error| self.of_process.cannot("clear", &error))?;
        if is_alone {
            return self.discard_stray();
        }
        // A folder that cannot be looked into now, for others write to it, is cleared when they have ended.
        self.has_stray |= self.find_stray().is_err();
        Ok(())
    }
}

impl SharedOutputs {
    /// The folder of the others as it is now; an error where something else stands in its place.
    fn folder_of_others(&mut self) -> io::Result<&OpenFolder> {
        self.of_others.refresh()?.map_err(io::Error::other)?;
        Ok(self.of_others.folder())
    }

    /// The folder of a mini-batch; nothing where it made none.
    fn place_of(&mut self, own: &Path) -> io::Result<Option<Place>> {
        let (folder, name) = (self.folder_of_others()?, name_of(own));
        match folder.look_at(name)? {
            None => Ok(None),
            Some(Seen { kind: Kind::Other(what), .. }) => Err(io::Error::other(format!("it is {what}"))),
            Some(_) => Place::make_in(folder.below(Path::new(""))?, name).map(Some),
        }
    }

    /// Removes what a mini-batch left in its own folder, and the folder.
    fn clear(&mut self, own: &Path) -> io::Result<()> {
        if self.of_others.refresh()?.is_err() {
            self.of_others.clear()?;
        }
        self.folder_of_others()?.remove_all(name_of(own), own)
    }
}

fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Removes a folder below `root`, which is empty.
fn remove_folder(root: &OpenFolder, folder: &Path) -> io::Result<()> {
    root.for_each([folder], |above, name, _| above.remove_folder(name))
}

/// Whether a descriptor of this process was opened for writing; unknown counts as yes.
fn is_writable(number: &str) -> bool {
    let Ok(info) = fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else { return true };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & 3 != 0)
}
