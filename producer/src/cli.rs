//! The command line: what can be said. What it means is in `commands`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use prs_worker::command_line::Servers;

/// Runs a Python entry script over many files and rows, in parallel.
#[derive(Debug, Parser)]
#[command(name = "prs-producer", version, about, propagate_version = true)]
pub(crate) struct Arguments {
    /// How data is printed on standard output.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
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
    /// Run a job and wait for its end.
    Submit(Submit),
    /// Check a job file and plan the job; run nothing.
    Validate(Validate),
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
    /// Show the settings of a job as they were understood.
    Show(Job),
    /// Follow a job to its end: progress and logs.
    Stream(Job),
    /// Show the distinct errors of a job with their tracebacks, or the items that failed.
    Errors(Errors),
    /// List the logs of a job, print or follow them.
    Logs(Logs),
    /// End a job; what is done is kept.
    Cancel(Job),
}

/// Where the jobs are that a command names.
#[derive(Debug, Args)]
pub(crate) struct Whereabouts {
    /// Without a fleet: folder that holds the runs of this machine [default: prs-runs].
    #[arg(long)]
    pub(crate) runs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Run a job and wait for its end.
#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// The job file.
    pub(crate) job_file: PathBuf,
    /// Without a fleet: folder of the run [default: ./prs-runs/JOB_ID].
    #[arg(long)]
    pub(crate) run_dir: Option<PathBuf>,
    /// Override a setting of the job file; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// On a fleet: hand the job in and do not wait for its end.
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Check a job file and plan the job; run nothing.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// The job file.
    pub(crate) job_file: PathBuf,
    /// Override a setting of the job file; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
}

/// Run what is missing or failed of a former job.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) job: Job,
    /// On a fleet: start the job and do not wait for its end.
    #[arg(long)]
    pub(crate) detach: bool,
}

/// Run a former job again as a new one, with changes.
#[derive(Debug, Args)]
pub(crate) struct Resubmit {
    #[command(flatten)]
    pub(crate) job: Job,
    /// Override a setting of the former job; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Without a fleet: folder of the new run [default: in the folder of --runs].
    #[arg(long)]
    pub(crate) run_dir: Option<PathBuf>,
    /// On a fleet: hand the job in and do not wait for its end.
    #[arg(long)]
    pub(crate) detach: bool,
}

/// A job.
#[derive(Debug, Args)]
pub(crate) struct Job {
    /// Id of the job; without a fleet also the folder of its run.
    #[arg(value_name = "JOB")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) whereabouts: Whereabouts,
}

/// Show where the result of a job is, or fetch it.
#[derive(Debug, Args)]
pub(crate) struct Fetch {
    #[command(flatten)]
    pub(crate) job: Job,
    /// Copy the output into this folder.
    #[arg(long)]
    pub(crate) output_path: Option<PathBuf>,
}

/// List the jobs of a folder, or of a fleet.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) whereabouts: Whereabouts,
}

/// Show the distinct errors of a job with their tracebacks, or the items that failed.
#[derive(Debug, Args)]
pub(crate) struct Errors {
    #[command(flatten)]
    pub(crate) job: Job,
    /// Print the items of mini-batches that failed or lack items, one a line: a file, or file, first and last byte.
    #[arg(long)]
    pub(crate) items: bool,
}

/// List the logs of a job, print or follow them.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    #[command(flatten)]
    pub(crate) job: Job,
    /// The log to print, as the list or a message names it.
    #[arg(long, value_name = "NAME")]
    pub(crate) file: Option<String>,
    /// Go on printing what comes until the job has ended: of --file, else of all processes.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print what the processes that had errors wrote: errors, standard output and standard error.
    #[arg(long, conflicts_with_all = ["file", "follow"])]
    pub(crate) failed: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(key, _)| !key.trim().is_empty())
        .map(|(key, value)| (key.trim().to_owned(), value.to_owned()))
        .ok_or_else(|| format!("{text:?} is not KEY=VALUE"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        assert_eq!(key_value("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(key_value("a").is_err());
        assert!(key_value("=b").is_err());
    }
}
