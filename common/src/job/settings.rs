//! `--set key=value`: settings that a submission, or another start of a job, may change (spec P2).
//!
//! An override takes the place of the file's value before anything is judged, so that both are held
//! to the same rules, and names in both stand for the same. The table of keys says which there are.

use super::error::Problem;
use super::form::RawSettings;
use super::keys::{JOB, Start, settable};
use super::near_name::nearest;
use super::yaml::Node;

/// Puts each override in the place of the file's value; of two for one key, the last counts.
pub(super) fn apply_overrides(
    raw: &mut RawSettings,
    start: Start,
    overrides: &[(String, String)],
    problems: &mut Vec<Problem>,
) {
    for (key, value) in overrides {
        let shown = format!("--set {key}");
        match refusal(start, key, value.trim()) {
            None => {
                let value = raw.names.resolved(key, Node::text(value.trim(), None));
                raw.replace(key, shown, value);
            }
            Some(message) => problems.push(Problem { key: shown, line: None, message }),
        }
    }
}

/// Why `key` cannot be set at such a start; nothing where it can.
fn refusal(start: Start, key: &str, value: &str) -> Option<String> {
    let known = settable(start);
    let option = if start == Start::Submission { "--set" } else { "resume --set" };
    let takes = format!("{option} takes {}", known.join(", "));
    Some(match (JOB.find(key), nearest(key, &known)) {
        (Some(key), _) if key.is_settable(start) => return None,
        (Some(_), _) if start == Start::Submission => {
            format!("the key can only be changed in the job file; {takes}")
        }
        (Some(_), _) if key == "mini_batch_size" => format!(
            "it says which mini-batches there are, and what is done belongs to those of the job: run all of it anew \
             with prs resubmit JOB --set {key}={value}"
        ),
        (Some(_), _) => {
            format!("`resume` keeps it: change it in the job file and submit that; {takes}")
        }
        (None, Some(near)) => format!("there is no such key: did you mean `{near}`?"),
        (None, None) => format!("there is no such key; {takes}"),
    })
}
