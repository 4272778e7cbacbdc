//! `prs-producer`: the front door of prs.

mod cli;
mod commands;
mod embedded;
mod failure;
mod interpreter;
mod output;
mod progress;
mod run_folder;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    let outcome = commands::run(arguments);
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            output::complain(&failure);
            failure.code.into()
        }
    }
}
