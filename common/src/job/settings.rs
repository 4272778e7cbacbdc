//! `--set key=value`: settings that a submission, or another start of a job, may change (spec P2).
//!
//! An override takes the place of the file's value before anything is judged, so that both are held
//! to the same rules.

use super::error::Problem;
use super::form::RawSettings;
use super::keys;
use super::yaml::Node;

/// The pipeline parameters of azureml, the thresholds, the form of the result, and how long the job is kept.
pub const OVERRIDABLE: [&str; 11] = [
    "mini_batch_size",
    "node_count",
    "process_count_per_node",
    "logging_level",
    "run_invocation_timeout",
    "run_max_try",
    "error_threshold",
    "allowed_failed_count",
    "allowed_failed_percent",
    "output_format",
    "keep",
];

/// What another start of a job may change: how it is run, not what.
pub const RESUMABLE: [&str; 13] = [
    "environment",
    "node_count",
    "process_count_per_node",
    "logging_level",
    "run_invocation_timeout",
    "run_max_try",
    "error_threshold",
    "allowed_failed_count",
    "allowed_failed_percent",
    "task_overhead_timeout",
    "progress_update_timeout",
    "first_task_creation_timeout",
    "keep",
];

/// Puts each override of a start of a job in its place; of two for one key, the last counts.
pub(super) fn apply_to_start(
    raw: &mut RawSettings,
    overrides: &[(String, String)],
    problems: &mut Vec<Problem>,
) {
    for (key, value) in overrides {
        let shown = format!("--set {key}");
        if RESUMABLE.contains(&key.as_str()) {
            raw.replace(key, shown, Node::text(value.trim(), None));
            continue;
        }
        let message = if key == "mini_batch_size" {
            format!(
                "it says which mini-batches there are, and what is done belongs to those of the job: run all of it \
                 anew with prs resubmit JOB --set {key}={}",
                value.trim()
            )
        } else if keys::is_known(key) {
            format!(
                "a job that goes on keeps it: change it in the job file and submit that; resume --set takes {}",
                RESUMABLE.join(", ")
            )
        } else if let Some(nearest) = keys::nearest(key, &RESUMABLE) {
            format!("there is no such key: did you mean `{nearest}`?")
        } else {
            format!("there is no such key; resume --set takes {}", RESUMABLE.join(", "))
        };
        problems.push(Problem { key: shown, line: None, message });
    }
}

/// Puts each override in the place of the file's value; of two for one key, the last counts.
pub(super) fn apply_overrides(
    raw: &mut RawSettings,
    overrides: &[(String, String)],
    problems: &mut Vec<Problem>,
) {
    for (key, value) in overrides {
        let shown = format!("--set {key}");
        if OVERRIDABLE.contains(&key.as_str()) {
            raw.replace(key, shown, Node::text(value.trim(), None));
            continue;
        }
        let message = if keys::is_known(key) {
            format!("the key can only be changed in the job file; --set takes {}", OVERRIDABLE.join(", "))
        } else if let Some(nearest) = keys::nearest(key, &OVERRIDABLE) {
            format!("there is no such key: did you mean `{nearest}`?")
        } else {
            format!("there is no such key; --set takes {}", OVERRIDABLE.join(", "))
        };
        problems.push(Problem { key: shown, line: None, message });
    }
}
