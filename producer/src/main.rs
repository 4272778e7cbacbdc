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
    raise_descriptor_limit();
    let outcome = commands::run(arguments);
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            output::complain(&failure);
            failure.code.into()
        }
    }
}

/// Every process of a job takes some descriptors: allows as many as this user may have.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, a job of many processes says so itself.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}
