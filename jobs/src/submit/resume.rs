//! A former job that goes on: what is missing or failed of it runs.

use std::sync::Arc;

use anyhow::Context;
use prs_common::servers::ServerUrls;
use prs_orchestrator::publish::Notes;
use prs_orchestrator::segments::carry::{self, Carried};
use prs_orchestrator::{JobContext, JobRecord, JobResult};
use prs_worker::connect_fleet;

use super::code_choice::{Changes, NextStart, next_start};
use super::corrected;
use super::ended::{Ended, Target};
use super::local::Python;
use super::output_copy::check_there;
use super::output_folder::{check_record, check_side_inputs, claim_for_former};
use super::pipeline::run as pipeline;
use super::resume_hint::ResumeHint;
use super::run::hand_over;
use super::{embedded, fleet, output_place};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::fleet::entry::context;
use crate::homes::{self, JobHome, run_folder};
use crate::paths::shown;

/// Goes on with a former job, with these changes, to its end. With `detach`, which a fleet takes alone, it is handed in.
/// A job of which nothing is left to do has ended.
pub async fn resume(changes: &Changes<'_>, detach: bool) -> Result<Ended, Failure> {
    match &changes.whereabouts.urls {
        Some(urls) => Box::pin(resume_on(urls, changes, detach)).await,
        None => Box::pin(resume_here(changes)).await,
    }
}

/// Goes on with a job of a fleet.
async fn resume_on(urls: &ServerUrls, changes: &Changes<'_>, detach: bool) -> Result<Ended, Failure> {
    let caller = &*changes.whereabouts.caller;
    let home = homes::find(changes.name, changes.whereabouts).await?;
    let (record, storage) = (home.record().await?, home.storage());
    if let Some(result) = done(&*home, &record, caller).await? {
        return Ok(Ended::job(result.clone(), home.called()));
    }
    caller.prepare()?;
    let fleet = connect_fleet(urls).await?;
    if record.pipeline.is_some() {
        refuse_group(changes, &record)?;
        return pipeline::resume_on(&fleet, record, changes, detach).await;
    }
    let carried = carried(&*home, &record, changes).await?;
    output_place::check(&record.spec, &**storage).await?;
    let target = match record.spec.output.as_deref().filter(|_| !detach) {
        Some(output) => {
            let notes = Notes::read(&**storage).await.map_err(Failure::server)?;
            let claim = claim_for_former(output, &record, &notes).await?;
            Some(Target { _claim: claim, notes: Some(notes) })
        }
        None => None,
    };
    fleet::check_at_rest(&fleet, &record).await?;
    let next = next_start(changes, &record, &**storage, &[]).await?;
    let (job, _folder) = context(&fleet, &record)?;
    let job = later(job, &record, &next);
    let anew = corrected::anew(&record.job_id);
    let next = next.with_plan(corrected::check(job, carried.as_ref(), detach, &anew, caller).await?);
    let mut interrupts = caller.interrupts()?;
    let hint = ResumeHint::default();
    let resumed = fleet::resume(&fleet, record, (next, carried), &hint, caller);
    let submitted = Box::pin(hint.unless_interrupted(&mut *interrupts, resumed)).await?;
    caller.note(&format_args!("job {} goes on", submitted.job.id));
    caller.begins(&submitted.job.id);
    Box::pin(hand_over(submitted, target, detach, &mut *interrupts, caller)).await
}

/// Goes on with a job of this machine.
async fn resume_here(changes: &Changes<'_>) -> Result<Ended, Failure> {
    let caller = &*changes.whereabouts.caller;
    let folder = run_folder::find_to_resume(changes.name, &changes.whereabouts.runs)?;
    let _lock = run_folder::lock(&folder)?.ok_or_else(|| {
        Failure::at_work(format!("{} is running; there is nothing to resume", folder.display()))
    })?;
    let home = homes::in_folder(folder.clone());
    let (mut record, storage) = (home.record().await?, home.storage());
    if let Some(result) = done(&*home, &record, caller).await? {
        return Ok(Ended::job(result.clone(), home.called()));
    }
    caller.prepare()?;
    if record.pipeline.is_some() {
        refuse_group(changes, &record)?;
        return Box::pin(pipeline::resume_here(folder, record, changes)).await;
    }
    let carried = carried(&*home, &record, changes).await?;
    let next = next_start(changes, &record, &**storage, &[&folder]).await?;
    check_side_inputs(&next.spec, &folder)?;
    let job =
        later(embedded::context(&folder, &run_folder::output(&folder, &record), &record), &record, &next);
    let anew = corrected::anew(&record.job_id);
    let mut next = next.with_plan(corrected::check(job, carried.as_ref(), false, &anew, caller).await?);
    let python = Python::find(&next.spec)?;
    output_place::check(&record.spec, &**storage).await?;
    let notes = Notes::read(&**storage).await.context("cannot read the run folder")?;
    let _claim = claim_for_former(&run_folder::output(&folder, &record), &record, &notes).await?;
    let mut interrupts = caller.interrupts()?;
    next.store(&record, &**storage).await?;
    next.begin(&mut record, Some(&python.interpreter));
    record.write(&**storage).await.context("cannot store the job")?;
    if let Some(carried) = carried {
        let written = carried.write(&**storage, record.incarnation).await;
        written.context("cannot carry over what does not run again")?;
    }
    caller.note(&format_args!("job {} goes on in {}", record.job_id, shown(&folder)));
    caller.begins(&record.job_id);
    let run = embedded::Run { folder, record, python, interrupts: &mut *interrupts, caller, outer: None };
    let result = embedded::run(run).await?;
    Ok(Ended::job(result, home.called()))
}

/// The job of `record` as `next` starts it.
fn later(job: JobContext, record: &JobRecord, next: &NextStart) -> JobContext {
    JobContext { incarnation: record.incarnation + 1, spec: Arc::new(next.spec.clone()), ..job }
}

/// What does not run again, where one error group alone does.
async fn carried(
    home: &dyn JobHome,
    record: &JobRecord,
    changes: &Changes<'_>,
) -> Result<Option<Carried>, Failure> {
    let Some(group) = changes.only_group else { return Ok(None) };
    let found = carry::look(home.storage(), record.incarnation, group).await;
    let found = found.map_err(home.cannot("read what failed"))?;
    if found.open == 0 {
        let id = home.called();
        return Err(Failure::wrong(format!(
            "only_group: no mini-batch of job {id} is lost because of an error of the group {group:?}; prs errors {id} -o json names the groups"
        )));
    }
    changes.whereabouts.caller.note(&format_args!(
        "of what failed, {} mini-batch(es) of the group {group} run again, and {} stay as they are",
        found.open,
        found.kept()
    ));
    Ok(Some(found))
}

/// Refuses an error group of a pipeline, which has none of its own.
fn refuse_group(changes: &Changes<'_>, record: &JobRecord) -> Result<(), Failure> {
    match changes.only_group {
        Some(_) => Err(Failure::wrong(format!(
            "only_group: {} has steps, and its errors are theirs; leave it out, and all that failed runs again",
            record.job_id
        ))),
        None => Ok(()),
    }
}

/// The result of a job of which nothing is left to do, when it still is in its output; a job that this program cannot go on
/// with is refused.
async fn done<'a>(
    home: &dyn JobHome,
    record: &'a JobRecord,
    caller: &dyn Caller,
) -> Result<Option<&'a JobResult>, Failure> {
    let Some(result) = record.result.as_ref().filter(|_| record.is_done_with()) else {
        return check_record(record).map(|()| None);
    };
    check_there(home, record, result).await?;
    caller.note(&"the job has completed already; no item is missing");
    Ok(Some(result))
}
