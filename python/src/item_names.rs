//! The names of a mini-batch's items, made when a script asks for them.

use prs_common::mini_batch::{MiniBatch, Work};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Calling it gives the names below the dataset, a `list[str]`.
#[pyclass(frozen, module = "prs_process")]
pub(crate) struct ItemNames {
    /// The descriptor: decoding it is left to who wants the names.
    descriptor: Box<[u8]>,
    /// The first item that it has, and the one behind the last; absent where it has all.
    part: Option<(u64, u64)>,
}

impl ItemNames {
    /// Those of the mini-batch with this encoded descriptor, or of a `part` of its items.
    pub(crate) fn of(descriptor: &[u8], part: Option<(u64, u64)>) -> Self {
        Self { descriptor: descriptor.into(), part }
    }
}

#[pymethods]
impl ItemNames {
    fn __call__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mini_batch =
            MiniBatch::decode(&self.descriptor).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let mut names = mini_batch.item_names();
        // Of a table there is one for each slice, whatever the rows.
        if let (Work::Files { .. }, Some((from, to))) = (&mini_batch.work, self.part) {
            let taken = |at: u64| (at as usize).min(names.len());
            names = names[taken(from)..taken(to)].to_vec();
        }
        PyList::new(py, names)
    }
}
