//! How far the plan of a job goes, as far as its node knows: a message for a mini-batch beyond it is nobody's.
//!
//! The ledger is asked only when an index comes that is beyond what it has told, some times in the life of a job.

use std::sync::atomic::{AtomicU64, Ordering};

use prs_common::ledger::LedgerError;
use prs_common::mini_batch::MiniBatchIndex;
use prs_orchestrator::JobContext;

/// The end of the plan.
#[derive(Debug, Default)]
pub(crate) struct PlanEnd {
    /// Every index below is the plan's, or may yet become so.
    known: AtomicU64,
}

impl PlanEnd {
    /// Whether `job` may have a mini-batch with this index.
    pub(crate) async fn covers(&self, job: &JobContext, index: MiniBatchIndex) -> Result<bool, LedgerError> {
        if index < self.known.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let end = job.ledger.progress().await?.checkpoint.end_of_plan();
        self.known.store(end, Ordering::Relaxed);
        Ok(index < end)
    }
}
