//! The names of a mini-batch's items, made when a script asks for them.

use prs_common::mini_batch::MiniBatch;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Calling it gives the names below the dataset, a `list[str]`.
#[pyclass(frozen, module = "prs_process")]
pub(crate) struct ItemNames {
    /// The descriptor: decoding it is left to who wants the names.
    descriptor: Box<[u8]>,
}

impl ItemNames {
    /// Those of the mini-batch with this encoded descriptor.
    pub(crate) fn of(descriptor: &[u8]) -> Self {
        Self { descriptor: descriptor.into() }
    }
}

#[pymethods]
impl ItemNames {
    fn __call__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mini_batch =
            MiniBatch::decode(&self.descriptor).map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyList::new(py, mini_batch.item_names())
    }
}
