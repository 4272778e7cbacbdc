//! What can be said to the commands of a fleet: its servers, and the worker.

use std::path::PathBuf;

use clap::Args;
use prs_common::servers::{ConnectError, ServerUrls};
use prs_worker::NodeSettings;

use super::values::target;

/// The servers of a fleet.
#[derive(Debug, Clone, Args)]
pub(crate) struct Servers {
    /// RabbitMQ, as in `amqp://user:password@host/vhost`.
    #[arg(long, env = "PRS_BROKER_URL", hide_env_values = true)]
    broker: Option<String>,
    /// Redis, as in `redis://user:password@host/0`.
    #[arg(long, env = "PRS_REDIS_URL", hide_env_values = true)]
    redis: Option<String>,
    /// Object storage, as in `s3://bucket/prefix` or `file:///shared/folder`.
    #[arg(long, env = "PRS_STORAGE_URL", hide_env_values = true)]
    storage: Option<String>,
}

impl Servers {
    /// All three, or an error that names what is missing.
    pub(crate) fn urls(&self) -> Result<ServerUrls, ConnectError> {
        ServerUrls::all(self.broker.clone(), self.redis.clone(), self.storage.clone())
    }

    /// The same; nothing where none is named. An empty variable names none.
    pub(crate) fn urls_if_any(&self) -> Result<Option<ServerUrls>, ConnectError> {
        let Self { broker, redis, storage } = self;
        if [broker, redis, storage].into_iter().flatten().all(String::is_empty) {
            return Ok(None);
        }
        self.urls().map(Some)
    }
}

/// Serves the jobs of a fleet on this host.
///
/// Serves one job at a time: runs its mini-batches in Python processes, then looks for the next. The first SIGTERM
/// or Ctrl-C lets what runs end and gives the rest back, the second stops at once. Any number of workers may run on
/// one host.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Compute target to work for; may be given several times, or with commas.
    #[arg(long, env = "PRS_TARGET", default_value = "default", value_delimiter = ',', value_parser = target)]
    pub(crate) target: Vec<String>,
    /// Most processes to run [default: as the job says, else one a core, or one on a host with GPUs].
    #[arg(long, env = "PRS_SLOTS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) slots: Option<u32>,
    /// Most GiB of inputs to keep on this host at a time.
    #[arg(long, env = "PRS_CACHE_GIB", default_value_t = NodeSettings::CACHE_BYTES >> 30, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) cache_gib: u64,
    /// Of these, most MiB that lie in memory: files of up to 1 MiB; 0 for none.
    #[arg(long, env = "PRS_CACHE_MEMORY_MIB", default_value_t = NodeSettings::MEMORY_BYTES >> 20, value_parser = clap::value_parser!(u64).range(0..=1 << 20))]
    pub(crate) cache_memory_mib: u64,
    /// Serve this job only, whatever its target, and end with it: 0 completed, 42 failed or canceled, 41 left before its end.
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// End after so many seconds without a job.
    #[arg(long, value_name = "SECONDS", conflicts_with = "job")]
    pub(crate) exit_when_idle: Option<u64>,
    /// Name in logs and reports [default: the name of the host].
    #[arg(long, env = "PRS_WORKER_NAME")]
    pub(crate) name: Option<String>,
    /// Folder for what jobs need while they run here [default: `$STATE_DIRECTORY`, or prs-worker in `$XDG_RUNTIME_DIR`, or the temporary folder].
    #[arg(long, env = "PRS_WORK_DIR")]
    pub(crate) work_dir: Option<PathBuf>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_servers_are_no_fleet() {
        let servers = |broker: Option<&str>, redis: Option<&str>, storage: Option<&str>| {
            let [broker, redis, storage] = [broker, redis, storage].map(|url| url.map(str::to_owned));
            Servers { broker, redis, storage }
        };
        assert!(servers(None, Some(""), None).urls_if_any().unwrap().is_none());
        assert!(servers(None, None, None).urls().is_err());
        assert!(servers(Some("x"), Some(""), None).urls_if_any().is_err());
        assert!(servers(Some("x"), Some("x"), Some("x")).urls_if_any().unwrap().is_some());
    }
}
