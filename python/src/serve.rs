//! The loop: one mini-batch after the other, from its descriptor to its outcome.
//!
//! A turn is: claim it in the process page, make the argument, call `run()`, turn the result into rows, take
//! the files it wrote, report. A tiny mini-batch costs about as much as its system calls, so there are few of
//! them, and Python code runs only where the script makes it necessary.

use prs_common::mini_batch::{MiniBatch, Work, id_of};
use prs_common::process_page::{Phase, monotonic_ns};
use prs_common::wire::{self, ErrorInfo, FromProcess, Stage};
use pyo3::exceptions::{PyConnectionError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use crate::argument::list_of_paths;
use crate::changes::FileWatch;
use crate::connection::{Connection, StartInfo};
use crate::errors::{self, Describer};
use crate::item_names::ItemNames;
use crate::outbox::Finished;
use crate::outputs::Outputs;
use crate::results::{Collector, Returned};
use crate::slices::{Slice, SliceReader};

/// Buffers for rows up to this capacity are used again.
const KEPT_BUFFER: usize = 1024 * 1024;

/// [`wire::ToProcess`], borrowing from the frame.
#[derive(Deserialize)]
enum Order<'a> {
    Start(serde::de::IgnoredAny),
    #[serde(borrow)]
    Run(Vec<Assigned<'a>>),
    Shutdown,
}

/// [`wire::Assignment`], borrowing from the frame.
#[derive(Deserialize)]
struct Assigned<'a> {
    seq: u32,
    retry_count: u32,
    #[serde(borrow, with = "serde_bytes")]
    body: &'a [u8],
}

/// What the loop needs from the Python side, looked up once.
struct Host<'py> {
    run: Bound<'py, PyAny>,
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
    fn new(host: &Bound<'py, PyAny>, start: &StartInfo) -> PyResult<Self> {
        let optional = |name| host.getattr(name).map(|value| (!value.is_none()).then_some(value));
        Ok(Self {
            run: host.getattr("run")?,
            context: optional("context")?,
            profiler: optional("profiler")?,
            slices: optional("frames")?.map(|frames| SliceReader::new(frames.unbind(), &start.scratch_dir)),
            describer: Describer::new(host.getattr("describe")?.unbind()),
            collector: Collector::new(&host.getattr("results")?, start.append_row)?,
        })
    }
}

/// Runs mini-batches until the agent says `Shutdown`.
pub(crate) fn serve(
    py: Python<'_>,
    connection: &Connection,
    host: &Bound<'_, PyAny>,
    start: &StartInfo,
) -> PyResult<()> {
    let mut turns = Turns {
        connection,
        host: Host::new(host, start)?,
        outputs: Outputs::watch(start)?,
        watch: FileWatch::default(),
        rows: Vec::new(),
        cpu_ns: cpu_ns(),
        skipped: Vec::new(),
    };
    loop {
        let frame = turns.next_frame(py)?;
        match wire::decode::<Order<'_>>(&frame) {
            Ok(Order::Run(assigned)) => turns.run_all(py, &assigned)?,
            Ok(Order::Shutdown) => return Ok(py.detach(|| connection.outbox.flush())?),
            Ok(Order::Start(_)) => {
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
}

/// How far a turn got.
struct Progress {
    items: u64,
    run_started_ns: Option<u64>,
    run_ended_ns: u64,
}

impl<'py> Turns<'_, 'py> {
    /// The next frame; waits for it, idle, when none has come yet.
    fn next_frame(&mut self, py: Python<'_>) -> PyResult<Vec<u8>> {
        if let Some(frame) = self.connection.inbox.take() {
            return Ok(frame);
        }
        let frame = loop {
            if let Some(frame) = py.detach(|| self.connection.inbox.wait(crate::connection::SIGNAL_TICK)) {
                break frame;
            }
            py.check_signals()?;
            self.dump_profile()?;
        };
        self.cpu_ns = cpu_ns();
        Ok(frame)
    }

    fn run_all(&mut self, py: Python<'py>, assigned: &[Assigned<'_>]) -> PyResult<()> {
        for (position, one) in assigned.iter().enumerate() {
            let now_ns = monotonic_ns();
            if self.connection.page.start(one.seq) {
                let ends_frame = position + 1 == assigned.len();
                if self.turn(py, one, ends_frame, now_ns)? {
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
        one: &Assigned<'_>,
        ends_frame: bool,
        began_ns: u64,
    ) -> PyResult<bool> {
        self.connection.page.enter(Phase::Loading, began_ns);
        let started = clock_gettime(ClockId::Realtime);
        let started_us = started.tv_sec as u64 * 1_000_000 + started.tv_nsec as u64 / 1_000;
        let mut progress = Progress { items: 0, run_started_ns: None, run_ended_ns: 0 };

        let mut result = self.attempt(py, one, &mut progress);
        let mut files = Vec::new();
        if result.is_ok() {
            match self.outputs.take(one.seq) {
                Ok(taken) => files = taken,
                Err(message) => result = Err(errors::plain(Stage::Run, "OutputError", message)),
            }
        }
        if result.is_err() {
            self.rows.clear();
            self.outputs.discard().map_err(PyRuntimeError::new_err)?;
        }
        flush_standard_output(py);
        self.dump_profile()?;

        let ended_ns = monotonic_ns();
        let ended_cpu_ns = cpu_ns();
        let cpu_us = (ended_cpu_ns - self.cpu_ns) / 1_000;
        self.cpu_ns = ended_cpu_ns;
        let (returned, error) = match result {
            Ok(returned) => (returned, None),
            Err(error) => (Returned::default(), Some(error)),
        };
        let run_started_ns = progress.run_started_ns.unwrap_or(progress.run_ended_ns);
        let finished = Finished {
            seq: one.seq,
            items: progress.items,
            returned: returned.count,
            header: returned.header,
            files,
            started_us,
            elapsed_us: (ended_ns - began_ns) / 1_000,
            cpu_us,
            run_us: progress.run_ended_ns.saturating_sub(run_started_ns) / 1_000,
            error,
        };
        let Connection { page, inbox, outbox, flusher, .. } = self.connection;
        page.enter(Phase::Idle, ended_ns);
        if outbox.is_too_full_for(self.rows.len()) {
            py.detach(|| outbox.flush())?;
        }
        let is_last = ends_frame && inbox.is_empty();
        let is_due = outbox.add(&finished, &mut self.rows, is_last, ended_ns, flusher);
        if self.rows.capacity() > KEPT_BUFFER {
            self.rows = Vec::new();
        }
        Ok(is_due)
    }

    /// From the descriptor to the rows.
    fn attempt(
        &mut self,
        py: Python<'py>,
        one: &Assigned<'_>,
        progress: &mut Progress,
    ) -> Result<Returned, ErrorInfo> {
        let page = &self.connection.page;
        let mini_batch = MiniBatch::decode(one.body).map_err(|error| {
            errors::plain(Stage::Load, "DescriptorError", format!("the mini-batch's descriptor: {error}"))
        })?;
        progress.items = mini_batch.items();
        page.set_items(progress.items);
        let describer = &self.host.describer;
        let load_error =
            |error: PyErr| describer.info(py, Stage::Load, "making the argument of run()", &error);
        let argument = match &mini_batch.work {
            Work::Files { base, paths, versions, .. } => {
                self.watch.begin(py, base, paths, versions)?;
                list_of_paths(py, base, paths).map_err(load_error)?.into_any()
            }
            &Work::Delimited { path, origin, version, start, end, checksum, schema, .. } => {
                let slice = Slice { path, origin, version, start, end, checksum, schema };
                let reader = self.host.slices.as_mut().ok_or_else(|| {
                    let message = "a slice of a table came, and no input of the job is tabular".to_owned();
                    errors::plain(Stage::Load, "DescriptorError", message)
                })?;
                let loaded = reader.load(py, slice).map_err(load_error)??;
                progress.items = loaded.records;
                page.set_items(progress.items);
                for notice in loaded.notices {
                    self.connection.notice(py, notice).map_err(load_error)?;
                }
                loaded.frame
            }
            Work::Objects { .. } | Work::DelimitedObject { .. } | Work::Stored { .. } => {
                let message = "the data of the mini-batch is not on this node: the agent did not fetch it";
                return Err(errors::plain(Stage::Load, "DescriptorError", message.to_owned()));
            }
            Work::Unreadable { origin, offset, reason } => {
                let message = format!("{origin}, byte {offset}: {reason}");
                return Err(errors::plain(Stage::Load, "DataError", message));
            }
        };
        let context = match &self.host.context {
            None => None,
            Some(make) => {
                let index = mini_batch.index;
                let names = ItemNames::of(one.body);
                let arguments = (index, id_of(index), one.retry_count, mini_batch.input, names);
                Some(make.call1(arguments).map_err(load_error)?)
            }
        };

        let run_started_ns = monotonic_ns();
        page.enter(Phase::Running, run_started_ns);
        progress.run_started_ns = Some(run_started_ns);
        let returned = self.call(py, argument, context);
        self.connection.original.end_stray_child(py, returned.as_ref().err());
        progress.run_ended_ns = monotonic_ns();
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
fn flush_standard_output(py: Python<'_>) {
    static SYS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let Ok(sys) = SYS.get_or_try_init(py, || py.import("sys").map(Bound::unbind)) else { return };
    if let Ok(stdout) = sys.bind(py).getattr(intern!(py, "stdout")) {
        // Nobody is left to hear of it.
        let _ = stdout.call_method0(intern!(py, "flush"));
    }
}

/// CPU time of the whole process, nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
