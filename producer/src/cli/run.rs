//! What can be said to the commands that run a job.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::jobs::{Job, Whereabouts};
use super::servers::Servers;
use super::values::key_value;
use crate::completion;

/// Which code of a job is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeChoice {
    /// What `source_directory` holds now.
    New,
    /// What the job ran last.
    Old,
}

/// Write a script, a job file and three inputs to begin with.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// The folder to make; its name is that of the job.
    #[arg(value_name = "NAME")]
    pub(crate) folder: PathBuf,
    /// Tables as inputs, in place of files.
    #[arg(long)]
    pub(crate) tabular: bool,
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

/// Say what a key of a job file takes and means, or list all of them.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The key, as a job file or a message has it: `node_count`, `inputs.path`.
    #[arg(value_name = "KEY", add = completion::keys())]
    pub(crate) key: Option<String>,
}

/// Check a job file, import its script and plan the job; run nothing.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// The job file.
    pub(crate) job_file: PathBuf,
    /// Override a setting of the job file; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Run one mini-batch here, in this terminal, and show what would be written.
#[derive(Debug, Args)]
pub(crate) struct Try {
    /// A job file, or a former job: its id, its beginning, its name, @latest or @failed, or the folder of its run.
    #[arg(value_name = "JOB", add = completion::job_files_and_jobs())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) whereabouts: Whereabouts,
    /// The first mini-batch of the former job that failed, as it was there.
    #[arg(long)]
    pub(crate) failed: bool,
    /// The mini-batch with this number, from 0, in place of the first one.
    #[arg(long, value_name = "N", conflicts_with = "item")]
    pub(crate) mini_batch: Option<u64>,
    /// The first mini-batch that has this file or object; of a table, `FILE:ROW` with a row from 0, after the header.
    #[arg(long, value_name = "ITEM")]
    pub(crate) item: Option<String>,
    /// Look into what `init()` or `run()` raises with pdb.
    #[arg(long)]
    pub(crate) pdb: bool,
    /// Have debugpy wait on this port of this machine for an editor to connect.
    #[arg(long, value_name = "PORT", conflicts_with = "pdb", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) listen: Option<u16>,
    /// Print it as a test for pytest, and run nothing; with `--code old` the test runs the code of the job.
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
