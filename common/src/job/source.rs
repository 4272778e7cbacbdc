//! Where the text of a job file comes from: a file, standard input, or the caller who hands the text in.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{Given, fence, near_path};

/// The name of a job file that comes through standard input; relative paths in it start from the current folder.
pub const STANDARD_INPUT: &str = "-";

/// Bytes beyond which a file is taken for something else than a job file.
pub(super) const MAX_FILE_SIZE: u64 = 4 << 20;

impl Given<'_> {
    /// What the job file holds.
    pub(super) fn text_of(&self, path: &Path) -> Result<String, String> {
        match &self.text {
            Some(job) => text_in(job.text.as_bytes()),
            None => read_text(path),
        }
    }

    /// Where it is, absolute.
    pub(super) fn place_of(&self, path: &Path) -> io::Result<PathBuf> {
        self.text.map_or_else(|| std::path::absolute(path), |job| Ok(job.path()))
    }
}

/// The text of a file of which a job is read.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    /// What came through standard input, which is over once it was read: a file is read again after a look-up.
    static GIVEN: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let bytes = if path == Path::new(STANDARD_INPUT) {
        GIVEN.get_or_init(|| read_bytes(io::stdin())).clone()?
    } else {
        let unreadable = |error| format!("cannot read the job file: {error}{}", near_path::hint(path));
        if !fence::pass(path, &path.display().to_string()) {
            return Err("it is not among what came with the job".to_owned());
        }
        read_bytes(File::open(path).map_err(unreadable)?)?
    };
    utf8(bytes)
}

fn text_in(source: impl Read) -> Result<String, String> {
    utf8(read_bytes(source)?)
}

fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text: give a job file in UTF-8".to_owned())
}

/// All bytes of a job file.
fn read_bytes(source: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    source
        .take(MAX_FILE_SIZE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read the job file: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_SIZE {
        return Err(format!("the file is larger than {MAX_FILE_SIZE} bytes: give a job file"));
    }
    Ok(bytes)
}
