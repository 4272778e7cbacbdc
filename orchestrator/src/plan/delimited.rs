//! Mini-batches of a tabular dataset of delimited text (spec D2): slices of a file at record boundaries, of
//! about the wanted size, never across files. Types are found once a file, so that its slices agree.

use std::path::Path;

use prs_common::dataset::listing::{Listing, ListingOptions};
use prs_common::job::{Infer, Input, TabularOptions};
use prs_common::mini_batch::Work;
use prs_tabular::{ColumnType, Dialect, InferMode, Schema, SchemaError, SplitError, split_file};

use super::plain_text::{self, PlainText, PlainTextError, Scratch};
use super::{PlanError, Sink};

/// Plans one input with about `size` bytes a mini-batch. A file that cannot be split becomes one mini-batch
/// that fails with the reason (D5); the others are not touched by it.
pub(super) fn plan(
    input: &Input,
    position: u32,
    size: u64,
    work: &Path,
    sink: &mut Sink<'_>,
) -> Result<(), PlanError> {
    let failed = |source| PlanError::Listing { input: input.name.clone(), source };
    let options = input.tabular.clone().unwrap_or_default();
    let mut listing = Listing::open(&input.source, ListingOptions::default()).map_err(failed)?;
    let mut number = 0;
    let mut files = Vec::new();
    loop {
        let visited = listing.next_batch(256, &mut files).map_err(failed)?;
        for file in files.drain(..) {
            let scratch = Scratch { work, name: format!("plain/{position}-{number:06}") };
            number += 1;
            plan_file(&options, position, size, &file.path(), &scratch, sink)?;
            if sink.is_stopped() {
                return Ok(());
            }
        }
        if visited == 0 {
            return Ok(());
        }
    }
}

fn plan_file(
    options: &TabularOptions,
    position: u32,
    size: u64,
    file: &Path,
    scratch: &Scratch<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), PlanError> {
    let origin = file.to_string_lossy();
    let unreadable = |sink: &mut Sink<'_>, offset: u64, reason: &str| {
        let _ = sink.push(position, Work::Unreadable { origin: &origin, offset, reason });
    };
    let text = match plain_text::open(file, scratch, sink.stop) {
        Ok(text) => text,
        Err(PlainTextError::Input(error)) => {
            unreadable(sink, 0, &error.to_string());
            return Ok(());
        }
        Err(PlainTextError::Scratch(error)) => return Err(error),
    };
    let (dialect, schema) = match read_schema(options, &text) {
        Ok(found) => found,
        Err(SchemaError::Empty) if text.broken.is_none() => return Ok(()),
        Err(error) => {
            let (offset, reason) = text.broken.unwrap_or_else(|| (0, error.to_string()));
            unreadable(sink, offset, &reason);
            return Ok(());
        }
    };
    let schema = rmp_serde::to_vec(&(&dialect, &schema)).expect("a schema holds only names and types");
    let path = text.name.to_string_lossy();
    let mut planned_to = 0;
    let split = split_file(&text.path, &dialect, size, |slice| {
        planned_to = slice.end;
        let work = Work::Delimited {
            path: &path,
            origin: &origin,
            version: &text.version,
            start: slice.start,
            end: slice.end,
            records: slice.records,
            schema: &schema,
        };
        sink.push(position, work)
    });
    if sink.is_stopped() {
        return Ok(());
    }
    match (split, text.broken) {
        (_, Some((offset, reason))) => unreadable(sink, offset, &reason),
        (Err(error @ SplitError::UnterminatedQuote { .. }), None) => {
            unreadable(sink, planned_to, &error.to_string());
        }
        (Err(error), None) => unreadable(sink, planned_to, &error.to_string()),
        (Ok(_), None) => {}
    }
    Ok(())
}

fn read_schema(options: &TabularOptions, text: &PlainText) -> Result<(Dialect, Schema), SchemaError> {
    let dialect =
        Dialect::new(options.delimiter, options.has_header).expect("the job file's delimiter was checked");
    let mode = match options.infer {
        Infer::Sampled => InferMode::Sampled,
        Infer::Full => InferMode::Full,
    };
    let mut schema = Schema::infer_file(&text.path, &dialect, mode)?;
    let declared: Result<Vec<(&str, ColumnType)>, SchemaError> =
        options.dtype.iter().map(|(name, dtype)| dtype.parse().map(|dtype| (name.as_str(), dtype))).collect();
    schema.declare(declared?)?;
    Ok((dialect, schema))
}
