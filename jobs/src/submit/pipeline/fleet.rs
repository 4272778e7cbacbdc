//! Handing a pipeline to a fleet: what all steps are made of is stored and uploaded first. Workers drive it then, and this
//! program beside them while it waits.

use std::time::Duration;

use anyhow::Context;
use prs_common::job::LoadedPipeline;
use prs_common::job::pipeline::step_id;
use prs_common::layout;
use prs_common::storage::{StorageError, StorageExt};
use prs_orchestrator::gc::until_quiet;
use prs_orchestrator::job::ServerError;
use prs_orchestrator::job::record::PipelinePlan;
use prs_orchestrator::job::reuse;
use prs_orchestrator::orchestrate::clean_up;
use prs_orchestrator::pipeline::{context, hand_in_pipeline, store_waiting};
use prs_orchestrator::watch::WatchError;
use prs_orchestrator::{Fleet, JobRecord, JobResult};
use tokio_util::sync::CancellationToken;

use super::NewPipeline;
use super::code::StepCodes;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::fleet::note_gc;
use crate::homes::fleet::patience::repeated;
use crate::homes::fleet::pipeline::until_ended;
use crate::interrupts::Interrupts;
use crate::submit::fleet::{Given, NewJob, begin, enter, give, give_id_back, store, take_id, until_left};
use crate::submit::resume_hint::ResumeHint;

/// What became of a pipeline that was to be handed in.
pub(crate) enum Started {
    /// It was.
    HandedIn(Box<JobRecord>),
    /// It is one job to the user, and has ended with the output of a former job.
    Given(Box<Given>),
}

/// Hands a new pipeline in.
pub(crate) async fn start(
    fleet: &Fleet,
    new: NewPipeline,
    hint: &ResumeHint,
    caller: &dyn Caller,
) -> Result<Started, Failure> {
    if !new.is_named {
        return prepare(fleet, new, hint, caller).await;
    }
    let id = new.id.clone();
    let steps = new.loaded.pipeline.steps.iter().map(|step| step_id(&id, &step.name));
    take_id(fleet, &id, &steps.collect::<Vec<_>>()).await?;
    let started = Box::pin(prepare(fleet, new, hint, caller)).await;
    if started.is_err() {
        give_id_back(fleet, &id).await;
    }
    started
}

async fn prepare(
    fleet: &Fleet,
    NewPipeline { id: job_id, loaded, codes, listings, .. }: NewPipeline,
    hint: &ResumeHint,
    caller: &dyn Caller,
) -> Result<Started, Failure> {
    let LoadedPipeline { mut spec, pipeline } = loaded;
    // It wants no nodes itself, by which workers know it.
    spec.node_count = 0;
    if let Some(step) = pipeline.steps.first() {
        spec.compute_target.clone_from(&step.spec.compute_target);
    }
    let storage = fleet.job_storage(&job_id);
    hint.set(format_args!(
        "{} may hold code and listings without a job, and so may the steps beside it; they do no harm and may be removed",
        storage.uri("")
    ));
    let plan = loop {
        let quiet = until_quiet(&*fleet.storage, &|by| note_gc(caller, by)).await;
        let quiet = quiet.context("cannot read the storage of the fleet").map_err(Failure::server)?;
        let mut stored = pipeline.clone();
        for step in &mut stored.steps {
            let (code, archive) = codes.of(&step.name).cloned().expect("the code of every step is packed");
            let id = step_id(&job_id, &step.name);
            let spec = step.spec.clone();
            let new = NewJob { id, is_named: false, spec, code, archive, listings: listings.clone() };
            step.spec = store(fleet, &new, caller).await?;
        }
        let lasts = quiet.lasts(&*fleet.storage).await.context("cannot read the storage of the fleet");
        if lasts.map_err(Failure::server)? {
            break PipelinePlan::new(stored, codes.keys());
        }
        caller.note(&"prs gc was at work meanwhile; what it may have removed is uploaded again");
    };
    let mut record = JobRecord::of_pipeline(job_id, spec, plan);
    if record.main_step().is_some() {
        let mut given = record.as_given();
        given.recipe = reuse::recipe(&given.spec, &given.code, None);
        record.recipe.clone_from(&given.recipe);
        if given.spec.allow_reuse
            && listings.is_empty()
            && let Some(result) = Box::pin(give(fleet, &mut given, caller)).await?
        {
            let ended = end_given(fleet, &record, given, result, &codes, hint, caller);
            return Box::pin(ended).await.map(|given| Started::Given(Box::new(given)));
        }
    }
    let created =
        record.create(&*storage).await.context("cannot store the pipeline").map_err(Failure::server)?;
    if !created {
        return Err(Failure::wrong(format!("there is a job {} already; submit it again", record.job_id)));
    }
    let what = "store the jobs of the steps";
    repeated(what, caller, StorageError::is_retryable, || store_waiting(fleet, &record)).await?;
    hand_in(fleet, &record, hint, caller).await?;
    Ok(Started::HandedIn(Box::new(record)))
}

/// Stores the job of `given`, which has ended with the output of a former one, in place of the steps of `record`.
async fn end_given(
    fleet: &Fleet,
    record: &JobRecord,
    mut given: JobRecord,
    result: JobResult,
    codes: &StepCodes,
    hint: &ResumeHint,
    caller: &dyn Caller,
) -> Result<Given, Failure> {
    let storage = fleet.job_storage(&given.job_id);
    let plan = record.pipeline.as_deref().map(|plan| &plan.pipeline);
    let steps = plan.into_iter().flat_map(|pipeline| &pipeline.steps);
    let steps: Vec<_> = steps.map(|step| fleet.job_storage(&step_id(&record.job_id, &step.name))).collect();
    let main = plan.and_then(|pipeline| codes.of(pipeline.main.as_deref()?));
    let (code, archive) = main.cloned().context("the job has no code")?;
    let (id, spec) = (given.job_id.clone(), given.spec.clone());
    let new = NewJob { id, is_named: false, spec, code, archive, listings: steps };
    new.store(&*storage).await.map_err(Failure::server)?;
    let created = given.create(&*storage).await.context("cannot store the job").map_err(Failure::server)?;
    if !created {
        return Err(Failure::wrong(format!("there is a job {} already; submit it again", given.job_id)));
    }
    enter(fleet, &given, hint, caller).await?;
    let tidied = async {
        reuse::index::enter(&*fleet.storage, &given).await?;
        for step in &new.listings {
            step.delete_below("", None).await?;
        }
        Ok::<_, StorageError>(())
    };
    tidied.await.context("cannot store the job").map_err(Failure::server)?;
    let output = storage.below(layout::OUTPUT.trim_end_matches('/'));
    Ok(Given { record: given, result, output })
}

/// Has a pipeline that is stored driven from now on, whatever becomes of this program.
async fn hand_in(
    fleet: &Fleet,
    record: &JobRecord,
    hint: &ResumeHint,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let (what, id) = (record.noun(), &record.job_id);
    hint.set(format_args!(
        "{what} {id} is stored, and may not have been handed to workers; prs resume {id} goes on with it, prs cancel {id} ends it"
    ));
    let what = "enter it into the list of jobs";
    repeated(what, caller, StorageError::is_retryable, || fleet.list_job(id)).await?;
    let job = context(fleet, record);
    repeated("offer it to workers", caller, ServerError::is_retryable, || hand_in_pipeline(&job)).await
}

/// Waits for the end of a pipeline, and drives it where no worker does; nothing where the user left it.
pub(crate) async fn wait(
    fleet: &Fleet,
    record: &JobRecord,
    interrupts: &mut dyn Interrupts,
    caller: &dyn Caller,
) -> Result<Option<JobResult>, Failure> {
    let stop = CancellationToken::new();
    let mut ended = Box::pin(until_ended(fleet, record, &stop, caller));
    let waited = until_left(ended.as_mut(), interrupts, caller, (record.noun(), &record.job_id)).await;
    if matches!(waited, Ok(None)) {
        // The lease is free for a worker.
        stop.cancel();
        let _ = tokio::time::timeout(Duration::from_secs(1), ended).await;
    }
    waited
}

/// Starts a former pipeline again: the steps that have not completed are run.
pub(crate) async fn resume(
    fleet: &Fleet,
    mut record: JobRecord,
    hint: &ResumeHint,
    caller: &dyn Caller,
) -> Result<JobRecord, Failure> {
    if record.result.is_none() {
        // It was never handed in, or is driven: to hand it in again does no harm.
        let what = "store the jobs of the steps";
        repeated(what, caller, StorageError::is_retryable, || store_waiting(fleet, &record)).await?;
        hand_in(fleet, &record, hint, caller).await?;
        return Ok(record);
    }
    let before = context(fleet, &record);
    record.start_again();
    begin(&mut record, &*before.storage).await?;
    let what = "remove the former start from the ledger";
    repeated(what, caller, WatchError::is_retryable, || clean_up(&before)).await?;
    hand_in(fleet, &record, hint, caller).await?;
    Ok(record)
}
