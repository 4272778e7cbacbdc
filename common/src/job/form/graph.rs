//! The graph of a pipeline job: the pipeline component that the job was a run of, whose inputs have the values that the job
//! was given as their defaults (`job_definition` of a deployment, dialects C.2).
//!
//! It is made of the document, and not of the steps: in these the inputs have their values already.

use std::path::{Path, PathBuf};

use super::super::names::Names;
use super::super::read_text;
use super::super::validate::absolute;
use super::super::yaml::{self, Key, Node, Value};
use super::bindings::VALUES;
use super::deployment::job_of;
use super::portable::{Portable, portable_graph};
use super::{Form, deployment, document, pipeline, recognise};
use crate::registry::Kind;

/// What of a pipeline is its graph.
const PARTS: [&str; 3] = ["inputs", "outputs", "jobs"];
/// The type of data that is given without one.
const FOLDER: &str = "uri_folder";

/// The graph of the job in `document`, which stands in `file`; nothing where it is no pipeline, where its graph cannot be had
/// of what is there, or where names have to be looked up first.
pub(in super::super) fn graph(
    mut document: Node,
    file: &Path,
    overrides: &[(String, String)],
    names: &Names,
) -> Option<Portable> {
    let keys = match recognise(&document).ok()? {
        Form::Pipeline => pipeline::keys(),
        Form::PipelineDeployment => deployment::PIPELINE_KEYS.to_vec(),
        _ => return None,
    };
    document::apply(&mut document, &keys, &mut overrides.to_vec(), &mut Vec::new());
    let (component, of_component) = component(&document, file, names)?;
    let given = entries(document.get("inputs"));
    let folder = file.parent().unwrap_or(Path::new("/"));
    let Value::Mapping(mut parts) = component.value else { return None };
    parts.retain(|(key, _)| PARTS.contains(&&*key.name));
    // Beside a component, what the file itself says of steps and outputs.
    for name in ["outputs", "jobs"] {
        let Some(own) = document.get(name) else { continue };
        match parts.iter_mut().find(|(key, _)| key.name == name) {
            None => parts.push((key(name), own.clone())),
            Some((_, Node { value: Value::Mapping(present), .. })) if name == "outputs" => {
                let more = entries(Some(own)).into_iter();
                let more: Vec<_> = more.filter(|(key, _)| !has(present, &key.name)).collect();
                present.extend(more);
            }
            Some(_) => {}
        }
    }
    let declared = parts.iter().position(|(key, _)| key.name == "inputs");
    let declared = declared.map(|at| entries(Some(&parts.remove(at).1))).unwrap_or_default();
    let inputs = with_defaults(declared, given, folder, names);
    parts.push((key("inputs"), Node { line: None, value: Value::Mapping(inputs) }));
    parts.push((key("type"), Node::text("pipeline", None)));
    portable_graph(Node { line: None, value: Value::Mapping(parts) }, &of_component, names)
}

/// The component of the pipeline with its file; the pipeline itself, whose inputs are values, where it has none.
fn component(document: &Node, file: &Path, names: &Names) -> Option<(Node, PathBuf)> {
    if let Some(job) = document.get("job_definition") {
        let path = names.graph(&job_of(job).ok()?)?.ok()?;
        return Some((read(&path)?, path));
    }
    match document.get("component") {
        None => {
            let mut own = document.clone();
            if let Value::Mapping(entries) = &mut own.value {
                entries.retain(|(key, _)| key.name != "inputs");
            }
            Some((own, file.to_owned()))
        }
        Some(Node { value: Value::Scalar { text, .. }, .. }) => {
            let text = names.mapped_text(text.trim());
            let path = if names.names_version(&text) {
                names.component(&text)?
            } else {
                let given = text.strip_prefix("file:").unwrap_or(&text);
                absolute(file.parent().unwrap_or(Path::new("/")), given)
            };
            Some((read(&path)?, path))
        }
        Some(component) => Some((component.clone(), file.to_owned())),
    }
}

fn read(path: &Path) -> Option<Node> {
    yaml::parse(&read_text(path).ok()?).ok()
}

/// The inputs that are `declared`, and all others that are `given`, with what they are given as their defaults. Paths of
/// these start from `folder`.
fn with_defaults(
    declared: Vec<(Key, Node)>,
    given: Vec<(Key, Node)>,
    folder: &Path,
    names: &Names,
) -> Vec<(Key, Node)> {
    let mut inputs = declared;
    for (name, value) in given {
        let Some((_, input)) = inputs.iter_mut().find(|(key, _)| key.name == name.name) else {
            let value = if value.as_text().is_some() {
                value
            } else {
                Node { line: None, value: Value::Mapping(default_of(&value, None, folder, names)) }
            };
            inputs.push((name, value));
            continue;
        };
        let kind = input.get("type").and_then(Node::as_text).map(str::to_owned);
        let mut default = default_of(&value, kind.as_deref(), folder, names);
        let mut present = entries(Some(input));
        let is_value = |key: &Key| ["default", "path"].contains(&&*key.name);
        if default.iter().any(|(key, _)| is_value(key)) {
            present.retain(|(key, _)| !is_value(key));
        }
        // What the component says of the type is right; how files are had, the job says.
        default.retain(|(key, _)| key.name == "mode" || !has(&present, &key.name));
        present.retain(|(key, _)| !has(&default, &key.name));
        present.extend(default);
        *input = Node { line: None, value: Value::Mapping(present) };
    }
    inputs
}

/// The keys of an input that is `given` without anything being given: its type, which may be known as `kind`, and its value.
fn default_of(given: &Node, kind: Option<&str>, folder: &Path, names: &Names) -> Vec<(Key, Node)> {
    let placed = |value: &Node| {
        let text = value.as_text().unwrap_or_default().trim();
        let is_elsewhere = text.is_empty() || text.contains([':', '$']) || names.mapped_text(text) != text;
        if is_elsewhere { value.clone() } else { Node::text(absolute(folder, text).to_string_lossy(), None) }
    };
    let is_value = |kind: &str| VALUES.contains(&kind.trim());
    if given.as_text().is_some() {
        let is_data = kind.is_some_and(|kind| !is_value(kind));
        return vec![(key("default"), if is_data { placed(given) } else { given.clone() })];
    }
    let mut made = Vec::new();
    let own = given.get("type").and_then(Node::as_text).or(kind);
    for (at, value) in entries(Some(given)) {
        match &*at.name {
            "path" if own.is_none_or(|kind| !is_value(kind)) => {
                // Data that is registered has its own type.
                let is_registered =
                    || value.as_text().is_some_and(|text| names.pin(text, Kind::Data).is_some());
                if own.is_none() && !is_registered() {
                    made.push((key("type"), Node::text(FOLDER, None)));
                }
                made.push((key("path"), placed(&value)));
            }
            "path" | "value" | "default" => made.push((key("default"), value)),
            "type" | "mode" | "description" => made.push((at, value)),
            _ => {}
        }
    }
    made
}

fn entries(node: Option<&Node>) -> Vec<(Key, Node)> {
    match node.map(|node| &node.value) {
        Some(Value::Mapping(entries)) => entries.clone(),
        _ => Vec::new(),
    }
}

fn has(entries: &[(Key, Node)], name: &str) -> bool {
    entries.iter().any(|(key, _)| key.name == name)
}

fn key(name: &str) -> Key {
    Key { name: name.to_owned(), line: 1 }
}
