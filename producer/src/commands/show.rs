//! `show`: a former job as a job file, which can be submitted as it is.

use std::process::ExitCode;

use crate::cli::{Format, Job};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// Prints the settings of a job: for people as a job file, for programs as they are stored.
pub(super) async fn show(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let file = prs_jobs::show::show(&job.name, &job.whereabouts.settled()?).await?;
    match format {
        Format::Json => output::json(&file.record())?,
        Format::Table => output::text(&file.text())?,
    }
    Ok(Code::Completed.into())
}
