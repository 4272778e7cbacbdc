//! `prs`: the one program; `prs-producer` and `prs-worker` are other names of it.

mod cli;
mod code_choice;
mod code_notes;
mod colours;
mod commands;
mod completion;
mod embedded;
mod failure;
mod fleet;
mod left_behind;
mod log;
mod log_tail;
mod naming;
mod output;
mod output_copy;
mod output_folder;
mod place;
mod progress;
mod records;
mod run_folder;
mod script_check;
mod standing;
mod summary;
mod table;
mod trial;

use std::process::ExitCode;

fn main() -> ExitCode {
    prs_worker::keep_little_memory();
    completion::answer();
    let arguments = cli::parse();
    output::begin(&arguments.telling);
    let format = arguments.output;
    prs_worker::raise_descriptor_limit();
    let outcome = commands::run(arguments);
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            output::complain(&failure, format);
            failure.code.into()
        }
    }
}
