//! `submit`, `resubmit` and `resume`: run a job, in this process or on a fleet.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use prs_common::code::archive::{is_intact, pack};
use prs_common::job::{JobSpec, RunsOn, change, load_for, note_on_csv};
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::servers::ServerUrls;
use prs_common::storage::{Claim, LocalStorage, Storage, StorageExt};
use prs_common::timestamp::now_us;
use prs_orchestrator::inputs::{Audience, InputStores, Where, resolve};
use prs_orchestrator::job::queue::reservation;
use prs_orchestrator::job::words;
use prs_orchestrator::publish::Notes;
use prs_orchestrator::{Fleet, JobRecord, JobResult};
use prs_worker::{find_extension, find_interpreter, opener};

use super::fetch::check_there;
use crate::cli::{Format, Resubmit, Resume, Submit};
use crate::code_choice::{describe_resubmitted, next_start};
use crate::embedded::Signals;
use crate::failure::{Code, Failure};
use crate::fleet::NewJob;
use crate::left_behind::LeftBehind;
use crate::output_copy::{Former, fetch_output};
use crate::output_folder::{check_apart, check_record, claim_for_former, claim_for_new};
use crate::place::{Place, not_on_a_fleet};
use crate::records::Submitted;
use crate::script_check::ScriptCheck;
use crate::{code_notes, embedded, fleet, output, run_folder};

/// Runs a job file.
pub(super) async fn submit(arguments: &Submit, format: Format) -> Result<ExitCode, Failure> {
    let whence =
        Whence::of(arguments.servers.urls_if_any()?, arguments.run_dir.as_deref(), arguments.detach)?;
    let runs_on = if whence.urls.is_some() { RunsOn::Workers } else { RunsOn::ThisMachine };
    let spec = load_for(runs_on, &arguments.job_file, &arguments.set).map_err(Failure::usage)?;
    let check = ScriptCheck::start(&spec, runs_on)?;
    let code = pack(&spec.source_directory).map_err(Failure::usage)?;
    if let Some(check) = check {
        check.finish().await?;
    }
    code_notes::check(&spec, &code.files)?;
    let (id, archive) = (new_id(&spec.name), code.body.into());
    let new = NewJob { id, spec, code: layout::code_archive(&code.checksum), archive, former: None };
    run(new, whence, Path::new(run_folder::RUNS), format).await
}

/// Runs a former job again as a new one. The former one is only read.
pub(super) async fn resubmit(arguments: &Resubmit, format: Format) -> Result<ExitCode, Failure> {
    let Resubmit { job, set, run_dir, detach } = arguments;
    let whence = Whence::of(job.whereabouts.urls()?, run_dir.as_deref(), *detach)?;
    let place = Place::find_to_run(job).await?;
    let record = place.record().await?;
    let spec = change(&record.spec, &job.name, set).map_err(Failure::usage)?;
    let archive = place.storage.get(&record.code).await.context("cannot read the code of the former job");
    let archive = archive.map_err(|error| place.failure(error))?;
    if !is_intact(&archive, layout::checksum_of_code(&record.code)) {
        let key = place.storage.uri(&record.code);
        return Err(Failure::wrong(format!(
            "the code of the former job is damaged in storage: {key} is not what its name says; submit the job file again"
        )));
    }
    output::say(describe_resubmitted(&record, &archive));
    let former = Some(Arc::clone(&place.storage));
    let id = new_id(&spec.name);
    run(NewJob { id, spec, code: record.code, archive, former }, whence, job.whereabouts.runs(), format).await
}

/// Where a new job is to run.
struct Whence<'a> {
    urls: Option<ServerUrls>,
    run_dir: Option<&'a Path>,
    detach: bool,
}

impl<'a> Whence<'a> {
    fn of(urls: Option<ServerUrls>, run_dir: Option<&'a Path>, detach: bool) -> Result<Self, Failure> {
        match &urls {
            Some(_) if run_dir.is_some() => Err(not_on_a_fleet("--run-dir")),
            None if detach => {
                Err(Failure::wrong("--detach is for jobs on a fleet; this one runs in this program"))
            }
            _ => Ok(Self { urls, run_dir, detach }),
        }
    }
}

/// Runs a new job. `runs` holds the runs of this machine.
async fn run(new: NewJob, whence: Whence<'_>, runs: &Path, format: Format) -> Result<ExitCode, Failure> {
    match fleet::connect(whence.urls).await? {
        Some(fleet) => Box::pin(run_on(&fleet, new, whence.detach, format)).await,
        None => Box::pin(run_here(new, whence.run_dir, runs, format)).await,
    }
}

/// Runs a new job on a fleet.
async fn run_on(fleet: &Fleet, new: NewJob, detach: bool, format: Format) -> Result<ExitCode, Failure> {
    say_notes(&new.spec);
    let output = new.spec.output.as_deref().filter(|_| !detach);
    let claim = output.map(|output| claim_for_new(output, &new.spec, &new.id)).transpose()?;
    if let Some(reservation) = reservation(&new.spec, fleet.queue.unsettled_limit()) {
        output::say(format_args!("note: {reservation}"));
    }
    let mut signals = Signals::catch()?;
    let behind = LeftBehind::default();
    let handed = behind.unless_interrupted(&mut signals, fleet::start(fleet, new, &behind)).await?;
    output::say(format_args!("job {} is handed in", handed.job.id));
    let target = claim.map(|claim| Target { _claim: claim, former: Former::None });
    hand_over(handed, target, detach, signals, format).await
}

/// Runs a new job in this process.
async fn run_here(
    new: NewJob,
    run_dir: Option<&Path>,
    runs: &Path,
    format: Format,
) -> Result<ExitCode, Failure> {
    let spec = &new.spec;
    let python = find_interpreter(spec.environment.as_deref()).map_err(Failure::usage)?;
    let extension = find_extension().map_err(Failure::usage)?;
    say_notes(spec);
    if spec.node_count > 1 || spec.compute_target != "default" {
        output::say(format_args!(
            "note: no fleet is given, so the job runs on this machine alone (compute_target {}, node_count {})",
            spec.compute_target, spec.node_count
        ));
    }
    let mut record = JobRecord::new(new.id.clone(), new.code.clone(), spec.clone());
    let folder = run_dir.map_or_else(|| runs.join(&record.job_id), Path::to_owned);
    if folder.join(layout::JOB).exists() {
        return Err(holds_a_job(&folder));
    }
    let claim = |output: &Path| claim_for_new(output, spec, &new.id);
    // Before anything is made.
    let elsewhere = match &spec.output {
        Some(output) => check_apart(output, &folder).and_then(|()| claim(output)).map(Some)?,
        None => None,
    };
    let folder = make_folder(&folder)?;
    let _lock = run_folder::lock(&folder)?
        .ok_or_else(|| Failure::wrong(format!("{} is in use by another run", folder.display())))?;
    let _claim = match elsewhere {
        Some(claim) => claim,
        None => claim(&embedded::output_folder(&folder, &record))?,
    };
    let storage = LocalStorage::new(&folder);
    let mut signals = Signals::catch()?;
    let behind = LeftBehind::default();
    behind.note(format_args!("{} holds a job that has not run; it may be removed", folder.display()));
    let stored = async {
        let stores: Arc<dyn Storage> = Arc::new(storage.clone());
        let stores = InputStores::new(Arc::clone(&stores), stores, opener());
        let resolved = resolve(new.spec.clone(), &stores, Where::Embedded, Audience::NONE).await;
        record.spec = resolved.map_err(Failure::usage)?;
        new.store(&storage).await?;
        if !record.create(&storage).await.context("cannot store the job")? {
            return Err(holds_a_job(&folder));
        }
        Ok(record)
    };
    let record = behind.unless_interrupted(&mut signals, stored).await?;
    output::say(format_args!("job {} runs in {}", record.job_id, embedded::shown(&folder)));
    let name = run_folder::called(&folder);
    let result = embedded::run(embedded::Run { folder, record, python, extension, signals }).await?;
    report(format, &result, &name)
}

fn holds_a_job(folder: &Path) -> Failure {
    Failure::wrong(format!(
        "{} holds a job already; give another --run-dir, or continue it with prs resume",
        folder.display()
    ))
}

/// Says what the author of a job should know of its settings.
pub(super) fn say_notes(spec: &JobSpec) {
    for note in spec.notes.iter().chain(&note_on_csv(spec)) {
        output::say(format_args!("note: {note}"));
    }
}

/// Goes on with a former job.
pub(super) async fn resume(arguments: &Resume, format: Format) -> Result<ExitCode, Failure> {
    if let Some(fleet) = fleet::connect(arguments.job.whereabouts.urls()?).await? {
        let record = fleet::find(&fleet, &arguments.job.name).await?;
        let storage = fleet.job_storage(&record.job_id);
        let output = storage.below(layout::OUTPUT.trim_end_matches('/'));
        if let Some(result) = done(&record, &*output, Failure::server).await? {
            return report(format, result, &record.job_id);
        }
        check_record(&record)?;
        let target = match record.spec.output.as_deref().filter(|_| !arguments.detach) {
            Some(output) => {
                let notes = Notes::read(&*storage).await.map_err(Failure::server)?;
                let claim = claim_for_former(output, &record, &notes).await?;
                Some(Target { _claim: claim, former: Former::Noted(notes) })
            }
            None => None,
        };
        fleet::check_at_rest(&fleet, &record).await?;
        let next = next_start(arguments, &record, &*storage, &[]).await?;
        let mut signals = Signals::catch()?;
        let behind = LeftBehind::default();
        let resumed = fleet::resume(&fleet, record, next, &behind);
        let handed = Box::pin(behind.unless_interrupted(&mut signals, resumed)).await?;
        output::say(format_args!("job {} goes on", handed.job.id));
        return hand_over(handed, target, arguments.detach, signals, format).await;
    }
    if arguments.detach {
        return Err(Failure::wrong("--detach is for jobs on a fleet; this one runs in this program"));
    }
    let folder = run_folder::find_to_resume(&arguments.job)?;
    let _lock = run_folder::lock(&folder)?.ok_or_else(|| {
        Failure::wrong(format!("{} is running; there is nothing to resume", folder.display()))
    })?;
    let storage = LocalStorage::new(&folder);
    let mut record = JobRecord::read(&storage).await.map_err(Failure::usage)?;
    let output = embedded::output_folder(&folder, &record);
    if let Some(result) = done(&record, &LocalStorage::new(&output), Failure::from).await? {
        return report(format, result, &run_folder::called(&folder));
    }
    check_record(&record)?;
    let next = next_start(arguments, &record, &storage, &[&folder]).await?;
    let python = find_interpreter(next.spec.environment.as_deref()).map_err(Failure::usage)?;
    let extension = find_extension().map_err(Failure::usage)?;
    let notes = Notes::read(&storage).await.context("cannot read the run folder")?;
    let _claim = claim_for_former(&output, &record, &notes).await?;
    let signals = Signals::catch()?;
    next.store(&storage).await?;
    next.begin(&mut record);
    record.write(&storage).await.context("cannot store the job")?;
    output::say(format_args!("job {} goes on in {}", record.job_id, embedded::shown(&folder)));
    let name = run_folder::called(&folder);
    let result = embedded::run(embedded::Run { folder, record, python, extension, signals }).await?;
    report(format, &result, &name)
}

/// The result of a job of which nothing is left to do, when it still is in its `output`.
async fn done<'a>(
    record: &'a JobRecord,
    output: &dyn Storage,
    failed: impl Fn(anyhow::Error) -> Failure,
) -> Result<Option<&'a JobResult>, Failure> {
    let Some(result) = record.result.as_ref().filter(|_| record.is_done_with()) else { return Ok(None) };
    check_there(output, result, failed).await?;
    output::say("the job has completed already; no item is missing");
    Ok(Some(result))
}

/// Where the output of a job on a fleet is copied to at its end.
struct Target {
    /// Nothing else fills the folder meanwhile.
    _claim: Claim,
    /// What of the job may be there already.
    former: Former,
}

/// Waits for a job that was handed in, where that is wanted.
async fn hand_over(
    handed: fleet::Handed,
    target: Option<Target>,
    detach: bool,
    mut signals: Signals,
    format: Format,
) -> Result<ExitCode, Failure> {
    let id = handed.job.id.clone();
    let folder = handed.record.spec.output.clone();
    let say_unfilled = || {
        if let Some(folder) = &folder {
            output::say(format_args!(
                "`output` is not filled; once the job has completed, prs result {id} --output-path {} fetches it",
                folder.display()
            ));
        }
    };
    if detach {
        fleet::leave(handed).await;
        say_unfilled();
        let printed = match format {
            Format::Json => output::json(&Submitted::new(&id)),
            Format::Table => output::line(&id),
        };
        printed.map_err(|failure| failure.and(format_args!("job {id} is handed in")))?;
        return Ok(Code::Completed.into());
    }
    let storage = Arc::clone(&handed.job.output);
    let mut result = match fleet::wait(handed, &mut signals).await? {
        fleet::Waited::Ended(result) => result,
        fleet::Waited::Left => {
            output::say(format_args!("the job goes on; prs stream {id} follows it"));
            say_unfilled();
            return Ok(Code::Interrupted.into());
        }
    };
    let target = folder.as_deref().zip(target).filter(|_| result.state == JobState::Completed);
    let fetched = match target {
        Some((folder, Target { _claim, former })) => tokio::select! {
            fetched = fetch_output(&*storage, folder, &mut result.output, &former) => fetched,
            name = signals.next() => Err(Failure::interrupted(format_args!("interrupted ({name})"))),
        },
        None => Ok(()),
    };
    // The job has ended, whatever became of the copy.
    let reported = report(format, &result, &id);
    fetched.map_err(|failure| {
        failure
            .and(format_args!("`output` is not filled: prs result {id} --output-path DIR fetches the result"))
    })?;
    reported
}

/// Prints how a job ended, which commands call `name`, and gives the exit code for it.
pub(super) fn report(format: Format, result: &JobResult, name: &str) -> Result<ExitCode, Failure> {
    let printed = output::result(format, result, name);
    let code = match result.state {
        JobState::Completed if result.findings.lacks_unexpectedly() => {
            if let Some(missing) = words::missing(result) {
                output::say_error(format_args!(
                    "{missing} (exit code 10: the job file does not say how many may be, with error_threshold, allowed_failed_count or allowed_failed_percent)"
                ));
            }
            Code::Incomplete
        }
        JobState::Completed => Code::Completed,
        JobState::Canceled => Code::Interrupted,
        _ => {
            let reason = result.reason.as_deref().unwrap_or("for no known reason");
            // People have it above, unless standard output went elsewhere.
            let is_seen = format == Format::Table && io::stdout().is_terminal();
            let reason = if is_seen { String::new() } else { format!(": {reason}") };
            let logs = result.logs.trim_end_matches('/');
            output::say_error(format_args!("the job failed{reason}\nsee {logs}/job_result.txt"));
            Code::Failed
        }
    };
    printed.map_err(|failure| {
        let (id, logs) = (&result.job_id, result.logs.trim_end_matches('/'));
        failure.and(format_args!("how job {id} ended is in {logs}/job_result.txt"))
    })?;
    Ok(code.into())
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
    run_folder::make(folder)
}
