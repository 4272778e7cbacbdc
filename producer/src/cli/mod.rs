//! The command line: what can be said. What it means is in `commands`.

mod fleet;
mod jobs;
mod run;
mod servers;
mod values;

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::exit;

use clap::{Parser, Subcommand, ValueEnum};
use prs_common::config::ConfigError;

use crate::failure::Failure;
use crate::output;
use crate::trial::is_job_file;

pub(crate) use fleet::{Doctor, Profiles, Worker, Workers};
pub(crate) use jobs::{Collect, Errors, Fetch, Job, List, Logs, Order, Remove, Whereabouts};
pub(crate) use run::{CodeChoice, New, Resubmit, Resume, Submit, Try, Validate};
pub(crate) use servers::FleetServers;

/// The other name of `prs worker`.
const WORKER: &str = "prs-worker";
/// Exit code where a help that was asked for cannot be written.
const UNWRITTEN: i32 = 42;

/// Runs a Python entry script over many files and rows, in parallel.
#[derive(Debug, Parser)]
#[command(name = "prs", version, propagate_version = true)]
pub(crate) struct Arguments {
    /// How data is printed on standard output.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Serves the jobs of a fleet on this host.
#[derive(Debug, Parser)]
#[command(name = WORKER, version)]
struct WorkerAlone {
    #[command(flatten)]
    worker: Worker,
}

/// The arguments of the program, under the name that it was called by. Wrong ones end it, and so does the wish for help
/// or its version.
pub(crate) fn parse() -> Arguments {
    let called = std::env::args_os().next().unwrap_or_default();
    let arguments = if Path::new(&called).file_name() == Some(OsStr::new(WORKER)) {
        WorkerAlone::try_parse()
            .map(|alone| Arguments { output: Format::Table, command: Command::Worker(alone.worker) })
    } else {
        Arguments::try_parse()
    };
    arguments.unwrap_or_else(|error| {
        let written = error.print().and_then(|()| io::stdout().flush());
        if error.use_stderr() && asks_for_json(std::env::args_os()) {
            output::failure(&refusal(&error));
        }
        let is_lost = written.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe);
        exit(if is_lost && !error.use_stderr() { UNWRITTEN } else { error.exit_code() })
    })
}

/// Whether a command line that may be wrong asks for data for programs.
fn asks_for_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let arguments: Vec<OsString> = arguments.collect();
    let is_one = |one: &OsString| ["-ojson", "-o=json", "--output=json"].iter().any(|json| one == json);
    let is_pair = |pair: &[OsString]| (pair[0] == "-o" || pair[0] == "--output") && pair[1] == "json";
    arguments.iter().any(is_one) || arguments.windows(2).any(is_pair)
}

/// What is wrong with a command line, without how it is to be used.
fn refusal(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let (wrong, _usage) = text.split_once("\n\nUsage:").unwrap_or((&text, ""));
    Failure::wrong(wrong.trim_start_matches("error: ").trim())
}

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a script, a job file and three inputs to begin with.
    New(New),
    /// Run a job and wait for its end.
    Submit(Submit),
    /// Check a job file, import its script and plan the job; run nothing.
    Validate(Validate),
    /// Run one mini-batch here, in this terminal, and show what would be written.
    Try(Try),
    /// Run what is missing or failed of a former job.
    Resume(Resume),
    /// Show where the result of a job is, or fetch it.
    Result(Fetch),
    /// Run a former job again as a new one, with changes.
    Resubmit(Resubmit),
    /// Show where a job stands.
    Status(Job),
    /// List the jobs of a folder, or of a fleet.
    List(List),
    /// Print a former job as a job file, which can be submitted as it is.
    Show(Job),
    /// Follow a job to its end: progress and logs.
    Stream(Job),
    /// Show the distinct errors of a job with their tracebacks, or the items that failed.
    Errors(Errors),
    /// List the logs of a job, print or follow them.
    Logs(Logs),
    /// End a job; what is done is kept.
    Cancel(Job),
    /// Remove jobs that have ended, with their logs and results.
    Rm(Remove),
    /// Show, and remove, jobs that are kept no longer, and uploaded inputs that no job names.
    Gc(Collect),
    /// Serve the jobs of a fleet on this host.
    Worker(Worker),
    /// List the workers of a fleet.
    Workers(Workers),
    /// List the profiles of the configuration, and say which servers are used and why.
    Profiles(Profiles),
    /// Check whether this machine, and the fleet that is configured, have what prs needs.
    Doctor(Doctor),
}

impl Command {
    /// The job that it names, and where to look for it.
    pub(crate) fn job_mut(&mut self) -> Option<(&mut String, &Whereabouts)> {
        let job = match self {
            Self::New(_)
            | Self::Submit(_)
            | Self::Validate(_)
            | Self::List(_)
            | Self::Worker(_)
            | Self::Workers(_)
            | Self::Profiles(_)
            | Self::Doctor(_)
            | Self::Rm(_)
            | Self::Gc(_) => return None,
            Self::Try(Try { name, .. }) if is_job_file(name) => return None,
            Self::Try(Try { name, whereabouts, .. }) => return Some((name, whereabouts)),
            Self::Resume(Resume { job, .. })
            | Self::Result(Fetch { job, .. })
            | Self::Resubmit(Resubmit { job, .. })
            | Self::Logs(Logs { job, .. })
            | Self::Errors(Errors { job, .. })
            | Self::Status(job)
            | Self::Show(job)
            | Self::Stream(job)
            | Self::Cancel(job) => job,
        };
        Some((&mut job.name, &job.whereabouts))
    }

    /// Finds out which servers it uses, and gives back what the user should know of that.
    pub(crate) fn settle_servers(&mut self) -> Result<Vec<String>, ConfigError> {
        let servers = match self {
            Self::Worker(Worker { servers, .. }) | Self::Workers(Workers { servers, .. }) => {
                return servers.settle();
            }
            Self::New(_) | Self::Profiles(_) | Self::Doctor(_) => return Ok(Vec::new()),
            Self::Submit(Submit { servers, .. }) | Self::Validate(Validate { servers, .. }) => servers,
            Self::List(List { whereabouts, .. })
            | Self::Rm(Remove { whereabouts, .. })
            | Self::Gc(Collect { whereabouts, .. })
            | Self::Try(Try { whereabouts, .. })
            | Self::Resume(Resume { job: Job { whereabouts, .. }, .. })
            | Self::Result(Fetch { job: Job { whereabouts, .. }, .. })
            | Self::Resubmit(Resubmit { job: Job { whereabouts, .. }, .. })
            | Self::Logs(Logs { job: Job { whereabouts, .. }, .. })
            | Self::Errors(Errors { job: Job { whereabouts, .. }, .. })
            | Self::Status(Job { whereabouts, .. })
            | Self::Show(Job { whereabouts, .. })
            | Self::Stream(Job { whereabouts, .. })
            | Self::Cancel(Job { whereabouts, .. }) => &mut whereabouts.servers,
        };
        servers.settle()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        WorkerAlone::command().debug_assert();
        let about = Arguments::command().get_about().unwrap().to_string();
        assert!(about.starts_with("Runs a Python entry script"), "{about}");
    }
}
