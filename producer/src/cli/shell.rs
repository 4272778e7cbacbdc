//! What can be said to the commands that set a shell up.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Print what a shell needs to complete the commands.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// Bash 4.4 and later.
    Bash,
    /// Zsh.
    Zsh,
    /// Fish.
    Fish,
}

/// Write the help as pages of the manual.
#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// The folder for the pages, prs.1 and one a command; it is made where it is missing.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}
