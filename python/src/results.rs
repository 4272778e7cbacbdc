//! What `run()` returned, as rows (spec E6-E9).
//!
//! Each element becomes `str(element)` and a newline, UTF-8; with `output_format: json_lines`,
//! `azureml_user.parallel_run.json_lines` writes them, with `output_format: parquet` `parquet_output` makes a frame of
//! a DataFrame. Lists and tuples, by far the most frequent, and
//! elements that are strings already are handled without any Python code; everything else is sorted out by
//! `azureml_user.parallel_run.results`, which also words the refusals.

use prs_common::wire::{ErrorInfo, Stage};
use pyo3::exceptions::{PyUnicodeEncodeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::errors::{Described, info};
use crate::rows::{append, with_utf8};
use crate::tables::TableWriter;

/// What a mini-batch gave, beside the bytes of its rows.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    /// Elements, or rows of a DataFrame.
    pub(crate) count: u64,
    /// Header of a DataFrame, where the result needs one.
    pub(crate) header: Option<String>,
    /// Why items are missing, where prs's own script says it.
    pub(crate) missing: Option<ErrorInfo>,
}

/// Turns results into rows.
pub(crate) struct Collector {
    /// `results.Results`: sorts out what is neither a list nor a tuple.
    results: Py<PyAny>,
    tables: TableWriter,
    append_row: bool,
    /// Whether rows come of DataFrames alone.
    only_tables: bool,
    /// Whether rows are JSON.
    json_lines: bool,
    /// Whether prs's own scorer makes the rows.
    is_scored: bool,
    /// A `parquet_output.ParquetOutput`, where rows are of a Parquet file.
    parquet: Option<Py<PyAny>>,
}

impl Collector {
    /// `results` is a `results.Results`.
    pub(crate) fn new(results: &Bound<'_, PyAny>, append_row: bool) -> PyResult<Self> {
        let tables = TableWriter::new(&results.getattr("tables")?)?;
        let only_tables = results.getattr("only_tables")?.extract()?;
        let json_lines = append_row && results.getattr("is_json")?.extract()?;
        let parquet = results.getattr("parquet")?.extract()?;
        let is_scored = results.getattr("is_scored")?.extract()?;
        let results = results.clone().unbind();
        Ok(Self { results, tables, append_row, only_tables, json_lines, is_scored, parquet })
    }

    /// Appends the rows of `result` to `rows`; only counts them for `summary_only`.
    pub(crate) fn collect<'py>(
        &self,
        py: Python<'py>,
        result: &Bound<'py, PyAny>,
        rows: &mut Vec<u8>,
    ) -> PyResult<Returned> {
        if self.json_lines {
            let written = self.results.bind(py).call_method1(intern!(py, "json_lines"), (result,))?;
            let (lines, count): (Bound<'py, PyBytes>, u64) = written.extract()?;
            append(rows, lines.as_bytes(), b"")?;
            return Ok(Returned { count, ..Returned::default() });
        }
        if self.is_scored {
            // A `results.Scored`.
            let (lines, count, missing): (Bound<'py, PyBytes>, u64, Option<Described>) = result.extract()?;
            if self.append_row {
                append(rows, lines.as_bytes(), b"")?;
            }
            let missing = missing.map(|described| info(Stage::Items, described));
            return Ok(Returned { count, header: None, missing });
        }
        if let Ok(list) = result.cast_exact::<PyList>()
            && (!self.only_tables || list.is_empty())
        {
            return self.gather(list.iter().map(Ok), Some(list.len()), rows);
        }
        if let Ok(tuple) = result.cast_exact::<PyTuple>()
            && (!self.only_tables || tuple.is_empty())
        {
            return self.gather(tuple.iter().map(Ok), Some(tuple.len()), rows);
        }
        let elements = self.results.bind(py).call_method1(intern!(py, "elements"), (result,))?;
        if !elements.is_none() {
            return self.gather(elements.try_iter()?, None, rows);
        }
        let count = result.len()? as u64;
        if let Some(parquet) = &self.parquet {
            let written = parquet.bind(py).call_method1(intern!(py, "of_table"), (result,))?;
            let (frame, header): (Bound<'py, PyBytes>, Option<String>) = written.extract()?;
            append(rows, frame.as_bytes(), b"")?;
            return Ok(Returned { count, header, missing: None });
        }
        let header = if self.append_row { self.tables.write(result, rows)? } else { None };
        Ok(Returned { count, header, missing: None })
    }

    /// Appends or counts `elements`; those of known number are not looked at to be counted.
    #[inline]
    fn gather<'py>(
        &self,
        elements: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
        known: Option<usize>,
        rows: &mut Vec<u8>,
    ) -> PyResult<Returned> {
        let mut count = 0;
        match known {
            Some(known) if !self.append_row => count = known,
            _ => {
                for element in elements {
                    let element = element?;
                    if self.append_row {
                        push_row(&element, count, rows)?;
                    }
                    count += 1;
                }
            }
        }
        Ok(Returned { count: count as u64, ..Returned::default() })
    }
}

/// Appends `str(element)` and a newline.
#[inline]
fn push_row(element: &Bound<'_, PyAny>, index: usize, rows: &mut Vec<u8>) -> PyResult<()> {
    if let Ok(text) = element.cast_exact::<PyString>() {
        return push_text(text, index, rows);
    }
    push_text(&element.str()?, index, rows)
}

#[inline]
fn push_text(text: &Bound<'_, PyString>, index: usize, rows: &mut Vec<u8>) -> PyResult<()> {
    match with_utf8(text, |text| append(rows, text.as_bytes(), b"\n")) {
        Ok(appended) => appended,
        Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(text.py()) => {
            Err(PyValueError::new_err(format!(
                "row {index} (counted from 0) of what run() returned cannot be written as UTF-8: {error}"
            )))
        }
        Err(error) => Err(error),
    }
}
