//! All of a file, on all cores.
//!
//! Types are those of `pandas.read_csv(low_memory=False)`. What the pieces show is put together in their order: whether a whole
//! number beyond 64 bits makes text of its column depends on what stands before it. The splitter finds where records end, so that
//! the file is read and searched for quotes once for its types and its slices.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Evidence, Look, scan_tolerantly};
use crate::pieces::{Source, look_at_all};
use crate::split::{BLOCK, Slice, Splitter};

/// Slices that are held until the types are known, at most; those behind them are cut in a second reading.
const MOST_HELD: usize = 1 << 18;

/// Evidence of all records of `source` but malformed ones; of those so far once `is_stopped`.
pub(super) fn scan<R: Read>(
    source: Cut<'_, R>,
    look: Look<'_>,
    columns: usize,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Vec<Evidence>> {
    // Of each column, whether it is text, whatever else is found: it is no more looked at.
    let texts: Vec<AtomicBool> = (0..columns).map(|_| AtomicBool::new(false)).collect();
    let is_text = |text: &AtomicBool| text.load(Ordering::Relaxed);
    let look_at = |piece: &[u8]| {
        let known = |text| if is_text(text) { Evidence(Evidence::TEXT) } else { Evidence::default() };
        let mut found: Vec<Evidence> = texts.iter().map(known).collect();
        scan_tolerantly(piece, look, &mut found);
        for (found, text) in found.iter().zip(&texts) {
            if found.0 & Evidence::TEXT != 0 {
                text.store(true, Ordering::Relaxed);
            }
        }
        found
    };
    let mut together = vec![Evidence::default(); columns];
    let take = |found: Vec<Evidence>| {
        for (together, found) in together.iter_mut().zip(found) {
            *together = together.followed_by(found);
        }
    };
    let is_over = || is_stopped() || texts.iter().all(is_text);
    look_at_all(source, look_at, take, &is_over)?;
    Ok(together)
}

/// A file that is cut as it is read.
pub(super) struct Cut<'a, R> {
    source: R,
    splitter: &'a mut Splitter,
    slices: &'a mut Vec<Slice>,
    /// Goes on from where the splitter has stopped, for it has found too many slices.
    scout: Option<Splitter>,
}

impl<'a, R: Read> Cut<'a, R> {
    /// Begins to read `source` with a splitter that has seen nothing yet.
    pub(super) fn new(source: R, splitter: &'a mut Splitter, slices: &'a mut Vec<Slice>) -> Self {
        Self { source, splitter, slices, scout: None }
    }

    /// Reads what precedes the records, so many bytes.
    pub(super) fn pass_over(&mut self, bytes: u64) -> io::Result<()> {
        self.read_more(&mut Vec::new(), bytes as usize)
    }

    fn feed(&mut self, block: &[u8]) {
        if let Some(scout) = &mut self.scout {
            return scout.feed(block, &mut Vec::new());
        }
        self.splitter.feed(block, self.slices);
        if self.slices.len() >= MOST_HELD {
            self.scout = Some(self.splitter.without_slices());
        }
    }
}

impl<R: Read> Source for Cut<'_, R> {
    fn read_more(&mut self, piece: &mut Vec<u8>, wanted: usize) -> io::Result<()> {
        let end = piece.len() + wanted;
        piece.reserve(wanted);
        while piece.len() < end {
            let before = piece.len();
            let block = BLOCK.min(end - before);
            self.source.by_ref().take(block as u64).read_to_end(piece)?;
            self.feed(&piece[before..]);
            if piece.len() - before < block {
                break;
            }
        }
        Ok(())
    }

    fn last_start(&self, piece: &[u8]) -> usize {
        let of_last = self.scout.as_ref().unwrap_or(self.splitter).of_last_record();
        piece.len().saturating_sub(of_last as usize)
    }
}
