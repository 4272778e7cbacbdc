//! Doing what the duties decided. Each action may be done twice.

use prs_common::end_reason::EndReason;
use prs_common::ledger::{Conclusion, JobState};

use super::duties::Action;
use super::ending::columns_differ;
use super::observe::Snapshot;
use super::{Decision, Watch, WatchError};
use crate::job::membership;
use crate::job::queue;
use crate::job::queue::job_queue_options;
use crate::plan::schedule::Assignment;
use crate::report::progress_overview::describe;
use crate::segments::recover::recover;

impl Watch<'_> {
    /// Does `action`; the answer is how the job is to end, where that is decided.
    pub(super) async fn act(
        &mut self,
        action: Action,
        seen: &Snapshot,
    ) -> Result<Option<Decision>, WatchError> {
        let job = self.job;
        match action {
            Action::SetState(state) => {
                if state == JobState::Running {
                    let scheduled = seen.progress.checkpoint.scheduled;
                    self.journal.decision(format_args!("scheduling is complete: {scheduled} mini-batches"));
                }
                self.set_state(state).await?;
            }
            Action::Ring => membership::ring(job).await,
            Action::Conclude(conclusion) => return Ok(Some(self.conclude(conclusion).await?)),
            Action::Abort(reason) => {
                let reason = self.with_cause(reason, seen).await;
                return Ok(Some(self.conclude(Conclusion::failed(&reason)).await?));
            }
            Action::End(decision) => return Ok(Some(decision)),
            Action::Follow => {
                self.follow(seen.progress.segments).await?;
                let catalog = self.catalog.as_deref();
                self.memory.columns_differ = catalog.and_then(|catalog| columns_differ(&job.spec, catalog));
            }
            Action::Grow => self.grow().await,
            Action::WriteOverview => {
                self.memory.overview_at = seen.at + job.policy.overview;
                self.journal.progress(&describe(self.memory.state, &self.status));
                self.write_summaries();
            }
            Action::WriteRecord => {
                self.memory.record_at = seen.at + job.policy.record.unwrap_or_default();
                // What fails is in the journal.
                let _ = self.write_record().await;
            }
            Action::Offer => membership::offer(job).await?,
            Action::FollowQueue(next) => {
                let left = queue::name(job, std::mem::replace(&mut self.memory.queue, next));
                let queue = queue::name(job, next);
                self.journal.decision(format_args!(
                    "the broker does not serve the queue {left} of the job, which goes on with {queue}"
                ));
                // What it holds shows at once.
                self.memory.upkeep_at = seen.at;
            }
            Action::RemakeQueue => {
                let queue = queue::name(job, self.memory.queue);
                job.queue.declare(&queue, job_queue_options(&job.spec)).await?;
                self.journal.decision("the queue of the job was lost; what has not ended is published again");
                self.memory.refill = true;
            }
            Action::DiscardScheduler => self.scheduler.discard(),
            Action::Schedule { again } => {
                if let Some(catalog) = &self.catalog {
                    self.memory.refill = false;
                    self.scheduler.start(job, Assignment { known: catalog.known(), again });
                }
            }
            Action::LeavePlan { reason } => return Err(WatchError::NoPlan { reason }),
            Action::Restore => self.restore(seen).await?,
        }
        Ok(None)
    }

    async fn conclude(&self, conclusion: Conclusion) -> Result<Decision, WatchError> {
        Ok(Decision::of(self.job.ledger.conclude(&conclusion).await?))
    }

    /// A reason to fail with the most frequent error, as far as the failures can be read in a moment.
    async fn with_cause(&mut self, reason: EndReason, seen: &Snapshot) -> EndReason {
        if let Err(error) = self.follow(seen.progress.segments).await {
            self.journal.error(format_args!("the errors of the job are not all known: {error}"));
        }
        reason.with_most_frequent(self.catalog.as_deref().and_then(|catalog| catalog.errors.most_frequent()))
    }

    /// Lets the result take in what was followed.
    async fn grow(&mut self) {
        if let Some(catalog) = &self.catalog
            && let Err(error) = self.growth.grow(self.job, catalog).await
        {
            self.journal.error(format_args!("the result is begun anew later: {error}"));
        }
    }

    /// Brings back what was lost: first outcomes whose commit was, then mini-batches.
    async fn restore(&mut self, seen: &Snapshot) -> Result<(), WatchError> {
        self.memory.quiet_since = None;
        let recovered = recover(self.job).await?;
        if recovered.ended > 0 {
            self.journal.decision(format_args!(
                "{} outcomes were in storage and not in the ledger; they count",
                recovered.ended
            ));
            return Ok(());
        }
        let progress = &seen.progress;
        self.journal.decision(format_args!(
            "{} mini-batches have no outcome, do not wait and do not run; they are published again",
            progress.checkpoint.scheduled.saturating_sub(progress.ended())
        ));
        self.memory.refill = true;
        Ok(())
    }
}
