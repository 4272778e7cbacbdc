//! What everything that works on a job is given: the settings, and the places the job stands on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prs_common::job::JobSpec;
use prs_common::layout;
use prs_common::ledger::{EmbeddedLedger, JobLedger, Ledger, TryLimits};
use prs_common::queue::{EmbeddedQueue, Queue};
use prs_common::storage::{LocalStorage, Storage, StorageError};
use tokio::sync::{Notify, OnceCell};

use super::active::ActiveJob;
use super::fleet::{Fleet, LocalFolders};
use super::log_shipper::LogShipper;
use super::policy::Policy;
use super::record::{JobRecord, run_name};
use crate::inputs::InputStores;
use crate::job::corrected_plan::{CorrectedPlan, PlanOrder};
use crate::metrics::OrchestratorMetrics;

/// Node losses a mini-batch survives (spec S3).
pub const MAX_NODE_LOSSES: u32 = 10;

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
    /// The plan, where inputs were corrected since it was first made; else it is made of the inputs.
    pub corrected: Option<CorrectedPlan>,
    /// The order of that, once [`JobContext::order`] has read it.
    pub known_order: Arc<OnceCell<Arc<PlanOrder>>>,
    /// Carries the mini-batches, under [`JobContext::queue_name`].
    pub queue: Arc<dyn Queue>,
    /// What the ledger keeps of this start.
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
    /// What who watches over it counts.
    pub metrics: OrchestratorMetrics,
    /// The orchestrator notifies it when nodes are to end; the node of the same program then asks the ledger at once,
    /// and not with its next heartbeat.
    pub nodes_end: Arc<Notify>,
}

impl JobContext {
    /// The start `incarnation` of the job `id` in one process: its queue and its ledger are in memory, its logs and its
    /// scratch data in `folder`.
    pub fn embedded(
        (id, incarnation): (&str, u32),
        spec: Arc<JobSpec>,
        storage: Arc<dyn Storage>,
        inputs: InputStores,
        output: &Path,
        folder: &Path,
    ) -> Self {
        let (run, membership) = (run_name(id, incarnation), EmbeddedLedger::default());
        Self {
            id: id.to_owned(),
            code: String::new(),
            incarnation,
            corrected: None,
            known_order: Arc::default(),
            queue: Arc::new(EmbeddedQueue::default()),
            ledger: membership.job(&run),
            membership: Arc::new(membership),
            run,
            inputs,
            storage,
            output: Arc::new(LocalStorage::new(output)),
            output_prefix: None,
            logs: folder.join("logs"),
            logs_uri: folder.join("logs").display().to_string(),
            log_shipper: None,
            work: folder.join("work"),
            policy: Policy::embedded(),
            active: None,
            metrics: OrchestratorMetrics::default(),
            nodes_end: Arc::default(),
            spec,
        }
    }

    /// The job of `record` on `fleet`. Its result goes to its own prefix.
    pub fn on(fleet: &Fleet, record: &JobRecord, folders: LocalFolders) -> Self {
        let storage = fleet.job_storage(&record.job_id);
        let run = run_name(&record.job_id, record.incarnation);
        let shipper = LogShipper::new(Arc::clone(&storage), folders.logs.clone());
        Self {
            id: record.job_id.clone(),
            run: run.clone(),
            code: record.code.clone(),
            spec: Arc::new(record.spec.clone()),
            incarnation: record.incarnation,
            corrected: record.corrected,
            known_order: Arc::default(),
            queue: Arc::clone(&fleet.queue),
            ledger: fleet.ledger.job(&run),
            membership: Arc::clone(&fleet.ledger),
            output_prefix: Some(layout::OUTPUT),
            output: storage.below(layout::OUTPUT.trim_end_matches('/')),
            logs: folders.logs,
            logs_uri: storage.uri(layout::LOGS),
            log_shipper: Some(Arc::new(shipper)),
            inputs: fleet.inputs(&record.job_id).within(record.spec.reach()),
            work: folders.work,
            policy: Policy::fleet(),
            active: Some(ActiveJob::new(&fleet.storage, record)),
            metrics: OrchestratorMetrics::default(),
            nodes_end: Arc::default(),
            storage,
        }
    }

    /// Name of the queue with the job's mini-batches.
    pub fn queue_name(&self) -> String {
        format!("prs.job.{}", self.run)
    }

    /// Reads where in input order its mini-batches are, unless their indexes tell it.
    ///
    /// # Errors
    /// The storage fails, or gives back something else.
    pub async fn order(&self) -> Result<Option<Arc<PlanOrder>>, StorageError> {
        let Some(plan) = self.corrected else { return Ok(None) };
        let read = async || plan.order(&*self.storage).await.map(Arc::new);
        self.known_order.get_or_try_init(read).await.map(|order| Some(Arc::clone(order)))
    }

    /// How the tries of the job's mini-batches are bounded.
    pub fn try_limits(&self) -> TryLimits {
        TryLimits { run_max_try: self.spec.run_max_try, max_node_losses: MAX_NODE_LOSSES }
    }
}
