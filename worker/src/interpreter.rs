//! Which Python runs the entry script: the job's `environment`, else the active virtual environment, else
//! `python3` (spec section 2).

use std::env;
use std::path::{Path, PathBuf};

/// The interpreter is not there.
#[derive(Debug, thiserror::Error)]
pub enum InterpreterMissing {
    /// The job names one.
    #[error("environment {0:?} is neither an executable file nor a command on PATH")]
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
    on_path("python3").ok_or(InterpreterMissing::Default)
}

/// A file, or a command looked up on `PATH`. Links are kept: a virtual environment's Python is one.
fn on_path(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return std::path::absolute(command).ok().filter(|path| path.is_file());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(command)).find(|candidate| candidate.is_file())
}
