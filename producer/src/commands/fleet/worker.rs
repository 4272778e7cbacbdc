//! `prs worker`: serves the jobs of a fleet on this host.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use prs_worker::inputs::side::SideInputStore;
use prs_worker::metrics::Metrics;
use prs_worker::serve::{Listener, ServeOutcome, WorkerSettings, let_go_of_broker, serve_job, serve_jobs};
use prs_worker::{Host, NodeEnd, WorkFolder, connect_fleet, find_extension, give_memory_back, tidy_memory};
use tokio::task::JoinHandle;

use crate::cli::Worker;
use crate::failure::{Code, Failure};
use crate::terminal::signals::Signals;

/// Serves jobs until it is asked to end, and tells in its log why it cannot.
pub(crate) async fn worker(arguments: Worker) -> Result<ExitCode, Failure> {
    let code = serve(arguments).await.unwrap_or_else(|failure| {
        tracing::error!("{failure}");
        failure.kind.into()
    });
    Ok(code.into())
}

async fn serve(arguments: Worker) -> Result<Code, Failure> {
    let signals = Signals::catch_for_service();
    let urls = arguments.servers.urls()?;
    let host = Host::detect();
    let name = arguments.name.unwrap_or_else(|| host.name.clone());
    let extension = find_extension().map_err(Failure::usage)?;
    tidy_memory();
    let work_folder = WorkFolder::open(arguments.work_dir.as_deref()).map_err(Failure::usage)?;
    let work_folder = Arc::new(work_folder);
    let cache_bytes = arguments.cache_gib << 30;
    let side_inputs = Arc::new(SideInputStore::shared(Arc::clone(&work_folder), cache_bytes));
    // Heartbeats tell a part of them, too.
    let metrics = Metrics::counted(&arguments.target);
    let collected = match arguments.metrics {
        None => None,
        Some(address) => {
            let listener = Listener::bind(address).await.map_err(Failure::usage)?;
            tracing::info!(address = %listener.address(), "metrics are served at /metrics, and /livez");
            Some(tokio::spawn(listener.serve(metrics.clone())))
        }
    };
    let settings = WorkerSettings {
        metrics,
        targets: arguments.target,
        slots: arguments.slots,
        work_folder,
        side_inputs,
        extension,
        cache_bytes,
        memory_bytes: arguments.cache_memory_mib << 20,
        drain: Duration::from_secs(arguments.drain_timeout),
        idle_limit: arguments.exit_when_idle.map(Duration::from_secs),
        host,
        name,
    };
    let end = NodeEnd::default();
    let caller = listen(signals, end.clone());
    let fleet = tokio::select! {
        fleet = connect_fleet(&urls) => fleet?,
        () = end.drain.cancelled() => return Ok(Code::Completed),
    };
    tracing::info!(
        worker = settings.name,
        targets = settings.targets.join(","),
        broker = %fleet.queue,
        redis = %fleet.ledger,
        storage = %fleet.storage,
        folder = %settings.work_folder.path().display(),
        "the worker is ready"
    );
    // The command line, with all its help, and what the first connections took.
    give_memory_back();
    let mut code = Code::Completed;
    if let Some(job) = &arguments.job {
        code = match serve_job(&fleet, &settings, job, &end).await {
            ServeOutcome::Completed => Code::Completed,
            ServeOutcome::Failed | ServeOutcome::Canceled => Code::Failed,
            ServeOutcome::Unknown | ServeOutcome::OtherVersion => Code::Usage,
            ServeOutcome::Left
            | ServeOutcome::EndsElsewhere
            | ServeOutcome::Useless
            | ServeOutcome::Again
            | ServeOutcome::NotHere
            | ServeOutcome::CutOff
            | ServeOutcome::NotWatched
            | ServeOutcome::Unread
            | ServeOutcome::Full => Code::LeftJob,
        };
    } else {
        serve_jobs(&fleet, &settings, &end).await;
    }
    caller.abort();
    if let Some(collected) = collected {
        collected.abort();
    }
    let_go_of_broker(&fleet).await;
    tracing::info!("the worker has ended");
    Ok(code)
}

/// The first signal drains the worker, the second stops it at once.
fn listen(mut signals: Signals, end: NodeEnd) -> JoinHandle<()> {
    tokio::spawn(async move {
        for token in [&end.drain, &end.stop] {
            signals.next().await;
            token.cancel();
        }
        // Others say nothing new.
        loop {
            signals.next().await;
        }
    })
}
