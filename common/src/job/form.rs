//! Which of the known forms a job file has, and its lifting into the native keys (spec P1).
//!
//! A form is recognised by its content, never by the file's name. Forms that are known but not read
//! yet are refused by name, so that nobody takes their keys for spelling mistakes.

use super::error::Problem;
use super::keys::JOB;
use super::yaml::{Node, Value};

/// The block that azureml's `ParallelRunConfig.save_to_yaml` writes.
const BLOCK: &str = "parallel_run_config";

/// Keys of the block that are native ones under another name.
const RENAMED: [(&str, &str); 3] = [
    ("compute_target_name", "compute_target"),
    ("environment_name", "environment"),
    ("environment_dir_path", "environment"),
];

/// The settings of a job file under their native keys, not yet judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawSettings {
    pub(crate) settings: Vec<RawSetting>,
}

/// One setting as it is given.
#[derive(Debug, Clone)]
pub(crate) struct RawSetting {
    /// The native key.
    pub(crate) key: String,
    /// The key with its place in the file, for messages.
    pub(crate) shown: String,
    /// Line of the key, from 1; `None` when it is not from the file.
    pub(crate) line: Option<usize>,
    pub(crate) value: Node,
}

/// Recognises the form of `document`, a mapping, and lifts it into the native keys; `None` for a form
/// that is not read yet, of which nothing more can be said.
pub(super) fn lift(document: Node, problems: &mut Vec<Problem>) -> Option<RawSettings> {
    if let Some((form, line)) = form_not_supported_yet(&document) {
        problems.push(Problem {
            key: String::new(),
            line,
            message: format!(
                "this is {form}, which is not supported yet: write a native job file, or one with a \
                     `{BLOCK}` block"
            ),
        });
        return None;
    }
    let mut raw = RawSettings::default();
    let Value::Mapping(entries) = document.value else { return Some(raw) };
    for (key, value) in entries {
        match value.value {
            Value::Mapping(block) if key.name == BLOCK => {
                for (key, value) in block {
                    let native = RENAMED.iter().find(|(given, _)| *given == key.name);
                    let native = native.map_or(key.name.as_str(), |(_, native)| native).to_owned();
                    raw.add(
                        RawSetting {
                            shown: format!("{BLOCK}.{}", key.name),
                            key: native,
                            line: Some(key.line),
                            value: parameter_default(value),
                        },
                        problems,
                    );
                }
            }
            _ if key.name == BLOCK => problems.push(Problem {
                key: key.name,
                line: Some(key.line),
                message: format!(
                    "{} where the settings of a ParallelRunConfig belong: put the content of that file here",
                    value.describe()
                ),
            }),
            _ => {
                let (shown, line) = (key.name.clone(), Some(key.line));
                raw.add(RawSetting { key: key.name, shown, line, value }, problems);
            }
        }
    }
    Some(raw)
}

impl RawSettings {
    fn add(&mut self, setting: RawSetting, problems: &mut Vec<Problem>) {
        // azureml writes every key, those that were not set as null.
        if setting.value.is_null() {
            if JOB.find(&setting.key).is_none() {
                self.settings.push(setting);
            }
            return;
        }
        match self.get(&setting.key) {
            Some(other) => problems.push(Problem {
                message: format!("it is also given as `{}`: keep one", other.shown),
                key: setting.shown,
                line: setting.line,
            }),
            None => self.settings.push(setting),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&RawSetting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    /// Puts `value` in the place of whatever the file gives.
    pub(super) fn replace(&mut self, key: &str, shown: String, value: Node) {
        self.settings.retain(|setting| setting.key != key);
        self.settings.push(RawSetting { key: key.to_owned(), shown, line: None, value });
    }
}

/// A pipeline parameter stands for its default value.
fn parameter_default(value: Node) -> Node {
    match value.get("default_value") {
        Some(default) => default.clone(),
        None => value,
    }
}

/// The name of a form that is recognised and not read yet, and a line that shows it.
fn form_not_supported_yet(document: &Node) -> Option<(&'static str, Option<usize>)> {
    if document.get(BLOCK).is_some_and(|block| matches!(block.value, Value::Mapping(_))) {
        return None;
    }
    let text = |key: &str| document.get(key).and_then(Node::as_text).unwrap_or_default();
    let line = |key: &str| document.get(key).and_then(|node| node.line);
    let schema = text("$schema").to_ascii_lowercase();
    let pipeline = "an Azure Machine Learning v2 pipeline (`type: pipeline`)";
    let parallel = "an Azure Machine Learning v2 parallel job (`type: parallel`)";
    let deployment = "a batch deployment";
    for (part, form) in [
        ("pipelinejob", pipeline),
        ("pipelinecomponent.", pipeline),
        ("parallel", parallel),
        ("batchdeployment", deployment),
        ("batchendpoint", "a batch endpoint"),
    ] {
        if schema.contains(part) {
            return Some((form, line("$schema")));
        }
    }
    match text("type") {
        "pipeline" => return Some((pipeline, line("type"))),
        "parallel" => return Some((parallel, line("type"))),
        _ => {}
    }
    let shape = |key: &str, form| document.get(key).map(|node| (form, node.line));
    if let Some(found) = shape("endpoint_name", deployment) {
        return Some(found);
    }
    let nested = |key: &str| document.get(key).is_some_and(|node| matches!(node.value, Value::Mapping(_)));
    if nested("jobs") {
        return shape("jobs", pipeline);
    }
    if nested("task") {
        return shape("task", parallel);
    }
    if nested("code_configuration") {
        return shape("code_configuration", deployment);
    }
    if nested("pipeline") {
        return shape("pipeline", "an Azure Machine Learning v1 pipeline (`pipeline:`)");
    }
    None
}
