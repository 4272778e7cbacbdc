//! What goes to the agent: outcomes are gathered, many to a frame, and never held back for long.
//!
//! The main thread adds outcomes and writes them when there are many, when they are old or when it has no
//! more work; a *flusher* thread writes what got old while the main thread is inside a long `run()`. The rows
//! of a mini-batch are copied once when they are small and not at all when they are big. The flusher sleeps
//! without a timeout while nothing is pending, so an idle process costs nothing.

use std::io::{self, IoSlice, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use prs_common::process_page::monotonic_ns;
use prs_common::wire::{FromProcess, MAX_FRAME, Outcome, encode};

/// Pending bytes from which the main thread writes at once.
const FULL: usize = 128 * 1024;
/// Age of the oldest pending outcome from which the main thread writes, nanoseconds.
const OLD_NS: u64 = 5_000_000;
/// Age from which the flusher writes, nanoseconds.
const OVERDUE_NS: u64 = 10_000_000;
/// Pieces that rows are gathered in, bytes. Rows from this size on are a piece of their own instead of being copied.
const GATHERED_BYTES: usize = 64 * 1024;
/// About the bytes of an outcome beside its texts.
const OUTCOME: usize = 48;
/// A frame is closed before it grows beyond this by gathering.
const GATHER_LIMIT: usize = 256 * 1024 * 1024;
/// Largest rows of one mini-batch, bytes: what fits a frame beside everything else.
pub(crate) const MAX_ROWS: usize = MAX_FRAME - 16 * 1024 * 1024;

/// Outcomes that wait to be written.
#[derive(Default)]
struct Pending {
    outcomes: Vec<Outcome>,
    /// Their rows, in pieces.
    rows: Vec<Vec<u8>>,
    /// About the bytes of the frame.
    bytes: usize,
    /// When the oldest of them was added, nanoseconds of the monotonic clock.
    since_ns: u64,
}

impl Pending {
    fn push(&mut self, mut outcome: Outcome, rows: &mut Vec<u8>) {
        outcome.rows = u32::try_from(rows.len()).expect("rows are at most MAX_ROWS");
        self.bytes += rows.len() + head_bytes(&outcome);
        self.outcomes.push(outcome);
        match self.rows.last_mut() {
            Some(piece) if piece.len() + rows.len() <= GATHERED_BYTES => piece.extend_from_slice(rows),
            _ => self.rows.push(std::mem::take(rows)),
        }
        rows.clear();
    }
}

/// About the bytes of `outcome` in the head of a frame.
fn head_bytes(outcome: &Outcome) -> usize {
    let error = outcome.error.as_ref().map_or(0, |error| error.message.len() + error.traceback.len());
    OUTCOME + error + outcome.files.iter().map(String::len).sum::<usize>()
}

/// The sending half of the connection.
pub(crate) struct Outbox {
    /// Taken before `pending` where both are needed: the thread that holds it writes next.
    socket: Mutex<Arc<UnixStream>>,
    pending: Mutex<Pending>,
    /// True while the flusher sleeps without a timeout.
    parked: AtomicBool,
    closed: AtomicBool,
}

impl Outbox {
    pub(crate) fn new(socket: Arc<UnixStream>) -> Self {
        Self {
            socket: Mutex::new(socket),
            pending: Mutex::default(),
            parked: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an outcome; its rows, at most [`MAX_ROWS`], are taken out of `rows`. Returns true when the caller
    /// must [`flush`](Self::flush) now: always when there is nothing else to do (`is_last`). Otherwise `flusher`
    /// is woken if it sleeps.
    pub(crate) fn add(
        &self,
        outcome: Outcome,
        rows: &mut Vec<u8>,
        is_last: bool,
        now_ns: u64,
        flusher: &Thread,
    ) -> bool {
        let mut pending = self.pending();
        if pending.outcomes.is_empty() {
            pending.since_ns = now_ns;
        }
        pending.push(outcome, rows);
        let due = is_last || pending.bytes >= FULL || now_ns.saturating_sub(pending.since_ns) >= OLD_NS;
        drop(pending);
        if !due && self.parked.load(Ordering::SeqCst) {
            flusher.unpark();
        }
        due
    }

    /// True when `bytes` more should not be gathered into the frame that is pending.
    pub(crate) fn is_too_full_for(&self, bytes: usize) -> bool {
        let pending = self.pending();
        !pending.outcomes.is_empty() && pending.bytes + bytes > GATHER_LIMIT
    }

    /// Writes what is pending as one frame; waits for the agent to take it.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_to(&socket)
    }

    fn flush_to(&self, socket: &UnixStream) -> io::Result<()> {
        let Pending { outcomes, rows, .. } = std::mem::take(&mut *self.pending());
        if outcomes.is_empty() {
            return Ok(());
        }
        let head = encode(&FromProcess::Outcomes(outcomes), []);
        let mut slices: Vec<_> =
            std::iter::once(&head).chain(&rows).map(|piece| IoSlice::new(piece)).collect();
        write_all(socket, &mut slices)
    }

    /// Writes `message` after everything that is pending.
    pub(crate) fn send(&self, message: &FromProcess) -> io::Result<()> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_to(&socket)?;
        (&**socket).write_all(&encode(message, []))
    }

    /// Ends the flusher.
    pub(crate) fn close(&self, flusher: &Thread) {
        self.closed.store(true, Ordering::SeqCst);
        flusher.unpark();
    }

    /// Body of the flusher thread: writes what is overdue until [`close`](Self::close). A failed write ends
    /// it; the reader sees the same end of the connection and acts on it.
    pub(crate) fn keep_flushing(&self) {
        while !self.closed.load(Ordering::SeqCst) {
            let Some(age_ns) = self.age_ns() else {
                // One more tick before sleeping for good: in a stream of mini-batches the main thread then
                // never has to wake the flusher.
                std::thread::park_timeout(Duration::from_nanos(OVERDUE_NS));
                self.parked.store(true, Ordering::SeqCst);
                if self.age_ns().is_none() && !self.closed.load(Ordering::SeqCst) {
                    std::thread::park();
                }
                self.parked.store(false, Ordering::SeqCst);
                continue;
            };
            if age_ns < OVERDUE_NS {
                std::thread::park_timeout(Duration::from_nanos(OVERDUE_NS - age_ns));
            } else if self.flush().is_err() {
                return;
            }
        }
    }

    /// How long the oldest outcome has been pending.
    fn age_ns(&self) -> Option<u64> {
        let pending = self.pending();
        (!pending.outcomes.is_empty()).then(|| monotonic_ns().saturating_sub(pending.since_ns))
    }
}

fn write_all(mut socket: &UnixStream, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match socket.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
