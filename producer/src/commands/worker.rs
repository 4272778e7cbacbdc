//! `prs worker`: serves the jobs of a fleet on this host.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use prs_common::servers::ConnectError;
use prs_worker::serve::{ServeOutcome, WorkerSettings, let_go_of_broker, serve_job, serve_jobs};
use prs_worker::{Host, NodeEnd, WorkFolder, connect_fleet, find_extension, give_memory_back, tidy_memory};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Worker;
use crate::failure::{Code, Failure};

/// Serves jobs until it is asked to end, and tells in its log why it cannot.
pub(super) async fn worker(arguments: Worker) -> ExitCode {
    let code = serve(arguments).await.unwrap_or_else(|error| {
        let connecting = error.downcast_ref::<ConnectError>().is_some_and(|error| !error.is_usage());
        tracing::error!("{}", Failure::from(error));
        if connecting { Code::CannotConnect } else { Code::Usage }
    });
    code.into()
}

async fn serve(arguments: Worker) -> anyhow::Result<Code> {
    let urls = arguments.servers.urls()?;
    let host = Host::detect();
    let name = arguments.name.unwrap_or_else(|| host.name.clone());
    let extension = find_extension()?;
    tidy_memory();
    let work_folder = Arc::new(WorkFolder::open(arguments.work_dir.as_deref())?);
    let settings = WorkerSettings {
        targets: arguments.target,
        slots: arguments.slots,
        work_folder,
        extension,
        cache_bytes: arguments.cache_gib << 30,
        memory_bytes: arguments.cache_memory_mib << 20,
        idle_limit: arguments.exit_when_idle.map(Duration::from_secs),
        host,
        name,
    };
    let end = NodeEnd::default();
    let listener = listen(end.clone())?;
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
            _ => Code::LeftJob,
        };
    } else {
        serve_jobs(&fleet, &settings, &end).await;
    }
    listener.abort();
    let_go_of_broker(&fleet).await;
    tracing::info!("the worker has ended");
    Ok(code)
}

/// The first SIGTERM or SIGINT drains the worker, the second stops it at once.
fn listen(end: NodeEnd) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot catch signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot catch signals")?;
    Ok(tokio::spawn(async move {
        for token in [&end.drain, &end.stop] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    }))
}
