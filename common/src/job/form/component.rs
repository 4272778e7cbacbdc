//! Components: a job, or a pipeline, that stands in a file of its own or in its step, and that steps give their inputs to.
//!
//! What a step says counts before what its component says, key by key. Relative paths of a component start from its file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::super::near_name::few;
use super::super::reader::Reader;
use super::super::takes::Takes;
use super::super::yaml::{Key, Node, ScalarKind, Value};
use super::RawSetting;
use super::bindings::{VALUES, python_text};
use super::source_files::SourceFiles;

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Parallel,
    Command,
    /// A pipeline component.
    Pipeline,
}

/// Keys of a component that are about the component, and none of the job.
const OF_COMPONENT: [&str; 10] = [
    "$schema",
    "name",
    "version",
    "display_name",
    "description",
    "tags",
    "properties",
    "type",
    "inputs",
    "outputs",
];
/// Keys that a step and its component are merged under entry by entry.
const MERGED: [&str; 5] = ["task", "resources", "retry_settings", "environment_variables", "limits"];
/// Keys of a step that are not taken over its component.
const OF_STEP: [&str; 4] = ["component", "type", "inputs", "outputs"];
/// Keys whose text is a path.
const PATHS: [&str; 4] = ["code", "conda_file", "component", "path"];
/// Keys of an input of a component.
const INPUT_KEYS: [&str; 9] =
    ["type", "description", "default", "optional", "min", "max", "enum", "mode", "path"];

/// A component.
#[derive(Debug)]
pub(super) struct Component {
    /// All of it, with absolute paths.
    pub(super) node: Node,
    /// The file that it stands in.
    pub(super) file: PathBuf,
    /// What it is called in messages.
    pub(super) label: String,
}

impl Component {
    /// What `setting` names: a file, or a component itself.
    pub(super) fn read(setting: &RawSetting, file: &Path, files: &mut SourceFiles) -> Result<Self, String> {
        if let Value::Mapping(_) = setting.value.value {
            let label = "the component".to_owned();
            return Ok(Self { node: setting.value.clone(), file: file.to_owned(), label });
        }
        let given = setting.value.as_text().map(str::trim).filter(|given| !given.is_empty());
        let given = given.ok_or_else(|| {
            format!("{} is no component: give its file, or its keys", setting.value.describe())
        })?;
        if given.starts_with("azureml://registries/") {
            return Err(format!("{given} is in a registry of Azure: get its file, and give that"));
        }
        if given.starts_with("azureml:") || given.contains("://") {
            return Err(format!(
                "{given}: a component of a registry is not supported yet where no registry is at hand: give the file of the \
                 component"
            ));
        }
        let path = given.strip_prefix("file:").unwrap_or(given);
        let folder = file.parent().unwrap_or(Path::new("/"));
        let path = super::super::validate::absolute(folder, path);
        if path.is_dir() || path.ends_with("flow.dag.yaml") {
            let flow = path.ends_with("flow.dag.yaml") || path.join("flow.dag.yaml").is_file();
            return Err(if flow {
                format!("{given}: a promptflow flow is not an entry script")
            } else {
                format!("{given} is a folder: give the file of the component")
            });
        }
        if !path.is_file() {
            let near = super::super::near_path::hint(&path);
            return Err(format!("there is no component {}{near}", path.display()));
        }
        let mut node = files.read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if node.get("flow").is_some() {
            return Err(format!("{given}: a promptflow flow is not an entry script"));
        }
        absolute(&mut node, path.parent().unwrap_or(folder));
        let label = files.names().component_in(&path).unwrap_or_else(|| given.to_owned());
        Ok(Self { node, file: path, label })
    }
}

/// Has the relative paths in `node` start from `folder`.
fn absolute(node: &mut Node, folder: &Path) {
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().for_each(|item| absolute(item, folder)),
        Value::Null | Value::Scalar { .. } => {}
        Value::Mapping(entries) => {
            let is_data = entries.iter().any(|(key, value)| {
                key.name == "type" && value.as_text().is_some_and(|kind| !VALUES.contains(&kind.trim()))
            });
            for (key, value) in entries {
                let Some(text) = value.as_text() else {
                    absolute(value, folder);
                    continue;
                };
                let is_path = match &*key.name {
                    "environment" => is_file_of_environment(text),
                    "default" => is_data,
                    name => PATHS.contains(&name),
                };
                let is_elsewhere = text.is_empty() || text.contains("${{") || text.contains(':');
                if is_path && !is_elsewhere {
                    let whole = folder.join(text).to_string_lossy().into_owned();
                    *value = Node::text(whole, value.line);
                }
            }
        }
    }
}

fn is_file_of_environment(text: &str) -> bool {
    let ends = [".yml", ".yaml", ".txt"].iter().any(|ending| text.ends_with(ending));
    ends || text.starts_with("./") || text.starts_with("../")
}

/// What the job in `node` is; the word of its type where that is none of these.
pub(super) fn kind(node: &Node) -> Result<Kind, String> {
    let text =
        |key: &str| node.get(key).and_then(Node::as_text).unwrap_or_default().trim().to_ascii_lowercase();
    let has = |key: &str| node.get(key).is_some();
    match &*text("type") {
        "parallel" => Ok(Kind::Parallel),
        "command" => Ok(Kind::Command),
        "pipeline" => Ok(Kind::Pipeline),
        "" if has("task") => Ok(Kind::Parallel),
        "" if has("command") => Ok(Kind::Command),
        "" if has("jobs") => Ok(Kind::Pipeline),
        "" => {
            let schema = text("$schema");
            let schema = schema.rsplit('/').next().unwrap_or_default();
            match () {
                () if schema.starts_with("parallel") => Ok(Kind::Parallel),
                () if schema.starts_with("command") => Ok(Kind::Command),
                () if schema.starts_with("pipeline") => Ok(Kind::Pipeline),
                () => Err(String::new()),
            }
        }
        other => Err(other.to_owned()),
    }
}

/// The keys of `component` and of the `step` over them; inputs and outputs are bound by themselves.
pub(super) fn merge(component: &Node, step: &Node) -> Node {
    let entries = |node: &Node| match &node.value {
        Value::Mapping(entries) => entries.clone(),
        _ => Vec::new(),
    };
    let is_kept = |(key, _): &(Key, Node)| !OF_COMPONENT.contains(&&*key.name);
    let kept = entries(component).into_iter().filter(is_kept).collect();
    let own = entries(step).into_iter().filter(|(key, _)| !OF_STEP.contains(&&*key.name)).collect();
    Node { line: step.line, value: Value::Mapping(with_entries(kept, own)) }
}

/// `present` with `entries` over them; an entry that replaces another stands at the end.
fn with_entries(present: Vec<(Key, Node)>, entries: Vec<(Key, Node)>) -> Vec<(Key, Node)> {
    let mut places: HashMap<String, usize> =
        present.iter().enumerate().map(|(at, (key, _))| (key.name.clone(), at)).collect();
    let mut merged: Vec<Option<(Key, Node)>> = present.into_iter().map(Some).collect();
    for (key, mut value) in entries {
        let place = places.get(&key.name).copied();
        let before = place.and_then(|place| merged[place].take());
        match (before, value.value) {
            (Some((present_key, Node { line, value: Value::Mapping(present) })), Value::Mapping(entries))
                if MERGED.contains(&&*key.name) =>
            {
                let node = Node { line, value: Value::Mapping(with_entries(present, entries)) };
                merged[place.unwrap_or_default()] = Some((present_key, node));
            }
            (_, other) => {
                value.value = other;
                places.insert(key.name.clone(), merged.len());
                merged.push(Some((key, value)));
            }
        }
    }
    merged.into_iter().flatten().collect()
}

/// What an input of a component may be.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    pub(super) name: String,
    /// Its type; nothing where the component does not say it.
    pub(super) kind: Option<String>,
    is_optional: bool,
    default: Option<Node>,
    setting: RawSetting,
}

impl Declared {
    /// The inputs that a component declares under `inputs`.
    pub(super) fn all(fields: &mut Reader<'_>) -> Vec<Self> {
        let mut declared = Vec::new();
        for setting in super::bindings::entries(fields, "inputs") {
            let mut one =
                Self { name: setting.key.clone(), kind: None, is_optional: false, default: None, setting };
            match &one.setting.value.value {
                Value::Mapping(_) => {
                    let mut given =
                        Reader::of_mapping(&one.setting.shown, &one.setting.value, fields.problems());
                    given.refuse_unknown(&INPUT_KEYS, "an input of a component");
                    one.kind = given.text("type").map(|kind| kind.trim().to_ascii_lowercase());
                    one.is_optional = given.boolean("optional").unwrap_or_default();
                    one.default = ["default", "path"]
                        .into_iter()
                        .find_map(|key| given.get(key))
                        .map(|default| default.value);
                }
                Value::Scalar { .. } => one.default = Some(one.setting.value.clone()),
                Value::Null | Value::Sequence(_) => {}
            }
            declared.push(one);
        }
        declared
    }

    fn is_value(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| VALUES.contains(&kind))
    }

    /// The input, where a step gives `value`, or nothing; nothing where it then has none. What is wrong is an error, which
    /// says `where_to` give what is missing.
    pub(super) fn take(
        &self,
        value: Option<Node>,
        label: &str,
        where_to: &str,
    ) -> Result<Option<Node>, String> {
        let Some(value) = value.or_else(|| self.default.clone()) else {
            if self.is_optional {
                return Ok(None);
            }
            let kind = self.kind.as_ref().map(|kind| format!(", of type {kind}")).unwrap_or_default();
            return Err(format!("the input is missing, which {label} requires{kind}: give it {where_to}"));
        };
        let key =
            |name: &str| Key { name: name.to_owned(), line: value.line.or(self.setting.line).unwrap_or(1) };
        let line = value.line;
        Ok(Some(match (&value.value, &self.kind) {
            (Value::Scalar { .. }, Some(kind)) => {
                if self.is_value() {
                    self.check(&value)?;
                }
                let at = if self.is_value() { "value" } else { "path" };
                let entries = vec![(key("type"), Node::text(&**kind, line)), (key(at), value.clone())];
                let mode = self.setting.value.get("mode").filter(|_| !self.is_value());
                let mode = mode.map(|mode| (key("mode"), mode.clone()));
                Node { line, value: Value::Mapping(entries.into_iter().chain(mode).collect()) }
            }
            (Value::Mapping(entries), Some(kind)) => {
                let mut entries = entries.clone();
                if let Some(value) =
                    value.get("value").or_else(|| value.get("path")).filter(|_| self.is_value())
                {
                    self.check(value)?;
                }
                for (name, node) in [
                    ("type", Some(Node::text(&**kind, line))),
                    ("mode", self.setting.value.get("mode").cloned()),
                ] {
                    let node = node.filter(|_| !entries.iter().any(|(present, _)| present.name == name));
                    entries.extend(node.map(|node| (key(name), node)));
                }
                Node { line, value: Value::Mapping(entries) }
            }
            _ => value,
        }))
    }

    /// Judges a value by what the component allows.
    fn check(&self, value: &Node) -> Result<(), String> {
        let text = python_text(value);
        let limit = |key: &str| self.setting.value.get(key);
        let given = value.describe();
        if let Some(allowed) = limit("enum")
            && let Value::Sequence(items) = &allowed.value
            && !items.iter().any(|item| python_text(item) == text)
        {
            let words: Vec<_> = items.iter().map(python_text).collect();
            return Err(format!("{given} is not one of {}", words.join(", ")));
        }
        let Ok(number) = text.trim().parse::<f64>() else { return Ok(()) };
        let bound =
            |key: &str| limit(key).and_then(Node::as_text).and_then(|bound| bound.trim().parse::<f64>().ok());
        if let Some(min) = bound("min").filter(|min| number < *min) {
            return Err(format!("{given} is less than {min}, the least that is allowed"));
        }
        if let Some(max) = bound("max").filter(|max| number > *max) {
            return Err(format!("{given} is more than {max}, the most that is allowed"));
        }
        Ok(())
    }
}

/// Why a step cannot give the input `name`, where it is none of those that are declared.
pub(super) fn unknown_input(name: &str, declared: &[Declared], label: &str) -> String {
    let names = few(declared.iter().map(|one| &*one.name));
    match names.nearest(name) {
        Some(near) => format!("{label} has no input `{name}`: did you mean `{near}`?"),
        None if names.is_empty() => format!("{label} has no input `{name}`: it has none"),
        None => format!("{label} has no input `{name}`; there are: {names}"),
    }
}

/// Whether `node` is true as YAML or text has it.
pub(super) fn is_true(node: &Node) -> Result<bool, String> {
    Takes::Boolean.read(node).map(|value| value.as_bool().unwrap_or_default())
}

/// The text of a value, where `node` is one: a scalar, or a mapping of a type of values.
pub(super) fn value_of(node: &Node) -> Option<Node> {
    match &node.value {
        Value::Scalar { .. } => Some(node.clone()),
        Value::Mapping(_) => {
            let kind = node.get("type").and_then(Node::as_text).map(|kind| kind.trim().to_ascii_lowercase());
            let is_value = kind.as_deref().is_none_or(|kind| VALUES.contains(&kind));
            let value = ["value", "default"].into_iter().find_map(|key| node.get(key));
            let value = value.or_else(|| node.get("path").filter(|_| kind.is_some()));
            let mut value = value.filter(|value| is_value && value.as_text().is_some())?.clone();
            if kind.as_deref() == Some("boolean")
                && let Value::Scalar { kind, .. } = &mut value.value
            {
                *kind = ScalarKind::Boolean;
            }
            Some(value)
        }
        Value::Null | Value::Sequence(_) => None,
    }
}
