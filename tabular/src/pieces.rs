//! All of a file on all cores: one thread finds where records end, the others look at them, a piece at a time.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

/// How much is looked at in one go, in bytes; it then goes on to the end of a record.
const PIECE: usize = 1 << 20;
/// How long a record may be, in bytes, so that memory has a bound: what is behind a longer one is not looked at. Most often a quote
/// is never closed, which the splitter tells.
const LONGEST: usize = 64 << 20;

/// Records that are read from their beginning on.
pub(crate) trait Source {
    /// Appends so many bytes more to `piece`, fewer only at the end of the last record.
    fn read_more(&mut self, piece: &mut Vec<u8>, wanted: usize) -> io::Result<()>;

    /// Where in `piece`, which begins with a record and ends with what was read last, the last record begins; 0 where that is the
    /// only one.
    fn last_start(&self, piece: &[u8]) -> usize;
}

/// Has `look` look at all records of `source`, and `take` take what comes out, in the order of the records. It goes on until
/// `is_over`, which is asked before each piece.
pub(crate) fn look_at_all<T: Send>(
    source: impl Source,
    look: impl Fn(&[u8]) -> T + Sync,
    take: impl FnMut(T) + Send,
    is_over: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut pieces = Pieces { source, rest: Vec::new(), is_over: false };
    let in_order = Mutex::new(InOrder { take, next: 0, waiting: BTreeMap::new() });
    let put = |number, found| in_order.lock().unwrap_or_else(PoisonError::into_inner).put(number, found);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let Some(first) = pieces.next(Vec::new())? else { return Ok(()) };
    put(0, look(&first));
    if pieces.is_over {
        return Ok(());
    }
    thread::scope(|scope| {
        let (give, taken) = mpsc::sync_channel::<(usize, Vec<u8>)>(threads);
        let (give_back, spare) = mpsc::channel::<Vec<u8>>();
        // Gone with the last thread.
        let taken = Arc::new(Mutex::new(taken));
        for _ in 0..threads {
            let (look, put, taken, give_back) = (&look, &put, Arc::clone(&taken), give_back.clone());
            scope.spawn(move || {
                while let Ok((number, piece)) = take_one(&taken) {
                    put(number, look(&piece));
                    // Nobody takes it once all is read.
                    let _ = give_back.send(piece);
                }
            });
        }
        drop(taken);
        // The threads end once it is gone.
        let give = give;
        let mut number = 1;
        while !is_over() {
            let Some(piece) = pieces.next(spare.try_recv().unwrap_or_default())? else { break };
            give.send((number, piece)).expect("the threads take pieces as long as there are some");
            number += 1;
        }
        Ok(())
    })
}

/// The next piece; the lock is held by the one thread that waits.
fn take_one(pieces: &Mutex<mpsc::Receiver<(usize, Vec<u8>)>>) -> Result<(usize, Vec<u8>), mpsc::RecvError> {
    pieces.lock().unwrap_or_else(PoisonError::into_inner).recv()
}

/// Cuts what is read into pieces of whole records.
struct Pieces<S> {
    source: S,
    /// The beginning of a record, which the last piece does not have.
    rest: Vec<u8>,
    is_over: bool,
}

impl<S: Source> Pieces<S> {
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
            self.source.read_more(&mut piece, wanted)?;
            self.is_over = piece.len() - before < wanted;
            if self.is_over {
                return Ok(Some(piece));
            }
            let start = self.source.last_start(&piece);
            if start > 0 {
                self.rest.extend_from_slice(&piece[start..]);
                piece.truncate(start);
                return Ok(Some(piece));
            }
            if piece.len() > LONGEST {
                self.is_over = true;
                return Ok(None);
            }
        }
    }
}

/// Puts into their order what came out of it.
struct InOrder<T, F> {
    take: F,
    next: usize,
    waiting: BTreeMap<usize, T>,
}

impl<T, F: FnMut(T)> InOrder<T, F> {
    fn put(&mut self, number: usize, found: T) {
        self.waiting.insert(number, found);
        while let Some(found) = self.waiting.remove(&self.next) {
            self.next += 1;
            (self.take)(found);
        }
    }
}
