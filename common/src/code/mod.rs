//! The code of a job: which files of `source_directory` are code, and the archive in which they go along.

pub mod archive;
mod error;
pub mod files;

pub use error::{CodeError, LARGEST, MOST_FILES};
