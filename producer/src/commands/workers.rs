//! `workers`: who serves a fleet, and with what each is busy.

use std::process::ExitCode;

use console::Term;
use prs_common::ledger::RedisLedger;
use prs_common::servers::ConnectError;
use prs_jobs::records;
use prs_orchestrator::job::workers::{WorkerView, workers as workers_of};
use prs_orchestrator::report::progress_overview::duration;

use crate::cli::{Format, Workers};
use crate::failure::{Code, Failure};
use crate::terminal::output;
use crate::terminal::table::Table;

/// Lists the workers of a fleet. It asks Redis alone.
pub(super) async fn workers(arguments: &Workers, format: Format) -> Result<ExitCode, Failure> {
    let Some(urls) = arguments.servers.urls_if_any()? else {
        return Err(Failure::wrong(
            "workers are those of a fleet: say which with --profile, or with --broker, --redis and --storage, or the variables PRS_BROKER_URL, PRS_REDIS_URL and PRS_STORAGE_URL",
        ));
    };
    let ledger = RedisLedger::connect(&urls.redis).await.map_err(ConnectError::Redis)?;
    let target = arguments.target.as_deref();
    let workers = workers_of(&ledger, target).await.map_err(Failure::server)?;
    if format == Format::Json {
        output::json(&records::Workers { workers })?;
        return Ok(Code::Completed.into());
    }
    if workers.is_empty() {
        let target = target.unwrap_or("default");
        output::note(format_args!("no worker is there; start one: prs worker --target {target}"));
        return Ok(Code::Completed.into());
    }
    let headings = ["WORKER", "HOST", "TARGET", "SLOTS", "BUSY WITH", "VERSION", "LAST SEEN"];
    let table = Table::new(&headings, workers.into_iter().map(row).collect());
    let table = table.fit(&Term::stdout(), &["VERSION", "LAST SEEN", "SLOTS", "HOST", "TARGET"]);
    output::text(&table.text())?;
    Ok(Code::Completed.into())
}

fn row(worker: WorkerView) -> Vec<String> {
    vec![
        worker.worker,
        worker.host,
        worker.targets.join(","),
        worker.slots.to_string(),
        worker.job.unwrap_or_else(|| "idle".to_owned()),
        worker.version,
        format!("{} ago", duration(worker.seen_seconds)),
    ]
}
