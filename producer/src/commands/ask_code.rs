//! Which code runs the rest of a job, asked at the terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Context;
use prs_jobs::submit::code_choice::CodeChoice;

use crate::failure::Failure;
use crate::terminal::output;

/// Asks the person at the terminal; nothing where there is none.
pub(super) fn ask_code(told: &str, sources: &str) -> Result<Option<CodeChoice>, Failure> {
    let (stdin, mut stderr) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Ok(None);
    }
    output::ask(format_args!(
        "{told}\n  new  the rest runs with {sources} as it is now\n  old  the rest runs with the code of the job\n"
    ));
    loop {
        let _ = write!(stderr, "which code? [new/old] ");
        let mut line = String::new();
        let read = stdin.lock().read_line(&mut line).context("cannot read the answer");
        if read.map_err(Failure::usage)? == 0 {
            return Ok(None);
        }
        match line.trim() {
            "new" => return Ok(Some(CodeChoice::New)),
            "old" => return Ok(Some(CodeChoice::Old)),
            _ => {}
        }
    }
}
