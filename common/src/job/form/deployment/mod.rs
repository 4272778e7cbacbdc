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
//! | `pipeline` | `type: pipeline`, whose component is a pipeline |

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
use super::{RawSetting, RawSettings, document};
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
/// Keys of a model that stands in the file.
const MODEL: [&str; 10] =
    ["$schema", "name", "version", "type", "path", "description", "tags", "properties", "stage", "flavors"];
const MODEL_TYPES: [&str; 3] = ["custom_model", "mlflow_model", "triton_model"];

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

    /// Takes the model, the script and its environment.
    fn scorer(&mut self, file: &Path) {
        let code = self.fields.nested("code_configuration", &["code", "scoring_script"]);
        let has_code = self.fields.has("code_configuration");
        let Some(model) = self.model(file) else {
            return self.code_of_deployment(&code, has_code, true, file);
        };
        if has_code || model.kind == "custom_model" && !model.is_unknown {
            if !has_code {
                let mut message =
                    "the key is missing: give the folder `code` and its `scoring_script`; only a model of \
                                   type mlflow_model does without"
                        .to_owned();
                if model.has_mlmodel && model.is_of_registry {
                    message += ", and this one has a file MLmodel: register it with --type mlflow_model";
                } else if model.has_mlmodel {
                    message += ", and the folder of this one has a file MLmodel";
                }
                self.fields.refuse_at("code_configuration", None, message);
            }
            return self.code_of_deployment(&code, has_code, false, file);
        }
        if model.kind == "mlflow_model" {
            let message = "an MLflow model without a scoring script is not supported yet: give code_configuration and \
                           environment";
            self.fields.refuse_at("code_configuration", None, message);
        }
        // What it runs in is its own affair.
        self.code_of_deployment(&code, has_code, true, file);
    }

    /// Takes the folder of the script, the script, and its environment, which may be absent where `is_free`.
    fn code_of_deployment(&mut self, code: &[RawSetting], has_code: bool, is_free: bool, file: &Path) {
        let place = |key: &str, name: &str| (key.to_owned(), format!("code_configuration.{name}"));
        self.raw.places.push(place("entry_script", "scoring_script"));
        for (key, what) in [("code", "the folder of the script"), ("scoring_script", "a .py file below code")]
        {
            match code.iter().find(|setting| setting.key == key) {
                Some(setting) if key == "code" => self.code(setting, file),
                Some(setting) => self.give(setting, "entry_script"),
                None if has_code => {
                    let shown = format!("code_configuration.{key}");
                    self.fields.refuse_at(&shown, None, format!("the key is missing: give {what}"));
                }
                None => {}
            }
        }
        match self.fields.get("environment") {
            Some(setting) => self.environment(&setting),
            None if is_free => {}
            None => {
                let message = "the key is missing: give a conda_file or an interpreter, or `local` for the Python of the \
                               host; only a model of type mlflow_model does without";
                self.fields.refuse_at("environment", None, message);
            }
        }
    }

    /// Takes the model; nothing where it is refused.
    fn model(&mut self, file: &Path) -> Option<Model> {
        let Some(setting) = self.fields.get("model") else {
            let message = "the key is missing: give its path, or --set model.path=PATH";
            self.fields.refuse_at("model", None, message);
            return None;
        };
        let (mut kind, mut path) = ("custom_model", setting.clone());
        match &setting.value.value {
            Value::Scalar { .. } => {}
            Value::Mapping(_) => {
                let mut given = Reader::of_mapping(&setting.shown, &setting.value, self.fields.problems());
                given.refuse_unknown(&MODEL, "a model");
                if let Some(setting) = given.get("type") {
                    kind = super::bindings::word(&mut given, &setting, &MODEL_TYPES)?;
                    if kind == "triton_model" {
                        given.refuse(
                            &setting,
                            "a batch deployment has no Triton model: give a scoring script and type: \
                                                custom_model",
                        );
                        return None;
                    }
                }
                let Some(given) = given.get("path") else {
                    let shown = format!("{}.path", setting.shown);
                    let message = format!("the key is missing: give it, or --set {shown}=PATH");
                    self.fields.refuse_at(&shown, setting.line, message);
                    return None;
                };
                path = given;
            }
            Value::Null | Value::Sequence(_) => {
                let given = setting.value.describe();
                self.fields.refuse(&setting, format!("{given} is not a model: give its path"));
                return None;
            }
        }
        let text = path.value.as_text().unwrap_or_default().trim().to_owned();
        if text.starts_with("runs:/") {
            let message = format!("{text} is a run of an MLflow server: download it, and give its folder");
            self.fields.refuse(&path, message);
            return None;
        }
        self.give(&path, "model");
        let registered = self.raw.names.model_at(&text);
        if let Some(registered) = &registered {
            kind = registered.kind.as_str();
            if kind == "triton_model" {
                let message = "it is a Triton model, which no batch deployment has: register it as custom_model, and give a \
                               scoring script";
                self.fields.refuse(&path, message);
                return None;
            }
        }
        let has_mlmodel = match &registered {
            Some(registered) => !registered.about.flavors.is_empty(),
            None => file.with_file_name(&text).join("MLmodel").is_file(),
        };
        let is_unknown = text.starts_with("azureml:");
        Some(Model { kind, is_of_registry: registered.is_some(), is_unknown, has_mlmodel })
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

/// What is known of the model.
struct Model {
    kind: &'static str,
    /// Whether it is in the registry, which knows its type.
    is_of_registry: bool,
    /// Whether it is a name that stands for nothing, as is said elsewhere.
    is_unknown: bool,
    has_mlmodel: bool,
}

/// The name of the job, where a run gives it.
fn job_name(given: &str) -> Node {
    Node::text(derived_name(given), None)
}
