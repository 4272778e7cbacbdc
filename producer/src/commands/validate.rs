//! `validate`: checks a job file, its script and its inputs, and plans the job; calls nothing of the script.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use indicatif::HumanBytes;
use prs_common::job::prepared;
use prs_common::job::{Environment, Given, InputSource, Invocation, JobSpec, Loaded, SideInput};
use prs_jobs::homes::registry;
use prs_jobs::submit::local::{Python, slots};
use prs_jobs::submit::pipeline::code::pack_code;
use prs_jobs::submit::resume_hint::ResumeHint;
use prs_jobs::submit::{check_unrun, code_notes, note_settings};
use prs_orchestrator::plan::{PlanContext, plan};
use prs_orchestrator::report::progress_overview::duration;
use prs_worker::foreground::{
    Debugger, Foreground, ForegroundError, Imported, NotImported, import_in_foreground,
};
use prs_worker::inputs::side::SidePaths;
use prs_worker::{Host, find_environment, find_interpreter, how_found};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::pipeline;
use crate::cli::{Format, Validate};
use crate::failure::{Code, Failure};
use crate::progress::Screen;
use crate::terminal::output;
use crate::terminal::signals::Signals;
use crate::terminal::table::pairs;
use crate::trial::Trial;

/// Exceptions of a script that lacks something which another host may have: a package, or a newer Python.
const LACKS: [&str; 3] = ["ModuleNotFoundError", "ImportError", "SyntaxError"];
/// Exceptions that no side input changes.
const OF_ITS_TEXT: [&str; 3] = ["SyntaxError", "IndentationError", "TabError"];

/// What `-o json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Validated {
    /// Always true: what is wrong with a job file is a failure.
    ok: bool,
    /// The name in the job file.
    name: String,
    /// How many mini-batches the job has; null for a batch deployment without data, and where rows are put together or counted
    /// first.
    mini_batches: Option<u64>,
    /// How many items; null where there is no number of mini-batches.
    items: Option<u64>,
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
    let whereabouts = arguments.servers.whereabouts(None)?;
    let (runs_on, on_fleet) = (whereabouts.runs_on(), whereabouts.urls.is_some());
    let names = arguments.servers.names();
    // Without data all else of a batch deployment is checked.
    let invocation = Invocation { is_check: true, ..arguments.of_deployment.invocation() };
    let given = Given {
        overrides: &arguments.set,
        invocation: Some(&invocation),
        names: Some(&names),
        ..Given::default()
    };
    let loaded = registry::load(runs_on, &arguments.job_file, given, &whereabouts).await?;
    check_unrun(&loaded).await?;
    let (spec, preparation) = match loaded {
        Loaded::Job(spec) => (*spec, None),
        Loaded::Pipeline(loaded) => match prepared::as_given(&loaded.pipeline) {
            // One job to its author, whatever is done before it runs.
            Some(spec) => (spec, loaded.pipeline.preparation()),
            None => return pipeline::validate(*loaded, runs_on, format).await,
        },
    };
    note_settings(&spec, &Screen);
    let host = Host::detect();
    let processes = slots(&spec, &host);
    if let Some(shortage) = host.gpu_shortage(processes).filter(|_| !on_fleet) {
        output::note(format_args!("note: {shortage} (process_count_per_node)"));
    }
    let code = pack_code(&spec)?;
    if !spec.is_built_in() {
        code_notes::check(&spec, &code.files, &Screen)?;
    }
    let mut signals = Signals::catch();
    let looking = async {
        let trial = Trial::of_spec(spec).await?;
        let script = look_at_script(&trial, on_fleet).await?;
        let is_planned = !trial.spec.inputs.is_empty() && preparation.is_none();
        let counted = if is_planned { Some(count(&trial).await?) } else { None };
        Ok((trial, script, counted))
    };
    let looked = ResumeHint::default().unless_interrupted(&mut signals, Box::pin(looking)).await?;
    let (trial, Script { interpreter, imported }, counted) = looked;
    let view = Validated {
        ok: true,
        name: trial.spec.name.clone(),
        mini_batches: counted.map(|(mini_batches, _)| mini_batches),
        items: counted.map(|(_, items)| items),
        processes,
        interpreter,
        python: imported.as_ref().ok().map(|imported| imported.python.clone()),
        import_seconds: imported.as_ref().ok().map(|imported| imported.seconds),
        not_checked: imported.err(),
        code_bytes: code.body.len(),
        seconds: began.elapsed().as_secs_f64(),
    };
    if let (Format::Table, Some(reason)) = (format, &view.not_checked) {
        output::note(format_args!("note: the script was not checked here: {reason}"));
    }
    let unplanned = preparation.map_or_else(
        || "not planned: no --input is given".to_owned(),
        |words| format!("not planned: its {words} first"),
    );
    output::print(format, &view, |view| text(view, &unplanned))?;
    Ok(Code::Completed.into())
}

/// Imports the script as a process of the job does, where its interpreter is on this machine. A fleet's workers may have
/// what this machine lacks.
async fn look_at_script(trial: &Trial, on_fleet: bool) -> Result<Script, Failure> {
    let environment = trial.spec.environment.as_ref();
    let mut made = None;
    let python = match environment {
        Some(Environment::Packages(packages)) => {
            made = find_environment(packages).await.ok().flatten();
            let Some(made) = &made else {
                let reason = "its environment is not made on this machine yet: a start of the job makes it, and so does \
                              prs try";
                return Ok(Script { interpreter: None, imported: Err(reason.to_owned()) });
            };
            Ok(made.python.clone())
        }
        Some(Environment::Interpreter(named)) => find_interpreter(Some(named)),
        None => find_interpreter(None),
    };
    let python = match python {
        Ok(python) => python,
        Err(missing) if on_fleet => {
            let reason = format!("{missing}; each worker looks for it on its own host");
            return Ok(Script { interpreter: None, imported: Err(reason) });
        }
        Err(missing) => return Err(Failure::usage(missing)),
    };
    let interpreter = Some(python.display().to_string());
    let (job, settings) = (trial.context(), trial.node_settings(Python::with(python)?));
    let (side_inputs, absent) = side_inputs(&trial.spec);
    let with = Foreground {
        job: &job,
        settings: &settings,
        code: &trial.code,
        place: None,
        side_inputs: &side_inputs,
        debugger: Debugger::None,
        stdout_is_stderr: true,
        stop: CancellationToken::new(),
    };
    let imported = match import_in_foreground(&with, &how_found(environment)).await {
        Ok(Ok(imported)) => Ok(imported),
        Ok(Err(NotImported { category, explanation })) if on_fleet && LACKS.contains(&&*category) => {
            Err(format!("{explanation}\nworkers may have what this machine lacks"))
        }
        Ok(Err(NotImported { category, explanation }))
            if !absent.is_empty() && !OF_ITS_TEXT.contains(&&*category) =>
        {
            let names = absent.join(", ");
            Err(format!("{explanation}\nside inputs that are not fetched for this check: {names}"))
        }
        Ok(Err(NotImported { explanation, .. })) => return Err(Failure::wrong(explanation)),
        // A model that is on the workers alone, say.
        Err(ForegroundError::Start(reason)) if on_fleet => {
            Err(format!("{reason}\nworkers may have what this machine lacks"))
        }
        Err(error @ ForegroundError::Start(_)) => return Err(Failure::usage(error)),
        Err(error) => return Err(anyhow::Error::from(error).into()),
    };
    // It is not removed as long as this is kept.
    drop(made);
    Ok(Script { interpreter, imported })
}

/// Where the script would see its side inputs, and the names of those that nothing is brought of here.
fn side_inputs(spec: &JobSpec) -> (SidePaths, Vec<String>) {
    let is_absent = |one: &&SideInput| one.is_fetched() || matches!(one.source, InputSource::Output(_));
    let (absent, here): (Vec<_>, Vec<_>) = spec.side_inputs.iter().partition(is_absent);
    let here = here.into_iter().map(|one| (one.name.clone(), one.named())).collect();
    (here, absent.into_iter().map(|one| one.name.clone()).collect())
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
        outcome.map(|_| (mini_batches, items))
    });
    let outcome = counting.await.context("the plan was not made")?;
    outcome.map_err(Failure::usage)
}

/// The same for people; `unplanned` is said in the place of counts that are not known.
fn text(view: &Validated, unplanned: &str) -> String {
    let interpreter = match (&view.interpreter, &view.python) {
        (Some(path), Some(version)) => format!("{path} (Python {version})"),
        (Some(path), None) => path.clone(),
        (None, _) => "not on this machine".to_owned(),
    };
    let script = view.import_seconds.map_or_else(
        || "not checked here".to_owned(),
        |seconds| format!("imported in {}, run() is there", duration(seconds)),
    );
    let number = |count: Option<u64>| count.map_or_else(|| unplanned.to_owned(), |count| count.to_string());
    let pairs = pairs(&[
        ("job", view.name.clone()),
        ("mini-batches", number(view.mini_batches)),
        ("items", number(view.items)),
        ("processes", view.processes.to_string()),
        ("interpreter", interpreter),
        ("script", script),
        ("code", format!("{} packed", HumanBytes(view.code_bytes as u64))),
        ("took", duration(view.seconds)),
    ]);
    pairs + "ok\n"
}
