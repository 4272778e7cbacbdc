//! Columns whose values come from paths (spec D3), as Python has them.

use prs_common::mini_batch::{PathColumn, PathValue};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A name and a value.
type Column<'py> = (String, Bound<'py, PyAny>);

/// The encoded `columns`: of each its name and its value, a `str`, the nanoseconds of a time as an `int`, or a tuple
/// of a key from the data, encoded. `None` for none.
pub(crate) fn to_python<'py>(py: Python<'py>, columns: &[u8]) -> PyResult<Option<Vec<Column<'py>>>> {
    if columns.is_empty() {
        return Ok(None);
    }
    let columns = PathColumn::decode(columns)
        .map_err(|error| PyValueError::new_err(format!("the columns of a path: {error}")))?;
    let pair = |PathColumn { name, value }: PathColumn<'_>| {
        let value = match value {
            PathValue::Text(text) => text.into_pyobject(py)?.into_any(),
            PathValue::Time(nanoseconds) => nanoseconds.into_pyobject(py)?.into_any(),
            PathValue::Data(encoded) => (encoded,).into_pyobject(py)?.into_any(),
        };
        PyResult::Ok((name.to_owned(), value))
    };
    columns.into_iter().map(pair).collect::<PyResult<_>>().map(Some)
}
