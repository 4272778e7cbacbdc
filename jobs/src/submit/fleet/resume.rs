//! Going on with a job of a fleet.

use anyhow::Context;
use prs_common::ledger::{JobState, LedgerError, LedgerErrorKind};
use prs_common::storage::{Storage, StorageErrorKind};
use prs_orchestrator::job::leases::is_watched;
use prs_orchestrator::job::record::JobRecordError;
use prs_orchestrator::job::words;
use prs_orchestrator::orchestrate::clean_up;
use prs_orchestrator::segments::carry::Carried;
use prs_orchestrator::segments::recover::recover;
use prs_orchestrator::watch::WatchError;
use prs_orchestrator::{Fleet, JobContext, JobRecord};

use super::start::{Submitted, activate, enter, hand_in};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::fleet::entry::{context, enter_in_ledger};
use crate::homes::fleet::patience::repeated;
use crate::submit::code_choice::NextStart;
use crate::submit::resume_hint::ResumeHint;

/// Starts a former job again: what is missing or failed of it runs.
pub(crate) async fn resume(
    fleet: &Fleet,
    mut record: JobRecord,
    (mut next, carried): (NextStart, Option<Carried>),
    hint: &ResumeHint,
    caller: &dyn Caller,
) -> Result<Submitted, Failure> {
    let (before, _folder) = context(fleet, &record)?;
    refuse_at_work(&before, &record).await?;
    next.store(&record, &*before.storage).await.map_err(Failure::server)?;
    next.begin(&mut record, None);
    begin(&mut record, &*before.storage).await?;
    if let Some(carried) = carried {
        let written = carried.write(&*before.storage, record.incarnation).await;
        written.context("cannot carry over what does not run again").map_err(Failure::server)?;
    }
    enter(fleet, &record, hint, caller).await?;
    // A program that still works on the former start finds nothing under its name.
    let what = "remove the former start from the ledger";
    repeated(what, caller, WatchError::is_retryable, || clean_up(&before)).await?;
    let (job, folder) = context(fleet, &record)?;
    activate(&job, caller).await?;
    enter_in_ledger(&job, caller).await?;
    // Not repeated: of segments that the ledger knows already it would not tell the checksums again.
    let recovered =
        recover(&job).await.context("cannot read what is done already").map_err(Failure::server)?;
    caller.note(&words::done_already(recovered.ended));
    for damaged in &recovered.damaged {
        caller.note(&format_args!("{damaged}; its mini-batches run again"));
    }
    hand_in(record, (job, folder), recovered.known, caller).await
}

/// Writes the record of a start that is to begin. Of two programs that resume a job at once one does so.
pub(crate) async fn begin(record: &mut JobRecord, storage: &dyn Storage) -> Result<(), Failure> {
    let error = match record.write(storage).await {
        Err(error) if matches!(error.kind, StorageErrorKind::Changed | StorageErrorKind::NotFound) => error,
        written => return written.context("cannot store the job").map_err(Failure::server),
    };
    let (noun, id) = (record.noun(), &record.job_id);
    let told = match JobRecord::read(storage).await {
        Ok(found) if found.incarnation >= record.incarnation => {
            return Err(Failure::at_work(format!(
                "another resume of {noun} {id} began at this moment, its start {}; prs stream {id} follows it",
                found.incarnation
            )));
        }
        Ok(_) => format!("{noun} {id} has ended, or was changed, at this moment; prs status {id} shows it"),
        Err(JobRecordError::Absent { .. }) => format!("{noun} {id} was removed at this moment"),
        Err(_) => return Err(error).context("cannot store the job").map_err(Failure::server),
    };
    Err(Failure::wrong(told))
}

/// Refuses to start a job again that another program works on, before anything is asked about that.
pub(crate) async fn check_at_rest(fleet: &Fleet, record: &JobRecord) -> Result<(), Failure> {
    let (job, _folder) = context(fleet, record)?;
    refuse_at_work(&job, record).await
}

async fn refuse_at_work(job: &JobContext, record: &JobRecord) -> Result<(), Failure> {
    if record.result.is_none()
        && let Some(doing) = is_at_work(job).await.map_err(Failure::server)?
    {
        let id = &record.job_id;
        return Err(Failure::at_work(format!("job {id} is {doing}; prs stream {id} follows it")));
    }
    Ok(())
}

/// What another program does with the job at the moment, where one does.
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
