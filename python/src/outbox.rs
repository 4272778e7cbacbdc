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
use prs_common::wire::{ErrorInfo, FromProcess, MAX_FRAME, encode_frame};

/// Pending bytes from which the main thread writes at once.
const FULL: usize = 128 * 1024;
/// Age of the oldest pending outcome from which the main thread writes, nanoseconds.
const OLD_NS: u64 = 5_000_000;
/// Age from which the flusher writes, nanoseconds.
const OVERDUE_NS: u64 = 10_000_000;
/// Rows from this size on travel in a buffer of their own instead of being copied.
const BIG_ROWS: usize = 64 * 1024;
/// A frame is closed before it grows beyond this by gathering.
const GATHER_LIMIT: usize = 256 * 1024 * 1024;
/// Largest rows of one mini-batch, bytes: what fits a frame beside everything else.
pub(crate) const MAX_ROWS: usize = MAX_FRAME - 16 * 1024 * 1024;
/// Fields of [`prs_common::wire::Outcome`], whose encoding is an array.
const OUTCOME_FIELDS: u8 = 11;

/// One finished try; the fields of [`prs_common::wire::Outcome`] beside the rows.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub(crate) seq: u32,
    pub(crate) items: u64,
    pub(crate) returned: u64,
    pub(crate) header: Option<String>,
    pub(crate) files: Vec<String>,
    pub(crate) started_us: u64,
    pub(crate) elapsed_us: u64,
    pub(crate) cpu_us: u64,
    pub(crate) run_us: u64,
    pub(crate) error: Option<ErrorInfo>,
}

/// Encoded outcomes that wait to be written.
#[derive(Default)]
struct Pending {
    /// Complete pieces of the frame before `tail`.
    pieces: Vec<Vec<u8>>,
    /// The piece that grows.
    tail: Vec<u8>,
    /// Bytes in `pieces`.
    piece_bytes: usize,
    outcomes: u32,
    /// When the oldest of them was added, nanoseconds of the monotonic clock.
    since_ns: u64,
}

impl Pending {
    fn bytes(&self) -> usize {
        self.piece_bytes + self.tail.len()
    }

    fn seal_tail(&mut self) {
        let tail = std::mem::take(&mut self.tail);
        self.piece_bytes += tail.len();
        self.pieces.push(tail);
    }

    /// Appends the encoding of one outcome, as `rmp_serde` writes [`prs_common::wire::Outcome`].
    fn push(&mut self, finished: &Finished, rows: &mut Vec<u8>) {
        encode(&mut self.tail, |out| {
            out.push(0x90 | OUTCOME_FIELDS);
            rmp_serde::encode::write(out, &finished.seq)?;
            rmp_serde::encode::write(out, &finished.items)?;
            rmp_serde::encode::write(out, &finished.returned)
        });
        write_bin_length(&mut self.tail, rows.len());
        if rows.len() < BIG_ROWS {
            self.tail.extend_from_slice(rows);
            rows.clear();
        } else {
            self.seal_tail();
            self.piece_bytes += rows.len();
            self.pieces.push(std::mem::take(rows));
        }
        encode(&mut self.tail, |out| {
            rmp_serde::encode::write(out, &finished.header)?;
            rmp_serde::encode::write(out, &finished.files)?;
            rmp_serde::encode::write(out, &finished.started_us)?;
            rmp_serde::encode::write(out, &finished.elapsed_us)?;
            rmp_serde::encode::write(out, &finished.cpu_us)?;
            rmp_serde::encode::write(out, &finished.run_us)?;
            rmp_serde::encode::write(out, &finished.error)
        });
        self.outcomes += 1;
    }
}

fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), rmp_serde::encode::Error>) {
    write(out).expect("writing to memory cannot fail");
}

fn write_bin_length(out: &mut Vec<u8>, length: usize) {
    if let Ok(length) = u8::try_from(length) {
        out.extend_from_slice(&[0xc4, length]);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(0xc5);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        let length = u32::try_from(length).expect("rows are at most MAX_ROWS");
        out.push(0xc6);
        out.extend_from_slice(&length.to_be_bytes());
    }
}

/// The sending half of the connection.
pub(crate) struct Outbox {
    /// Taken before `pending` where both are needed: whoever holds it writes next.
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

    /// Adds an outcome; the rows, at most [`MAX_ROWS`], are taken out of `rows`. Returns true when the caller
    /// must [`flush`](Self::flush) now: always when there is nothing else to do (`is_last`). Otherwise `flusher`
    /// is woken if it sleeps.
    pub(crate) fn add(
        &self,
        finished: &Finished,
        rows: &mut Vec<u8>,
        is_last: bool,
        now_ns: u64,
        flusher: &Thread,
    ) -> bool {
        let mut pending = self.pending();
        if pending.outcomes == 0 {
            pending.since_ns = now_ns;
        }
        pending.push(finished, rows);
        let due = is_last || pending.bytes() >= FULL || now_ns.saturating_sub(pending.since_ns) >= OLD_NS;
        drop(pending);
        if !due && self.parked.load(Ordering::SeqCst) {
            flusher.unpark();
        }
        due
    }

    /// True when `bytes` more should not be gathered into the frame that is pending.
    pub(crate) fn is_too_full_for(&self, bytes: usize) -> bool {
        let pending = self.pending();
        pending.outcomes > 0 && pending.bytes() + bytes > GATHER_LIMIT
    }

    /// Writes whatever is pending as one frame; waits for the agent to take it.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_to(&socket)
    }

    fn flush_to(&self, socket: &UnixStream) -> io::Result<()> {
        let mut pending = self.pending();
        if pending.outcomes == 0 {
            return Ok(());
        }
        let taken = std::mem::take(&mut *pending);
        drop(pending);
        // The head of a frame with `FromProcess::Outcomes`: a map of one entry, its name, an array.
        let mut head = [0; 4 + 1 + 9 + 5];
        head[4] = 0x81;
        head[5] = 0xa0 | 8;
        head[6..14].copy_from_slice(b"Outcomes");
        head[14] = 0xdd;
        head[15..].copy_from_slice(&taken.outcomes.to_be_bytes());
        let length = u32::try_from(head.len() - 4 + taken.bytes()).map_err(io::Error::other)?;
        head[..4].copy_from_slice(&length.to_le_bytes());
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(taken.pieces.len() + 2);
        slices.push(IoSlice::new(&head));
        slices.extend(taken.pieces.iter().map(|piece| IoSlice::new(piece)));
        slices.push(IoSlice::new(&taken.tail));
        let written = write_all(socket, &mut slices);
        if taken.pieces.is_empty() {
            // The buffer is used again, unless the main thread has begun another one.
            let mut buffer = taken.tail;
            buffer.clear();
            let mut pending = self.pending();
            if pending.outcomes == 0 && pending.tail.capacity() == 0 {
                pending.tail = buffer;
            }
        }
        written
    }

    /// Writes `message` after everything that is pending.
    pub(crate) fn send(&self, message: &FromProcess<'_>) -> io::Result<()> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_to(&socket)?;
        let mut frame = Vec::new();
        encode_frame(message, &mut frame);
        (&**socket).write_all(&frame)
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
            let (outcomes, since_ns) = {
                let pending = self.pending();
                (pending.outcomes, pending.since_ns)
            };
            if outcomes == 0 {
                // One more tick before sleeping for good: in a stream of mini-batches the main thread then
                // never has to wake anybody.
                std::thread::park_timeout(Duration::from_nanos(OVERDUE_NS));
                self.parked.store(true, Ordering::SeqCst);
                if self.pending().outcomes == 0 && !self.closed.load(Ordering::SeqCst) {
                    std::thread::park();
                }
                self.parked.store(false, Ordering::SeqCst);
                continue;
            }
            let age_ns = monotonic_ns().saturating_sub(since_ns);
            if age_ns < OVERDUE_NS {
                std::thread::park_timeout(Duration::from_nanos(OVERDUE_NS - age_ns));
            } else if self.flush().is_err() {
                return;
            }
        }
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
