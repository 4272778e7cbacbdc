//! Doing what the duties decided. Each action may be done twice.

use std::time::Duration;

use prs_common::end_reason::EndReason;
use prs_common::ledger::{Conclusion, JobState};

use super::duties::{Action, Straggler};
use super::ending::{columns_differ_for_good, of_foreign_columns};
use super::observe::Snapshot;
use super::{Decision, Watch, WatchError};
use crate::job::membership;
use crate::job::queue;
use crate::job::queue::job_queue_options;
use crate::plan::schedule::Assignment;
use crate::report::progress_overview::{describe, duration};
use crate::segments::durations::Durations;
use crate::segments::recover::recover;

/// Tries that must have succeeded before any is called long.
const KNOWN_AT_LEAST: u64 = 20;

/// What 95 of 100 tries took at most, once enough are known.
fn usual(durations: &Durations) -> Option<Duration> {
    durations.percentile(95).filter(|_| durations.count() >= KNOWN_AT_LEAST)
}

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
                // Which columns the first start returned is known when all of it is.
                if let Some(catalog) = catalog.filter(|_| self.memory.followed >= seen.progress.segments) {
                    let foreign = of_foreign_columns(&job.spec, catalog);
                    if !foreign.is_empty() {
                        return Err(WatchError::Damaged(foreign));
                    }
                    self.memory.columns_differ = columns_differ_for_good(&job.spec, catalog);
                }
                self.memory.usual = catalog.and_then(|catalog| usual(&catalog.durations));
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
            Action::StartAgain(stragglers) => self.start_again(stragglers, seen).await?,
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

    /// Wants a second run of mini-batches that take too long; one that had one already gets none.
    async fn start_again(&mut self, stragglers: Vec<Straggler>, seen: &Snapshot) -> Result<(), WatchError> {
        let indexes: Vec<_> = stragglers.iter().map(|straggler| straggler.index).collect();
        let new = self.job.ledger.want_copies(&indexes, self.fence).await?;
        self.memory.speculated = Some(seen.at);
        self.memory.copied.extend(indexes);
        for Straggler { index, age, usual } in stragglers.iter().filter(|one| new.contains(&one.index)) {
            let times = age.as_secs_f64() / usual.as_secs_f64().max(0.001);
            self.journal.decision(format_args!(
                "mini-batch {index} runs for {}, {times:.1} times what 95 of 100 tries take at most: it is started a \
                 second time, and the first outcome counts",
                duration(age.as_secs_f64())
            ));
        }
        Ok(())
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
