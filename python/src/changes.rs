//! Inputs that change while a mini-batch has them (spec E4, D5).
//!
//! The script opens files by itself, so they are looked at before `run()` and again when its result is turned into
//! rows: a file that is not what was planned, or becomes something else meanwhile, fails the try, also when the script
//! itself changed it. Of files of the user the content is noted, so that a later start of the job knows what it has rows of.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use prs_common::file_content::{Contents, FileContent, FileState, Reading, checksum};
use prs_common::file_version::{FileVersion, SeenFile, unpack};
use prs_common::mini_batch::SliceRef;
use prs_common::wire::{ErrorInfo, Stage};
use pyo3::prelude::*;

/// Whether a file of a former mini-batch left open whether its content changed. The content of later ones is read before, too.
static IS_IN_DOUBT: AtomicBool = AtomicBool::new(false);
const IN_DOUBT: &str = "its inode changed while the mini-batch had it, though not its rights, owners or names, as when a file is \
                        written and its time of change set back";

/// What to say of an input that is no longer what was planned.
pub(crate) fn changed(name: &str, what: &str) -> ErrorInfo {
    let message = format!(
        "{name} changed since it was planned: {what}; leave the inputs of a job as they are until it has ended, and \
         submit it again as a new one"
    );
    ErrorInfo::new(Stage::Load, "InputChanged", message)
}

/// Looks at a file that was there when the job was planned.
pub(crate) fn look(path: &Path, name: &str) -> Result<SeenFile, ErrorInfo> {
    state(path, name).map(|state| state.seen)
}

fn state(path: &Path, name: &str) -> Result<FileState, ErrorInfo> {
    FileState::at(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => changed(name, "it is gone"),
        _ => ErrorInfo::new(Stage::Load, "OSError", format!("{name}: {error}")),
    })
}

/// The files of one mini-batch after the other.
#[derive(Debug, Default)]
pub(crate) struct FileWatch {
    /// As they were before `run()`; none where their versions are not known.
    before: Vec<Before>,
    path: String,
    /// The input that the mini-batch is of, where the content of its files is noted.
    noted: Option<u32>,
    contents: Contents,
    /// The file of the slice before.
    last: Option<(String, FileState, FileContent)>,
}

/// A file before `run()`.
#[derive(Debug)]
struct Before {
    state: FileState,
    /// Checksum of its content, where that was read.
    checksum: Option<u64>,
}

impl FileWatch {
    /// Begins with the next mini-batch; `noted` is its input, where its files are local ones of the user.
    pub(crate) fn next(&mut self, noted: Option<u32>) {
        self.before.clear();
        self.contents = if noted.is_some() { Contents::here() } else { Contents::default() };
        self.noted = noted;
    }

    /// Compares the files with their `versions`, where these are known.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        py: Python<'_>,
        base: &str,
        paths: &[&str],
        versions: &[u8],
    ) -> Result<(), ErrorInfo> {
        // Where nothing is known, nothing is paid.
        if versions.is_empty() { Ok(()) } else { py.detach(|| self.compare(base, paths, versions)) }
    }

    /// Compares the files with what they were at the begin.
    #[inline]
    pub(crate) fn end(&mut self, py: Python<'_>, base: &str, paths: &[&str]) -> Result<(), ErrorInfo> {
        if self.before.is_empty() { Ok(()) } else { py.detach(|| self.compare_again(base, paths)) }
    }

    /// The contents that were noted.
    pub(crate) fn take(&mut self) -> Option<Box<Contents>> {
        let contents = std::mem::take(&mut self.contents);
        (!contents.is_empty()).then(|| Box::new(contents))
    }

    /// Notes the content of the file of a slice that was read, which its checksum is not of.
    pub(crate) fn note_slice(&mut self, py: Python<'_>, slice: SliceRef<'_>) {
        let Some(input) = self.noted else { return };
        let state = FileState::at(Path::new(slice.key));
        let is_planned = |state: &FileState| slice.version.parse() == Ok(state.seen.version);
        // A file that changed since is found out by whoever reads the next slice, or by another start.
        let Some(state) = state.ok().filter(|state| slice.key == slice.origin && is_planned(state)) else {
            // Each is known by its position among all.
            self.next(None);
            return;
        };
        let known = self.last.take().filter(|(path, before, _)| path == slice.key && *before == state);
        let (_, _, content) = self.last.insert(known.unwrap_or_else(|| {
            let sum = py.detach(|| checksum(Path::new(slice.key), &state, Reading::Whole));
            (slice.key.to_owned(), state, FileContent::new(&state, sum.ok().flatten()))
        }));
        self.contents.push(content);
        if let Some(sum) = content.checksum.filter(|_| slice.first_record == 0) {
            self.contents.sum.add(input, slice.key, state.seen.version.size, sum);
        }
    }

    fn compare(&mut self, base: &str, paths: &[&str], versions: &[u8]) -> Result<(), ErrorInfo> {
        let mut planned = unpack(versions);
        let is_in_doubt = self.noted.is_some() && IS_IN_DOUBT.load(Ordering::Relaxed);
        for path in paths {
            let planned: FileVersion = planned.next().ok_or_else(|| {
                let message = "the mini-batch's descriptor has fewer versions than files".to_owned();
                ErrorInfo::new(Stage::Load, "DescriptorError", message)
            })?;
            let state = self.look(base, path)?;
            if let Some(what) = planned.difference(&state.seen.version) {
                return Err(changed(&self.path, &what));
            }
            let read = is_in_doubt.then(|| self.read(&state, Reading::Whole));
            self.before.push(Before { state, checksum: read.flatten() });
        }
        Ok(())
    }

    fn compare_again(&mut self, base: &str, paths: &[&str]) -> Result<(), ErrorInfo> {
        for (before, path) in std::mem::take(&mut self.before).iter().zip(paths) {
            let now = self.look(base, path)?;
            if let Some(what) = before.state.seen.difference(&now.seen, Path::new(&self.path)) {
                return Err(changed(&self.path, &what));
            }
            let Some(input) = self.noted else { continue };
            let read = self.read(&now, Reading::Cached);
            if before.state.is_in_doubt(&now, Path::new(&self.path)) {
                let read = read.or_else(|| self.read(&now, Reading::Whole));
                if before.checksum.is_none() || before.checksum != read {
                    IS_IN_DOUBT.store(true, Ordering::Relaxed);
                    return Err(changed(&self.path, IN_DOUBT));
                }
            }
            self.contents.push(&FileContent::new(&now, read));
            if let Some(sum) = read {
                self.contents.sum.add(input, &self.path, now.seen.version.size, sum);
            }
        }
        Ok(())
    }

    /// Checksum of the content of the file that was looked at last, where it is in this state and can be read.
    fn read(&self, state: &FileState, reading: Reading) -> Option<u64> {
        checksum(Path::new(&self.path), state, reading).ok().flatten()
    }

    fn look(&mut self, base: &str, path: &str) -> Result<FileState, ErrorInfo> {
        self.path.clear();
        self.path.push_str(base);
        if !base.is_empty() && !base.ends_with('/') {
            self.path.push('/');
        }
        self.path.push_str(path);
        state(Path::new(&self.path), &self.path)
    }
}
