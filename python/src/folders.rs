//! Folders and files of a process at paths below what its agent holds open: a link that somebody has put there meanwhile leads
//! nowhere, and a file that others may hold is not written to.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use prs_common::tree::{self, Held};

use crate::connection::inherit;

/// What is held, as long as the process lives.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

/// Takes over an inherited descriptor of the folder at `path`: paths below lead down from it.
#[pyo3::pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what Python gives is converted to it")]
pub(crate) fn hold(descriptor: RawFd, path: PathBuf) -> pyo3::PyResult<()> {
    let folder = Arc::new(inherit(descriptor, "folder")?.into());
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(Held::of(&path, folder));
    Ok(())
}

/// Makes the folder at `path`, and those above it that are missing.
#[pyo3::pyfunction]
pub(crate) fn make_folders(path: PathBuf) -> io::Result<()> {
    tree::make_folders(path)
}

/// Opens the folder at `path`. Returns the descriptor.
#[pyo3::pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what Python gives is converted to it")]
pub(crate) fn open_folder(path: PathBuf) -> io::Result<RawFd> {
    Ok(tree::root(&path)?.to_owned_descriptor()?.into_raw_fd())
}

/// Opens the file at `path` to append to it, or makes it. Returns the descriptor.
#[pyo3::pyfunction]
pub(crate) fn append_to(path: PathBuf) -> io::Result<RawFd> {
    Ok(OwnedFd::from(tree::append(path)?).into_raw_fd())
}

/// Makes a new file at `path`. Returns the descriptor.
#[pyo3::pyfunction]
pub(crate) fn create(path: PathBuf) -> io::Result<RawFd> {
    Ok(OwnedFd::from(tree::create(path)?).into_raw_fd())
}

/// Gives the file at `path` this content: all of it at once, for those who read it.
#[pyo3::pyfunction]
pub(crate) fn write_whole(path: PathBuf, content: &[u8]) -> io::Result<()> {
    tree::write_whole(path, content)
}
