//! The commands: each a function from arguments to an exit code.

mod cancel;
mod completions;
mod doctor;
mod errors;
mod explain;
mod fetch;
mod gc;
mod inspect;
mod list;
mod logs;
mod man;
mod new;
mod profiles;
mod remove;
mod run;
mod show;
mod stream;
mod try_one;
mod validate;
mod worker;
mod workers;

use std::process::ExitCode;

use anyhow::Context;
use prs_worker::survive_file_size_limit;

#[cfg(test)]
pub(crate) use self::{
    doctor::Diagnosis, explain::Explained, man::ManualPages, new::Made, profiles::ProfilesView, show::Shown,
    validate::Validated,
};
use crate::cli::{Arguments, Command};
use crate::failure::Failure;
use crate::log::{Level, log};
use crate::{naming, output};

pub(crate) use logs::names as log_names;

/// Does what the command line says.
pub(crate) fn run(mut arguments: Arguments) -> Result<ExitCode, Failure> {
    let is_worker = matches!(arguments.command, Command::Worker(_));
    let usual = if is_worker { Level::Info } else { Level::Warn };
    log(usual.as_told(&arguments.telling)).map_err(Failure::usage)?;
    let notes = arguments.command.settle_servers().map_err(Failure::usage)?;
    for note in notes {
        output::say(format_args!("note: {note}"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let format = arguments.output;
    let outcome = runtime.block_on(async {
        survive_file_size_limit().context("cannot catch signals")?;
        if let Some((name, whereabouts)) = arguments.command.job_mut() {
            *name = naming::resolve(name, whereabouts).await?;
        }
        match arguments.command {
            Command::New(arguments) => new::new(&arguments, format),
            Command::Explain(arguments) => explain::explain(&arguments, format),
            Command::Submit(submit) => run::submit(&submit, format).await,
            Command::Try(arguments) => Box::pin(try_one::try_one(&arguments, format)).await,
            Command::Resume(resume) => Box::pin(run::resume(&resume, format)).await,
            Command::Resubmit(resubmit) => run::resubmit(&resubmit, format).await,
            Command::Validate(validate) => validate::validate(&validate, format).await,
            Command::Result(fetch) => fetch::result(&fetch, format).await,
            Command::Logs(logs) => logs::logs(&logs, format).await,
            Command::Errors(arguments) => errors::errors(&arguments, format).await,
            Command::Status(job) => inspect::status(&job, format).await,
            Command::List(list) => list::list(&list, format).await,
            Command::Show(job) => show::show(&job, format).await,
            Command::Stream(job) => stream::stream(&job, format).await,
            Command::Cancel(job) => cancel::cancel(&job, format).await,
            Command::Rm(arguments) => remove::remove(&arguments, format).await,
            Command::Completions(arguments) => completions::completions(&arguments),
            Command::Man(arguments) => man::man(&arguments, format),
            Command::Gc(arguments) => gc::gc(&arguments, format).await,
            Command::Worker(arguments) => Ok(Box::pin(worker::worker(arguments)).await),
            Command::Workers(arguments) => workers::workers(&arguments, format).await,
            Command::Doctor(arguments) => Box::pin(doctor::doctor(&arguments, format)).await,
            Command::Profiles(arguments) => profiles::profiles(&arguments.servers, format),
        }
    });
    if !is_worker {
        // What still waits for a server that does not answer waits in vain. A worker leaves nothing half done.
        runtime.shutdown_background();
    }
    outcome
}
