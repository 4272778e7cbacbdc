//! `show`: the settings of a job as they were understood.

use std::process::ExitCode;

use prs_common::timestamp::format_us;
use serde_json::{Value, json};

use crate::cli::{Format, Job};
use crate::failure::{Code, Failure};
use crate::output;
use crate::place::{Place, Seen};

/// Shows the settings of a job.
pub(super) async fn show(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let Seen { record, .. } = Place::find(job).await?.look().await?;
    let shown = json!({
        "job_id": record.job_id,
        "state": record.state,
        "submitted": format_us(record.submitted_us),
        "incarnation": record.incarnation,
        "version": record.prs_version,
        "spec": record.spec,
    });
    if format == Format::Json {
        output::json(&shown)?;
    } else {
        let mut text = String::new();
        // The order in which people ask.
        for key in ["job_id", "state", "submitted", "incarnation", "version", "spec"] {
            entry(key, &shown[key], 0, &mut text);
        }
        output::text(&text)?;
    }
    Ok(Code::Completed.into())
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
        // Flow style is YAML too; no setting has lists in lists but `dtype`, whose pairs are short.
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
