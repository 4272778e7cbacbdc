//! A mini-batch as a test: a file for pytest that has its data, or names its files, and calls `run()`.
//!
//! What was fetched, and slices of tables, stand in the test itself; files of this machine are named.

use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::hexadecimal;
use prs_common::mini_batch::{MiniBatch, SliceRef, Work};
use serde_json::Value;

use super::Trial;
use super::cache::python_home;
use crate::failure::Failure;

/// Most bytes of data that stand in a test.
const LARGEST: u64 = 4 << 20;
/// Name of a slice in the folder of its test; see `azureml_user.parallel_run.testing`.
const SLICE: &str = "slice";
/// An argument of every script, which the test makes itself: where its output goes.
const OUTPUT: &str = "--output";

/// The text of the test, titled `title`. `local` is the mini-batch with its data on this machine, `is_fetched` whether
/// that is in a temporary folder; `arguments` are those of the process.
pub(crate) fn test_file(
    trial: &Trial,
    title: &str,
    planned: &MiniBatch<'_>,
    local: &MiniBatch<'_>,
    is_fetched: bool,
    arguments: &[String],
) -> Result<String, Failure> {
    let (data, mini_batch) = match &local.work {
        Work::Files { base, paths, .. } => {
            let at = |path: &&str| Path::new(base).join(path);
            if is_fetched { embedded(base, paths)? } else { named(paths.iter().map(at)) }
        }
        Work::Slice(slice) => rows(local, slice, &trial.work().join(slice.key))?,
        Work::Unreadable { origin, reason, .. } => {
            return Err(Failure::wrong(format!(
                "the data of the mini-batch cannot be read: {origin}: {reason}"
            )));
        }
        _ => return Err(anyhow::anyhow!("the mini-batch is not on this machine").into()),
    };
    let home = python_home()?;
    let (index, items) = (planned.index, planned.items());
    let inputs = trial.spec.inputs.iter().map(|input| {
        format!(
            "            ({}, {}, {}),\n",
            quoted(&input.name),
            quoted(&input.kind.to_string()),
            quoted(&input.source.label())
        )
    });
    let inputs = inputs.collect::<Vec<_>>().concat();
    let arguments: Vec<String> =
        without_output(arguments).map(|argument| format!("            {},\n", quoted(argument))).collect();
    let arguments = arguments.concat();
    let names: Vec<String> = local.item_names().iter().map(|name| quoted(name)).collect();
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

def test_mini_batch_{index}(tmp_path):
    job = testing.Job(
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
    result = job.run(mini_batch, minibatch_index={index}, input={input}, items=names)
    assert testing.count(result) == {items}, "one element for each item"
"#,
        version = env!("CARGO_PKG_VERSION"),
        home = quoted(&home.display().to_string()),
        source = quoted(&trial.code.display().to_string()),
        script = quoted(&trial.spec.entry_script),
        names = names.join(", "),
        input = planned.input,
    ))
}

/// What goes before the test, and the expression that makes its mini-batch: files of this machine, by their paths.
fn named(paths: impl Iterator<Item = PathBuf>) -> (String, &'static str) {
    let lines = paths.map(|path| format!("    {},\n", quoted(&path.display().to_string())));
    (format!("FILES = [\n{}]\n", lines.collect::<String>()), "FILES")
}

/// The same for files that stand in the test.
fn embedded(base: &str, paths: &[&str]) -> Result<(String, &'static str), Failure> {
    let mut data = "FILES = {\n".to_owned();
    let mut left = LARGEST;
    for path in paths {
        let content = read(&Path::new(base).join(path), 0, None, &mut left)?;
        // Without a base, the paths are absolute; each is a file of its own all the same.
        let _ = writeln!(data, "    {}: {},", quoted(path.trim_start_matches('/')), literal(&content));
    }
    data.push_str("}\n");
    Ok((data, "testing.files(FILES, tmp_path)"))
}

/// The same for a slice of a table.
fn rows(
    mini_batch: &MiniBatch<'_>,
    slice: &SliceRef<'_>,
    path: &Path,
) -> Result<(String, &'static str), Failure> {
    let SliceRef { start, end, .. } = *slice;
    let content = read(path, start, Some(end.saturating_sub(start)), &mut { LARGEST })?;
    let of_test = MiniBatch { work: Work::Slice(SliceRef { key: SLICE, ..*slice }), ..*mini_batch };
    let data = format!(
        "# How the slice is read: columns and types as they were found in the whole file.\nDESCRIPTOR = {}\nROWS = {}\n",
        quoted(&hexadecimal(&of_test.encode())),
        literal(&content)
    );
    Ok((format!("{data}START = {start}\n"), "testing.rows(DESCRIPTOR, ROWS, START, tmp_path)"))
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
            "the data of the mini-batch is more than {} MiB, too much for a test file: try one with less data",
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
