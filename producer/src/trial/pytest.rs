//! A mini-batch as a test: a file for pytest that has its data, or names its files, and calls `run()`.
//!
//! What was fetched, and slices of tables, stand in the test itself, or in a folder beside it; files of this machine are
//! named.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::hexadecimal;
use prs_common::job::{SideInput, kept_folders};
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatch, PathColumn, PathValue, SliceRef, Work};
use prs_common::tree;
use prs_jobs::homes::cache::python_home;
use prs_tabular::TableReader;
use prs_tabular::parquet::{Footer, RowGroups};
use serde_json::Value;

use super::Trial;
use crate::failure::Failure;

/// Most bytes of data that stand in a test.
const LARGEST: u64 = 4 << 20;
/// Name of a slice in the folder of its test; see `azureml_user.parallel_run.testing`.
const SLICE: &str = "slice";
/// An argument of every script, which the test makes itself: where its output goes.
const OUTPUT: &str = "--output";

/// Where the data of a test is put.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TestData<'a> {
    /// Into the test itself.
    InTest,
    /// Into this folder, which is made, and has to be empty.
    Folder(&'a Path),
}

impl<'a> TestData<'a> {
    /// Where the command line wants it.
    pub(crate) fn wanted(folder: Option<&'a Path>) -> Result<Self, Failure> {
        let Some(folder) = folder else { return Ok(Self::InTest) };
        let cannot = || format!("cannot make the folder {} of --data", folder.display());
        tree::make_folders(folder).with_context(cannot).map_err(Failure::usage)?;
        let is_empty = fs::read_dir(folder).with_context(cannot).map_err(Failure::usage)?.next().is_none();
        if is_empty {
            return Ok(Self::Folder(folder));
        }
        Err(Failure::wrong(format!(
            "the folder {} of --data is not empty: give another one",
            folder.display()
        )))
    }

    /// Most bytes of data that may be put there.
    fn largest(self) -> u64 {
        match self {
            Self::InTest => LARGEST,
            Self::Folder(_) => u64::MAX - 1,
        }
    }

    /// Puts `content` there, as `name` in a folder, and says in Python what it is.
    fn put(self, name: &str, content: &[u8]) -> Result<String, Failure> {
        let Self::Folder(folder) = self else { return Ok(literal(content)) };
        let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(format!("testing.content({})", quoted(&path.display().to_string())))
    }
}

/// The text of the test, titled `title`, whose data goes to `place`. `local` is the mini-batch with its data on this
/// machine, `is_fetched` whether that is in a temporary folder; `arguments` are those of the process.
pub(crate) fn test_file(
    trial: &Trial,
    title: &str,
    place: TestData<'_>,
    planned: &MiniBatch<'_>,
    local: &MiniBatch<'_>,
    is_fetched: bool,
    arguments: &[String],
) -> Result<String, Failure> {
    let (data, mut mini_batch) = match &local.work {
        Work::Files { base, paths, .. } => {
            let at = |path: &&str| Path::new(base).join(path);
            if is_fetched { fetched(base, paths, place)? } else { named(paths.iter().map(at)) }
        }
        Work::Slice(slice) => match message_pack::decode(slice.reader) {
            Ok(TableReader::Parquet(groups)) => row_groups(local, slice, groups, &trial.work(), place)?,
            _ => rows(local, slice, &trial.work().join(slice.key), place)?,
        },
        Work::Slices(_) => {
            return Err(Failure::wrong(
                "a test has the rows of one table, and this mini-batch has those of several: leave --pytest out, or try a \
                 job without partition_keys",
            ));
        }
        Work::Unreadable { origin, reason, .. } => {
            return Err(Failure::wrong(format!(
                "the data of the mini-batch cannot be read: {origin}: {reason}"
            )));
        }
        _ => return Err(anyhow::anyhow!("the mini-batch is not on this machine").into()),
    };
    let mut count = planned.items().to_string();
    let input = trial.spec.inputs.get(planned.input as usize);
    let work = input.and_then(|input| input.mltable.as_ref()).map(|table| &table.work);
    if let (Some(work), Work::Slice(slice)) = (work.filter(|work| !work.is_nothing()), &local.work) {
        let (work, origin) = (quoted(&work.to_json()), quoted(slice.origin));
        let taken = slice.taken.map(|(first, end)| format!(", ({first}, {end})")).unwrap_or_default();
        mini_batch = format!("testing.table({work}, {origin}, {mini_batch}, {}{taken})", slice.first_record);
        // A filter may leave less than was planned.
        "len(mini_batch)".clone_into(&mut count);
    }
    let home = python_home()?;
    let index = planned.index;
    let inputs = trial.spec.inputs.iter().enumerate().map(|(at, input)| {
        // Rows that were put together are where they are in no job file.
        let source = trial.spec.grouped_from.get(at).unwrap_or(&input.source);
        format!(
            "            ({}, {}, {}),\n",
            quoted(&input.name),
            quoted(&input.kind.to_string()),
            quoted(&source.label())
        )
    });
    let inputs = inputs.collect::<Vec<_>>().concat();
    let output = arguments.iter().skip_while(|argument| *argument != OUTPUT).nth(1);
    let arguments =
        without_output(arguments).map(|argument| format!("            {},\n", written(argument, output)));
    let arguments = arguments.collect::<String>();
    let folders = kept_folders(&trial.spec.outputs).into_iter();
    let folders = folders.map(|folder| {
        format!("    (tmp_path / \"output\" / {}).mkdir(parents=True, exist_ok=True)\n", quoted(&folder))
    });
    let folders = folders.collect::<String>();
    let model = trial.spec.model.as_ref().map(SideInput::named);
    let model =
        model.map(|path| format!("    testing.place_model({}, tmp_path, monkeypatch)\n", quoted(&path)));
    let fixtures = if model.is_some() { "tmp_path, monkeypatch" } else { "tmp_path" };
    let model = model.unwrap_or_default();
    let names: Vec<String> = local.item_names().iter().map(|name| quoted(name)).collect();
    let keys = keys(planned)?;
    let title = title.replace(['\\', '"'], "?");
    Ok(format!(
        r#""""{title}

Printed by `prs try --pytest` of prs {version}; run it with pytest.
"""

import sys

try:
    from azureml_user.parallel_run import testing
except ModuleNotFoundError:
    # prs is not installed for this interpreter: its own Python, as it is on the machine that printed this.
    sys.path.append({home})
    from azureml_user.parallel_run import testing

{data}

def test_mini_batch_{index}({fixtures}):
{folders}{model}    job = testing.Job(
        {source},
        {script},
        folder=tmp_path,
        inputs=[
{inputs}        ],
        arguments=[
{arguments}        ],
    )
    mini_batch = {mini_batch}
    names = [{names}]
    result = job.run(mini_batch, minibatch_index={index}, input={input}, items=names{keys})
    assert testing.count(result) == {count}, "one element for each item"
"#,
        version = env!("CARGO_PKG_VERSION"),
        home = quoted(&home.display().to_string()),
        source = quoted(&trial.code.display().to_string()),
        script = quoted(&trial.spec.entry_script),
        names = names.join(", "),
        input = planned.input,
    ))
}

/// The values of the partition keys as an argument; nothing where the job has none.
fn keys(mini_batch: &MiniBatch<'_>) -> Result<String, Failure> {
    if mini_batch.keys.is_empty() {
        return Ok(String::new());
    }
    let columns = PathColumn::decode(mini_batch.keys).context("the mini-batch cannot be understood")?;
    let pairs = columns.iter().map(|PathColumn { name, value }| {
        let value = match value {
            PathValue::Text(text) => quoted(text),
            PathValue::Time(nanoseconds) => nanoseconds.to_string(),
            PathValue::Data(encoded) => format!("({},)", quoted(encoded)),
        };
        format!("({}, {value})", quoted(name))
    });
    Ok(format!(", keys=[{}]", pairs.collect::<Vec<_>>().join(", ")))
}

/// What goes before the test, and the expression that makes its mini-batch: files of this machine, by their paths.
fn named(paths: impl Iterator<Item = PathBuf>) -> (String, String) {
    let lines = paths.map(|path| format!("    {},\n", quoted(&path.display().to_string())));
    (format!("FILES = [\n{}]\n", lines.collect::<String>()), "FILES".to_owned())
}

/// The same for files that were fetched.
fn fetched(base: &str, paths: &[&str], place: TestData<'_>) -> Result<(String, String), Failure> {
    if let TestData::Folder(folder) = place {
        return copied(base, paths, folder);
    }
    let mut data = "FILES = {\n".to_owned();
    let mut left = place.largest();
    for path in paths {
        let content = read(&Path::new(base).join(path), 0, None, &mut left)?;
        // Without a base, the paths are absolute; each is a file of its own all the same.
        let _ = writeln!(data, "    {}: {},", quoted(path.trim_start_matches('/')), literal(&content));
    }
    data.push_str("}\n");
    Ok((data, "testing.files(FILES, tmp_path)".to_owned()))
}

/// The same for fetched files, as copies below `folder`.
fn copied(base: &str, paths: &[&str], folder: &Path) -> Result<(String, String), Failure> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut placed = Vec::new();
    for path in paths {
        let copy = folder.join(path.trim_start_matches('/'));
        let copied = || {
            tree::make_folders(copy.parent().unwrap_or(&folder))?;
            tree::copy(Path::new(base).join(path), &copy)
        };
        copied().with_context(|| format!("cannot copy {path} to {}", copy.display()))?;
        placed.push(copy);
    }
    Ok(named(placed.into_iter()))
}

/// The same for a slice of a table.
fn rows(
    mini_batch: &MiniBatch<'_>,
    slice: &SliceRef<'_>,
    path: &Path,
    place: TestData<'_>,
) -> Result<(String, String), Failure> {
    let SliceRef { start, end, .. } = *slice;
    let content = read(path, start, Some(end.saturating_sub(start)), &mut { place.largest() })?;
    let of_test = MiniBatch { work: Work::Slice(SliceRef { key: SLICE, ..*slice }), ..*mini_batch };
    let data = format!(
        "# How the slice is read: columns and types as they were found in the whole file.\nDESCRIPTOR = {}\nROWS = {}\n",
        quoted(&hexadecimal(&of_test.encode())),
        place.put("rows", &content)?
    );
    Ok((format!("{data}START = {start}\n"), "testing.rows(DESCRIPTOR, ROWS, START, tmp_path)".to_owned()))
}

/// The same for row groups of a Parquet file: their columns, and the footer.
fn row_groups(
    mini_batch: &MiniBatch<'_>,
    slice: &SliceRef<'_>,
    mut groups: RowGroups,
    work: &Path,
    place: TestData<'_>,
) -> Result<(String, String), Failure> {
    let data = work.join(slice.key);
    let footer_file = std::mem::take(&mut groups.footer_file);
    let footer = if footer_file.is_empty() { data.clone() } else { work.join(footer_file) };
    let mut parts = "PARTS = {\n".to_owned();
    let mut left = place.largest();
    let length = |range: &Range<u64>| Some(range.end.saturating_sub(range.start));
    let types_file = std::mem::take(&mut groups.types_file);
    let types = if types_file.is_empty() { data.clone() } else { work.join(types_file) };
    // The test has one file, of which all data is there that decides on types.
    let bytes = read(&footer, groups.footer.start, length(&groups.footer), &mut place.largest())?;
    let in_doubt = Footer::read(&bytes, groups.footer.start, groups.columns.as_deref());
    let in_doubt = in_doubt.map_or_else(|_| Vec::new(), |footer| footer.types().in_doubt);
    groups.is_in_doubt = !in_doubt.is_empty();
    let places = groups.data.iter().map(|range| (&data, range)).chain([(&footer, &groups.footer)]);
    let mut longest = BTreeMap::new();
    for (path, range) in in_doubt.iter().map(|range| (&types, range)).chain(places) {
        let known = longest.entry(range.start).or_insert((path, range));
        if known.1.end < range.end {
            *known = (path, range);
        }
    }
    for (path, range) in longest.into_values() {
        let content = read(path, range.start, length(range), &mut left)?;
        let part = place.put(&format!("part_{}", range.start), &content)?;
        let _ = writeln!(parts, "    {}: {part},", range.start);
    }
    let reader = message_pack::encode(&TableReader::Parquet(groups));
    let of_test =
        MiniBatch { work: Work::Slice(SliceRef { key: SLICE, reader: &reader, ..*slice }), ..*mini_batch };
    let descriptor = quoted(&hexadecimal(&of_test.encode()));
    let data = format!("# Which row groups these are.\nDESCRIPTOR = {descriptor}\n{parts}}}\n");
    Ok((data, "testing.row_groups(DESCRIPTOR, PARTS, tmp_path)".to_owned()))
}

/// The bytes of a file from `start` on, as many as `length` says or all of them; `left` is how many there may be.
fn read(path: &Path, start: u64, length: Option<u64>, left: &mut u64) -> Result<Vec<u8>, Failure> {
    let read = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        let mut content = Vec::new();
        file.take(length.unwrap_or(u64::MAX).min(*left + 1)).read_to_end(&mut content)?;
        std::io::Result::Ok(content)
    };
    let content =
        read().with_context(|| format!("cannot read {}", path.display())).map_err(Failure::usage)?;
    *left = left.checked_sub(content.len() as u64).ok_or_else(|| {
        Failure::wrong(format!(
            "the data of the mini-batch is more than {} MiB, too much for a test file: give --data DIR, a folder for it, \
             or try one with less data",
            LARGEST >> 20
        ))
    })?;
    Ok(content)
}

/// Data as Python has it: text, a line of it on each line, or bytes.
fn literal(content: &[u8]) -> String {
    match std::str::from_utf8(content) {
        Ok(text) if text.lines().count() <= 1 => quoted(text),
        Ok(text) => {
            let lines = text.split_inclusive('\n').map(|line| format!("    {}\n", quoted(line)));
            format!("(\n{})", lines.collect::<String>())
        }
        Err(_) => format!("bytes.fromhex({})", quoted(&hexadecimal(content))),
    }
}

/// Text as Python has it: what JSON writes is that, too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// An argument as Python has it; the `output` of a process, which is gone when the test runs, is that of the test.
fn written(argument: &str, output: Option<&String>) -> String {
    match output.filter(|output| argument.contains(&***output)) {
        Some(output) => {
            let parts: Vec<String> = argument.split(&**output).map(quoted).collect();
            parts.join(" + str(tmp_path / \"output\") + ")
        }
        None => quoted(argument),
    }
}

fn without_output(arguments: &[String]) -> impl Iterator<Item = &String> {
    let at = arguments.iter().position(|argument| argument == OUTPUT);
    let is_of_output = move |position: usize| at.is_some_and(|at| position == at || position == at + 1);
    arguments
        .iter()
        .enumerate()
        .filter(move |(position, _)| !is_of_output(*position))
        .map(|(_, argument)| argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_written_as_python_reads_it() {
        for (content, expected) in [
            (&b"one line\n"[..], r#""one line\n""#),
            (b"a,\"b\"\r\nc\n", "(\n    \"a,\\\"b\\\"\\r\\n\"\n    \"c\\n\"\n)"),
            (b"\xff\x00", r#"bytes.fromhex("ff00")"#),
            (b"", r#""""#),
        ] {
            assert_eq!(literal(content), expected);
        }
    }

    #[test]
    fn the_output_of_a_test_is_its_own() {
        let arguments = ["--a", "1", "--output", "/tmp/x", "--b", "2"].map(str::to_owned);
        assert_eq!(without_output(&arguments).collect::<Vec<_>>(), ["--a", "1", "--b", "2"]);
        assert_eq!(without_output(&arguments[..2]).count(), 2);
    }
}
