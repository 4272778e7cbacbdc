//! Which jobs a compute target's workers are to serve, in storage and in the ledger.
//!
//! Storage has the truth: an empty object `active/<target>/<job>/<start>`, put when a start of a job is handed in, and
//! deleted as the last act of its end. The ledger has the same as [`Offered`] jobs, with who serves what. A ledger that was lost
//! is filled from storage by the first idle worker that looks, and compared with it each minute: all workers dead, all
//! servers but storage emptied, the program that submitted gone, the next worker that starts finishes the job.

use std::time::Duration;

use futures_util::StreamExt;
use prs_common::ledger::{IdleWorker, Ledger, LedgerError, NodeInfo, NodeView, Offered, Offers, Seats};
use prs_common::segment::{READS, read_again_after};
use prs_common::storage::{PutMode, StorageError, StorageExt};
use serde::Serialize;

use super::ServerError;
use super::active::{ActiveJob, parse, prefix};
use super::context::JobContext;
use super::fleet::Fleet;
use super::policy::Policy;
use super::record::{JobRecord, JobRecordError, run_name};

/// Heartbeats that a node misses before another may take its seat: it most likely is gone, and one node too many for a
/// while costs less than one too few.
const MISSED_HEARTBEATS: u32 = 3;
/// How long a worker that fills the offers of a target may take before another one begins.
const FILLING: Duration = Duration::from_secs(20);
/// Between two comparisons of the offers with storage.
const COMPARE_INTERVAL: Duration = Duration::from_mins(1);
/// An idle worker looks at least so often.
pub(crate) const LOOKS_WITHIN: Duration = Duration::from_secs(5);
/// Other targets that are looked at for workers.
const MOST_ELSEWHERE: usize = 8;
/// Records read side by side.
const READ_AT_ONCE: usize = 16;

/// Notes in storage that the job is to be served. It is served from then on, whatever else is lost.
pub async fn activate(job: &JobContext) -> Result<(), StorageError> {
    let Some(active) = &job.active else { return Ok(()) };
    for target in &active.targets {
        active.storage.put(&active.key(target), "".into(), PutMode::Overwrite).await?;
    }
    Ok(())
}

/// Offers the job to the workers of its target.
pub async fn offer(job: &JobContext) -> Result<(), LedgerError> {
    let Some(active) = &job.active else { return Ok(()) };
    for target in &active.targets {
        job.membership.offer(target, &active.offer).await?;
    }
    Ok(())
}

/// Lets the idle workers of the job's target look at once. Without it they do so a little later.
pub async fn ring(job: &JobContext) {
    for target in job.active.iter().flat_map(|active| &active.targets) {
        if let Err(error) = job.membership.ring(target).await {
            tracing::debug!(job = job.id, %error, "idle workers look a little later");
        }
    }
}

/// Takes the offer of a job back that has ended, as the last act for it.
pub async fn withdraw(job: &JobContext) -> Result<(), ServerError> {
    let Some(active) = &job.active else { return Ok(()) };
    for target in &active.targets {
        job.membership.withdraw(target, &job.run).await?;
        active.storage.delete(&active.key(target)).await?;
    }
    Ok(())
}

/// Takes the offer of a job back whose record cannot be read. Storage has it among those to be served: it is offered again
/// once the record can be read.
pub(crate) async fn withdraw_from_ledger(job: &JobContext) -> Result<(), LedgerError> {
    for target in job.active.iter().flat_map(|active| &active.targets) {
        job.membership.withdraw(target, &job.run).await?;
    }
    Ok(())
}

/// How many nodes the job takes.
pub fn seats(job: &JobContext) -> Seats {
    Seats { count: job.spec.node_count, quiet: job.policy.heartbeat * MISSED_HEARTBEATS }
}

/// Whether an idle worker may take a seat of the job that is free or will be soon, and so do what this program cannot.
/// `tried` workers are idle that were of no use to the job.
pub(crate) async fn are_workers_idle(job: &JobContext, tried: u64) -> Result<bool, LedgerError> {
    Ok(job.membership.idle(&job.spec.compute_target, LOOKS_WITHIN).await? > tried)
}

/// How many idle workers of `target` have not served a job, or tried to: none of its `nodes` is one of them.
pub async fn untried_workers(
    ledger: &dyn Ledger,
    target: &str,
    nodes: &[NodeView],
) -> Result<u64, LedgerError> {
    let idle = ledger.idle_workers(target, LOOKS_WITHIN).await?;
    // Those of another version leave the job alone.
    let is_other = |IdleWorker { info, .. }: &&IdleWorker| {
        info.version == env!("CARGO_PKG_VERSION")
            && nodes.iter().all(|node| node.info.instance != info.instance)
    };
    Ok(idle.iter().filter(is_other).count() as u64)
}

/// The workers of a job's target, as a command shows them that asks for the job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Workers {
    /// With nothing to do.
    pub idle: u64,
    /// Nodes of other jobs.
    pub busy: u64,
    /// Whether one of them, or another program, watches over the job.
    pub watches: bool,
    /// Where the target has none: the targets that have some, some of them at most.
    pub elsewhere: Vec<Elsewhere>,
}

/// Workers of another compute target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Elsewhere {
    /// The target.
    pub target: String,
    /// How many there are, idle or busy.
    pub workers: u64,
}

/// Who there is to serve the start `run` of a job of `target`.
pub async fn workers(ledger: &dyn Ledger, target: &str, run: &str) -> Result<Workers, LedgerError> {
    let (idle, offers) = idle_and_offers(ledger, target).await?;
    let (own, others): (Vec<_>, Vec<_>) = offers.iter().partition(|one| one.offer.run == run);
    let watches = own.iter().any(|one| one.known.is_some_and(|known| known.is_watched));
    let busy = others.iter().map(|one| u64::from(one.nodes)).sum();
    let elsewhere = if idle + busy == 0 { elsewhere(ledger, target).await? } else { Vec::new() };
    Ok(Workers { idle, busy, watches, elsewhere })
}

async fn idle_and_offers(ledger: &dyn Ledger, target: &str) -> Result<(u64, Vec<Offered>), LedgerError> {
    let quiet = Policy::fleet().heartbeat * MISSED_HEARTBEATS;
    let asked = tokio::try_join!(ledger.idle(target, LOOKS_WITHIN), ledger.offers(target, None, quiet))?;
    Ok((asked.0, asked.1.offered))
}

/// Which other targets than `target` have workers.
async fn elsewhere(ledger: &dyn Ledger, target: &str) -> Result<Vec<Elsewhere>, LedgerError> {
    let mut found = Vec::new();
    let others = ledger.targets().await?.into_iter().rev().filter(|other| other != target);
    for target in others.take(MOST_ELSEWHERE) {
        let (idle, offers) = idle_and_offers(ledger, &target).await?;
        let workers = idle + offers.iter().map(|one| u64::from(one.nodes)).sum::<u64>();
        if workers > 0 {
            found.push(Elsewhere { target, workers });
        }
    }
    Ok(found)
}

/// What the workers of `target` are to serve, as the ledger has it; filled from storage where it is not. An idle `worker`
/// is noted; a busy one asks without a name.
pub async fn offers(fleet: &Fleet, target: &str, worker: Option<&NodeInfo>) -> Result<Offers, LedgerError> {
    let quiet = Policy::fleet().heartbeat * MISSED_HEARTBEATS;
    let offers = fleet.ledger.offers(target, worker, quiet).await?;
    if offers.are_filled || !fleet.ledger.begin_to_fill(target, FILLING).await? {
        return Ok(offers);
    }
    match fill(fleet, target).await {
        Ok(()) => fleet.ledger.filled(target, COMPARE_INTERVAL).await?,
        Err(error) => {
            tracing::warn!(%error, target, "jobs in storage that the ledger does not know are looked for later");
        }
    }
    fleet.ledger.offers(target, worker, quiet).await
}

/// Offers every job of `target` that storage has among those to be served.
async fn fill(fleet: &Fleet, target: &str) -> Result<(), ServerError> {
    let prefix = prefix(target);
    let listed = fleet.storage.list_all(&prefix).await?;
    let entries: Vec<_> =
        listed.iter().filter_map(|object| parse(object.key.strip_prefix(&prefix)?)).collect();
    let mut done = futures_util::stream::iter(entries)
        .map(|(job_id, incarnation)| fill_in(fleet, target, job_id, incarnation))
        .buffer_unordered(READ_AT_ONCE);
    while let Some(done) = done.next().await {
        done?;
    }
    Ok(())
}

/// Offers one job. One that has ended is offered too: who takes it tidies up behind it.
async fn fill_in(fleet: &Fleet, target: &str, job_id: &str, incarnation: u32) -> Result<(), ServerError> {
    let record = match JobRecord::read(&*fleet.job_storage(job_id)).await {
        Ok(record) => record,
        Err(JobRecordError::Storage(error)) => return Err(error.into()),
        Err(error @ JobRecordError::Absent { .. }) => {
            tracing::warn!(job = job_id, %error, "it is no longer among the jobs to be served");
            return forget(fleet, target, job_id, incarnation).await;
        }
        // The others do not wait for it.
        Err(error) => {
            tracing::error!(job = job_id, %error, "the job cannot be served");
            return Ok(());
        }
    };
    let active = ActiveJob::new(&fleet.storage, &JobRecord { incarnation, ..record });
    fleet.ledger.offer(target, &active.offer).await?;
    Ok(())
}

/// Takes a start of a job out of those to be served whose record is gone. The record is looked for some times, for a
/// gateway may lack it for a moment.
pub async fn forget(fleet: &Fleet, target: &str, job_id: &str, incarnation: u32) -> Result<(), ServerError> {
    for reads in 1..READS {
        tokio::time::sleep(read_again_after(reads)).await;
        if !matches!(JobRecord::read(&*fleet.job_storage(job_id)).await, Err(JobRecordError::Absent { .. })) {
            return Ok(());
        }
    }
    fleet.ledger.withdraw(target, &run_name(job_id, incarnation)).await?;
    fleet.storage.delete(&format!("{}{job_id}/{incarnation}", prefix(target))).await?;
    Ok(())
}
