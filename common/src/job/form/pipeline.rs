//! An Azure Machine Learning v2 pipeline, `type: pipeline`.
//!
//! One of a single parallel step runs as that job. Any other becomes the settings of its steps, each lifted as a job that
//! stands alone, and what is known of them as a whole.

use std::collections::HashMap;
use std::path::Path;

use super::super::error::Problem;
use super::super::names::Names;
use super::super::reader::Reader;
use super::super::yaml::{Node, Value};
use super::common_keys::with_common;
use super::component::{self, Kind};
use super::derived_name::derived_name;
use super::expressions::{parts, whole};
use super::parallel::{self, Around, NO_MEANING};
use super::source_files::SourceFiles;
use super::steps::{self, FlatStep, flatten};
use super::{Lifted, RawSetting, RawSettings, bindings, command};
use crate::job::pipeline::{OutputPlace, PipelineOutput, circle};

/// Keys that other forms do not have, or not all of them.
const OWN_KEYS: [&str; 4] = ["component", "settings", "jobs", "schedule"];
const SETTINGS: [&str; 4] =
    ["default_compute", "default_datastore", "continue_on_step_failure", "force_rerun"];

/// A pipeline whose steps are not yet judged.
#[derive(Debug)]
pub(crate) struct RawPipeline {
    /// What the pipeline is called, and its notes.
    pub(crate) names: RawSettings,
    pub(crate) steps: Vec<RawStep>,
    pub(crate) outputs: Vec<PipelineOutput>,
    pub(crate) places: Vec<OutputPlace>,
    pub(crate) continue_on_step_failure: bool,
}

/// A step whose settings are not yet judged.
#[derive(Debug)]
pub(crate) struct RawStep {
    pub(crate) name: String,
    pub(crate) raw: RawSettings,
    pub(crate) needs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) appended: Option<Appended>,
}

/// The output that the rows of a step go to.
#[derive(Debug)]
pub(crate) struct Appended {
    /// Its name.
    pub(crate) output: String,
    /// Whether it is their file, and not the folder that has it.
    pub(crate) is_file: bool,
}

/// The keys of the pipeline.
pub(super) fn keys() -> Vec<&'static str> {
    with_common(&OWN_KEYS)
}

/// Lifts the one step, or all of them; nothing where they cannot be told apart.
pub(super) fn lift(
    document: &Node,
    file: &Path,
    files: &mut SourceFiles,
    problems: &mut Vec<Problem>,
) -> Option<Lifted> {
    let mut raw = RawSettings { names: files.names().clone(), ..RawSettings::default() };
    let mut fields = Reader::of_mapping("", document, problems);
    fields.refuse_unknown(&keys(), "a pipeline");
    if let Some(setting) = fields.get("schedule") {
        fields.refuse(&setting, "not supported: remove it, and have cron or a timer submit the file");
    }
    for key in ["identity", "services"] {
        if let Some(setting) = fields.get(key) {
            fields.note(&setting, NO_MEANING);
        }
    }
    parallel::names(&mut fields, file, &mut raw);
    let mut compute = fields.get("compute");
    let (mut goes_on, mut force_rerun) = (true, None);
    for setting in fields.nested("settings", &SETTINGS) {
        let mut is_true = || {
            let value = component::is_true(&setting.value);
            value.map_err(|message| fields.refuse(&setting, message)).unwrap_or_default()
        };
        match &*setting.key {
            "default_compute" => compute = Some(setting),
            "continue_on_step_failure" => goes_on = is_true(),
            "force_rerun" => force_rerun = Some(setting),
            _ => {}
        }
    }
    if let Some(step) = single(&fields) {
        let inputs = bindings::inputs(&mut fields, None);
        let outputs = bindings::outputs(&mut fields, &[]);
        let around = Around { inputs: Some(inputs), outputs, compute, force_rerun, ..Around::default() };
        raw.notes.extend(fields.into_notes());
        let fields = Reader::of_mapping(&step.shown, &step.value, problems);
        parallel::job(fields, &step.shown, file, &around, &mut raw);
        return Some(Lifted::Job(raw));
    }
    for setting in bindings::entries(&mut fields, "outputs") {
        judge_output(&mut fields, &setting, files.names());
    }
    raw.notes.extend(fields.into_notes());
    let before = problems.len();
    let mut flat = flatten(document, file, files, problems);
    // What a step gives for data of its component is a path only now.
    flat.steps.iter_mut().for_each(|step| files.names().resolve(&mut step.node));
    if problems.len() == before
        && let Some(steps) = circle_of(&flat.steps)
    {
        let names: Vec<&str> = steps.iter().map(|at| &*flat.steps[*at].name).collect();
        let message =
            format!("the steps need each other: {}; one of them must do without", names.join(" needs "));
        let first = steps.first().map(|at| &flat.steps[*at]);
        problems.push(Problem { key: "jobs".to_owned(), line: first.and_then(|step| step.line), message });
    }
    let places = flat.places(file, &mut raw.notes, problems);
    let is_one = matches!(&flat.steps[..], [FlatStep { kind: Kind::Parallel, .. }]) && places.is_empty();
    if is_one && problems.len() == before {
        let [step] = <[FlatStep; 1]>::try_from(flat.steps).ok()?;
        let around = Around { compute, force_rerun, absent: step.absent, ..Around::default() };
        let fields = Reader::of_mapping(&step.shown, &step.node, problems);
        parallel::job(fields, &step.shown, file, &around, &mut raw);
        return Some(Lifted::Job(raw));
    }
    let mut lifted = Vec::new();
    for step in flat.steps {
        let names = files.names().clone();
        let mut own = RawSettings { is_step: true, names, ..RawSettings::default() };
        let name = RawSetting {
            key: "name".to_owned(),
            shown: step.shown.clone(),
            line: step.line,
            value: Node::text(derived_name(&step.name), step.line),
        };
        own.add(name, problems);
        let (compute, force_rerun) = (compute.clone(), force_rerun.clone());
        let around = Around { compute, force_rerun, absent: step.absent, ..Around::default() };
        let mut fields = Reader::of_mapping(&step.shown, &step.node, problems);
        if let Some(shown) = fields.get("display_name") {
            own.add(shown, fields.problems());
        }
        match step.kind {
            Kind::Command => command::job(fields, &step.shown, file, &around, &mut own),
            _ => parallel::job(fields, &step.shown, file, &around, &mut own),
        }
        let FlatStep { name, needs, outputs, node, .. } = step;
        lifted.push(RawStep { name, raw: own, needs, outputs, appended: appended(&node) });
    }
    Some(Lifted::Pipeline(RawPipeline {
        names: raw,
        steps: lifted,
        outputs: flat.outputs,
        places,
        continue_on_step_failure: goes_on,
    }))
}

/// The one step of a pipeline that has a parallel job with its keys in place, and nothing else.
fn single(fields: &Reader<'_>) -> Option<RawSetting> {
    if fields.has("component") {
        return None;
    }
    let jobs = fields.get("jobs")?;
    let Value::Mapping(entries) = &jobs.value.value else { return None };
    let [(key, value)] = &entries[..] else { return None };
    let is_single = component::kind(value) == Ok(Kind::Parallel)
        && ["component", "depends_on"].iter().all(|key| value.get(key).is_none());
    is_single.then(|| RawSetting {
        key: key.name.clone(),
        shown: format!("jobs.{}", key.name),
        line: Some(key.line),
        value: value.clone(),
    })
}

/// Judges what is said of an output of the pipeline itself.
fn judge_output(fields: &mut Reader<'_>, setting: &RawSetting, names: &Names) {
    match &setting.value.value {
        Value::Null => {}
        Value::Mapping(_) => {
            let mut given = Reader::of_mapping(&setting.shown, &setting.value, fields.problems());
            given.refuse_unknown(&bindings::OUTPUT_KEYS, "an output");
            for key in ["name", "version"] {
                if let Some(setting) = given.get(key) {
                    given.refuse(&setting, "registering an output as data is not supported yet: remove it");
                }
            }
            let Some(path) = given.get("path") else { return };
            let is_known = path.value.as_text().is_some_and(|path| names.place_of_output(path).is_some());
            if !is_known && steps::is_unknown_datastore(&path.value) {
                fields.note(&path, "the datastore is not known here; the output is in that of the pipeline");
            }
        }
        _ => {
            let given = setting.value.describe();
            fields.refuse(setting, format!("{given} is not an output: give a mapping with type"));
        }
    }
}

/// The output that the rows of the job in `node` go to.
fn appended(node: &Node) -> Option<Appended> {
    let inside = whole(node.get("task")?.get("append_row_to")?.as_text()?)?;
    let (["outputs", name] | ["outputs", name, "path"]) = parts(inside)[..] else { return None };
    let kind = node.get("outputs").and_then(|outputs| outputs.get(name)?.get("type")?.as_text());
    let is_file = kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("uri_file"));
    Some(Appended { output: name.to_owned(), is_file })
}

/// The positions of steps that need each other.
fn circle_of(steps: &[FlatStep]) -> Option<Vec<usize>> {
    let places: HashMap<&str, usize> =
        steps.iter().enumerate().rev().map(|(at, step)| (&*step.name, at)).collect();
    let at = |name: &String| places.get(&**name).copied();
    let needs: Vec<Vec<usize>> =
        steps.iter().map(|step| step.needs.iter().filter_map(at).collect()).collect();
    circle(&needs)
}
