//! `partition_keys`: columns of all inputs; what has the same values in them is one mini-batch (spec D3).
//!
//! Where all are columns of `partition_format`, which files go together shows in their paths. Any other one is a column of
//! the data of a table, and the rows are put together first: see [`shuffle`](super::shuffle).

use std::collections::HashSet;

use super::counting::counted_window;
use super::near_name::few;
use super::reader::Reader;
use super::spec::JobSpec;
use super::yaml::{Node, Value};
use crate::dataset::input::{Input, InputKind};

const KEY: &str = "partition_keys";
const SIZE: &str = "mini_batch_size";
const SPLIT: &str = "split_failed";

/// Reads the keys, a list or a text with one in JSON, into `spec`, which has its inputs.
pub(super) fn read(reader: &mut Reader<'_>, spec: &mut JobSpec) {
    let is_unread =
        |input: &&Input| input.mltable.as_ref().is_some_and(|table| table.is_unread) && has_any(reader);
    if let (Some(setting), Some(input)) = (reader.get(KEY), spec.inputs.iter().find(is_unread)) {
        let message = format!(
            "the MLTable of input {} is written by another step, so its columns are not known yet: remove partition_keys, or \
             give the folder with type: uri_folder",
            input.name
        );
        return reader.refuse(&setting, message);
    }
    if let Some(setting) = reader.get(KEY) {
        let given = match names(&setting.value) {
            Ok(given) => given,
            Err(message) => return reader.refuse(&setting, message),
        };
        let mut seen = HashSet::new();
        let problems: Vec<String> = given
            .iter()
            .filter_map(|name| {
                if name.trim().is_empty() {
                    Some("a key is empty: give the name of a column".to_owned())
                } else if !seen.insert(name) {
                    Some(format!("{name:?} is there twice: remove one"))
                } else {
                    spec.inputs.iter().find_map(|input| absent(input, name))
                }
            })
            .collect();
        if !problems.is_empty() {
            return problems.into_iter().for_each(|problem| reader.refuse(&setting, problem));
        }
        spec.partition_keys = given;
        // With keys in the data, rows are counted before they are put together.
        let has_keys = !spec.partition_keys.is_empty();
        let by_paths = has_keys && !spec.needs_shuffle();
        let is_wrong =
            |input: &&Input| by_paths && counts_rows(input) || has_keys && counted_window(input).is_some();
        if let Some(input) = spec.inputs.iter().find(is_wrong) {
            let name = &input.name;
            let message = format!(
                "the MLTable of input {name} has skip or take, which count rows in the order of the files, and \
                 partition_keys put files together: remove one of them"
            );
            reader.refuse(&setting, message);
        }
    }
    let both = reader.get(SIZE).filter(|_| !spec.partition_keys.is_empty());
    if let Some(setting) = both {
        let message =
            "a mini-batch is all that has the same partition_keys, so it has no size: give one of the two";
        reader.refuse(&setting, message);
    }
    let split = reader.get(SPLIT).filter(|_| spec.split_failed && !spec.partition_keys.is_empty());
    if let Some(setting) = split {
        let message =
            "a mini-batch is all that has the same partition_keys, and is not split: remove one of the two";
        reader.refuse(&setting, message);
    }
}

/// Whether rows of the input are left out by their number.
fn counts_rows(input: &Input) -> bool {
    let has_window = input.mltable.as_ref().is_some_and(|table| !table.window.is_everything());
    input.kind == InputKind::Tabular && has_window
}

/// Whether keys are given.
fn has_any(reader: &Reader<'_>) -> bool {
    reader.get(KEY).is_some_and(|setting| has_keys(&setting.value))
}

/// Whether `value` names a key.
pub(super) fn has_keys(value: &Node) -> bool {
    names(value).is_ok_and(|names| !names.is_empty())
}

/// The names in a list, or in a text that is a list in JSON; false is none.
fn names(value: &Node) -> Result<Vec<String>, String> {
    const EXPECTED: &str = "give a list of columns, such as [store, day]";
    let problem = || format!("{} is no list of columns: {EXPECTED}", value.describe());
    match &value.value {
        Value::Null => Ok(Vec::new()),
        Value::Sequence(items) => items
            .iter()
            .map(|item| item.as_text().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| format!("something in it is no text: {EXPECTED}")),
        _ => {
            let text = value.as_text().ok_or_else(problem)?.trim();
            if text.eq_ignore_ascii_case("false") {
                return Ok(Vec::new());
            }
            serde_json::from_str(text).map_err(|_| problem())
        }
    }
}

/// What to say where the paths of `input` have no column `name`.
fn absent(input: &Input, name: &str) -> Option<String> {
    // What columns the data of a table has shows when it is read.
    if input.kind == InputKind::Tabular || input.path_columns().any(|column| column == name) {
        return None;
    }
    let columns: Vec<&str> = input.path_columns().collect();
    let columns = few(columns.into_iter());
    let input_name = &input.name;
    let known = if columns.is_empty() {
        format!("input {input_name} has no partition_format")
    } else {
        format!("the columns that the paths of input {input_name} have are {columns}")
    };
    let remedy = "give one that partition_format has";
    Some(format!("{name:?} is no column of a path, {known}; {remedy}"))
}
