//! What can be said to the commands that look at jobs, or remove them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use prs_common::ledger::JobState;
use prs_jobs::Whereabouts;
use prs_jobs::homes::{self, Home};
use prs_jobs::list;

use super::servers::Servers;
use super::values::{state, time};
use crate::failure::Failure;

/// Where the jobs are that a command names.
#[derive(Debug, Clone, Args)]
pub(crate) struct WhereaboutsArguments {
    /// Without a fleet: folder that holds the runs of this machine [default: prs-runs].
    #[arg(long)]
    pub(crate) runs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

impl WhereaboutsArguments {
    /// The same for calls.
    pub(crate) fn settled(&self) -> Result<Whereabouts, Failure> {
        self.servers.whereabouts(self.runs.as_deref())
    }
}

/// A job.
#[derive(Debug, Args)]
pub(crate) struct Job {
    /// Id of the job, its beginning, the name of the job, @latest or @failed; without a fleet also the folder of its run.
    #[arg(value_name = "JOB")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

impl Job {
    /// The job itself.
    pub(crate) async fn find(&self) -> Result<Home, Failure> {
        homes::find(&self.name, &self.whereabouts.settled()?).await
    }
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
    /// The jobs of the steps of this pipeline, in place of all others: its id.
    #[arg(long, value_name = "JOB")]
    pub(crate) parent: Option<String>,
    /// Calls of this endpoint only.
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    /// Calls that this deployment answered only.
    #[arg(long, value_name = "DEPLOYMENT")]
    pub(crate) deployment: Option<String>,
    /// What comes first: the newest, the first name, or the first state.
    #[arg(long, value_enum, default_value_t = Order::Time)]
    pub(crate) sort: Order,
    /// Show the list again every two seconds, until Ctrl-C.
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
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

/// Write a page about a job: how it stands, pictures, errors, nodes, settings.
#[derive(Debug, Args)]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) job: Job,
    /// Where to write it [default: logs/report.html of the run; on a fleet JOB-report.html here].
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Open it in the browser.
    #[arg(long)]
    pub(crate) open: bool,
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
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Show, and remove, jobs that are kept no longer, and uploaded inputs that no job names.
#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Only uploaded inputs older than this: 90s, 30m, 12h, 30d. What a killed submission left stays for an hour at
    /// least.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1d")]
    pub(crate) older: Duration,
    /// Remove what is shown.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
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

impl From<Order> for list::Order {
    fn from(order: Order) -> Self {
        match order {
            Order::Time => Self::Time,
            Order::Name => Self::Name,
            Order::State => Self::State,
        }
    }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use crate::cli::{Arguments, Command};

    #[test]
    fn a_folder_of_runs_is_refused_on_a_fleet() {
        let servers = ["--broker", "amqp://h", "--redis", "redis://h", "--storage", "s3://bucket"];
        let settled = |arguments: &[&str]| {
            let arguments = [&["prs", "list"], arguments].concat();
            let Command::List(list) = Arguments::try_parse_from(arguments).unwrap().command else {
                unreachable!("a list was asked for")
            };
            list.whereabouts.settled()
        };
        assert!(settled(&servers).unwrap().urls.is_some());
        let here = settled(&["--runs", "elsewhere", "--broker", "", "--redis", "", "--storage", ""]).unwrap();
        assert!(here.urls.is_none() && here.runs == Path::new("elsewhere"));
        let refused = settled(&[&servers[..], &["--runs", "elsewhere"]].concat()).err().unwrap();
        assert!(refused.is_usage() && refused.to_string().starts_with("--runs is for"), "{refused}");
    }
}
