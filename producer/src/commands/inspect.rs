//! `status` and `list`: where jobs stand.

use std::process::ExitCode;

use prs_common::ledger::Conclusion;
use prs_common::timestamp::format_us;
use prs_orchestrator::JobResult;
use prs_orchestrator::report::progress_overview::duration;
use serde::Serialize;

use crate::cli::{Format, Job, List};
use crate::failure::{Code, Failure};
use crate::output;
use crate::place::{Place, Seen, look_at_all};
use crate::standing::{Shown, Standing};

/// What `status -o json` prints: the result so far and how it goes on (spec section 7).
#[derive(Debug, Serialize)]
struct StatusView {
    #[serde(flatten)]
    result: JobResult,
    nodes: u32,
    processes: u32,
    per_second: f64,
    eta_seconds: Option<f64>,
    /// How it ends, where that is decided and not written down.
    conclusion: Option<Conclusion>,
    #[serde(flatten)]
    standing: Standing,
}

impl StatusView {
    fn new(seen: Seen) -> Self {
        let Shown { status, .. } = seen.shown().honest();
        let Seen { result, standing, .. } = seen;
        let running = !result.state.is_final();
        Self {
            result,
            nodes: if running { status.nodes } else { 0 },
            processes: if running { status.processes } else { 0 },
            per_second: if running { status.per_second } else { 0.0 },
            eta_seconds: status.eta_seconds.filter(|_| running),
            conclusion: status.progress.conclusion.filter(|_| running),
            standing,
        }
    }
}

/// Shows where a job stands.
pub(super) async fn status(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let place = Place::find(job).await?;
    let seen = place.look().await?;
    let line = seen.shown().line().unwrap_or_default();
    let view = StatusView::new(seen);
    if format == Format::Json {
        output::json(&view)?;
    } else if view.result.state.is_final() {
        output::result(format, &view.result, &place.called())?;
    } else {
        output::pairs(&[
            ("job", view.result.job_id.clone()),
            ("progress", line),
            ("processes", format!("{} (nodes: {})", view.processes, view.nodes)),
            ("logs", view.result.logs.clone()),
        ])?;
    }
    Ok(Code::Completed.into())
}

/// Lists the jobs of a folder or a fleet, the youngest last.
pub(super) async fn list(list: &List, format: Format) -> Result<ExitCode, Failure> {
    let jobs = look_at_all(Place::all(list).await?).await?;
    let jobs: Vec<_> =
        jobs.into_iter().map(|seen| (seen.record.submitted_us, StatusView::new(seen))).collect();
    if format == Format::Json {
        output::json(&jobs.iter().map(|(_, view)| view).collect::<Vec<_>>())?;
        return Ok(Code::Completed.into());
    }
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|(submitted, StatusView { result, .. })| {
            vec![
                result.job_id.clone(),
                result.state.as_str().to_owned(),
                format_us(*submitted)[..19].replace('T', " "),
                format!("{}/{}", result.mini_batches.succeeded, result.mini_batches.scheduled),
                result.mini_batches.failed.to_string(),
                duration(result.seconds),
            ]
        })
        .collect();
    output::table(&["JOB", "STATE", "SUBMITTED (UTC)", "MINI-BATCHES", "FAILED", "TIME"], &rows)?;
    Ok(Code::Completed.into())
}
