//! `outputs`: files and folders of the output that the script is given by name, as `${{outputs.NAME}}`.
//!
//! A name that is only used, in `arguments` or `environment_variables`, is a folder of that name. Each lies below the
//! folder of a process where it will be below the output of the job, so that publishing knows nothing of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::form::RawSetting;
use super::own_id::{check_named_file, with_plain_job_id, with_some_id};
use super::pipeline::met;
use super::reader::Reader;
use super::spec::{JobSpec, OutputAction};
use super::validate::is_identifier;
use super::yaml::{Key, Node, Value};
use crate::output_name::check_output_name;

/// An output that the script knows by name (dialects A.4).
///
/// It is a part of `job.json`, and of the first message to a process, where fields have places and no names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedOutput {
    /// Its name.
    pub name: String,
    /// Where it is below the output of the job, without `.` and `..`; empty for the output itself.
    pub path: String,
    /// Whether it is a file, and not a folder.
    pub is_file: bool,
}

impl NamedOutput {
    /// The folder of this name in the output.
    fn folder(name: &str) -> Self {
        Self { name: name.to_owned(), path: name.to_owned(), is_file: false }
    }

    /// Its absolute path in the folder of a process.
    pub fn below(&self, folder: &str) -> String {
        if self.path.is_empty() { folder.to_owned() } else { format!("{folder}/{}", self.path) }
    }
}

/// The folders below that of a process which are there whenever the script runs, those above others first.
pub fn kept_folders(outputs: &[NamedOutput]) -> Vec<String> {
    let folders = outputs.iter().flat_map(|output| {
        let folders = Path::new(&output.path).ancestors().skip(usize::from(output.is_file));
        folders.filter_map(Path::to_str).filter(|folder| !folder.is_empty())
    });
    folders.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}

/// Types of outputs; all but `uri_file` are folders.
const KINDS: [&str; 6] =
    ["uri_folder", "uri_file", "mltable", "custom_model", "mlflow_model", "triton_model"];

/// What an output is called.
pub(super) const OUTPUT_NAME: &str =
    "1 to 255 letters, digits, `_`, `.` and `-` that begin with a letter, digit or `_`";

/// Reads `outputs`.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<NamedOutput> {
    let Some(setting) = reader.get("outputs") else { return Vec::new() };
    let Value::Mapping(entries) = &setting.value.value else {
        let given = setting.value.describe();
        reader
            .refuse(&setting, format!("{given} where a mapping of names to paths in the output is expected"));
        return Vec::new();
    };
    entries.iter().filter_map(|(key, value)| one(reader, &setting, key, value)).collect()
}

fn one(reader: &mut Reader<'_>, setting: &RawSetting, key: &Key, value: &Node) -> Option<NamedOutput> {
    let shown = format!("{}.{}", setting.shown, key.name);
    if let Err(message) = check_name(&key.name) {
        reader.refuse_at(&shown, Some(key.line), message);
        return None;
    }
    let mut output = NamedOutput::folder(&key.name);
    let mut path = None;
    match &value.value {
        Value::Null => {}
        Value::Scalar { text, .. } => path = Some((shown.clone(), value.line, text.clone())),
        Value::Mapping(_) => {
            let mut fields = Reader::of_mapping(&shown, value, reader.problems());
            fields.refuse_unknown(&["type", "path"], "an output");
            output.is_file = fields.text("type").is_some_and(|kind| kind.eq_ignore_ascii_case("uri_file"));
            if let Some(setting) = fields.get("type")
                && !setting
                    .value
                    .as_text()
                    .is_none_or(|kind| KINDS.iter().any(|known| known.eq_ignore_ascii_case(kind.trim())))
            {
                let given = setting.value.describe();
                fields.refuse(&setting, format!("{given} is not one of {}", KINDS.join(", ")));
            }
            let given = fields.text("path");
            path = fields.get("path").zip(given).map(|(setting, path)| (setting.shown, setting.line, path));
        }
        Value::Sequence(_) => {
            let message = format!(
                "{} is not an output: give a path, or a mapping with type and path",
                value.describe()
            );
            reader.refuse_at(&shown, Some(key.line), message);
            return None;
        }
    }
    if let Some((shown, line, given)) = path {
        match below_output(&given) {
            Ok(path) => output.path = path,
            Err(message) => {
                reader.refuse_at(&shown, line, message);
                return None;
            }
        }
    }
    if output.is_file && output.path.is_empty() {
        reader.refuse_at(&shown, Some(key.line), "the output itself is no file: give a path below it");
        return None;
    }
    Some(output)
}

/// What is wrong with `name` as the name of an output.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if begins && name.len() <= 255 && name.bytes().all(plain) && !name.contains("..") {
        return Ok(());
    }
    Err(format!("{name:?} is not the name of an output: give {OUTPUT_NAME}"))
}

/// `given`, a path below the output, without `.` and without a `/` at its end.
fn below_output(given: &str) -> Result<String, String> {
    let refused = |what: &str| {
        Err(format!("{given:?} {what}: give a path below the output, such as models or a/b.txt"))
    };
    if given.starts_with('/') {
        return refused("is an absolute path");
    }
    let plain = with_plain_job_id(given);
    let given = plain.as_str();
    if given.contains("://") || with_some_id(given).contains("${{") {
        return refused("is no path");
    }
    let parts: Vec<&str> = given.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return refused("leads out of it with `..`");
    }
    Ok(parts.join("/"))
}

/// Adds the folders that are only named in references, and refuses outputs that get in each other's way, or in that of what
/// prs writes itself.
pub(super) fn complete(reader: &mut Reader<'_>, spec: &mut JobSpec, used: &[(&RawSetting, String)]) {
    let mut known: HashSet<String> = spec.outputs.iter().map(|output| output.name.clone()).collect();
    for (setting, name) in used {
        if known.contains(name) {
            continue;
        }
        match check_name(name) {
            Ok(()) => {
                known.insert(name.clone());
                spec.outputs.push(NamedOutput::folder(name));
            }
            Err(message) => reader.refuse(setting, message),
        }
    }
    // Of a name that is used twice the first place counts.
    let first: HashMap<&str, &RawSetting> =
        used.iter().rev().map(|(setting, name)| (&**name, *setting)).collect();
    let given = reader.get("outputs");
    let entries = match given.as_ref().map(|given| &given.value.value) {
        Some(Value::Mapping(entries)) => entries.as_slice(),
        _ => &[],
    };
    let lines: HashMap<&str, usize> = entries.iter().map(|(key, _)| (&*key.name, key.line)).collect();
    let at = |name: &str| {
        let line = lines.get(name).copied();
        let (shown, value) = (format!("outputs.{name}"), Node { line, value: Value::Null });
        let used = first.get(name).filter(|_| given.is_none()).map(|used| (*used).clone());
        used.unwrap_or_else(|| RawSetting { key: String::new(), shown, line, value })
    };
    // The output itself is in the way of none.
    let placed: Vec<&NamedOutput> = spec.outputs.iter().filter(|output| !output.path.is_empty()).collect();
    let met = met(&placed.iter().map(|output| Path::new(&output.path)).collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for (index, output) in placed.iter().enumerate() {
        let other = met.get(&index).map(|other| placed[*other]);
        if let Some(message) = conflict(spec, output, other) {
            wrong.push((at(&output.name), message));
        }
    }
    for (setting, message) in wrong {
        reader.refuse(&setting, message);
    }
}

/// Tells why `output` cannot have its path: the `other` output is in its way, or a file that prs writes itself.
fn conflict(spec: &JobSpec, output: &NamedOutput, other: Option<&NamedOutput>) -> Option<String> {
    let path = &*output.path;
    let first = path.split('/').next().unwrap_or_default();
    let checked = check_named_file(first).and_then(|()| check_output_name(&with_some_id(path), usize::MAX));
    if let Err(message) = checked {
        return Some(message);
    }
    if spec.output_action == OutputAction::AppendRow && first == spec.append_row_file_name {
        return Some(format!(
            "the rows go into {first}, so the script cannot write there: give it another path"
        ));
    }
    other.map(|other| {
        format!(
            "{path} is, or is in, the output {} at {}: give each a place of its own",
            other.name, other.path
        )
    })
}

/// Whether `name` may stand in a reference to a side input.
pub(super) fn is_side_input_name(name: &str) -> bool {
    name.len() <= 200 && is_identifier(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_output() {
        for (given, expected) in [
            ("a", Ok("a")),
            ("./a/b/", Ok("a/b")),
            (".", Ok("")),
            ("/a", Err("an absolute path")),
            ("a/../../b", Err("leads out of it")),
            ("s3://bucket/a", Err("is no path")),
            ("a/${{ name }}", Ok("a/${{name}}")),
            ("${{inputs.x}}", Err("is no path")),
        ] {
            match (below_output(given), expected) {
                (path, Ok(expected)) => assert_eq!(path.as_deref(), Ok(expected), "{given}"),
                (path, Err(part)) => assert!(path.unwrap_err().contains(part), "{given}"),
            }
        }
    }

    #[test]
    fn folders_are_there_and_files_are_not() {
        let output = |path: &str, is_file| NamedOutput { name: "x".into(), path: path.into(), is_file };
        let outputs =
            [output("a/b", false), output("c/d.txt", true), output("e.txt", true), output("", false)];
        assert_eq!(kept_folders(&outputs), ["a", "a/b", "c"]);
        assert_eq!(outputs.map(|output| output.below("/p")), ["/p/a/b", "/p/c/d.txt", "/p/e.txt", "/p"]);
    }
}
