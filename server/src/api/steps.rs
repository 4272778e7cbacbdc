//! The steps of a pipeline: what each is, what it needs and brings, and how its job stands once it has begun.

use std::collections::HashMap;

use axum::extract::{Path, State};
use axum::response::Response;
use prs_common::dataset::input::InputSource;
use prs_common::job::JobSpec;
use prs_common::job::pipeline::{Step, step_id};
use prs_common::ledger::JobState;
use prs_jobs::homes::{self, Home, Seen};
use serde::Serialize;
use serde_json::Value;

use super::job_object::JobObject;
use crate::app::App;
use crate::auth::MayRead;
use crate::http::page::Page;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// A step of a pipeline.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StepObject {
    /// Its name.
    name: String,
    /// What it runs: `parallel`, a script on mini-batches; `command`; `preparation`, what puts together the rows of the job itself.
    r#type: &'static str,
    /// Id of its job.
    job_id: String,
    /// The state of its job; null where that has not begun.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    state: Option<JobState>,
    /// The steps that have to complete before it, by their names.
    needs: Vec<String>,
    /// What it reads.
    inputs: Vec<StepInput>,
    /// What it brings, beside all that is in the output of its job.
    outputs: Vec<StepOutput>,
    /// Its job as `/jobs/ID` has it; null where that has not begun.
    #[cfg_attr(test, schemars(with = "Option<serde_json::Map<String, Value>>"))]
    job: Option<Value>,
}

/// An input of a step.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepInput {
    /// Its name.
    name: String,
    /// What it is called: paths, or URLs; null where it is what a step brings.
    path: Option<String>,
    /// The step that brings it; null where none does.
    step: Option<String>,
    /// The name that it has there.
    output: Option<String>,
}

impl StepInput {
    fn of(name: &str, source: &InputSource) -> Self {
        let name = name.to_owned();
        match source {
            InputSource::Output(from) => {
                Self { name, path: None, step: Some(from.step.clone()), output: Some(from.output.clone()) }
            }
            source => Self { name, path: Some(source.label()), step: None, output: None },
        }
    }

    /// Of a step, but for the one item of a command.
    fn all(spec: &JobSpec) -> Vec<Self> {
        let data = spec.inputs.iter().map(|input| (&input.name, &input.source));
        let beside = spec.side_inputs.iter().map(|input| (&input.name, &input.source));
        let all = data.chain(beside).filter(|(_, source)| **source != InputSource::OneItem);
        all.map(|(name, source)| Self::of(name, source)).collect()
    }
}

/// An output of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepOutput {
    /// Its name.
    name: String,
    /// Where it is; null where the job of the step has not begun.
    uri: Option<String>,
}

/// What a step runs, in a word.
fn kind_of(spec: &JobSpec) -> &'static str {
    match spec {
        spec if spec.is_command() => "command",
        spec if spec.prepares_groups() || spec.counts_rows() => "preparation",
        _ => "parallel",
    }
}

impl StepObject {
    /// A step of this pipeline, whose job was `seen` where it has begun.
    fn of(pipeline: &str, step: &Step, seen: Option<&(Home, Seen)>) -> Self {
        let place = |below: &str| seen.map(|(home, seen)| home.output(&seen.record).uri(below));
        Self {
            name: step.name.clone(),
            r#type: kind_of(&step.spec),
            job_id: step_id(pipeline, &step.name),
            state: seen.map(|(_, seen)| seen.result.state),
            needs: step.needs.clone(),
            inputs: StepInput::all(&step.spec),
            outputs: step
                .outputs
                .iter()
                .map(|(name, below)| StepOutput { name: name.clone(), uri: place(below) })
                .collect(),
            job: seen.map(|(_, seen)| JobObject::of(seen).whole()),
        }
    }
}

/// `GET /jobs/{job}/steps`.
pub(crate) async fn steps(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let refused = |failure| Problem::of(&failure, Kind::REFUSED);
    let (home, seen) = app.seen(&id).await?;
    let mut value = Vec::new();
    if let Some(plan) = &seen.record.pipeline {
        let mut begun = HashMap::new();
        for step in homes::steps_of(&home.called(), &app.whereabouts).await.map_err(refused)? {
            let seen = step.look().await.map_err(refused)?;
            // On a fleet a step that waits has a record, too.
            if seen.record.parent.as_ref().is_some_and(|parent| parent.start > 0) {
                begun.insert(seen.record.job_id.clone(), (step, seen));
            }
        }
        let pipeline = &seen.record.job_id;
        let steps = plan.pipeline.steps.iter();
        value.extend(
            steps.map(|step| StepObject::of(pipeline, step, begun.get(&step_id(pipeline, &step.name)))),
        );
    }
    Ok(Page::whole(value).answer(&params))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prs_common::dataset::step_output::StepOutput as From;
    use prs_common::job::{COMMAND_SCRIPT, InputMode, SideInput};

    use super::*;

    #[test]
    fn a_step_that_has_not_begun_says_what_it_is() {
        let mut spec = JobSpec::new("sum", "/code", "main.py", vec![]);
        let paths = InputSource::Paths(vec!["/data/a".to_owned(), "/data/b".to_owned()]);
        let from = InputSource::Output(From { step: "prep".to_owned(), output: "rows".to_owned() });
        spec.side_inputs = [("pictures", paths), ("rows", from)]
            .map(|(name, source)| SideInput {
                name: name.to_owned(),
                source,
                mode: InputMode::default(),
                seen: None,
                changed_lately: false,
            })
            .into();
        let step = Step {
            name: "sum".to_owned(),
            spec,
            needs: vec!["prep".to_owned()],
            outputs: BTreeMap::from([("totals".to_owned(), "totals/".to_owned())]),
        };
        let told = serde_json::to_value(StepObject::of("p-1", &step, None)).unwrap();
        let expected = serde_json::json!({
            "name": "sum", "type": "parallel", "job_id": "p-1-sum", "state": null, "needs": ["prep"],
            "inputs": [
                { "name": "pictures", "path": "/data/a, /data/b", "step": null, "output": null },
                { "name": "rows", "path": null, "step": "prep", "output": "rows" }
            ],
            "outputs": [{ "name": "totals", "uri": null }],
            "job": null
        });
        assert_eq!(told, expected);
        let command = JobSpec::new("tidy", "", COMMAND_SCRIPT, vec![]);
        assert_eq!(kind_of(&command), "command");
    }
}
