//! The deterministic listing of an input's files (spec D1, D6).
//!
//! Plans are made from it, so its order never depends on the file system: bytewise by relative
//! path over all of one path, several paths one after the other, a list file in its own order. It
//! is lazy (S2): it holds the names of one folder per level, never the whole listing. It opens no
//! data file, and looks up the version of a file only where it is asked for.
//!
//! Symbolic links are followed, files whose names begin with a dot are included. A glob picks
//! files, never whole folders; a path that exists is taken as it stands, even if it could be read
//! as a glob, and so are the folders that a glob begins with.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::input::{Input, InputKind, InputSource};
use super::left_out::{LeftOut, Rules};
use super::mltable::{Sample, Window};
use crate::file_content::FileState;
use crate::file_version::FileVersion;

mod list_file;
mod pattern;
#[cfg(test)]
mod tests;
mod walk;

use list_file::ListFile;
pub use pattern::PathPattern;
use walk::Walk;

/// A file of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The absolute folder that `relative` starts from; empty for a file named by a list.
    pub base: Arc<str>,
    /// The path below `base`, parts joined with `/`; for a file named by a list, its absolute path
    /// as it stands there.
    pub relative: String,
    /// Its size, time of change and inode, where [`ListingOptions::versions`] asks for them and the system tells them.
    pub state: Option<FileState>,
}

impl Entry {
    /// The absolute path.
    pub fn path(&self) -> PathBuf {
        Path::new(&*self.base).join(&self.relative)
    }
}

/// A file of an input, borrowed from the listing for one call of [`Listing::visit`].
///
/// The fields are those of [`Entry`].
#[derive(Debug, Clone, Copy)]
pub struct EntryRef<'a> {
    /// See [`Entry::base`].
    pub base: &'a Arc<str>,
    /// See [`Entry::relative`].
    pub relative: &'a str,
    /// See [`Entry::state`].
    pub state: Option<FileState>,
}

impl EntryRef<'_> {
    /// Its size and time of change.
    pub fn version(&self) -> Option<FileVersion> {
        self.state.map(|state| state.seen.version)
    }

    /// The absolute path.
    pub fn path(&self) -> PathBuf {
        Path::new(&**self.base).join(self.relative)
    }

    /// An entry of its own.
    pub fn to_entry(self) -> Entry {
        Entry { base: Arc::clone(self.base), relative: self.relative.to_owned(), state: self.state }
    }
}

/// What to find out about each file.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListingOptions {
    /// Look up each file's size and time of change: one more system call a file. The lines of a list are never
    /// looked up, and what cannot be (it is gone by now) has no version.
    pub versions: bool,
}

/// Why an input cannot be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListingError {
    /// No file at all, or none for this glob.
    #[error("no file found in {pattern}: an input needs at least one file")]
    Empty {
        /// The folders, glob or list file that named nothing.
        pattern: String,
    },
    /// A folder or file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// What could not be read.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A glob that is not well formed.
    #[error("{pattern} is not a valid glob: {reason}")]
    Glob {
        /// The whole pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A symbolic link that leads nowhere.
    #[error("{} is a broken link, to {}: remove it, or leave it out with ignore", link.display(), target.display())]
    BrokenLink {
        /// The link.
        link: PathBuf,
        /// The path that it names.
        target: PathBuf,
    },
    /// A symbolic link that leads back to a folder that holds it.
    #[error("{} is a symbolic link to {}, a folder that holds it: remove the link", link.display(), target.display())]
    Cycle {
        /// The link.
        link: PathBuf,
        /// The folder it leads to.
        target: PathBuf,
    },
    /// Neither a file nor a folder: a pipe, a socket or a device.
    #[error("{} is {what}: an input holds only files and folders", path.display())]
    Special {
        /// Its path.
        path: PathBuf,
        /// What it is, with its article.
        what: &'static str,
    },
    /// A name that is not UTF-8, which neither a result nor a log could show.
    #[error("the name of {path} is not UTF-8: rename the file")]
    NotUtf8Name {
        /// The path, with what is not UTF-8 replaced.
        path: String,
    },
    /// The source names no local files.
    #[error("{label} is not on this machine")]
    Elsewhere {
        /// What the user called it.
        label: String,
    },
    /// A line of a list file that is not UTF-8.
    #[error("{}: line {line} is not UTF-8", path.display())]
    NotUtf8Line {
        /// The list file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
}

impl ListingError {
    /// Says that `pattern` names no file but those that were `left_out`.
    pub fn empty(pattern: &str, left_out: &LeftOut) -> Self {
        let told = if left_out.is_empty() { String::new() } else { format!(" ({left_out})") };
        Self::Empty { pattern: format!("{pattern}{told}") }
    }
}

impl ListingError {
    /// Whether the same listing may succeed a little later with nothing changed by hand.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Io { source, .. } if matches!(
            source.kind(),
            io::ErrorKind::TimedOut | io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy | io::ErrorKind::StaleNetworkFileHandle
        ))
    }

    fn special(path: impl Into<PathBuf>, file_type: std::fs::FileType) -> Self {
        let what = if file_type.is_fifo() {
            "a named pipe"
        } else if file_type.is_socket() {
            "a socket"
        } else {
            "a device"
        };
        Self::Special { path: path.into(), what }
    }

    fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// The files of one input, in order.
///
/// Ends with the first error: what follows it would not be the same listing.
#[derive(Debug)]
pub struct Listing {
    parts: VecDeque<Part>,
    /// What the whole input is called in an error.
    input: String,
    found: bool,
    /// The absolute path of a file that is none of the input's.
    without: Option<String>,
    /// Which of the files are taken.
    window: Window,
    /// Which of those in the window.
    sample: Option<Sample>,
    /// Which of those that are drawn.
    sample_window: Window,
    /// Entries that the parts that are over left out.
    left_out: LeftOut,
}

/// The files that one path of an input names.
#[derive(Debug)]
struct Part {
    files: Files,
    found: bool,
    /// The glob, which must match something even if other paths of the input hold files.
    glob: Option<String>,
}

#[derive(Debug)]
enum Files {
    One { base: Arc<str>, name: String, state: Option<FileState>, over: bool },
    Walk(Walk),
    List(ListFile),
}

impl Listing {
    /// Starts a listing of all there is; only the kind of each path is looked up before the first entry.
    pub fn open(source: &InputSource, options: ListingOptions) -> Result<Self, ListingError> {
        Self::open_for(source, options, None)
    }

    /// Starts a listing by the rules of `input`, where there is one.
    fn open_for(
        source: &InputSource,
        options: ListingOptions,
        input: Option<&Input>,
    ) -> Result<Self, ListingError> {
        let mut parts = VecDeque::new();
        let named = match source {
            InputSource::Paths(paths) => {
                for path in paths {
                    parts.push_back(Part::open(path, options, input)?);
                }
                paths.join(", ")
            }
            InputSource::List(path) => {
                let files = Files::List(ListFile::open(path)?);
                parts.push_back(Part { files, found: false, glob: None });
                path.display().to_string()
            }
            InputSource::Remote(_)
            | InputSource::Manifest { .. }
            | InputSource::Output(_)
            | InputSource::OneItem => {
                return Err(ListingError::Elsewhere { label: source.label() });
            }
        };
        let (window, sample_window) = (Window::default(), Window::default());
        let left_out = LeftOut::default();
        Ok(Self {
            parts,
            input: named,
            found: false,
            without: None,
            window,
            sample: None,
            sample_window,
            left_out,
        })
    }

    /// Starts a listing of an input, without the entries that its [rules](Rules) or its MLTable leave out.
    pub fn of_input(input: &Input, options: ListingOptions) -> Result<Self, ListingError> {
        let mut listing = Self::open_for(&input.source, options, Some(input))?;
        if let Some(table) = &input.mltable {
            listing.without = Some(table.path.clone());
            if input.kind == InputKind::File {
                listing.window = table.window;
                listing.sample.clone_from(&table.sample);
                listing.sample_window = table.sample_window;
            }
        }
        Ok(listing)
    }

    /// Entries that the rules of the input have left out so far.
    pub fn left_out(&self) -> LeftOut {
        let mut left_out = self.left_out.clone();
        for part in &self.parts {
            if let Files::Walk(walk) = &part.files {
                left_out.extend(&walk.left_out);
            }
        }
        left_out
    }

    /// Calls `visit` for up to `max` files and returns how many there were; fewer than `max` means
    /// the end. The cheapest way through a long listing: nothing is allocated for a file.
    pub fn visit(&mut self, max: usize, mut visit: impl FnMut(EntryRef<'_>)) -> Result<usize, ListingError> {
        let result = if self.without.is_none() && self.window.is_everything() && self.sample.is_none() {
            self.try_visit(max, &mut visit)
        } else {
            self.visit_some(max, &mut visit)
        };
        if result.is_err() {
            self.parts.clear();
            self.found = true;
        }
        result
    }

    /// Appends up to `max` entries to `entries` and returns how many; fewer than `max` means the
    /// end. On an error, the entries before it have been appended.
    pub fn next_batch(&mut self, max: usize, entries: &mut Vec<Entry>) -> Result<usize, ListingError> {
        self.visit(max, |entry| entries.push(entry.to_entry()))
    }

    /// The same where some files are left out. Nothing behind the last one that is wanted is looked for.
    fn visit_some(
        &mut self,
        max: usize,
        visit: &mut impl FnMut(EntryRef<'_>),
    ) -> Result<usize, ListingError> {
        let (without, sample) = (self.without.take(), self.sample.take());
        let (mut window, mut sample_window) = (self.window, self.sample_window);
        let mut count = 0;
        let result = loop {
            let left = window.take.unwrap_or(u64::MAX).min((max - count) as u64);
            if left == 0 || sample_window.take == Some(0) {
                break Ok(count);
            }
            let wanted =
                usize::try_from(window.skip.saturating_add(left)).unwrap_or(usize::MAX).min(max.max(256));
            let seen = self.try_visit(wanted, &mut |entry: EntryRef<'_>| {
                let is_path = |path: &String| {
                    path.strip_prefix(&**entry.base)
                        .is_some_and(|rest| rest.strip_prefix('/').unwrap_or(rest) == entry.relative)
                };
                let is_drawn = || {
                    sample
                        .as_ref()
                        .is_none_or(|sample| sample.has_file(&entry.to_entry().path().to_string_lossy()))
                };
                let is_in_window = !without.as_ref().is_some_and(is_path) && window.takes_next();
                if is_in_window && is_drawn() && sample_window.takes_next() {
                    count += 1;
                    visit(entry);
                }
            });
            match seen {
                Ok(seen) if seen == wanted => {}
                Ok(_) => break Ok(count),
                Err(error) => break Err(error),
            }
        };
        (self.without, self.sample) = (without, sample);
        (self.window, self.sample_window) = (window, sample_window);
        result
    }

    fn try_visit(&mut self, max: usize, visit: &mut impl FnMut(EntryRef<'_>)) -> Result<usize, ListingError> {
        let mut count = 0;
        while count < max {
            let Some(part) = self.parts.front_mut() else {
                if !self.found {
                    self.found = true;
                    return Err(ListingError::empty(&self.input, &self.left_out()));
                }
                break;
            };
            let wanted = max - count;
            let seen = part.files.visit(wanted, visit)?;
            part.found |= seen > 0;
            self.found |= seen > 0;
            count += seen;
            if seen < wanted {
                match part.glob.take() {
                    Some(pattern) if !part.found => {
                        return Err(ListingError::empty(&pattern, &self.left_out()));
                    }
                    _ => {}
                }
                if let Some(Part { files: Files::Walk(walk), .. }) = self.parts.pop_front() {
                    self.left_out.extend(&walk.left_out);
                }
            }
        }
        Ok(count)
    }
}

/// Fails as a listing of `source` would before its first file, without making one: it stops at
/// whatever file the system shows first.
pub fn probe(source: &InputSource) -> Result<(), ListingError> {
    let mut listing = Listing::open(source, ListingOptions::default())?;
    for part in &mut listing.parts {
        if let Files::Walk(walk) = &mut part.files {
            walk.probe();
        }
    }
    listing.visit(1, |_| {})?;
    Ok(())
}

impl Iterator for Listing {
    type Item = Result<Entry, ListingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut entry = None;
        match self.visit(1, |file| entry = Some(file.to_entry())) {
            Ok(_) => entry.map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Part {
    fn open(path: &str, options: ListingOptions, input: Option<&Input>) -> Result<Self, ListingError> {
        let walk = |base: &str, pattern: Option<PathPattern>| {
            let input = input.filter(|input| !input.exclusions.is_whole);
            let rules = input.map(|input| Rules::of(input, pattern.is_some()));
            Files::Walk(Walk::new(base, pattern, options.versions, rules))
        };
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound && PathPattern::is_glob(path) => {
                let exists = |folder: &&str| std::fs::metadata(folder).is_ok_and(|found| found.is_dir());
                let base = PathPattern::folders(path).take_while(exists).last();
                let pattern =
                    PathPattern::below(base.unwrap_or_else(|| PathPattern::fixed_part(path)), path)?;
                let base = pattern.base().to_owned();
                return Ok(Self {
                    files: walk(&base, Some(pattern)),
                    found: false,
                    glob: Some(path.to_owned()),
                });
            }
            Err(error) => return Err(ListingError::io(path)(error)),
        };
        let files = if metadata.is_dir() {
            walk(path, None)
        } else if metadata.is_file() {
            let (base, name) = path.rsplit_once('/').unwrap_or(("", path));
            let base = if base.is_empty() { "/" } else { base };
            let state = options.versions.then(|| FileState::of(&metadata));
            Files::One { base: base.into(), name: name.to_owned(), state, over: false }
        } else {
            return Err(ListingError::special(path, metadata.file_type()));
        };
        Ok(Self { files, found: false, glob: None })
    }
}

impl Files {
    /// As [`Listing::visit`], for `max` of at least 1.
    fn visit(&mut self, max: usize, visit: &mut impl FnMut(EntryRef<'_>)) -> Result<usize, ListingError> {
        match self {
            Self::One { over: true, .. } => Ok(0),
            Self::One { base, name, state, over } => {
                visit(EntryRef { base, relative: name, state: *state });
                *over = true;
                Ok(1)
            }
            Self::Walk(walk) => walk.visit(max, visit),
            Self::List(list) => list.visit(max, visit),
        }
    }
}
