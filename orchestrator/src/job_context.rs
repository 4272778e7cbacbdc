//! What everything that works on a job is given: the settings, and the places the job stands on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prs_common::job::JobSpec;
use prs_common::ledger::Ledger;
use prs_common::queue::Queue;
use prs_common::storage::Storage;

/// A job as one process of prs sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JobContext {
    /// Id of the job, unique in its ledger.
    pub id: String,
    /// Key of the code archive.
    pub code: String,
    /// The settings.
    pub spec: Arc<JobSpec>,
    /// 1 for the first run, and one more with each `resume`.
    pub incarnation: u32,
    /// Carries the mini-batches, under [`JobContext::queue_name`].
    pub queue: Arc<dyn Queue>,
    /// Keeps the books.
    pub ledger: Arc<dyn Ledger>,
    /// The job's own prefix.
    pub storage: Arc<dyn Storage>,
    /// Where the result goes.
    pub output: Arc<dyn Storage>,
    /// The prefix of `output` within `storage`, where it is a part of it.
    pub output_prefix: Option<&'static str>,
    /// Local folder of the job's logs.
    pub logs: PathBuf,
    /// Local folder for what need not outlive the run.
    pub work: PathBuf,
    /// How often things are looked at.
    pub timing: Timing,
}

impl JobContext {
    /// Name of the queue with the job's mini-batches.
    pub fn queue_name(&self) -> String {
        format!("prs.job.{}", self.id)
    }
}

/// How often things are looked at.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Between two looks of the orchestrator.
    pub watch: Duration,
    /// Between two heartbeats of a node.
    pub heartbeat: Duration,
    /// How long the lease of an orchestrator lasts.
    pub lease: Duration,
    /// Between two lines of the progress overview.
    pub overview: Duration,
    /// How long nodes have to leave after they were told to stop.
    pub leave: Duration,
}

impl Timing {
    /// For a job in one process: everything is near.
    pub fn embedded() -> Self {
        Self {
            watch: Duration::from_millis(20),
            heartbeat: Duration::from_millis(20),
            lease: Duration::from_secs(30),
            overview: Duration::from_secs(5),
            leave: Duration::from_secs(30),
        }
    }
}
