//! The connection to the agent, as Python holds it: handshake, readiness, the last word.
//!
//! It owns the inherited socket and the process page. The order of the calls is the order of the protocol
//! (see `prs_common::wire`); `process.py` keeps it.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use prs_common::process_page::{Phase, ProcessPage, monotonic_ns};
use prs_common::wire::{ErrorInfo, Frame, FromProcess, PROTOCOL_VERSION, Stage, Start, ToProcess};
use pyo3::exceptions::{PyConnectionError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustix::io::FdFlags;

use crate::errors;
use crate::fork::Original;
use crate::inbox::Inbox;
use crate::outbox::Outbox;

/// How often a waiting main thread lets Python's signal handlers run.
const SIGNAL_TICK: Duration = Duration::from_secs(1);

/// One process's end of the connection.
#[pyclass(frozen, module = "prs_process")]
pub(crate) struct Connection {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) page: ProcessPage,
    pub(crate) flusher: Thread,
    pub(crate) original: Original,
    /// What the agent said first.
    pub(crate) start: Start,
    socket: Arc<UnixStream>,
    flusher_handle: Mutex<Option<JoinHandle<()>>>,
}

impl Connection {
    /// Sends `message` after everything pending, without holding the interpreter.
    pub(crate) fn send(&self, py: Python<'_>, message: &FromProcess) -> PyResult<()> {
        Ok(py.detach(|| self.outbox.send(message))?)
    }

    /// The next frame, waiting without holding the interpreter; `meanwhile` is called now and then.
    pub(crate) fn next_frame(&self, py: Python<'_>, meanwhile: impl Fn() -> PyResult<()>) -> PyResult<Frame> {
        loop {
            if let Some(frame) = py.detach(|| self.inbox.wait(SIGNAL_TICK)) {
                return Ok(frame);
            }
            py.check_signals()?;
            meanwhile()?;
        }
    }

    fn last_word(&self, py: Python<'_>, message: &FromProcess) -> PyResult<()> {
        self.inbox.leave();
        self.send(py, message)?;
        self.outbox.close(&self.flusher);
        let handle = self.flusher_handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            // The flusher never panics; if it did, everything is written all the same.
            let _ = py.detach(|| handle.join());
        }
        Ok(())
    }
}

#[pymethods]
impl Connection {
    /// Takes over the inherited descriptors, shakes hands and waits for the agent's start message.
    #[staticmethod]
    fn open(py: Python<'_>, socket: RawFd, page: RawFd, python_version: String) -> PyResult<Self> {
        let socket = Arc::new(UnixStream::from(inherit(socket, "socket")?));
        let page = ProcessPage::open(inherit(page, "page")?)?;
        page.enter(Phase::Starting, monotonic_ns());
        let inbox = Arc::new(Inbox::default());
        let outbox = Arc::new(Outbox::new(Arc::clone(&socket)));
        std::thread::Builder::new().name("prs-reader".into()).spawn({
            let (inbox, socket) = (Arc::clone(&inbox), Arc::clone(&socket));
            move || inbox.keep_reading(&socket)
        })?;
        let flusher_handle = std::thread::Builder::new().name("prs-flusher".into()).spawn({
            let outbox = Arc::clone(&outbox);
            move || outbox.keep_flushing()
        })?;
        let flusher = flusher_handle.thread().clone();
        let flusher_handle = Mutex::new(Some(flusher_handle));
        let original = Original::here();
        let start = Start::default();
        let mut connection = Self { inbox, outbox, page, flusher, original, start, socket, flusher_handle };

        connection.send(py, &FromProcess::Hello { protocol: PROTOCOL_VERSION, python: python_version })?;
        let frame = connection.next_frame(py, || Ok(()))?;
        let Ok((ToProcess::Start(start), _)) = frame.decode() else {
            return Err(PyConnectionError::new_err("the agent's first message is not a start message"));
        };
        if start.protocol != PROTOCOL_VERSION {
            let message = format!(
                "the agent speaks protocol {} and this process {PROTOCOL_VERSION}: the extension and the worker \
                 are of different versions",
                start.protocol
            );
            let error = ErrorInfo::new(Stage::Import, "ProtocolMismatch", message.clone());
            connection.last_word(py, &FromProcess::InitFailed { error, is_permanent: true })?;
            return Err(PyConnectionError::new_err(message));
        }
        connection.page.enter(Phase::Init, monotonic_ns());
        connection.start = *start;
        Ok(connection)
    }

    /// The agent's start message, as JSON; see `prs_common::wire::Start`.
    fn start(&self) -> PyResult<String> {
        serde_json::to_string(&self.start).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// `init()` has returned, `seconds` after the start message; `run` is where `run()` begins. `has_lanes`: whether the
    /// script may have several mini-batches under way at once.
    #[pyo3(signature = (seconds, run, has_lanes=false))]
    fn ready(
        &self,
        py: Python<'_>,
        seconds: f64,
        run: Option<errors::PyFrame>,
        has_lanes: bool,
    ) -> PyResult<()> {
        let concurrency = has_lanes.then_some(self.start.concurrency.most.max(1));
        self.send(py, &FromProcess::Ready { seconds, run: run.map(errors::frame), concurrency })
    }

    /// The script cannot be imported; `parts` are category, message and traceback. Nothing follows.
    fn import_failed(&self, py: Python<'_>, parts: &Bound<'_, PyTuple>, is_permanent: bool) -> PyResult<()> {
        let error = errors::from_parts(Stage::Import, parts)?;
        self.last_word(py, &FromProcess::InitFailed { error, is_permanent })
    }

    /// `init()` raised `parts`. Nothing follows.
    fn init_failed(&self, py: Python<'_>, parts: &Bound<'_, PyTuple>, is_permanent: bool) -> PyResult<()> {
        let error = errors::from_parts(Stage::Init, parts)?;
        self.last_word(py, &FromProcess::InitFailed { error, is_permanent })
    }

    /// Something a person should read once.
    pub(crate) fn notice(&self, py: Python<'_>, text: String) -> PyResult<()> {
        self.send(py, &FromProcess::Notice(text))
    }

    /// `shutdown()` is about to be called.
    fn shutting_down(&self) {
        self.page.enter(Phase::Shutdown, monotonic_ns());
    }

    /// `shutdown()` has returned, or raised `parts`. Nothing follows.
    fn bye(&self, py: Python<'_>, parts: Option<&Bound<'_, PyTuple>>) -> PyResult<()> {
        let error = parts.map(|parts| errors::from_parts(Stage::Shutdown, parts)).transpose()?;
        self.last_word(py, &FromProcess::Bye(error))
    }

    /// In a forked child: lets go of the socket, so that the agent sees the end of the process itself.
    #[expect(unsafe_code, reason = "the descriptor is replaced under its owner, which never runs here")]
    fn forget(&self) -> PyResult<()> {
        // SAFETY: the number is open and stays owned by `self.socket`; only what it refers to changes, and
        // the copy that looks like an owner is never dropped.
        let mut descriptor = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(self.socket.as_raw_fd()) });
        let nothing = File::open("/dev/null")?;
        rustix::io::dup2(&nothing, &mut descriptor).map_err(|error| PyOSError::new_err(error.to_string()))
    }
}

/// Takes ownership of an inherited descriptor and keeps it from the children of the script.
#[expect(unsafe_code, reason = "a descriptor is inherited by its number")]
pub(crate) fn inherit(number: RawFd, what: &str) -> PyResult<OwnedFd> {
    if number < 0 {
        return Err(PyRuntimeError::new_err(format!("the inherited {what} has the number {number}")));
    }
    // SAFETY: the number is only used in one call, which fails when it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC).map_err(|error| {
        PyRuntimeError::new_err(format!("the inherited {what}, descriptor {number}: {error}"))
    })?;
    // SAFETY: it is open, and the agent passed it to this process for nobody else to own.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
