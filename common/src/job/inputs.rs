//! `inputs`: what each names, and that it is there.
//!
//! What is looked at on disk is the first file of each path only; the whole listing is made when the
//! job is planned. Nothing is connected to: whether an `s3://` input is there shows when it is listed.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value as Json;

use super::form::RawSetting;
use super::keys::{INPUT, JOB};
use super::near_path;
use super::reader::Reader;
use super::validate::{absolute, is_identifier, refuse_elsewhere};
use super::yaml::{Node, Value};
use crate::dataset::input::{Input, InputKind, InputSource, TabularOptions};
use crate::dataset::listing::{self, ListingError};
use crate::dataset::remote::{self, RemotePath};

/// Names of column types that the reader of delimited text knows.
const DTYPES: [&str; 9] = ["int64", "int", "uint64", "float64", "float", "bool", "str", "string", "object"];

/// Reads `inputs`. One without a usable source is kept, with no path, for the sake of what else
/// depends on its kind; one without a kind is left out.
pub(super) fn read(reader: &mut Reader<'_>, folder: &Path) -> Vec<Input> {
    let Some(setting) = reader.get("inputs") else { return Vec::new() };
    let expected = &JOB.key("inputs").takes;
    let Value::Sequence(items) = &setting.value.value else {
        let given = setting.value.describe();
        reader.refuse(&setting, format!("{given} where a list is expected: give {expected}"));
        return Vec::new();
    };
    if items.is_empty() {
        reader.refuse(&setting, format!("there is no input: give {expected}"));
    }
    let mut names = HashSet::new();
    let mut inputs: Vec<Input> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let place = format!("{}[{index}]", setting.shown);
        if !matches!(item.value, Value::Mapping(_)) {
            reader.refuse_at(
                &place,
                item.line,
                format!("{} is not an input: give {expected}", item.describe()),
            );
            continue;
        }
        let mut fields = Reader::of_mapping(&place, item, reader.problems());
        let Some(input) = input(&mut fields, &place, item, index, folder) else { continue };
        if !names.insert(input.name.clone()) {
            let message = format!("{:?} is the name of another input too: give each its own", input.name);
            reader.refuse_at(&format!("{place}.name"), item.line, message);
        }
        if let Some(first) = inputs.first().filter(|first| first.kind != input.kind) {
            let message = format!(
                "{} beside {}: inputs are all file or all tabular; make them two jobs",
                input.kind, first.kind
            );
            reader.refuse_at(&format!("{place}.type"), item.line, message);
        }
        inputs.push(input);
    }
    inputs
}

fn input(fields: &mut Reader<'_>, place: &str, node: &Node, index: usize, folder: &Path) -> Option<Input> {
    fields.refuse_unknown(&INPUT.names(), INPUT.of);
    fields.value::<Json>(INPUT.key("partition_format"));
    let name = name(fields, index);
    let kind = kind(fields, place, node);
    let source = source(fields, place, node, folder, kind);
    let mode = fields.value(INPUT.key("mode")).unwrap_or_default();
    let tabular = (kind == Some(InputKind::Tabular)).then(|| tabular(fields));
    if kind == Some(InputKind::File) {
        for key in ["format", "delimiter", "header", "dtype", "infer"] {
            if let Some(setting) = fields.get(key) {
                fields.refuse(&setting, "only a tabular input has it: remove it, or give type: tabular");
            }
        }
    }
    let source = source.unwrap_or(InputSource::Paths(Vec::new()));
    Some(Input { name, kind: kind?, source, mode, tabular })
}

fn name(fields: &mut Reader<'_>, index: usize) -> String {
    let default = format!("input_{}", index + 1);
    let Some(name) = fields.text("name") else { return default };
    fields.judge("name", |_| {
        let expected = &INPUT.key("name").takes;
        is_identifier(&name)
            .then_some(())
            .ok_or_else(|| format!("{name:?} is not an input name: give {expected}"))
    });
    name
}

fn kind(fields: &mut Reader<'_>, place: &str, node: &Node) -> Option<InputKind> {
    let Some(setting) = fields.get("type") else {
        fields.refuse_at(&format!("{place}.type"), node.line, "the key is missing: give file or tabular");
        return None;
    };
    match setting.value.as_text() {
        Some(text) if text.eq_ignore_ascii_case("mltable") => {
            fields
                .refuse(&setting, "MLTable is not supported yet: give type: tabular and the delimited files");
            None
        }
        _ => fields.value(INPUT.key("type")),
    }
}

fn source(
    fields: &mut Reader<'_>,
    place: &str,
    node: &Node,
    folder: &Path,
    kind: Option<InputKind>,
) -> Option<InputSource> {
    let given: Vec<&str> = ["path", "paths", "list"].into_iter().filter(|key| fields.has(key)).collect();
    let [key] = given[..] else {
        let message = if given.is_empty() {
            "path, paths and list are missing: give one of them".to_owned()
        } else {
            format!("{} are given: keep one", given.join(" and "))
        };
        fields.refuse_at(place, node.line, message);
        return None;
    };
    let items = if key == "paths" {
        fields.texts(key)?
    } else {
        fields.filled_text(key, "a local path")?;
        fields.get(key).into_iter().collect()
    };
    if items.is_empty() {
        let setting = fields.get(key)?;
        fields.refuse(&setting, "the list is empty: give at least one path");
    }
    let is_remote = |item: &RawSetting| item.value.as_text().is_some_and(remote::is_remote);
    if key != "list" && items.iter().any(is_remote) {
        let local = items.iter().find(|item| !is_remote(item));
        if let Some(local) = local {
            fields.refuse(
                local,
                "a local path beside s3://: make them two inputs, or name the files in a list",
            );
            return None;
        }
        let format_given = fields.has("format");
        let urls = items.iter().filter_map(|item| match remote_path(item, kind, format_given) {
            Ok(url) => Some(url),
            Err(message) => {
                fields.refuse(item, message);
                None
            }
        });
        let urls: Vec<String> = urls.collect();
        return (urls.len() == items.len()).then_some(InputSource::Remote(urls));
    }
    let mut paths = Vec::with_capacity(items.len());
    let mut has_file = false;
    for item in &items {
        match local_path(item, folder, kind, key == "list", fields.has("format")) {
            Ok((path, found)) => {
                has_file |= found;
                paths.push(path);
            }
            Err(message) => fields.refuse(item, message),
        }
    }
    if paths.len() < items.len() || items.is_empty() {
        return None;
    }
    if !has_file {
        let setting = fields.get(key)?;
        fields.refuse(
            &setting,
            format!("there is no file in {}: an input needs at least one", paths.join(", ")),
        );
        return None;
    }
    match key {
        "list" => paths.pop().map(|path| InputSource::List(path.into())),
        _ => Some(InputSource::Paths(paths)),
    }
}

/// The URL that `item` names.
fn remote_path(item: &RawSetting, kind: Option<InputKind>, format_given: bool) -> Result<String, String> {
    let given = item.value.as_text().unwrap_or_default().trim();
    let url = RemotePath::parse(given)?;
    if kind == Some(InputKind::Tabular) {
        refuse_format(given, &url.key, format_given)?;
    }
    Ok(given.to_owned())
}

fn refuse_format(given: &str, path: &str, format_given: bool) -> Result<(), String> {
    match format_by_suffix(path).filter(|_| !format_given) {
        None => Ok(()),
        Some(format) => Err(format!(
            "{given}: {format} is not supported yet: give delimited text, with format: delimited if it is"
        )),
    }
}

/// The absolute path that `item` names, and whether there is a file in it.
fn local_path(
    item: &RawSetting,
    folder: &Path,
    kind: Option<InputKind>,
    is_list: bool,
    format_given: bool,
) -> Result<(String, bool), String> {
    let given = item.value.as_text().unwrap_or_default().trim();
    if given.is_empty() {
        return Err("it is empty: give a local path".to_owned());
    }
    refuse_elsewhere(given)?;
    let path = absolute(folder, given);
    let Some(text) = path.to_str().map(str::to_owned) else {
        return Err(format!("{} is not UTF-8: rename it", path.display()));
    };
    if kind == Some(InputKind::Tabular) && !is_list {
        let is_table = path.file_name().is_some_and(|name| name == "MLTable");
        if is_table || path.join("MLTable").is_file() {
            return Err(format!(
                "{text} is an MLTable, which is not supported yet: give the delimited files"
            ));
        }
        refuse_format(given, &text, format_given)?;
    }
    let exists = path.exists();
    let source = if is_list { InputSource::List(path) } else { InputSource::Paths(vec![text.clone()]) };
    match listing::probe(&source) {
        Ok(()) => Ok((text, true)),
        // An empty folder may stand beside full ones; a glob without a match may not.
        Err(ListingError::Empty { .. }) if exists => Ok((text, false)),
        Err(ListingError::Io { path, source }) => {
            Err(format!("cannot read {}: {source}{}", path.display(), near_path::hint(&path)))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// What the suffix of a file or glob says, where it is not delimited text.
fn format_by_suffix(path: &str) -> Option<&'static str> {
    let path = path.to_ascii_lowercase();
    let path = path.strip_suffix(".gz").unwrap_or(&path);
    let (_, suffix) = path.rsplit_once('.')?;
    match suffix {
        "parquet" | "pq" => Some("parquet"),
        "jsonl" | "ndjson" | "json" => Some("json_lines"),
        _ => None,
    }
}

/// The character between two fields, a byte.
pub(super) fn delimiter(fields: &mut Reader<'_>) -> Option<u8> {
    let text = fields.text("delimiter")?;
    fields.judge("delimiter", |_| match text.as_bytes() {
        // Without double quotes YAML keeps the backslash.
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n\0".contains(byte) => Ok(*byte),
        _ => Err(format!("{text:?} is not a delimiter: give {}", INPUT.key("delimiter").takes)),
    })
}

fn tabular(fields: &mut Reader<'_>) -> TabularOptions {
    let mut options = TabularOptions::default();
    let format = fields.value::<String>(INPUT.key("format"));
    if let Some((format, setting)) =
        format.zip(fields.get("format")).filter(|(format, _)| format != "delimited")
    {
        fields.refuse(&setting, format!("{format} is not supported yet: give delimited text"));
    }
    options.delimiter = delimiter(fields).unwrap_or(options.delimiter);
    options.has_header = fields.value(INPUT.key("header")).unwrap_or(options.has_header);
    options.infer = fields.value(INPUT.key("infer")).unwrap_or(options.infer);
    for column in fields.text_mapping("dtype").unwrap_or_default() {
        let given = column.value.as_text().unwrap_or_default();
        if DTYPES.contains(&given) {
            options.dtype.push((column.key.clone(), given.to_owned()));
        } else {
            fields
                .refuse(&column, format!("{given:?} is not a known type: give one of {}", DTYPES.join(", ")));
        }
    }
    options
}
