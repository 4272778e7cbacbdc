//! A former job as a job file, which can be submitted as it is.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use prs_common::dataset::http_url::shown;
use prs_common::dataset::input::Compression;
use prs_common::dataset::mltable::Encoding;
use prs_common::job::keys::{JOB, Key, THRESHOLDS};
use prs_common::job::pipeline;
use prs_common::job::{
    Input, InputMode, InputSource, JobSpec, NamedAsset, NamedOutput, SideInput, TableFormat, TabularOptions,
    hide_secret_variables,
};
use prs_common::ledger::JobState;
use prs_common::timestamp::format_us;
use prs_orchestrator::JobRecord;
use prs_orchestrator::job::record::PipelinePlan;
use prs_orchestrator::job::words;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::homes::{self, Seen, Whereabouts};
use crate::records::{Shown, Step};

/// The keys that say something of a pipeline itself.
const OF_PIPELINES: [&str; 6] =
    ["name", "display_name", "description", "experiment_name", "tags", "properties"];

/// A job as it was submitted, with what there is to know of it.
#[derive(Debug)]
pub struct JobFile {
    record: JobRecord,
    steps: Option<Vec<Step>>,
    /// What is done with its rows before it runs, in words.
    preparation: Option<&'static str>,
}

/// The settings of the job that is called so.
pub async fn show(name: &str, whereabouts: &Whereabouts) -> Result<JobFile, Failure> {
    let Seen { record, .. } = Box::pin(homes::find(name, whereabouts)).await?.look().await?;
    let steps = match &record.pipeline {
        Some(plan) => Some(steps(&record.job_id, plan, &states_of_steps(name, whereabouts).await?)),
        None => None,
    };
    let preparation = record.pipeline.as_deref().and_then(|plan| plan.pipeline.preparation());
    Ok(JobFile { record: record.as_given(), steps, preparation })
}

impl JobFile {
    /// The same without the values of environment variables whose names speak of secrets: for readers of other users' jobs.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        hide_secret_variables(&mut self.record.spec.environment_variables);
        self
    }

    /// A file that can be submitted as it is, YAML.
    pub fn text(&self) -> String {
        job_file(&self.record, self.steps.as_deref(), self.preparation)
    }

    /// The settings as they are stored, for programs.
    pub fn record(self) -> Shown {
        let Self { record, steps, .. } = self;
        Shown {
            steps,
            job_id: record.job_id,
            state: record.state,
            submitted_at: format_us(record.submitted_us),
            reused_from: record.result.and_then(|result| result.reused),
            start: record.incarnation,
            version: record.prs_version,
            spec: JobSpec { graph: None, ..record.spec },
        }
    }
}

/// The states of the steps that have begun, by the ids of their jobs.
async fn states_of_steps(
    name: &str,
    whereabouts: &Whereabouts,
) -> Result<HashMap<String, JobState>, Failure> {
    let mut states = HashMap::new();
    for step in homes::steps_of(name, whereabouts).await? {
        let Seen { record, .. } = step.look().await?;
        // On a fleet a step that waits has a record, too.
        if record.parent.is_some_and(|parent| parent.start > 0) {
            states.insert(record.job_id, record.state);
        }
    }
    Ok(states)
}

/// The job as a job file. What the reader should know of it stands in comments.
fn job_file(record: &JobRecord, steps: Option<&[Step]>, preparation: Option<&str>) -> String {
    let JobRecord { job_id, state, spec, .. } = record;
    let mut text = format!("# {job_id}: {}, submitted {}\n", state.as_str(), format_us(record.submitted_us));
    if let Some(reused) = record.result.as_ref().and_then(words::reused) {
        text.extend(["# Given ", &reused, " (allow_reuse).\n"]);
    }
    for NamedAsset { kind, given, name, version, path, .. } in &spec.named_data {
        let of = [" of ", kind.noun(), " ", name, ": ", path, "\n"].concat();
        text.extend(["# ", given, " was version ", version, &of]);
    }
    if let Some(steps) = steps {
        let told = preparation.map_or_else(
            || "A pipeline, which is submitted again with its file. Each of its steps is a job".to_owned(),
            |words| format!("Its {words} before it runs. Each step of that is a job"),
        );
        text.extend(["# ", &told, ":\n"]);
        for Step { job_id, needs, state, .. } in steps {
            let state = state.map_or("has not begun", JobState::as_str);
            let after =
                if needs.is_empty() { String::new() } else { format!(", after {}", needs.join(", ")) };
            text.extend(["#   prs show ", job_id, "  # ", state, &after, "\n"]);
        }
    }
    if steps.is_some() && preparation.is_none() {
        for (key, value) in settings(spec).into_iter().filter(|(key, _)| OF_PIPELINES.contains(key)) {
            entry(key, &value, 0, &mut text);
        }
        return text;
    }
    if !spec.source_directory.is_dir() {
        text.push_str("# source_directory is not on this machine, but the job has its code:\n");
        text.extend(["#   prs resubmit ", job_id, "\n"]);
    }
    for (key, value) in settings(spec) {
        entry(key, &value, 0, &mut text);
        if key == "run_max_try" {
            // What Azure's forms count.
            text.insert_str(
                text.len() - 1,
                &format!("  # max_retries {}", spec.run_max_try.saturating_sub(1)),
            );
        }
    }
    if let Some(folder) = &spec.output {
        // A job fills an empty folder, or one that is not there yet.
        let is_filled = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if is_filled {
            text.push_str("# The folder is filled; name another one:\n# ");
        }
        entry("output", &json!(folder), 0, &mut text);
    }
    if let Some(place) = &spec.deliver_to {
        text.push_str("# The place has a result now, or will; name another one:\n# ");
        entry("output", &json!(place), 0, &mut text);
    }
    text
}

/// The steps of the pipeline `job_id`, of which those in `states` have begun.
fn steps(job_id: &str, plan: &PipelinePlan, states: &HashMap<String, JobState>) -> Vec<Step> {
    let step = |step: &pipeline::Step| {
        let job_id = pipeline::step_id(job_id, &step.name);
        let state = states.get(&job_id).copied();
        Step { name: step.name.clone(), job_id, needs: step.needs.clone(), state }
    };
    plan.pipeline.steps.iter().map(step).collect()
}

/// The keys of a job file that mean `spec`, but for `output`. Absent is what has no value, what can have one value alone,
/// and what was given in `arguments`.
pub(crate) fn settings(spec: &JobSpec) -> Vec<(&'static str, Value)> {
    let stored = spec.stored();
    let is_argument = |key: &Key| {
        let flag = format!("--{}", key.name);
        key.argument.is_setting()
            && spec.arguments.iter().any(|argument| argument.split('=').next() == Some(&flag))
    };
    let is_threshold = |key: &Key| THRESHOLDS.contains(&key.name);
    let keys = JOB.keys.iter().filter(|key| key.name != "output");
    let keys = keys.filter(|key| !is_argument(key) && (spec.failures_allowed || !is_threshold(key)));
    let settings = keys.filter_map(|key| {
        let value = match key.name {
            // All that has the same values is one mini-batch.
            "mini_batch_size" if !spec.partition_keys.is_empty() => return None,
            "mini_batch_size" => json!(spec.mini_batch_size.amount()),
            "inputs" => Value::Array(spec.inputs.iter().map(input).collect()),
            "model" => side_input(spec.model.as_ref()?).1,
            "side_inputs" => written(spec.side_inputs.iter().map(side_input))?,
            "outputs" => written(spec.outputs.iter().map(named_output))?,
            name => key.takes.written(stored.get(name)?)?,
        };
        Some((key.name, value))
    });
    settings.collect()
}

/// A mapping, where there is something in it.
fn written(entries: impl Iterator<Item = (String, Value)>) -> Option<Value> {
    let entries: Map<String, Value> = entries.collect();
    (!entries.is_empty()).then_some(Value::Object(entries))
}

/// One side input, as a job file names it.
fn side_input(side_input: &SideInput) -> (String, Value) {
    let path = side_input.named();
    let value = match side_input.mode {
        InputMode::Upload => json!(path),
        InputMode::Direct => json!({ "path": path, "mode": "direct" }),
    };
    (side_input.name.clone(), value)
}

/// One output that the script knows by name, as a job file names it.
fn named_output(NamedOutput { name, path, is_file }: &NamedOutput) -> (String, Value) {
    // The output itself.
    let path = if path.is_empty() { "." } else { path };
    (name.clone(), if *is_file { json!({ "type": "uri_file", "path": path }) } else { json!(path) })
}

/// One input, as a job file names it.
fn input(input: &Input) -> Value {
    let Input { name, kind, source, mode, tabular, mltable, partition_format, exclusions } = input;
    let mut keys = Map::from_iter([("name".to_owned(), json!(name)), ("type".to_owned(), json!(kind))]);
    let (key, value) = match mltable {
        Some(table) => ("path", json!(table.path)),
        None => source_as_named(source),
    };
    keys.insert(key.to_owned(), value);
    if *mode == InputMode::Direct {
        keys.insert("mode".to_owned(), json!("direct"));
    }
    if !exclusions.ignore.is_empty() {
        keys.insert("ignore".to_owned(), json!(exclusions.ignore));
    }
    if let Some(format) = partition_format.as_ref().filter(|_| mltable.is_none()) {
        keys.insert("partition_format".to_owned(), json!(format));
    }
    if let Some(options) = tabular {
        let TabularOptions {
            format,
            delimiter,
            has_header,
            encoding,
            compression,
            null_values,
            add_null_values,
            dtype,
            infer,
            columns,
            split_row_groups,
        } = options;
        if let Some(format) = format.filter(|_| mltable.is_none()) {
            keys.insert("format".to_owned(), json!(format));
        }
        if mltable.is_none() && format.is_none_or(|format| format == TableFormat::Delimited) {
            keys.insert("delimiter".to_owned(), json!(char::from(*delimiter).to_string()));
            keys.insert("header".to_owned(), json!(has_header));
            if let Some(texts) = null_values {
                keys.insert("null_values".to_owned(), json!(texts));
            }
            if !add_null_values.is_empty() {
                keys.insert("add_null_values".to_owned(), json!(add_null_values));
            }
            if !dtype.is_empty() {
                let types: BTreeMap<&String, &String> =
                    dtype.iter().map(|(name, kind)| (name, kind)).collect();
                keys.insert("dtype".to_owned(), json!(types));
            }
        }
        if mltable.is_none() && *format != Some(TableFormat::Parquet) {
            keys.insert("infer".to_owned(), json!(infer));
        }
        if *encoding != Encoding::default() {
            keys.insert("encoding".to_owned(), json!(encoding));
        }
        if *compression != Compression::default() {
            keys.insert("compression".to_owned(), json!(compression));
        }
        if let Some(columns) = columns {
            keys.insert("columns".to_owned(), json!(columns));
        }
        if *split_row_groups {
            keys.insert("split_row_groups".to_owned(), json!(true));
        }
    }
    Value::Object(keys)
}

/// The key that names the files of an input, and its value.
fn source_as_named(source: &InputSource) -> (&'static str, Value) {
    match source {
        InputSource::Paths(paths) => of_paths(paths),
        // Without what may be a password.
        InputSource::Remote(urls) => {
            of_paths(&urls.iter().map(|url| shown(url).into_owned()).collect::<Vec<_>>())
        }
        InputSource::List(path) => ("list", json!(Path::new(path))),
        InputSource::Manifest { named: Some(named), .. } => source_as_named(named),
        InputSource::Manifest { label, named: None, .. } => ("path", json!(label)),
        source @ (InputSource::Output(_) | InputSource::OneItem) => ("path", json!(source.label())),
    }
}

fn of_paths(paths: &[String]) -> (&'static str, Value) {
    match paths {
        [path] => ("path", json!(path)),
        paths => ("paths", json!(paths)),
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
