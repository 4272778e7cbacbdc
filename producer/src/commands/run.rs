//! `submit` and `resume`: run a job in this process.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use prs_common::code_archive::pack;
use prs_common::job::{OutputAction, load};
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::storage::{LocalStorage, PutOptions, Storage};
use prs_common::timestamp::now_us;
use prs_orchestrator::job_record::Status;
use prs_orchestrator::{JobRecord, JobResult};
use prs_worker::find_extension;

use super::embedded_only;
use crate::cli::{Format, Resume, Submit};
use crate::failure::{Code, Failure};
use crate::{embedded, interpreter, output, run_folder};

/// Runs a job file.
pub(super) async fn submit(arguments: &Submit, format: Format) -> Result<ExitCode, Failure> {
    embedded_only(&arguments.servers)?;
    let spec = load(&arguments.job_file, &arguments.set).map_err(Failure::usage)?;
    let python = interpreter::find(spec.environment.as_deref()).map_err(Failure::usage)?;
    let extension = find_extension().map_err(Failure::usage)?;
    let code = pack(&spec.source_directory).map_err(Failure::usage)?;
    for note in &spec.notes {
        output::say(format_args!("note: {note}"));
    }
    if spec.node_count > 1 || spec.compute_target != "default" {
        output::say(format_args!(
            "note: no fleet is given, so the job runs on this machine alone (compute_target {}, node_count {})",
            spec.compute_target, spec.node_count
        ));
    }
    let job_id = new_id(&spec.name);
    let folder = arguments.run_dir.clone().unwrap_or_else(|| Path::new("prs-runs").join(&job_id));
    if folder.join(layout::JOB).exists() {
        return Err(Failure::wrong(format!(
            "{} holds a job already; give another --run-dir, or continue it with prs-producer resume",
            folder.display()
        )));
    }
    let record = JobRecord {
        job_id,
        prs_version: env!("CARGO_PKG_VERSION").to_owned(),
        incarnation: 1,
        submitted_us: now_us(),
        code: layout::code_archive(&code.checksum),
        spec,
        state: JobState::Queued,
        status: Status::default(),
        result: None,
    };
    check_output(&folder, &record)?;
    let folder = make_folder(&folder)?;
    let _lock = run_folder::lock(&folder)?
        .ok_or_else(|| Failure::wrong(format!("{} is in use by another run", folder.display())))?;
    let storage = LocalStorage::new(&folder);
    let signals = embedded::Signals::catch()?;
    let put = storage.put(&record.code, code.body.into(), PutOptions::default()).await;
    put.context("cannot store the code of the job")?;
    record.write(&storage).await.context("cannot store the job")?;
    output::say(format_args!("job {} runs in {}", record.job_id, embedded::shown(&folder)));
    let result = embedded::run(embedded::Run { folder, record, python, extension, signals }).await?;
    Ok(report(format, &result))
}

/// Goes on with a former job.
pub(super) async fn resume(arguments: &Resume, format: Format) -> Result<ExitCode, Failure> {
    embedded_only(&arguments.servers)?;
    let folder = run_folder::find(&arguments.job)?;
    let _lock = run_folder::lock(&folder)?.ok_or_else(|| {
        Failure::wrong(format!("{} is running; there is nothing to resume", folder.display()))
    })?;
    let mut record = JobRecord::read(&LocalStorage::new(&folder)).await.map_err(Failure::usage)?;
    if let Some(result) = &record.result
        && result.state == JobState::Completed
        && result.mini_batches.failed == 0
    {
        output::say("the job has completed already; nothing is missing or failed");
        return Ok(report(format, result));
    }
    let python = interpreter::find(record.spec.environment.as_deref()).map_err(Failure::usage)?;
    let extension = find_extension().map_err(Failure::usage)?;
    let signals = embedded::Signals::catch()?;
    record.incarnation += 1;
    record.state = JobState::Queued;
    record.result = None;
    record.write(&LocalStorage::new(&folder)).await.context("cannot store the job")?;
    output::say(format_args!("job {} goes on in {}", record.job_id, embedded::shown(&folder)));
    let result = embedded::run(embedded::Run { folder, record, python, extension, signals }).await?;
    Ok(report(format, &result))
}

fn report(format: Format, result: &JobResult) -> ExitCode {
    output::result(format, result);
    let code = match result.state {
        JobState::Completed => Code::Completed,
        JobState::Canceled => Code::Interrupted,
        _ => {
            let reason = result.reason.as_deref().unwrap_or("for no known reason");
            output::say(format_args!("the job failed: {reason}\nsee {}/job_result.txt", result.logs));
            Code::Failed
        }
    };
    code.into()
}

/// `<name>-<day>-<time>-<four digits>`: readable, sorted by age, unique enough for one folder.
fn new_id(name: &str) -> String {
    let now = now_us();
    let time = prs_common::timestamp::format_us(now);
    let digits: String = time[..19].chars().filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at(8);
    format!("{name}-{day}-{time}-{:04x}", (now ^ (u64::from(std::process::id()) << 5)) & 0xffff)
}

fn make_folder(folder: &Path) -> Result<PathBuf, Failure> {
    let absolute =
        std::path::absolute(folder).context("there is no current folder").map_err(Failure::usage)?;
    if absolute.to_str().is_none_or(|path| path.contains(':')) {
        return Err(Failure::wrong(format!(
            "the run folder {} cannot be on Python's path: it must be UTF-8 without a colon; give another --run-dir",
            absolute.display()
        )));
    }
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::canonicalize(folder))
        .with_context(|| format!("cannot make the run folder {}", folder.display()))
        .map_err(Failure::usage)
}

/// Refuses an output that has the result already, whose it is nobody knows, or that cannot be written.
fn check_output(folder: &Path, record: &JobRecord) -> Result<(), Failure> {
    let spec = &record.spec;
    let output = embedded::output_folder(folder, record);
    let result = (spec.output_action == OutputAction::AppendRow).then_some(&*spec.append_row_file_name);
    for name in [Some(layout::FAILED_MINI_BATCHES), result].into_iter().flatten() {
        let path = output.join(name);
        if path.exists() {
            return Err(Failure::wrong(format!(
                "{} exists already; move it away, or give another output",
                path.display()
            )));
        }
    }
    if spec.output.is_some() {
        let probe = output.join(format!(".probe-{}", std::process::id()));
        std::fs::create_dir_all(&output)
            .and_then(|()| std::fs::write(&probe, ""))
            .and_then(|()| std::fs::remove_file(&probe))
            .with_context(|| format!("the output folder {} cannot be written", output.display()))
            .map_err(Failure::usage)?;
    }
    Ok(())
}
