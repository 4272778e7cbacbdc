//! The script's arguments: those that prs gives it, those of the job, and the settings among these.
//!
//! azureml has no keys for some of the settings: its job files give them as arguments of the script
//! (`--progress_update_timeout 600`). They count as settings here, and reach the script all the same,
//! as every other argument does, untouched (E11).

use serde_json::Value as Json;

use super::form::RawSetting;
use super::keys::{Argument, JOB};
use super::reader::Reader;
use super::spec::JobSpec;
use super::takes::Takes;
use super::yaml::Node;

/// Reads `arguments`, and gives `reader` the settings among them.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<String> {
    let given = reader.texts("arguments").unwrap_or_default();
    let texts: Vec<String> =
        given.iter().map(|item| item.value.as_text().unwrap_or_default().to_owned()).collect();
    for (index, (item, text)) in given.iter().zip(&texts).enumerate() {
        if text.contains("${{") {
            let message =
                format!("{text:?}: references (`${{{{ }}}}`) are not supported yet: give the value itself");
            reader.refuse(item, message);
            continue;
        }
        let Some(flag) = text.strip_prefix("--") else { continue };
        let (name, joined) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        let value = joined.or_else(|| texts.get(index + 1).map(String::as_str));
        match JOB.find(name).map(|key| key.argument) {
            Some(Argument::Given) => reader.refuse(
                item,
                format!(
                    "--{name} is reserved: prs gives it to the script from the key `{name}`; use another name"
                ),
            ),
            Some(Argument::Setting) => setting(reader, item, name, value),
            Some(Argument::None) | None => {
                let is_off = value.is_some_and(|value| value.eq_ignore_ascii_case("false"));
                if name == "amlbi_async_mode" && !is_off {
                    reader
                        .refuse(item, "streaming mode (--amlbi_async_mode) is not supported yet: remove it");
                }
            }
        }
    }
    texts
}

/// The arguments that prs gives the script, in front of those of the job (spec E11). What a key is in one process
/// is in `of_process`, by its name.
pub fn given_arguments(spec: &JobSpec, of_process: &[(&str, String)]) -> Vec<String> {
    let settings = spec.stored();
    let given = JOB.keys.iter().filter(|key| key.argument == Argument::Given);
    let values = given.filter_map(|key| {
        let of_process = of_process.iter().find(|(name, _)| *name == key.name);
        let value = of_process.map(|(_, value)| value.clone());
        Some((key.name, value.or_else(|| settings.get(key.name).and_then(text_of))?))
    });
    values.flat_map(|(name, value)| [format!("--{name}"), value]).collect()
}

/// A value of `job.json` as one word; that of a size is its number alone.
fn text_of(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        Json::Object(entries) => entries.values().next().and_then(text_of),
        other => Some(other.to_string()),
    }
}

/// Takes the argument `item` as the setting `name`.
fn setting(reader: &mut Reader<'_>, item: &RawSetting, name: &str, value: Option<&str>) {
    let shown = format!("{} (--{name})", item.shown);
    if let Some(other) = reader.get(name) {
        reader.refuse_at(&shown, item.line, format!("it is also given as `{}`: keep one", other.shown));
        return;
    }
    let Some(value) = value else {
        reader.refuse_at(&shown, item.line, "the value is missing");
        return;
    };
    // azureml takes both forms of a flag.
    let value = match (value, JOB.find(name).map(|key| &key.takes)) {
        ("1", Some(Takes::Boolean)) => "true",
        ("0", Some(Takes::Boolean)) => "false",
        (value, _) => value,
    };
    let value = Node::text(value, item.line);
    reader.add(RawSetting { key: name.to_owned(), shown, line: item.line, value });
}
