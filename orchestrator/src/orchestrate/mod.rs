//! The orchestrator's part on a node of a fleet: waits for the lease, watches over the job while it has it, and
//! cleans up behind the job. Every node of a job runs this; one at a time has the lease.

mod unread;

use std::time::{Duration, Instant};

use prs_common::failpoint;
use prs_common::ledger::{Duty, JobProgress, JobState, LedgerError, LedgerErrorKind, Obstacle, ObstacleKind};
use prs_common::timestamp::now_us;
use prs_common::try_table;
use tokio_util::sync::CancellationToken;

use crate::caught::caught;
use crate::job::leases;
use crate::job::membership;
use crate::job::queue;
use crate::job::record::JobRecordError;
use crate::job::{reuse, traces};
use crate::panics;
use crate::segments::{self, recover::recover};
use crate::watch::{View, WatchError, finish_reports, restore_job_result, watch};
use crate::{JobContext, JobRecord, JobResult};

use self::unread::end_unread;
pub use self::unread::leave_unread;

/// A job whose early end is decided is watched over once more, and has whole reports, unless nobody could for so long.
const LEAST_STUCK: Duration = Duration::from_secs(2);

/// How a program stops to care for a job before the job has ended.
#[derive(Debug, Clone, Default)]
pub struct OrchestratorEnd {
    /// At once.
    pub stop: CancellationToken,
    /// As soon as another program watches over the job, or never.
    pub retire: CancellationToken,
    /// Once the program serves the job with no node any more, because the job wanted none.
    pub alone: CancellationToken,
}

/// What a program's part in the watching over a job led to.
#[derive(Debug)]
pub enum WatchEnd {
    /// It watched over the job to its end.
    Ended(Box<JobResult>),
    /// The job has ended, or was started anew, while another program watched over it.
    Over,
    /// The job wants nodes again, and this program has none any more; the lease is free.
    Again,
    /// It was told to stop, and the lease is free.
    Stopped,
    /// It cannot watch over the job, nor could others before it, and the lease is free.
    GaveUp,
}

/// Watches over `job` whenever nobody else does, until it is over or `end` says so.
pub async fn orchestrate(job: &JobContext, owner: &str, end: &OrchestratorEnd) -> WatchEnd {
    let look = job.policy.lease / 8;
    loop {
        if end.alone.is_cancelled() && wants_nodes(job).await {
            give_up_the_lease(job, owner).await;
            return WatchEnd::Again;
        }
        let began = Instant::now();
        let watched = tokio::select! {
            end = caught(Box::pin(try_to_watch(job, owner))) => end.map_err(WatchError::from).flatten(),
            () = end.stop.cancelled() => break,
        };
        let pause = match watched {
            Ok(Some(end)) => return end,
            // Another program has it. Where none has, this one may be the last that can say how the job ends.
            Ok(None) if end.retire.is_cancelled() && leases::is_watched(job).await.unwrap_or(false) => break,
            Ok(None) => look,
            Err(WatchError::Panicked { text }) => {
                let may_help = panics::note(job, &text).await;
                give_up_the_lease(job, owner).await;
                if !may_help {
                    break;
                }
                // Others may not meet it.
                look * 3
            }
            Err(error) => {
                tracing::warn!(job = job.id, %error, "the job cannot be watched over from here for now");
                note_obstacle(job, &error).await;
                give_up_the_lease(job, owner).await;
                // What failed may be this host's fault: other programs look first, idle ones at once.
                membership::ring(job).await;
                // Other jobs wait for this program.
                if end.alone.is_cancelled() || holds_back(job, &error, began.elapsed()).await {
                    return WatchEnd::GaveUp;
                }
                if matches!(error, WatchError::Alone { .. }) { job.policy.lease * 2 } else { look * 3 }
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = end.stop.cancelled() => break,
            () = end.retire.cancelled(), if !end.retire.is_cancelled() => {}
        }
    }
    give_up_the_lease(job, owner).await;
    WatchEnd::Stopped
}

/// Whether the job has work for nodes. One that had none left has it again when segments were damaged.
async fn wants_nodes(job: &JobContext) -> bool {
    let asked = async {
        let is_open =
            matches!(job.ledger.state().await?, JobState::Queued | JobState::Scheduling | JobState::Running);
        Ok::<_, LedgerError>(is_open && job.ledger.progress().await?.conclusion.is_none())
    };
    // What is not known is asked again.
    if !asked.await.unwrap_or(false) {
        return false;
    }
    // Who slept while the job ended may have entered it in the ledger again. Then there is nothing to serve, but to clean up.
    match recorded(job).await {
        Ok(record) => record.is_some_and(|record| record.result.is_none()),
        Err(_) => true,
    }
}

/// Notes what keeps this program from watching over the job. Where it keeps every one from it, the job ends with that.
async fn note_obstacle(job: &JobContext, error: &WatchError) {
    let Some(kind) = error.obstacle() else { return };
    if let Err(error) = job.ledger.note_obstacle(Some((kind, &error.to_string()))).await {
        tracing::debug!(job = job.id, %error, "the ledger does not know why the job waits");
    }
}

/// Whether a node had better leave the job to later attempts, so that it holds no seat and no worker meanwhile: watching
/// failed after it `took` so long, and has failed for all who tried since a while.
async fn holds_back(job: &JobContext, error: &WatchError, took: Duration) -> bool {
    if error.obstacle() != Some(ObstacleKind::Watch) || took >= job.policy.gives_way {
        return false;
    }
    match job.ledger.progress().await {
        Ok(JobProgress { obstacle: Some(Obstacle { kind: ObstacleKind::Watch, lasts, .. }), .. }) => {
            lasts >= job.policy.gives_way
        }
        // Without its record it cannot be entered there again.
        Err(unknown) => unknown.kind == LedgerErrorKind::NotFound && matches!(error, WatchError::Record(_)),
        Ok(_) => false,
    }
}

/// The error with which a job ends that nobody can watch over: all who tried have failed for too long, or its early end is
/// decided and nobody can say so otherwise.
async fn stuck(job: &JobContext) -> Result<Option<WatchError>, WatchError> {
    let progress = job.ledger.progress().await?;
    let Some(Obstacle { kind: ObstacleKind::Watch, reason, lasts }) = progress.obstacle else {
        return Ok(None);
    };
    let ends_early = progress.conclusion.is_some_and(|end| end.state != JobState::Completed);
    let most = if ends_early { LEAST_STUCK } else { job.policy.gives_up };
    Ok((lasts >= most).then_some(WatchError::Stuck { seconds: lasts.as_secs(), reason }))
}

async fn give_up_the_lease(job: &JobContext, owner: &str) {
    if let Err(error) = job.ledger.release(Duty::Watch, owner).await {
        tracing::debug!(job = job.id, %error, "the lease of the job runs out by itself");
    }
}

/// Watches over the job if nobody else does, and cleans up behind it where it is over.
async fn try_to_watch(job: &JobContext, owner: &str) -> Result<Option<WatchEnd>, WatchError> {
    let end = match job.ledger.lease(Duty::Watch, owner, job.policy.lease).await {
        Ok(Some(_)) => tokio::select! {
            biased;
            end = watch_over(job, owner) => end?,
            why = lease_is_lost(job, owner) => {
                tracing::warn!(job = job.id, "{why}");
                None
            }
        },
        Ok(None) => None,
        Err(error) if error.kind == LedgerErrorKind::NotFound => rebuild(job).await?,
        Err(error) => return Err(error.into()),
    };
    // Without the lease, which goes first: the loss of that must not leave the rest undone.
    if end.is_some() {
        clean_up(job).await?;
    }
    Ok(end)
}

/// Renews the lease, also while the watching waits for a slow store; returns why that is not possible any more.
async fn lease_is_lost(job: &JobContext, owner: &str) -> &'static str {
    loop {
        tokio::time::sleep(job.policy.lease / 4).await;
        match job.ledger.lease(Duty::Watch, owner, job.policy.lease).await {
            Ok(None) => return "another node watches over the job by now",
            Err(error) if error.kind == LedgerErrorKind::NotFound => {
                return "the ledger does not know the job any more";
            }
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

/// Watches over the job, from what storage says on.
async fn watch_over(job: &JobContext, owner: &str) -> Result<Option<WatchEnd>, WatchError> {
    let record = match recorded(job).await {
        Err(WatchError::Record(error)) if error.is_for_good() => return end_unread(job, error).await,
        recorded => recorded?,
    };
    if let Some(panicked) = panics::are_enough(job).await? {
        return Box::pin(end_without_a_look(job, owner, record, panicked.into())).await;
    }
    if let Some(stuck) = stuck(job).await? {
        return Box::pin(end_without_a_look(job, owner, record, stuck)).await;
    }
    failpoint::pass("watches");
    let Some(record) = record else { return Ok(Some(WatchEnd::Over)) };
    if let Some(shipper) = &job.log_shipper {
        shipper.fetch(is_orchestrators_log).await?;
    }
    if let Some(result) = record.result.clone() {
        // Entered again by a program that slept since before the end, the ledger knows nothing, and the segments may be gone:
        // reports made of that would be written over whole ones.
        if !knows_all(&job.ledger.progress().await?, &result) {
            return restored(job, Some(record)).await;
        }
        match finish_reports(job, owner, record, &result).await {
            Err(WatchError::NotTheOrchestrator) => return Ok(None),
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => tracing::error!(job = job.id, %error, "the last reports are not written"),
            Ok(()) => {}
        }
        return Ok(Some(WatchEnd::Over));
    }
    let recovered = recover(job).await?;
    if recovered.ended > 0 {
        tracing::info!(job = job.id, ended = recovered.ended, "outcomes were found in storage");
    }
    let (view, _seen) = tokio::sync::watch::channel(View::default());
    end(job, owner, Box::pin(watch(job, owner, record, &job.id, &view)).await).await
}

/// Whether the ledger has the outcomes that the result of a job counts.
fn knows_all(progress: &JobProgress, result: &JobResult) -> bool {
    progress.succeeded + progress.failed >= result.mini_batches.succeeded + result.mini_batches.failed
}

/// Ends a job over which every orchestrator panics or fails, and tidies up behind it.
async fn end_without_a_look(
    job: &JobContext,
    owner: &str,
    record: Option<JobRecord>,
    why: WatchError,
) -> Result<Option<WatchEnd>, WatchError> {
    tracing::error!(job = job.id, %why, "the job broke its orchestrators too often; it ends");
    match record {
        Some(record) if record.result.is_none() => {
            end(job, owner, panics::fail(job, owner, record, &job.id, why).await).await
        }
        ended => restored(job, ended).await,
    }
}

/// What follows from the end of a watch.
async fn end(
    job: &JobContext,
    owner: &str,
    watched: Result<JobResult, WatchError>,
) -> Result<Option<WatchEnd>, WatchError> {
    match watched {
        Ok(result) => Ok(Some(WatchEnd::Ended(Box::new(result)))),
        Err(WatchError::NotTheOrchestrator) => Ok(None),
        Err(WatchError::RunAgain { reason }) => {
            // Filled anew, as a ledger that was lost, it does not know the segments that were set aside.
            if job.ledger.reset(owner).await? {
                tracing::warn!(job = job.id, reason, "mini-batches of damaged segments run again");
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The ledger does not know the job: it is over, or the ledger was lost and is made anew.
async fn rebuild(job: &JobContext) -> Result<Option<WatchEnd>, WatchError> {
    match recorded(job).await {
        Ok(Some(JobRecord { result: None, .. })) => {}
        Err(error @ WatchError::Record(_)) => {
            // A comparison with storage offers it again once the record can be read.
            membership::withdraw_from_ledger(job).await?;
            return Err(error);
        }
        ended => return restored(job, ended?).await,
    }
    match job.ledger.create(job.try_limits()).await {
        Ok(()) => {}
        Err(error) if error.kind == LedgerErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    tracing::warn!(job = job.id, "the ledger lost the job; it is rebuilt from storage");
    // How far the plan was published is lost too. What waits is published again with the rest, not twice. The
    // next orchestrator makes the queue anew: made at once, under consumers that have not heard of its end, it would have
    // messages and nobody to take them.
    if let Err(error) = queue::delete_all(job).await {
        tracing::warn!(%error, "some mini-batches may run twice; the first outcome counts");
    }
    Ok(None)
}

/// The record of this start of the job; nothing where there is no such job any more, or it was started anew.
async fn recorded(job: &JobContext) -> Result<Option<JobRecord>, WatchError> {
    match JobRecord::read(&*job.storage).await {
        Ok(record) => Ok(Some(record).filter(|record| record.incarnation == job.incarnation)),
        Err(JobRecordError::Absent { .. }) => Ok(None),
        // One that cannot be understood says nothing: the job is not watched over.
        Err(error) => Err(error.into()),
    }
}

/// The end of a job that was `recorded` as ended, or is gone: the orchestrator that ended it may have died before
/// `job_result.txt` was in storage; what segments would tell besides may be gone.
async fn restored(job: &JobContext, recorded: Option<JobRecord>) -> Result<Option<WatchEnd>, WatchError> {
    if let Some(result) = recorded.and_then(|record| record.result) {
        restore_job_result(job, &result).await?;
    }
    Ok(Some(WatchEnd::Over))
}

/// Removes what a job that has ended needs no longer: its queue, its entry in the ledger, the segments where nothing is left to
/// resume, and, last, its place among the jobs to be served. The orchestrator that ended it may have died before it did so; it may be
/// done again.
pub async fn clean_up(job: &JobContext) -> Result<(), WatchError> {
    let began = now_us();
    let (is_present, is_done_with) = match JobRecord::read(&*job.storage).await {
        Ok(record) if record.incarnation == job.incarnation => {
            // Before a command that waits for the end goes on: the next one may look for it.
            reuse::index::enter_ended(job, &record).await;
            (true, record.is_done_with())
        }
        Ok(_) => (false, false),
        Err(JobRecordError::Absent { .. }) => (true, false),
        // It is decided that the job is over, and what it has stays.
        Err(error) if error.is_for_good() => (false, false),
        Err(error) => return Err(error.into()),
    };
    // First: a command that waits for the last logs waits no longer. As long as the ledger knows the job, the reports can be made of
    // the segments.
    job.ledger.remove().await?;
    // Before the segments, for what tells how many there are goes with them.
    if let Err(error) = queue::delete_all_at_last(job).await {
        tracing::warn!(job = job.id, %error, "a queue of the job is left behind");
    }
    if is_done_with {
        segments::remove_of(&job.spec, &*job.storage).await?;
    }
    // What a writer that was killed left of an object is of no use. While a later start of the job runs,
    // what looks so is being written.
    if is_present && let Err(error) = job.storage.sweep().await {
        tracing::warn!(job = job.id, %error, "unfinished objects of the job may be left behind");
    }
    membership::withdraw(job).await?;
    traces::step(job, "tidy", (began, now_us()));
    Ok(())
}

/// Whether the orchestrator writes this log, on whatever node.
fn is_orchestrators_log(name: &str) -> bool {
    name.starts_with("job_progress_overview.")
        || name.starts_with("sys/master_role")
        || name.starts_with("sys/error/")
        || name.starts_with(prs_common::statistics::FOLDER)
        || name.strip_prefix(try_table::FOLDER) == Some(try_table::DIRECTORY)
}

#[cfg(test)]
mod tests;
