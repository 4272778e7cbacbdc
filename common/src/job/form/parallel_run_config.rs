//! The block `parallel_run_config` that azureml's `ParallelRunConfig.save_to_yaml` writes: the native keys, some under
//! other names. What a job needs besides stands beside the block.

use super::super::error::Problem;
use super::super::partition_keys::has_keys;
use super::super::yaml::{Key, Node, Value};
use super::parallel::KEYS_WIN;
use super::{RawSetting, RawSettings};

/// The key of the block.
pub(super) const BLOCK: &str = "parallel_run_config";

/// Keys of the block that are native ones under another name.
const RENAMED: [(&str, &str); 3] = [
    ("compute_target_name", "compute_target"),
    ("environment_name", "environment"),
    ("environment_dir_path", "environment"),
];

/// Takes the keys of the block `value`.
pub(super) fn lift(key: Key, value: Node, raw: &mut RawSettings, problems: &mut Vec<Problem>) {
    let Value::Mapping(block) = value.value else {
        let message = format!(
            "{} where the settings of a ParallelRunConfig belong: put the content of that file here",
            value.describe()
        );
        problems.push(Problem { key: key.name, line: Some(key.line), message });
        return;
    };
    let names_keys = |(key, value): &(Key, Node)| {
        key.name == "partition_keys" && has_keys(&parameter_default(value.clone()))
    };
    let keys_count = block.iter().any(names_keys);
    for (key, value) in block {
        let native = RENAMED.iter().find(|(given, _)| *given == key.name);
        let native = native.map_or(key.name.as_str(), |(_, native)| native).to_owned();
        let shown = format!("{BLOCK}.{}", key.name);
        let value = parameter_default(value);
        let setting = RawSetting { key: native, shown, line: Some(key.line), value };
        if keys_count && setting.key == "mini_batch_size" && !setting.value.is_null() {
            raw.note(&setting, KEYS_WIN);
        } else {
            raw.add(setting, problems);
        }
    }
}

/// A pipeline parameter stands for its default value.
fn parameter_default(value: Node) -> Node {
    match value.get("default_value") {
        Some(default) => default.clone(),
        None => value,
    }
}
