//! Inputs that change while a mini-batch has them (spec E4, D5).
//!
//! The script opens files by itself, so they are looked at before `run()` and again when its result is turned into
//! rows: a file that is not what was planned, or becomes something else meanwhile, fails the try, also when the script
//! itself changed it.

use std::io;
use std::path::Path;

use prs_common::file_version::{SeenFile, unpack};
use prs_common::wire::{ErrorInfo, Stage};
use pyo3::prelude::*;

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
    SeenFile::at(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => changed(name, "it is gone"),
        _ => ErrorInfo::new(Stage::Load, "OSError", format!("{name}: {error}")),
    })
}

/// The files of one mini-batch after the other.
#[derive(Debug, Default)]
pub(crate) struct FileWatch {
    /// As they were before `run()`; none where their versions are not known.
    seen: Vec<SeenFile>,
    path: String,
}

impl FileWatch {
    /// Compares the files with their `versions`, where these are known.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        py: Python<'_>,
        base: &str,
        paths: &[&str],
        versions: &[u8],
    ) -> Result<(), ErrorInfo> {
        self.seen.clear();
        // Where nothing is known, nothing is paid.
        if versions.is_empty() { Ok(()) } else { py.detach(|| self.compare(base, paths, versions)) }
    }

    /// Compares the files with what they were at the begin.
    #[inline]
    pub(crate) fn end(&mut self, py: Python<'_>, base: &str, paths: &[&str]) -> Result<(), ErrorInfo> {
        if self.seen.is_empty() { Ok(()) } else { py.detach(|| self.compare_again(base, paths)) }
    }

    fn compare(&mut self, base: &str, paths: &[&str], versions: &[u8]) -> Result<(), ErrorInfo> {
        let mut planned = unpack(versions);
        for path in paths {
            let planned = planned.next().ok_or_else(|| {
                let message = "the mini-batch's descriptor has fewer versions than files".to_owned();
                ErrorInfo::new(Stage::Load, "DescriptorError", message)
            })?;
            let now = self.look(base, path)?;
            if let Some(what) = planned.difference(&now.version) {
                return Err(changed(&self.path, &what));
            }
            self.seen.push(now);
        }
        Ok(())
    }

    fn compare_again(&mut self, base: &str, paths: &[&str]) -> Result<(), ErrorInfo> {
        for (before, path) in std::mem::take(&mut self.seen).iter().zip(paths) {
            let now = self.look(base, path)?;
            if let Some(what) = before.difference(&now, Path::new(&self.path)) {
                return Err(changed(&self.path, &what));
            }
        }
        Ok(())
    }

    fn look(&mut self, base: &str, path: &str) -> Result<SeenFile, ErrorInfo> {
        self.path.clear();
        self.path.push_str(base);
        if !base.is_empty() && !base.ends_with('/') {
            self.path.push('/');
        }
        self.path.push_str(path);
        look(Path::new(&self.path), &self.path)
    }
}
