//! `result` and `logs`: what a job brought, on this machine or printed.

use std::process::ExitCode;

use anyhow::Context;
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::storage::{Storage, StorageErrorKind, is_valid_key};
use prs_orchestrator::JobResult;
use prs_orchestrator::job_record::Output;
use serde::Serialize;

use crate::cli::{Fetch, Format, Logs};
use crate::failure::{Code, Failure};
use crate::output;
use crate::output_copy::{Former, fetch_output, file_name};
use crate::output_folder::claim;
use crate::place::{Place, Seen};

/// Bytes of a log that are read at a time.
const PIECE: u64 = 4 << 20;

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
        output::json(&result.output)?;
    } else {
        output::pairs(&[
            ("output", result.output.uri.clone()),
            ("rows", result.output.rows.to_string()),
            ("bytes", result.output.bytes.to_string()),
        ])?;
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
    let remedy = format!("prs-producer resubmit {id} runs the job again");
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

#[derive(Debug, Serialize)]
struct LogView {
    file: String,
    bytes: u64,
}

/// Lists the logs of a job, or prints one.
pub(super) async fn logs(logs: &Logs, format: Format) -> Result<ExitCode, Failure> {
    let place = Place::find(&logs.job).await?;
    let listed = match &logs.file {
        Some(name) => return print_log(&place, &logs.job.name, name).await,
        None => place.storage.list(layout::LOGS).await,
    };
    let mut found = Vec::new();
    for object in listed.context("cannot list the logs").map_err(|error| place.failure(error))? {
        let file = object.key.strip_prefix(layout::LOGS).unwrap_or(&object.key).to_owned();
        found.push(LogView { file, bytes: object.size });
    }
    if found.is_empty() {
        // No job, or one whose logs are not there yet.
        place.record().await?;
    }
    if format == Format::Json {
        output::json(&found)?;
    } else {
        let rows: Vec<Vec<String>> =
            found.iter().map(|log| vec![log.file.clone(), log.bytes.to_string()]).collect();
        output::table(&["FILE", "BYTES"], &rows)?;
    }
    Ok(Code::Completed.into())
}

/// Prints one log, a piece at a time.
async fn print_log(place: &Place, job: &str, name: &str) -> Result<ExitCode, Failure> {
    let absent =
        || Failure::wrong(format!("there is no log {name:?}; prs-producer logs {job} lists the logs"));
    if !is_valid_key(name) {
        return Err(absent());
    }
    let key = format!("{}{name}", layout::LOGS);
    let mut offset = 0;
    loop {
        match place.storage.get_range(&key, offset..offset + PIECE).await {
            Ok(piece) => {
                output::bytes(&piece)?;
                offset += piece.len() as u64;
                if (piece.len() as u64) < PIECE {
                    return Ok(Code::Completed.into());
                }
            }
            Err(error) if error.kind == StorageErrorKind::NotFound => {
                place.record().await?;
                return Err(absent());
            }
            Err(error) => {
                return Err(place.failure(anyhow::Error::from(error).context("cannot read the log")));
            }
        }
    }
}
