//! The script's arguments: those that prs gives it, those of the job, and the settings among these.
//!
//! azureml has no keys for some of the settings: its job files give them as arguments of the script
//! (`--progress_update_timeout 600`). They count as settings here, and reach the script all the same,
//! as every other argument does, untouched (E11); `--set` changes both. Only whole names count: a beginning of one is
//! the script's own.

use serde_json::Value as Json;

use super::form::RawSetting;
use super::keys::{Argument, JOB, Key};
use super::reader::Reader;
use super::spec::JobSpec;
use super::takes::Takes;
use super::yaml::Node;

/// Flags of ParallelRunStep that are no keys of a job file.
const FLAGS: [&str; 5] = [
    "append_row_dataframe_header",
    "profiling_module",
    ASYNC_MODE,
    "metrics_name_prefix",
    "push_metrics_to_parent",
];
/// Of these, the one that says that the script streams (spec E17). The process reads it.
const ASYNC_MODE: &str = "amlbi_async_mode";
/// Of these, what is about metrics, which there are none of.
const OF_METRICS: [&str; 2] = ["metrics_name_prefix", "push_metrics_to_parent"];
/// Letters of the shortest flag that may be the beginning of another one by mistake.
const SHORTEST_TYPO: usize = 6;

/// Reads `arguments`, and gives `reader` the settings among them.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<String> {
    let given = reader.texts("arguments").unwrap_or_default();
    let texts: Vec<String> =
        given.iter().map(|item| item.value.as_text().unwrap_or_default().to_owned()).collect();
    for (index, (item, text)) in given.iter().zip(&texts).enumerate() {
        let Some((name, joined)) = flag(text) else { continue };
        let value = joined.or_else(|| texts.get(index + 1).map(String::as_str));
        match JOB.find(name) {
            Some(key) if key.argument.is_setting() => setting(reader, item, key, value),
            Some(key) if key.argument == Argument::Given => {
                let message = format!("it is the script's own; the setting of the job is the key `{name}`");
                reader.note(&called(item, name), message);
            }
            _ => other(reader, item, name, value),
        }
    }
    texts
}

/// The name of a flag, and its value where that is in the same word.
fn flag(text: &str) -> Option<(&str, Option<&str>)> {
    let flag = text.strip_prefix("--")?;
    Some(flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value))))
}

/// `item` under the name of the flag that it is.
fn called(item: &RawSetting, name: &str) -> RawSetting {
    RawSetting { shown: format!("{} (--{name})", item.shown), ..item.clone() }
}

/// Has settings among the arguments say what `--set` says.
pub(super) fn follow_overrides(reader: &Reader<'_>, arguments: &mut [String]) {
    for index in 0..arguments.len() {
        let Some((name, joined)) = flag(&arguments[index]) else { continue };
        let Some(key) = JOB.find(name).filter(|key| key.argument.is_setting()) else { continue };
        let Some(given) = reader.get(key.name).filter(|given| given.line.is_none()) else { continue };
        let value = given.value.as_text().unwrap_or_default();
        if joined.is_some() {
            arguments[index] = format!("--{}={value}", key.name);
        } else if let Some(text) = arguments.get_mut(index + 1) {
            value.clone_into(text);
        }
    }
}

/// Takes the argument `item` as the setting `key`.
fn setting(reader: &mut Reader<'_>, item: &RawSetting, key: &Key, value: Option<&str>) {
    let item = called(item, key.name);
    let Some(value) = value else {
        reader.refuse(&item, "the value is missing");
        return;
    };
    // azureml takes both forms of a flag.
    let node = match (value, &key.takes) {
        ("1", Takes::Boolean) => "true",
        ("0", Takes::Boolean) => "false",
        (value, _) => value,
    };
    let node = Node::text(node, item.line);
    let Some(other) = reader.get(key.name) else {
        reader.add(RawSetting { key: key.name.to_owned(), value: node, ..item });
        return;
    };
    match key.takes.read(&node) {
        Err(message) => reader.refuse(&item, message),
        // An override counts where it is not an argument itself; what is wrong with the other one is found when it is
        // read.
        Ok(meant)
            if (other.line.is_some() || item.line.is_none())
                && key.takes.read(&other.value).is_ok_and(|other| other != meant) =>
        {
            let text = other.value.as_text().unwrap_or_default();
            let message = format!("`{}: {text}` and `--{} {value}`: give one value", other.shown, key.name);
            reader.refuse(&item, message);
        }
        Ok(_) => {}
    }
}

/// Judges a flag that is no setting of the job.
fn other(reader: &mut Reader<'_>, item: &RawSetting, name: &str, value: Option<&str>) {
    if name == ASYNC_MODE {
        let is_known = value.is_some_and(|value| {
            ["1", "0", "true", "false"].iter().any(|one| value.eq_ignore_ascii_case(one))
        });
        if !is_known {
            let given = value.map_or("the value is missing".to_owned(), |value| format!("{value:?}"));
            reader.refuse(
                &called(item, name),
                format!("{given}: give true for a script that streams, else false"),
            );
        }
    } else if OF_METRICS.contains(&name) {
        reader.note(&called(item, name), "has no meaning here; ignored");
    } else if let Some(meant) = beginning_of(name) {
        let message = format!("it is the script's own: did you mean --{meant}?");
        reader.note(&called(item, name), message);
    }
}

/// The one flag that `name` is the beginning of, where it is long enough to be meant as that.
fn beginning_of(name: &str) -> Option<&'static str> {
    let settings = JOB.keys.iter().filter(|key| key.argument.is_setting()).map(|key| key.name);
    let mut meant = settings.chain(FLAGS).filter(|flag| flag.starts_with(name) && *flag != name);
    let first = meant.next().filter(|_| name.len() >= SHORTEST_TYPO)?;
    meant.next().is_none().then_some(first)
}

/// The arguments that prs gives the script, in front of those of the job (spec E11). What a key is in one process
/// is in `of_process`, by its name. What the job has among its own arguments is not given twice.
pub fn given_arguments(spec: &JobSpec, of_process: &[(&str, String)]) -> Vec<String> {
    let settings = spec.stored();
    let is_there = |key: &Key| {
        key.argument == Argument::Both
            && spec.arguments.iter().any(|text| flag(text).is_some_and(|(name, _)| name == key.name))
    };
    // With keys, a mini-batch has no size.
    let has_no_size = !spec.partition_keys.is_empty();
    let is_void = |key: &Key| has_no_size && key.name == "mini_batch_size";
    let given = JOB.keys.iter().filter(|key| key.argument.is_given() && !is_there(key) && !is_void(key));
    let values = given.filter_map(|key| {
        let of_process = of_process.iter().find(|(name, _)| *name == key.name);
        let value = of_process.map(|(_, value)| value.clone());
        Some((key.name, value.or_else(|| settings.get(key.name).and_then(text_of))?))
    });
    values.flat_map(|(name, value)| [format!("--{name}"), value]).collect()
}

/// A value of `job.json` as one word; that of a size is its number alone, a list is one in JSON.
fn text_of(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::Array(items) if items.is_empty() => None,
        Json::String(text) => Some(text.clone()),
        Json::Object(entries) => entries.values().next().and_then(text_of),
        other => Some(other.to_string()),
    }
}
