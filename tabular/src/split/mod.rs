//! Splits a file into slices that end at record boundaries (spec D2), in one pass over its bytes.
//!
//! The [`Splitter`] is fed blocks of any size, keeps nothing of them but an unfinished chunk of 64 bytes,
//! and gives the same slices however the file is cut into blocks (spec D6). [`Cutting`] feeds it from a
//! file. Each slice has the checksum of its bytes, so that a reader knows whether it has the same. Fields are not
//! looked at: a ragged record is found when its slice is read.

mod cutting;

use std::io;
use std::ops::Range;

use crc_fast::{CrcAlgorithm, Digest};
use multiversion::multiversion;
use serde::{Deserialize, Serialize};

pub use self::cutting::Cutting;
use crate::Dialect;
use crate::scan::{CHUNK, Scanner};

/// The UTF-8 byte order mark, skipped at the start of a file.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How much of a file is read at a time, in bytes.
pub(crate) const BLOCK: usize = 256 << 10;

/// A run of whole records: `start..end` in bytes of the file, without header and byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slice {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte; its line end belongs to the slice.
    pub end: u64,
    /// How many records it holds; blank lines are none. Never 0.
    pub records: u64,
    /// CRC32C of its bytes.
    pub checksum: u32,
}

/// What precedes the records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Where the record with the names is, without its line end; nothing when the dialect has none, or the
    /// file holds no record.
    pub range: Option<Range<u64>>,
}

/// Why a file cannot be split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The file ends inside a quoted field.
    #[error("the quote opened at byte {offset} is never closed")]
    UnterminatedQuote {
        /// Offset of the opening quote in the file, in bytes.
        offset: u64,
    },
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Finds slices in the bytes of a file, given in order.
#[derive(Debug, Clone)]
pub struct Splitter {
    dialect: Dialect,
    target: u64,
    scanner: Scanner,
    /// The chunk being filled; its first byte is at `offset`.
    pending: [u8; CHUNK],
    filled: usize,
    offset: u64,
    /// Where the current line starts, and whether a byte that is not blank was seen in it.
    line_start: u64,
    line_has_content: bool,
    /// The last byte of the last chunk was a `\r` that ended a record: whether a `\n` belongs to it is not
    /// known.
    undecided_line_end: bool,
    header: Header,
    awaits_header: bool,
    /// Records that no slice has, at the beginning.
    to_skip: u64,
    /// Records of all further slices at most.
    most_records: u64,
    slice_start: u64,
    slice_records: u64,
    /// Of the current slice, as far as its bytes are in chunks that were looked at.
    checksum: Digest,
}

impl Splitter {
    /// A splitter for slices that end at the first record boundary at or after `target_bytes` bytes.
    pub fn new(dialect: Dialect, target_bytes: u64) -> Self {
        Self {
            dialect,
            target: target_bytes,
            scanner: Scanner::new(dialect.delimiter()),
            pending: [0; CHUNK],
            filled: 0,
            offset: 0,
            line_start: 0,
            line_has_content: false,
            undecided_line_end: false,
            header: Header::default(),
            awaits_header: dialect.has_header(),
            to_skip: 0,
            most_records: u64::MAX,
            slice_start: 0,
            slice_records: 0,
            checksum: Digest::new(CrcAlgorithm::Crc32Iscsi),
        }
    }

    /// The same, which leaves out so many records at the beginning, and after so many as `most` begins a slice that nobody wants.
    #[must_use]
    pub fn within(self, skip: u64, most: u64) -> Self {
        Self { to_skip: skip, most_records: most, ..self }
    }

    /// Records that are still to be left out.
    pub fn left_to_skip(&self) -> u64 {
        self.to_skip
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// A copy of it as it stands now, which ends no slice before the file ends.
    pub(crate) fn without_slices(&self) -> Self {
        Self { target: u64::MAX, most_records: u64::MAX, ..self.clone() }
    }

    /// Bytes it was fed, the byte order mark among them.
    pub(crate) fn fed(&self) -> u64 {
        self.offset + self.filled as u64
    }

    /// How many of the bytes it was fed are of the last record, which has not ended yet.
    pub(crate) fn of_last_record(&self) -> u64 {
        self.fed() - self.line_start
    }

    /// Takes the next bytes of the file; slices that ended are appended to `out`.
    pub fn feed(&mut self, mut block: &[u8], out: &mut Vec<Slice>) {
        // The first chunk always goes through `pending`, where the byte order mark is dropped.
        while self.filled > 0 || self.offset < CHUNK as u64 {
            let taken = block.len().min(CHUNK - self.filled);
            self.pending[self.filled..self.filled + taken].copy_from_slice(&block[..taken]);
            self.filled += taken;
            block = &block[taken..];
            if self.filled < CHUNK {
                return;
            }
            if !self.drop_byte_order_mark() {
                let (chunk, offset, known) = (self.pending, self.offset, out.len());
                self.filled = 0;
                self.chunk(&chunk, CHUNK, out);
                self.sum_up(&chunk, offset, &mut out[known..]);
            }
        }
        let (chunks, rest) = block.as_chunks::<CHUNK>();
        let (offset, known) = (self.offset, out.len());
        take_chunks(self, chunks, out);
        self.sum_up(chunks.as_flattened(), offset, &mut out[known..]);
        self.pending[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Ends the file: the last slice is appended to `out`.
    pub fn finish(mut self, out: &mut Vec<Slice>) -> Result<Header, SplitError> {
        self.end(out)?;
        Ok(self.header)
    }

    fn end(&mut self, out: &mut Vec<Slice>) -> Result<(), SplitError> {
        self.drop_byte_order_mark();
        let (chunk, offset, known) = (self.pending, self.offset, out.len());
        self.chunk(&chunk, self.filled, out);
        if let Some(offset) = self.scanner.open_quote() {
            return Err(SplitError::UnterminatedQuote { offset });
        }
        if self.undecided_line_end {
            self.boundary(self.offset, out);
        }
        if self.line_has_content {
            self.record_ended(self.offset);
            // A header, or what is left out, may be all that there is.
            self.to_skip = self.to_skip.saturating_sub(u64::from(!self.awaits_header));
        }
        if self.slice_records > 0 {
            self.end_slice(self.offset, out);
        }
        self.sum_up(&chunk[..self.filled], offset, &mut out[known..]);
        Ok(())
    }

    /// Where the header is, as soon as it has been fed.
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn drop_byte_order_mark(&mut self) -> bool {
        let found = self.offset == 0 && self.pending[..self.filled].starts_with(BYTE_ORDER_MARK);
        if found {
            self.pending.copy_within(BYTE_ORDER_MARK.len().., 0);
            self.filled -= BYTE_ORDER_MARK.len();
            self.offset = BYTE_ORDER_MARK.len() as u64;
            self.line_start = self.offset;
            self.slice_start = self.offset;
        }
        found
    }

    #[expect(clippy::inline_always, reason = "it is compiled for its caller's processor")]
    #[inline(always)]
    fn chunk(&mut self, bytes: &[u8; CHUNK], valid: usize, out: &mut Vec<Slice>) {
        let offset = self.offset;
        if self.undecided_line_end && valid > 0 {
            self.undecided_line_end = false;
            self.boundary(offset + u64::from(bytes[0] == b'\n'), out);
        }
        let marks = self.scanner.scan(bytes, valid, offset);
        let mut line_ends = marks.line_feeds | marks.carriage_returns;
        let mut line = 0;
        while line_ends != 0 {
            let end = line_ends.trailing_zeros() as usize;
            line_ends &= line_ends - 1;
            if self.line_has_content || !self.dialect.is_blank(&bytes[line..end]) {
                self.record_ended(offset + end as u64);
                if bytes[end] == b'\n' {
                    self.boundary(offset + end as u64 + 1, out);
                } else if end + 1 < valid {
                    self.boundary(offset + end as u64 + 1 + u64::from(bytes[end + 1] == b'\n'), out);
                } else {
                    self.undecided_line_end = true;
                }
            }
            line = end + 1;
            self.line_start = offset + line as u64;
            self.line_has_content = false;
        }
        self.line_has_content |= !self.dialect.is_blank(&bytes[line..valid]);
        self.offset += valid as u64;
    }

    /// A record ended before the line end at `offset`.
    #[inline]
    fn record_ended(&mut self, offset: u64) {
        if self.awaits_header {
            self.header.range = Some(self.line_start..offset);
        } else if self.to_skip == 0 {
            self.slice_records += 1;
        }
    }

    /// The next record starts at `offset`.
    #[inline]
    fn boundary(&mut self, offset: u64, out: &mut Vec<Slice>) {
        if self.awaits_header {
            self.awaits_header = false;
            self.slice_start = offset;
        } else if self.to_skip > 0 {
            self.to_skip -= 1;
            self.slice_start = offset;
        } else if offset - self.slice_start >= self.target || self.slice_records >= self.most_records {
            self.end_slice(offset, out);
        }
    }

    /// The current slice ends at `offset`, where the next one starts.
    fn end_slice(&mut self, offset: u64, out: &mut Vec<Slice>) {
        let (start, records) = (self.slice_start, self.slice_records);
        out.push(Slice { start, end: offset, records, checksum: 0 });
        self.slice_start = offset;
        self.most_records = self.most_records.saturating_sub(records);
        self.slice_records = 0;
    }

    /// Takes `bytes`, which were looked at as chunks and start at `offset`, into the checksums: of the slices that
    /// `ended` in them, and of the current one.
    fn sum_up(&mut self, bytes: &[u8], offset: u64, ended: &mut [Slice]) {
        let mut from = offset;
        let mut take_in = |checksum: &mut Digest, start: u64, end: u64| {
            // The bytes before it belong to the header, or are in the checksum already.
            let start = start.max(from);
            from = end;
            checksum.update(&bytes[(start - offset) as usize..(end - offset) as usize]);
        };
        for slice in ended {
            take_in(&mut self.checksum, slice.start, slice.end);
            slice.checksum = self.checksum.finalize_reset() as u32;
        }
        let end = offset + bytes.len() as u64;
        if !self.awaits_header && self.to_skip == 0 {
            take_in(&mut self.checksum, self.slice_start, end);
        }
    }
}

/// Takes whole chunks, with what the processor has for sets of bits.
#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt+popcnt"))]
fn take_chunks(splitter: &mut Splitter, chunks: &[[u8; CHUNK]], out: &mut Vec<Slice>) {
    for chunk in chunks {
        splitter.chunk(chunk, CHUNK, out);
    }
}

/// Where each record of `bytes`, whole records without a header, begins, and last their end. A blank line goes with the record
/// behind it, at the end with the last.
pub fn record_starts(bytes: &[u8], dialect: &Dialect) -> Result<Vec<u64>, SplitError> {
    let dialect = Dialect::new(dialect.delimiter(), false).expect("its delimiter was valid");
    let mut splitter = Splitter::new(dialect, 1);
    let (mut starts, mut slices) = (Vec::new(), Vec::new());
    for block in bytes.chunks(BLOCK) {
        splitter.feed(block, &mut slices);
        starts.extend(slices.drain(..).map(|slice| slice.start));
    }
    splitter.finish(&mut slices)?;
    starts.extend(slices.drain(..).map(|slice| slice.start));
    // What looks like a byte order mark is none within a file.
    if let Some(first) = starts.first_mut() {
        *first = 0;
    }
    starts.push(bytes.len() as u64);
    Ok(starts)
}

#[cfg(test)]
mod tests;
