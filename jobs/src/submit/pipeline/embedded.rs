//! A pipeline in this process: one step after the other, each as an embedded run in a folder below that of the pipeline.
//!
//! Each step uses all cores of the machine, so that no two run at a time. What the folders hold is enough to go on after
//! any interruption: a step that completed is not run again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use prs_common::end_reason::EndReason;
use prs_common::job::JobSpec;
use prs_common::job::pipeline::{Action, Parent, Step, StepState, decide, step_id};
use prs_common::ledger::JobState;
use prs_common::storage::{LocalStorage, PutMode, Storage};
use prs_orchestrator::inputs::{Audience, InputStores, Where, resolve};
use prs_orchestrator::job::record::JobRecordError;
use prs_orchestrator::pipeline::{
    Delivery, Ended, Given, StepView, bound, conclude, deliver, fail_step, given, look, outputs, states,
};
use prs_orchestrator::publish::Notes;
use prs_orchestrator::{JobRecord, JobResult};
use prs_worker::opener;

use super::code::StepCodes;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::run_folder::{self, STEPS};
use crate::interrupts::Interrupts;
use crate::submit::embedded;
use crate::submit::local::Python;
use crate::submit::output_folder::{claim_for_former, claim_for_new};

/// Context of an error over what steps brought.
const UNREAD: &str = "cannot read the output of a step";

/// A pipeline in its folder, which is locked.
pub struct PipelineRun<'a> {
    /// Its folder.
    pub folder: PathBuf,
    /// Its record.
    pub record: JobRecord,
    /// What the caller wants meanwhile.
    pub interrupts: &'a mut dyn Interrupts,
    /// Hears what there is to say.
    pub caller: &'a dyn Caller,
}

/// Stores the code of the steps of a new pipeline, each in the folder that its job will have.
pub async fn store_codes(folder: &Path, record: &JobRecord, codes: &StepCodes) -> Result<(), Failure> {
    let Some(plan) = &record.pipeline else { return Ok(()) };
    for step in &plan.pipeline.steps {
        let Some((key, archive)) = codes.of(&step.name) else { continue };
        let folder = run_folder::make(&folder.join(STEPS).join(step_id(&record.job_id, &step.name)))?;
        let put = LocalStorage::new(folder).put(key, archive.clone().into(), PutMode::Overwrite).await;
        put.context("cannot store the code of a step")?;
    }
    Ok(())
}

/// Runs what is left of a pipeline to its end.
pub async fn run(mut run: PipelineRun<'_>) -> Result<JobResult, Failure> {
    run_folder::forget_cancel(&run.folder);
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&run.folder));
    run.record.state = JobState::Running;
    run.record.write(&*storage).await.context("cannot store the pipeline")?;
    let Some(plan) = run.record.pipeline.clone() else {
        return Err(anyhow::anyhow!("job {} is no pipeline", run.record.job_id).into());
    };
    let (mut told, mut canceled) = (HashSet::new(), None);
    loop {
        canceled = canceled.or_else(|| wish(&run));
        let steps = |id: &str| storage.below(&format!("{STEPS}/{id}"));
        let mut views = look(&run.record, &steps).await.map_err(of_record)?;
        let delivery = Delivery {
            own: &*storage,
            storage: &steps,
            open: &opener(),
            reach: run.record.spec.reach(),
            start: Some(run.record.incarnation),
        };
        if canceled.is_none() && !plan.pipeline.places.is_empty() {
            tokio::select! {
                delivered = deliver(&plan.pipeline, plan.pipeline.places.iter(), &mut views, &delivery) => {
                    for again in delivered.context("cannot put the output of a step to its place")? {
                        run.caller.note(&again);
                    }
                }
                name = run.interrupts.next() => {
                    run.caller.note(&format_args!("{name}: stopping"));
                    continue;
                }
            }
        }
        // Nothing runs beside this program: a step without an end was interrupted.
        let mut states = states(&views);
        states
            .iter_mut()
            .filter(|state| **state == StepState::Running)
            .for_each(|state| *state = StepState::Waiting);
        for action in decide(&plan.pipeline, &states, canceled.is_some()) {
            match action {
                Action::Start(at) => {
                    Box::pin(start(&mut run, &storage, at, &views)).await?;
                    break;
                }
                Action::Skip(at) => {
                    let name = &plan.pipeline.steps[at].name;
                    if told.insert(name.clone()) {
                        run.caller.note(&format_args!("step {name} is not run"));
                    }
                }
                Action::Cancel(_) => {}
                Action::Conclude(mut end) => {
                    if canceled.is_none() {
                        let again = tokio::select! {
                            again = outputs(&run.record, &mut end, &mut views, &steps) => again.context(UNREAD)?,
                            name = run.interrupts.next() => {
                                run.caller.note(&format_args!("{name}: stopping"));
                                break;
                            }
                        };
                        if let Some((at, words)) = again {
                            run.caller.note(&words);
                            Box::pin(start(&mut run, &storage, at, &views)).await?;
                            break;
                        }
                    }
                    let place = run_folder::called(&run.folder);
                    let ended = Ended {
                        views: &views,
                        end,
                        canceled: canceled.as_ref().map(ToString::to_string),
                        storage: &storage,
                        around: (&storage, String::new()),
                        steps: format!("{STEPS}/"),
                        place: &place,
                    };
                    let result = conclude(&mut run.record, ended).await.map_err(of_record)?;
                    run_folder::forget_cancel(&run.folder);
                    return Ok(result);
                }
            }
        }
    }
}

/// Whether a user asked for the end of the pipeline.
fn wish(run: &PipelineRun<'_>) -> Option<EndReason> {
    let interrupted =
        run.interrupts.seen().map(|signal| EndReason::Interrupted { signal: signal.to_owned() });
    interrupted.or_else(|| run_folder::wish_to_cancel(&run.folder).map(|who| EndReason::Canceled { who }))
}

/// Runs the step at `at` to its end, or the one in front of it that has to run again, unless the user interrupts it before.
async fn start(
    run: &mut PipelineRun<'_>,
    storage: &Arc<dyn Storage>,
    mut at: usize,
    views: &[StepView],
) -> Result<(), Failure> {
    let steps = |id: &str| storage.below(&format!("{STEPS}/{id}"));
    let changed = loop {
        let given = tokio::select! {
            given = given(&run.record, at, views, &steps) => given.context(UNREAD)?,
            name = run.interrupts.next() => {
                run.caller.note(&format_args!("{name}: stopping"));
                return Ok(());
            }
        };
        match given {
            Given::RunsAgain(before, words) => {
                run.caller.note(&words);
                at = before;
            }
            Given::Changed(reason) => break Some(reason),
            // Nothing runs beside this program.
            Given::Whole | Given::Waits => break None,
        }
    };
    let plan = run.record.pipeline.as_ref().expect("the caller has the record of a pipeline");
    let step = plan.pipeline.steps[at].clone();
    let code = plan.codes.get(&step.name).cloned().unwrap_or_default();
    Box::pin(run_step(run, storage, (&step, &views[at]), code, changed)).await
}

/// Runs a step to its end; one that is given what was `changed` fails.
async fn run_step(
    run: &mut PipelineRun<'_>,
    storage: &Arc<dyn Storage>,
    (step, view): (&Step, &StepView),
    code: String,
    changed: Option<EndReason>,
) -> Result<(), Failure> {
    let id = step_id(&run.record.job_id, &step.name);
    let folder = run_folder::make(&run.folder.join(STEPS).join(&id))?;
    let _lock = run_folder::lock(&folder)?
        .ok_or_else(|| Failure::wrong(format!("{} is in use by another run", folder.display())))?;
    let own = LocalStorage::new(&folder);
    let former = match JobRecord::read(&own).await {
        Ok(record) => Some(record),
        Err(JobRecordError::Absent { .. }) => None,
        Err(error) => return Err(of_record(error)),
    };
    let plan = run.record.pipeline.as_ref().expect("the caller has the record of a pipeline");
    let steps = |id: &str| storage.below(&format!("{STEPS}/{id}"));
    let bound = match changed {
        None => bound(&run.record.job_id, &plan.pipeline, step, &steps).await.context(UNREAD)?,
        Some(reason) => Err(reason),
    };
    let ready = match bound {
        Ok(spec) => prepare(spec, &own).await,
        Err(reason) => Err(reason),
    };
    let mut spec = ready.as_ref().map_or_else(|_| step.spec.clone(), |(spec, _)| spec.clone());
    if plan.pipeline.main.as_ref() == Some(&step.name) && spec.output.is_none() {
        // What the step brings is the output of the pipeline.
        spec.output = Some(run_folder::output(&run.folder, &run.record));
    }
    let is_new = former.is_none();
    let mut record = match former {
        Some(mut record) => {
            view.start_again(&mut record, plan);
            JobRecord { code, spec, ..record }
        }
        None => JobRecord::new(id, code, spec),
    };
    record.parent = Some(Parent {
        job_id: run.record.job_id.clone(),
        step: step.name.clone(),
        start: run.record.incarnation,
    });
    let place = run_folder::output(&folder, &record);
    let _claim = if is_new {
        claim_for_new(&place, &record.spec, &record.job_id)?
    } else {
        let notes = Notes::read(&own).await.context("cannot read the run folder")?;
        claim_for_former(&place, &record, &notes).await?
    };
    record.write(&own).await.context("cannot store the job of a step")?;
    let python = match ready {
        Ok((_, python)) => python,
        Err(reason) => {
            run.caller.note(&format_args!("step {} fails: {reason}", step.name));
            return fail_step(&mut record, &own, &reason).await.map_err(of_record);
        }
    };
    run.caller.note(&format_args!("step {}: job {} runs", step.name, record.job_id));
    let outer = Some(run.folder.clone());
    let step_run =
        embedded::Run { folder, record, python, interrupts: &mut *run.interrupts, caller: run.caller, outer };
    let result = embedded::run(step_run).await?;
    let (state, reason) = result.last_end();
    let reason = reason.and_then(|reason| reason.lines().next());
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    run.caller.note(&format_args!("step {} {}{reason}", step.name, state.as_str()));
    Ok(())
}

/// The settings of a step as they are run here, and its interpreter; a reason to fail where it cannot be started.
async fn prepare(spec: JobSpec, own: &LocalStorage) -> Result<(JobSpec, Python), EndReason> {
    let not_started = |error: String| EndReason::StepNotStarted { error };
    let python = Python::find(&spec).map_err(|failure| not_started(failure.to_string()))?;
    let stores: Arc<dyn Storage> = Arc::new(own.clone());
    let stores = InputStores::new(Arc::clone(&stores), stores, opener()).within(spec.reach());
    let resolved = resolve(spec, &stores, Where::Embedded, Audience::NONE).await;
    Ok((resolved.map_err(|error| not_started(error.to_string()))?, python))
}

fn of_record(error: JobRecordError) -> Failure {
    anyhow::Error::from(error).into()
}
