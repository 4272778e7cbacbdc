//! A pipeline that runs anew, or goes on: in this process or on a fleet.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use prs_common::job::pipeline::Pipeline;
use prs_common::job::{JobSpec, LoadedPipeline};
use prs_common::layout;
use prs_common::storage::{LocalStorage, Storage};
use prs_orchestrator::job::record::PipelinePlan;
use prs_orchestrator::publish::Notes;
use prs_orchestrator::{Fleet, JobRecord};
use prs_worker::connect_fleet;

use super::code::StepCodes;
use super::corrected::Steps;
use super::embedded::{self, PipelineRun};
use super::{NewPipeline, fleet, grouped, new_code, next_start, places};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::fleet::entry::context;
use crate::homes::run_folder::STEPS;
use crate::homes::{self, run_folder};
use crate::interrupts::Interrupts;
use crate::paths::shown;
use crate::submit::code_choice::{Changes, CodeChoice};
use crate::submit::embedded::{context as context_here, note_interrupted};
use crate::submit::ended::{Ended, Target, end, note_unfilled};
use crate::submit::local::Python;
use crate::submit::output_folder::{
    check_apart, check_new, check_side_inputs, claim_for_former, claim_for_new,
};
use crate::submit::resume_hint::ResumeHint;
use crate::submit::run::{Start, hand_on, holds_a_job, make_folder, note_settings};
use crate::submit::{output_place, reuse};

/// Runs a pipeline, which came as a text or as a file.
pub(crate) async fn submit(
    loaded: LoadedPipeline,
    is_text: bool,
    start: &Start<'_>,
) -> Result<Ended, Failure> {
    let (runs_on, caller) = (start.whereabouts.runs_on(), &*start.whereabouts.caller);
    let codes = StepCodes::pack(&loaded.pipeline, runs_on, is_text, caller).await?;
    run(loaded, codes, Vec::new(), start).await
}

/// Runs a former job whose rows are put together in steps again, as a new one with this code. `listings` are where those of
/// its inputs lie.
pub(crate) async fn resubmit(
    loaded: LoadedPipeline,
    code: &(String, Bytes),
    listings: Vec<Arc<dyn Storage>>,
    start: &Start<'_>,
) -> Result<Ended, Failure> {
    let codes = StepCodes::around(&loaded.pipeline, code)?;
    run(loaded, codes, listings, start).await
}

async fn run(
    mut loaded: LoadedPipeline,
    codes: StepCodes,
    listings: Vec<Arc<dyn Storage>>,
    start: &Start<'_>,
) -> Result<Ended, Failure> {
    note_all_settings(&loaded.spec, &loaded.pipeline, &*start.whereabouts.caller);
    let (id, is_named) = (start.id_of(&loaded.spec.name), start.is_named());
    loaded.put_job_ids(&id);
    if start.whereabouts.urls.is_some() && start.detach {
        output_place::note_unfilled(&mut loaded.spec, &id);
    }
    let new = NewPipeline { id, is_named, loaded, codes, listings };
    match &start.whereabouts.urls {
        Some(urls) => {
            let fleet = connect_fleet(urls).await?;
            submit_on(&fleet, new, start).await
        }
        None => Box::pin(submit_here(new, start)).await,
    }
}

/// Hands a new pipeline to a fleet.
async fn submit_on(fleet: &Fleet, new: NewPipeline, start: &Start<'_>) -> Result<Ended, Failure> {
    let (caller, detach) = (&*start.whereabouts.caller, start.detach);
    let mut interrupts = caller.interrupts()?;
    let hint = ResumeHint::default();
    places::check(&new.loaded.pipeline, new.loaded.spec.reach(), None).await?;
    let (id, spec) = (&new.id, &new.loaded.spec);
    output_place::check(spec, &*fleet.job_storage(id)).await?;
    let output = spec.output.as_deref().filter(|_| !detach);
    let claim = output.map(|output| claim_for_new(output, spec, id)).transpose()?;
    let target = claim.map(|claim| Target { _claim: claim, notes: None });
    let started = fleet::start(fleet, new, &hint, caller);
    let record = match hint.unless_interrupted(&mut *interrupts, Box::pin(started)).await? {
        fleet::Started::HandedIn(record) => *record,
        fleet::Started::Given(given) => {
            caller.begins(&given.record.job_id);
            return Ok(hand_on(*given, target, detach, &mut *interrupts, caller).await);
        }
    };
    caller.note(&format_args!("{} {} is handed in", record.noun(), record.job_id));
    caller.begins(&record.job_id);
    follow(fleet, &record, target, detach, &mut *interrupts, caller).await
}

/// Goes on with a pipeline of a fleet.
pub(crate) async fn resume_on(
    fleet: &Fleet,
    mut record: JobRecord,
    changes: &Changes<'_>,
    detach: bool,
) -> Result<Ended, Failure> {
    let caller = &*changes.whereabouts.caller;
    let has_main = record.main_step().is_some();
    if !has_main {
        check(changes)?;
    }
    let plans = if record.result.is_none() {
        check_unended(&record, changes)?;
        None
    } else {
        let steps = Steps {
            record: &record,
            storage: &|id| fleet.job_storage(id),
            context: |record: &JobRecord| context(fleet, record),
            may_be_elsewhere: detach,
            caller,
        };
        let plans = Box::pin(steps.look()).await?;
        if has_main {
            let main = output_job(fleet, &record);
            next_start::change(changes, &mut record, &*main, &[], false).await?;
        } else {
            new_code::change(changes, &mut record, &|id| fleet.job_storage(id), &[]).await?;
        }
        Some(plans)
    };
    output_place::check(&record.spec, &*output_job(fleet, &record)).await?;
    let target = match record.spec.output.as_deref().filter(|_| !detach) {
        Some(output) => {
            let notes = Notes::read(&*output_job(fleet, &record)).await.map_err(Failure::server)?;
            let claim = claim_for_former(output, &record, &notes).await?;
            Some(Target { _claim: claim, notes: Some(notes) })
        }
        None => None,
    };
    let mut interrupts = caller.interrupts()?;
    let hint = ResumeHint::default();
    if let Some(plans) = plans {
        plans.store(&mut record).await.map_err(Failure::server)?;
    }
    let resumed = fleet::resume(fleet, record, &hint, caller);
    let record = hint.unless_interrupted(&mut *interrupts, Box::pin(resumed)).await?;
    caller.note(&format_args!("{} {} goes on", record.noun(), record.job_id));
    caller.begins(&record.job_id);
    follow(fleet, &record, target, detach, &mut *interrupts, caller).await
}

/// What has the output: the step that the pipeline is in the eyes of the user, or itself.
fn output_job(fleet: &Fleet, record: &JobRecord) -> Arc<dyn Storage> {
    fleet.job_storage(&record.main_step().unwrap_or_else(|| record.job_id.clone()))
}

/// Waits for a pipeline that was handed in, where that is wanted.
async fn follow(
    fleet: &Fleet,
    record: &JobRecord,
    target: Option<Target>,
    detach: bool,
    interrupts: &mut dyn Interrupts,
    caller: &dyn Caller,
) -> Result<Ended, Failure> {
    let id = &record.job_id;
    let folder = record.spec.output.as_deref();
    let leave = || {
        note_unfilled(id, folder, caller);
        for told in places::unfilled(record) {
            caller.note(&told);
        }
    };
    if detach {
        leave();
        return Ok(Ended::HandedIn { job_id: id.clone(), noun: record.noun() });
    }
    let Some(result) = fleet::wait(fleet, record, interrupts, caller).await? else {
        caller.note(&format_args!("the {} goes on; prs stream {id} follows it", record.noun()));
        leave();
        return Ok(Ended::Left);
    };
    let storage = output_job(fleet, record).below(layout::OUTPUT.trim_end_matches('/'));
    // It has ended, whatever becomes of the copies.
    let filled = places::fill(fleet, record).await;
    let mut ended = end((result, &*storage), folder.zip(target), interrupts).await;
    if let (Ended::Job { not_filled, .. }, Err(failure)) = (&mut ended, filled) {
        not_filled.get_or_insert(failure);
    }
    Ok(ended)
}

/// Runs a new pipeline in this process.
async fn submit_here(
    NewPipeline { id, loaded: LoadedPipeline { spec, pipeline }, codes, listings, .. }: NewPipeline,
    start: &Start<'_>,
) -> Result<Ended, Failure> {
    start.check_id()?;
    let caller = &*start.whereabouts.caller;
    for step in &pipeline.steps {
        Python::find(&step.spec)?;
    }
    let plan = PipelinePlan::new(pipeline, codes.keys());
    let mut record = JobRecord::of_pipeline(id, spec, plan);
    let folder = start.folder_of(&record.job_id);
    if folder.join(layout::JOB).exists() {
        return Err(holds_a_job(&folder));
    }
    if let Some(output) = &record.spec.output {
        check_apart(output, &folder)?;
        check_new(output, &record.spec)?;
    }
    output_place::check(&record.spec, &LocalStorage::new(&folder)).await?;
    // Before anything is made.
    check_steps(record.pipeline.as_deref(), &folder)?;
    if let Some(plan) = &record.pipeline {
        places::check(&plan.pipeline, record.spec.reach(), Some(&folder)).await?;
    }
    let folder = make_folder(&folder)?;
    let _lock = run_folder::lock(&folder)?
        .ok_or_else(|| Failure::at_work(format!("{} is in use by another run", folder.display())))?;
    let mut interrupts = caller.interrupts()?;
    let hint = ResumeHint::default();
    if !start.is_picked {
        hint.set(format_args!("{} holds a job that has not run; it may be removed", folder.display()));
    }
    let name = run_folder::called(&folder);
    if record.main_step().is_some() {
        let given =
            grouped::begin(&mut record, (&codes, &listings), &folder, &start.whereabouts.runs, caller);
        if let Some(result) = Box::pin(hint.unless_interrupted(&mut *interrupts, given)).await? {
            caller.begins(&record.job_id);
            reuse::note_given(&result, caller);
            return Ok(Ended::job(result, name));
        }
    }
    let stored = async {
        embedded::store_codes(&folder, &record, &codes).await?;
        if !record.create(&LocalStorage::new(&folder)).await.context("cannot store the pipeline")? {
            return Err(holds_a_job(&folder));
        }
        Ok(record)
    };
    let record = match hint.unless_interrupted(&mut *interrupts, stored).await {
        Ok(record) => record,
        Err(failure) => {
            note_interrupted(&LocalStorage::new(&folder), &*interrupts, caller).await;
            return Err(failure);
        }
    };
    caller.note(&format_args!("job {} runs in {}", record.job_id, shown(&folder)));
    caller.begins(&record.job_id);
    let result = embedded::run(PipelineRun { folder, record, interrupts: &mut *interrupts, caller }).await?;
    Ok(Ended::job(result, name))
}

/// Goes on with a pipeline of this machine, whose folder is locked: the steps that have not completed are run.
pub(crate) async fn resume_here(
    folder: PathBuf,
    mut record: JobRecord,
    changes: &Changes<'_>,
) -> Result<Ended, Failure> {
    let caller = &*changes.whereabouts.caller;
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&folder));
    let steps = |id: &str| storage.below(&format!("{STEPS}/{id}"));
    let of_step = |record: &JobRecord| {
        let folder = folder.join(STEPS).join(&record.job_id);
        Ok((context_here(&folder, &run_folder::output(&folder, record), record), ()))
    };
    let looked =
        Steps { record: &record, storage: &steps, context: of_step, may_be_elsewhere: false, caller };
    let plans = Box::pin(looked.look()).await?;
    if record.main_step().is_some() {
        let main = homes::in_folder(folder.clone()).main_storage(&record);
        output_place::check(&record.spec, &*main).await?;
        next_start::change(changes, &mut record, &*main, &[&folder], true).await?;
    } else {
        check(changes)?;
        new_code::change(changes, &mut record, &steps, &[&folder]).await?;
    }
    check_steps(record.pipeline.as_deref(), &folder)?;
    let mut interrupts = caller.interrupts()?;
    plans.store(&mut record).await?;
    record.start_again();
    record.write(&LocalStorage::new(&folder)).await.context("cannot store the pipeline")?;
    caller.note(&format_args!("job {} goes on in {}", record.job_id, shown(&folder)));
    caller.begins(&record.job_id);
    let name = run_folder::called(&folder);
    let result = embedded::run(PipelineRun { folder, record, interrupts: &mut *interrupts, caller }).await?;
    Ok(Ended::job(result, name))
}

/// Refuses data of a step that hold the folder of the pipeline, which changes while the step runs.
fn check_steps(plan: Option<&PipelinePlan>, folder: &Path) -> Result<(), Failure> {
    for step in plan.iter().flat_map(|plan| &plan.pipeline.steps) {
        check_side_inputs(&step.spec, folder)
            .map_err(|failure| Failure::wrong(format!("step {}: {failure}", step.name)))?;
    }
    Ok(())
}

/// Says what the author of a pipeline should know of its settings; what holds of many steps once.
pub fn note_all_settings(spec: &JobSpec, pipeline: &Pipeline, caller: &dyn Caller) {
    let mut all = spec.clone();
    for step in &pipeline.steps {
        let known = all.notes.clone();
        all.notes.extend(step.spec.notes.iter().filter(|note| !known.contains(note)).cloned());
    }
    note_settings(&all, caller);
}

/// Refuses changes of a pipeline that are for a job alone.
fn check(changes: &Changes<'_>) -> Result<(), Failure> {
    let option = match (changes.set.is_empty(), changes.sent) {
        (false, _) => "--set",
        (true, Some(_)) => "code that comes along",
        (true, None) => return Ok(()),
    };
    Err(Failure::wrong(format!(
        "{option} is for a job, and this is a pipeline: its settings are those that it was submitted with; change the file and submit that"
    )))
}

/// Refuses changes of a job that has not ended.
fn check_unended(record: &JobRecord, changes: &Changes<'_>) -> Result<(), Failure> {
    if changes.set.is_empty() && changes.code != Some(CodeChoice::New) && changes.sent.is_none() {
        return Ok(());
    }
    Err(Failure::wrong(format!(
        "job {0} has not ended, so it goes on as it is: cancel it first (prs cancel {0}), or leave out --set and --code",
        record.job_id
    )))
}
