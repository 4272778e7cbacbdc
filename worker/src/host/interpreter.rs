//! Which Python runs the entry script: the job's `environment`, else the active virtual environment, else the
//! environment that prs is installed in, else `python3` (spec section 2).

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use prs_common::job::Environment;

use crate::host::python_home::{own_interpreter, program_folder};

/// The interpreter is not there.
#[derive(Debug, thiserror::Error)]
pub enum InterpreterMissing {
    /// The job names one.
    #[error("environment names {0}, and {what}; install it, or name another one", what = if .0.contains('/') { "there is no such file that can be run" } else { "there is no such command on PATH" })]
    Named(String),
    /// The active virtual environment has none.
    #[error(
        "VIRTUAL_ENV is {}, which has no bin/python; activate another one, or name an interpreter with the key environment",
        .0.display()
    )]
    VirtualEnvironment(PathBuf),
    /// The host has none.
    #[error("python3 is not on PATH; install it, or name an interpreter with the key environment")]
    Default,
}

/// The interpreter for a job whose `environment` is `named`.
pub fn find_interpreter(named: Option<&str>) -> Result<PathBuf, InterpreterMissing> {
    if let Some(named) = named {
        return on_path(named).ok_or_else(|| InterpreterMissing::Named(named.to_owned()));
    }
    if let Some(virtual_env) = env::var_os("VIRTUAL_ENV") {
        let python = Path::new(&virtual_env).join("bin/python");
        return if python.is_file() {
            Ok(python)
        } else {
            Err(InterpreterMissing::VirtualEnvironment(virtual_env.into()))
        };
    }
    own_interpreter().or_else(|| on_path("python3")).ok_or(InterpreterMissing::Default)
}

/// A program on `PATH`, or in the folder of this one.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    on_path(name)
        .or_else(|| program_folder().map(|folder| folder.join(name)).filter(|path| is_executable(path)))
}

/// Why the interpreter of a job with this `environment` is what it is.
pub fn how_found(environment: Option<&Environment>) -> String {
    let named = match environment {
        Some(Environment::Packages(packages)) if packages.from.is_empty() => {
            return "made of the packages of environment".to_owned();
        }
        Some(Environment::Packages(packages)) => return format!("made of {}", packages.from),
        Some(Environment::Interpreter(named)) => Some(&**named),
        None => None,
    };
    match named {
        Some(path) if path.contains('/') => "named by environment".to_owned(),
        Some(command) => format!("the command {command} of environment, on PATH"),
        None if env::var_os("VIRTUAL_ENV").is_some() => "of the active virtual environment".to_owned(),
        None if own_interpreter().is_some() => {
            "of the Python environment that prs is installed in; no other is active".to_owned()
        }
        None => "python3 on PATH; no virtual environment is active".to_owned(),
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// A file, or a command looked up on `PATH`. Links are kept: a virtual environment's Python is one.
fn on_path(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return std::path::absolute(command).ok().filter(|path| is_executable(path));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(command)).find(|candidate| is_executable(candidate))
}
