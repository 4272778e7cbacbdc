//! An embedded run: scheduler, orchestrator and one node in this process, everything in one folder.
//!
//! The same code as on a fleet, on a queue and a ledger in memory and a folder as storage. What the folder holds
//! is enough to go on after any interruption.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use prs_common::ledger::{Abort, EmbeddedLedger, JobState, TryLimits};
use prs_common::queue::{EmbeddedQueue, QueueOptions};
use prs_common::storage::LocalStorage;
use prs_orchestrator::recover::{Recovered, recover};
use prs_orchestrator::schedule::schedule;
use prs_orchestrator::watch::{View, watch};
use prs_orchestrator::{JobContext, JobRecord, JobResult, Timing};
use prs_worker::{Host, NodeSettings, run_node};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{output, progress};

/// Node losses a mini-batch survives (spec S3).
const MAX_NODE_LOSSES: u32 = 10;
/// Unacknowledged mini-batches of the node; in memory there is no reason to be stingy.
const PREFETCH: usize = 65_536;

/// What a run is made of.
pub(crate) struct Run {
    /// Its folder, locked.
    pub(crate) folder: PathBuf,
    /// The job.
    pub(crate) record: JobRecord,
    /// The interpreter.
    pub(crate) python: PathBuf,
    /// The extension that processes load.
    pub(crate) extension: PathBuf,
}

/// Runs a job to its end.
pub(crate) async fn run(run: Run) -> anyhow::Result<JobResult> {
    let Run { folder, record, python, extension } = run;
    let output = output_folder(&folder, &record);
    let job = context(&folder, &output, &record);
    let work = job.work.clone();
    // Left over when a former run was killed.
    remove(&work)?;
    std::fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let limits = TryLimits { run_max_try: job.spec.run_max_try, max_node_losses: MAX_NODE_LOSSES };
    job.ledger.create(&job.id, limits).await?;
    job.queue.declare(&job.queue_name(), QueueOptions::default()).await?;
    let recovered = if job.incarnation > 1 { recover(&job).await? } else { Recovered::default() };
    if job.incarnation > 1 {
        output::say(format_args!("{} mini-batches are done already", recovered.succeeded));
    }
    for damaged in &recovered.damaged {
        output::say(format_args!("{damaged}; its mini-batches run again"));
    }

    let host = Host::detect();
    let slots = job.spec.process_count_per_node.unwrap_or_else(|| host.default_slots());
    let worker = format!("{}-{}", host.name, std::process::id());
    let owner = worker.clone();
    let node = NodeSettings { python, extension, worker, host, slots, prefetch: PREFETCH };
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    {
        let (job, stop) = (job.clone(), stop.clone());
        tasks.spawn(async move { schedule(&job, recovered.known, &stop).await });
    }
    tasks.spawn(serve(job.clone(), node));
    tasks.spawn(listen(job.clone(), stop.clone()));
    let (view, seen) = tokio::sync::watch::channel(View::default());
    let display = tokio::spawn(progress::show(seen));
    let place = shown(&folder);
    let result = watch(&job, &owner, record, &place, &view).await;
    if let Err(error) = &result {
        // Nobody watches any more: nothing may go on.
        let abort = Abort { state: JobState::Failed, reason: error.to_string() };
        job.ledger.abort(&job.id, &abort).await?;
    }
    drop(view);
    stop.cancel();
    job.queue.delete(&job.queue_name()).await?;
    tasks.close();
    tasks.wait().await;
    let _ = display.await;
    remove(&work)?;
    for store in [&folder, &output] {
        LocalStorage::new(store).sweep()?;
    }
    Ok(result?)
}

fn context(folder: &Path, output: &Path, record: &JobRecord) -> JobContext {
    let spec = Arc::new(record.spec.clone());
    JobContext {
        id: record.job_id.clone(),
        code: record.code.clone(),
        incarnation: record.incarnation,
        queue: Arc::new(EmbeddedQueue::default()),
        ledger: Arc::new(EmbeddedLedger::default()),
        storage: Arc::new(LocalStorage::new(folder)),
        output: Arc::new(LocalStorage::new(output)),
        logs: folder.join("logs"),
        work: folder.join("work"),
        timing: Timing::embedded(),
        spec,
    }
}

/// Where the result of a job goes.
pub(crate) fn output_folder(folder: &Path, record: &JobRecord) -> PathBuf {
    record.spec.output.clone().unwrap_or_else(|| folder.join("output"))
}

async fn serve(job: JobContext, node: NodeSettings) {
    if let Err(error) = run_node(job, node).await {
        tracing::error!(%error, "the node has left the job");
    }
}

/// Cancels the job at the first signal; ends the program at the second. Processes end with the program.
async fn listen(job: JobContext, stop: CancellationToken) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::warn!("signals cannot be caught; Ctrl-C ends the program at once");
        return;
    };
    let mut asked = false;
    loop {
        let name = tokio::select! {
            _ = interrupt.recv() => "Ctrl-C",
            _ = terminate.recv() => "SIGTERM",
            () = stop.cancelled() => return,
        };
        if asked {
            std::process::exit(crate::failure::Code::Interrupted as i32);
        }
        asked = true;
        output::say(format_args!("{name}: stopping; once more ends the program at once"));
        let abort = Abort { state: JobState::Canceled, reason: format!("interrupted ({name})") };
        if let Err(error) = job.ledger.abort(&job.id, &abort).await {
            tracing::error!(%error, "the job does not hear that it is to stop");
        }
    }
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// `path` as a person would type it from here.
pub(crate) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    match relative {
        Some(relative) if !relative.as_os_str().is_empty() => relative.display().to_string(),
        _ => path.display().to_string(),
    }
}
