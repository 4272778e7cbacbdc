//! What an MLTable has done with each slice, after it is read: `azureml_user.parallel_run.table_work` does it.

use prs_common::mini_batch::SliceRef;
use prs_common::wire::ErrorInfo;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::slices::{Loaded, data_error};

/// The work on the slices of each input, by its position; none where they are given as they are read.
#[derive(Default)]
pub(super) struct TableWork {
    /// `table_work.TableWork`, and whether it counts rows, of which a slice may have none.
    of_inputs: Vec<Option<(Py<PyAny>, bool)>>,
}

impl TableWork {
    /// `tables` is a list.
    pub(super) fn new(tables: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut of_inputs = Vec::new();
        for work in tables.extract::<Vec<Option<Bound<'_, PyAny>>>>()? {
            let with_counts = |work: Bound<'_, PyAny>| {
                let counts = work.getattr(intern!(work.py(), "counts"))?.extract()?;
                Ok::<_, PyErr>((work.unbind(), counts))
            };
            of_inputs.push(work.map(with_counts).transpose()?);
        }
        Ok(Self { of_inputs })
    }

    /// Whether something is done with slices of the input at this position.
    pub(super) fn is_there(&self, input: u32) -> bool {
        matches!(self.of_inputs.get(input as usize), Some(Some(_)))
    }

    /// Does the work on a slice that has rows. Exceptions are of pandas; what is wrong with the data is the inner error.
    pub(super) fn done<'py>(
        &self,
        py: Python<'py>,
        input: u32,
        slice: SliceRef<'_>,
        mut loaded: Loaded<'py>,
    ) -> PyResult<Result<Loaded<'py>, ErrorInfo>> {
        let work = self.of_inputs.get(input as usize).and_then(Option::as_ref);
        let Some((work, _)) = work.filter(|(_, counts)| *counts || loaded.records > 0) else {
            return Ok(Ok(loaded));
        };
        let SliceRef { origin, first_record, taken, checksum, .. } = slice;
        let given = (&loaded.frame, origin, first_record, taken, checksum);
        let done = work.bind(py).call_method1(intern!(py, "do"), given)?;
        if let Ok(reason) = done.cast::<PyString>() {
            return Ok(Err(data_error(slice, &reason)));
        }
        let (frame, notices): (Bound<'py, PyAny>, Vec<String>) = done.extract()?;
        loaded.records = frame.len()? as u64;
        loaded.frame = frame;
        loaded.notices.extend(notices);
        Ok(Ok(loaded))
    }
}
