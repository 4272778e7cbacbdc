//! The job file: from YAML to a checked [`JobSpec`].
//!
//! Reading runs one way: `yaml` (text to nodes with line numbers) -> `form` (which of the known
//! forms it is, lifted into the native keys, P1) -> `settings` (overrides, P2) -> `validate`
//! (what the table in `keys` says of each, and what the disk must have). All problems of a file are reported at
//! once. The script's own syntax is not looked at here.

use std::fs::File;
use std::io::Read;
use std::path::Path;

mod arguments;
mod environment;
mod error;
mod file_name;
pub(crate) mod form;
mod inputs;
pub mod keys;
pub(crate) mod near_name;
mod near_path;
mod output_format;
pub(crate) mod reader;
mod settings;
mod spec;
mod takes;
#[cfg(test)]
mod tests;
mod validate;
pub(crate) mod yaml;

pub use crate::dataset::input::{Infer, Input, InputKind, InputMode, InputSource, TabularOptions};
pub use arguments::given_arguments;
pub use error::{JobFileError, Problem};
pub use file_name::check_file_name;
pub use near_name::nearest;
pub use output_format::note_on_csv;
pub use spec::{JobSpec, LoggingLevel, MiniBatchSize, OutputAction, OutputFormat};
pub use takes::Takes;
pub use validate::{check_name, check_target, script_below};

use form::RawSettings;
use keys::Start;
use reader::Reader;

/// Bytes beyond which a file is taken for something else than a job file.
const MAX_FILE_SIZE: u64 = 4 << 20;

/// Where the processes of a job will run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    /// On this machine.
    ThisMachine,
    /// On hosts that may have what this machine lacks: its interpreter is looked for there.
    Workers,
}

/// Reads and checks the job file of a job that runs on this machine, with `overrides` (`--set key=value`, P2) on top.
///
/// Relative paths in the file start from its folder. Connects to nothing and writes nothing.
///
/// # Errors
/// Every problem of the file at once.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<JobSpec, JobFileError> {
    load_for(RunsOn::ThisMachine, path, overrides)
}

/// The same, for a job that runs elsewhere.
///
/// # Errors
/// Every problem of the file at once.
pub fn load_for(
    runs_on: RunsOn,
    path: &Path,
    overrides: &[(String, String)],
) -> Result<JobSpec, JobFileError> {
    let mut problems = Vec::new();
    let spec = read(runs_on, path, overrides, &mut problems);
    match spec {
        Some(spec) if problems.is_empty() => Ok(spec),
        _ => {
            problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
            Err(JobFileError { path: path.to_owned(), problems })
        }
    }
}

/// A job that was checked before, with `overrides` (`resubmit --set key=value`, P2) on top. They are held to the same
/// rules as those of [`load`]; `named` is what problems call the job.
///
/// # Errors
/// Every problem of the overrides at once.
pub fn change(spec: &JobSpec, named: &str, overrides: &[(String, String)]) -> Result<JobSpec, JobFileError> {
    let name = check_file_name(&spec.append_row_file_name).err();
    let name = name.map(|message| Problem { key: "append_row_file_name".to_owned(), line: None, message });
    let folder = spec.source_directory.as_path();
    set(spec, Start::Submission, overrides, (folder, RunsOn::ThisMachine), named, name.into_iter().collect())
}

/// The settings of a job for another start of it (`resume --set key=value`), which leave the plan as it is. Relative
/// paths start from `folder`; `named` is what problems call the job.
///
/// # Errors
/// Every problem of the overrides at once.
pub fn adjust(
    spec: &JobSpec,
    named: &str,
    overrides: &[(String, String)],
    folder: &Path,
    runs_on: RunsOn,
) -> Result<JobSpec, JobFileError> {
    set(spec, Start::Resumption, overrides, (folder, runs_on), named, Vec::new())
}

/// `spec` with `overrides` on top, where there are no `problems`.
fn set(
    spec: &JobSpec,
    start: Start,
    overrides: &[(String, String)],
    (folder, runs_on): (&Path, RunsOn),
    named: &str,
    mut problems: Vec<Problem>,
) -> Result<JobSpec, JobFileError> {
    let mut raw = RawSettings::default();
    settings::apply_overrides(&mut raw, start, overrides, &mut problems);
    let mut changed = spec.clone();
    validate::adjust(&mut changed, &mut Reader::new(raw, &mut problems), folder, runs_on);
    if problems.is_empty() { Ok(changed) } else { Err(JobFileError { path: named.into(), problems }) }
}

/// The spec, whole only where no problem was found; `None` where the file could not be read as YAML.
fn read(
    runs_on: RunsOn,
    path: &Path,
    overrides: &[(String, String)],
    problems: &mut Vec<Problem>,
) -> Option<JobSpec> {
    let mut refuse = |line, message| problems.push(Problem { key: String::new(), line, message });
    let text = match read_text(path) {
        Ok(text) => text,
        Err(message) => {
            refuse(None, message);
            return None;
        }
    };
    let document = match yaml::parse(&text) {
        Ok(document) => document,
        Err(error) => {
            refuse(error.line, error.message);
            return None;
        }
    };
    let absolute = match std::path::absolute(path) {
        Ok(absolute) => absolute,
        Err(error) => {
            refuse(None, format!("the current folder is not known: {error}"));
            return None;
        }
    };
    let mut raw = form::lift(document, problems)?;
    settings::apply_overrides(&mut raw, Start::Submission, overrides, problems);
    Some(validate::validate(raw, absolute.parent().unwrap_or(Path::new("/")), runs_on, problems))
}

fn read_text(path: &Path) -> Result<String, String> {
    let unreadable = |error| format!("cannot read the job file: {error}{}", near_path::hint(path));
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_SIZE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read the job file: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_SIZE {
        return Err(format!("the file is larger than {MAX_FILE_SIZE} bytes: give a job file"));
    }
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text: give a job file in UTF-8".to_owned())
}
