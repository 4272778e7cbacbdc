//! The command line: what can be said. What it means is in `commands`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use prs_common::ledger::JobState;
use prs_worker::command_line::Servers;

use crate::trial::is_job_file;

/// Runs a Python entry script over many files and rows, in parallel.
#[derive(Debug, Parser)]
#[command(name = "prs-producer", version, propagate_version = true)]
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

/// Which code of a job is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeChoice {
    /// What `source_directory` holds now.
    New,
    /// What the job ran last.
    Old,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a job and wait for its end.
    Submit(Submit),
    /// Check a job file and plan the job; run nothing.
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
    /// Remove jobs that have ended, with their logs and results.
    Rm(Remove),
    /// List the workers of a fleet.
    Workers(Workers),
}

/// Where the jobs are that a command names.
#[derive(Debug, Clone, Args)]
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

/// Run one mini-batch here, in this terminal, and show what would be written.
#[derive(Debug, Args)]
pub(crate) struct Try {
    /// A job file, or a former job: its id, its beginning, its name, @latest or @failed, or the folder of its run.
    #[arg(value_name = "JOB")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) whereabouts: Whereabouts,
    /// The first mini-batch of the former job that failed, as it was there.
    #[arg(long)]
    pub(crate) failed: bool,
    /// The mini-batch with this number, from 0, in place of the first one.
    #[arg(long, value_name = "N", conflicts_with = "item")]
    pub(crate) mini_batch: Option<u64>,
    /// The first mini-batch that has this file or object.
    #[arg(long, value_name = "PATH")]
    pub(crate) item: Option<String>,
    /// Look into what `init()` or `run()` raises with pdb.
    #[arg(long)]
    pub(crate) pdb: bool,
    /// Have debugpy wait on this port of this machine for an editor to connect.
    #[arg(long, value_name = "PORT", conflicts_with = "pdb", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) listen: Option<u16>,
    /// Print it as a test for pytest, and run nothing.
    #[arg(long, conflicts_with_all = ["pdb", "listen"])]
    pub(crate) pytest: bool,
    /// Of a former job: the code of its `source_directory` as it is now, which is the default, or that of the job.
    #[arg(long, value_enum)]
    pub(crate) code: Option<CodeChoice>,
    /// Override a setting; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
}

/// Run what is missing or failed of a former job.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) job: Job,
    /// Which code runs the rest, where `source_directory` is no longer what the job was submitted with.
    #[arg(long, value_enum)]
    pub(crate) code: Option<CodeChoice>,
    /// Override a setting that leaves the mini-batches as they are; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
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
    /// Id of the job, its beginning, the name of the job, @latest or @failed; without a fleet also the folder of its run.
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
    /// Jobs at most [default: 20; with -o json all].
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// All jobs.
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// Jobs in this state only; may be given several times.
    #[arg(long, value_parser = state)]
    pub(crate) state: Vec<JobState>,
    /// Jobs of this name only.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Jobs submitted within this time only: 90s, 30m, 12h, 2d.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) since: Option<Duration>,
    /// What comes first: the newest, the first name, or the first state.
    #[arg(long, value_enum, default_value_t = Order::Time)]
    pub(crate) sort: Order,
    /// Show the list again every two seconds, until Ctrl-C.
    #[arg(short, long)]
    pub(crate) watch: bool,
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

/// List the workers of a fleet.
#[derive(Debug, Args)]
pub(crate) struct Workers {
    /// Those of this compute target only.
    #[arg(long)]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Remove jobs that have ended, with their logs and results.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The jobs: ids, their beginnings, names, @latest or @failed; without a fleet also folders of runs.
    #[arg(value_name = "JOB", conflicts_with_all = ["state", "name", "older"])]
    pub(crate) jobs: Vec<String>,
    /// All jobs in this state; may be given several times.
    #[arg(long, value_parser = state)]
    pub(crate) state: Vec<JobState>,
    /// All jobs of this name.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// All jobs submitted longer ago than this: 90s, 30m, 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) older: Option<Duration>,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) whereabouts: Whereabouts,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// The newest first.
    Time,
    /// By name; of one name the newest first.
    Name,
    /// By state; of one state the newest first.
    State,
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

impl Command {
    /// The job that it names, and where to look for it.
    pub(crate) fn job_mut(&mut self) -> Option<(&mut String, &Whereabouts)> {
        let job = match self {
            Self::Submit(_) | Self::Validate(_) | Self::List(_) | Self::Workers(_) | Self::Rm(_) => {
                return None;
            }
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
}

fn state(text: &str) -> Result<JobState, String> {
    let known = JobState::ALL.map(JobState::as_str);
    let of_this_name = JobState::ALL.into_iter().find(|state| state.as_str() == text);
    of_this_name.ok_or_else(|| format!("it is one of {}", known.join(", ")))
}

fn time(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let parse = |(unit, seconds)| Some(text.strip_suffix(unit)?.parse::<u64>().ok()?.saturating_mul(seconds));
    let seconds = units.into_iter().find_map(parse);
    seconds.map(Duration::from_secs).ok_or_else(|| "give a number and s, m, h or d, as in 2d".to_owned())
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
        let about = Arguments::command().get_about().unwrap().to_string();
        assert!(about.starts_with("Runs a Python entry script"), "{about}");
        assert_eq!(key_value("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(key_value("a").is_err());
        assert_eq!(state("failed"), Ok(JobState::Failed));
        assert!(state("broken").unwrap_err().contains("queued, "));
        let times = [("90s", 90), ("30m", 1800), ("2d", 172_800)];
        assert!(times.iter().all(|(text, seconds)| time(text) == Ok(Duration::from_secs(*seconds))));
        assert!(["", "d", "2", "-1d", "2w"].iter().all(|text| time(text).is_err()));
        assert!(key_value("=b").is_err());
    }
}
