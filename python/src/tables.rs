//! `DataFrame`s that `run()` returned, as rows (spec E8).
//!
//! `azureml_user.parallel_run.tables` hands over Arrow columns where the fast writer gives what pandas' `to_csv`
//! gives, and the text pandas wrote otherwise.

use prs_tabular::{WriteOptions, Writer, supports};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use crate::arrow;
use crate::rows::{append, refuse_too_many, with_utf8};

/// Writes `DataFrame`s, always the same way.
pub(crate) struct TableWriter {
    /// `tables.Tables`.
    tables: Py<PyAny>,
    /// Whether the job asks for the names of the columns.
    has_header: bool,
    /// Made when the first DataFrame comes; `None` when the job's settings are for pandas to follow.
    writer: PyOnceLock<Option<Writer>>,
}

impl TableWriter {
    /// `tables` is a `tables.Tables`.
    pub(crate) fn new(tables: &Bound<'_, PyAny>) -> PyResult<Self> {
        let has_header = tables.getattr("has_header")?.extract()?;
        Ok(Self { tables: tables.clone().unbind(), has_header, writer: PyOnceLock::new() })
    }

    /// Appends the rows of `table`; returns its header where the job asks for one.
    pub(crate) fn write(&self, table: &Bound<'_, PyAny>, rows: &mut Vec<u8>) -> PyResult<Option<String>> {
        let py = table.py();
        let tables = self.tables.bind(py);
        let header = if self.has_header { self.header(table)? } else { None };
        if !self.write_fast(table, rows)? {
            let text = tables.call_method1(intern!(py, "text"), (table,))?.cast_into::<PyString>()?;
            with_utf8(&text, |text| append(rows, text.as_bytes(), b""))??;
        }
        Ok(header)
    }

    /// The names of the columns as a line.
    fn header(&self, table: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let py = table.py();
        let tables = self.tables.bind(py);
        if let Some(writer) = self.writer.get_or_try_init(py, || make_writer(tables))?
            && let Some(names) =
                tables.call_method1(intern!(py, "names"), (table,))?.extract::<Option<Vec<String>>>()?
        {
            let mut line = Vec::new();
            writer.write_header(names.iter().map(String::as_str), &mut line);
            return Ok(Some(String::from_utf8(line)?));
        }
        tables.call_method1(intern!(py, "header"), (table,))?.extract()
    }

    /// Appends the rows where that can be done without pandas; false when it cannot.
    fn write_fast(&self, table: &Bound<'_, PyAny>, rows: &mut Vec<u8>) -> PyResult<bool> {
        let py = table.py();
        let tables = self.tables.bind(py);
        let Some(writer) = self.writer.get_or_try_init(py, || make_writer(tables))? else {
            return Ok(false);
        };
        let columns = tables.call_method1(intern!(py, "columns"), (table,))?;
        if columns.is_none() {
            return Ok(false);
        }
        let columns =
            columns.try_iter()?.map(|column| arrow::import(&column?)).collect::<PyResult<Vec<_>>>()?;
        if !columns.iter().all(|column| supports(column.data_type())) {
            return Ok(false);
        }
        py.detach(|| writer.write(&columns, rows))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        refuse_too_many(rows.len())?;
        Ok(true)
    }
}

fn make_writer(tables: &Bound<'_, PyAny>) -> PyResult<Option<Writer>> {
    let options: Option<(String, String, bool, f32)> =
        tables.call_method0(intern!(tables.py(), "fast_options"))?.extract()?;
    let Some((separator, na_rep, quote_carriage_return, float32_exponent_from)) = options else {
        return Ok(None);
    };
    let separator = separator.as_bytes().first().copied().unwrap_or(b' ');
    let options = WriteOptions { separator, na_rep, quote_carriage_return, float32_exponent_from };
    // A separator the writer refuses is for pandas to accept or refuse.
    Ok(Writer::new(&options).ok())
}
