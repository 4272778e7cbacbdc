//! One of several mini-batches under way in a process: what it gets, and how it ends.
//!
//! It ends once, in whatever order: with a result, with an exception, or cancelled. Then its inputs are looked at again, its
//! files are taken, and its lane is free.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prs_common::mini_batch::{MiniBatch, Work};
use prs_common::process_page::monotonic_ns;
use prs_common::stops::stopped_since;
use prs_common::wire::{ErrorInfo, Outcome, Stage};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::changes::FileWatch;
use crate::lanes::{Lanes, lock};
use crate::results::Returned;

/// A mini-batch that is under way.
#[pyclass(frozen, module = "prs_process")]
pub(crate) struct Turn {
    pub(crate) lanes: Py<Lanes>,
    pub(crate) seq: u32,
    pub(crate) lane: usize,
    pub(crate) descriptor: Vec<u8>,
    /// Argument and context, until they are taken.
    pub(crate) arguments: Mutex<Option<(Py<PyAny>, Py<PyAny>)>>,
    pub(crate) open: Mutex<Option<Open>>,
    /// `mb-0000000017`.
    #[pyo3(get)]
    pub(crate) mini_batch_id: String,
    #[pyo3(get)]
    pub(crate) minibatch_index: u64,
    /// Folder for its files; it does not exist before the script asks for it.
    #[pyo3(get)]
    pub(crate) output_dir: String,
}

/// What is known of a mini-batch until it ends.
pub(crate) struct Open {
    pub(crate) outcome: Outcome,
    pub(crate) began_ns: u64,
    pub(crate) run_began_ns: u64,
    pub(crate) watch: FileWatch,
    /// How long the files were that the process prints to.
    pub(crate) printed: (u64, u64),
}

#[pymethods]
impl Turn {
    /// Argument and context of `run()`, which is about to be called: its time runs from here on, for until now others may
    /// have kept it waiting. They are given away once, so that only the script holds them.
    fn take(&self) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let taken = lock(&self.arguments).take();
        let taken = taken.ok_or_else(|| PyRuntimeError::new_err("the arguments were taken before"))?;
        if let Some(open) = lock(&self.open).as_mut() {
            open.run_began_ns = monotonic_ns();
            let page = &self.lanes.get().connection.get().page;
            page.run_lane(self.lane, self.seq, open.outcome.items, open.run_began_ns);
        }
        Ok(taken)
    }

    /// How many of the `seconds` that it may take are left; the time in which the process was stopped does not count.
    fn left(&self, seconds: f64) -> f64 {
        let began_ns = lock(&self.open).as_ref().map_or(0, |open| open.run_began_ns);
        let passed = Duration::from_nanos(monotonic_ns().saturating_sub(began_ns));
        seconds - passed.saturating_sub(stopped_since(began_ns)).as_secs_f64()
    }

    /// It has the main thread from now on.
    fn enter(&self) {
        self.lanes.get().connection.get().page.begin_step(self.seq, monotonic_ns());
    }

    /// It gives the main thread back. Ends a forked child that comes here.
    fn leave(&self, py: Python<'_>) {
        let connection = self.lanes.get().connection.get();
        connection.original.end_stray_child(py, None);
        connection.page.end_step();
    }

    /// It has ended with this result.
    fn finish(&self, py: Python<'_>, result: &Bound<'_, PyAny>) -> PyResult<()> {
        self.lanes.get().connection.get().original.end_stray_child(py, None);
        let mut rows = Vec::new();
        let returned = self.lanes.get().collector.collect(py, result, &mut rows);
        self.end(py, returned.map_err(|error| (Stage::Run, error)), rows)
    }

    /// It has ended with this exception, which `place` raised.
    #[pyo3(signature = (error, place="run()"))]
    fn fail(&self, py: Python<'_>, error: Bound<'_, PyAny>, place: &str) -> PyResult<()> {
        let error = PyErr::from_value(error);
        self.lanes.get().connection.get().original.end_stray_child(py, Some(&error));
        let error = self.lanes.get().describer.info(py, Stage::Run, place, &error);
        self.settle(py, Err(error), Vec::new())
    }

    /// It was cancelled after `run_invocation_timeout`; `error` says where it was.
    #[pyo3(signature = (error=None))]
    fn cancelled(&self, py: Python<'_>, error: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let lanes = self.lanes.get();
        let seconds = lanes.connection.get().start.concurrency.run_timeout;
        let message = format!(
            "run() took longer than run_invocation_timeout ({seconds} s); its task was cancelled (a larger \
             run_invocation_timeout gives it more time)"
        );
        let mut info = ErrorInfo::new(Stage::Cancelled, "Timeout", message);
        if let Some(error) = error {
            let at = lanes.describer.info(py, Stage::Run, "run()", &PyErr::from_value(error));
            (info.traceback, info.frame) = (at.traceback, at.frame);
        }
        self.settle(py, Err(info), Vec::new())
    }
}

impl Turn {
    fn end(&self, py: Python<'_>, returned: Result<Returned, (Stage, PyErr)>, rows: Vec<u8>) -> PyResult<()> {
        let describer = &self.lanes.get().describer;
        let returned = returned.map_err(|(stage, error)| describer.info(py, stage, "run()", &error));
        self.settle(py, returned, rows)
    }

    /// Looks at its inputs once more, takes its files, and tells the agent. A second end is none.
    fn settle(&self, py: Python<'_>, returned: Result<Returned, ErrorInfo>, rows: Vec<u8>) -> PyResult<()> {
        let lanes = self.lanes.get();
        let Some(mut open) = lock(&self.open).take() else { return Ok(()) };
        open.outcome.run_us = (monotonic_ns() - open.run_began_ns) / 1_000;
        let returned = self.without_changes(py, &mut open.watch, returned);
        let result = returned.and_then(|returned| {
            let files = lock(&lanes.shared).take(self.seq, &self.output_dir);
            Ok((returned, files.map_err(|message| ErrorInfo::new(Stage::Run, "OutputError", message))?))
        });
        let rows = match result {
            Ok((Returned { count, header, missing }, files)) => {
                (open.outcome.returned, open.outcome.header, open.outcome.files) = (count, header, files);
                (open.outcome.error, open.outcome.contents) = (missing, open.watch.take());
                rows
            }
            Err(error) => {
                open.outcome.error = Some(error);
                let mut shared = lock(&lanes.shared);
                let discarded = shared.discard(&self.output_dir, lanes.is_alone());
                lanes.has_stray.store(shared.has_stray(), Ordering::SeqCst);
                drop(shared);
                discarded.map_err(PyRuntimeError::new_err)?;
                Vec::new()
            }
        };
        lanes.end(py, self.lane, open, rows)
    }

    /// An error where its files changed while it had them: what `run()` raised may well come of it.
    fn without_changes(
        &self,
        py: Python<'_>,
        watch: &mut FileWatch,
        returned: Result<Returned, ErrorInfo>,
    ) -> Result<Returned, ErrorInfo> {
        let Ok(mini_batch) = MiniBatch::decode(&self.descriptor) else { return returned };
        if let Work::Files { base, paths, .. } = &mini_batch.work
            && let Err(changed) = watch.end(py, base, paths)
        {
            let traceback = returned.err().map(|error| error.traceback).unwrap_or_default();
            return Err(ErrorInfo { traceback, ..changed });
        }
        returned
    }
}
