//! The argument of `run()`, made from a mini-batch's descriptor (spec E4).

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

/// The `list[str]` of absolute paths of a mini-batch of files.
pub(crate) fn list_of_paths<'py>(
    py: Python<'py>,
    base: &str,
    paths: &[&str],
) -> PyResult<Bound<'py, PyList>> {
    if base.is_empty() {
        return PyList::new(py, paths.iter().map(|path| PyString::new(py, path)));
    }
    let mut full = String::with_capacity(base.len() + 64);
    full.push_str(base);
    if !base.ends_with('/') {
        full.push('/');
    }
    let below = full.len();
    PyList::new(
        py,
        paths.iter().map(|path| {
            full.truncate(below);
            full.push_str(path);
            PyString::new(py, &full)
        }),
    )
}
