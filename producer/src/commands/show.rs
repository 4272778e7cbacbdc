//! `show`: a former job as a job file, which can be submitted as it is.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use prs_common::job::keys::{Argument, JOB, Key, THRESHOLDS};
use prs_common::job::{Input, InputMode, InputSource, JobSpec, TabularOptions};
use prs_common::ledger::JobState;
use prs_common::timestamp::format_us;
use prs_orchestrator::JobRecord;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cli::{Format, Job};
use crate::failure::{Code, Failure};
use crate::output;
use crate::place::{Place, Seen};
use crate::records::SCHEMA;

/// What `show -o json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Shown {
    /// The form of this object.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: u32,
    /// Id of the job.
    job_id: String,
    /// Its state.
    #[cfg_attr(test, schemars(schema_with = "crate::records::schema::states"))]
    state: JobState,
    /// When it was submitted: UTC, RFC 3339.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    submitted: String,
    /// Which start of the job this is: 1, and one more with each `resume`.
    start: u32,
    /// The version of prs that wrote the settings.
    version: String,
    /// The settings as that version has them.
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, Value>"))]
    spec: JobSpec,
}

/// Prints the settings of a job: for people as a job file, for programs as they are stored.
pub(super) async fn show(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let Seen { record, .. } = Place::find(job).await?.look().await?;
    match format {
        Format::Json => output::json(&Shown {
            schema: SCHEMA,
            job_id: record.job_id,
            state: record.state,
            submitted: format_us(record.submitted_us),
            start: record.incarnation,
            version: record.prs_version,
            spec: record.spec,
        })?,
        Format::Table => output::text(&job_file(&record))?,
    }
    Ok(Code::Completed.into())
}

/// The job as a job file. What the reader should know of it stands in comments.
fn job_file(record: &JobRecord) -> String {
    let JobRecord { job_id, state, spec, .. } = record;
    let mut text = format!("# {job_id}: {}, submitted {}\n", state.as_str(), format_us(record.submitted_us));
    if !spec.source_directory.is_dir() {
        text.push_str("# source_directory is not on this machine, but the job has its code:\n");
        text.extend(["#   prs resubmit ", job_id, "\n"]);
    }
    for (key, value) in settings(spec) {
        entry(key, &value, 0, &mut text);
    }
    if let Some(folder) = &spec.output {
        // A job fills an empty folder, or one that is not there yet.
        let is_filled = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if is_filled {
            text.push_str("# The folder is filled; name another one:\n# ");
        }
        entry("output", &json!(folder), 0, &mut text);
    }
    text
}

/// The keys of a job file that mean `spec`, but for `output`. Absent is what has no value, what can have one value alone,
/// and what was given in `arguments`.
fn settings(spec: &JobSpec) -> Vec<(&'static str, Value)> {
    let stored = spec.stored();
    let is_argument = |key: &Key| {
        let flag = format!("--{}", key.name);
        key.argument == Argument::Setting
            && spec.arguments.iter().any(|argument| argument.split('=').next() == Some(&flag))
    };
    let is_threshold = |key: &Key| THRESHOLDS.contains(&key.name);
    let keys = JOB.keys.iter().filter(|key| key.name != "output" && key.not_built.is_none());
    let keys = keys.filter(|key| !is_argument(key) && (spec.failures_allowed || !is_threshold(key)));
    let settings = keys.filter_map(|key| {
        let value = match key.name {
            "mini_batch_size" => json!(spec.mini_batch_size.amount()),
            "inputs" => Value::Array(spec.inputs.iter().map(input).collect()),
            name => key.takes.written(stored.get(name)?)?,
        };
        Some((key.name, value))
    });
    settings.collect()
}

/// One input, as a job file names it.
fn input(input: &Input) -> Value {
    let Input { name, kind, source, mode, tabular } = input;
    let mut keys = Map::from_iter([("name".to_owned(), json!(name)), ("type".to_owned(), json!(kind))]);
    let (key, value) = source_as_named(source);
    keys.insert(key.to_owned(), value);
    if *mode == InputMode::Direct {
        keys.insert("mode".to_owned(), json!("direct"));
    }
    if let Some(TabularOptions { delimiter, has_header, dtype, infer }) = tabular {
        // Only files of delimited text are read, whatever they are called.
        keys.insert("format".to_owned(), json!("delimited"));
        keys.insert("delimiter".to_owned(), json!(char::from(*delimiter).to_string()));
        keys.insert("header".to_owned(), json!(has_header));
        keys.insert("infer".to_owned(), json!(infer));
        if !dtype.is_empty() {
            let types: BTreeMap<&String, &String> = dtype.iter().map(|(name, kind)| (name, kind)).collect();
            keys.insert("dtype".to_owned(), json!(types));
        }
    }
    Value::Object(keys)
}

/// The key that names the files of an input, and its value.
fn source_as_named(source: &InputSource) -> (&'static str, Value) {
    match source {
        InputSource::Paths(paths) | InputSource::Remote(paths) => match paths.as_slice() {
            [path] => ("path", json!(path)),
            paths => ("paths", json!(paths)),
        },
        InputSource::List(path) => ("list", json!(Path::new(path))),
        InputSource::Manifest { named: Some(named), .. } => source_as_named(named),
        InputSource::Manifest { label, named: None, .. } => ("path", json!(label)),
    }
}

/// One key of a mapping, as YAML.
fn entry(key: &str, value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    text.extend([&*indent, &plain(key), ":"]);
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            text.push('\n');
            for (key, value) in entries {
                entry(key, value, depth + 1, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            for item in items {
                element(item, depth + 1, text);
            }
        }
        scalar => text.extend([" ", &of_scalar(scalar), "\n"]),
    }
}

/// One element of a list, as YAML.
fn element(item: &Value, depth: usize, text: &mut String) {
    let start = text.len();
    match item {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                entry(key, value, depth + 1, text);
            }
            // The dash stands where the first key is indented.
            let dash = start + 2 * depth;
            text.replace_range(dash..dash + 2, "- ");
        }
        // Flow style is YAML too; no setting has lists in lists.
        other => text.extend([&*"  ".repeat(depth), "- ", &of_scalar(other), "\n"]),
    }
}

fn of_scalar(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

/// Text as it stands where YAML reads it back as this text, quoted elsewhere.
fn plain(text: &str) -> String {
    let begins =
        text.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || "/._".contains(first));
    let safe = text.chars().all(|each| each.is_ascii_alphanumeric() || "/._- ".contains(each));
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    let number = text.parse::<f64>().is_ok() || text.starts_with('.');
    if begins && safe && !word && !number && !text.ends_with(' ') {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_shown_as_yaml() {
        let value = json!({
            "name": "job-1",
            "empty": [],
            "none": null,
            "arguments": ["--rate", "1e-3", "two words", "a: b"],
            "inputs": [{ "name": "input_1", "source": { "paths": ["/data"] } }],
            "environment_variables": { "ON": "yes", "N": "7" },
        });
        let mut text = String::new();
        for key in ["name", "empty", "none", "arguments", "inputs", "environment_variables"] {
            entry(key, &value[key], 0, &mut text);
        }
        let expected = r#"name: job-1
empty: []
none: null
arguments:
  - "--rate"
  - "1e-3"
  - two words
  - "a: b"
inputs:
  - name: input_1
    source:
      paths:
        - /data
environment_variables:
  "N": "7"
  "ON": "yes"
"#;
        assert_eq!(text, expected);
    }
}
