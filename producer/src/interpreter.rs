//! Which Python runs the entry script: the job's `environment`, else the active virtual environment, else
//! `python3` (spec section 2).

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The interpreter for a job whose `environment` is `named`.
pub(crate) fn find(named: Option<&str>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return on_path(named).with_context(|| {
            format!("environment {named:?} is neither an executable file nor a command on PATH")
        });
    }
    if let Some(virtual_env) = env::var_os("VIRTUAL_ENV") {
        let python = Path::new(&virtual_env).join("bin/python");
        if !python.is_file() {
            bail!(
                "VIRTUAL_ENV is {}, which has no bin/python; activate another one, or name an interpreter with the key environment",
                python.display()
            );
        }
        return Ok(python);
    }
    on_path("python3")
        .context("python3 is not on PATH; install it, or name an interpreter with the key environment")
}

/// A file, or a command looked up on `PATH`. Links are kept: a virtual environment's Python is one.
fn on_path(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return std::path::absolute(command).ok().filter(|path| path.is_file());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(command)).find(|candidate| candidate.is_file())
}
