//! `cancel`: ends a job, on a fleet or in another program of this machine; what is done is kept.

use std::process::ExitCode;

use super::summary;
use super::who::who;
use crate::cli::{Format, Job};
use crate::failure::{Code, Failure};

/// Ends a job.
pub(super) async fn cancel(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let home = job.find().await?;
    let result = home.cancel(&who()).await?;
    summary::print(format, &result, &home.called())?;
    Ok(Code::Completed.into())
}
