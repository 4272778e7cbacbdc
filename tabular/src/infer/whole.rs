//! All of a file, on all cores.
//!
//! Types are those of `pandas.read_csv(low_memory=False)`. What the pieces show is put together in their order: whether a whole
//! number beyond 64 bits makes text of its column depends on what stands before it.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Evidence, Look, scan_tolerantly};
use crate::Dialect;
use crate::pieces::look_at_all;
use crate::scan::marks_of;

/// Evidence of all records of `source` but malformed ones; of those so far once `is_stopped`.
pub(super) fn scan(
    source: impl Read,
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
    look_at_all(source, |piece| last_line_end(piece, look.dialect), look_at, take, &is_over)?;
    Ok(together)
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
