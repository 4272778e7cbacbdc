//! What can be said to the commands that run a job.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use prs_common::job::{Invocation, STANDARD_INPUT};
use prs_jobs::submit::code_choice;

use super::jobs::{Job, WhereaboutsArguments};
use super::servers::Servers;
use super::values::key_value;

/// Which code of a job is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeChoice {
    /// What `source_directory` holds now.
    New,
    /// What the job ran last.
    Old,
}

impl From<CodeChoice> for code_choice::CodeChoice {
    fn from(choice: CodeChoice) -> Self {
        match choice {
            CodeChoice::New => Self::New,
            CodeChoice::Old => Self::Old,
        }
    }
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

/// Heading of the options that only batch deployments take.
const DEPLOYMENT: &str = "One run of a batch deployment";

/// What one run of a batch deployment is given.
#[derive(Debug, Args)]
#[command(next_help_heading = DEPLOYMENT)]
pub(crate) struct OfDeployment {
    /// The data: a file or a folder of this machine, or a URL.
    #[arg(long, value_name = "DATA")]
    input: Option<String>,
    /// What the data are: `uri_folder` or `uri_file`.
    #[arg(long, value_name = "TYPE", requires = "input")]
    input_type: Option<String>,
    /// Files in a mini-batch.
    #[arg(short = 'm', long, value_name = "N")]
    mini_batch_size: Option<String>,
    /// Nodes of the fleet.
    #[arg(short = 'c', long, value_name = "N")]
    instance_count: Option<String>,
    /// The folder for the output, of this machine or of a bucket, which must not hold a result already.
    #[arg(long, value_name = "FOLDER")]
    output_path: Option<String>,
    /// The id of the job, which no other may have.
    #[arg(long, value_name = "NAME")]
    job_name: Option<String>,
    /// The experiment that the job is kept under.
    #[arg(long, value_name = "NAME")]
    experiment_name: Option<String>,
}

impl OfDeployment {
    /// The id that the job is to have, where it is given one.
    pub(crate) fn job_id(&self) -> Option<&str> {
        self.job_name.as_deref()
    }

    /// The same, for the reader of job files.
    pub(crate) fn invocation(&self) -> Invocation {
        Invocation {
            input: self.input.clone(),
            input_type: self.input_type.clone(),
            mini_batch_size: self.mini_batch_size.clone(),
            instance_count: self.instance_count.clone(),
            output_path: self.output_path.clone(),
            job_name: self.job_name.clone(),
            experiment_name: self.experiment_name.clone(),
            is_check: false,
            is_deployment: false,
        }
    }
}

/// Run a job and wait for its end.
#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// The job file; `-` reads it from standard input.
    pub(crate) job_file: PathBuf,
    /// Without a fleet: folder of the run [default: ./prs-runs/JOB_ID, or below --runs].
    #[arg(long, conflicts_with = "runs")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Without a fleet: folder that holds the runs of this machine [default: prs-runs].
    #[arg(long)]
    pub(crate) runs: Option<PathBuf>,
    /// Write the id of the job to this file as soon as there is one.
    #[arg(long, value_name = "FILE")]
    pub(crate) id_file: Option<PathBuf>,
    /// The id of the job, which no other may have [default: its name, the time and four digits].
    #[arg(long, value_name = "JOB_ID", conflicts_with = "job_name")]
    pub(crate) name: Option<String>,
    /// Override a setting of the job file; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// On a fleet: hand the job in and do not wait for its end.
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(flatten)]
    pub(crate) of_deployment: OfDeployment,
}

/// Say what a key of a job file takes and means, or list all of them.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The key, as a job file or a message has it: `node_count`, `inputs.path`.
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<String>,
}

/// Check a job file, import its script and plan the job; run nothing.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// The job file; `-` reads it from standard input.
    pub(crate) job_file: PathBuf,
    /// Override a setting of the job file; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(flatten)]
    pub(crate) of_deployment: OfDeployment,
}

/// Run one mini-batch here, in this terminal, and show what would be written.
#[derive(Debug, Args)]
pub(crate) struct Try {
    /// A job file, or a former job: its id, its beginning, its name, @latest or @failed, or the folder of its run.
    #[arg(value_name = "JOB")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
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
    /// Put the data of the test into this folder, in place of the test itself.
    #[arg(long, value_name = "DIR", requires = "pytest")]
    pub(crate) data: Option<PathBuf>,
    /// Of a former job: the code of its `source_directory` as it is now, which is the default, or that of the job.
    #[arg(long, value_enum)]
    pub(crate) code: Option<CodeChoice>,
    /// Override a setting; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) of_deployment: OfDeployment,
}

/// Run what is missing or failed of a former job.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) job: Job,
    /// Which code runs the rest, where `source_directory` is no longer what the job was submitted with.
    #[arg(long, value_enum)]
    pub(crate) code: Option<CodeChoice>,
    /// Of what failed run the mini-batches of one error group alone: its id, as `errors -o json` has it.
    #[arg(long, value_name = "GROUP")]
    pub(crate) only_group: Option<String>,
    /// Override a setting that leaves the mini-batches as they are; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// On a fleet: start the job and do not wait for its end.
    #[arg(long)]
    pub(crate) detach: bool,
    /// Write the id of the job to this file as soon as it goes on.
    #[arg(long, value_name = "FILE")]
    pub(crate) id_file: Option<PathBuf>,
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

/// Whether a name is that of a job file, and not of a job.
pub(crate) fn is_job_file(name: &str) -> bool {
    let path = Path::new(name);
    let is_yaml = path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml");
    path.is_file() || (is_yaml && !path.is_dir()) || name == STANDARD_INPUT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_file_is_told_from_a_job() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("job"), "").unwrap();
        std::fs::create_dir(path("run.yml")).unwrap();
        for (name, is) in [
            (path("job"), true),
            (path("absent.yml"), true),
            (path("absent.yaml"), true),
            ("-".to_owned(), true),
            (path("run.yml"), false),
            (path(""), false),
            ("job-20261121-120000-1a2b".to_owned(), false),
        ] {
            assert_eq!(is_job_file(&name), is, "{name}");
        }
    }
}
