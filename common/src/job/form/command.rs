//! An Azure Machine Learning v2 command job, `type: command`: a file of its own, or the step of a pipeline.
//!
//! It is a job of one node, one process and one item, whose entry script is prs's own
//! (`azureml_user.parallel_run.command`): it runs the command in a copy of the code (dialects K1). Its data are side inputs,
//! its outputs named outputs, and the pieces of the command the arguments of the script.

use std::path::Path;

use super::super::error::Problem;
use super::super::reader::Reader;
use super::super::takes::{INT_MAX, Takes};
use super::super::yaml::{Node, Value};
use super::bindings;
use super::common_keys::{RESOURCES, with_common};
use super::expressions::{Scope, Uses, fill};
use super::parallel::{Around, Lift, NO_MEANING, for_people, names};
use super::shell_computed::{Computed, computed, is_name, is_whole};
use super::shell_places::{Piece, pieces};
use super::{BuiltIn, RawSettings};

/// Keys that other forms do not have, or not all of them.
const OWN_KEYS: [&str; 9] = [
    "command",
    "code",
    "environment",
    "environment_variables",
    "resources",
    "limits",
    "queue_settings",
    "distribution",
    "allow_reuse",
];
/// Names that a shell or a host has for itself.
const RESERVED: [&str; 7] = ["path", "ld_library_path", "user", "logname", "home", "pwd", "shell"];
/// What holds of every command.
const FIXED: [(&str, &str); 6] = [
    ("mini_batch_size", "1"),
    ("node_count", "1"),
    ("process_count_per_node", "1"),
    ("run_max_try", "1"),
    ("error_threshold", "0"),
    ("allowed_failed_count", "0"),
];

/// The keys of the job.
pub(super) fn keys() -> Vec<&'static str> {
    with_common(&OWN_KEYS)
}

/// Lifts a file that is a job by itself.
pub(super) fn lift(document: &Node, file: &Path, raw: &mut RawSettings, problems: &mut Vec<Problem>) {
    let mut fields = Reader::of_mapping("", document, problems);
    names(&mut fields, file, raw);
    job(fields, "", file, &Around::default(), raw);
}

/// Lifts the job whose keys `fields` has, at `place`.
pub(super) fn job(mut fields: Reader<'_>, place: &str, file: &Path, around: &Around, raw: &mut RawSettings) {
    fields.refuse_unknown(&keys(), "a command job");
    for key in ["identity", "services", "queue_settings"] {
        if let Some(setting) = fields.get(key) {
            fields.note(&setting, NO_MEANING);
        }
    }
    if let Some(setting) = fields.get("distribution") {
        fields.refuse(&setting, "a command runs in one process on one node: remove it");
    }
    for_people(&mut fields, raw);
    let inputs = bindings::inputs(&mut fields, None);
    let outputs = bindings::outputs(&mut fields, &[]);
    let at = inputs.iter().map(|input| &input.at).chain(outputs.iter().map(|output| &output.at));
    for at in at.filter(|at| RESERVED.contains(&&*at.key.to_ascii_lowercase())) {
        fields.refuse(at, format!("{} is reserved: give another name", at.key));
    }
    let uses = Uses::default();
    let scope = Scope { inputs: &inputs, parent: None, input_data: Some(""), outputs: &outputs, uses: None };
    let mut lift = Lift::new(fields, scope, &uses, raw);
    for (key, value) in FIXED {
        lift.add(key, key, None, Node::text(value, None));
    }
    if let Some(setting) = lift.fields.get("allow_reuse") {
        lift.give(&setting, "allow_reuse");
    }
    for setting in lift.fields.nested("resources", &RESOURCES) {
        if setting.key != "instance_count" {
            lift.fields.note(&setting, NO_MEANING);
        } else if let Some(value) = lift.evaluated(&setting)
            && value.as_text().is_none_or(|count| count.trim() != "1")
        {
            let message = format!("{}: a command runs on one node: give 1, or remove it", value.describe());
            lift.fields.refuse(&setting, message);
        }
    }
    timeout(&mut lift);
    lift.variables();
    if let Some(compute) = lift.fields.get("compute").or_else(|| around.compute.clone()) {
        lift.compute(&compute);
    }
    if let Some(setting) = lift.fields.get("environment") {
        lift.environment(&setting);
    }
    let code = lift.fields.get("code");
    if let Some(setting) = &code {
        lift.code(setting, file);
    }
    command(&mut lift, place, around);
    lift.side_inputs(&inputs, file);
    lift.outputs(None, &outputs, &[], file);
    lift.finish(BuiltIn::Command { has_code: code.is_some() });
}

/// Takes how long the command may run: without a limit, as long as it takes.
fn timeout(lift: &mut Lift<'_, '_>) {
    let mut is_given = false;
    for setting in lift.fields.nested("limits", &["timeout"]) {
        is_given = true;
        let Some(value) = lift.evaluated(&setting) else { continue };
        match Takes::Whole(1..=INT_MAX, " seconds").read(&value) {
            Ok(_) => lift.add("run_invocation_timeout", &setting.shown, setting.line, value),
            Err(message) => lift.fields.refuse(&setting, message),
        }
    }
    if !is_given {
        lift.add("run_invocation_timeout", "limits.timeout", None, Node::text(INT_MAX.to_string(), None));
    }
    // A command makes no progress that prs could see.
    lift.add("progress_update_timeout", "limits.timeout", None, Node::text(INT_MAX.to_string(), None));
}

/// Takes the command, cut where values stand in it.
fn command(lift: &mut Lift<'_, '_>, place: &str, around: &Around) {
    let dot = if place.is_empty() { "" } else { "." };
    let Some(setting) = lift.fields.get("command") else {
        let message = "the key is missing: give the command to run";
        return lift.fields.refuse_at(&format!("{place}{dot}command"), None, message);
    };
    let Some(text) = setting.value.as_text().filter(|text| !text.trim().is_empty()) else {
        let given = setting.value.describe();
        return lift
            .fields
            .refuse(&setting, format!("{given} is no command: give the text that a shell is to run"));
    };
    let Some(text) = lift.without_groups(&setting, text, around) else { return };
    let found = match pieces(&text) {
        Ok(found) => found,
        Err(message) => return lift.fields.refuse(&setting, message),
    };
    let (line, scope) = (setting.value.line, lift.for_script());
    let mut words = Vec::new();
    let wanted = computed(&found);
    for (piece, wanted) in found.into_iter().zip(wanted) {
        let word = match piece {
            Piece::Text(text) => Ok(format!("t:{text}")),
            Piece::Value(quoting, inside) => scope.value(inside).and_then(|value| {
                fill(value.len())?;
                match wanted {
                    Some(Computed::Number) if !is_whole(&value) => Err(format!(
                        "${{{{{inside}}}}} is compared as a number in [[ ]], where bash would compute with it, and {value:?} is \
                         no whole number: give one, or compare texts with == and !="
                    )),
                    Some(Computed::Name) if !is_name(&value) => Err(format!(
                        "${{{{{inside}}}}} is looked for with -v as a variable, where bash would run what stands in an index, and \
                         {value:?} is no name of one: give a name of letters, digits and _"
                    )),
                    _ => Ok(format!("{}:{value}", quoting.letter())),
                }
            }),
        };
        match word {
            Ok(word) => words.push(Node::text(word, line)),
            Err(message) => lift.fields.refuse(&setting, message),
        }
    }
    lift.add("arguments", &setting.shown, setting.line, Node { line, value: Value::Sequence(words) });
}
