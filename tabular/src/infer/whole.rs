//! All of a file: one thread finds where records end, the others look at their fields, a piece at a time.
//!
//! Types are those of `pandas.read_csv(low_memory=False)`. What the pieces show is put together in their order: whether a whole
//! number beyond 64 bits makes text of its column depends on what stands before it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use super::{Evidence, scan_tolerantly};
use crate::Dialect;
use crate::scan::marks_of;

/// How much is looked at in one go, in bytes; it then goes on to the end of a record.
const PIECE: usize = 1 << 20;
/// How long a record may be, in bytes, so that memory has a bound: what is behind a longer one is not looked at. Most often a quote
/// is never closed, which the splitter tells.
const LONGEST: usize = 64 << 20;

/// Evidence of all records of `source` but malformed ones; of those so far once `is_stopped`.
pub(super) fn scan(
    source: impl Read,
    dialect: Dialect,
    columns: usize,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Vec<Evidence>> {
    let mut pieces = Pieces { source, dialect, rest: Vec::new(), is_over: false };
    let seen = Seen::new(dialect, columns);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let Some(first) = pieces.next(Vec::new())? else { return Ok(seen.finish()) };
    seen.look(0, &first);
    if pieces.is_over {
        return Ok(seen.finish());
    }
    thread::scope(|scope| {
        let (give, taken) = mpsc::sync_channel::<(usize, Vec<u8>)>(threads);
        let (give_back, spare) = mpsc::channel::<Vec<u8>>();
        // Gone with the last thread.
        let taken = Arc::new(Mutex::new(taken));
        for _ in 0..threads {
            let (seen, taken, give_back) = (&seen, Arc::clone(&taken), give_back.clone());
            scope.spawn(move || {
                while let Ok((number, piece)) = take_one(&taken) {
                    seen.look(number, &piece);
                    // Nobody takes it once all is read.
                    let _ = give_back.send(piece);
                }
            });
        }
        drop(taken);
        // The threads end once it is gone.
        let give = give;
        let mut number = 1;
        while !is_stopped() && !seen.all_is_text() {
            let Some(piece) = pieces.next(spare.try_recv().unwrap_or_default())? else { break };
            give.send((number, piece)).expect("the threads take pieces as long as there are some");
            number += 1;
        }
        Ok::<_, io::Error>(())
    })?;
    Ok(seen.finish())
}

/// The next piece; the lock is held by the one thread that waits.
fn take_one(pieces: &Mutex<mpsc::Receiver<(usize, Vec<u8>)>>) -> Result<(usize, Vec<u8>), mpsc::RecvError> {
    pieces.lock().unwrap_or_else(PoisonError::into_inner).recv()
}

/// Cuts what is read into pieces of whole records.
struct Pieces<R> {
    source: R,
    dialect: Dialect,
    /// The beginning of a record, which the last piece does not have.
    rest: Vec<u8>,
    is_over: bool,
}

impl<R: Read> Pieces<R> {
    /// The next one, in the memory of `piece`.
    fn next(&mut self, mut piece: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        piece.clear();
        piece.append(&mut self.rest);
        loop {
            // A record that is longer than a piece is looked for in twice as much each time.
            let wanted = PIECE.max(piece.len());
            let before = piece.len();
            self.source.by_ref().take(wanted as u64).read_to_end(&mut piece)?;
            self.is_over = piece.len() - before < wanted;
            if self.is_over {
                return Ok(Some(piece));
            }
            if let Some(end) = last_line_end(&piece, self.dialect) {
                self.rest.extend_from_slice(&piece[end + 1..]);
                piece.truncate(end + 1);
                return Ok(Some(piece));
            }
            if piece.len() > LONGEST {
                self.is_over = true;
                return Ok(None);
            }
        }
    }
}

/// Where the last line end outside quotes is.
fn last_line_end(bytes: &[u8], dialect: Dialect) -> Option<usize> {
    if memchr::memchr(b'"', bytes).is_none() {
        return memchr::memrchr2(b'\n', b'\r', bytes);
    }
    let mut last = None;
    for (start, marks) in marks_of(bytes, dialect.delimiter()) {
        if let Some(place) = marks.line_ends().checked_ilog2() {
            last = Some(start + place as usize);
        }
    }
    last
}

/// Evidence of the pieces so far.
struct Seen {
    dialect: Dialect,
    /// For each column, whether it is text, whatever else is found: it is no more looked at.
    texts: Vec<AtomicBool>,
    inner: Mutex<InOrder>,
}

/// Puts together what came out of order.
struct InOrder {
    together: Vec<Evidence>,
    next: usize,
    waiting: BTreeMap<usize, Vec<Evidence>>,
}

impl Seen {
    fn new(dialect: Dialect, columns: usize) -> Self {
        let inner =
            InOrder { together: vec![Evidence::default(); columns], next: 0, waiting: BTreeMap::new() };
        Self {
            dialect,
            texts: (0..columns).map(|_| AtomicBool::new(false)).collect(),
            inner: Mutex::new(inner),
        }
    }

    /// Looks at the piece of this number.
    fn look(&self, number: usize, piece: &[u8]) {
        let known = |is_text: &AtomicBool| {
            if is_text.load(Ordering::Relaxed) { Evidence(Evidence::TEXT) } else { Evidence::default() }
        };
        let mut found: Vec<Evidence> = self.texts.iter().map(known).collect();
        scan_tolerantly(piece, self.dialect, &mut found);
        for (found, is_text) in found.iter().zip(&self.texts) {
            if found.0 & Evidence::TEXT != 0 {
                is_text.store(true, Ordering::Relaxed);
            }
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.waiting.insert(number, found);
        inner.put_together();
    }

    fn all_is_text(&self) -> bool {
        self.texts.iter().all(|is_text| is_text.load(Ordering::Relaxed))
    }

    fn finish(self) -> Vec<Evidence> {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner).together
    }
}

impl InOrder {
    fn put_together(&mut self) {
        while let Some(found) = self.waiting.remove(&self.next) {
            self.next += 1;
            for (together, found) in self.together.iter_mut().zip(found) {
                *together = together.followed_by(found);
            }
        }
    }
}
