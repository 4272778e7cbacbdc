//! `try`: one mini-batch in this terminal.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use indicatif::HumanBytes;
use prs_common::job::script_below;
use prs_common::mini_batch::MiniBatch;
use prs_jobs::Interrupts;
use prs_jobs::paths::shown;
use prs_jobs::submit::local::Python;
use prs_jobs::submit::resume_hint::ResumeHint;
use prs_worker::foreground::{Debugger, Foreground, ForegroundError, Tried, run_in_foreground};
use prs_worker::inputs::side::{SideInputStore, SideInputs, SidePaths, SideProgress, SideWork};
use prs_worker::inputs::{InputPlace, Localized, Localizer};
use prs_worker::metrics::Metrics;
use prs_worker::{MadeEnvironment, NodeSettings};
use tokio_util::sync::CancellationToken;

use crate::cli::{CodeChoice, Format, Try};
use crate::failure::{Code, Failure};
use crate::progress::Screen;
use crate::terminal::output;
use crate::terminal::signals::Signals;
use crate::trial::{Chosen, Found, Shown, TestData, Trial, Wanted, describe, test_file};

/// Runs one mini-batch here, and shows what would be written.
pub(super) async fn try_one(arguments: &Try, format: Format) -> Result<ExitCode, Failure> {
    let mut signals = Signals::catch();
    let hint = ResumeHint::default();
    let found = Box::pin(hint.unless_interrupted(&mut signals, Trial::find(arguments))).await?;
    let trial = match found {
        Found::Ready(trial) => *trial,
        Found::Ungrouped(ungrouped) => Box::pin(ungrouped.group(&mut signals)).await?,
    };
    let prepared = Box::pin(hint.unless_interrupted(&mut signals, prepare(trial, arguments))).await?;
    let Prepared { trial, settings, inputs, data, title, row, _made, side_inputs: (side_inputs, side_paths) } =
        prepared;
    let mini_batch = MiniBatch::decode(&data.planned).context("the mini-batch cannot be understood")?;
    let job = trial.context();
    let with = Foreground {
        job: &job,
        settings: &settings,
        code: &trial.code,
        place: Some(inputs.place()),
        side_inputs: &side_paths,
        debugger: debugger(arguments),
        // What is printed for programs is one object.
        stdout_is_stderr: format == Format::Json,
        stop: CancellationToken::new(),
    };
    if arguments.pytest {
        if let Some(copy) = side_inputs.copies().next() {
            return Err(Failure::wrong(format!(
                "a test has no side inputs from elsewhere, and {copy} is one: bring it to this machine, and name the copy \
                 in the job file"
            )));
        }
        let local = MiniBatch::decode(&data.local).context("the mini-batch cannot be understood")?;
        let title = match arguments.code {
            Some(CodeChoice::Old) => format!(
                "{title}\n\nRuns the code of job {}, unpacked in {}.\nWhere that is gone, the same command unpacks it again.",
                trial.job_id,
                trial.code.display()
            ),
            _ => title,
        };
        let is_fetched = !MiniBatch::is_local(&data.planned);
        let place = TestData::wanted(arguments.data.as_deref())?;
        let arguments = with.arguments();
        output::text(&test_file(&trial, &title, place, &mini_batch, &local, is_fetched, &arguments)?)?;
        return Ok(Code::Completed.into());
    }
    let python = settings.python.display();
    let script = script_below(&trial.code, &trial.spec.entry_script).unwrap_or_else(|| trial.code.clone());
    output::note(format_args!("  script {}, interpreter {python}", shown(&script)));
    let tried = run(&with, &data.local, &mut signals).await?;
    let came = Shown::new(&trial, &mini_batch, row, tried);
    output::print(format, &came, |came| came.text(with.debugger))?;
    came.end().map(Into::into)
}

/// A mini-batch that can be run.
struct Prepared {
    trial: Trial,
    settings: NodeSettings,
    /// Where the script sees it.
    inputs: Localizer,
    /// Its data, on this machine.
    data: Localized,
    /// Which it is.
    title: String,
    /// The environment of the script, where one was made for it.
    _made: Option<MadeEnvironment>,
    /// The place in it of the row that the command line names.
    row: Option<u64>,
    /// The side inputs, kept as long as this is, and where the script sees them.
    side_inputs: (SideInputs, SidePaths),
}

/// Finds the mini-batch, says which it is, and brings its data here.
async fn prepare(trial: Trial, arguments: &Try) -> Result<Prepared, Failure> {
    let (python, made) = Python::make(&trial.spec, &Screen).await?;
    let Chosen { planned, row, stores, failed, note } =
        trial.choose(&Wanted::of(arguments), arguments.failed).await?;
    let folder = trial.folder("inputs");
    // The data of a test stands in it: no script sees it under this path.
    let place = |tree: &Path| {
        if arguments.pytest {
            InputPlace::own(tree)
        } else {
            InputPlace::of(&trial.spec, tree, &trial.folder("node"))
        }
    };
    let inputs = Localizer::new(
        stores,
        trial.spec.clone(),
        &folder,
        NodeSettings::CACHE_BYTES,
        0,
        place,
        Metrics::default(),
    );
    let inputs = inputs.with_context(|| format!("cannot make {}", folder.display()))?;
    let data = inputs.localize(&planned).await.context("cannot fetch the data").map_err(Failure::server)?;
    let side_inputs = side_inputs(&trial, &inputs).await?;
    let mini_batch = MiniBatch::decode(&data.planned).context("the mini-batch cannot be understood")?;
    let mut title = describe(&mini_batch);
    if let (Some(row), Some(item)) = (row, &arguments.item) {
        let _ = write!(title, "\n  {item} is row {row} of these: mini_batch.iloc[{row}]");
    }
    output::note(&title);
    if let Some(failed) = failed.filter(|failed| !failed.category.is_empty()) {
        output::note(format_args!("  in the job it failed: {}: {}", failed.category, failed.message.trim()));
    }
    if let Some(note) = note {
        output::note(format_args!("  note: {note}"));
    }
    if let Some(reason) = inputs.place().refused() {
        let place = inputs.place().inputs().display();
        output::note(format_args!(
            "  note: the script sees inputs below {place}, not where it does in a job: {reason}"
        ));
    }
    let settings = trial.node_settings(python);
    Ok(Prepared { trial, settings, inputs, data, title, row, _made: made, side_inputs })
}

/// Brings the side inputs here.
async fn side_inputs(trial: &Trial, inputs: &Localizer) -> Result<(SideInputs, SidePaths), Failure> {
    let store = Arc::new(SideInputStore::of_job(trial.folder("side"), NodeSettings::CACHE_BYTES));
    let told = |SideProgress { label, done, total, work, .. }: SideProgress| {
        if work == SideWork::Comes && done == 0 && total > 0 {
            output::note(format_args!("  {label}: {} are fetched", HumanBytes(total)));
        }
    };
    let brought = SideInputs::bring(&trial.spec, &trial.job_id, &trial.stores, &store, &told).await;
    let brought = brought.map_err(Failure::usage)?;
    let paths = brought.show(inputs).context("cannot make a link to a side input")?;
    Ok((brought, paths))
}

fn debugger(arguments: &Try) -> Debugger {
    match arguments.listen {
        Some(port) => Debugger::Listen(port),
        None if arguments.pdb => Debugger::PostMortem,
        None => Debugger::None,
    }
}

/// Runs it to its end. Ctrl-C on a terminal is the script's, which gets it as this program does.
async fn run(with: &Foreground<'_>, local: &[u8], signals: &mut Signals) -> Result<Tried, Failure> {
    let mut running = Box::pin(run_in_foreground(with, local));
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            one = signals.next() => if !one.may_be_a_slip {
                with.stop.cancel();
            },
        }
    };
    ended.map_err(|error| match error {
        ForegroundError::Stopped => {
            Failure::interrupted(format_args!("stopped ({})", signals.seen().unwrap_or("SIGTERM")))
        }
        ForegroundError::Debugger(_) => Failure::usage(error),
        ForegroundError::Prepare { .. } | ForegroundError::Start(_) => anyhow::Error::from(error).into(),
    })
}
