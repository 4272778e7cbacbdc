//! The argument of `run()`, made from a mini-batch's descriptor (spec E4).

use prs_common::mini_batch::{MiniBatch, Work};
use prs_common::wire::{ErrorInfo, Stage};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyString};

use crate::changes::FileWatch;
use crate::connection::Connection;
use crate::errors::Describer;
use crate::slices::SliceReader;

/// What an argument is made with.
pub(crate) struct Making<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) describer: &'a Describer,
    /// Looks whether the files of the mini-batch change.
    pub(crate) watch: &'a mut FileWatch,
    /// Reads tables, when an input of the job is tabular.
    pub(crate) slices: Option<&'a mut SliceReader>,
}

impl Making<'_> {
    /// The argument of a mini-batch, which is that of the encoded `descriptor`, or of a `part` of its items, and how many
    /// items it has; no argument where a filter left no row, so that there is nothing to run.
    pub(crate) fn argument<'py>(
        self,
        py: Python<'py>,
        mini_batch: &MiniBatch<'_>,
        descriptor: &[u8],
        part: Option<(u64, u64)>,
    ) -> Result<(Option<Bound<'py, PyAny>>, u64), ErrorInfo> {
        let describer = self.describer;
        let (argument, items) = self.whole(py, mini_batch, descriptor)?;
        match (argument, part) {
            (Some(argument), Some((from, to))) => {
                let range = (from.min(items) as isize, to.min(items) as isize);
                let argument = taken(&argument, range);
                let argument = argument.map_err(|error| load_error(py, describer, &error))?;
                let items = (range.1 - range.0) as u64;
                Ok(((items > 0).then_some(argument), items))
            }
            (argument, _) => Ok((argument, items)),
        }
    }

    fn whole<'py>(
        self,
        py: Python<'py>,
        mini_batch: &MiniBatch<'_>,
        descriptor: &[u8],
    ) -> Result<(Option<Bound<'py, PyAny>>, u64), ErrorInfo> {
        let failed = |error: PyErr| load_error(py, self.describer, &error);
        let input = self.connection.start.inputs.get(mini_batch.input as usize);
        self.watch.next(input.filter(|input| input.is_local).map(|_| mini_batch.input));
        match &mini_batch.work {
            Work::Files { base, paths, versions, .. } => {
                self.watch.begin(py, base, paths, versions)?;
                let paths = list_of_paths(py, base, paths).map_err(failed)?;
                Ok((Some(paths.into_any()), mini_batch.items()))
            }
            Work::Slice(_) | Work::Slices(_) if MiniBatch::is_local(descriptor) => {
                let reader = self.slices.ok_or_else(|| {
                    let message = "a slice of a table came, and no input of the job is tabular".to_owned();
                    ErrorInfo::new(Stage::Load, "DescriptorError", message)
                })?;
                let loaded =
                    reader.load_all(py, mini_batch.input, mini_batch.work.slices()).map_err(failed)??;
                if reader.reads_parquet() {
                    mini_batch.work.slices().iter().for_each(|slice| self.watch.note_slice(py, *slice));
                }
                for notice in loaded.notices {
                    self.connection.notice(py, notice).map_err(failed)?;
                }
                let items = if mini_batch.is_group { loaded.records.min(1) } else { loaded.records };
                Ok(((loaded.records > 0).then_some(loaded.frame), items))
            }
            Work::Objects { .. } | Work::Slice(_) | Work::Slices(_) | Work::Stored { .. } => {
                let message = "the data of the mini-batch is not on this node: the agent did not fetch it";
                Err(ErrorInfo::new(Stage::Load, "DescriptorError", message.to_owned()))
            }
            Work::Unreadable { origin, offset, reason } => {
                let message = format!("{origin}, byte {offset}: {reason}");
                Err(ErrorInfo::new(Stage::Load, "DataError", message))
            }
        }
    }
}

/// The items of a list of files, or of a DataFrame, from one position to the other.
fn taken<'py>(whole: &Bound<'py, PyAny>, (from, to): (isize, isize)) -> PyResult<Bound<'py, PyAny>> {
    let py = whole.py();
    if whole.is_exact_instance_of::<PyList>() {
        return whole.get_item(PySlice::new(py, from, to, 1));
    }
    let frames = py.import(intern!(py, "azureml_user.parallel_run.frames"))?;
    frames.call_method1(intern!(py, "rows_between"), (whole, from, to))
}

/// The mini-batch of an encoded descriptor.
pub(crate) fn decoded(descriptor: &[u8]) -> Result<MiniBatch<'_>, ErrorInfo> {
    MiniBatch::decode(descriptor).map_err(|error| {
        ErrorInfo::new(Stage::Load, "DescriptorError", format!("the mini-batch's descriptor: {error}"))
    })
}

/// An exception while the argument or the context of `run()` was made.
pub(crate) fn load_error(py: Python<'_>, describer: &Describer, error: &PyErr) -> ErrorInfo {
    describer.info(py, Stage::Load, "making the argument of run()", error)
}

/// The `list[str]` of absolute paths of a mini-batch of files.
fn list_of_paths<'py>(py: Python<'py>, base: &str, paths: &[&str]) -> PyResult<Bound<'py, PyList>> {
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
