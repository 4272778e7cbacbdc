//! Scheduling: publishes the plan of a job on its queue, with a bounded backlog.
//!
//! After every confirmed publish the ledger gets a checkpoint. A mini-batch that has its outcome already is not
//! published again. On a fleet the program that submits a job schedules it, and when that dies, the orchestrator
//! goes on from the checkpoint; the lease of the duty keeps them apart. A batch that both publish runs twice and
//! counts once.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::end_reason::EndReason;
use prs_common::failpoint;
use prs_common::layout;
use prs_common::ledger::{Checkpoint, Conclusion, Duty, LedgerError, LedgerErrorKind};
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatchIndex, checksum, id_of};
use prs_common::queue::{QueueError, QueueErrorKind};
use prs_common::storage::{PutMode, StorageError};
use prs_common::timestamp::now_us;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::JobContext;
use crate::job::reach::Server;
use crate::job::{queue, traces};
use crate::plan::stored::{self, NotedPlan};
use crate::plan::stored_descriptors::store_long;
use crate::plan::{Batch, PlanContext, PlanEnd, PlanError, PlanNotes, plan};

/// Mini-batches that may wait in the queue; more are planned as these are taken.
const BACKLOG: u64 = 20_000;

/// Checksums of the mini-batches that had their outcome before this run, by index; 0 where there is none.
pub type KnownChecksums = Vec<u32>;

/// Why scheduling stopped before the end of the plan.
#[derive(Debug, thiserror::Error)]
enum ScheduleError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("{id} is not what it was when the job was first started")]
    Changed { id: String },
    #[error("it was stopped, or another program has the duty")]
    Stopped,
}

impl From<ScheduleError> for EndReason {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Changed { id } => Self::InputsChanged { id },
            ScheduleError::Plan(PlanError::NoRecords) => Self::NoRecords,
            error => Self::NoPlan { error: error.to_string() },
        }
    }
}

impl ScheduleError {
    /// Whether a scheduler may go on later: a server was away, or lost what it had and will be given it again.
    fn may_pass(&self) -> bool {
        match self {
            Self::Changed { .. } | Self::Stopped => false,
            Self::Plan(error) => error.is_retryable(),
            Self::Storage(error) => error.is_retryable(),
            Self::Queue(error) => error.is_retryable() || error.kind == QueueErrorKind::NotFound,
            Self::Ledger(error) => error.is_retryable() || error.kind == LedgerErrorKind::NotFound,
        }
    }

    /// The server that does not answer. Without the ledger nobody has a duty.
    fn server(&self) -> Option<Server> {
        match self {
            Self::Queue(error) => error.is_retryable().then_some(Server::Broker),
            Self::Storage(error) => error.is_retryable().then_some(Server::Storage),
            Self::Plan(error) => error.is_retryable().then_some(Server::Inputs),
            Self::Ledger(_) | Self::Changed { .. } | Self::Stopped => None,
        }
    }
}

/// What is to be published of a plan.
#[derive(Debug, Default)]
pub struct Assignment {
    /// What had its outcome before; its descriptors must not have changed since.
    pub known: KnownChecksums,
    /// Whether what was published before is lost: then all is published again that has no outcome; otherwise the
    /// publishing goes on from the checkpoint.
    pub again: bool,
}

/// How the publishing of a plan ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheduled {
    /// All of it is published.
    Complete,
    /// The plan cannot be made; the job is told.
    Failed,
    /// It was stopped, or another program has the duty.
    Stopped,
    /// A server does not answer, or lost the job; a scheduler may try again later.
    Interrupted {
        /// The server that does not answer.
        server: Option<Server>,
        /// Why.
        error: String,
    },
    /// This host of a fleet cannot make the plan; another one may.
    Unable {
        /// Why.
        reason: String,
    },
}

/// Plans and publishes until the end of the plan, or until `stop`, while `owner` has the duty to. A plan that
/// fails ends the job.
pub async fn schedule(
    job: &JobContext,
    owner: &str,
    assignment: Assignment,
    stop: &CancellationToken,
) -> Scheduled {
    let outcome = run(job, owner, &assignment, stop).await;
    if outcome.is_err() {
        // The next scheduler need not wait until the lease has run out.
        let _ = job.ledger.release(Duty::Schedule, owner).await;
    }
    match outcome {
        Ok(()) => Scheduled::Complete,
        Err(ScheduleError::Stopped) => Scheduled::Stopped,
        Err(ScheduleError::Ledger(error)) if error.kind == LedgerErrorKind::Superseded => Scheduled::Stopped,
        Err(error) if job.policy.waits_for_servers && error.may_pass() => {
            tracing::warn!(%error, "scheduling is interrupted; it goes on from the checkpoint");
            Scheduled::Interrupted { server: error.server(), error: error.to_string() }
        }
        Err(ScheduleError::Plan(error)) if job.policy.has_others && error.is_of_this_host() => {
            tracing::warn!(%error, "the plan cannot be made here; another host goes on with it");
            Scheduled::Unable { reason: error.to_string() }
        }
        Err(error) => {
            let conclusion = Conclusion::failed(&error.into());
            if let Err(error) = job.ledger.conclude(&conclusion).await {
                tracing::error!(%error, "scheduling failed and the ledger does not know; the job stands still");
            }
            Scheduled::Failed
        }
    }
}

async fn run(
    job: &JobContext,
    owner: &str,
    assignment: &Assignment,
    stop: &CancellationToken,
) -> Result<(), ScheduleError> {
    let fence = job.ledger.lease(Duty::Schedule, owner, job.policy.lease).await?;
    let fence = fence.ok_or(ScheduleError::Stopped)?;
    // The scheduler before this one may have come further than the orchestrator knows.
    let before = job.ledger.progress().await?;
    if before.checkpoint.complete && !assignment.again {
        return Ok(());
    }
    let began = now_us();
    let after = if assignment.again { 0 } else { before.checkpoint.scheduled };
    let some_ended = before.ended() > 0 || after > 0 || assignment.again;
    let (receiver, planner) = plan_aside(job, stop);
    let end = job.order().await?.map_or(0, |order| order.end());
    let noted = NotedPlan::of(job);
    let leased = Instant::now();
    let mut publisher =
        Publisher { job, owner, fence, assignment, after, some_ended, end, noted, stop, leased };
    let sent = publisher.publish(receiver).await;
    if let Some(noted) = &mut publisher.noted {
        // A later start does not know the rest; the duty is not lost over it.
        let _ = tokio::time::timeout(job.policy.lease / 4, noted.finish()).await;
    }
    let end_of_plan = planner.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    let checkpoint = sent?;
    let found = end_of_plan?;
    let plan_end = now_us();
    if stop.is_cancelled() {
        // What ended may be the planner's patience, not the plan.
        return Err(ScheduleError::Stopped);
    }
    if let Some(gone) = beyond(&assignment.known, checkpoint.end.max(checkpoint.scheduled)) {
        return Err(ScheduleError::Changed { id: id_of(gone) });
    }
    note_listing(job, found).await;
    let complete = Checkpoint { complete: true, ..checkpoint };
    job.ledger.checkpoint(complete, fence).await?;
    job.ledger.release(Duty::Schedule, owner).await?;
    if !assignment.again {
        traces::step(job, "plan", (began, plan_end));
        traces::step(job, "schedule", (began, now_us()));
    }
    Ok(())
}

/// Notes what was listed of local files, for later jobs to compare, and what a person should know; the orchestrator that ends the job puts
/// both into the record. Where the first fails the job gives its output to no other, and no more.
async fn note_listing(job: &JobContext, found: PlanEnd) {
    if found.notes != PlanNotes::default() {
        let note = layout::plan_notes(job.incarnation);
        let told = message_pack::encode(&found.notes);
        if let Err(error) = job.storage.put(&note, told.into(), PutMode::Overwrite).await {
            let PlanNotes { left_out, types_differ } = &found.notes;
            let told = [left_out.join("; "), types_differ.join("; ")].join("; ");
            tracing::warn!(%error, "the result of the job will not say: {told}");
        }
    }
    let Some(listed) = found.listed else { return };
    let note = layout::listed(job.incarnation);
    if let Err(error) = job.storage.put(&note, message_pack::encode(&listed).into(), PutMode::Overwrite).await
    {
        tracing::warn!(%error, "later jobs will not find the output of this one");
    }
}

/// Plans `job` on a thread of its own, or reads its corrected plan, until the end or until `stop`. What is found comes through
/// the channel; how it ended is known once that is closed.
pub(crate) fn plan_aside(
    job: &JobContext,
    stop: &CancellationToken,
) -> (mpsc::Receiver<Batch>, JoinHandle<Result<PlanEnd, PlanError>>) {
    let (sender, receiver) = mpsc::channel(8);
    if let Some(plan) = job.corrected {
        let (storage, stop) = (Arc::clone(&job.storage), stop.clone());
        let sending = async move {
            tokio::select! {
                sent = stored::send(plan, Arc::clone(&storage), sender) => sent?,
                () = stop.cancelled() => return Ok(PlanEnd::default()),
            }
            Ok(stored::found(plan, &*storage).await?)
        };
        return (receiver, tokio::spawn(sending));
    }
    let (spec, work, stop) = (job.spec.clone(), job.work.clone(), stop.clone());
    let (stores, handle, is_shared) = (job.inputs.clone(), Handle::current(), job.policy.has_others);
    let planner = tokio::task::spawn_blocking(move || {
        let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared };
        plan(&spec, &context, &|| stop.is_cancelled(), &mut |batch| match sender.blocking_send(batch) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    });
    (receiver, planner)
}

/// Publishes what the planner sends.
struct Publisher<'a> {
    job: &'a JobContext,
    owner: &'a str,
    /// Number of its lease.
    fence: u64,
    assignment: &'a Assignment,
    /// So many mini-batches, from the first of the plan on, are published already.
    after: u64,
    /// Whether mini-batches of the rest of the plan may have their outcome.
    some_ended: bool,
    /// The end of the plan, as the checkpoint has it.
    end: MiniBatchIndex,
    /// The notes of a plan that is made here.
    noted: Option<NotedPlan>,
    stop: &'a CancellationToken,
    /// When the duty was last confirmed.
    leased: Instant,
}

impl Publisher<'_> {
    /// Publishes all; returns how far the plan came.
    async fn publish(&mut self, mut batches: mpsc::Receiver<Batch>) -> Result<Checkpoint, ScheduleError> {
        let job = self.job;
        let number = queue::present(job).await?;
        let queue = queue::name(job, number);
        let mut checkpoint = Checkpoint { end: self.end, ..Checkpoint::default() };
        loop {
            let mut batch = tokio::select! {
                batch = batches.recv() => match batch {
                    Some(batch) => batch,
                    None => return Ok(checkpoint),
                },
                () = self.stop.cancelled() => return Err(ScheduleError::Stopped),
                () = tokio::time::sleep(job.policy.lease / 4) => {
                    self.keep_the_duty().await?;
                    continue;
                }
            };
            while batch.bodies.len() < job.policy.publish_together
                && let Ok(next) = batches.try_recv()
            {
                batch.append(next);
            }
            if let Some(noted) = &mut self.noted {
                noted.add(&batch.bodies);
            }
            checkpoint.scheduled = batch.first + batch.bodies.len() as u64;
            checkpoint.items += batch.items;
            checkpoint.descriptors = checkpoint.descriptors.wrapping_add(batch.descriptors);
            if checkpoint.scheduled <= self.after {
                continue;
            }
            let mut bodies = self.left_over(batch).await?;
            if job.policy.is_queue_remote {
                store_long(&*job.storage, &mut bodies).await?;
            }
            while job.queue.depth(&queue).await?.ready > BACKLOG {
                self.wait(job.policy.full_queue).await?;
            }
            self.keep_the_duty().await?;
            self.send(&queue, number, bodies).await?;
            failpoint::pass("published");
            job.ledger.checkpoint(checkpoint, self.fence).await?;
        }
    }

    /// Puts messages into the queue `number` of the job. A queue that the broker has not served for long is left.
    async fn send(&mut self, queue: &str, number: u32, bodies: Vec<Bytes>) -> Result<(), ScheduleError> {
        let job = self.job;
        let since = Instant::now();
        loop {
            match job.queue.publish(queue, bodies.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) if error.kind != QueueErrorKind::NotServed => return Err(error.into()),
                Err(error) if since.elapsed() >= job.policy.not_served => {
                    queue::leave(job, number).await;
                    return Err(error.into());
                }
                Err(error) => tracing::debug!(queue, %error, "trying again"),
            }
            self.wait(job.policy.not_served / 30).await?;
        }
    }

    /// Waits, while it may go on.
    async fn wait(&mut self, time: Duration) -> Result<(), ScheduleError> {
        tokio::select! {
            () = tokio::time::sleep(time) => self.keep_the_duty().await,
            () = self.stop.cancelled() => Err(ScheduleError::Stopped),
        }
    }

    /// Makes sure that the duty is still its own, and that what is published is noted; asks now and then.
    async fn keep_the_duty(&mut self) -> Result<(), ScheduleError> {
        let job = self.job;
        if let Some(noted) = &mut self.noted {
            noted.write_due();
        }
        if self.leased.elapsed() < job.policy.lease / 4 {
            return Ok(());
        }
        self.leased = Instant::now();
        let lease = job.ledger.lease(Duty::Schedule, self.owner, job.policy.lease).await?;
        if lease == Some(self.fence) { Ok(()) } else { Err(ScheduleError::Stopped) }
    }

    /// What of `batch` is neither published nor ended.
    async fn left_over(&self, batch: Batch) -> Result<Vec<Bytes>, ScheduleError> {
        let published = self.after.saturating_sub(batch.first) as usize;
        let mut bodies: Vec<_> = batch.into_indexed().collect();
        leave_out_known(&mut bodies, &self.assignment.known, published)?;
        if self.some_ended && !bodies.is_empty() {
            let indexes: Vec<MiniBatchIndex> = bodies.iter().map(|(index, _)| *index).collect();
            let mut ended = self.job.ledger.ended(&indexes).await?.into_iter();
            bodies.retain(|_| !ended.next().unwrap_or(false));
        }
        Ok(bodies.into_iter().map(|(_, body)| body).collect())
    }
}

/// The first mini-batch whose outcome is known and that the plan, which ends before `end`, does not have.
fn beyond(known: &KnownChecksums, end: u64) -> Option<u64> {
    (end..).zip(known.get(end as usize..)?).find_map(|(index, &checksum)| (checksum != 0).then_some(index))
}

/// Takes out the first `published` of some mini-batches, and those whose outcome is known, once the descriptors of these are found
/// unchanged.
fn leave_out_known(
    bodies: &mut Vec<(MiniBatchIndex, Bytes)>,
    known: &KnownChecksums,
    published: usize,
) -> Result<(), ScheduleError> {
    let before = |index: MiniBatchIndex| known.get(index as usize).copied().unwrap_or(0);
    // Checksums cost time: only where there is something to compare with.
    let changed = |(index, body): &&(MiniBatchIndex, Bytes)| {
        let before = before(*index);
        before != 0 && before != checksum(body)
    };
    if let Some((index, _)) = bodies.iter().find(changed) {
        return Err(ScheduleError::Changed { id: id_of(*index) });
    }
    let mut at = 0..;
    bodies.retain(|(index, _)| at.next() >= Some(published) && before(*index) == 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fixture;
    use crate::job::queue::job_queue_options;

    #[tokio::test]
    async fn a_plan_that_was_stopped_is_never_complete() {
        let fixture = Fixture::new(20).await;
        fixture
            .job
            .queue
            .declare(&fixture.job.queue_name(), job_queue_options(&fixture.job.spec))
            .await
            .unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        for _ in 0..20 {
            let ended = schedule(&fixture.job, "a", Assignment::default(), &stop).await;
            assert_eq!(ended, Scheduled::Stopped);
        }
        assert!(!fixture.job.ledger.progress().await.unwrap().checkpoint.complete);
        let ended = schedule(&fixture.job, "a", Assignment::default(), &CancellationToken::new()).await;
        assert_eq!((ended, fixture.waiting().await), (Scheduled::Complete, 20));
    }

    #[test]
    fn what_is_known_is_left_out_unless_it_changed() {
        let batch = || vec![(1, "b".into()), (2, "c".into()), (3, "d".into())];
        let known = vec![checksum(b"a"), checksum(b"b"), 0];
        let mut rest = batch();
        leave_out_known(&mut rest, &known, 0).unwrap();
        assert_eq!(rest, batch()[1..]);
        rest = batch();
        leave_out_known(&mut rest, &known, 2).unwrap();
        assert_eq!(rest, batch()[2..]);
        let changed = vec![0, checksum(b"x")];
        let error = leave_out_known(&mut batch(), &changed, 1).unwrap_err();
        assert!(error.to_string().contains("mb-0000000001 is not what it was"), "{error}");
        assert_eq!(beyond(&changed, 2), None);
        assert_eq!(beyond(&changed, 1), Some(1));
        assert_eq!(beyond(&changed, 7), None);
    }
}
