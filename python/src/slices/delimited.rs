//! Slices of delimited text (spec D2): read by `prs-tabular`, with the types `pandas.read_csv` would give.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use prs_common::mini_batch::SliceRef;
use prs_common::wire::ErrorInfo;
use prs_tabular::{Batch, ColumnType, Dialect, Malformed, Names, ReadError, Schema, read_some};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;

use super::{Loaded, data_error};
use crate::arrow::ArrowColumns;

/// From here on a float has not every whole number.
const INEXACT: f64 = 9_007_199_254_740_992.0;

/// How the slices of a file are read.
pub(super) struct Delimited {
    dialect: Dialect,
    schema: Schema,
    /// The columns' names, as a pandas Index.
    index: Py<PyAny>,
    /// The names of all columns of the table, where its files have not the same ones.
    all: Option<Vec<String>>,
}

impl Delimited {
    /// `frames` is a `frames.Frames`; `all` are the columns of the whole table, where a file has not all of them.
    pub(super) fn new(
        frames: &Bound<'_, PyAny>,
        dialect: Dialect,
        schema: Schema,
        all: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let py = frames.py();
        let index = match &schema.names {
            Names::Header(names) => frames.call_method1(intern!(py, "index_of_names"), (names,))?,
            Names::Positions(count) => frames.call_method1(intern!(py, "index_of_positions"), (*count,))?,
        };
        Ok(Self { dialect, schema, index: index.unbind(), all })
    }

    /// The positions of the columns that `names` has, in the order of the data.
    fn positions(&self, names: &[String]) -> Vec<usize> {
        let all = self.schema.names.iter().enumerate();
        all.filter(|(_, name)| names.contains(name)).map(|(position, _)| position).collect()
    }

    /// What to say where one of the `keys` of a shuffle is text in this slice, and something else in the file: rows with the same
    /// value would not come together.
    fn parted(&self, keys: &[String], batch: &Batch) -> Option<String> {
        let is_key =
            |column: &&usize| self.schema.names.iter().nth(**column).is_some_and(|name| keys.contains(&name));
        let is_text = |column: &&usize| batch.types[**column] == ColumnType::Utf8;
        let &column = batch.widened.iter().filter(is_key).find(is_text)?;
        Some(format!(
            "column {:?} of partition_keys is text here and {} in the sample of the file, so values that are the same would not \
             come together: declare its dtype in the job file",
            self.schema.names.iter().nth(column).unwrap_or_default(),
            self.schema.types[column]
        ))
    }

    /// Has `frames` keep the text of those `keys` that are floats in this slice and too large to be exact, because a value
    /// is missing beside them: as numbers, different ones would come together.
    fn keep_texts(
        &self,
        frames: &Bound<'_, PyAny>,
        (bytes, columns, keys): (&[u8], Option<&[usize]>, &[String]),
        batch: &Batch,
    ) -> PyResult<Result<(), ReadError>> {
        let py = frames.py();
        let is_inexact = |column: &usize| {
            let at = columns.map_or(Some(*column), |columns| columns.iter().position(|one| one == column));
            let array = at.and_then(|at| batch.columns.get(at)?.as_primitive_opt::<Float64Type>());
            array.is_some_and(|array| array.values().iter().any(|value| value.abs() >= INEXACT))
        };
        let mut inexact = self.positions(keys);
        inexact.retain(is_inexact);
        if inexact.is_empty() {
            return Ok(Ok(()));
        }
        let mut schema = self.schema.clone();
        for &column in &inexact {
            schema.types[column] = ColumnType::Utf8;
        }
        let texts = match py.detach(|| read_some(bytes, &self.dialect, &schema, &inexact)) {
            Ok(texts) => texts,
            Err(error) => return Ok(Err(error)),
        };
        let names: Vec<String> =
            inexact.iter().filter_map(|&column| self.schema.names.iter().nth(column)).collect();
        let texts = ArrowColumns::new(texts.columns, texts.records)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        frames.call_method1(intern!(py, "keep_texts"), (names, texts))?;
        Ok(Ok(()))
    }

    /// The DataFrame of the bytes of a slice, of all columns, or of those that have these names, or these positions where they have no names. `told`
    /// has the files and columns that a person was told about.
    pub(super) fn load<'py>(
        &self,
        frames: &Bound<'py, PyAny>,
        slice: SliceRef<'_>,
        (bytes, columns, keys): (&[u8], Option<&[String]>, &[String]),
        told: &mut HashSet<(String, usize)>,
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        let py = frames.py();
        let wanted = columns.map(|names| self.positions(names));
        let read = || match &wanted {
            Some(wanted) => read_some(bytes, &self.dialect, &self.schema, wanted),
            None => prs_tabular::read(bytes, &self.dialect, &self.schema),
        };
        let batch = match py.detach(read) {
            Ok(batch) => batch,
            Err(error) => return Ok(Err(data_error(slice, &absolute(error, slice.start)))),
        };
        if let Some(reason) = self.parted(keys, &batch) {
            return Ok(Err(data_error(slice, &reason)));
        }
        if let Err(error) = self.keep_texts(frames, (bytes, wanted.as_deref(), keys), &batch)? {
            return Ok(Err(data_error(slice, &absolute(error, slice.start))));
        }
        let notices = widened(told, &self.schema, slice, &batch);
        let records = batch.records;
        // Of truth values some of which are missing in the file, whether or not one is missing here.
        let is_object = |column: usize| batch.types[column] == ColumnType::BoolOrMissing;
        let objects: Vec<usize> = match &wanted {
            Some(wanted) => (0..wanted.len()).filter(|at| is_object(wanted[*at])).collect(),
            None => (0..batch.types.len()).filter(|at| is_object(*at)).collect(),
        };
        let columns = ArrowColumns::new(batch.columns, records)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let index = match wanted {
            Some(wanted) => self.index.bind(py).call_method1(intern!(py, "take"), (wanted,))?,
            None => self.index.bind(py).clone(),
        };
        let mut frame = frames.call_method1(intern!(py, "frame"), (columns, index, objects))?;
        if let Some(all) = &self.all {
            frame = frames.call_method1(intern!(py, "with_columns"), (frame, all))?;
        }
        Ok(Ok(Loaded { frame, records: records as u64, notices }))
    }
}

/// Counts the offset of an error from the start of the file instead of that of the slice.
fn absolute(mut error: ReadError, start: u64) -> ReadError {
    if let ReadError::NotUtf8 { offset }
    | ReadError::NotAscii { offset }
    | ReadError::Malformed(
        Malformed::Ragged { offset, .. }
        | Malformed::UnterminatedQuote { offset }
        | Malformed::RecordTooLong { offset },
    ) = &mut error
    {
        *offset += start;
    }
    error
}

/// What to say about columns that could not keep their type, once for each file and column.
fn widened(
    told: &mut HashSet<(String, usize)>,
    schema: &Schema,
    slice: SliceRef<'_>,
    batch: &Batch,
) -> Vec<String> {
    let mut notices = Vec::new();
    for &column in &batch.widened {
        if told.insert((slice.origin.to_owned(), column)) {
            let name = schema.names.iter().nth(column).unwrap_or_default();
            notices.push(format!(
                "{}: column {name:?} is {} in the mini-batch of bytes {}-{} and {} in the sample of the file; \
                 declare its dtype in the job file to have it the same in every mini-batch",
                slice.origin, batch.types[column], slice.start, slice.end, schema.types[column]
            ));
        }
    }
    notices
}
