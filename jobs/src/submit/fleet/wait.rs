//! Waiting for a job that was handed in: publishes its plan meanwhile, shows its progress, and can be left at any time.

use std::time::Duration;

use prs_common::ledger::Duty;
use prs_orchestrator::plan::schedule::{Assignment, Scheduled, schedule};
use prs_orchestrator::{JobContext, JobRecord, JobResult};
use tokio_util::sync::CancellationToken;

use super::start::Submitted;
use super::until_left::until_left;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::fleet::{note_who_serves, until_ended};
use crate::interrupts::Interrupts;
use crate::standing::Shown;

/// How long it may take to let go of the plan.
const GRACE: Duration = Duration::from_secs(1);

/// Leaves a job to its nodes: one of them publishes the plan.
pub(crate) async fn leave(submitted: Submitted, caller: &dyn Caller) {
    let Submitted { job, record, owner, .. } = submitted;
    if let Err(error) = job.ledger.release(Duty::Schedule, &owner).await {
        tracing::warn!(%error, "a node begins to publish the plan some seconds later");
    }
    Box::pin(note_who_serves(&*job.membership, &record, caller)).await;
}

/// Publishes the plan of a job and waits for its end; nothing where the user left it.
pub(crate) async fn wait(
    submitted: Submitted,
    interrupts: &mut dyn Interrupts,
    caller: &dyn Caller,
) -> Result<Option<JobResult>, Failure> {
    let Submitted { job, record, owner, assignment, _folder } = submitted;
    let stop = CancellationToken::new();
    let scheduling = {
        let (job, stop) = (job.clone(), stop.clone());
        tokio::spawn(async move { publish(&job, &owner, assignment, &stop).await })
    };
    let waited = follow(&job, &record, interrupts, caller).await;
    stop.cancel();
    // A server that does not answer keeps nobody here; the lease runs out.
    if let Ok(Err(panic)) = tokio::time::timeout(GRACE, scheduling).await {
        caller.note(&format_args!("publishing the plan broke: {panic}; a node goes on with it"));
    }
    waited
}

/// Publishes the plan; a node goes on where this is interrupted.
async fn publish(job: &JobContext, owner: &str, assignment: Assignment, stop: &CancellationToken) {
    if let Scheduled::Interrupted { .. } = schedule(job, owner, assignment, stop).await {
        tracing::warn!("the servers went away while the plan was published; a node goes on with it");
    }
}

/// Shows the progress of a job until it has ended or the user leaves.
async fn follow(
    job: &JobContext,
    record: &JobRecord,
    interrupts: &mut dyn Interrupts,
    caller: &dyn Caller,
) -> Result<Option<JobResult>, Failure> {
    let (view, seen) = tokio::sync::watch::channel(Shown::default());
    let display = tokio::spawn(caller.follow(seen.into()));
    let mut ended = Box::pin(until_ended(Some(&*job.membership), &*job.storage, record, view, caller));
    let waited = until_left(ended.as_mut(), interrupts, caller, ("job", &job.id)).await;
    drop(ended);
    let _ = display.await;
    waited
}
