//! A program that is another name of `prs`: it becomes the `prs` in its own folder, and keeps its process id.

use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Exit code where there is no `prs`: that of a shell for a command that is not found.
const NOT_FOUND: u8 = 127;

/// Becomes `prs`, called by `name`.
pub(crate) fn run(name: &str) -> ExitCode {
    let error = become_prs(name);
    let _ = writeln!(
        io::stderr(),
        "error: {name} is another name of prs, which cannot be started: {error}; \
         install prs and its other names into one folder"
    );
    ExitCode::from(NOT_FOUND)
}

fn become_prs(name: &str) -> io::Error {
    let program = match env::current_exe() {
        Ok(own) => own.with_file_name("prs"),
        Err(error) => return error,
    };
    let error = Command::new(&program).arg0(name).args(env::args_os().skip(1)).exec();
    io::Error::new(error.kind(), format!("{}: {error}", program.display()))
}
