//! Splits a file into slices that end at record boundaries (spec D2), in one pass over its bytes.
//!
//! The [`Splitter`] is fed blocks of any size, keeps nothing of them but an unfinished chunk of 64 bytes,
//! and gives the same slices however the file is cut into blocks (spec D6). [`split_file`] feeds it from a
//! file. Fields are not looked at: a ragged record is found when its slice is read.

use std::fs::File;
use std::io::{self, Read};
use std::ops::{ControlFlow, Range};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Dialect;
use crate::scan::{CHUNK, Scanner};

/// The UTF-8 byte order mark, skipped at the start of a file.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How much of the file [`split_file`] reads at a time, in bytes.
const BLOCK: usize = 1 << 20;

/// A run of whole records: `start..end` in bytes of the file, without header and byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slice {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte; its line end belongs to the slice.
    pub end: u64,
    /// How many records it holds; blank lines are none. Never 0.
    pub records: u64,
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
#[derive(Debug)]
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
    slice_start: u64,
    slice_records: u64,
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
            slice_start: 0,
            slice_records: 0,
        }
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
                let chunk = self.pending;
                self.filled = 0;
                self.chunk(&chunk, CHUNK, out);
            }
        }
        let (chunks, rest) = block.as_chunks::<CHUNK>();
        for chunk in chunks {
            self.chunk(chunk, CHUNK, out);
        }
        self.pending[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Ends the file: the last slice is appended to `out`.
    pub fn finish(mut self, out: &mut Vec<Slice>) -> Result<Header, SplitError> {
        self.drop_byte_order_mark();
        let chunk = self.pending;
        self.chunk(&chunk, self.filled, out);
        if let Some(offset) = self.scanner.open_quote() {
            return Err(SplitError::UnterminatedQuote { offset });
        }
        if self.undecided_line_end {
            self.boundary(self.offset, out);
        }
        if self.line_has_content {
            self.record_ended(self.offset);
        }
        if self.slice_records > 0 {
            out.push(Slice { start: self.slice_start, end: self.offset, records: self.slice_records });
        }
        Ok(self.header)
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

    #[inline]
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
        } else {
            self.slice_records += 1;
        }
    }

    /// The next record starts at `offset`.
    #[inline]
    fn boundary(&mut self, offset: u64, out: &mut Vec<Slice>) {
        if self.awaits_header {
            self.awaits_header = false;
            self.slice_start = offset;
        } else if offset - self.slice_start >= self.target {
            out.push(Slice { start: self.slice_start, end: offset, records: self.slice_records });
            self.slice_start = offset;
            self.slice_records = 0;
        }
    }
}

/// Splits the file at `path`, handing every slice to `on_slice` as soon as its end is known, until that says
/// stop.
pub fn split_file(
    path: &Path,
    dialect: &Dialect,
    target_bytes: u64,
    mut on_slice: impl FnMut(Slice) -> ControlFlow<()>,
) -> Result<Header, SplitError> {
    let mut file = File::open(path)?;
    let mut splitter = Splitter::new(*dialect, target_bytes);
    let mut block = vec![0; BLOCK];
    let mut slices = Vec::new();
    loop {
        let read = match file.read(&mut block) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        splitter.feed(&block[..read], &mut slices);
        if slices.drain(..).try_for_each(&mut on_slice).is_break() {
            return Ok(splitter.header().clone());
        }
    }
    let header = splitter.finish(&mut slices)?;
    // Whoever stops here stops at the end.
    let _ = slices.drain(..).try_for_each(&mut on_slice);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Outcome = Result<(Vec<Slice>, Option<Range<u64>>), u64>;

    fn split(text: &[u8], has_header: bool, target: u64, block: impl Fn(usize) -> usize) -> Outcome {
        let mut splitter = Splitter::new(Dialect::new(b',', has_header).unwrap(), target);
        let mut out = vec![];
        let mut at = 0;
        while at < text.len() {
            let end = text.len().min(at + block(at).max(1));
            splitter.feed(&text[at..end], &mut out);
            at = end;
        }
        match splitter.finish(&mut out) {
            Ok(header) => Ok((out, header.range)),
            Err(SplitError::UnterminatedQuote { offset }) => Err(offset),
            Err(SplitError::Io(error)) => panic!("{error}"),
        }
    }

    fn whole(text: &str, has_header: bool, target: u64) -> Outcome {
        split(text.as_bytes(), has_header, target, |_| usize::MAX / 2)
    }

    fn slice(start: u64, end: u64, records: u64) -> Slice {
        Slice { start, end, records }
    }

    #[test]
    fn slices_end_at_the_first_boundary_at_or_after_the_target() {
        let text = "a,b\n1,2\n3,4\n5,6\n";
        assert_eq!(
            whole(text, true, 4),
            Ok((vec![slice(4, 8, 1), slice(8, 12, 1), slice(12, 16, 1)], Some(0..3)))
        );
        assert_eq!(whole(text, true, 5), Ok((vec![slice(4, 12, 2), slice(12, 16, 1)], Some(0..3))));
        assert_eq!(whole(text, true, 100), Ok((vec![slice(4, 16, 3)], Some(0..3))));
        assert_eq!(whole(text, false, 100), Ok((vec![slice(0, 16, 4)], None)));
        assert_eq!(whole(text, false, 0).unwrap().0.len(), 4);
    }

    #[test]
    fn line_ends_of_every_kind_end_records() {
        assert_eq!(
            whole("a\r\nb\rc\nd", false, 1),
            Ok((vec![slice(0, 3, 1), slice(3, 5, 1), slice(5, 7, 1), slice(7, 8, 1)], None))
        );
        assert_eq!(whole("a\r", false, 1), Ok((vec![slice(0, 2, 1)], None)));
        assert_eq!(whole("h\r\na\r\n", true, 9), Ok((vec![slice(3, 6, 1)], Some(0..1))));
        // The line feed of the pair reaches the target, the carriage return alone does not.
        assert_eq!(whole("a\r\nb\r\n", false, 3).unwrap().0, [slice(0, 3, 1), slice(3, 6, 1)]);
    }

    #[test]
    fn blank_lines_are_no_records() {
        assert_eq!(
            whole("\n \t\nx,y\n\n1,2\n\n \n3,4\n\n  ", true, 4).unwrap(),
            (vec![slice(8, 13, 1), slice(13, 20, 1)], Some(4..7))
        );
        assert_eq!(whole("", true, 4), Ok((vec![], None)));
        assert_eq!(whole("\n\n", false, 4), Ok((vec![], None)));
        assert_eq!(whole("a\n\"\"\n", true, 4), Ok((vec![slice(2, 5, 1)], Some(0..1))));
    }

    #[test]
    fn the_byte_order_mark_belongs_to_no_slice() {
        assert_eq!(whole("\u{feff}a\n1\n", true, 4), Ok((vec![slice(5, 7, 1)], Some(3..4))));
        assert_eq!(whole("\u{feff}1\n", false, 4), Ok((vec![slice(3, 5, 1)], None)));
        assert_eq!(whole("\u{feff}\"a\n\"\n1", true, 4), Ok((vec![slice(8, 9, 1)], Some(3..7))));
        assert_eq!(whole("\u{feff}", true, 4), Ok((vec![], None)));
        assert_eq!(whole("a\n1", true, 4), Ok((vec![slice(2, 3, 1)], Some(0..1))));
    }

    #[test]
    fn newlines_inside_quotes_do_not_end_records() {
        assert_eq!(
            whole("\"a\nb\",c\nd,\"e\r\n\"\"f\"\n", false, 1).unwrap().0,
            [slice(0, 8, 1), slice(8, 19, 1)]
        );
        assert_eq!(whole("a\"b\nc\"\n", false, 1).unwrap().0.len(), 2);
    }

    #[test]
    fn a_quote_left_open_is_an_error_at_its_offset() {
        assert_eq!(whole("a,b\n1,\"x\n\"\"3,4\n", true, 4), Err(6));
        let long = format!("a,b\n{}1,\"{}", "1,\"2\"\n".repeat(50), "3,4\n".repeat(50));
        assert_eq!(whole(&long, true, 4), Err(306));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn blocks_may_be_cut_anywhere(
            text in "(\u{feff})?([ab, \"\r\n]|\r\n|\"\"|,\"[^\"]{0,9}\"|1,22,333\n){0,80}",
            has_header: bool,
            target in 0u64..100,
            sizes in prop::collection::vec(1usize..90, 1..9),
        ) {
            let text = text.as_bytes();
            let expected = split(text, has_header, target, |_| text.len());
            prop_assert_eq!(&split(text, has_header, target, |_| 1), &expected);
            prop_assert_eq!(&split(text, has_header, target, |at| sizes[at % sizes.len()]), &expected);
            if let Ok((slices, _)) = expected {
                for pair in slices.windows(2) {
                    prop_assert_eq!(pair[0].end, pair[1].start);
                    prop_assert!(pair[0].end - pair[0].start >= target);
                }
                prop_assert!(slices.iter().all(|slice| slice.records > 0));
            }
        }
    }
}
