//! What can be said to the worker, and to the commands about a fleet and its servers.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use prs_worker::NodeSettings;

use super::servers::{FleetServers, Servers};
use super::values::{address, target};

/// Headings of the worker's options: which jobs it serves, and with what of its host.
const JOBS: &str = "Jobs";
const HOST: &str = "Host";

/// Serves the jobs of a fleet on this host.
///
/// Serves one job at a time: runs its mini-batches in Python processes, then looks for the next. The first SIGTERM
/// or Ctrl-C lets what runs end and gives the rest back, the second stops at once. Any number of workers may run on
/// one host.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) servers: FleetServers,
    /// Compute target to work for; may be given several times, or with commas.
    #[arg(long, env = "PRS_TARGET", hide_env_values = true, default_value = "default", value_delimiter = ',', value_parser = target)]
    #[arg(help_heading = JOBS)]
    pub(crate) target: Vec<String>,
    /// Serve this job only, whatever its target, and end with it: 0 completed, 42 failed or canceled, 41 left before its end.
    #[arg(long, help_heading = JOBS)]
    pub(crate) job: Option<String>,
    /// End after so many seconds without a job.
    #[arg(long, value_name = "SECONDS", conflicts_with = "job", help_heading = JOBS)]
    pub(crate) exit_when_idle: Option<u64>,
    /// Seconds that what runs has to end when the worker is asked to leave; the rest goes back at once, and what has not ended by then
    /// runs again elsewhere.
    #[arg(long, env = "PRS_DRAIN_TIMEOUT", hide_env_values = true, value_name = "SECONDS", default_value_t = NodeSettings::DRAIN.as_secs())]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=86_400), help_heading = JOBS)]
    pub(crate) drain_timeout: u64,
    /// Name in logs and reports [default: the name of the host].
    #[arg(long, env = "PRS_WORKER_NAME", hide_env_values = true, help_heading = JOBS)]
    pub(crate) name: Option<String>,
    /// Serve metrics for Prometheus at this address and port, as in `127.0.0.1:9465`: `/metrics`, and `/livez` [default: none].
    #[arg(long, env = "PRS_METRICS", hide_env_values = true, value_name = "ADDRESS", value_parser = address)]
    #[arg(help_heading = HOST)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Most processes to run [default: as the job says, else one a core, or one on a host with GPUs].
    #[arg(long, env = "PRS_SLOTS", hide_env_values = true, value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(help_heading = HOST)]
    pub(crate) slots: Option<u32>,
    /// Most GiB of inputs to keep on this host at a time.
    #[arg(long, env = "PRS_CACHE_GIB", hide_env_values = true, default_value_t = NodeSettings::CACHE_BYTES >> 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20), help_heading = HOST)]
    pub(crate) cache_gib: u64,
    /// Of these, most MiB that lie in memory: files of up to 1 MiB; 0 for none.
    #[arg(long, env = "PRS_CACHE_MEMORY_MIB", hide_env_values = true, default_value_t = NodeSettings::MEMORY_BYTES >> 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1 << 20), help_heading = HOST)]
    pub(crate) cache_memory_mib: u64,
    /// Folder for what jobs need while they run here [default: `$STATE_DIRECTORY`, or prs-worker in `$XDG_RUNTIME_DIR`, or the temporary folder].
    #[arg(long, env = "PRS_WORK_DIR", hide_env_values = true, help_heading = HOST)]
    pub(crate) work_dir: Option<PathBuf>,
}

/// List the workers of a fleet, or ask one to leave.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Workers {
    /// What to do with one of them; without it all are listed.
    #[command(subcommand)]
    pub(crate) command: Option<WorkersCommand>,
    /// Those of this compute target only.
    #[arg(long)]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) servers: FleetServers,
}

/// What can be done with a worker.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// Ask a worker to leave: what it runs may end, the rest goes back to its job.
    Drain(DrainWorker),
}

/// Ask a worker to leave: what it runs may end, the rest goes back to its job.
///
/// It does what the first SIGTERM does, at its next look for a job or its next heartbeat, and ends.
#[derive(Debug, Args)]
pub(crate) struct DrainWorker {
    /// The worker, as prs workers lists it.
    pub(crate) worker: String,
    /// Why, for those who look at the list.
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) servers: FleetServers,
}

/// Check whether this machine, and the fleet that is configured, have what prs needs.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The interpreter to look at, as a job file names it [default: the active virtual environment's, else python3].
    #[arg(long, value_name = "PYTHON")]
    pub(crate) environment: Option<String>,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// List the profiles of the configuration, and say which servers are used and why.
#[derive(Debug, Args)]
pub(crate) struct Profiles {
    #[command(flatten)]
    pub(crate) servers: Servers,
}
