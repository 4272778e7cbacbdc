//! `status`: where a job stands.

use std::process::ExitCode;

use prs_jobs::records;

use super::summary;
use crate::cli::{Format, Job};
use crate::failure::{Code, Failure};
use crate::progress::{describe_error, describe_printed};
use crate::terminal::output;

/// Shows where a job stands.
pub(super) async fn status(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let home = job.find().await?;
    let seen = home.look().await?;
    let shown = seen.shown().honest();
    if format == Format::Json {
        output::json(&records::Job::seen(&seen))?;
    } else if seen.result.state.is_final() {
        summary::print(format, &seen.result, &home.called())?;
    } else {
        let mut rows = vec![
            ("job", seen.result.job_id),
            ("progress", shown.line().unwrap_or_default()),
            ("processes", format!("{} (nodes: {})", shown.status.processes, shown.status.nodes)),
        ];
        let printed = shown.status.printed.as_ref();
        rows.extend(printed.map(|line| ("loading", describe_printed(line, shown.status.nodes))));
        rows.extend(shown.status.errors.iter().map(|error| ("error", describe_error(error))));
        rows.push(("logs", seen.result.logs));
        output::pairs(&rows)?;
    }
    Ok(Code::Completed.into())
}
