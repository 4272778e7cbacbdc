//! One mini-batch in one process that has this program's terminal: `prs try`. Or the import of the script alone: `prs
//! validate`.
//!
//! The process is what a node starts, and reads the data and writes the rows as there; what differs is that its standard
//! streams are those of this program, that nothing is timed, and that a debugger may look into what `init()` or `run()`
//! raises. There is no queue, no ledger and no second try.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use prs_common::job::Environment;
use prs_common::process_page::Phase;
use prs_common::wire::{
    Assignment, ErrorInfo, FOREGROUND_VARIABLE, FromProcess, Outcome, Stage, ToProcess, encode,
};
use prs_orchestrator::JobContext;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::host::python_home;
use crate::host::unique::unique;
use crate::inputs::side::SidePaths;
use crate::inputs::{InputPlace, model};
use crate::node_settings::NodeSettings;
use crate::process::import_failure::ImportFailure;
use crate::process::launch::{Launch, process_name};
use crate::process::{Event, EventKind, Process, Streams, Tending, silent_death};

/// What the variable of a process says that only imports the script; see `azureml_user.parallel_run.foreground`.
const IMPORT: &str = "import";
/// What the process said and did that is not looked at yet.
const EVENTS_AHEAD: usize = 16;
/// Class of the error of a process whose debugger cannot be had.
const NO_DEBUGGER: &str = "DebuggerUnavailable";

/// What looks into the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Debugger {
    /// Nothing, unless the script asks for it with `breakpoint()`.
    None,
    /// `pdb`, at what `init()` or `run()` raises.
    PostMortem,
    /// `debugpy`, which waits on this port for an editor to connect.
    Listen(u16),
}

/// How a mini-batch is run in the foreground.
#[derive(Debug)]
pub struct Foreground<'a> {
    /// The job. Of its places only the local folders are written to.
    pub job: &'a JobContext,
    /// The interpreter, the extension, the host.
    pub settings: &'a NodeSettings,
    /// Folder of the code.
    pub code: &'a Path,
    /// Where the script sees what was fetched, where something was.
    pub place: Option<&'a InputPlace>,
    /// Where the script sees the side inputs.
    pub side_inputs: &'a SidePaths,
    /// What looks into the script.
    pub debugger: Debugger,
    /// Whether what the script prints goes to standard error.
    pub stdout_is_stderr: bool,
    /// Ends the process when it is cancelled.
    pub stop: CancellationToken,
}

/// What came of a mini-batch in the foreground.
#[derive(Debug, Default)]
pub struct Tried {
    /// Version of the interpreter; empty when it did not get so far.
    pub python: String,
    /// Seconds that import and `init()` took; absent when they failed.
    pub init_seconds: Option<f64>,
    /// Seconds inside `run()`; absent when it was not called.
    pub run_seconds: Option<f64>,
    /// Input items.
    pub items: u64,
    /// Elements that `run()` returned.
    pub returned: u64,
    /// The rows as they would go into the result.
    pub rows: Bytes,
    /// Header of a returned DataFrame, where the job asks for one.
    pub header: Option<String>,
    /// Files that would be published.
    pub files: Vec<String>,
    /// What a person should read.
    pub notices: Vec<String>,
    /// Why `init()`, the reading of the data, or `run()` failed.
    pub error: Option<ErrorInfo>,
    /// What `shutdown()` raised.
    pub shutdown_error: Option<ErrorInfo>,
}

/// Why a mini-batch could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum ForegroundError {
    /// prs's own Python cannot be made ready.
    #[error("cannot prepare {}: {source}", path.display())]
    Prepare {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The process cannot be started.
    #[error("{0}")]
    Start(String),
    /// The debugger that was asked for is not there.
    #[error("{0}")]
    Debugger(String),
    /// It was stopped.
    #[error("stopped")]
    Stopped,
}

impl Foreground<'_> {
    /// `sys.argv[1:]` of the process.
    pub fn arguments(&self) -> Vec<String> {
        let Self { job, settings, side_inputs, .. } = *self;
        let folder = job.work.join("node-0");
        let (node_id, service, mount) = (0, "", None);
        let launch = Launch { job, settings, node_id, service, folder: &folder, mount, side_inputs };
        launch.start_message(&process_name(0)).arguments
    }
}

/// A script that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Seconds from the start of the process until the script was imported.
    pub seconds: f64,
    /// Version of the interpreter.
    pub python: String,
}

/// A script that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotImported {
    /// The class of the exception.
    pub category: String,
    /// The cause in the first line, then the line of the script, the interpreter and the remedy.
    pub explanation: String,
}

/// Runs the mini-batch with the descriptor `local`, whose data is on this host.
pub async fn run_in_foreground(with: &Foreground<'_>, local: &[u8]) -> Result<Tried, ForegroundError> {
    run(with, with.debugger.name(), Some(local)).await
}

/// Imports the script as a process of the job does, and looks at its functions; calls none of them. `found` says why the
/// interpreter is this one.
pub async fn import_in_foreground(
    with: &Foreground<'_>,
    found: &str,
) -> Result<Result<Imported, NotImported>, ForegroundError> {
    let tried = run(with, IMPORT.to_owned(), None).await?;
    let Some(error) = tried.error else {
        let seconds = tried.init_seconds.unwrap_or_default();
        return Ok(Ok(Imported { seconds, python: tried.python }));
    };
    let failure = ImportFailure {
        error: &error,
        line: error.frame.as_deref(),
        python: &with.settings.python,
        version: &tried.python,
        found,
        made_of: with
            .job
            .spec
            .environment
            .as_ref()
            .and_then(Environment::packages)
            .map(|packages| &*packages.from),
        host: None,
    };
    let explanation = failure.explain();
    Ok(Err(NotImported { category: error.category, explanation }))
}

/// Runs a process that is told by the variable `mode` what is different in the foreground.
async fn run(with: &Foreground<'_>, mode: String, local: Option<&[u8]>) -> Result<Tried, ForegroundError> {
    let Foreground { job, settings, side_inputs, .. } = *with;
    let folder = job.work.join("node-0");
    let home = folder.join("python");
    python_home::prepare(&home, &settings.extension)
        .map_err(|source| ForegroundError::Prepare { path: home, source })?;
    model::place(&job.spec, side_inputs, &folder)
        .map_err(|error| ForegroundError::Start(format!("cannot place the model: {error}")))?;
    let (service, name) = (unique(), process_name(0));
    let mount = with.place.and_then(InputPlace::mount);
    let launch = Launch { job, settings, node_id: 0, service: &service, folder: &folder, mount, side_inputs };
    let mut start = launch.start_message(&name);
    // Nothing is timed here.
    start.concurrency.run_timeout = 0;
    start.code_dir = with.code.to_string_lossy().into_owned();
    let gpu = settings.host.gpus.take_lowest_free(std::iter::empty());
    let mut settings = launch.process_settings(&name, &start, gpu.as_ref());
    settings.streams = Streams::Inherited { stdout_is_stderr: with.stdout_is_stderr };
    settings.variables.push((FOREGROUND_VARIABLE.to_owned(), mode));
    let (events_tx, events_rx) = mpsc::channel(EVENTS_AHEAD);
    let tending = Tending { events_tx, tasks: TaskTracker::new(), all_end: CancellationToken::new() };
    let process = Process::start(&settings, 0, 0, &tending)
        .map_err(|error| ForegroundError::Start(error.to_string()))?;
    // The supervisor has the last sender: when it ends, nothing more comes.
    drop(tending);
    process.say(&ToProcess::Start(Box::new(start)));
    let tried = converse(&process, events_rx, local, &with.stop).await.ok_or(ForegroundError::Stopped)?;
    match tried.error {
        Some(error) if error.category == NO_DEBUGGER => Err(ForegroundError::Debugger(error.message)),
        _ => Ok(tried),
    }
}

impl Debugger {
    /// As the process reads it; see `azureml_user.parallel_run.foreground`.
    fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::PostMortem => "pdb".to_owned(),
            Self::Listen(port) => format!("listen:{port}"),
        }
    }
}

/// Speaks with the process until it, and all that it started, has ended; nothing when it was stopped.
async fn converse(
    process: &Process,
    mut events_rx: mpsc::Receiver<Event>,
    local: Option<&[u8]>,
    stop: &CancellationToken,
) -> Option<Tried> {
    let mut tried = Tried::default();
    let returncode = loop {
        let event = tokio::select! {
            event = events_rx.recv() => event?,
            () = stop.cancelled() => {
                process.kill();
                while events_rx.recv().await.is_some_and(|event| !matches!(event.kind, EventKind::Exited { .. })) {}
                return None;
            }
        };
        match event.kind {
            EventKind::Said(message, rows) => answer((message, rows), &mut tried, process, local),
            EventKind::StackWritten | EventKind::Violated(_) => {}
            EventKind::Exited { returncode, .. } => break returncode,
        }
        if local.is_none() && tried.init_seconds.is_some() {
            // What the script has started while it was imported is not waited for.
            process.kill();
        }
    };
    let is_done = if local.is_some() { tried.run_seconds.is_some() } else { tried.init_seconds.is_some() };
    if tried.error.is_none() && !is_done {
        tried.error = Some(death(process, returncode, local.is_none()));
        tried.items = process.page.in_flight().first().map_or(process.page.items(), |one| one.items);
    }
    Some(tried)
}

/// Notes what the process said, and says what it is to do next.
fn answer((message, rows): (FromProcess, Bytes), tried: &mut Tried, process: &Process, local: Option<&[u8]>) {
    match message {
        FromProcess::Hello { protocol, python } => {
            tracing::debug!(protocol, python, "the process is up");
            tried.python = python;
        }
        FromProcess::Ready { seconds, .. } => {
            tried.init_seconds = Some(seconds);
            let Some(local) = local else { return };
            process.page.grant(1);
            let assignment = Assignment { seq: 1, retry_count: 0, bytes: local.len() as u32, part: None };
            process.send(encode(&ToProcess::Run(vec![assignment]), [local]));
        }
        FromProcess::InitFailed { error, .. } => tried.error = Some(error),
        FromProcess::Outcomes(outcomes) => {
            for outcome in outcomes {
                note(tried, outcome);
            }
            tried.rows = rows;
            process.say(&ToProcess::Shutdown);
        }
        FromProcess::Skipped(_) => tracing::error!("the process skips what it was not to skip"),
        FromProcess::Notice(text) => tried.notices.push(text),
        FromProcess::Bye(error) => tried.shutdown_error = error,
    }
}

fn note(tried: &mut Tried, outcome: Outcome) {
    let was_run = outcome
        .error
        .as_ref()
        .is_none_or(|error| matches!(error.stage, Stage::Run | Stage::Cancelled | Stage::Items));
    tried.run_seconds = was_run.then_some(outcome.run_us as f64 / 1e6);
    tried.items = outcome.items;
    tried.returned = outcome.returned;
    tried.header = outcome.header;
    tried.files = outcome.files;
    tried.error = outcome.error;
}

/// The error of a process that ended without saying how its mini-batch did, or the import where it `only_imports`.
fn death(process: &Process, returncode: i32, only_imports: bool) -> ErrorInfo {
    let page = &process.page;
    let (stage, during) = match page.in_flight().first().map_or(page.phase().0, |one| one.phase) {
        _ if only_imports => (Stage::Import, "while it imported the script"),
        Phase::Starting | Phase::Init => (Stage::Init, "while it imported the script or ran init()"),
        Phase::Loading => (Stage::Load, "while it read the data of the mini-batch"),
        Phase::Running => (Stage::Run, "while it ran this mini-batch"),
        Phase::Idle | Phase::Shutdown => (Stage::Run, "between init() and the end of the mini-batch"),
    };
    silent_death(stage, returncode, during)
}
