//! An Azure Machine Learning batch deployment: a model, its scoring script, and how both are run (dialects C.2).
//!
//! The file says nothing of data: those, and what is another for one run, come from the command line (`run`). So it runs
//! once, without an endpoint, and nothing is registered. Its defaults differ from the native ones: one process, ten files,
//! 30 s, three retries, `predictions.csv`. Of `type: model` the settings stand below `settings`, of the older form beside
//! the rest; both are read, and may not contradict each other.
//!
//! | file | duty |
//! |---|---|
//! | `run` | the data and the settings of one run |
//! | `model` | the model, and what is run for it |
//! | `pipeline` | `type: pipeline`, whose component is a pipeline |

mod model;
mod pipeline;
mod run;

use std::path::Path;

use super::super::error::Problem;
use super::super::invocation::Invocation;
use super::super::partition_keys::has_keys;
use super::super::reader::Reader;
use super::super::yaml::{Key, Node, Value};
use super::common_keys::RESOURCES;
use super::derived_name::derived_name;
use super::expressions::{Scope, Uses};
use super::parallel::{self, KEYS_WIN, Lift, NO_MEANING, RETRIES};
use super::{BuiltIn, RawSetting, RawSettings, document};
use crate::registry::check_deployment_name;
pub(in super::super) use pipeline::KEYS as PIPELINE_KEYS;
pub(super) use pipeline::{job_of, lift as lift_pipeline};
use run::Run;

/// Keys that stand nowhere but at the top of the file.
const OWN: [&str; 16] = [
    "$schema",
    "type",
    "name",
    "endpoint_name",
    "description",
    "tags",
    "properties",
    "model",
    "code_configuration",
    "environment",
    "compute",
    "resources",
    "settings",
    "job_definition",
    "identity",
    "services",
];
/// Keys that `type: model` has below `settings`, and older files beside the others.
pub(in super::super) const SETTINGS: [&str; 11] = [
    "instance_count",
    "max_concurrency_per_instance",
    "mini_batch_size",
    "retry_settings",
    "error_threshold",
    "mini_batch_error_threshold",
    "partition_keys",
    "output_action",
    "output_file_name",
    "logging_level",
    "environment_variables",
];
/// The key of the variables, of which `--set` may name one.
const VARIABLES: &str = "environment_variables";
/// Keys that go under a native key as they are.
const AS_THEY_ARE: [(&str, &str); 6] = [
    ("max_concurrency_per_instance", "process_count_per_node"),
    ("mini_batch_size", "mini_batch_size"),
    ("partition_keys", "partition_keys"),
    ("mini_batch_error_threshold", "allowed_failed_count"),
    ("error_threshold", "error_threshold"),
    ("logging_level", "logging_level"),
];
/// What holds without a key: the native keys, and their values.
const DEFAULTS: [(&str, &str); 4] = [
    ("process_count_per_node", "1"),
    ("mini_batch_size", "10"),
    ("run_max_try", "4"),
    ("run_invocation_timeout", "30"),
];
/// The file of the rows.
const PREDICTIONS: &str = "predictions.csv";
/// Lifts the deployment of a model, for one run.
pub(super) fn lift(
    document: &mut Node,
    file: &Path,
    overrides: &mut Vec<(String, String)>,
    invocation: &Invocation,
    raw: &mut RawSettings,
    problems: &mut Vec<Problem>,
) {
    let mut run = Run::take(overrides, invocation, problems);
    let keys = [&OWN[..], &SETTINGS].concat();
    set_variables_where_they_are(document, overrides);
    document::apply(document, &keys, overrides, problems);
    raw.names.resolve(document);
    run.resolve(&raw.names);
    let mut fields = Reader::of_mapping("", document, problems);
    fields.refuse_unknown(&keys, "a batch deployment");
    for key in ["identity", "services"] {
        if let Some(setting) = fields.get(key) {
            fields.note(&setting, NO_MEANING);
        }
    }
    if let Some(setting) = fields.get("job_definition") {
        fields.refuse(&setting, "it is for type: pipeline, and this is the deployment of a model: remove it");
    }
    check_names(&mut fields);
    bring_together(&mut fields);
    parallel::names(&mut fields, file, raw);
    raw.told.extend(["inputs", "entry_script"]);
    run.data(&mut fields, file, raw);
    let is_anew = RawSetting {
        key: "allow_reuse".to_owned(),
        shown: "allow_reuse".to_owned(),
        line: None,
        value: Node::text("false", None),
    };
    // Each call of a deployment runs it.
    raw.add(is_anew, fields.problems());

    let uses = Uses::default();
    let scope = Scope { inputs: &[], parent: None, input_data: Some(""), outputs: &[], uses: None };
    let mut lift = Lift::new(fields, scope, &uses, raw);
    let keys_count = lift.fields.get("partition_keys").is_some_and(|keys| has_keys(&keys.value));
    for (key, native) in AS_THEY_ARE {
        let Some(setting) = lift.fields.get(key).filter(|_| !run.has(native)) else { continue };
        if keys_count && key == "mini_batch_size" {
            lift.fields.note(&setting, KEYS_WIN);
        } else {
            lift.give(&setting, native);
        }
    }
    lift.nodes(&run);
    for setting in run.retries(lift.fields.nested("retry_settings", &RETRIES)) {
        lift.retries(&setting);
    }
    lift.variables();
    if let Some(compute) = lift.fields.get("compute") {
        lift.compute(&compute);
    }
    lift.scorer(file);
    lift.rows(&run);
    for setting in run.settings {
        lift.raw.settings.retain(|present| present.key != setting.key);
        lift.raw.add(setting, lift.fields.problems());
    }
    for (native, value) in DEFAULTS {
        if lift.raw.get(native).is_none() && !(keys_count && native == "mini_batch_size") {
            lift.add(native, native, None, Node::text(value, None));
        }
    }
    let notes = lift.fields.into_notes();
    raw.notes.extend(notes);
}

/// Has `--set environment_variables.NAME` change those below `settings`, where the file has them there: in a mapping of its
/// own the variable would stand against all of them.
fn set_variables_where_they_are(document: &Node, overrides: &mut [(String, String)]) {
    let has = |node: Option<&Node>| node.is_some_and(|node| node.get(VARIABLES).is_some());
    if has(Some(document)) || !has(document.get("settings")) {
        return;
    }
    for (key, _) in overrides {
        if key.strip_prefix(VARIABLES).is_some_and(|rest| rest.starts_with('.')) {
            key.insert_str(0, "settings.");
        }
    }
}

/// Judges the names of the deployment and of its endpoint.
fn check_names(fields: &mut Reader<'_>) {
    for (key, what) in [("name", "a deployment"), ("endpoint_name", "an endpoint")] {
        let Some(setting) = fields.get(key) else { continue };
        let given = setting.value.as_text();
        // One that no job could have is refused as such.
        let is_told = key == "name" && !given.is_some_and(parallel::is_name);
        let message = match given {
            Some(given) => check_deployment_name(what, given).err(),
            None => Some(format!("{} is not the name of {what}: give a text", setting.value.describe())),
        };
        if let Some(message) = message.filter(|_| !is_told) {
            fields.refuse(&setting, message);
        }
    }
}

/// Puts what stands below `settings` beside the rest; what stands in both places is to be the same, but that `--set` wins
/// over the file.
fn bring_together(fields: &mut Reader<'_>) {
    let is_set = |setting: &RawSetting| setting.shown.starts_with("--set ");
    for setting in fields.nested("settings", &SETTINGS) {
        match fields.get(&setting.key) {
            None => fields.add(setting),
            Some(beside) if is_same(&beside.value, &setting.value) => {}
            Some(beside) if is_set(&beside) && !is_set(&setting) => {}
            Some(beside) if is_set(&setting) && !is_set(&beside) => fields.replace(setting),
            Some(beside) => {
                let message = format!("it is also given as `{}`, and differs: keep one", beside.shown);
                fields.refuse(&setting, message);
            }
        }
    }
}

/// Whether both say the same, wherever they stand.
fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (Value::Scalar { text, .. }, Value::Scalar { text: other, .. }) => text == other,
        (Value::Sequence(items), Value::Sequence(others)) => {
            items.len() == others.len() && items.iter().zip(others).all(|(one, other)| is_same(one, other))
        }
        (Value::Mapping(entries), Value::Mapping(others)) => {
            let has =
                |(key, value): &(Key, Node)| other.get(&key.name).is_some_and(|other| is_same(value, other));
            entries.len() == others.len() && entries.iter().all(has)
        }
        (one, other) => one == other,
    }
}

impl Lift<'_, '_> {
    /// Takes how many nodes there are.
    fn nodes(&mut self, run: &Run) {
        let is_another = run.has("node_count");
        let resources = self.fields.get("resources");
        for setting in self.fields.nested("resources", &RESOURCES) {
            if setting.key != "instance_count" {
                self.fields.note(&setting, NO_MEANING);
            } else if !is_another {
                self.give(&setting, "node_count");
            }
        }
        let Some(setting) = self.fields.get("instance_count") else { return };
        if resources.is_some() {
            self.fields.refuse(&setting, "Can't set instance_count when resources is provided: keep one");
        } else if !is_another {
            self.give(&setting, "node_count");
        }
    }

    /// Takes what becomes of the rows.
    fn rows(&mut self, run: &Run) {
        let action = self.fields.get("output_action");
        let mut is_summary = false;
        if let Some(setting) = action {
            let word = setting.value.as_text().unwrap_or_default().replace('_', "").to_ascii_lowercase();
            is_summary = word == "summaryonly";
            let native = if is_summary { "summary_only" } else { "append_row" };
            if is_summary || word == "appendrow" {
                let value = Node::text(native, setting.value.line);
                self.add("output_action", &setting.shown, setting.line, value);
            } else {
                self.give(&setting, "output_action");
            }
        }
        if let Some(setting) = self.fields.get("output_action").filter(|_| is_summary)
            && self.raw.built_in == Some(BuiltIn::Mlflow)
        {
            let note = "the predictions are written nowhere: a model without a scoring script has nothing but its rows";
            self.fields.note(&setting, note);
        }
        let of_run = run.settings.iter().find(|setting| setting.key == "append_row_file_name");
        let of_file = self.fields.get("output_file_name");
        match of_run.cloned().or(of_file) {
            Some(setting) if is_summary => {
                let message = "When output_action is set to summary_only, the output_file_name need not to be specified: remove it";
                self.fields.refuse(&setting, message);
            }
            Some(setting) if of_run.is_none() => self.give(&setting, "append_row_file_name"),
            Some(_) => {}
            None if is_summary => {}
            None => self.add("append_row_file_name", "output_file_name", None, Node::text(PREDICTIONS, None)),
        }
    }
}

/// The name of the job, where a run gives it.
fn job_name(given: &str) -> Node {
    Node::text(derived_name(given), None)
}
