//! Ending a job of a fleet, and going on with one.

use std::time::Duration;

use anyhow::Context;
use prs_common::end_reason::EndReason;
use prs_common::ledger::{Conclusion, JobState, LedgerError, LedgerErrorKind};
use prs_common::storage::StorageErrorKind;
use prs_orchestrator::job::leases::is_watched;
use prs_orchestrator::job::words;
use prs_orchestrator::orchestrate::{OrchestratorEnd, clean_up, orchestrate};
use prs_orchestrator::segments::recover::recover;
use prs_orchestrator::watch::WatchError;
use prs_orchestrator::{Fleet, JobContext, JobRecord, JobResult};
use tokio::sync::watch;

use super::find;
use super::follow::until_ended;
use super::patience::repeated;
use super::start::{Handed, activate, context, enter, hand_in, open_books};
use crate::code_choice::NextStart;
use crate::failure::Failure;
use crate::left_behind::LeftBehind;
use crate::output;
use crate::standing::Shown;

/// How long a canceled job may take to end before the command stops waiting for it.
const CANCEL_PATIENCE: Duration = Duration::from_mins(1);

/// How long it may tidy up behind a job that has ended.
const TIDY_PATIENCE: Duration = Duration::from_secs(10);

/// Cancels a job and waits until it has ended. Where no worker serves it, this program ends it.
pub(crate) async fn cancel(fleet: &Fleet, job_id: &str, who: &str) -> Result<JobResult, Failure> {
    let record = find(fleet, job_id).await?;
    if let Some(result) = &record.result {
        return Err(ended_already(result));
    }
    let (job, _folder) = context(fleet, &record)?;
    // Its books may be lost, or were never opened.
    open_books(&job).await?;
    let wanted = Conclusion::canceled(&EndReason::Canceled { who: who.to_owned() });
    repeated("cancel the job", LedgerError::is_retryable, || job.ledger.conclude(&wanted)).await?;
    let owner = format!("{who}/{}", std::process::id());
    let end = OrchestratorEnd::default();
    let (view, _seen) = watch::channel(Shown::default());
    let waiting = async {
        let ended = until_ended(Some(&*job.membership), &*job.storage, &record, view);
        let ended = tokio::time::timeout(CANCEL_PATIENCE, ended).await;
        // Whoever watched over the job cleans up behind it.
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

/// Why there is nothing to cancel.
pub(crate) fn ended_already(result: &JobResult) -> Failure {
    let how = match result.state {
        JobState::Completed => "completed",
        JobState::Canceled => "was canceled",
        _ => "failed",
    };
    Failure::wrong(format!("job {} has ended already: it {how}", result.job_id))
}

/// Starts a former job again: what is missing or failed of it runs.
pub(crate) async fn resume(
    fleet: &Fleet,
    mut record: JobRecord,
    next: NextStart,
    behind: &LeftBehind,
) -> Result<Handed, Failure> {
    let (before, _folder) = context(fleet, &record)?;
    refuse_at_work(&before, &record).await?;
    next.store(&*before.storage).await.map_err(Failure::server)?;
    next.begin(&mut record);
    match record.write(&*before.storage).await {
        // Of two that resume or remove a job at once, the other was first; or the job has ended since its record was read.
        Err(error) if matches!(error.kind, StorageErrorKind::Changed | StorageErrorKind::NotFound) => {
            return Err(Failure::wrong(format!(
                "job {} has ended, or was resumed or removed, at this moment; prs status {} shows it",
                record.job_id, record.job_id
            )));
        }
        written => written.context("cannot store the job").map_err(Failure::server)?,
    }
    enter(fleet, &record, behind).await?;
    // Whoever still works on the former start finds nothing under its name.
    let what = "close the books of the former start";
    repeated(what, WatchError::is_retryable, || clean_up(&before)).await?;
    let (job, folder) = context(fleet, &record)?;
    activate(&job).await?;
    open_books(&job).await?;
    // Not repeated: of segments that the ledger knows already it would not tell the checksums again.
    let recovered =
        recover(&job).await.context("cannot read what is done already").map_err(Failure::server)?;
    output::say(words::done_already(recovered.ended));
    for damaged in &recovered.damaged {
        output::say(format_args!("{damaged}; its mini-batches run again"));
    }
    hand_in(record, (job, folder), recovered.known).await
}

/// Refuses to start a job again that somebody works on, before anything is asked about that.
pub(crate) async fn check_at_rest(fleet: &Fleet, record: &JobRecord) -> Result<(), Failure> {
    let (job, _folder) = context(fleet, record)?;
    refuse_at_work(&job, record).await
}

async fn refuse_at_work(job: &JobContext, record: &JobRecord) -> Result<(), Failure> {
    if record.result.is_none()
        && let Some(doing) = is_at_work(job).await.map_err(Failure::server)?
    {
        let id = &record.job_id;
        return Err(Failure::wrong(format!("job {id} is {doing}; prs stream {id} follows it")));
    }
    Ok(())
}

/// What somebody does with the job at the moment, if anybody does.
async fn is_at_work(job: &JobContext) -> Result<Option<&'static str>, LedgerError> {
    match ask_who_works(job).await {
        Err(error) if error.kind == LedgerErrorKind::NotFound => Ok(None),
        answer => answer,
    }
}

async fn ask_who_works(job: &JobContext) -> Result<Option<&'static str>, LedgerError> {
    let ledger = &job.ledger;
    if ledger.nodes().await?.iter().any(|node| job.policy.is_present(node)) {
        return Ok(Some("running"));
    }
    // Its nodes leave before the last of them has written how it ended.
    let ends = ledger.state().await? == JobState::Finalizing || ledger.progress().await?.conclusion.is_some();
    Ok((ends && is_watched(job).await?).then_some("about to end"))
}
