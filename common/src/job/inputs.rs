//! `inputs`: what each names, and that it is there.
//!
//! What is looked at on disk is the first file of each path only; the whole listing is made when the
//! job is planned. Nothing is connected to: whether an `s3://` input is there shows when it is listed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::fence;
use super::form::RawSetting;
use super::keys::{INPUT, JOB};
use super::mltable::{self, Table, Wanted};
use super::names::Names;
use super::near_path;
use super::reader::Reader;
use super::validate::{absolute, is_identifier, refuse_elsewhere};
use super::yaml::{Node, Value};
use crate::dataset::input::{Input, InputKind, InputSource, TableFormat, TabularOptions};
use crate::dataset::left_out::{Exclusions, ignored_by};
use crate::dataset::listing::{self, ListingError};
use crate::dataset::partition_format::PartitionFormat;
use crate::dataset::remote::{self, RemotePath, without_file_scheme};
use crate::dataset::step_output::StepOutput;

/// Names of column types that the reader of delimited text knows.
const DTYPES: [&str; 9] = ["int64", "int", "uint64", "float64", "float", "bool", "str", "string", "object"];

/// What only a file of delimited text has.
const OF_DELIMITED_TEXT: [&str; 5] = ["delimiter", "header", "null_values", "add_null_values", "dtype"];
/// What both kinds of text have.
const OF_TEXT: [&str; 3] = ["encoding", "compression", "infer"];
/// What only a Parquet file has.
const OF_PARQUET: [&str; 2] = ["columns", "split_row_groups"];

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
    let (mut seen, names) = (HashSet::new(), reader.names());
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
        let Some(input) = input(&mut fields, &place, item, index, folder, &names) else { continue };
        if !seen.insert(input.name.clone()) {
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

fn input(
    fields: &mut Reader<'_>,
    place: &str,
    node: &Node,
    index: usize,
    folder: &Path,
    names: &Names,
) -> Option<Input> {
    fields.refuse_unknown(&INPUT.names(), INPUT.of);
    let name = name(fields, index);
    let given = |key: &str| fields.get(key);
    if let (Some(kind), Some(path)) = (given("type"), given("path"))
        && let Some(input) = mltable::unread(&name, kind.value.as_text().unwrap_or_default(), &path)
    {
        return Some(input);
    }
    if let Some((file, wanted)) = table_file(fields, folder) {
        let read = if file.is_file() {
            mltable::read(&file, wanted, names)
        } else {
            let hint = near_path::hint(&file);
            Err(vec![format!("there is no file {}: give the folder of a file MLTable{hint}", file.display())])
        };
        return of_table(fields, name, read, wanted);
    }
    if let Some((url, wanted)) = table_url(fields)
        && let Some(text) = names.table(&url)
    {
        let read = mltable::read_text(text, Path::new(&url), wanted, names);
        return of_table(fields, name, read, wanted);
    }
    let kind = kind(fields, place, node);
    let is_mltable = kind.is_none() && fields.get("type").is_some_and(|kind| is_mltable(&kind));
    if is_mltable {
        let message = "an MLTable is a folder with a file MLTable, here or in a bucket: give it as path";
        fields.refuse_at(&format!("{place}.path"), node.line, message);
        return None;
    }
    let source = source(fields, place, node, folder, kind);
    let mode = fields.value(INPUT.key("mode")).unwrap_or_default();
    let tabular = (kind == Some(InputKind::Tabular)).then(|| tabular(fields, source.as_ref()));
    if kind == Some(InputKind::File) {
        for key in ["format"].into_iter().chain(OF_TEXT).chain(OF_DELIMITED_TEXT).chain(OF_PARQUET) {
            if let Some(setting) = fields.get(key) {
                fields.refuse(&setting, "only a tabular input has it: remove it, or give type: tabular");
            }
        }
    }
    let source = source.unwrap_or(InputSource::Paths(Vec::new()));
    let partition_format = partition_format(fields, tabular.as_ref());
    let exclusions = exclusions(fields);
    Some(Input { name, kind: kind?, source, mode, tabular, mltable: None, partition_format, exclusions })
}

/// What an input without a name is called, by its place in the list.
pub(super) fn default_name(index: usize) -> String {
    format!("input_{}", index + 1)
}

fn name(fields: &mut Reader<'_>, index: usize) -> String {
    let default = default_name(index);
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
        fields.refuse_at(
            &format!("{place}.type"),
            node.line,
            "the key is missing: give file, tabular or mltable",
        );
        return None;
    };
    if is_mltable(&setting) { None } else { fields.value(INPUT.key("type")) }
}

fn is_mltable(setting: &RawSetting) -> bool {
    setting.value.as_text().is_some_and(|text| text.trim().eq_ignore_ascii_case(mltable::TYPE))
}

/// The file `MLTable` that an input names, and what is wanted of it. Of a file dataset it has to be the file itself; a
/// folder is taken as it stands.
fn table_file(fields: &Reader<'_>, folder: &Path) -> Option<(PathBuf, Wanted)> {
    let given = |key: &str| Some(fields.get(key)?.value.as_text()?.trim().to_owned());
    let kind = given("type")?.to_ascii_lowercase();
    let path = absolute(folder, &given("path").filter(|path| !path.is_empty() && !remote::is_remote(path))?);
    let is_itself = path.file_name().is_some_and(|name| name == mltable::NAME);
    let file = if is_itself { path } else { path.join(mltable::NAME) };
    let wanted = match kind.as_str() {
        mltable::TYPE => Wanted::WhatItIs,
        "tabular" if file.is_file() => Wanted::Rows,
        "file" if is_itself && file.is_file() => Wanted::Files,
        _ => return None,
    };
    Some((file, wanted))
}

/// The URL of the file `MLTable` in a bucket that an input names, and what is wanted of it. Where the type does not ask
/// for a table, the file itself has to be named.
fn table_url(fields: &Reader<'_>) -> Option<(String, Wanted)> {
    let given = |key: &str| Some(fields.get(key)?.value.as_text()?.trim().to_owned());
    let path = given("path").filter(|path| remote::is_remote(path))?;
    let url = mltable::url_of(&path);
    let is_itself = RemotePath::parse(&path).is_ok_and(|path| path.path().ends_with("/MLTable"));
    RemotePath::parse(&url).ok()?;
    let wanted = match given("type")?.to_ascii_lowercase().as_str() {
        mltable::TYPE => Wanted::WhatItIs,
        "tabular" if is_itself => Wanted::Rows,
        "file" if is_itself => Wanted::Files,
        _ => return None,
    };
    Some((url, wanted))
}

/// The input that a table describes, as it was `read`.
fn of_table(
    fields: &mut Reader<'_>,
    name: String,
    read: Result<Table, Vec<String>>,
    wanted: Wanted,
) -> Option<Input> {
    for key in ["paths", "list", "format", "partition_format", "columns"]
        .into_iter()
        .chain(OF_TEXT)
        .chain(OF_DELIMITED_TEXT)
    {
        if let Some(setting) = fields.get(key) {
            fields.refuse(&setting, "the file MLTable says it: remove it");
        }
    }
    let mode = fields.value(INPUT.key("mode")).unwrap_or_default();
    let split_row_groups = fields.value(INPUT.key("split_row_groups")).unwrap_or_default();
    let path = fields.get("path")?;
    match read {
        Ok(table) => {
            let is_tabular = table.kind == InputKind::Tabular;
            if let Some(setting) = fields.get("split_row_groups").filter(|_| !is_tabular) {
                fields.refuse(&setting, "only a tabular input has it: remove it");
            }
            let options = TabularOptions { split_row_groups, ..table.options };
            let tabular = is_tabular.then_some(options);
            let mltable = Some(Box::new(table.described));
            let (kind, source, partition_format) = (table.kind, table.source, table.partition_format);
            let exclusions = exclusions(fields);
            Some(Input { name, kind, source, mode, tabular, mltable, partition_format, exclusions })
        }
        Err(problems) => {
            for problem in problems {
                fields.refuse(&path, problem);
            }
            // What depends on whether it has rows is judged once that is known.
            let kind = match wanted {
                Wanted::WhatItIs => return None,
                Wanted::Rows => InputKind::Tabular,
                Wanted::Files => InputKind::File,
            };
            let source = InputSource::Paths(Vec::new());
            Some(Input { mode, ..Input::new(&name, kind, source) })
        }
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
    if let [item] = &items[..]
        && let Some(output) = item.value.as_text().and_then(StepOutput::parse)
    {
        return Some(InputSource::Output(output));
    }
    let is_remote = |item: &RawSetting| item.value.as_text().is_some_and(remote::is_remote);
    if key != "list" && items.iter().any(is_remote) {
        let local = items.iter().find(|item| !is_remote(item));
        if let Some(local) = local {
            let scheme = items.iter().filter_map(|item| item.value.as_text()).find_map(remote::scheme);
            let message = format!(
                "a local path beside {}: make them two inputs, or name the files in a list",
                scheme.unwrap_or_default()
            );
            fields.refuse(local, message);
            return None;
        }
        let urls = items.iter().filter_map(|item| match remote_path(item) {
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
        match local_path(item, folder, kind, key == "list") {
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
fn remote_path(item: &RawSetting) -> Result<String, String> {
    let given = item.value.as_text().unwrap_or_default().trim();
    RemotePath::parse(given)?;
    Ok(given.to_owned())
}

/// The absolute path that `item` names, and whether there is a file in it.
fn local_path(
    item: &RawSetting,
    folder: &Path,
    kind: Option<InputKind>,
    is_list: bool,
) -> Result<(String, bool), String> {
    let given = without_file_scheme(item.value.as_text().unwrap_or_default().trim());
    if given.is_empty() {
        return Err("it is empty: give a local path".to_owned());
    }
    refuse_elsewhere(given)?;
    if is_list && fence::is_up() {
        return Err(
            "a list may name any path, so it is read where the job file is one: name the paths themselves"
                .to_owned(),
        );
    }
    let path = absolute(folder, given);
    let Some(text) = path.to_str().map(str::to_owned) else {
        return Err(format!("{} is not UTF-8: rename it", path.display()));
    };
    if kind == Some(InputKind::Tabular) && !is_list {
        let is_table = path.file_name().is_some_and(|name| name == "MLTable");
        if is_table || path.join("MLTable").is_file() {
            return Err(format!("{text} is an MLTable: give it as the path of an input of its own"));
        }
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

/// What is left out of the folders that the input names.
fn exclusions(fields: &mut Reader<'_>) -> Exclusions {
    let mut exclusions = Exclusions::default();
    let Some(setting) = fields.get("ignore") else { return exclusions };
    if fields.has("list") {
        fields.refuse(&setting, "a list names each file: remove it, or give path");
        return exclusions;
    }
    for item in fields.texts("ignore").unwrap_or_default() {
        let glob = item.value.as_text().unwrap_or_default().trim().to_owned();
        match ignored_by(&glob) {
            _ if glob.trim_matches('/').is_empty() => {
                fields.refuse(&item, "it is empty: give a glob, such as \"*.tmp\"");
            }
            Ok(_) => exclusions.ignore.push(glob),
            Err(reason) => fields.refuse(&item, format!("{glob} is not a valid glob: {reason}")),
        }
    }
    exclusions
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

/// Whether every path of `source` is a file that is no Parquet by its suffix.
fn is_without_parquet(source: &InputSource) -> bool {
    let InputSource::Paths(paths) = source else { return false };
    let is_other =
        |path: &String| TableFormat::by_suffix(path) != TableFormat::Parquet && Path::new(path).is_file();
    !paths.is_empty() && paths.iter().all(is_other)
}

fn tabular(fields: &mut Reader<'_>, source: Option<&InputSource>) -> TabularOptions {
    let given = fields.value(INPUT.key("format"));
    let mut options = TabularOptions { format: given, ..TabularOptions::default() };
    for (format, keys, message) in [
        (
            TableFormat::Delimited,
            &OF_DELIMITED_TEXT[..],
            "only delimited text has it: remove it, or give format: delimited",
        ),
        (TableFormat::Parquet, &OF_PARQUET, "only Parquet has it: remove it, or give format: parquet"),
    ] {
        let is_other = match given {
            Some(given) => given != format,
            None => format == TableFormat::Parquet && source.is_some_and(is_without_parquet),
        };
        for key in keys.iter().filter(|_| is_other) {
            if let Some(setting) = fields.get(key) {
                fields.refuse(&setting, message);
            }
        }
    }
    options.delimiter = delimiter(fields).unwrap_or(options.delimiter);
    options.has_header = fields.value(INPUT.key("header")).unwrap_or(options.has_header);
    options.encoding = fields.value(INPUT.key("encoding")).unwrap_or_default();
    options.compression = fields.value(INPUT.key("compression")).unwrap_or_default();
    for key in OF_TEXT.iter().filter(|_| given == Some(TableFormat::Parquet)) {
        if let Some(setting) = fields.get(key) {
            fields.refuse(&setting, "only text has it: remove it");
        }
    }
    options.null_values = null_values(fields, "null_values");
    options.add_null_values = null_values(fields, "add_null_values").unwrap_or_default();
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
    options.split_row_groups = fields.value(INPUT.key("split_row_groups")).unwrap_or_default();
    options.columns = columns(fields);
    options
}

/// Texts that are missing values.
fn null_values(fields: &mut Reader<'_>, key: &str) -> Option<Vec<String>> {
    let settings = fields.texts(key)?;
    Some(settings.iter().filter_map(|setting| setting.value.as_text().map(str::to_owned)).collect())
}

/// How columns are read from the paths of the files. No other key of the input names one of these.
fn partition_format(fields: &mut Reader<'_>, tabular: Option<&TabularOptions>) -> Option<PartitionFormat> {
    let format: PartitionFormat = fields.read(INPUT.key("partition_format"), |given| {
        given.parse().map_err(|reason| format!("{given:?} cannot be read: {reason}"))
    })?;
    let typed = tabular.iter().flat_map(|options| &options.dtype).map(|(name, _)| ("dtype", name));
    let chosen = tabular.iter().flat_map(|options| &options.columns).flatten().map(|name| ("columns", name));
    for (key, name) in typed.chain(chosen) {
        if format.names().any(|field| field == name)
            && let Some(setting) = fields.get(key)
        {
            let message = format!(
                "{name:?} is a column of partition_format, which has its type from there: remove it here"
            );
            fields.refuse(&setting, message);
        }
    }
    Some(format)
}

/// The columns of Parquet files that are read.
fn columns(fields: &mut Reader<'_>) -> Option<Vec<String>> {
    let names = fields.texts("columns")?;
    let mut columns: Vec<String> = Vec::with_capacity(names.len());
    let mut seen = HashSet::new();
    for setting in &names {
        let name = setting.value.as_text().unwrap_or_default();
        if !seen.insert(name) {
            fields.refuse(setting, format!("{name:?} is there twice: remove one"));
        }
        columns.push(name.to_owned());
    }
    let setting = fields.get("columns").filter(|_| names.is_empty());
    if let Some(setting) = setting {
        fields.refuse(&setting, "the list is empty: give at least one column, or leave it out for all");
    }
    Some(columns)
}
