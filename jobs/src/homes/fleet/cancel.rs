//! Ending a job of a fleet.

use prs_common::end_reason::EndReason;
use prs_common::ledger::{Conclusion, LedgerError};
use prs_orchestrator::job::active::active_starts;
use prs_orchestrator::orchestrate::{OrchestratorEnd, leave_unread, orchestrate};
use prs_orchestrator::watch::WatchError;
use prs_orchestrator::{Fleet, JobRecord, JobResult};
use tokio::sync::watch;

use super::entry::{context, enter_in_ledger};
use super::follow::until_ended;
use super::patience::repeated;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::home::ended_already;
use crate::homes::{CANCEL_PATIENCE, TIDY_PATIENCE};
use crate::standing::Shown;

/// Cancels a job and waits until it has ended. Where no worker serves it, this program ends it.
pub(crate) async fn cancel(
    fleet: &Fleet,
    record: &JobRecord,
    who: &str,
    caller: &dyn Caller,
) -> Result<JobResult, Failure> {
    let job_id = &record.job_id;
    if let Some(result) = &record.result {
        return Err(ended_already(result));
    }
    let (job, _folder) = context(fleet, record)?;
    // The ledger may have lost the job, or never had it.
    enter_in_ledger(&job, caller).await?;
    let wanted = Conclusion::canceled(&EndReason::Canceled { who: who.to_owned() });
    repeated("cancel the job", caller, LedgerError::is_retryable, || job.ledger.conclude(&wanted)).await?;
    let owner = format!("{who}/{}", std::process::id());
    let end = OrchestratorEnd::default();
    let (view, _seen) = watch::channel(Shown::default());
    let waiting = async {
        let ended = until_ended(Some(&*job.membership), &*job.storage, record, view, caller);
        let ended = tokio::time::timeout(CANCEL_PATIENCE, ended).await;
        // The orchestrator that watched over the job cleans up behind it.
        let enough = if ended.is_ok() { &end.retire } else { &end.stop };
        enough.cancel();
        ended
    };
    let watching = async {
        let enough = async {
            end.retire.cancelled().await;
            tokio::time::sleep(TIDY_PATIENCE).await;
        };
        // What it does not come to, any worker does.
        tokio::select! {
            _ = orchestrate(&job, &owner, &end) => {}
            () = enough => {}
        }
    };
    let ((), ended) = tokio::join!(watching, waiting);
    ended.unwrap_or_else(|_| {
        Err(Failure::from(anyhow::anyhow!(
            "job {job_id} was asked to end and has not ended after {} s; prs status {job_id} shows it",
            CANCEL_PATIENCE.as_secs()
        )))
    })
}

/// Cancels a job whose record cannot be read: workers end what they run of it, and serve it no longer. Does nothing for a job
/// that no worker was to serve.
pub(crate) async fn cancel_unread(
    fleet: &Fleet,
    job_id: &str,
    who: &str,
    caller: &dyn Caller,
) -> Result<Option<JobResult>, Failure> {
    let active = active_starts(&*fleet.storage).await.map_err(Failure::server)?;
    let wanted = Conclusion::canceled(&EndReason::Canceled { who: who.to_owned() });
    let mut result = None;
    for (target, starts) in &active {
        for (_, start) in starts.iter().filter(|(id, _)| id == job_id) {
            let record = JobRecord::unread(job_id, *start, target);
            let (job, _folder) = context(fleet, &record)?;
            let leave = || leave_unread(&job, &wanted);
            let Conclusion { state, reason } =
                repeated("cancel the job", caller, WatchError::is_retryable, leave).await?;
            result = Some(JobResult { state, reason: Some(reason), ..record.result_so_far() });
        }
    }
    Ok(result)
}
