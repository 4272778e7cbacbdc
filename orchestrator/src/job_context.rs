//! What everything that works on a job is given: the settings, and the places the job stands on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prs_common::job::JobSpec;
use prs_common::ledger::{Ledger, NodeView};
use prs_common::queue::Queue;
use prs_common::storage::Storage;

use crate::inputs::InputStores;
use crate::log_shipper::LogShipper;
use crate::membership;

/// A job as one process of prs sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JobContext {
    /// Id of the job.
    pub id: String,
    /// What this start of the job is called in the ledger and in the queue; see [`run_name`].
    pub run: String,
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
    /// Where the data of inputs is that are not local.
    pub inputs: InputStores,
    /// Where the result goes.
    pub output: Arc<dyn Storage>,
    /// The prefix of `output` within `storage`, where it is a part of it.
    pub output_prefix: Option<&'static str>,
    /// Local folder of the job's logs.
    pub logs: PathBuf,
    /// Where people find the logs.
    pub logs_uri: String,
    /// Brings the logs to storage, where that is another place.
    pub log_shipper: Option<Arc<LogShipper>>,
    /// Local folder for what need not outlive the run.
    pub work: PathBuf,
    /// How often things are looked at.
    pub timing: Timing,
    /// Its place among the jobs that the workers of a fleet are to serve.
    pub entry: Option<membership::Entry>,
}

impl JobContext {
    /// Name of the queue with the job's mini-batches.
    pub fn queue_name(&self) -> String {
        format!("prs.job.{}", self.run)
    }

    /// Whether several programs work on the job, which may come and go.
    pub fn is_on_a_fleet(&self) -> bool {
        self.timing.fleet.is_some()
    }
}

/// The name of one start of a job. A program that still works on a former start finds nothing under its name.
pub fn run_name(job_id: &str, incarnation: u32) -> String {
    if incarnation <= 1 { job_id.to_owned() } else { format!("{job_id}.{incarnation}") }
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
    /// How long nodes have to leave before it is written down how the job ended.
    pub leave_before_end: Duration,
    /// How long they have after that, before the reports end without them.
    pub leave: Duration,
    /// How long a queue may not be served before it is left for another.
    pub not_served: Duration,
    /// What only happens where programs come and go.
    pub fleet: Option<FleetTiming>,
}

/// How often a fleet is looked at.
#[derive(Debug, Clone, Copy)]
pub struct FleetTiming {
    /// A node that said nothing for so long is lost.
    pub lost: Duration,
    /// Between two looks at what a fleet may lose: the scheduler, the queue, the offer of the job.
    pub upkeep: Duration,
    /// After this time without movement, with nothing waiting and nothing in hand, mini-batches were lost.
    pub stalled: Duration,
    /// Between two deliveries of the logs to storage (spec section 5: at most 10 s late).
    pub logs: Duration,
}

impl Timing {
    /// Whether a node still serves its job: it has neither left nor been silent for too long.
    pub fn is_present(&self, node: &NodeView) -> bool {
        !node.left && self.fleet.is_none_or(|fleet| node.silent <= fleet.lost)
    }

    /// For a job in one process: everything is near.
    pub fn embedded() -> Self {
        Self {
            watch: Duration::from_millis(20),
            heartbeat: Duration::from_millis(20),
            lease: Duration::from_secs(30),
            overview: Duration::from_secs(5),
            leave_before_end: Duration::from_secs(30),
            leave: Duration::ZERO,
            not_served: Duration::from_secs(30),
            fleet: None,
        }
    }

    /// For a job on a fleet. Cancelling and exceeded thresholds end a job within 2 s (spec S7, S13).
    pub fn fleet() -> Self {
        Self {
            watch: Duration::from_millis(200),
            heartbeat: Duration::from_millis(300),
            lease: Duration::from_secs(3),
            overview: Duration::from_secs(5),
            leave_before_end: Duration::ZERO,
            leave: Duration::from_secs(10),
            not_served: Duration::from_secs(30),
            fleet: Some(FleetTiming {
                lost: Duration::from_secs(4),
                upkeep: Duration::from_secs(1),
                stalled: Duration::from_secs(3),
                logs: Duration::from_secs(4),
            }),
        }
    }
}
