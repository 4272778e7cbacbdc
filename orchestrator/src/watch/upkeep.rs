//! What the orchestrator of a fleet keeps going, because any program and any server may be lost: the publishing of
//! the plan, the job's queue, the mini-batches in it, and the offer that brings nodes.

use std::time::{Duration, Instant};

use prs_common::ledger::{Duty, NodeView};
use prs_common::queue::{Depth, QueueError, QueueErrorKind};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Watch, WatchError};
use crate::orchestrate::is_taken;
use crate::queues::job_queue_options;
use crate::recover::recover;
use crate::schedule::{Assignment, Scheduled, schedule};
use crate::{JobContext, job_queue, membership};

/// A scheduler of the orchestrator's own.
struct Scheduler {
    publishing: JoinHandle<Scheduled>,
    stop: CancellationToken,
    /// Whether it publishes again what was lost.
    refills: bool,
}

/// What upkeep remembers from look to look.
pub(super) struct Upkeep {
    owner: String,
    /// Number of the job's queue that was used last.
    queue: u32,
    /// When to look next.
    next: Instant,
    /// Publishes the plan in place of a scheduler that is gone.
    scheduler: Option<Scheduler>,
    stop: CancellationToken,
    /// What was published before is lost: all that is not ended must be published again.
    refill: bool,
    /// Since when nothing waits and nobody has anything in hand.
    quiet_since: Option<Instant>,
}

impl Upkeep {
    pub(super) fn new(job: &JobContext, owner: &str) -> Self {
        Self {
            owner: format!("{owner}/{}", job.run),
            queue: 0,
            next: Instant::now(),
            scheduler: None,
            stop: CancellationToken::new(),
            refill: false,
            quiet_since: None,
        }
    }

    /// Stops what was started.
    pub(super) async fn stop(&mut self) {
        self.stop.cancel();
        if let Some(scheduler) = self.scheduler.take() {
            let _ = scheduler.publishing.await;
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Watch<'_> {
    /// Looks after the fleet, now and then; an embedded job has nothing to lose.
    pub(super) async fn keep_up(&mut self, nodes: &[NodeView]) -> Result<(), WatchError> {
        let Some(fleet) = self.job.timing.fleet else { return Ok(()) };
        let now = Instant::now();
        if now < self.upkeep.next || self.status.progress.conclusion.is_some() {
            return Ok(());
        }
        self.upkeep.next = now + fleet.upkeep;
        // A ledger that was lost does not know it; the same offer again changes nothing.
        membership::offer(self.job).await?;
        let kept = async {
            let ready = self.keep_queue().await?;
            let planned = self.keep_scheduling().await;
            let stalled = self.is_stalled(nodes, ready, fleet.stalled);
            Ok::<_, QueueError>(planned.map(|()| stalled))
        };
        match kept.await {
            Ok(Ok(false)) => Ok(()),
            Ok(Ok(true)) => self.restore().await,
            Ok(Err(error)) => Err(error),
            Err(error) => {
                self.journal.error(format_args!("the queues cannot be looked after: {error}"));
                Ok(())
            }
        }
    }

    /// Makes the job's queue anew where it was lost; returns what waits in it. One that nobody uses may be left for
    /// another.
    async fn keep_queue(&mut self) -> Result<u64, QueueError> {
        let job = self.job;
        let mut queue = job_queue::name(job, self.upkeep.queue);
        let mut depth = job.queue.depth(&queue).await;
        let is_used = match &depth {
            Ok(depth) => *depth != Depth::default(),
            Err(error) => error.kind != QueueErrorKind::NotFound,
        };
        if !is_used
            && let Ok(present) = job_queue::present(job).await
            && present != self.upkeep.queue
        {
            self.upkeep.queue = present;
            let left = std::mem::replace(&mut queue, job_queue::name(job, present));
            self.journal.decision(format_args!(
                "the broker does not serve the queue {left} of the job, which goes on with {queue}"
            ));
            depth = job.queue.depth(&queue).await;
        }
        match depth {
            Ok(depth) => Ok(depth.ready),
            Err(error) if error.kind == QueueErrorKind::NotFound => {
                job.queue.declare(&queue, job_queue_options(&job.spec)).await?;
                self.journal.decision("the queue of the job was lost; what has not ended is published again");
                self.upkeep.refill = true;
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Publishes the plan where nobody else does. The error is that this host cannot.
    async fn keep_scheduling(&mut self) -> Result<(), WatchError> {
        if let Some(scheduler) = &self.upkeep.scheduler {
            if self.upkeep.refill {
                // What it has published is lost: another one begins anew.
                scheduler.stop.cancel();
            }
            if !scheduler.publishing.is_finished() {
                return Ok(());
            }
        }
        if let Some(scheduler) = self.upkeep.scheduler.take() {
            let complete = match scheduler.publishing.await {
                Ok(Scheduled::Unable { reason }) => return Err(WatchError::NoPlan { reason }),
                // The next one would meet the same.
                Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
                ended => matches!(ended, Ok(Scheduled::Complete)),
            };
            self.upkeep.refill |= scheduler.refills && !complete;
            if complete && !self.upkeep.refill {
                return Ok(());
            }
        }
        let progress = &self.status.progress;
        if progress.checkpoint.complete && !self.upkeep.refill {
            return Ok(());
        }
        if is_taken(self.job, Duty::Schedule).await? {
            return Ok(());
        }
        // What is done already tells whether the inputs are what they were.
        let Some(catalog) = self.catalog.as_ref().filter(|_| self.followed >= progress.segments) else {
            return Ok(());
        };
        let known = catalog.known();
        let refills = std::mem::take(&mut self.upkeep.refill);
        let assignment = Assignment { known, again: refills };
        let stop = self.upkeep.stop.child_token();
        let (job, owner, stopped) = (self.job.clone(), self.upkeep.owner.clone(), stop.clone());
        let publishing = tokio::spawn(async move { schedule(&job, &owner, assignment, &stopped).await });
        self.upkeep.scheduler = Some(Scheduler { publishing, stop, refills });
        Ok(())
    }

    /// Whether mini-batches are missing: some have no outcome, and none waits or is in anybody's hands.
    fn is_stalled(&mut self, nodes: &[NodeView], ready: u64, patience: Duration) -> bool {
        let progress = &self.status.progress;
        let mut present = nodes.iter().filter(|node| !node.left).peekable();
        let anybody = present.peek().is_some();
        let quiet = anybody
            && ready == 0
            && self.upkeep.scheduler.is_none()
            && progress.checkpoint.complete
            && !progress.is_complete()
            && present.all(|node| node.report.in_hand == 0);
        if !quiet {
            self.upkeep.quiet_since = None;
            return false;
        }
        let since = *self.upkeep.quiet_since.get_or_insert_with(Instant::now);
        since.max(self.moved.0).elapsed() > patience
    }

    /// Brings back what was lost: first outcomes whose commit was, then mini-batches.
    async fn restore(&mut self) -> Result<(), WatchError> {
        self.upkeep.quiet_since = None;
        let recovered = recover(self.job).await?;
        if recovered.ended > 0 {
            self.journal.decision(format_args!(
                "{} outcomes were in storage and not in the ledger; they count",
                recovered.ended
            ));
            return Ok(());
        }
        let progress = &self.status.progress;
        self.journal.decision(format_args!(
            "{} mini-batches have no outcome, do not wait and do not run; they are published again",
            progress.checkpoint.scheduled.saturating_sub(progress.ended())
        ));
        self.upkeep.refill = true;
        Ok(())
    }
}
