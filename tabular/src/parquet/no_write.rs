//! No Parquet files are written: the program was built without the feature `parquet`. No frame is understood, so there are
//! no columns of a file, and no file.

use bytes::Bytes;

pub use super::misfit::Misfit;

/// Whether this program writes Parquet files.
pub const IS_HERE: bool = false;

/// Why frames cannot be written.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("this program was built without the feature parquet")]
pub struct FrameError;

/// The columns of a frame.
#[derive(Debug, Clone)]
pub struct FrameSchema(());

impl FrameSchema {
    /// Fails.
    pub fn decode(_: &str) -> Result<Self, FrameError> {
        Err(FrameError)
    }
}

/// The columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSchema(());

/// Fails.
pub fn unify(_: &[(u64, &FrameSchema)]) -> Result<FileSchema, Misfit> {
    Err(Misfit::Refused { column: String::new(), first: 0, error: FrameError.to_string() })
}

/// A file that is being written.
#[derive(Debug)]
pub struct FileWriter(());

impl FileWriter {
    /// Fails.
    pub fn new(_: FileSchema) -> Result<Self, FrameError> {
        Err(FrameError)
    }

    /// Fails.
    pub fn add(&mut self, _: Bytes) -> Result<(), FrameError> {
        Err(FrameError)
    }

    /// Fails.
    pub fn take_written(&mut self) -> Result<Bytes, FrameError> {
        Err(FrameError)
    }

    /// Fails.
    pub fn finish(self) -> Result<Bytes, FrameError> {
        Err(FrameError)
    }
}

/// Rows as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The names of the columns.
    pub header: String,
    /// The rows, at most as many as were asked for.
    pub rows: Vec<String>,
}

/// Fails.
pub fn shown(_: Bytes, _: usize) -> Result<Shown, FrameError> {
    Err(FrameError)
}
