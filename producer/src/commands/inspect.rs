//! `status`, `list`, `result` and `logs`: what is known of a job; they change nothing.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use prs_common::ledger::JobState;
use prs_common::storage::{LocalStorage, Storage};
use prs_common::timestamp::format_us;
use prs_orchestrator::JobRecord;
use prs_orchestrator::job_record::{JobResult, Output};
use prs_orchestrator::report::progress_overview::{describe, duration};
use serde::Serialize;

use crate::cli::{Fetch, Format, Job, List, Logs};
use crate::failure::{Code, Failure};
use crate::{embedded, output, run_folder};

/// What `status -o json` prints: the result so far and how it goes on (spec section 7).
#[derive(Debug, Serialize)]
struct StatusView {
    #[serde(flatten)]
    result: JobResult,
    nodes: u32,
    processes: u32,
    per_second: f64,
    eta_seconds: Option<f64>,
}

impl StatusView {
    fn new(folder: &Path, record: &JobRecord) -> Self {
        let status = &record.status;
        let running = !record.state.is_final();
        let result = record.result.clone().unwrap_or_else(|| {
            let progress = &status.progress;
            JobResult {
                job_id: record.job_id.clone(),
                name: record.spec.name.clone(),
                state: record.state,
                reason: (!running).then(|| run_folder::interrupted(folder)),
                output: Output {
                    uri: embedded::output_folder(folder, record).display().to_string(),
                    ..Output::default()
                },
                logs: folder.join("logs").display().to_string(),
                mini_batches: progress.into(),
                items: progress.into(),
                seconds: status.seconds,
            }
        });
        Self {
            result,
            nodes: if running { status.nodes } else { 0 },
            processes: if running { status.processes } else { 0 },
            per_second: if running { status.per_second } else { 0.0 },
            eta_seconds: status.eta_seconds.filter(|_| running),
        }
    }
}

/// Shows where a job stands.
pub(super) async fn status(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let folder = run_folder::find(job)?;
    let record = run_folder::read(&folder).await.map_err(Failure::usage)?;
    let line = describe(record.state, &record.status);
    let view = StatusView::new(&folder, &record);
    if format == Format::Json {
        output::json(&view);
    } else if view.result.state.is_final() {
        output::result(format, &view.result);
    } else {
        output::pairs(&[
            ("job", view.result.job_id.clone()),
            ("progress", line),
            ("processes", format!("{} (nodes: {})", view.processes, view.nodes)),
            ("logs", view.result.logs.clone()),
        ]);
    }
    Ok(Code::Completed.into())
}

/// Lists the jobs of a folder, the youngest last.
pub(super) async fn list(list: &List, format: Format) -> Result<ExitCode, Failure> {
    let mut jobs = Vec::new();
    if list.runs.is_dir() {
        let entries = std::fs::read_dir(&list.runs)
            .with_context(|| format!("cannot read {}", list.runs.display()))
            .map_err(Failure::usage)?;
        for entry in entries.flatten() {
            let folder = entry.path();
            if let Ok(record) = run_folder::read(&folder).await {
                jobs.push((record.submitted_us, StatusView::new(&folder, &record)));
            }
        }
    }
    jobs.sort_by_key(|(submitted, _)| *submitted);
    if format == Format::Json {
        output::json(&jobs.iter().map(|(_, view)| view).collect::<Vec<_>>());
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
    output::table(&["JOB", "STATE", "SUBMITTED (UTC)", "MINI-BATCHES", "FAILED", "TIME"], &rows);
    Ok(Code::Completed.into())
}

/// Shows or fetches the result.
pub(super) async fn result(fetch: &Fetch, format: Format) -> Result<ExitCode, Failure> {
    let folder = run_folder::find(&fetch.job)?;
    let record = run_folder::read(&folder).await.map_err(Failure::usage)?;
    let output_folder = embedded::output_folder(&folder, &record);
    let mut result = StatusView::new(&folder, &record).result;
    if result.state != JobState::Completed {
        let why = result.reason.as_deref().unwrap_or("it is not done yet");
        return Err(Failure::wrong(format!(
            "job {} has no result: {} ({why})",
            result.job_id,
            result.state.as_str()
        )));
    }
    if let Some(target) = &fetch.output_path {
        copy(&output_folder, target).await?;
        result.output.uri = match &result.output.sha256 {
            Some(_) => target.join(Path::new(&result.output.uri).file_name().unwrap_or_default()),
            None => target.clone(),
        }
        .display()
        .to_string();
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

/// Copies the whole output; what is in the target already is not overwritten.
async fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let source = LocalStorage::new(from);
    let objects = source.list("").await.context("cannot list the output")?;
    if let Some(taken) = objects.iter().map(|object| to.join(&object.key)).find(|path| path.exists()) {
        return Err(Failure::wrong(format!(
            "{} exists already; give another --output-path",
            taken.display()
        )));
    }
    for object in objects {
        let (source, target) = (from.join(&object.key), to.join(&object.key));
        let copied = target.parent().map_or(Ok(()), std::fs::create_dir_all);
        copied
            .and_then(|()| std::fs::copy(&source, &target).map(drop))
            .with_context(|| format!("cannot copy {} to {}", source.display(), target.display()))?;
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct LogView {
    file: String,
    bytes: u64,
}

/// Lists the logs of a job, or prints one.
pub(super) fn logs(logs: &Logs, format: Format) -> Result<ExitCode, Failure> {
    let folder = run_folder::find(&logs.job)?.join("logs");
    if let Some(name) = &logs.file {
        let path = folder.join(name);
        let inside = std::fs::canonicalize(&path).is_ok_and(|path| path.starts_with(&folder));
        let body = if inside { std::fs::read(&path) } else { Err(std::io::ErrorKind::NotFound.into()) };
        let body = body
            .with_context(|| format!("cannot read {name}; prs-producer logs {} lists the logs", logs.job.job))
            .map_err(Failure::usage)?;
        output::bytes(&body);
        return Ok(Code::Completed.into());
    }
    let mut found = Vec::new();
    collect(&folder, "", &mut found);
    found.sort_by(|a, b| a.file.cmp(&b.file));
    if format == Format::Json {
        output::json(&found);
    } else {
        let rows: Vec<Vec<String>> =
            found.iter().map(|log| vec![log.file.clone(), log.bytes.to_string()]).collect();
        output::table(&["FILE", "BYTES"], &rows);
    }
    Ok(Code::Completed.into())
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<LogView>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => collect(&entry.path(), &format!("{file}/"), found),
            Ok(meta) => found.push(LogView { file, bytes: meta.len() }),
            Err(_) => {}
        }
    }
}
