//! `completions`: what a shell needs to complete the commands.

use std::process::ExitCode;

use crate::cli::Completions;
use crate::failure::{Code, Failure};
use crate::{completion, output};

/// Prints the lines for the shell.
pub(super) fn completions(arguments: &Completions) -> Result<ExitCode, Failure> {
    output::bytes(&completion::registration(arguments.shell))?;
    Ok(Code::Completed.into())
}
