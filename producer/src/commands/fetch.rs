//! `result` and `logs`: what a job brought, on this machine or printed.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::storage::{Storage, StorageErrorKind, is_valid_key};
use prs_orchestrator::job_record::Output;
use serde::Serialize;

use crate::cli::{Fetch, Format, Logs};
use crate::failure::{Code, Failure};
use crate::output;
use crate::place::{Place, Seen};

/// Bytes of a log that are read at a time.
const PIECE: u64 = 4 << 20;

/// Shows or fetches the result.
pub(super) async fn result(fetch: &Fetch, format: Format) -> Result<ExitCode, Failure> {
    let place = Place::find(&fetch.job).await?;
    let Seen { record, mut result } = place.look().await?;
    if result.state != JobState::Completed {
        let why = result.reason.as_deref().unwrap_or("it is not done yet");
        return Err(Failure::wrong(format!(
            "job {} has no result: {} ({why})",
            result.job_id,
            result.state.as_str()
        )));
    }
    if let Some(target) = &fetch.output_path {
        fetch_output(&*place.output(&record), target, &mut result.output, Former::Kept).await?;
    }
    if format == Format::Json {
        output::json(&result.output);
    } else {
        output::pairs(&[
            ("output", result.output.uri.clone()),
            ("rows", result.output.rows.to_string()),
            ("bytes", result.output.bytes.to_string()),
        ]);
    }
    Ok(Code::Completed.into())
}

/// What becomes of files that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Former {
    /// Nothing is overwritten: it is an error.
    Kept,
    /// They are of a former start of the job: its output now takes their place.
    Replaced,
}

/// Copies the whole output to `target`.
pub(super) async fn fetch_output(
    source: &dyn Storage,
    target: &Path,
    output: &mut Output,
    former: Former,
) -> Result<(), Failure> {
    let objects = source.list("").await.context("cannot list the output")?;
    let taken = objects.iter().map(|object| target.join(&object.key)).find(|path| path.exists());
    if let Some(taken) = taken.filter(|_| former == Former::Kept) {
        return Err(Failure::wrong(format!(
            "{} exists already and is not overwritten; give another folder",
            taken.display()
        )));
    }
    let failures = target.join(layout::FAILED_MINI_BATCHES);
    if former == Former::Replaced && objects.iter().all(|object| object.key != layout::FAILED_MINI_BATCHES) {
        match std::fs::remove_file(&failures) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", failures.display()))?;
            }
            _ => {}
        }
    }
    for object in objects {
        let path = target.join(&object.key);
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .with_context(|| format!("cannot make the folder of {}", path.display()))?;
        source
            .download(&object.key, &path)
            .await
            .with_context(|| format!("cannot copy {} to {}", source.uri(&object.key), path.display()))?;
    }
    let place = match &output.sha256 {
        Some(_) => target.join(Path::new(&output.uri).file_name().unwrap_or_default()),
        None => target.to_owned(),
    };
    output.uri = place.display().to_string();
    Ok(())
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
        output::json(&found);
    } else {
        let rows: Vec<Vec<String>> =
            found.iter().map(|log| vec![log.file.clone(), log.bytes.to_string()]).collect();
        output::table(&["FILE", "BYTES"], &rows);
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
                output::bytes(&piece);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use prs_common::storage::{LocalStorage, PutOptions};

    use super::*;

    #[tokio::test]
    async fn only_a_job_that_goes_on_replaces_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (LocalStorage::new(folder.path().join("from")), folder.path().join("to"));
        let put = async |key: &str, text: &'static str| {
            source.put(key, text.into(), PutOptions::default()).await.unwrap();
        };
        let fetch = async |former| {
            let mut output = Output { uri: "s3://b/rows.txt".into(), ..Output::default() };
            output.sha256 = Some(String::new());
            fetch_output(&source, &target, &mut output, former).await.map(|()| output.uri)
        };
        let read = |name: &str| fs::read_to_string(target.join(name)).ok();
        put("rows.txt", "one\n").await;
        put(layout::FAILED_MINI_BATCHES, "{}\n").await;
        assert_eq!(fetch(Former::Kept).await.unwrap(), target.join("rows.txt").display().to_string());
        fs::write(target.join("mine.txt"), "").unwrap();

        put("rows.txt", "one\ntwo\n").await;
        source.delete(layout::FAILED_MINI_BATCHES).await.unwrap();
        let refused = fetch(Former::Kept).await.unwrap_err();
        assert!(refused.is_usage() && refused.to_string().contains("rows.txt exists already"), "{refused}");
        assert_eq!(read("rows.txt").unwrap(), "one\n");
        fetch(Former::Replaced).await.unwrap();
        assert_eq!(read("rows.txt").unwrap(), "one\ntwo\n");
        assert_eq!(read(layout::FAILED_MINI_BATCHES), None, "nothing failed any more");
        assert!(read("mine.txt").is_some());
    }
}
