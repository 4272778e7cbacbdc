//! The loop: one mini-batch after the other, from its descriptor to its outcome. Several at once are in `lanes`.
//!
//! A turn is: claim it in the process page, make the argument, call `run()`, turn the result into rows, take
//! the files it wrote, report. A tiny mini-batch costs about as much as its system calls, so there are few of
//! them, and Python code runs only where the script makes it necessary.

use prs_common::mini_batch::{Work, id_of};
use prs_common::process_page::{Phase, monotonic_ns};
use prs_common::wire::{Assignment, ErrorInfo, Frame, FromProcess, Outcome, Stage, Start, ToProcess};
use pyo3::exceptions::{PyConnectionError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};
use rustix::time::{ClockId, clock_gettime};

use crate::argument::{Making, decoded, load_error};
use crate::changes::FileWatch;
use crate::connection::Connection;
use crate::errors::Describer;
use crate::item_names::ItemNames;
use crate::outputs::Outputs;
use crate::path_columns;
use crate::printed::Streams;
use crate::results::{Collector, Returned};
use crate::slices::SliceReader;

/// Buffers for rows up to this capacity are used again.
const KEPT_BUFFER: usize = 1024 * 1024;

/// What the loop needs from the Python side, looked up once.
struct Host<'py> {
    run: Bound<'py, PyAny>,
    /// Awaits what a plain `run()` gave to be awaited.
    result_of: Bound<'py, PyAny>,
    /// Makes a `mini_batch_context`; `None` when `run` does not take one.
    context: Option<Bound<'py, PyAny>>,
    /// `enable()`, `disable()` and `dump_if_due()`, when the job is profiled.
    profiler: Option<Bound<'py, PyAny>>,
    /// Reads tables, when an input of the job is tabular.
    slices: Option<SliceReader>,
    describer: Describer,
    collector: Collector,
}

impl<'py> Host<'py> {
    fn new(host: &Bound<'py, PyAny>, start: &Start) -> PyResult<Self> {
        let optional = |name| host.getattr(name).map(|value| (!value.is_none()).then_some(value));
        Ok(Self {
            run: host.getattr("run")?,
            result_of: host.getattr("result_of")?,
            context: optional("context")?,
            profiler: optional("profiler")?,
            slices: SliceReader::of_host(host, &start.scratch_dir)?,
            describer: Describer::new(host.getattr("describe")?.unbind()),
            collector: Collector::new(&host.getattr("results")?, start.append_row)?,
        })
    }

    /// What `run()` returned, once it is there: a plain `run` may hand on what an async function gave.
    #[inline]
    fn awaited(&self, result: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if result.is_exact_instance_of::<PyList>() || result.is_exact_instance_of::<PyTuple>() {
            return Ok(result);
        }
        let (py, kind) = (result.py(), result.get_type());
        if kind.hasattr(intern!(py, "__await__"))? || kind.hasattr(intern!(py, "__aiter__"))? {
            return self.result_of.call1((result,));
        }
        Ok(result)
    }
}

/// Runs mini-batches until the agent says `Shutdown`.
#[pyfunction]
pub(crate) fn serve(py: Python<'_>, connection: &Connection, host: &Bound<'_, PyAny>) -> PyResult<()> {
    let start = &connection.start;
    let mut turns = Turns {
        connection,
        host: Host::new(host, start)?,
        outputs: Outputs::watch(start)?,
        watch: FileWatch::default(),
        rows: Vec::new(),
        cpu_ns: cpu_ns(),
        skipped: Vec::new(),
        streams: Streams::look_first(&connection.page),
    };
    loop {
        match turns.next_frame(py)?.decode() {
            Ok((ToProcess::Run(assignments), descriptors)) => {
                turns.run_all(py, &assignments, &descriptors)?;
            }
            Ok((ToProcess::Shutdown, _)) => return Ok(py.detach(|| connection.outbox.flush())?),
            Ok((ToProcess::Start(_), _)) => {
                return Err(PyConnectionError::new_err("the agent started a process twice"));
            }
            Err(error) => {
                return Err(PyConnectionError::new_err(format!(
                    "a message of the agent is unreadable: {error}"
                )));
            }
        }
    }
}

/// The state of the loop.
struct Turns<'a, 'py> {
    connection: &'a Connection,
    host: Host<'py>,
    outputs: Outputs,
    watch: FileWatch,
    /// Rows of the current mini-batch.
    rows: Vec<u8>,
    /// CPU time of the process at the end of the last turn, nanoseconds.
    cpu_ns: u64,
    /// What the agent took back and has not been told about.
    skipped: Vec<u32>,
    /// What it prints.
    streams: Streams,
}

impl<'py> Turns<'_, 'py> {
    /// The next frame; waits for it, idle, when none has come yet.
    fn next_frame(&mut self, py: Python<'_>) -> PyResult<Frame> {
        if let Some(frame) = self.connection.inbox.take() {
            return Ok(frame);
        }
        let frame = self.connection.next_frame(py, || self.dump_profile())?;
        self.cpu_ns = cpu_ns();
        Ok(frame)
    }

    /// Runs the mini-batches of a frame; `descriptors` are those of all of them.
    fn run_all(
        &mut self,
        py: Python<'py>,
        assignments: &[Assignment],
        mut descriptors: &[u8],
    ) -> PyResult<()> {
        for (position, one) in assignments.iter().enumerate() {
            let now_ns = monotonic_ns();
            let (descriptor, behind) = descriptors.split_at(one.bytes as usize);
            descriptors = behind;
            if self.connection.page.start(one.seq) {
                let ends_frame = position + 1 == assignments.len();
                if self.turn(py, one, descriptor, ends_frame, now_ns)? {
                    py.detach(|| self.connection.outbox.flush())?;
                }
            } else {
                self.skipped.push(one.seq);
            }
        }
        if !self.skipped.is_empty() {
            let skipped = std::mem::take(&mut self.skipped);
            self.connection.send(py, &FromProcess::Skipped(skipped))?;
        }
        Ok(())
    }

    /// Runs one claimed mini-batch. Returns true when the outcomes should be written now. An error ends the
    /// process.
    fn turn(
        &mut self,
        py: Python<'py>,
        one: &Assignment,
        descriptor: &[u8],
        ends_frame: bool,
        began_ns: u64,
    ) -> PyResult<bool> {
        self.connection.page.enter(Phase::Loading, began_ns);
        let mut outcome = Outcome { seq: one.seq, started_us: now_us(), ..Outcome::default() };

        let result = self.attempt(py, one, descriptor, began_ns, &mut outcome).and_then(|returned| {
            let files = self.outputs.take(one.seq);
            Ok((returned, files.map_err(|message| ErrorInfo::new(Stage::Run, "OutputError", message))?))
        });
        match result {
            Ok((Returned { count, header, missing }, files)) => {
                (outcome.returned, outcome.header, outcome.files) = (count, header, files);
                (outcome.error, outcome.contents) = (missing, self.watch.take());
            }
            Err(error) => {
                outcome.error = Some(error);
                self.rows.clear();
                self.outputs.discard().map_err(PyRuntimeError::new_err)?;
            }
        }
        flush_standard_output(py);
        self.dump_profile()?;

        let ended_ns = monotonic_ns();
        let ended_cpu_ns = cpu_ns();
        outcome.elapsed_us = (ended_ns - began_ns) / 1_000;
        outcome.cpu_us = (ended_cpu_ns - self.cpu_ns) / 1_000;
        self.cpu_ns = ended_cpu_ns;
        self.streams.note(&self.connection.page, &mut outcome);
        let Connection { page, inbox, outbox, flusher, .. } = self.connection;
        page.enter(Phase::Idle, ended_ns);
        if outbox.is_too_full_for(self.rows.len()) {
            py.detach(|| outbox.flush())?;
        }
        let is_last = ends_frame && inbox.is_empty();
        let is_due = outbox.add(outcome, &mut self.rows, is_last, ended_ns, flusher);
        if self.rows.capacity() > KEPT_BUFFER {
            self.rows = Vec::new();
        }
        Ok(is_due)
    }

    /// From the descriptor to the rows; notes in `outcome` how many items there are and how long `run()` took.
    fn attempt(
        &mut self,
        py: Python<'py>,
        one: &Assignment,
        descriptor: &[u8],
        began_ns: u64,
        outcome: &mut Outcome,
    ) -> Result<Returned, ErrorInfo> {
        let page = &self.connection.page;
        let mini_batch = decoded(descriptor)?;
        outcome.items = one.part.map_or_else(|| mini_batch.items(), |(from, to)| to - from);
        page.set_items(outcome.items);
        let host = &mut self.host;
        let describer = &host.describer;
        let (watch, slices) = (&mut self.watch, host.slices.as_mut());
        let making = Making { connection: self.connection, describer, watch, slices };
        let (argument, items) = making.argument(py, &mini_batch, descriptor, one.part)?;
        outcome.items = items;
        page.set_items(items);
        let Some(argument) = argument else { return Ok(Returned::default()) };
        let load_error = |error: PyErr| load_error(py, describer, &error);
        let context = match &host.context {
            None => None,
            Some(make) => {
                let index = mini_batch.index;
                let names = ItemNames::of(descriptor, one.part);
                let keys = path_columns::to_python(py, mini_batch.keys).map_err(load_error)?;
                let arguments = (index, id_of(index), one.retry_count, mini_batch.input, names, keys);
                Some(make.call1(arguments).map_err(load_error)?)
            }
        };

        let run_started_ns = monotonic_ns();
        page.enter(Phase::Running, run_started_ns);
        outcome.load_us = run_started_ns.saturating_sub(began_ns) / 1_000;
        let returned = self.call(py, argument, context);
        self.connection.original.end_stray_child(py, returned.as_ref().err());
        outcome.run_us = (monotonic_ns() - run_started_ns) / 1_000;
        let returned = returned.map_err(|error| self.host.describer.info(py, Stage::Run, "run()", &error));
        if let Work::Files { base, paths, .. } = &mini_batch.work
            && let Err(changed) = self.watch.end(py, base, paths)
        {
            // What run() raised may well come of it.
            let traceback = returned.err().map(|error| error.traceback).unwrap_or_default();
            return Err(ErrorInfo { traceback, ..changed });
        }
        returned
    }

    /// Calls `run()` and turns its result into rows, while the script's objects still live.
    fn call(
        &mut self,
        py: Python<'py>,
        argument: Bound<'py, PyAny>,
        context: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Returned> {
        if let Some(profiler) = &self.host.profiler {
            profiler.call_method0(intern!(py, "enable"))?;
        }
        let result = match context {
            None => self.host.run.call1((argument,)),
            Some(context) => self.host.run.call1((argument, context)),
        };
        let result = result.and_then(|result| self.host.awaited(result));
        let returned = result.and_then(|result| self.host.collector.collect(py, &result, &mut self.rows));
        if let Some(profiler) = &self.host.profiler {
            profiler.call_method0(intern!(py, "disable"))?;
        }
        returned
    }

    fn dump_profile(&self) -> PyResult<()> {
        match &self.host.profiler {
            Some(profiler) => profiler.call_method0(intern!(profiler.py(), "dump_if_due")).map(drop),
            None => Ok(()),
        }
    }
}

/// Writes out what `print` may have left in `sys.stdout`; a closed or broken one is the script's affair.
pub(crate) fn flush_standard_output(py: Python<'_>) {
    static SYS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let Ok(sys) = SYS.get_or_try_init(py, || py.import("sys").map(Bound::unbind)) else { return };
    if let Ok(stdout) = sys.bind(py).getattr(intern!(py, "stdout")) {
        // Nobody is left to hear of it.
        let _ = stdout.call_method0(intern!(py, "flush"));
    }
}

/// The time, microseconds since the Unix epoch.
#[inline]
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// CPU time of the whole process, nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
