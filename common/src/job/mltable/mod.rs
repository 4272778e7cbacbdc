//! The file `MLTable`: from YAML to an input (dialects B).
//!
//! It is read when the job is submitted, with the reader that job files are read with, and all that is wrong with it is
//! said at once, each with file, line, key and remedy. What it asks for and is not built is refused by name. Here is what
//! it is and which files it names; `transformations` reads what is done with them.

mod columns;
mod conversions;
mod delta;
mod of_step;
mod transformations;

use std::path::Path;

use super::error::Problem;
use super::names::Names;
use super::reader::Reader;
use super::validate::{absolute, refuse_elsewhere};
use super::yaml::{self, Node, Value};
use crate::dataset::http_url;
use crate::dataset::input::{InputKind, InputSource, TabularOptions};
use crate::dataset::listing;
use crate::dataset::mltable::{MlTable, Step, Window};
use crate::dataset::partition_format::PartitionFormat;
use crate::dataset::remote::{self, RemotePath};

pub use of_step::read_of_step;
pub(super) use of_step::{address_of_step, unread};

/// The name of the file.
pub(super) const NAME: &str = "MLTable";
/// The type of an input that it describes.
pub(super) const TYPE: &str = "mltable";
/// Keys of the file.
const KEYS: [&str; 6] = ["$schema", "type", "paths", "transformations", "traits", "metadata"];
/// What an entry of `paths` may be.
const ENTRIES: [&str; 3] = ["file", "folder", "pattern"];

/// What a job wants of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Rows where the table says how its files are read, and files otherwise.
    WhatItIs,
    /// The files that it names.
    Files,
    /// Rows.
    Rows,
}

/// Which paths a table may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Those of this machine, and of buckets.
    All,
    /// Those below its folder, and of buckets: what a step writes is brought with its folder, and nothing else.
    Folder,
}

/// What an input has from its table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) kind: InputKind,
    pub(super) source: InputSource,
    pub(super) options: TabularOptions,
    pub(super) described: MlTable,
    pub(super) partition_format: Option<PartitionFormat>,
}

/// Reads the table in `file`, which is absolute.
///
/// # Errors
/// All that is wrong with it, each with its place.
pub(super) fn read(file: &Path, wanted: Wanted, names: &Names) -> Result<Table, Vec<String>> {
    let text = super::read_text(file).map_err(|message| {
        message.replace("a job file", "an MLTable").replace("the job file", "the MLTable")
    });
    read_text(text, file, wanted, names)
}

/// Reads the table whose text was found at `place`, a path or an `s3://` URL.
///
/// # Errors
/// As [`read`].
pub(super) fn read_text(
    text: Result<String, String>,
    place: &Path,
    wanted: Wanted,
    names: &Names,
) -> Result<Table, Vec<String>> {
    read_within(text, place, wanted, names, Reach::All)
}

fn read_within(
    text: Result<String, String>,
    place: &Path,
    wanted: Wanted,
    names: &Names,
    reach: Reach,
) -> Result<Table, Vec<String>> {
    let (mut problems, file) = (Vec::new(), place);
    let text = text.map_err(|message| (None, message));
    let document = text.and_then(|text| yaml::parse(&text).map_err(|error| (error.line, error.message)));
    let document = document.map_err(|(line, message)| {
        problems.push(Problem { key: String::new(), line, message });
    });
    let table = names.in_another_file(|| {
        let table = document.ok().and_then(|mut document| {
            names.resolve(&mut document);
            judge(&document, file, (wanted, reach), &mut problems)
        });
        names.replace_problems(&mut problems);
        table
    });
    match table {
        Some(table) if problems.is_empty() => Ok(table),
        _ => {
            problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
            let shown = file.to_str().map(http_url::shown).unwrap_or_default();
            Err(problems.iter().map(|problem| problem.in_file(Path::new(&*shown))).collect())
        }
    }
}

/// The URL of the file `MLTable` of the table at `url`: a folder, or the file itself.
pub(super) fn url_of(url: &str) -> String {
    let (path, query) = parts_of(url.trim());
    let path = path.trim_end_matches('/');
    if path.ends_with("/MLTable") { format!("{path}{query}") } else { format!("{path}/{NAME}{query}") }
}

/// A URL without its query, and that, which of one in a bucket is nothing.
fn parts_of(url: &str) -> (&str, &str) {
    let path = if http_url::is_http(url) { http_url::path_of(url) } else { url };
    (path, &url[path.len()..])
}

/// Whether a table says how its files are read; false of what cannot be read, which is refused elsewhere.
pub(super) fn has_rows(file: &Path) -> bool {
    super::read_text(file).is_ok_and(|text| reads_rows(&text))
}

/// Whether the table with this text says how its files are read.
pub(super) fn reads_rows(text: &str) -> bool {
    let document = yaml::parse(text).ok();
    let transformations = document.as_ref().and_then(|document| document.get("transformations"));
    let Some(Value::Sequence(items)) = transformations.map(|node| &node.value) else { return false };
    items.iter().any(|item| transformations::name_of(item).is_some_and(|name| name.starts_with("read_")))
}

fn judge(
    document: &Node,
    file: &Path,
    (wanted, reach): (Wanted, Reach),
    problems: &mut Vec<Problem>,
) -> Option<Table> {
    let mut fields = Reader::of_mapping("", document, problems);
    fields.refuse_unknown(&KEYS, "an MLTable");
    if let Some(kind) = fields.get("type")
        && !kind.value.as_text().is_some_and(|kind| kind.eq_ignore_ascii_case("mltable"))
    {
        fields.refuse(&kind, format!("{} is not mltable: give mltable, or remove it", kind.value.describe()));
    }
    let source = source(&mut fields, file, reach);
    let of_traits = traits(&mut fields);
    // As the names of files begin, without what a URL hides.
    let shown = http_url::shown(file.to_str().unwrap_or_default());
    let folder = Path::new(&*shown).parent().and_then(Path::to_str).unwrap_or_default();
    let done = transformations::read(&mut fields, &of_traits, folder);
    if !done.has_rows && wanted == Wanted::Rows {
        let message = "no transformation reads rows: put read_delimited, read_parquet, read_json_lines or \
                       read_delta_lake first, or take the files that it names";
        let line = fields.get("transformations").and_then(|setting| setting.line);
        fields.refuse_at("transformations", line, message);
    }
    let mut table = done.table;
    if let (Some(source), true) = (&source, done.is_delta) {
        delta::check_source(&mut fields, source);
    }
    file.to_str()?;
    table.path = shown.clone().into_owned();
    let kind = if done.has_rows && wanted != Wanted::Files {
        InputKind::Tabular
    } else {
        // What is said of rows does not count for files.
        let [window, sample_window] = [table.window, table.sample_window]
            .map(|window| if done.has_rows { Window::default() } else { window });
        let drawn = table.work.steps.into_iter().find_map(|step| match step {
            Step::Sample(sample) if !done.has_rows => Some(sample),
            _ => None,
        });
        table = MlTable { path: table.path, window, sample_window, sample: drawn, ..MlTable::default() };
        InputKind::File
    };
    Some(Table {
        kind,
        source: source?,
        options: done.options,
        described: table,
        partition_format: done.partition_format,
    })
}

/// Columns that `traits` name.
fn traits(fields: &mut Reader<'_>) -> Vec<String> {
    let Some(traits) = fields.get("traits") else { return Vec::new() };
    let named = ["timestamp_column", "index_columns"].into_iter().filter_map(|key| traits.value.get(key));
    let texts = |node: &Node| match &node.value {
        Value::Sequence(items) => items.iter().filter_map(Node::as_text).map(str::to_owned).collect(),
        _ => node.as_text().map(str::to_owned).into_iter().collect::<Vec<_>>(),
    };
    named.flat_map(texts).collect()
}

/// The files that `paths` name.
fn source(fields: &mut Reader<'_>, file: &Path, reach: Reach) -> Option<InputSource> {
    let Some(setting) = fields.get("paths") else {
        fields.refuse_at("paths", None, "the key is missing: give a list such as `- file: ./data.csv`");
        return None;
    };
    let items = match &setting.value.value {
        Value::Sequence(items) if !items.is_empty() => items,
        _ => {
            let message = format!(
                "{} where a list of paths is expected: give a list such as `- file: ./data.csv`",
                setting.value.describe()
            );
            fields.refuse(&setting, message);
            return None;
        }
    };
    let mut paths = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let shown = format!("paths[{index}]");
        match entry(item, file, reach) {
            Ok(path) => paths.push((path, shown, item.line)),
            Err((key, message)) => fields.refuse_at(&format!("{shown}{key}"), item.line, message),
        }
    }
    if let [(first, ..), rest @ ..] = &paths[..]
        && let Some((_, shown, line)) =
            rest.iter().find(|(path, ..)| remote::is_remote(path) != remote::is_remote(first))
    {
        let scheme = paths.iter().find_map(|(path, ..)| remote::scheme(path)).unwrap_or_default();
        let message = format!("a local path beside {scheme}: make them two tables, and two inputs");
        fields.refuse_at(shown, *line, message);
    }
    if paths.len() < items.len() {
        return None;
    }
    let paths: Vec<String> = paths.into_iter().map(|(path, ..)| path).collect();
    let is_remote = paths.iter().any(|path| remote::is_remote(path));
    Some(if is_remote { InputSource::Remote(paths) } else { InputSource::Paths(paths) })
}

/// The path that an entry of `paths` names, absolute; or the key in it that is wrong, and how.
fn entry(item: &Node, file: &Path, reach: Reach) -> Result<String, (String, String)> {
    let (kind, value) = match &item.value {
        Value::Mapping(entries) => match &entries[..] {
            [(key, value)] if ENTRIES.contains(&&*key.name) => (&*key.name, value),
            _ => {
                let message = format!("give one of {}, as in `- file: ./data.csv`", ENTRIES.join(", "));
                return Err((String::new(), message));
            }
        },
        _ => ("file", item),
    };
    let key = || if std::ptr::eq(value, item) { String::new() } else { format!(".{kind}") };
    let refuse = |message: String| Err((key(), message));
    let given = value.as_text().unwrap_or_default().trim();
    if given.is_empty() {
        return refuse(format!("{} where a path is expected", value.describe()));
    }
    if remote::is_remote(given) {
        let (path, query) = parts_of(given);
        let path = if kind == "pattern" { without_braces(path) } else { path.to_owned() };
        let slash = if kind == "folder" && !path.ends_with('/') { "/" } else { "" };
        let url = format!("{path}{slash}{query}");
        return RemotePath::parse(&url).map(|_| url).map_err(|message| (key(), message));
    }
    if let Err(message) = refuse_elsewhere(given) {
        return refuse(message);
    }
    if reach == Reach::Folder && (given.starts_with('/') || given.split('/').any(|part| part == "..")) {
        return refuse(format!(
            "{given} is not below the folder of the table, and the step that writes it brings nothing else: write the file \
             beside the MLTable, and give its path from there"
        ));
    }
    if let Some((table, query)) = file.to_str().filter(|file| remote::is_remote(file)).map(parts_of)
        && let Some((folder, _)) = table.rsplit_once('/')
    {
        let parts: Vec<&str> = given.split('/').filter(|part| *part != ".").collect();
        if given.starts_with('/') || parts.contains(&"..") {
            let (place, scheme) = if query.is_empty() && !http_url::is_http(table) {
                ("in a bucket", "s3://")
            } else {
                ("elsewhere", "https://")
            };
            return refuse(format!(
                "{given} is not in the folder of the table, which is {place}: give its {scheme} URL"
            ));
        }
        let below = parts.join("/");
        let below = if kind == "pattern" { without_braces(&below) } else { below };
        let slash = if kind == "folder" && !below.is_empty() && !below.ends_with('/') { "/" } else { "" };
        let url = format!("{folder}/{below}{slash}{query}");
        return RemotePath::parse(&url).map(|_| url).map_err(|message| (key(), message));
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    let path = if kind == "pattern" {
        let folder = folder.to_str().unwrap_or_default();
        let plain: String = folder
            .chars()
            .flat_map(|character| {
                ['\\', character].into_iter().skip(usize::from(!r"*?[{\".contains(character)))
            })
            .collect();
        absolute(Path::new(&plain), &without_braces(given))
    } else {
        let path = absolute(folder, given);
        if kind == "folder" && path.is_file() {
            return refuse(format!("{} is a file: give file", path.display()));
        }
        if !path.exists() {
            return refuse(format!("there is no {}: give what is there", path.display()));
        }
        path
    };
    let Some(path) = path.to_str().map(str::to_owned) else {
        return refuse(format!("{} is not UTF-8: rename it", path.display()));
    };
    let source = InputSource::Paths(vec![path]);
    if let Err(error) = listing::probe(&source) {
        return refuse(error.to_string());
    }
    let InputSource::Paths(mut paths) = source else { unreachable!("it was made of a path") };
    Ok(paths.swap_remove(0))
}

/// A pattern for the listing, to which braces mean something that they do not mean here.
fn without_braces(pattern: &str) -> String {
    pattern.replace('{', r"\{").replace('}', r"\}")
}
