//! Log files of a job that people read: lines with a time, appended and visible at once.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::timestamp::{format_us, now_us};
use crate::tree;

/// A file that lines are appended to. Its folder and the file come with the first line.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl LogFile {
    /// A log at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), file: Mutex::new(None) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line that starts with the present time. A log that cannot be written (no room is left) does
    /// not stop a job.
    pub fn line(&self, text: impl Display) {
        self.append(&format!("{} {text}\n", format_us(now_us())));
    }

    /// Appends text as it stands.
    pub fn append(&self, text: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match file.take() {
            Some(open) => Ok(open),
            None => open_append(&self.path),
        };
        match opened.and_then(|mut open| open.write_all(text.as_bytes()).map(|()| open)) {
            Ok(open) => *file = Some(open),
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "a line of a log is lost"),
        }
    }
}

/// Opens `path` for appending and makes its folder.
pub fn open_append(path: &Path) -> io::Result<File> {
    tree::append(path).or_else(|error| match path.parent() {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => {
            tree::make_folders(folder)?;
            tree::append(path)
        }
        _ => Err(error),
    })
}
