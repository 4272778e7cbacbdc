//! Which rows of a slice a sample has.

use prs_common::dataset::mltable::Sample;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// For each of `count` records of the file `origin` from number `first` on, whether a sample has it: 1, or 0. `sample` is a
/// [`Sample`] as JSON.
#[pyfunction]
pub(crate) fn sample_mask<'py>(
    py: Python<'py>,
    sample: &str,
    origin: &str,
    first: u64,
    count: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let sample: Sample =
        serde_json::from_str(sample).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mask = py.detach(|| sample.mask(origin, first..first.saturating_add(count)));
    Ok(PyBytes::new(py, &mask))
}
