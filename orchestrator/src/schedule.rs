//! Scheduling: publishes the plan of a job on its queue, with a bounded backlog.
//!
//! After every confirmed batch the ledger gets a checkpoint. A mini-batch that has its outcome already (the job
//! is being resumed) is not published again.

use std::ops::ControlFlow;
use std::time::Duration;

use prs_common::ledger::{Checkpoint, Conclusion, JobState, LedgerError};
use prs_common::mini_batch::{checksum, id_of};
use prs_common::queue::QueueError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::JobContext;
use crate::plan::{Batch, PlanError, plan};

/// Mini-batches that may wait in the queue; more are planned as these are taken.
const BACKLOG: u64 = 20_000;
/// How long to wait before looking at a full queue again.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(3);

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
    #[error(
        "the inputs changed since the job was first started: {id} is not what it was; submit the job as a new one"
    )]
    Changed { id: String },
}

/// Plans and publishes until the end of the plan, or until `stop`. A plan that fails aborts the job.
pub async fn schedule(job: &JobContext, known: KnownChecksums, stop: &CancellationToken) {
    let (sender, receiver) = mpsc::channel(4);
    let planner = {
        let (spec, work, stop) = (job.spec.clone(), job.work.clone(), stop.clone());
        tokio::task::spawn_blocking(move || {
            plan(&spec, &work, &|| stop.is_cancelled(), &mut |batch| match sender.blocking_send(batch) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        })
    };
    let published = publish(job, receiver, &known, stop).await;
    let end_of_plan = planner.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    let outcome = match (published, end_of_plan) {
        (Ok(None), _) => return,
        (Ok(Some(_)), Err(error)) => Err(error.into()),
        (Ok(Some(checkpoint)), Ok(())) => {
            if let Some(gone) = beyond(&known, checkpoint.scheduled) {
                Err(ScheduleError::Changed { id: id_of(gone) })
            } else {
                let complete = Checkpoint { complete: true, ..checkpoint };
                job.ledger.checkpoint(&job.id, complete).await.map_err(ScheduleError::from)
            }
        }
        (Err(error), _) => Err(error),
    };
    if let Err(error) = outcome {
        let conclusion = Conclusion { state: JobState::Failed, reason: error.to_string() };
        if let Err(error) = job.ledger.conclude(&job.id, &conclusion).await {
            tracing::error!(%error, "scheduling failed and the ledger does not know; the job stands still");
        }
    }
}

/// Publishes what the planner sends; `None` when it was stopped.
async fn publish(
    job: &JobContext,
    mut batches: mpsc::Receiver<Batch>,
    known: &KnownChecksums,
    stop: &CancellationToken,
) -> Result<Option<Checkpoint>, ScheduleError> {
    let queue = job.queue_name();
    let mut checkpoint = Checkpoint::default();
    while let Some(mut batch) = tokio::select! {
        batch = batches.recv() => batch,
        () = stop.cancelled() => return Ok(None),
    } {
        checkpoint.scheduled = batch.first + batch.bodies.len() as u64;
        checkpoint.items += batch.items;
        leave_out_known(&mut batch, known)?;
        while job.queue.depth(&queue).await?.ready > BACKLOG {
            tokio::select! {
                () = tokio::time::sleep(FULL_QUEUE_PAUSE) => {}
                () = stop.cancelled() => return Ok(None),
            }
        }
        job.queue.publish(&queue, batch.bodies).await?;
        job.ledger.checkpoint(&job.id, checkpoint).await?;
    }
    Ok(Some(checkpoint))
}

/// The first mini-batch whose outcome is known and that the plan, which ends before `end`, does not have.
fn beyond(known: &KnownChecksums, end: u64) -> Option<u64> {
    (end..).zip(known.get(end as usize..)?).find_map(|(index, &checksum)| (checksum != 0).then_some(index))
}

/// Takes the mini-batches out of `batch` whose outcome is known, once their descriptors are found unchanged.
fn leave_out_known(batch: &mut Batch, known: &KnownChecksums) -> Result<(), ScheduleError> {
    let known = known.get(batch.first as usize..).unwrap_or_default();
    if known.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::new();
    for (position, body) in batch.bodies.drain(..).enumerate() {
        match known.get(position).copied().unwrap_or(0) {
            0 => kept.push(body),
            before if before == checksum(&body) => {}
            _ => return Err(ScheduleError::Changed { id: id_of(batch.first + position as u64) }),
        }
    }
    batch.bodies = kept;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_left_out_unless_it_changed() {
        let batch = || Batch { first: 1, bodies: vec!["b".into(), "c".into(), "d".into()], items: 3 };
        let known = vec![checksum(b"a"), checksum(b"b"), 0];
        let mut rest = batch();
        leave_out_known(&mut rest, &known).unwrap();
        assert_eq!(rest.bodies, ["c", "d"]);
        let changed = vec![0, checksum(b"x")];
        let error = leave_out_known(&mut batch(), &changed).unwrap_err();
        assert!(error.to_string().contains("mb-0000000001 is not what it was"), "{error}");
        assert_eq!(beyond(&changed, 2), None);
        assert_eq!(beyond(&changed, 1), Some(1));
        assert_eq!(beyond(&changed, 7), None);
    }
}
