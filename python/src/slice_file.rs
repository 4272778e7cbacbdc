//! Slices of tables read without an agent, for tests of scripts: the bytes lie in a file of the test's own.

use prs_common::mini_batch::{MiniBatch, StoreRef, Work};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::slices::SliceReader;

/// Reads slices as the process of a job does.
#[pyclass(unsendable, module = "prs_process")]
pub(crate) struct Slices {
    reader: SliceReader,
}

#[pymethods]
impl Slices {
    /// `frames` is a `frames.Frames`; `scratch` is the folder that the paths in descriptors start from.
    #[new]
    fn new(frames: Py<PyAny>, scratch: &str) -> Self {
        Self { reader: SliceReader::new(frames, scratch) }
    }

    /// The DataFrame that `run()` gets of the encoded `descriptor`.
    fn read<'py>(&mut self, py: Python<'py>, descriptor: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let slice = match MiniBatch::decode(descriptor) {
            Ok(MiniBatch { work: Work::Slice(slice), .. }) if slice.store == StoreRef::Local => slice,
            _ => {
                return Err(PyValueError::new_err(
                    "the descriptor is not that of a slice of a table, or of another version of prs: \
                     make the test anew with prs try --pytest",
                ));
            }
        };
        match self.reader.load(py, slice)? {
            Ok(loaded) => Ok(loaded.frame),
            Err(error) => Err(PyValueError::new_err(format!("{}: {}", error.category, error.message))),
        }
    }
}
