//! What can be said to `job`: the verbs and options of `az ml job`, so that scripts for it go on.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::azure::OfAzure;
use super::jobs::WhereaboutsArguments;
use super::values::key_value;

/// Run and look at jobs by the verbs and options of `az ml job`.
#[derive(Debug, Args)]
pub(crate) struct AzureJobs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: AzureJobCommand,
    #[command(flatten)]
    pub(crate) azure: OfAzure,
}

/// What to do with jobs.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum AzureJobCommand {
    /// Run a job file: on a fleet it is handed in, here it runs to its end.
    Create(CreateJob),
    /// Show a job, in Azure's shape.
    Show(NamedJob),
    /// Follow a job to its end.
    Stream(NamedJob),
    /// List jobs, in Azure's shape.
    List(ListAzureJobs),
    /// Copy the outputs of a job, and its logs.
    Download(DownloadJob),
    /// End a job; what is done is kept.
    Cancel(NamedJob),
    /// Change what is said of a job: its name for people, description, tags, and until when it is kept.
    Update(UpdateJob),
}

impl AzureJobCommand {
    pub(super) fn whereabouts_mut(&mut self) -> &mut WhereaboutsArguments {
        match self {
            Self::Create(CreateJob { whereabouts, .. })
            | Self::List(ListAzureJobs { whereabouts, .. })
            | Self::Download(DownloadJob { meant: NamedJob { whereabouts, .. }, .. })
            | Self::Update(UpdateJob { meant: NamedJob { whereabouts, .. }, .. })
            | Self::Show(NamedJob { whereabouts, .. })
            | Self::Stream(NamedJob { whereabouts, .. })
            | Self::Cancel(NamedJob { whereabouts, .. }) => whereabouts,
        }
    }
}

/// Run a job file.
#[derive(Debug, Args)]
pub(crate) struct CreateJob {
    /// The job file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The id of the job, which no other may have.
    #[arg(short, long)]
    pub(crate) name: Option<String>,
    /// Override a setting of the job file; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) set: Vec<(String, String)>,
    /// Wait for the end of the job.
    #[arg(short, long)]
    pub(crate) stream: bool,
    /// Print the address of its page, too.
    #[arg(long)]
    pub(crate) web: bool,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// A job.
#[derive(Debug, Args)]
pub(crate) struct NamedJob {
    /// Id of the job, its beginning, the name of the job, @latest or @failed.
    #[arg(short, long)]
    pub(crate) name: String,
    /// Print the address of its page, too.
    #[arg(long)]
    pub(crate) web: bool,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Change what is said of a job.
#[derive(Debug, Args)]
pub(crate) struct UpdateJob {
    #[command(flatten)]
    pub(crate) meant: NamedJob,
    /// `display_name`, `description`, `tags.NAME`, or `keep_until`, a time in RFC 3339; nothing behind the `=` takes it away. May be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, num_args = 1.., required = true)]
    pub(crate) set: Vec<(String, String)>,
}

/// List jobs.
#[derive(Debug, Args)]
pub(crate) struct ListAzureJobs {
    /// The jobs of the steps of this pipeline, in place of all others: its id.
    #[arg(short, long, value_name = "JOB")]
    pub(crate) parent_job_name: Option<String>,
    /// Jobs at most.
    #[arg(short = 'r', long, value_name = "N")]
    pub(crate) max_results: Option<usize>,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Copy what a job brought.
#[derive(Debug, Args)]
pub(crate) struct DownloadJob {
    #[command(flatten)]
    pub(crate) meant: NamedJob,
    /// One output: its name; `default`, or `score` of a deployment, is all that the job brought [default: that, and the logs].
    #[arg(long, value_name = "OUTPUT")]
    pub(crate) output_name: Option<String>,
    /// The folder that gets named-outputs/OUTPUT and artifacts [default: the current one].
    #[arg(short = 'p', long, value_name = "FOLDER")]
    pub(crate) download_path: Option<PathBuf>,
    /// All outputs and the logs.
    #[arg(long, conflicts_with = "output_name")]
    pub(crate) all: bool,
}
