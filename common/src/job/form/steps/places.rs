//! `path` of an output of a step, of its component, or of the pipeline: a place of its own, where the output is put when the step
//! has completed (dialects A.4). What a step says counts before what its component says.
//!
//! The step itself knows nothing of it: its output is below that of its job as without a place, and steps that need it read it
//! there. Whether there is room is looked at when the pipeline is submitted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::super::super::error::Problem;
use super::super::super::names::Names;
use super::super::super::own_id::JOB_ID;
use super::super::super::yaml::{Key, Node, Value};
use super::super::RawSetting;
use super::super::append_row::normal;
use super::super::component::Component;
use super::super::expressions::{parts, substitute};
use super::references::text_of;
use super::{FlatPipeline, FlatStep, Flattening, Scope};
use crate::dataset::remote;
use crate::dataset::step_output::StepOutput;
use crate::job::pipeline::{EXPECTED, OutputPlace, PipelineOutput, in_bucket, met, refused};

/// A place that is not yet judged.
#[derive(Debug)]
pub(super) struct RawPlace {
    pub(super) of: Of,
    /// Its text, with the values of its expressions.
    text: String,
    /// The name that the output has where the place is given.
    name: String,
    at: RawSetting,
    /// The file that relative paths start from.
    file: PathBuf,
}

/// What a place is given to.
#[derive(Debug)]
pub(super) enum Of {
    Step(StepOutput),
    /// An output of the pipeline, by its name.
    Pipeline(String),
}

/// Whether this path is in a datastore of Azure that nothing here stands for.
pub(in super::super) fn is_unknown_datastore(path: &Node) -> bool {
    path.as_text().is_some_and(|path| path.trim_start().starts_with("azureml://"))
}

/// Takes the place out of `given`, the mapping of an output, which `setting` gives; an unknown datastore stays there.
pub(super) fn take_place(given: &mut Node, setting: &RawSetting, names: &Names) -> Option<RawSetting> {
    let Value::Mapping(entries) = &mut given.value else { return None };
    let at = entries.iter().position(|(key, value)| key.name == "path" && !value.is_null())?;
    let known = entries[at].1.as_text().and_then(|path| names.place_of_output(path));
    if known.is_none() && is_unknown_datastore(&entries[at].1) {
        return None;
    }
    let (key, mut value) = entries.remove(at);
    if let Some(known) = known {
        value = Node::text(known, value.line);
    }
    let shown = format!("{}.path", setting.shown);
    Some(RawSetting { key: key.name, shown, line: value.line.or(Some(key.line)), value })
}

/// The outputs that a component declares, under their names.
pub(super) fn declared(component: Option<&Component>) -> &[(Key, Node)] {
    match component.and_then(|component| component.node.get("outputs")) {
        Some(Node { value: Value::Mapping(entries), .. }) => entries,
        _ => &[],
    }
}

impl Flattening<'_> {
    /// Notes the places of outputs of the pipeline itself, those that its component declares where it says nothing of them.
    pub(super) fn places_of_pipeline(
        &mut self,
        scope: &Scope,
        outputs: &[RawSetting],
        component: Option<&Component>,
    ) {
        for output in outputs {
            if let Some(path) = take_place(&mut output.value.clone(), output, self.files.names()) {
                self.place(scope, Of::Pipeline(output.key.clone()), &output.key, &path);
            }
        }
        let Some(component) = component else { return };
        for (key, node) in declared(Some(component)) {
            let given = outputs.iter().find(|output| output.key == key.name);
            if given.is_some_and(|given| given.value.get("path").is_some()) {
                continue;
            }
            if let Some(path) = self.declared_place(component, "component", key, node) {
                self.place(scope, Of::Pipeline(key.name.clone()), &key.name, &path);
            }
        }
    }

    /// The place that `component`, which stands at `shown`, declares for one of its outputs. A relative path starts from its
    /// file, and so it is none where the component is registered.
    pub(super) fn declared_place(
        &mut self,
        component: &Component,
        shown: &str,
        key: &Key,
        node: &Node,
    ) -> Option<RawSetting> {
        let shown = format!("{shown}.outputs.{}", key.name);
        let setting = RawSetting { key: key.name.clone(), shown, line: Some(key.line), value: node.clone() };
        let mut place = take_place(&mut node.clone(), &setting, self.files.names())?;
        let Some(text) = place.value.as_text().map(|text| text.trim().to_owned()) else { return Some(place) };
        let is_elsewhere = text.is_empty() || text.contains("://") || text.starts_with("azureml:");
        if !is_elsewhere && !text.starts_with("${{") {
            let folder = component.file.parent().unwrap_or(Path::new("/"));
            let path = folder.join(&text);
            if path.starts_with(folder) && self.files.names().component_in(&component.file).is_some() {
                let message = format!(
                    "{} is registered, so a path that starts from its file is nowhere: give the output a path where the component \
                     is used, or leave it out",
                    component.label
                );
                self.refuse(&place.shown, place.line, message);
                return None;
            }
            place.value = Node::text(path.to_string_lossy(), place.value.line);
        }
        Some(place)
    }

    /// Notes the place of one output, which is called `name` where `path` gives its place.
    pub(super) fn place(&mut self, scope: &Scope, of: Of, name: &str, path: &RawSetting) {
        let Some(given) = path.value.as_text().filter(|text| !text.trim().is_empty()) else {
            let message = format!("{} where a path is expected: {EXPECTED}", path.value.describe());
            return self.refuse(&path.shown, path.line, message);
        };
        let text = substitute(given, |inside| match (parts(inside).as_slice(), &of) {
            (["output_name"], _) => Ok(name.to_owned()),
            (["default_datastore"], _) => Ok("workspaceblobstore".to_owned()),
            (["name"], _) => Ok(JOB_ID.to_owned()),
            // The path of an output of the pipeline names its inputs as its own.
            (["inputs", input], Of::Pipeline(_)) => text_of(scope, &format!("parent.inputs.{input}")),
            _ => text_of(scope, inside),
        });
        match text {
            Ok(text) => {
                let (file, name) = (scope.file.clone(), name.to_owned());
                self.done.places.push(RawPlace { of, text, name, at: path.clone(), file });
            }
            Err(message) => self.refuse(&path.shown, path.line, message),
        }
    }
}

impl FlatPipeline {
    /// The places of outputs; what is wrong with them goes to `problems`, what of them has no effect to `notes`.
    pub(in super::super) fn places(
        &self,
        file: &Path,
        notes: &mut Vec<Problem>,
        problems: &mut Vec<Problem>,
    ) -> Vec<OutputPlace> {
        let mut places: Vec<OutputPlace> = Vec::new();
        let mut given = Vec::new();
        let outputs: HashMap<&str, &PipelineOutput> =
            self.outputs.iter().rev().map(|output| (&*output.name, output)).collect();
        let steps: HashMap<&str, &FlatStep> =
            self.steps.iter().rev().map(|step| (&*step.name, step)).collect();
        let problem_at =
            |at: &RawSetting, message: String| Problem { key: at.shown.clone(), line: at.line, message };
        for raw in &self.places {
            let problem = |message: String| problem_at(&raw.at, message);
            let (step, output) = match &raw.of {
                Of::Step(of) => (&of.step, &of.output),
                Of::Pipeline(name) => {
                    let Some(output) = outputs.get(&**name) else {
                        notes.push(problem("no step writes this output; ignored".to_owned()));
                        continue;
                    };
                    (&output.step, &output.output)
                }
            };
            let is_file = steps.get(&**step).is_some_and(|step| is_file(step, output));
            let to =
                match located(raw, is_file, if raw.file.as_os_str().is_empty() { file } else { &raw.file }) {
                    Ok(to) => to,
                    Err(message) => {
                        problems.push(problem(message));
                        continue;
                    }
                };
            places.push(OutputPlace { step: step.clone(), output: output.clone(), is_file, to });
            given.push(&raw.at);
        }
        for (at, other) in met(&places.iter().map(|place| Path::new(&place.to)).collect::<Vec<_>>()) {
            let (place, other) = (&places[at], &places[other]);
            let message = format!(
                "{} is, or is in, the place of the output {} of step {}: give each a place of its own",
                place.to, other.output, other.step
            );
            problems.push(problem_at(given[at], message));
        }
        places
    }
}

/// Whether an output of a step is a file.
fn is_file(step: &FlatStep, output: &str) -> bool {
    let kind = step.node.get("outputs").and_then(|outputs| outputs.get(output)?.get("type")?.as_text());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("uri_file"))
}

/// Where a place is.
fn located(raw: &RawPlace, is_file: bool, file: &Path) -> Result<String, String> {
    let text = raw.text.trim();
    let text = if is_file && text.ends_with('/') { format!("{text}{}", raw.name) } else { text.to_owned() };
    if remote::is_in_bucket(&text) {
        let place = in_bucket(&text)?;
        if place.matches('/').count() == 2 {
            return Err("this is a whole bucket: give a folder or a file in it".to_owned());
        }
        return Ok(place);
    }
    if text.contains("://") || text.starts_with("azureml:") {
        return Err(refused(&text));
    }
    let path = normal(&file.with_file_name(&text));
    match path.to_str() {
        Some(path) if path != "/" => Ok(path.to_owned()),
        _ => Err(format!("{} is no place for an output: {EXPECTED}", path.display())),
    }
}
