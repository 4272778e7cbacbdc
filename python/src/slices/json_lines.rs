//! Slices of JSON lines (spec D2): what `pandas.DataFrame` makes of their objects.
//!
//! `prs-tabular` reads what is plain, without the interpreter. The rest Python reads as `json.loads` does, and it is Python
//! that tells what is wrong with a line.

use prs_common::mini_batch::SliceRef;
use prs_common::wire::ErrorInfo;
use prs_tabular::{Lines, LinesColumn, LinesSchema, read_lines};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::{Loaded, data_error};
use crate::arrow::ArrowColumns;

/// How the slices of a file are read.
pub(super) struct JsonLines {
    text_has_nan: bool,
    /// The columns of the file, where they are known.
    schema: LinesSchema,
    /// The same for Python: the names, and the kinds of the values of each.
    columns: Py<PyAny>,
    /// Whether lines that hold no object are left out.
    drops_invalid: bool,
}

impl JsonLines {
    /// `frames` is a `frames.Frames`.
    pub(super) fn new(frames: &Bound<'_, PyAny>, schema: LinesSchema, drops_invalid: bool) -> PyResult<Self> {
        let py = frames.py();
        let text_has_nan = frames.call_method0(intern!(py, "text_has_nan"))?.extract()?;
        let columns = PyDict::new(py);
        for (name, kinds) in schema.names.iter().zip(&schema.kinds) {
            columns.set_item(name, kinds.as_str())?;
        }
        Ok(Self { text_has_nan, schema, columns: columns.into_any().unbind(), drops_invalid })
    }

    /// The DataFrame of the bytes of a slice.
    pub(super) fn load<'py>(
        &self,
        frames: &Bound<'py, PyAny>,
        slice: SliceRef<'_>,
        bytes: &[u8],
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        let py = frames.py();
        let mut frame = py.None().into_bound(py);
        let mut notices = Vec::new();
        let columns = self.columns.bind(py);
        if let Some(lines) = py.detach(|| read_lines(bytes, &self.schema, self.text_has_nan)) {
            frame = of_columns(frames, lines, columns)?;
        }
        if frame.is_none() {
            let lines = PyBytes::new(py, bytes);
            if self.drops_invalid {
                let method = intern!(py, "frame_of_valid_lines");
                let read = frames.call_method1(method, (lines, slice.start, columns))?;
                let refused: Vec<String>;
                (frame, refused) = read.extract()?;
                if let Some(first) = refused.first() {
                    let SliceRef { origin, start, end, .. } = slice;
                    let count = refused.len();
                    notices.push(format!(
                        "{origin}: {count} lines of bytes {start}-{end} are left out, as invalid_lines: drop has it; {first}"
                    ));
                }
            } else {
                frame = frames.call_method1(intern!(py, "frame_of_lines"), (lines, slice.start, columns))?;
            }
        }
        if let Ok(reason) = frame.cast::<PyString>() {
            return Ok(Err(data_error(slice, &reason)));
        }
        let records = frame.len()? as u64;
        Ok(Ok(Loaded { frame, records, notices }))
    }
}

/// The DataFrame of the columns of a slice; `None` where a value is no JSON.
fn of_columns<'py>(
    frames: &Bound<'py, PyAny>,
    lines: Lines<'_>,
    of_file: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = frames.py();
    let others = PyDict::new(py);
    let mut arrays = Vec::new();
    for (position, column) in lines.columns.into_iter().enumerate() {
        match column {
            LinesColumn::Array(array) => arrays.push(array),
            LinesColumn::Values(values) => others.set_item(position, values)?,
        }
    }
    let columns =
        ArrowColumns::new(arrays, lines.records).map_err(|error| PyValueError::new_err(error.to_string()))?;
    frames.call_method1(intern!(py, "frame_of_columns"), (columns, lines.names, others, of_file))
}
