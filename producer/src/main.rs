//! `prs`: the one program; `prs-producer` and `prs-worker` are other names of it. What is known of jobs, the library `prs_jobs`
//! has. Its folders, from the bottom up: `terminal`, `progress`, `cli`, `trial`, `commands`; a folder uses those before it alone.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it needs by path"))]

mod cli;
mod commands;
mod failure;
mod progress;
mod terminal;
mod trial;

use std::process::ExitCode;

use crate::failure::Code;
use crate::terminal::output;

fn main() -> ExitCode {
    prs_worker::keep_little_memory();
    commands::answer_shell();
    let arguments = cli::parse();
    output::begin(arguments.telling.color, arguments.telling.quiet);
    let format = arguments.format();
    prs_worker::raise_descriptor_limit();
    let outcome = arguments.choose_shape().and_then(|()| commands::run(arguments));
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            output::print_failure(&failure, format);
            Code::from(failure.kind).into()
        }
    }
}
