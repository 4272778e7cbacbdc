//! The commands: each a function from arguments to an exit code.

mod ask_code;
mod assets;
mod azure_jobs;
mod browser;
mod cancel;
mod completions;
mod doctor;
mod endpoints;
mod errors;
mod explain;
#[cfg_attr(not(feature = "fleet"), path = "no_fleet.rs")]
mod fleet;
mod gc;
mod id_file;
mod list;
mod logs;
mod man;
mod new;
mod pipeline;
mod profiles;
mod remove;
mod report;
mod result;
mod run;
#[cfg_attr(not(feature = "serve"), path = "no_server.rs")]
mod server;
mod show;
mod status;
mod stream;
mod summary;
#[cfg(test)]
mod tests;
mod token;
mod try_one;
mod validate;
mod who;

use std::process::ExitCode;

use anyhow::Context;
use prs_common::traces;
use prs_jobs::homes::naming;
use prs_worker::survive_file_size_limit;

use crate::cli::{Arguments, Command};
use crate::failure::Failure;
use crate::terminal::log::{Level, log};
use crate::terminal::{output, signals};

pub(crate) use completions::answer as answer_shell;

/// Does what the command line says.
pub(crate) fn run(mut arguments: Arguments) -> Result<ExitCode, Failure> {
    let is_worker = matches!(arguments.command, Command::Worker(_));
    let usual = if is_worker { Level::Info } else { Level::Warn };
    log(usual.as_told(arguments.telling.quiet, arguments.telling.verbose)).map_err(Failure::usage)?;
    let notes = arguments.command.settle_servers().map_err(Failure::usage)?;
    arguments.command.refuse_server(std::env::var("PRS_SERVER").ok().as_deref())?;
    for note in notes {
        output::note(format_args!("note: {note}"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let format = arguments.format();
    let service = match &arguments.command {
        Command::Worker(_) => "prs-worker",
        Command::Serve(_) => "prs-server",
        _ => "prs",
    };
    let work = async {
        survive_file_size_limit().and_then(|()| signals::hear(format)).context("cannot catch signals")?;
        if let Some((name, whereabouts)) = arguments.command.job_mut() {
            *name = naming::resolve(name, &whereabouts.settled()?).await?;
        }
        match arguments.command {
            Command::New(arguments) => new::new(&arguments, format),
            Command::Explain(arguments) => explain::explain(&arguments, format),
            Command::Submit(submit) => Box::pin(run::submit(&submit, format)).await,
            Command::Try(arguments) => Box::pin(try_one::try_one(&arguments, format)).await,
            Command::Resume(resume) => Box::pin(run::resume(&resume, format)).await,
            Command::Resubmit(resubmit) => Box::pin(run::resubmit(&resubmit, format)).await,
            Command::Validate(validate) => Box::pin(validate::validate(&validate, format)).await,
            Command::Result(fetch) => Box::pin(result::result(&fetch, format)).await,
            Command::Logs(logs) => Box::pin(logs::logs(&logs, format)).await,
            Command::Errors(arguments) => Box::pin(errors::errors(&arguments, format)).await,
            Command::Report(arguments) => Box::pin(report::report(&arguments, format)).await,
            Command::Status(job) => Box::pin(status::status(&job, format)).await,
            Command::List(list) => Box::pin(list::list(&list, format)).await,
            Command::Show(job) => Box::pin(show::show(&job, format)).await,
            Command::Stream(job) => Box::pin(stream::stream(&job, format)).await,
            Command::Cancel(job) => Box::pin(cancel::cancel(&job, format)).await,
            Command::Rm(arguments) => Box::pin(remove::remove(&arguments, format)).await,
            Command::Completions(arguments) => completions::completions(&arguments),
            Command::Man(arguments) => man::man(&arguments, format),
            Command::Gc(arguments) => Box::pin(gc::gc(&arguments, format)).await,
            Command::Dataset(arguments) => Box::pin(assets::dataset(arguments, format)).await,
            Command::Model(arguments) => Box::pin(assets::model(arguments, format)).await,
            Command::Environment(arguments) => Box::pin(assets::environment(arguments, format)).await,
            Command::Component(arguments) => Box::pin(assets::component(arguments, format)).await,
            Command::Endpoint(arguments) => Box::pin(endpoints::endpoint(arguments, format)).await,
            Command::Deployment(arguments) => Box::pin(endpoints::deployment(arguments, format)).await,
            Command::Invoke(arguments) => Box::pin(endpoints::invoke(&arguments, format)).await,
            Command::Job(arguments) => Box::pin(azure_jobs::job(arguments, format)).await,
            Command::Compute(_) => Err(Failure::wrong(
                "there is no compute to create: a fleet is made of prs worker processes, which serve the target that a job names; map the name in compute: of the configuration",
            )),
            Command::Token(arguments) => Box::pin(token::token(arguments.command, format)).await,
            Command::Worker(arguments) => Box::pin(fleet::worker(arguments)).await,
            Command::Workers(arguments) => Box::pin(fleet::workers(&arguments, format)).await,
            Command::Serve(arguments) => Box::pin(server::serve(&arguments, format)).await,
            Command::TakeUp(arguments) => Box::pin(server::take_up(&arguments)).await,
            Command::Doctor(arguments) => Box::pin(doctor::doctor(&arguments, format)).await,
            Command::Profiles(arguments) => profiles::profiles(&arguments.servers, format),
        }
    };
    let outcome = runtime.block_on(async {
        let sending = traces::start(service).map_err(Failure::usage)?;
        let outcome = work.await;
        if let Some(sending) = sending {
            sending.end().await;
        }
        outcome
    });
    if !is_worker {
        // What still waits for a server that does not answer waits in vain. A worker leaves nothing half done.
        runtime.shutdown_background();
    }
    outcome
}
