//! `status`: where a job stands.

use std::process::ExitCode;

use prs_common::ledger::{Conclusion, SeenError};
use prs_common::timestamp::format_us;
use prs_orchestrator::JobResult;
use serde::Serialize;

use crate::cli::{Format, Job};
use crate::failure::{Code, Failure};
use crate::output;
use crate::place::{Place, Seen};
use crate::progress::describe_error;
use crate::standing::{Shown, Standing};

/// What `status -o json` prints: the result so far and how it goes on (spec section 7).
#[derive(Debug, Serialize)]
pub(super) struct StatusView {
    /// When the job was submitted, UTC.
    submitted: String,
    #[serde(flatten)]
    pub(super) result: JobResult,
    nodes: u32,
    processes: u32,
    per_second: f64,
    eta_seconds: Option<f64>,
    /// Tries of mini-batches that the script failed in this start of the job.
    failed_tries: u64,
    /// Its first distinct errors, in their order; `errors` of the result has the costliest.
    first_errors: Vec<SeenError>,
    /// How it ends, where that is decided and not written down.
    conclusion: Option<Conclusion>,
    #[serde(flatten)]
    pub(super) standing: Standing,
}

impl StatusView {
    pub(super) fn new(seen: Seen) -> Self {
        let submitted = format_us(seen.record.submitted_us);
        let Shown { status, .. } = seen.shown().honest();
        let Seen { result, standing, .. } = seen;
        let running = !result.state.is_final();
        Self {
            submitted,
            result,
            nodes: if running { status.nodes } else { 0 },
            processes: if running { status.processes } else { 0 },
            per_second: if running { status.per_second } else { 0.0 },
            eta_seconds: status.eta_seconds.filter(|_| running),
            failed_tries: status.failed_tries,
            first_errors: status.errors,
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
        let mut rows = vec![
            ("job", view.result.job_id.clone()),
            ("progress", line),
            ("processes", format!("{} (nodes: {})", view.processes, view.nodes)),
        ];
        rows.extend(view.first_errors.iter().map(|error| ("error", describe_error(error))));
        rows.push(("logs", view.result.logs.clone()));
        output::pairs(&rows)?;
    }
    Ok(Code::Completed.into())
}
