//! Several mini-batches under way at once: an `async def run`, or a streaming script (spec E17).
//!
//! A *feeder* takes mini-batches in order, each as soon as a lane is free, and makes its argument; what runs them, an event
//! loop or the script itself, tells the end of each in whatever order they end. Each has its own folder for files, its own
//! clock and its own lane in the process page. The path of a plain `run` is `serve`, and shares nothing with this one but
//! what turns data into arguments and results into rows.

mod turn;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prs_common::mini_batch::id_of;
use prs_common::process_page::{Phase, monotonic_ns};
use prs_common::stops::stopped_since;
use prs_common::wire::{Assignment, ErrorInfo, FromProcess, Outcome, ToProcess};
use pyo3::exceptions::{PyConnectionError, PyRuntimeError};
use pyo3::prelude::*;

use self::turn::Open;
pub(crate) use self::turn::Turn;

use crate::argument::{Making, decoded, load_error};
use crate::changes::FileWatch;
use crate::connection::Connection;
use crate::errors::Describer;
use crate::item_names::ItemNames;
use crate::outputs::{Outputs, SharedOutputs};
use crate::path_columns;
use crate::printed::Streams;
use crate::results::Collector;
use crate::serve::{cpu_ns, flush_standard_output, now_us};
use crate::slices::SliceReader;

/// Longest wait before signals are looked at.
const SIGNAL_TICK: Duration = Duration::from_millis(500);

/// The mini-batches of a process, and its lanes.
#[pyclass(frozen, module = "prs_process")]
pub(crate) struct Lanes {
    pub(crate) connection: Py<Connection>,
    /// Makes a `mini_batch_context`.
    context: Py<PyAny>,
    pub(crate) describer: Describer,
    pub(crate) collector: Collector,
    /// Folder with the folders for files of the mini-batches.
    outputs_dir: PathBuf,
    pub(crate) shared: Mutex<SharedOutputs>,
    /// Whether the output folder of the process has files that belong to no mini-batch. No mini-batch can succeed beside them, so none
    /// begins before what is under way has ended and they are gone.
    pub(crate) has_stray: AtomicBool,
    /// Reads tables, when an input of the job is tabular.
    slices: Option<Mutex<SliceReader>>,
    queue: Mutex<Queue>,
    /// Whether the queue holds anything; no lane has to wait for the feeder to learn that.
    has_more: AtomicBool,
    free: Mutex<Vec<usize>>,
    freed: Condvar,
    /// Mini-batches that have begun and not ended.
    under_way: AtomicUsize,
    /// CPU time of the process up to the last end of a mini-batch, nanoseconds.
    cpu_ns: AtomicU64,
    /// What the process prints.
    streams: Mutex<Streams>,
    is_over: AtomicBool,
}

/// Index, argument and context of a mini-batch.
type Loaded = (u64, Py<PyAny>, Py<PyAny>);

/// What came of the agent and is not begun.
#[derive(Default)]
struct Queue {
    assignments: VecDeque<(Assignment, Vec<u8>)>,
    skipped: Vec<u32>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Lanes {
    /// Begins to serve; `host` is a `process.Host` with a context.
    #[new]
    fn new(connection: &Bound<'_, Connection>, host: &Bound<'_, PyAny>) -> PyResult<Self> {
        let start = &connection.get().start;
        let outputs = Outputs::watch(start)?;
        // Stops are noted from here on.
        stopped_since(monotonic_ns());
        connection.get().page.enter(Phase::Idle, monotonic_ns());
        Ok(Self {
            context: host.getattr("context")?.unbind(),
            describer: Describer::new(host.getattr("describe")?.unbind()),
            collector: Collector::new(&host.getattr("results")?, start.append_row)?,
            outputs_dir: PathBuf::from(&start.concurrency.outputs_dir),
            shared: Mutex::new(SharedOutputs::new(
                outputs,
                Path::new(&start.concurrency.outputs_dir),
                start.concurrency.most <= 1,
            )?),
            has_stray: AtomicBool::new(false),
            slices: SliceReader::of_host(host, &start.scratch_dir)?.map(Mutex::new),
            queue: Mutex::default(),
            has_more: AtomicBool::new(false),
            free: Mutex::new((0..start.concurrency.most.max(1) as usize).rev().collect()),
            freed: Condvar::new(),
            under_way: AtomicUsize::new(0),
            cpu_ns: AtomicU64::new(cpu_ns()),
            streams: Mutex::new(Streams::look_first(&connection.get().page)),
            is_over: AtomicBool::new(false),
            connection: connection.clone().unbind(),
        })
    }

    /// The next mini-batch, once it and a lane for it are there; `None` when none comes within `seconds`, or ever.
    /// For one thread alone.
    #[pyo3(signature = (seconds=None))]
    fn next(slf: &Bound<'_, Self>, seconds: Option<f64>) -> PyResult<Option<Turn>> {
        let (py, this) = (slf.py(), slf.get());
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.max(0.0)));
        while !this.is_over() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let wait = left.unwrap_or(SIGNAL_TICK).min(SIGNAL_TICK);
            if !py.detach(|| this.clear_stray(wait))? {
                // What is under way has not ended yet.
            } else if let Some(lane) = py.detach(|| this.wait_for_lane(wait)) {
                if let Some((assignment, descriptor)) = this.take(py, wait)? {
                    if let Some(turn) = Self::begin(slf, lane, &assignment, descriptor)? {
                        return Ok(Some(turn));
                    }
                    continue;
                }
                this.free_lane(lane);
            }
            py.check_signals()?;
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Whether the agent has said that nothing more comes, and nothing is left to be begun.
    #[getter]
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// The main thread goes round.
    fn show_life(&self, py: Python<'_>) {
        self.connection.get().page.show_life(monotonic_ns());
        flush_standard_output(py);
    }
}

impl Lanes {
    fn wait_for_lane(&self, wait: Duration) -> Option<usize> {
        let free = lock(&self.free);
        let (mut free, _) = self
            .freed
            .wait_timeout_while(free, wait, |free| free.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        free.pop()
    }

    /// Whether no files that belong to no mini-batch keep others from being begun; waits for what is under way where some do,
    /// and removes them then. An error ends the process.
    fn clear_stray(&self, wait: Duration) -> PyResult<bool> {
        if !self.has_stray.load(Ordering::SeqCst) {
            return Ok(true);
        }
        let is_one_under_way = || self.under_way.load(Ordering::SeqCst) > 0;
        let free = lock(&self.free);
        drop(self.freed.wait_timeout_while(free, wait, |_| is_one_under_way()));
        if is_one_under_way() {
            return Ok(false);
        }
        lock(&self.shared).discard_stray().map_err(PyRuntimeError::new_err)?;
        self.has_stray.store(false, Ordering::SeqCst);
        Ok(true)
    }

    fn free_lane(&self, lane: usize) {
        self.connection.get().page.end_lane(lane);
        lock(&self.free).push(lane);
        self.freed.notify_one();
    }

    /// Whether the one that is ending is all that is under way.
    pub(crate) fn is_alone(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) <= 1
    }

    /// The next mini-batch of the agent.
    fn take(&self, py: Python<'_>, wait: Duration) -> PyResult<Option<(Assignment, Vec<u8>)>> {
        let connection = self.connection.get();
        if let Some(next) = self.pop() {
            return Ok(Some(next));
        }
        let skipped = std::mem::take(&mut lock(&self.queue).skipped);
        if !skipped.is_empty() {
            connection.send(py, &FromProcess::Skipped(skipped))?;
        }
        let Some(frame) = connection.inbox.take().or_else(|| py.detach(|| connection.inbox.wait(wait)))
        else {
            return Ok(None);
        };
        match frame.decode() {
            Ok((ToProcess::Run(assignments), descriptors)) => {
                let mut queue = lock(&self.queue);
                let mut rest = &*descriptors;
                for one in assignments {
                    let (descriptor, behind) = rest.split_at(one.bytes as usize);
                    rest = behind;
                    queue.assignments.push_back((one, descriptor.to_vec()));
                }
                self.has_more.store(true, Ordering::SeqCst);
            }
            Ok((ToProcess::Shutdown, _)) => self.is_over.store(true, Ordering::SeqCst),
            Ok((ToProcess::Start(_), _)) => {
                return Err(PyConnectionError::new_err("the agent started a process twice"));
            }
            Err(error) => {
                let message = format!("a message of the agent is unreadable: {error}");
                return Err(PyConnectionError::new_err(message));
            }
        }
        Ok(self.pop())
    }

    fn pop(&self) -> Option<(Assignment, Vec<u8>)> {
        let mut queue = lock(&self.queue);
        let next = queue.assignments.pop_front();
        self.has_more.store(!queue.assignments.is_empty(), Ordering::SeqCst);
        next
    }

    /// Claims a mini-batch and makes its argument; nothing when it was taken back, or its data cannot be used.
    fn begin(
        slf: &Bound<'_, Self>,
        lane: usize,
        one: &Assignment,
        descriptor: Vec<u8>,
    ) -> PyResult<Option<Turn>> {
        let (py, this) = (slf.py(), slf.get());
        let page = &this.connection.get().page;
        let began_ns = monotonic_ns();
        page.begin_lane(lane, one.seq, began_ns);
        if !page.start(one.seq) {
            this.free_lane(lane);
            let skipped = {
                let mut queue = lock(&this.queue);
                queue.skipped.push(one.seq);
                if queue.assignments.is_empty() { std::mem::take(&mut queue.skipped) } else { Vec::new() }
            };
            if !skipped.is_empty() {
                this.connection.get().send(py, &FromProcess::Skipped(skipped))?;
            }
            return Ok(None);
        }
        this.under_way.fetch_add(1, Ordering::SeqCst);
        let outcome = Outcome { seq: one.seq, started_us: now_us(), ..Outcome::default() };
        let printed = lock(&this.streams).lengths();
        let watch = FileWatch::default();
        let mut open = Open { outcome, began_ns, run_began_ns: began_ns, watch, printed };
        let output_dir = this.outputs_dir.join(one.seq.to_string());
        let output_dir = output_dir.to_string_lossy().into_owned();
        match this.load(py, one, &descriptor, &output_dir, &mut open) {
            Ok(Some((index, argument, context))) => {
                open.run_began_ns = monotonic_ns();
                page.run_lane(lane, one.seq, open.outcome.items, open.run_began_ns);
                Ok(Some(Turn {
                    lanes: slf.clone().unbind(),
                    seq: one.seq,
                    lane,
                    descriptor,
                    arguments: Mutex::new(Some((argument, context))),
                    open: Mutex::new(Some(open)),
                    mini_batch_id: id_of(index),
                    minibatch_index: index,
                    output_dir,
                }))
            }
            Ok(None) => {
                this.end(py, lane, open, Vec::new())?;
                Ok(None)
            }
            Err(error) => {
                open.outcome.error = Some(error);
                this.end(py, lane, open, Vec::new())?;
                Ok(None)
            }
        }
    }

    /// What `run()` is called with; nothing where a filter left no row to run.
    fn load(
        &self,
        py: Python<'_>,
        one: &Assignment,
        descriptor: &[u8],
        output_dir: &str,
        open: &mut Open,
    ) -> Result<Option<Loaded>, ErrorInfo> {
        let mini_batch = decoded(descriptor)?;
        open.outcome.items = one.part.map_or_else(|| mini_batch.items(), |(from, to)| to - from);
        let mut slices = self.slices.as_ref().map(lock);
        let (connection, describer) = (self.connection.get(), &self.describer);
        let making = Making { connection, describer, watch: &mut open.watch, slices: slices.as_deref_mut() };
        let (argument, items) = making.argument(py, &mini_batch, descriptor, one.part)?;
        open.outcome.items = items;
        let Some(argument) = argument else { return Ok(None) };
        let load_error = |error: PyErr| load_error(py, describer, &error);
        let index = mini_batch.index;
        let names = ItemNames::of(descriptor, one.part);
        let keys = path_columns::to_python(py, mini_batch.keys).map_err(load_error)?;
        let arguments = (index, id_of(index), one.retry_count, mini_batch.input, names, keys, output_dir);
        let context = self.context.bind(py).call1(arguments).map_err(load_error)?;
        Ok(Some((index, argument.unbind(), context.unbind())))
    }

    /// Tells the agent of an end, and frees the lane. An error ends the process.
    pub(crate) fn end(&self, py: Python<'_>, lane: usize, open: Open, mut rows: Vec<u8>) -> PyResult<()> {
        let Open { mut outcome, began_ns, run_began_ns, printed, .. } = open;
        let ended_ns = monotonic_ns();
        let ended_cpu_ns = cpu_ns();
        outcome.elapsed_us = (ended_ns - began_ns) / 1_000;
        // Where `run()` was not called it began with the try.
        outcome.load_us = run_began_ns.saturating_sub(began_ns) / 1_000;
        // No clock tells whose it was; the sum over all mini-batches is right.
        let before = self.cpu_ns.swap(ended_cpu_ns, Ordering::SeqCst);
        outcome.cpu_us = ended_cpu_ns.saturating_sub(before) / 1_000;
        let Connection { page, inbox, outbox, flusher, .. } = self.connection.get();
        lock(&self.streams).note_since(page, printed, &mut outcome);
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.free_lane(lane);
        if outbox.is_too_full_for(rows.len()) {
            py.detach(|| outbox.flush())?;
        }
        let is_last = !self.has_more.load(Ordering::SeqCst) && inbox.is_empty();
        if outbox.add(outcome, &mut rows, is_last, ended_ns, flusher) {
            py.detach(|| outbox.flush())?;
        }
        Ok(())
    }
}
