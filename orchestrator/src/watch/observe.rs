//! What the orchestrator sees at one look: plain data of one instant, which decisions are made of.

use std::time::Instant;

use prs_common::ledger::{Duty, JobProgress, JobState, NodeView};
use prs_common::queue::{Depth, QueueErrorKind};

use super::scheduler::Publishing;
use super::{Watch, WatchError, mark_lost};
use crate::job::leases::is_taken;
use crate::job::membership;
use crate::job::queue;

/// One look.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    /// When it was.
    pub(super) at: Instant,
    /// Where the job stands.
    pub(super) state: JobState,
    /// Its counts.
    pub(super) progress: JobProgress,
    /// Its nodes; those that were not heard of for too long are marked as gone.
    pub(super) nodes: Vec<NodeView>,
    /// Nodes whose seat is no other's yet.
    pub(super) seats_taken: usize,
    /// What this orchestrator's own scheduler does.
    pub(super) publishing: Publishing,
    /// Idle workers that have not tried to serve the job; asked where a host lacked what the script needs.
    pub(super) untried_workers: u64,
    /// What is looked at only now and then.
    pub(super) upkeep: Option<Upkeep>,
}

/// What may get lost on a fleet.
#[derive(Debug, Clone)]
pub(super) struct Upkeep {
    pub(super) queue: SeenQueue,
    /// Whether another program publishes the plan.
    pub(super) is_published_elsewhere: bool,
}

/// The queue of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SeenQueue {
    /// So many messages wait in it.
    Holds(u64),
    /// It is gone.
    Lost,
    /// The job has left it for the one with this number.
    Left(u32),
    /// The broker does not tell.
    Unknown,
}

impl Snapshot {
    /// Nodes that serve the job.
    pub(super) fn present(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| !node.left)
    }
}

impl Watch<'_> {
    /// Looks at the job, which must still be this orchestrator's.
    pub(super) async fn observe(&mut self) -> Result<Snapshot, WatchError> {
        let job = self.job;
        if let Err(error) = self.renew().await {
            if matches!(error, WatchError::NotTheOrchestrator) {
                self.journal.decision("another node has taken over");
            }
            return Err(error);
        }
        let at = Instant::now();
        let state = match self.memory.state {
            // Another orchestrator may have come further.
            JobState::Queued => job.ledger.state().await?,
            state => state,
        };
        let mut nodes = job.ledger.nodes().await?;
        let quiet = membership::seats(job).quiet;
        let seats_taken = nodes.iter().filter(|node| !node.left && node.silent < quiet).count();
        mark_lost(job, &mut nodes);
        let progress = job.ledger.progress().await?;
        let untried_workers = if job.policy.has_others && nodes.iter().any(|node| node.report.is_unfit) {
            membership::untried_workers(&*job.membership, &job.spec.compute_target, &nodes).await?
        } else {
            0
        };
        let publishing = self.scheduler.look().await;
        self.troubles.publishes(&publishing, progress.checkpoint.scheduled, at);
        let is_due = job.policy.upkeep.is_some() && at >= self.memory.upkeep_at;
        let upkeep = if is_due { Some(self.observe_upkeep(&progress).await?) } else { None };
        Ok(Snapshot { at, state, progress, nodes, seats_taken, publishing, untried_workers, upkeep })
    }

    async fn observe_upkeep(&mut self, progress: &JobProgress) -> Result<Upkeep, WatchError> {
        let queue = self.observe_queue().await;
        let asks = !progress.checkpoint.complete || self.memory.refill || queue == SeenQueue::Lost;
        let is_published_elsewhere = asks && is_taken(self.job, Duty::Schedule).await?;
        Ok(Upkeep { queue, is_published_elsewhere })
    }

    async fn observe_queue(&mut self) -> SeenQueue {
        let (job, memory, began) = (self.job, &self.memory, Instant::now());
        let depth = job.queue.depth(&queue::name(job, memory.queue)).await;
        let answer = match &depth {
            Err(error) if error.is_retryable() => Err(error.to_string()),
            _ => Ok(()),
        };
        self.troubles.looked_at_queue(answer, began);
        let is_used = match &depth {
            Ok(depth) => *depth != Depth::default(),
            Err(error) => error.kind != QueueErrorKind::NotFound,
        };
        if !is_used
            && let Ok(present) = queue::present(job).await
            && present != memory.queue
        {
            return SeenQueue::Left(present);
        }
        match depth {
            Ok(depth) => SeenQueue::Holds(depth.ready),
            Err(error) if error.kind == QueueErrorKind::NotFound => SeenQueue::Lost,
            Err(error) => {
                self.journal.error(WatchError::Queue(error));
                SeenQueue::Unknown
            }
        }
    }
}
