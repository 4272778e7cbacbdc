//! What `run()` returned, as rows (spec E6-E9).
//!
//! Each element becomes `str(element)` and a newline, UTF-8. Lists and tuples, by far the most frequent, and
//! elements that are strings already are handled without any Python code; everything else is sorted out by
//! `azureml_user.parallel_run.results`, which also words the refusals.

use std::ffi::c_char;

use pyo3::exceptions::{PyUnicodeEncodeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::outbox::MAX_ROWS;
use crate::tables::TableWriter;

/// What a mini-batch gave, beside the bytes of its rows.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    /// Elements, or rows of a DataFrame.
    pub(crate) count: u64,
    /// Header line of a DataFrame, where the job asks for one.
    pub(crate) header: Option<String>,
}

/// Turns results into rows.
pub(crate) struct Collector {
    /// `results.Results`: sorts out what is neither a list nor a tuple.
    results: Py<PyAny>,
    tables: TableWriter,
    append_row: bool,
    /// Whether rows come of DataFrames alone.
    only_tables: bool,
}

impl Collector {
    /// `results` is a `results.Results`.
    pub(crate) fn new(results: &Bound<'_, PyAny>, append_row: bool) -> PyResult<Self> {
        let tables = TableWriter::new(&results.getattr("tables")?)?;
        let only_tables = results.getattr("only_tables")?.extract()?;
        Ok(Self { results: results.clone().unbind(), tables, append_row, only_tables })
    }

    /// Appends the rows of `result` to `rows`; only counts them for `summary_only`.
    pub(crate) fn collect(
        &self,
        py: Python<'_>,
        result: &Bound<'_, PyAny>,
        rows: &mut Vec<u8>,
    ) -> PyResult<Returned> {
        if let Ok(list) = result.cast_exact::<PyList>()
            && (!self.only_tables || list.is_empty())
        {
            if self.append_row {
                for (index, element) in list.iter().enumerate() {
                    push_row(&element, index, rows)?;
                }
            }
            return Ok(Returned { count: list.len() as u64, header: None });
        }
        if let Ok(tuple) = result.cast_exact::<PyTuple>()
            && (!self.only_tables || tuple.is_empty())
        {
            if self.append_row {
                for (index, element) in tuple.iter_borrowed().enumerate() {
                    push_row(&element, index, rows)?;
                }
            }
            return Ok(Returned { count: tuple.len() as u64, header: None });
        }
        let results = self.results.bind(py);
        let elements = results.call_method1(intern!(py, "elements"), (result,))?;
        if elements.is_none() {
            let count = result.len()? as u64;
            let header = if self.append_row { self.tables.write(result, rows)? } else { None };
            return Ok(Returned { count, header });
        }
        let mut count = 0;
        for element in elements.try_iter()? {
            let element = element?;
            if self.append_row {
                push_row(&element, count, rows)?;
            }
            count += 1;
        }
        Ok(Returned { count: count as u64, header: None })
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

#[inline]
pub(crate) fn append(rows: &mut Vec<u8>, text: &[u8], end: &[u8]) -> PyResult<()> {
    refuse_too_many(rows.len() + text.len() + end.len())?;
    rows.extend_from_slice(text);
    rows.extend_from_slice(end);
    Ok(())
}

/// Refuses rows of more bytes than one mini-batch can return.
#[inline]
pub(crate) fn refuse_too_many(bytes: usize) -> PyResult<()> {
    if bytes <= MAX_ROWS {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "the rows of this mini-batch are larger than {MAX_ROWS} bytes, which is the most one mini-batch can \
         return; make the mini-batches smaller, or write files below EntryScript().output_dir"
    )))
}

/// Calls `use_text` with the text of `text`, without making a bytes object of it.
#[expect(unsafe_code, reason = "the stable interface of Python 3.9 has no way to borrow a string's text")]
#[inline]
pub(crate) fn with_utf8<T>(text: &Bound<'_, PyString>, use_text: impl FnOnce(&str) -> T) -> PyResult<T> {
    let mut size: ffi::Py_ssize_t = 0;
    // SAFETY: `text` is a str and the interpreter is held; the text lives as long as the str does, which is
    // longer than the call of `use_text`.
    unsafe {
        let data = PyUnicode_AsUTF8AndSize(text.as_ptr(), &raw mut size);
        if data.is_null() {
            return Err(PyErr::fetch(text.py()));
        }
        let bytes = std::slice::from_raw_parts(data.cast::<u8>(), size as usize);
        Ok(use_text(std::str::from_utf8_unchecked(bytes)))
    }
}

#[expect(
    unsafe_code,
    reason = "exported by every CPython since 3.3, part of the stable interface since 3.10"
)]
unsafe extern "C" {
    fn PyUnicode_AsUTF8AndSize(text: *mut ffi::PyObject, size: *mut ffi::Py_ssize_t) -> *const c_char;
}
