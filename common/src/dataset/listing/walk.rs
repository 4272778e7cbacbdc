//! A folder and everything below it, bytewise by relative path.
//!
//! Depth first, each folder's names sorted with a `/` after the name of a folder: that is exactly
//! the order of the whole relative paths, so nothing but the folders on the way is held.

use std::fs::{self, DirEntry, FileType};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::left_out::{LeftOut, Reason, Rules};
use super::pattern::PathPattern;
use super::{EntryRef, ListingError};
use crate::file_content::FileState;
use crate::layout::{CLAIM, JOB, RUN_LOCK};

#[derive(Debug)]
pub(super) struct Walk {
    base: Arc<str>,
    pattern: Option<PathPattern>,
    versions: bool,
    /// Stop reading a folder at its first file, and pass over what is none: for [`super::probe`], to which the order does not
    /// matter, and which knows no rules.
    probe: bool,
    /// The absolute path of what is being looked at; up to `Folder::path_len`, that folder's own
    /// path with a `/` at its end.
    path: String,
    /// Where in `path` the relative path begins.
    relative_start: usize,
    folders: Vec<Folder>,
    started: bool,
    /// By which some of it is left out; without them all is listed.
    rules: Option<Rules>,
    pub(super) left_out: LeftOut,
}

/// One folder on the way down: its names, sorted, and how far they have been taken.
#[derive(Debug)]
struct Folder {
    path_len: usize,
    names: Names,
    next: usize,
}

/// Sorted names in one piece of memory; those of folders end with `/`.
#[derive(Debug, Default)]
struct Names {
    text: String,
    spans: Vec<(usize, usize)>,
}

impl Names {
    fn push(&mut self, name: &str, is_folder: bool) {
        let start = self.text.len();
        self.text.push_str(name);
        if is_folder {
            self.text.push('/');
        }
        self.spans.push((start, self.text.len()));
    }

    fn sort(&mut self) {
        let text = self.text.as_bytes();
        self.spans.sort_unstable_by(|a, b| text[a.0..a.1].cmp(&text[b.0..b.1]));
    }

    fn get(&self, index: usize) -> Option<&str> {
        self.spans.get(index).map(|&(start, end)| &self.text[start..end])
    }
}

impl Walk {
    /// Everything below `base`, an absolute folder, or what `pattern` picks of it.
    pub(super) fn new(
        base: &str,
        pattern: Option<PathPattern>,
        versions: bool,
        rules: Option<Rules>,
    ) -> Self {
        let base = if base == "/" { base } else { base.trim_end_matches('/') };
        let path = if base == "/" { base.to_owned() } else { format!("{base}/") };
        Self {
            base: base.into(),
            pattern,
            versions,
            probe: false,
            relative_start: path.len(),
            path,
            folders: Vec::new(),
            started: false,
            rules,
            left_out: LeftOut::default(),
        }
    }

    /// Makes it find the first file that the system shows, not the first in order.
    pub(super) fn probe(&mut self) {
        self.probe = true;
    }

    pub(super) fn visit(
        &mut self,
        max: usize,
        visit: &mut impl FnMut(EntryRef<'_>),
    ) -> Result<usize, ListingError> {
        if !self.started {
            self.started = true;
            self.enter()?;
        }
        let mut count = 0;
        while count < max {
            let Some(folder) = self.folders.last_mut() else { break };
            self.path.truncate(folder.path_len);
            let Some(name) = folder.names.get(folder.next) else {
                self.folders.pop();
                continue;
            };
            folder.next += 1;
            self.path.push_str(name);
            if name.ends_with('/') {
                if !self.is_of_prs() {
                    self.enter()?;
                }
                continue;
            }
            // A file that went since its folder was read fails its mini-batch, not the listing.
            let metadata = if self.versions { fs::metadata(&self.path).ok() } else { None };
            let state = metadata.as_ref().map(FileState::of);
            visit(EntryRef { base: &self.base, relative: &self.path[self.relative_start..], state });
            count += 1;
        }
        Ok(count)
    }

    /// Reads the names of the folder at `path` and makes it the one to go on with.
    fn enter(&mut self) -> Result<(), ListingError> {
        let path_len = self.path.len();
        let mut names = Names::default();
        let reading = fs::read_dir(&self.path).map_err(ListingError::io(&self.path))?;
        for item in reading {
            let item = item.map_err(ListingError::io(&self.path[..path_len]))?;
            let file_name = item.file_name();
            let name = file_name.to_string_lossy();
            self.path.truncate(path_len);
            self.path.push_str(&name);
            let wanted = self.wanted(&name);
            if !wanted.as_file && !wanted.as_folder {
                continue;
            }
            let file_type = item.file_type().map_err(ListingError::io(&self.path))?;
            // The cheap question first: what is left out need not be a file.
            if let Some(reason) = self.left_out_for(&name, &item, file_type, wanted) {
                let relative = &self.path[self.relative_start..];
                self.left_out.add(reason, relative);
                continue;
            }
            let Some(is_folder) = self.resolve(&item, file_type, path_len, wanted)? else {
                continue;
            };
            if file_name.to_str().is_none() {
                return Err(ListingError::NotUtf8Name { path: self.path.clone() });
            }
            names.push(&name, is_folder);
            if self.probe && !is_folder {
                break;
            }
        }
        names.sort();
        self.path.truncate(path_len);
        self.folders.push(Folder { path_len, names, next: 0 });
        Ok(())
    }

    /// Why the rules leave out `item`, called `name`, which `path` ends with.
    fn left_out_for(
        &self,
        name: &str,
        item: &DirEntry,
        file_type: FileType,
        wanted: Wanted,
    ) -> Option<Reason> {
        let rules = self.rules.as_ref()?;
        if name == CLAIM {
            return Some(Reason::Output);
        }
        if rules.are_none() {
            return None;
        }
        let is_folder = file_type.is_dir()
            || (file_type.is_symlink() && fs::metadata(item.path()).is_ok_and(|found| found.is_dir()));
        if is_folder && !wanted.as_folder {
            return None;
        }
        rules.reason(&self.base, &self.path[self.relative_start..], is_folder)
    }

    /// Whether the folder that `path` ends with is a run of prs, or one that a job writes its output to, and no part of the glob
    /// stands for it: then it is counted and left out. Such a folder is known by what is in it.
    fn is_of_prs(&mut self) -> bool {
        let depth = self.folders.len() - 1;
        let is_named = self.pattern.as_ref().is_some_and(|pattern| pattern.names_folder(depth));
        if self.rules.is_none() || is_named {
            return false;
        }
        let length = self.path.len();
        let mut has = |name: &str| {
            self.path.push_str(name);
            let found = fs::symlink_metadata(&self.path).is_ok();
            self.path.truncate(length);
            found
        };
        let reason = if has(CLAIM) {
            Reason::Output
        } else if has(RUN_LOCK) && has(JOB) {
            Reason::Run
        } else {
            return false;
        };
        self.left_out.add(reason, &self.path[self.relative_start..length - 1]);
        true
    }

    /// What the pattern would do with the name that `path` ends with.
    fn wanted(&self, name: &str) -> Wanted {
        match &self.pattern {
            None => Wanted { as_file: true, as_folder: true },
            Some(pattern) => Wanted {
                as_file: pattern.picks(&self.path[self.relative_start..]),
                as_folder: pattern.enters(name, self.folders.len()),
            },
        }
    }

    /// Whether `item` is a folder (`true`) or a file (`false`), links followed; `None` if it is not
    /// wanted as what it turns out to be.
    fn resolve(
        &self,
        item: &DirEntry,
        file_type: FileType,
        parent_len: usize,
        wanted: Wanted,
    ) -> Result<Option<bool>, ListingError> {
        let mut file_type = file_type;
        if file_type.is_symlink() {
            let path = item.path();
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                // A dangling link whose name the pattern does not pick.
                Err(error) if error.kind() == ErrorKind::NotFound && !wanted.as_file => return Ok(None),
                Err(error) if error.kind() == ErrorKind::NotFound && self.probe => return Ok(None),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let target = fs::read_link(&path).map_err(ListingError::io(&*path))?;
                    return Err(ListingError::BrokenLink { link: path, target });
                }
                Err(error) => return Err(ListingError::io(path)(error)),
            };
            file_type = metadata.file_type();
            if file_type.is_dir() && wanted.as_folder {
                self.refuse_cycle(&path, (metadata.dev(), metadata.ino()), parent_len)?;
            }
        }
        if file_type.is_dir() {
            return Ok(wanted.as_folder.then_some(true));
        }
        if !wanted.as_file {
            return Ok(None);
        }
        match file_type.is_file() {
            true => Ok(Some(false)),
            false if self.probe => Ok(None),
            false => Err(ListingError::special(item.path(), file_type)),
        }
    }

    /// Fails if the folder `target`, which `link` leads to, is one of those that hold the link: the
    /// one being read, whose path is `parent_len` long, and those on the way to it.
    fn refuse_cycle(&self, link: &Path, target: (u64, u64), parent_len: usize) -> Result<(), ListingError> {
        for length in self.folders.iter().map(|folder| folder.path_len).chain([parent_len]) {
            let holder = &self.path[..length];
            let metadata = fs::metadata(holder).map_err(ListingError::io(holder))?;
            if (metadata.dev(), metadata.ino()) == target {
                return Err(ListingError::Cycle { link: link.to_owned(), target: PathBuf::from(holder) });
            }
        }
        Ok(())
    }
}

/// What a name is wanted as.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    as_file: bool,
    as_folder: bool,
}
