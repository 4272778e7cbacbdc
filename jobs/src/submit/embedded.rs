//! An embedded run: scheduler, orchestrator and one node in this process, everything in one folder.
//!
//! The same code as on a fleet, on a queue and a ledger in memory and a folder as storage. What the folder holds
//! is enough to go on after any interruption.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use prs_common::end_reason::EndReason;
use prs_common::layout;
use prs_common::ledger::{Conclusion, JobState};
use prs_common::private_folder::PrivateFolder;
use prs_common::queue::QueueOptions;
use prs_common::storage::{LocalStorage, Storage};
use prs_common::tree::remove_tree;
use prs_orchestrator::caught::{Panicked, caught};
use prs_orchestrator::inputs::InputStores;
use prs_orchestrator::job::words;
use prs_orchestrator::panics;
use prs_orchestrator::pipeline::end_unrun;
use prs_orchestrator::plan::schedule::{Assignment, schedule};
use prs_orchestrator::segments::recover::{Recovered, recover};
use prs_orchestrator::watch::{View, WatchError, watch};
use prs_orchestrator::{JobContext, JobRecord, JobResult};
use prs_worker::{NodeEnd, NodeSettings, end_left_overs, opener, run_node};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::run_folder;
use crate::interrupts::Interrupts;
use crate::paths::shown;
use crate::submit::local::Python;
use crate::submit::resume_hint::ResumeHint;

/// Unacknowledged mini-batches of the node; in memory there is no reason to be stingy.
const PREFETCH: usize = 65_536;

/// What a run is made of.
pub(crate) struct Run<'a> {
    /// Its folder, locked.
    pub(crate) folder: PathBuf,
    /// The job.
    pub(crate) record: JobRecord,
    /// The interpreter.
    pub(crate) python: Python,
    /// What the caller wants meanwhile.
    pub(crate) interrupts: &'a mut dyn Interrupts,
    /// Hears what there is to say.
    pub(crate) caller: &'a dyn Caller,
    /// The folder of the pipeline that it is a step of: who cancels that cancels the job.
    pub(crate) outer: Option<PathBuf>,
}

/// Runs a job to its end, again where segments were damaged.
pub(crate) async fn run(mut run: Run<'_>) -> Result<JobResult, Failure> {
    let output = run_folder::output(&run.folder, &run.record);
    // Left over when a former run was killed.
    run_folder::forget_cancel(&run.folder);
    end_left_overs(&run.record.job_id);
    // A wish to cancel outlives the ledger that it was first entered in.
    let mut canceled = None;
    let result = loop {
        match Box::pin(run_once(&mut run, &output, &mut canceled)).await? {
            Err(WatchError::RunAgain { reason }) => {
                run.caller.note(&format_args!("{reason}; their mini-batches run again"));
            }
            result => break result,
        }
    };
    run_folder::forget_cancel(&run.folder);
    for store in [&run.folder, &output] {
        if let Err(error) = LocalStorage::new(store).sweep().await {
            run.caller.error(&error);
        }
    }
    Ok(result.map_err(anyhow::Error::from)?)
}

/// Has the record of a job, where there is one, say that the user interrupted it before anything of it ran. Of a later start
/// what was done before is known, and it stays one that was left.
pub(crate) async fn note_interrupted(
    storage: &LocalStorage,
    interrupts: &dyn Interrupts,
    caller: &dyn Caller,
) {
    let Some(signal) = interrupts.seen() else { return };
    let Ok(mut record) = JobRecord::read(storage).await else { return };
    if record.incarnation > 1 || record.result.is_some() {
        return;
    }
    let reason = EndReason::Interrupted { signal: signal.to_owned() };
    if let Err(error) = end_unrun(&mut record, storage, JobState::Canceled, &reason).await {
        caller.error(&error);
    }
}

/// Runs what has no outcome yet, unless the job was `canceled`. The error inside is the orchestrator's.
async fn run_once(
    run: &mut Run<'_>,
    output: &Path,
    canceled: &mut Option<Conclusion>,
) -> Result<Result<JobResult, WatchError>, Failure> {
    let Run { folder, record, python, interrupts, caller, outer } = run;
    let caller = *caller;
    let job = context(folder, output, record);
    let work = job.work.clone();
    remove(&work, caller);
    PrivateFolder::make(&work).context("cannot make a folder for what the job needs while it runs")?;
    let hint = ResumeHint::default();
    hint.set(format_args!("prs resume {} goes on from here", folder.display()));
    let recovered = match hint.unless_interrupted(&mut **interrupts, open(&job)).await {
        Ok(recovered) => recovered,
        Err(failure) => {
            note_interrupted(&LocalStorage::new(&*folder), &**interrupts, caller).await;
            return Err(failure);
        }
    };
    if let Some(conclusion) = canceled {
        job.ledger.conclude(conclusion).await.map_err(anyhow::Error::from)?;
    }
    if job.incarnation > 1 {
        caller.note(&words::done_already(recovered.ended));
    }
    for damaged in &recovered.damaged {
        caller.note(&format_args!("{damaged}; its mini-batches run again"));
    }

    let node = python.clone().node(&job.spec, PREFETCH);
    let owner = format!("{}-{}", node.worker, std::process::id());
    let node = NodeSettings { worker: owner.clone(), instance: owner.clone(), ..node };
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    {
        let (job, owner, stop) = (job.clone(), owner.clone(), stop.clone());
        let assignment = Assignment { known: recovered.known, ..Assignment::default() };
        tasks.spawn(async move {
            if let Err(panicked) = caught(schedule(&job, &owner, assignment, &stop)).await {
                abort(&job, &EndReason::Fault { text: panicked.to_string() }).await;
            }
        });
    }
    let end = NodeEnd::default();
    tasks.spawn(serve(job.clone(), node, end.clone()));
    let deaf = CancellationToken::new();
    let folders = (folder.clone(), outer.clone());
    let heard = listen(job.clone(), folders, (&mut **interrupts, caller), canceled.is_some(), deaf.clone());
    let (view, seen) = tokio::sync::watch::channel(View::default());
    let display = tokio::spawn(caller.follow(seen.into()));
    let place = shown(folder);
    let watched = async {
        let watched = caught(Box::pin(watch(&job, &owner, record.clone(), &place, &view))).await;
        let result = watched.map_err(WatchError::from).flatten();
        if let Err(error) = &result {
            // Nobody watches any more: nothing may go on.
            if !matches!(error, WatchError::RunAgain { .. }) {
                abort(&job, &error.into()).await;
            }
            end.stop.cancel();
        }
        drop(view);
        stop.cancel();
        // The job has ended: what fails from here on is said, and changes nothing.
        if let Err(error) = job.queue.delete(&job.queue_name()).await {
            caller.error(&error);
        }
        tasks.close();
        tasks.wait().await;
        deaf.cancel();
        match result {
            Err(WatchError::Panicked { text }) => {
                panics::fail(&job, &owner, record.clone(), &place, Panicked { text }).await
            }
            result => result,
        }
    };
    let (result, ()) = tokio::join!(watched, heard);
    *canceled = job.ledger.progress().await.ok().and_then(|progress| progress.conclusion);
    let _ = display.await;
    remove(&work, caller);
    Ok(result)
}

/// Enters a job in the ledger, declares its queue, and reads what is done already.
async fn open(job: &JobContext) -> Result<Recovered, Failure> {
    let opened = async {
        job.ledger.create(job.try_limits()).await?;
        job.queue.declare(&job.queue_name(), QueueOptions::default()).await?;
        anyhow::Ok(recover(job).await?)
    };
    Ok(opened.await?)
}

/// The job as the node of this program sees it.
pub(crate) fn context(folder: &Path, output: &Path, record: &JobRecord) -> JobContext {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder));
    let inputs = InputStores::new(Arc::clone(&storage), Arc::clone(&storage), opener());
    let inputs = inputs.within(record.spec.reach());
    let start = (&*record.job_id, record.incarnation);
    JobContext {
        code: record.code.clone(),
        corrected: record.corrected,
        output_prefix: record.spec.output.is_none().then_some(layout::OUTPUT),
        ..JobContext::embedded(start, Arc::new(record.spec.clone()), storage, inputs, output, folder)
    }
}

/// Runs the one node. There is no other to go on with the job when it ends before the job does, and was not told to.
async fn serve(job: JobContext, node: NodeSettings, end: NodeEnd) {
    let stop = end.stop.clone();
    let reason = match tokio::spawn(run_node(job.clone(), node, end)).await {
        Ok(Ok(_)) => EndReason::NodeLeft,
        Ok(Err(error)) => EndReason::NodeFailed { error: error.to_string() },
        Err(panic) => EndReason::NodePanicked { error: panic.to_string() },
    };
    let nodes = job.ledger.nodes().await.unwrap_or_default();
    let said_why = nodes.iter().any(|node| node.report.gave_up || node.report.fatal.is_some());
    let state = job.ledger.state().await;
    if !said_why
        && !stop.is_cancelled()
        && matches!(state, Ok(JobState::Queued | JobState::Scheduling | JobState::Running))
    {
        abort(&job, &reason).await;
    }
}

/// Fails the job.
async fn abort(job: &JobContext, reason: &EndReason) {
    if let Err(error) = job.ledger.conclude(&Conclusion::failed(reason)).await {
        tracing::error!(%error, "the job does not hear that it has failed");
    }
}

/// Cancels the job at the first signal, or when another program asks for it; ends the program at the next signal.
/// Processes end with the program.
async fn listen(
    job: JobContext,
    (folder, outer): (PathBuf, Option<PathBuf>),
    (interrupts, caller): (&mut dyn Interrupts, &dyn Caller),
    mut asked: bool,
    stop: CancellationToken,
) {
    loop {
        let reason = tokio::select! {
            name = interrupts.next() => {
                if asked {
                    interrupts.again();
                    continue;
                }
                caller.note(&format_args!("{name}: stopping; once more ends the program at once"));
                EndReason::Interrupted { signal: name.to_string() }
            }
            who = canceled_by(&folder, outer.as_deref()), if !asked => {
                caller.note(&format_args!("canceled by {who}: stopping"));
                EndReason::Canceled { who }
            }
            () = stop.cancelled() => return,
        };
        asked = true;
        let conclusion = Conclusion::canceled(&reason);
        if let Err(error) = job.ledger.conclude(&conclusion).await {
            tracing::error!(%error, "the job does not hear that it is to stop");
        }
    }
}

/// Waits until a command asks to cancel the job in `folder`, or the pipeline in `outer`, and says who.
async fn canceled_by(folder: &Path, outer: Option<&Path>) -> String {
    let Some(outer) = outer else { return run_folder::canceled_by(folder).await };
    tokio::select! {
        who = run_folder::canceled_by(folder) => who,
        who = run_folder::canceled_by(outer) => who,
    }
}

/// Removes a scratch folder. A script may have left something in it that cannot be removed; that is no failure.
fn remove(folder: &Path, caller: &dyn Caller) {
    if let Err(error) = remove_tree(folder) {
        caller.note(&format_args!("{} is left behind: {error}", folder.display()));
    }
}
