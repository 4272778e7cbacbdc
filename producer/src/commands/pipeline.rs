//! `validate` of a pipeline.

use std::process::ExitCode;

use prs_common::job::{LoadedPipeline, RunsOn};
use prs_jobs::submit::local::Python;
use prs_jobs::submit::pipeline::code::StepCodes;
use prs_jobs::submit::pipeline::note_all_settings;
use serde::Serialize;

use crate::cli::Format;
use crate::failure::{Code, Failure};
use crate::progress::Screen;
use crate::terminal::output;
use crate::terminal::table::Table;

/// What `validate -o json` prints of a pipeline.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ValidatedPipeline {
    /// Always true: what is wrong with a job file is a failure.
    ok: bool,
    /// The name in the job file.
    name: String,
    /// Its steps, in the order of the file.
    steps: Vec<ValidatedStep>,
}

/// A step of a pipeline.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ValidatedStep {
    /// Its name.
    name: String,
    /// `parallel` or `command`, or `shuffle` for a step that prs puts in front of one with keys in its data, `count` for one in
    /// front of a step whose rows are counted behind a filter.
    r#type: &'static str,
    /// The steps whose outputs it needs.
    needs: Vec<String>,
    /// What it brings.
    outputs: Vec<String>,
}

/// Checks the steps of a pipeline, and shows which needs which.
pub(super) async fn validate(
    loaded: LoadedPipeline,
    runs_on: RunsOn,
    format: Format,
) -> Result<ExitCode, Failure> {
    let LoadedPipeline { spec, pipeline } = loaded;
    StepCodes::pack(&pipeline, runs_on, false, &Screen).await?;
    note_all_settings(&spec, &pipeline, &Screen);
    for step in &pipeline.steps {
        if runs_on == RunsOn::ThisMachine {
            Python::find(&step.spec)?;
        }
    }
    let steps = pipeline.steps.into_iter().map(|step| ValidatedStep {
        r#type: match step.spec.is_command() {
            true => "command",
            false if step.spec.prepares_groups() => "shuffle",
            false if step.spec.counts_rows() => "count",
            false => "parallel",
        },
        outputs: step.outputs.into_keys().collect(),
        name: step.name,
        needs: step.needs,
    });
    let view = ValidatedPipeline { ok: true, name: spec.name, steps: steps.collect() };
    output::print(format, &view, graph)?;
    Ok(Code::Completed.into())
}

/// The steps, and what each needs, as text.
fn graph(view: &ValidatedPipeline) -> String {
    let list = |names: &[String]| if names.is_empty() { "-".to_owned() } else { names.join(", ") };
    let rows = view
        .steps
        .iter()
        .map(|step| vec![step.name.clone(), step.r#type.to_owned(), list(&step.needs), list(&step.outputs)]);
    let table = Table::new(&["STEP", "TYPE", "NEEDS", "BRINGS"], rows.collect());
    format!("{}\n{}ok\n", view.name, table.text())
}
