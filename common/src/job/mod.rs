//! The job file: from YAML to a checked [`JobSpec`].
//!
//! Reading runs one way: `yaml` (text to nodes with line numbers) -> `form` (which of the known
//! forms it is, lifted into the native keys, P1) -> `settings` (overrides, P2) -> `validate`
//! (defaults, types, ranges, what the disk must have). All problems of a file are reported at
//! once. The script's own syntax is not looked at here.

use std::path::Path;

mod error;
mod spec;

pub use error::{JobFileError, Problem};
pub use spec::{
    Infer, Input, InputKind, InputMode, InputSource, JobSpec, LoggingLevel, MiniBatchSize, OutputAction,
    TabularOptions,
};

/// Reads and checks a job file, with `overrides` (`--set key=value`, P2) on top.
///
/// # Errors
/// Every problem of the file at once; nothing is connected to or written before.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<JobSpec, JobFileError> {
    let _ = overrides;
    Err(JobFileError {
        path: path.to_owned(),
        problems: vec![Problem { key: String::new(), line: None, message: "not supported yet".to_owned() }],
    })
}
