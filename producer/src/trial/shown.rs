//! What came of a mini-batch that was tried, for people and for programs.

use std::fmt::Write;

use bytes::Bytes;
use prs_common::job::{OutputAction, OutputFormat};
use prs_common::mini_batch::{MiniBatch, Work, id_of};
use prs_common::wire::{ErrorInfo, Stage};
use prs_orchestrator::job::count;
use prs_orchestrator::report::progress_overview::duration;
use prs_tabular::parquet::write;
use prs_worker::foreground::{Debugger, Tried};
use serde::Serialize;

use super::Trial;
use crate::failure::{Code, Failure};

/// Rows that are shown.
const FIRST_ROWS: usize = 10;
/// Characters of a row that are shown to people.
const WIDTH: usize = 200;

/// What `try -o json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Shown {
    /// Which mini-batch.
    mini_batch_id: String,
    /// The same as a number, from 0.
    minibatch_index: u64,
    /// The name of its input.
    input: String,
    /// What it consists of.
    detail: String,
    /// Of the row that `--item` names, its place in the DataFrame, from 0; null without.
    row: Option<u64>,
    /// How long `init()` took; null where it was not reached.
    init_seconds: Option<f64>,
    /// How long `run()` took; null where it was not reached.
    run_seconds: Option<f64>,
    /// Its items.
    items: u64,
    /// The elements that `run()` returned.
    returned: u64,
    /// The line of column names that the result would have; null where it has none.
    header: Option<String>,
    /// The first rows that would be written.
    first_rows: Vec<String>,
    /// What all of its rows take, bytes.
    bytes: usize,
    /// Files that it wrote to the output.
    files: Vec<String>,
    /// What else there is to know.
    notices: Vec<String>,
    /// Why it failed; null where it did not.
    error: Option<Error>,
    #[serde(skip)]
    appends: bool,
}

/// Why a mini-batch failed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Error {
    /// What failed: `importing the script`, `init()`, `reading the data`, `run()` or `shutdown()`.
    stage: &'static str,
    /// Class of the exception, or what stands for it.
    category: String,
    /// Its message.
    message: String,
    /// Its traceback; empty where there is none.
    traceback: String,
}

/// One line that says what `mini_batch` is made of.
pub(crate) fn describe(mini_batch: &MiniBatch<'_>) -> String {
    let names = mini_batch.file_names();
    let what = match (&mini_batch.work, names.as_slice()) {
        (Work::Slice(_) | Work::Slices(_), _) => {
            let rows = mini_batch.work.slices().iter().map(|slice| slice.records).sum();
            format!("{}, {}", count(rows, "row"), mini_batch.detail())
        }
        (_, []) => mini_batch.detail(),
        (_, [only]) => format!("1 file, {only}"),
        (_, [first, .., last]) => format!("{} files, {first} … {last}", names.len()),
    };
    format!("mini-batch {}: {what}", mini_batch.index)
}

/// The first rows as text, and the names of their columns where the result has them.
fn first_rows(
    trial: &Trial,
    rows: &Bytes,
    header: Option<String>,
    notices: &mut Vec<String>,
) -> (Option<String>, Vec<String>) {
    if !trial.spec.output_format.is_some_and(OutputFormat::is_parquet) {
        let lines = rows.split_inclusive(|byte| *byte == b'\n').take(FIRST_ROWS);
        let lines = lines.map(|row| String::from_utf8_lossy(row).trim_end_matches('\n').to_owned());
        return (header, lines.collect());
    }
    if rows.is_empty() {
        return (None, Vec::new());
    }
    match write::shown(rows.clone(), FIRST_ROWS) {
        Ok(shown) => (Some(shown.header), shown.rows),
        Err(error) => {
            notices.push(format!("the rows cannot be shown: {error}"));
            (None, Vec::new())
        }
    }
}

impl Shown {
    /// What came of `mini_batch`, in which the wanted row is at `row`.
    pub(crate) fn new(trial: &Trial, mini_batch: &MiniBatch<'_>, row: Option<u64>, tried: Tried) -> Self {
        let input = trial.spec.inputs.get(mini_batch.input as usize);
        let mut notices = tried.notices;
        if let Some(error) = &tried.shutdown_error {
            notices.push(format!("shutdown() failed: {}: {}", error.category, error.message));
        }
        let (header, first_rows) = first_rows(trial, &tried.rows, tried.header, &mut notices);
        Self {
            mini_batch_id: id_of(mini_batch.index),
            minibatch_index: mini_batch.index,
            input: input.map(|input| input.name.clone()).unwrap_or_default(),
            detail: mini_batch.detail(),
            row,
            init_seconds: tried.init_seconds,
            run_seconds: tried.run_seconds,
            items: tried.items,
            returned: tried.returned,
            header,
            first_rows,
            bytes: tried.rows.len(),
            files: tried.files,
            notices,
            error: tried.error.map(Error::from),
            appends: trial.spec.output_action == OutputAction::AppendRow,
        }
    }

    /// The same in lines. A traceback that a debugger has shown already is left out.
    pub(crate) fn text(&self, debugger: Debugger) -> String {
        let mut out = String::new();
        if let Some(seconds) = self.init_seconds {
            let _ = writeln!(out, "init()    {}", short(seconds));
        }
        if let Some(seconds) = self.run_seconds {
            let _ = writeln!(out, "run()     {}", short(seconds));
        }
        for notice in &self.notices {
            let _ = writeln!(out, "note      {notice}");
        }
        if let Some(error) = &self.error {
            if !error.traceback.is_empty() && debugger != Debugger::PostMortem {
                let _ = write!(out, "\n{}", error.traceback);
            }
            return out;
        }
        let _ = writeln!(out, "returned  {}", self.returned());
        if !self.files.is_empty() {
            let _ = writeln!(out, "files     {}", self.files.join(", "));
        }
        if self.appends {
            let _ = writeln!(
                out,
                "output    {} bytes{}",
                self.bytes,
                if self.first_rows.is_empty() { "" } else { "; the first rows:" }
            );
            for row in self
                .header
                .iter()
                .map(|header| header.trim_end())
                .chain(self.first_rows.iter().map(String::as_str))
            {
                let cut: String = row.chars().take(WIDTH).collect();
                let _ = writeln!(out, "  {cut}{}", if cut.len() < row.len() { " …" } else { "" });
            }
        } else {
            let _ = writeln!(out, "output    no rows (summary_only)");
        }
        out.push_str("ok\n");
        out
    }

    fn returned(&self) -> String {
        let Self { items, returned, .. } = *self;
        let counts = format!("{} for {}", count(returned, "element"), count(items, "item"));
        match items.saturating_sub(returned) {
            0 => counts,
            lost => format!("{counts}: {} would count as failed", count(lost, "item")),
        }
    }

    /// The exit code, or why the mini-batch failed.
    pub(crate) fn end(&self) -> Result<Code, Failure> {
        let Some(Error { stage, category, message, .. }) = &self.error else { return Ok(Code::Completed) };
        Err(match category.as_str() {
            "KeyboardInterrupt" => Failure::interrupted("interrupted (Ctrl-C)"),
            "BdbQuit" => Failure::interrupted("the debugger was left before the end"),
            _ => Failure::from(anyhow::anyhow!("{stage} failed: {category}: {message}")),
        })
    }
}

impl From<ErrorInfo> for Error {
    fn from(ErrorInfo { stage, category, message, traceback, .. }: ErrorInfo) -> Self {
        let stage = match stage {
            Stage::Import => "importing the script",
            Stage::Init => "init()",
            Stage::Load => "reading the data",
            Stage::Run | Stage::Cancelled | Stage::Items => "run()",
            Stage::Shutdown => "shutdown()",
        };
        Self { stage, category, message, traceback }
    }
}

/// As [`duration`], in milliseconds where it is less than a second.
fn short(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { duration(seconds) }
}

#[cfg(test)]
mod tests {
    use prs_common::mini_batch::SliceRef;

    use super::*;

    #[test]
    fn a_mini_batch_is_described_by_what_is_in_it() {
        let files = |paths| Work::Files { base: "/data", paths, versions: &[], names: Vec::new() };
        let key = "/data/t.csv";
        let slice =
            SliceRef { key, origin: key, name_at: 6, start: 10, end: 99, records: 7, ..SliceRef::EMPTY };
        let table = Work::Slice(slice);
        for (work, expected) in [
            (files(vec!["a", "b", "c"]), "mini-batch 3: 3 files, /data/a … /data/c"),
            (files(vec!["a"]), "mini-batch 3: 1 file, /data/a"),
            (table, "mini-batch 3: 7 rows, /data/t.csv bytes 10-99"),
            (
                Work::Unreadable { origin: "/data/t.csv", offset: 5, reason: "" },
                "mini-batch 3: /data/t.csv from byte 5",
            ),
        ] {
            assert_eq!(describe(&MiniBatch::new(3, 0, work)), expected);
        }
    }

    #[test]
    fn times_are_readable() {
        assert_eq!((short(0.0312), short(4.23)), ("31.2 ms".to_owned(), "4.2 s".to_owned()));
    }
}
