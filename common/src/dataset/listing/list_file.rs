//! The lines of a list file (spec D1): one path a line, in the order of the file.
//!
//! Nothing is looked up for a line: a list may name millions of files, and whether they exist shows
//! when they are opened.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{EntryRef, ListingError};
use crate::dataset::remote::without_file_scheme;

const READ_SIZE: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct ListFile {
    path: PathBuf,
    /// The list's folder with a `/` at its end: where a relative line starts from.
    folder: String,
    reader: BufReader<File>,
    line: Vec<u8>,
    joined: String,
    number: u64,
    empty_base: Arc<str>,
}

impl ListFile {
    pub(super) fn open(path: &Path) -> Result<Self, ListingError> {
        let kind = fs::metadata(path).map_err(ListingError::io(path))?.file_type();
        // What can be read once cannot be listed again; opening it may wait for ever.
        if !kind.is_file() && !kind.is_dir() {
            return Err(ListingError::special(path, kind));
        }
        let file = File::open(path).map_err(ListingError::io(path))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let folder = folder
            .to_str()
            .ok_or_else(|| ListingError::NotUtf8Name { path: folder.display().to_string() })?;
        let folder = if folder.ends_with('/') { folder.to_owned() } else { format!("{folder}/") };
        Ok(Self {
            path: path.to_owned(),
            folder,
            reader: BufReader::with_capacity(READ_SIZE, file),
            line: Vec::new(),
            joined: String::new(),
            number: 0,
            empty_base: "".into(),
        })
    }

    pub(super) fn visit(
        &mut self,
        max: usize,
        visit: &mut impl FnMut(EntryRef<'_>),
    ) -> Result<usize, ListingError> {
        let mut count = 0;
        while count < max {
            self.line.clear();
            let read = self
                .reader
                .read_until(b'\n', &mut self.line)
                .map_err(ListingError::io(self.path.as_path()))?;
            if read == 0 {
                break;
            }
            self.number += 1;
            let line = str::from_utf8(trim_line(&self.line, self.number == 1))
                .map_err(|_| ListingError::NotUtf8Line { path: self.path.clone(), line: self.number })?;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let line = without_file_scheme(line);
            let relative = if line.starts_with('/') || line.contains("://") {
                line
            } else {
                self.joined.clear();
                self.joined.push_str(&self.folder);
                self.joined.push_str(line);
                &self.joined
            };
            visit(EntryRef { base: &self.empty_base, relative, state: None });
            count += 1;
        }
        Ok(count)
    }
}

/// The line without its end, and without the byte order mark that some editors put first.
fn trim_line(line: &[u8], first: bool) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if first { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line }
}
