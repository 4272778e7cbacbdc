//! `result`: what a job brought, here or copied to a folder.

use std::process::ExitCode;

use prs_common::ledger::JobState;
use prs_common::storage::{Storage, StorageErrorKind};
use prs_orchestrator::JobResult;
use prs_orchestrator::job::record::Output;
use prs_orchestrator::job::words;

use crate::cli::{Fetch, Format};
use crate::failure::{Code, Failure};
use crate::output;
use crate::output_copy::{Former, fetch_output, file_name};
use crate::output_folder::claim;
use crate::place::{Place, Seen};
use crate::records::Job;

/// Shows or fetches the result.
pub(super) async fn result(fetch: &Fetch, format: Format) -> Result<ExitCode, Failure> {
    let place = Place::find(&fetch.job).await?;
    let Seen { record, mut result, .. } = place.look().await?;
    if result.state != JobState::Completed {
        let why = result.reason.as_deref().unwrap_or("it is not done yet");
        return Err(Failure::wrong(format!(
            "job {} has no result: {} ({why})",
            result.job_id,
            result.state.as_str()
        )));
    }
    let output = place.output(&record);
    match &fetch.output_path {
        Some(target) => {
            let _claim = claim(target, &result.job_id)?;
            fetch_output(&*output, target, &mut result.output, &Former::None).await?;
        }
        None => check_there(&*output, &result, |error| place.failure(error)).await?,
    }
    if format == Format::Json {
        output::json(&Job::ended(&result))?;
    } else {
        let mut rows = vec![
            ("output", result.output.uri.clone()),
            ("rows", result.output.rows.to_string()),
            ("bytes", result.output.bytes.to_string()),
        ];
        rows.extend(words::missing(&result).map(|missing| ("note", missing)));
        output::pairs(&rows)?;
    }
    Ok(Code::Completed.into())
}

/// Looks whether the result is where the job put it, with the size it had then. `failed` says what it means that the
/// store fails.
pub(super) async fn check_there(
    output: &dyn Storage,
    result: &JobResult,
    failed: impl Fn(anyhow::Error) -> Failure,
) -> Result<(), Failure> {
    let Output { bytes, sha256, .. } = &result.output;
    if sha256.is_none() {
        return Ok(());
    }
    let (id, name) = (&result.job_id, file_name(&result.output));
    let uri = output.uri(&name);
    let remedy = format!("prs resubmit {id} runs the job again");
    let wrong = match output.head(&name).await {
        Ok(there) if there.size == *bytes => return Ok(()),
        Ok(there) => format!("was changed: {uri} has {} bytes and not {bytes}", there.size),
        Err(error) if error.kind == StorageErrorKind::NotFound => {
            format!("is gone: there is no {uri} any more")
        }
        Err(error) => return Err(failed(anyhow::Error::from(error).context("cannot look at the result"))),
    };
    Err(anyhow::anyhow!("the result of job {id} {wrong}; {remedy}").into())
}
