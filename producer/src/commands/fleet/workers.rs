//! `workers`: who serves a fleet, and with what each is busy; asks one to leave.

use std::process::ExitCode;
use std::sync::Arc;

use console::Term;
use prs_common::ledger::Ledger;
use prs_common::servers::{ConnectError, open_ledger};
use prs_jobs::records;
use prs_orchestrator::job::workers::{self as of_workers, WorkerView};
use prs_orchestrator::report::progress_overview::duration;

use super::super::who::who;
use crate::cli::{DrainWorker, FleetServers, Format, Workers, WorkersCommand};
use crate::failure::{Code, Failure};
use crate::terminal::output;
use crate::terminal::table::Table;

/// Lists the workers of a fleet, or does what is said of one.
pub(crate) async fn workers(arguments: &Workers, format: Format) -> Result<ExitCode, Failure> {
    match &arguments.command {
        None => list(arguments, format).await,
        Some(WorkersCommand::Drain(arguments)) => drain(arguments, format).await,
    }
}

/// The ledger of the fleet: nothing else is asked.
async fn ledger(servers: &FleetServers) -> Result<Arc<dyn Ledger>, Failure> {
    let Some(urls) = servers.urls_if_any()? else {
        return Err(Failure::wrong(
            "workers are those of a fleet: say which with --profile, or with --broker, --redis and --storage, or the variables PRS_BROKER_URL, PRS_REDIS_URL and PRS_STORAGE_URL",
        ));
    };
    Ok(open_ledger(&urls.redis, None).await.map_err(ConnectError::Redis)?)
}

/// Asks a worker to leave.
async fn drain(arguments: &DrainWorker, format: Format) -> Result<ExitCode, Failure> {
    let DrainWorker { worker, reason, servers } = arguments;
    let (ledger, who) = (ledger(servers).await?, who());
    let reason = if reason.is_empty() { format!("asked by {who}") } else { format!("{reason} ({who})") };
    if !of_workers::drain(&*ledger, worker, &reason).await.map_err(Failure::server)? {
        return Err(Failure::not_found(format!(
            "there is no worker {worker:?}: it has ended, or nothing was heard of it for a minute; prs workers lists those there are"
        )));
    }
    if format == Format::Json {
        output::json(&serde_json::json!({ "worker": worker, "state": "draining" }))?;
    }
    output::note(format_args!("worker {worker} is asked to leave: it ends when what it runs has ended"));
    Ok(Code::Completed.into())
}

async fn list(arguments: &Workers, format: Format) -> Result<ExitCode, Failure> {
    let ledger = ledger(&arguments.servers).await?;
    let target = arguments.target.as_deref();
    let workers = of_workers::workers(&*ledger, target).await.map_err(Failure::server)?;
    if format == Format::Json {
        output::json(&records::Workers { workers })?;
        return Ok(Code::Completed.into());
    }
    if workers.is_empty() {
        let target = target.unwrap_or("default");
        output::note(format_args!("no worker is there; start one: prs worker --target {target}"));
        return Ok(Code::Completed.into());
    }
    let headings = ["WORKER", "STATE", "HOST", "TARGET", "SLOTS", "BUSY WITH", "VERSION", "LAST SEEN"];
    let table = Table::new(&headings, workers.into_iter().map(row).collect());
    let table = table.fit(&Term::stdout(), &["VERSION", "LAST SEEN", "SLOTS", "HOST", "TARGET", "BUSY WITH"]);
    output::text(&table.text())?;
    Ok(Code::Completed.into())
}

fn row(worker: WorkerView) -> Vec<String> {
    vec![
        worker.worker,
        worker.state.to_owned(),
        worker.host,
        worker.targets.join(","),
        worker.slots.to_string(),
        worker.job_id.unwrap_or_default(),
        worker.version,
        format!("{} ago", duration(worker.last_seen_seconds)),
    ]
}
