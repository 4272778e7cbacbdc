//! `inputs` and `outputs` of the forms of Azure: what each name stands for.
//!
//! Whether the data are there is looked at later, as for any job.

use crate::dataset::http_url::is_http;
use crate::dataset::remote::RemotePath;

use super::super::near_name::few;
use super::super::reader::Reader;
use super::super::yaml::{Key, Node, ScalarKind, Value};
use super::RawSetting;
use super::expressions::{Scope, parts, whole};

/// Types of data, of inputs and of outputs.
const DATA: [&str; 6] = ["uri_folder", "uri_file", "mltable", "custom_model", "mlflow_model", "triton_model"];
/// Types of values.
pub(super) const VALUES: [&str; 5] = ["string", "boolean", "integer", "number", "float"];
/// Keys of an input.
const INPUT_KEYS: [&str; 6] = ["type", "path", "mode", "value", "default", "description"];
/// Keys of an output.
pub(super) const OUTPUT_KEYS: [&str; 6] = ["type", "path", "mode", "name", "version", "description"];
/// How nodes may get the files of an input, where it makes no difference here.
const MODES: [&str; 6] = ["ro_mount", "download", "direct", "mount", "rw_mount", "upload"];
/// Of these, what would write to the input.
const WRITING: [&str; 3] = ["mount", "rw_mount", "upload"];
/// How outputs may be written, which makes no difference here.
const OUTPUT_MODES: [&str; 4] = ["rw_mount", "mount", "upload", "direct"];
/// A name that azureml keeps for itself.
const RESERVED: &str = "partition_column_names";
const UNLISTED: &str = "a folder cannot be listed over HTTP: give type: uri_file where the https:// URL is of one file, name \
                        the files in an MLTable, or copy them to s3:// or a folder";

/// An input under its name, `at.key`.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) at: RawSetting,
    pub(super) bound: Bound,
}

/// What an input stands for.
#[derive(Debug, Clone)]
pub(super) enum Bound {
    /// A value, as text.
    Text(String),
    Data(Box<Data>),
    /// Something that was refused.
    Wrong,
}

/// Data of one of the types.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) kind: &'static str,
    pub(super) path: RawSetting,
    pub(super) mode: Option<RawSetting>,
}

/// An output under its name, `at.key`.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) at: RawSetting,
    /// The name that it is published under: that of the pipeline's, where it is bound to one.
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) path: Option<RawSetting>,
    /// Whether it is bound to an output of the pipeline, whose name and path it has.
    pub(super) is_of_pipeline: bool,
}

/// Reads `inputs`; `parent` are those of the pipeline.
pub(super) fn inputs(fields: &mut Reader<'_>, parent: Option<&[Input]>) -> Vec<Input> {
    let mut inputs = Vec::new();
    for at in entries(fields, "inputs") {
        if at.key == RESERVED {
            fields.refuse(&at, "the name is reserved: give another one");
        }
        let bound = bind(fields, &at, parent).unwrap_or(Bound::Wrong);
        inputs.push(Input { at, bound });
    }
    inputs
}

/// What the input `at` stands for; nothing where it is wrong.
fn bind(fields: &mut Reader<'_>, at: &RawSetting, parent: Option<&[Input]>) -> Option<Bound> {
    match &at.value.value {
        Value::Scalar { text, .. } if text.contains("${{") => of_parent(fields, at, parent),
        Value::Scalar { .. } => Some(Bound::Text(python_text(&at.value))),
        Value::Mapping(_) => of_mapping(fields, at, parent),
        Value::Null | Value::Sequence(_) => {
            let given = at.value.describe();
            fields.refuse(
                at,
                format!("{given} where an input is expected: give a value, or a mapping with a path"),
            );
            None
        }
    }
}

/// What the expressions of `at` stand for.
fn of_parent(fields: &mut Reader<'_>, at: &RawSetting, parent: Option<&[Input]>) -> Option<Bound> {
    let text = at.value.as_text().unwrap_or_default();
    if let (Some(inputs), Some(inside)) = (parent, whole(text))
        && let ["parent", "inputs", name] | ["parent", "inputs", name, "path"] = parts(inside)[..]
        && let Some(input) = inputs.iter().find(|input| input.at.key == name)
    {
        return Some(input.bound.clone());
    }
    let scope = Scope { inputs: &[], parent, input_data: None, outputs: &[], uses: None };
    scope.substitute(text).map(Bound::Text).map_err(|message| fields.refuse(at, message)).ok()
}

fn of_mapping(fields: &mut Reader<'_>, at: &RawSetting, parent: Option<&[Input]>) -> Option<Bound> {
    let mut given = Reader::of_mapping(&at.shown, &at.value, fields.problems());
    given.refuse_unknown(&INPUT_KEYS, "an input");
    let kind = given.get("type").map(|kind| word(&mut given, &kind, &[&DATA[..], &VALUES[..]].concat()));
    let kind = match kind {
        Some(None) => return None,
        Some(Some(kind)) => Some(kind),
        None => None,
    };
    let value = ["path", "value", "default"].into_iter().find_map(|key| given.get(key));
    let mode = given.get("mode");
    let Some(value) = value else {
        let option = format!("--set {}.path=PATH", at.shown);
        given.refuse_at(
            &format!("{}.path", at.shown),
            at.line,
            format!("the key is missing: give it, or {option}"),
        );
        return None;
    };
    let is_expression = value.value.as_text().is_some_and(|text| text.contains("${{"));
    let bound = if is_expression { Some(of_parent(&mut given, &value, parent)?) } else { None };
    let data = |kind, path| Bound::Data(Box::new(Data { kind, path, mode: mode.clone() }));
    match (kind, bound) {
        (_, Some(Bound::Wrong)) => None,
        (Some(kind), Some(Bound::Data(_))) if VALUES.contains(&kind) => {
            given.refuse(&value, format!("data where a value of type {kind} is expected: give a value"));
            None
        }
        (_, Some(Bound::Data(mut bound))) => {
            bound.kind = kind.unwrap_or(bound.kind);
            bound.mode = mode.or(bound.mode);
            Some(Bound::Data(bound))
        }
        (None, Some(Bound::Text(text))) => Some(Bound::Text(text)),
        (Some(kind), Some(Bound::Text(text))) => {
            let value = RawSetting { value: Node::text(text, value.value.line), ..value };
            if VALUES.contains(&kind) { typed(&mut given, &value, kind) } else { Some(data(kind, value)) }
        }
        (Some(kind), None) if VALUES.contains(&kind) => typed(&mut given, &value, kind),
        (None, None) if value.key != "path" => typed(&mut given, &value, "string"),
        (kind, None) => Some(data(kind.unwrap_or("uri_folder"), value)),
    }
}

/// A value of one of the types of values.
fn typed(given: &mut Reader<'_>, value: &RawSetting, kind: &str) -> Option<Bound> {
    let text = value.value.as_text().map(str::trim);
    let is_true = text.is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let fits = text.is_some_and(|text| match kind {
        "boolean" => is_true || text.eq_ignore_ascii_case("false"),
        "integer" => text.parse::<i64>().is_ok(),
        "string" => true,
        _ => text.parse::<f64>().is_ok(),
    });
    if !fits {
        given.refuse(value, format!("{} is not of type {kind}", value.value.describe()));
        return None;
    }
    Some(Bound::Text(match kind {
        "boolean" => if is_true { "True" } else { "False" }.to_owned(),
        _ => python_text(&value.value),
    }))
}

/// The one of `known` that `setting` is, whatever its case.
pub(super) fn word(
    fields: &mut Reader<'_>,
    setting: &RawSetting,
    known: &[&'static str],
) -> Option<&'static str> {
    let text = setting.value.as_text().unwrap_or_default().trim();
    let word = known.iter().find(|word| word.eq_ignore_ascii_case(text)).copied();
    if word.is_none() {
        let given = setting.value.describe();
        fields.refuse(setting, format!("{given} is not one of {}", known.join(", ")));
    }
    word
}

/// Whether this mode gives the files that a table names, not its folder.
fn is_evaluated(mode: &str) -> bool {
    ["eval_mount", "eval_download"].contains(&mode)
}

impl Data {
    /// The mode, in lower case.
    pub(super) fn mode_word(&self) -> String {
        let text = self.mode.as_ref().and_then(|mode| mode.value.as_text());
        text.unwrap_or("ro_mount").trim().to_ascii_lowercase()
    }

    /// Whether the script gets the path or the URI as it is.
    pub(super) fn is_direct(&self) -> bool {
        self.mode_word() == "direct"
    }

    /// Why it cannot be had, where it is a folder of an HTTP server.
    pub(super) fn unlisted(&self) -> Option<&'static str> {
        let path = self.path.value.as_text().filter(|path| self.kind == "uri_folder" && is_http(path))?;
        let lists = RemotePath::parse(path).is_ok_and(|url| url.lists());
        (!lists).then_some(UNLISTED)
    }

    /// Judges the mode of what nodes have whole.
    pub(super) fn judge_mode_of_side_input(&self, fields: &mut Reader<'_>) {
        match &self.mode {
            Some(mode) if self.kind == "mltable" && is_evaluated(&self.mode_word()) => {
                fields.refuse(
                    mode,
                    format!(
                        "{} is not supported yet for a side input: give ro_mount, which brings the folder",
                        self.mode_word()
                    ),
                );
            }
            _ => self.judge_mode(fields),
        }
    }

    /// Judges the mode of what is cut into mini-batches.
    pub(super) fn judge_mode(&self, fields: &mut Reader<'_>) {
        let Some(mode) = &self.mode else { return };
        let text = mode.value.as_text().unwrap_or_default().trim().to_ascii_lowercase();
        if self.kind == "mltable" && is_evaluated(&text) {
            // The files that it names.
        } else if text.starts_with("eval_") {
            fields.refuse(mode, format!("{text} is for type: mltable: give ro_mount, or leave it out"));
        } else if word(fields, mode, &MODES).is_some_and(|mode| WRITING.contains(&mode)) {
            fields.note(mode, "inputs are only read; as ro_mount");
        }
    }
}

/// Reads `outputs`; `parent` are those of the pipeline.
pub(super) fn outputs(fields: &mut Reader<'_>, parent: &[Output]) -> Vec<Output> {
    let mut outputs = Vec::new();
    for at in entries(fields, "outputs") {
        let mut output =
            Output { name: at.key.clone(), kind: "uri_folder", path: None, is_of_pipeline: false, at };
        if let Value::Mapping(_) = output.at.value.value {
            let mut given = Reader::of_mapping(&output.at.shown, &output.at.value, fields.problems());
            given.refuse_unknown(&OUTPUT_KEYS, "an output");
            let mode =
                given.get("mode").filter(|mode| word(&mut given, mode, &OUTPUT_MODES) == Some("direct"));
            for key in ["name", "version"] {
                if let Some(setting) = given.get(key) {
                    given.refuse(&setting, "registering an output as data is not supported yet: remove it");
                }
            }
            let path = given.get("path");
            let kind = given.get("type").and_then(|kind| word(&mut given, &kind, &DATA));
            if let Some(mode) = mode {
                fields.note(&mode, "has no meaning here; ignored");
            }
            output = match path.as_ref().and_then(|path| of_pipeline(fields, path, parent)) {
                Some(bound) => Output { at: output.at, ..bound },
                None => Output { path, ..output },
            };
            output.kind = kind.unwrap_or(output.kind);
        } else if let Some(bound) = of_pipeline(fields, &output.at, parent) {
            output = Output { at: output.at, ..bound };
        } else if !output.at.value.is_null() {
            let given = output.at.value.describe();
            fields.refuse(&output.at, format!("{given} is not an output: give a mapping with type and path"));
        }
        outputs.push(output);
    }
    outputs
}

/// The output of the pipeline that `setting` names, under the name of the pipeline; one without a path where there is no
/// such output.
fn of_pipeline(fields: &mut Reader<'_>, setting: &RawSetting, parent: &[Output]) -> Option<Output> {
    let parts = parts(whole(setting.value.as_text()?)?);
    let ["parent", "outputs", name] = parts[..] else { return None };
    let found = parent.iter().find(|output| output.at.key == name).cloned();
    if found.is_none() {
        let names = few(parent.iter().map(|output| output.at.key.as_str()));
        let message = format!("the pipeline has no output `{name}`; there are: {names}");
        fields.refuse(setting, message);
    }
    let absent = || Output {
        name: name.to_owned(),
        kind: "uri_folder",
        path: None,
        at: setting.clone(),
        is_of_pipeline: false,
    };
    Some(Output { is_of_pipeline: true, ..found.unwrap_or_else(absent) })
}

/// The entries of the mapping under `key`, each under its own name.
pub(super) fn entries(fields: &mut Reader<'_>, key: &str) -> Vec<RawSetting> {
    let Some(setting) = fields.get(key) else { return Vec::new() };
    let Value::Mapping(entries) = &setting.value.value else {
        fields.refuse(&setting, format!("{} where a mapping of names is expected", setting.value.describe()));
        return Vec::new();
    };
    let entry = |(name, value): &(Key, Node)| RawSetting {
        key: name.name.clone(),
        shown: format!("{}.{}", setting.shown, name.name),
        line: Some(name.line),
        value: value.clone(),
    };
    entries.iter().map(entry).collect()
}

/// A value as Python shows it: booleans begin with a capital letter, numbers are as written.
pub(super) fn python_text(node: &Node) -> String {
    match &node.value {
        Value::Scalar { text, kind: ScalarKind::Boolean } if text.eq_ignore_ascii_case("true") => {
            "True".to_owned()
        }
        Value::Scalar { kind: ScalarKind::Boolean, .. } => "False".to_owned(),
        _ => node.as_text().unwrap_or_default().to_owned(),
    }
}
