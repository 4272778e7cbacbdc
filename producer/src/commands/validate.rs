//! `validate`: checks a job file, its script and its inputs, and plans the job; calls nothing of the script.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use indicatif::HumanBytes;
use prs_common::code::archive::pack;
use prs_common::job::{RunsOn, load_for};
use prs_orchestrator::plan::{PlanContext, plan};
use prs_orchestrator::report::progress_overview::duration;
use prs_worker::foreground::{
    Debugger, Foreground, ForegroundError, Imported, NotImported, import_in_foreground,
};
use prs_worker::{Host, find_extension, find_interpreter, how_found};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::run::say_notes;
use crate::cli::{Format, Validate};
use crate::embedded::Signals;
use crate::failure::{Code, Failure};
use crate::left_behind::LeftBehind;
use crate::records::SCHEMA;
use crate::trial::Trial;
use crate::{code_notes, output};

/// Exceptions of a script that lacks something which another host may have: a package, or a newer Python.
const LACKS: [&str; 3] = ["ModuleNotFoundError", "ImportError", "SyntaxError"];

/// What `-o json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Validated {
    /// The form of this object.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: u32,
    /// Always true: what is wrong with a job file is a failure.
    ok: bool,
    /// The name in the job file.
    name: String,
    /// How many mini-batches the job has.
    mini_batches: u64,
    /// How many items.
    items: u64,
    /// Processes that would run on this machine.
    processes: u32,
    /// The interpreter on this machine; null where the one of the job is not here.
    interpreter: Option<String>,
    /// Version of the interpreter, where it imported the script.
    python: Option<String>,
    /// Seconds that the import of the script took; null where it was not imported.
    import_seconds: Option<f64>,
    /// Why the script was not imported here; null where it was.
    not_checked: Option<String>,
    /// Bytes of the packed code.
    code_bytes: usize,
    /// Seconds that all of this took.
    seconds: f64,
}

/// What became of the script here.
struct Script {
    interpreter: Option<String>,
    imported: Result<Imported, String>,
}

/// Checks a job file.
pub(super) async fn validate(arguments: &Validate, format: Format) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let on_fleet = arguments.servers.urls_if_any()?.is_some();
    let runs_on = if on_fleet { RunsOn::Workers } else { RunsOn::ThisMachine };
    let spec = load_for(runs_on, &arguments.job_file, &arguments.set).map_err(Failure::usage)?;
    say_notes(&spec);
    let processes = spec.process_count_per_node.unwrap_or_else(|| Host::detect().default_slots());
    let code = pack(&spec.source_directory).map_err(Failure::usage)?;
    code_notes::check(&spec, &code.files)?;
    let mut signals = Signals::catch()?;
    let looking = async {
        let trial = Trial::of_spec(spec).await?;
        let script = look_at_script(&trial, on_fleet).await?;
        let (mini_batches, items) = count(&trial).await?;
        Ok((trial, script, mini_batches, items))
    };
    let looked = LeftBehind::default().unless_interrupted(&mut signals, Box::pin(looking)).await?;
    let (trial, Script { interpreter, imported }, mini_batches, items) = looked;
    let view = Validated {
        schema: SCHEMA,
        ok: true,
        name: trial.spec.name.clone(),
        mini_batches,
        items,
        processes,
        interpreter,
        python: imported.as_ref().ok().map(|imported| imported.python.clone()),
        import_seconds: imported.as_ref().ok().map(|imported| imported.seconds),
        not_checked: imported.err(),
        code_bytes: code.body.len(),
        seconds: began.elapsed().as_secs_f64(),
    };
    match format {
        Format::Json => output::json(&view)?,
        Format::Table => print(&view)?,
    }
    Ok(Code::Completed.into())
}

/// Imports the script as a process of the job does, where its interpreter is on this machine. A fleet's workers may have
/// what this machine lacks.
async fn look_at_script(trial: &Trial, on_fleet: bool) -> Result<Script, Failure> {
    let environment = trial.spec.environment.as_deref();
    let python = match find_interpreter(environment) {
        Ok(python) => python,
        Err(missing) if on_fleet => {
            let reason = format!("{missing}; each worker looks for it on its own host");
            return Ok(Script { interpreter: None, imported: Err(reason) });
        }
        Err(missing) => return Err(Failure::usage(missing)),
    };
    let interpreter = Some(python.display().to_string());
    let extension = find_extension().map_err(Failure::usage)?;
    let (job, settings) = (trial.context(), trial.node_settings(python, extension));
    let with = Foreground {
        job: &job,
        settings: &settings,
        code: &trial.code,
        place: None,
        debugger: Debugger::None,
        stdout_is_stderr: true,
        stop: CancellationToken::new(),
    };
    let imported = match import_in_foreground(&with, &how_found(environment)).await {
        Ok(Ok(imported)) => Ok(imported),
        Ok(Err(NotImported { category, explanation })) if on_fleet && LACKS.contains(&&*category) => {
            Err(format!("{explanation}\nworkers may have what this machine lacks"))
        }
        Ok(Err(NotImported { explanation, .. })) => return Err(Failure::wrong(explanation)),
        Err(error @ ForegroundError::Start(_)) => return Err(Failure::usage(error)),
        Err(error) => return Err(anyhow::Error::from(error).into()),
    };
    Ok(Script { interpreter, imported })
}

/// Mini-batches and items of the job.
async fn count(trial: &Trial) -> Result<(u64, u64), Failure> {
    let (spec, stores, work) = (trial.spec.clone(), trial.stores.clone(), trial.folder("plan"));
    let handle = Handle::current();
    let counting = tokio::task::spawn_blocking(move || {
        let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared: false };
        let (mut mini_batches, mut items) = (0, 0);
        let outcome = plan(&spec, &context, &|| false, &mut |batch| {
            mini_batches += batch.bodies.len() as u64;
            items += batch.items;
            ControlFlow::Continue(())
        });
        outcome.map(|()| (mini_batches, items))
    });
    let outcome = counting.await.context("the plan was not made")?;
    outcome.map_err(Failure::usage)
}

fn print(view: &Validated) -> Result<(), Failure> {
    if let Some(reason) = &view.not_checked {
        output::say(format_args!("note: the script was not checked here: {reason}"));
    }
    let interpreter = match (&view.interpreter, &view.python) {
        (Some(path), Some(version)) => format!("{path} (Python {version})"),
        (Some(path), None) => path.clone(),
        (None, _) => "not on this machine".to_owned(),
    };
    let script = view.import_seconds.map_or_else(
        || "not checked here".to_owned(),
        |seconds| format!("imported in {}, run() is there", duration(seconds)),
    );
    output::pairs(&[
        ("job", view.name.clone()),
        ("mini-batches", view.mini_batches.to_string()),
        ("items", view.items.to_string()),
        ("processes", view.processes.to_string()),
        ("interpreter", interpreter),
        ("script", script),
        ("code", format!("{} packed", HumanBytes(view.code_bytes as u64))),
        ("took", duration(view.seconds)),
    ])?;
    output::line("ok")
}
