//! Data of a v2 parallel job beside its `input_data`: side inputs, whole on every node (dialects A.3).
//!
//! The input that is cut into mini-batches is one too where the script is given its path.

use std::fs;
use std::path::Path;

use super::super::fence;
use super::super::yaml::{self, Key, Node, Value};
use super::RawSetting;
use super::bindings::{Bound, Data, Input};
use super::parallel::Lift;
use crate::dataset::remote::is_remote;
use crate::dataset::step_output::StepOutput;

impl Lift<'_, '_> {
    /// Takes the data among `inputs` that nodes are to have whole.
    pub(super) fn side_inputs(&mut self, inputs: &[Input], file: &Path) {
        let input_data = self.scope.input_data.unwrap_or_default();
        let mut entries = Vec::new();
        for input in inputs {
            let Bound::Data(data) = &input.bound else { continue };
            if input.at.key == input_data {
                if !self.uses.input_data.get() {
                    continue;
                }
                let message =
                    "the script is given its path, so every node fetches all of it, beside its mini-batches";
                self.fields.note(&input.at, message);
            } else {
                data.judge_mode_of_side_input(&mut self.fields);
            }
            let path = match path_of(data, file) {
                Ok(path) => path,
                Err(message) => {
                    self.fields.refuse(&data.path, message);
                    continue;
                }
            };
            let line = data.path.line.or(input.at.line).unwrap_or(1);
            let key = |name: &str| Key { name: name.to_owned(), line };
            let mode = if data.is_direct() && input.at.key != input_data { "direct" } else { "upload" };
            let fields = vec![
                (key("path"), Node::text(path, data.path.line)),
                (key("mode"), Node::text(mode, data.path.line)),
            ];
            entries.push((key(&input.at.key), Node { line: input.at.line, value: Value::Mapping(fields) }));
            let place = data.path.shown.trim_start_matches("--set ").to_owned();
            self.raw.places.push((format!("side_inputs.{}.path", input.at.key), place));
            self.raw.places.push((format!("side_inputs.{}", input.at.key), input.at.shown.clone()));
        }
        if !entries.is_empty() {
            let value = Node { line: None, value: Value::Mapping(entries) };
            let shown = "side_inputs".to_owned();
            let setting = RawSetting { key: shown.clone(), shown, line: None, value };
            self.raw.add(setting, self.fields.problems());
        }
    }
}

/// The path of `data`.
fn path_of(data: &Data, file: &Path) -> Result<String, String> {
    let path = data.path.value.as_text();
    let path = path.ok_or_else(|| format!("{} where a path is expected", data.path.value.describe()))?;
    if let Some(message) = data.unlisted() {
        return Err(message.to_owned());
    }
    if is_remote(path) || StepOutput::parse(path).is_some() {
        // The folder, as `mltable.load()` wants it and as a local one comes.
        let folder = path.strip_suffix("/MLTable").filter(|_| data.kind == "mltable");
        return Ok(folder.map_or_else(|| path.to_owned(), |folder| format!("{folder}/")));
    }
    let local = file.with_file_name(path);
    if !fence::pass(&local, path) {
        return Ok(path.to_owned());
    }
    if data.kind == "uri_file" && local.is_dir() {
        return Err(format!("{path} is a folder: give type: uri_folder"));
    }
    if data.kind != "mltable" || !local.exists() {
        return Ok(path.to_owned());
    }
    let folder = if local.is_file() { local.parent().unwrap_or(&local) } else { &local };
    let table = folder.join("MLTable");
    let text =
        fs::read_to_string(&table).map_err(|error| format!("cannot read {}: {error}", table.display()))?;
    if let Some(outside) = names_outside(&text).filter(|_| !data.is_direct()) {
        return Err(format!(
            "{} names {outside}, which is not in its folder, so nodes would not have it: put it there, or make it a \
             side input of its own",
            table.display()
        ));
    }
    Ok(folder.join(".").to_string_lossy().into_owned())
}

/// A local path in an `MLTable` that leads out of its folder.
pub(in super::super) fn names_outside(text: &str) -> Option<String> {
    let document = yaml::parse(text).ok()?;
    let Value::Sequence(items) = &document.get("paths")?.value else { return None };
    let named = items.iter().filter_map(|item| match &item.value {
        Value::Mapping(entries) => entries.first().and_then(|(_, value)| value.as_text()),
        _ => item.as_text(),
    });
    let leads_out = |path: &&str| {
        !path.contains("://") && !path.starts_with("azureml:") && {
            path.starts_with('/') || path.split('/').any(|part| part == "..")
        }
    };
    named.filter(leads_out).map(str::to_owned).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_table_names_is_in_its_folder() {
        for (paths, expected) in [
            ("[{file: ./a.csv}, {folder: b}, {pattern: 'c/*.csv'}, d.csv]", None),
            ("[{file: a.csv}, {file: ../b.csv}]", Some("../b.csv")),
            ("[{folder: /data}]", Some("/data")),
            ("[{file: 's3://bucket/../a'}, {file: 'azureml://datastores/d/paths/a'}]", None),
            ("a", None),
        ] {
            assert_eq!(
                names_outside(&format!("type: mltable\npaths: {paths}\n")).as_deref(),
                expected,
                "{paths}"
            );
        }
    }
}
