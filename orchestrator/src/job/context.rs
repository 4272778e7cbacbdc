//! What everything that works on a job is given: the settings, and the places the job stands on.

use std::path::PathBuf;
use std::sync::Arc;

use prs_common::job::JobSpec;
use prs_common::ledger::{JobLedger, Ledger, TryLimits};
use prs_common::queue::Queue;
use prs_common::storage::Storage;

use super::active::ActiveJob;
use super::log_shipper::LogShipper;
use super::policy::Policy;
use crate::inputs::InputStores;

/// Node losses a mini-batch survives (spec S3).
pub const MAX_NODE_LOSSES: u32 = 10;

/// A job as one process of prs sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JobContext {
    /// Id of the job.
    pub id: String,
    /// What this start of the job is called in the ledger and in the queue; see [`super::record::run_name`].
    pub run: String,
    /// Key of the code archive.
    pub code: String,
    /// The settings.
    pub spec: Arc<JobSpec>,
    /// 1 for the first run, and one more with each `resume`.
    pub incarnation: u32,
    /// Carries the mini-batches, under [`JobContext::queue_name`].
    pub queue: Arc<dyn Queue>,
    /// The books of this start.
    pub ledger: Arc<dyn JobLedger>,
    /// Brings it and workers together.
    pub membership: Arc<dyn Ledger>,
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
    /// What depends on where it runs.
    pub policy: Policy,
    /// Its place among the jobs that the workers of a fleet are to serve.
    pub active: Option<ActiveJob>,
}

impl JobContext {
    /// Name of the queue with the job's mini-batches.
    pub fn queue_name(&self) -> String {
        format!("prs.job.{}", self.run)
    }

    /// How the tries of the job's mini-batches are bounded.
    pub fn try_limits(&self) -> TryLimits {
        TryLimits { run_max_try: self.spec.run_max_try, max_node_losses: MAX_NODE_LOSSES }
    }
}
