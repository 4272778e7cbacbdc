//! The script's arguments, and the settings among them.
//!
//! azureml has no keys for some of the settings: its job files give them as arguments of the script
//! (`--progress_update_timeout 600`). They count as settings here, and reach the script all the same,
//! as every other argument does, untouched (E11).

use super::form::RawSetting;
use super::reader::Reader;
use super::yaml::Node;

/// Arguments that prs gives the script itself, from the key of the same name.
const RESERVED: [&str; 12] = [
    "mini_batch_size",
    "error_threshold",
    "allowed_failed_count",
    "allowed_failed_percent",
    "output",
    "output_action",
    "logging_level",
    "process_count_per_node",
    "run_invocation_timeout",
    "run_max_try",
    "append_row_file_name",
    "partition_keys",
];

/// Arguments that are settings.
pub const SETTINGS: [&str; 5] = [
    "task_overhead_timeout",
    "progress_update_timeout",
    "first_task_creation_timeout",
    "resource_monitor_interval",
    "copy_logs_to_parent",
];

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
        if RESERVED.contains(&name) {
            let message = format!(
                "--{name} is reserved: prs gives it to the script from the key `{name}`; use another name"
            );
            reader.refuse(item, message);
        } else if name == "amlbi_async_mode" {
            if value.is_none_or(|value| !value.eq_ignore_ascii_case("false")) {
                reader.refuse(item, "streaming mode (--amlbi_async_mode) is not supported yet: remove it");
            }
        } else if SETTINGS.contains(&name) {
            setting(reader, item, name, value);
        }
    }
    texts
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
    let mut value = Node::text(value, item.line);
    if let super::yaml::Value::Scalar { text, kind } = &mut value.value
        && text.eq_ignore_ascii_case("false")
    {
        *kind = super::yaml::ScalarKind::Boolean;
    }
    reader.add(RawSetting { key: name.to_owned(), shown, line: item.line, value });
}
