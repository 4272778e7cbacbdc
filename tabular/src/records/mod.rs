//! Finds the fields of every record in a slice, a block of records at a time.
//!
//! Only positions are kept: where each record starts and where each of its fields ends. A reader of a
//! column walks down the block with the column's type at hand, so nothing is decided per field but what its
//! bytes say. A block is small enough to stay in the second-level cache while all columns walk it.

use std::ops::Range;

use multiversion::multiversion;

use crate::Dialect;
use crate::scan::{CHUNK, Marks, Scanner};

/// How many bytes make a block; it then goes on to the end of the last whole record in them.
const BLOCK: usize = 64 << 10;

/// Why the records of a slice cannot be told apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A record has more or fewer fields than the others.
    #[error("ragged row: record {record} at byte {offset} has {found} fields where {expected} are expected")]
    Ragged {
        /// Offset of the record's first byte in the slice.
        offset: u64,
        /// Number of the record in the slice, from 0, blank lines not counted.
        record: u64,
        /// How many fields the schema has.
        expected: usize,
        /// How many fields the record has.
        found: usize,
    },
    /// The slice ends inside a quoted field.
    #[error("the quote opened at byte {offset} is never closed")]
    UnterminatedQuote {
        /// Offset of the opening quote in the slice.
        offset: u64,
    },
    /// A single record is longer than 4 GiB.
    #[error("the record at byte {offset} is longer than 4 GiB")]
    RecordTooLong {
        /// Offset of the record's first byte in the slice.
        offset: u64,
    },
}

/// Consecutive whole records of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    /// The slice from the block's first record on.
    pub(crate) bytes: &'a [u8],
    /// Number of the block's first record in the slice.
    pub(crate) first_record: usize,
    starts: &'a [u32],
    ends: &'a [u32],
    columns: usize,
}

impl<'a> Block<'a> {
    pub(crate) fn records(&self) -> usize {
        self.starts.len()
    }

    /// How many records the rest of the slice holds, these included, if it goes on like this.
    pub(crate) fn expected_records(&self) -> usize {
        let read = self.ends.last().map_or(0, |&end| end as usize + 1).max(1);
        self.records() * (self.bytes.len() / read + 1)
    }

    /// The fields of one column from top to bottom, as they stand in the text: quotes and all.
    #[inline]
    pub(crate) fn column(&self, column: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.places(column).map(move |place| &bytes[place])
    }

    /// Where in `bytes` they stand.
    #[inline]
    pub(crate) fn places(&self, column: usize) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let Self { starts, ends, columns, .. } = *self;
        starts.iter().zip(ends.chunks_exact(columns)).map(move |(&start, ends)| {
            let start = if column == 0 { start } else { ends[column - 1] + 1 };
            start as usize..ends[column] as usize
        })
    }
}

/// Goes through a slice block by block.
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    dialect: Dialect,
    columns: usize,
    scanner: Scanner,
    /// The next chunk to scan.
    at: usize,
    finished: bool,
    after_carriage_return: bool,
    /// What `starts` and `ends` count from.
    base: usize,
    /// A start for every whole record and, last, for the one in progress.
    starts: Vec<u32>,
    /// The ends of the fields, record after record. Grown in steps; only the first `fields` count.
    ends: Vec<u32>,
    fields: usize,
    /// How many of `fields` are of whole records.
    whole_fields: usize,
    /// How many records the earlier blocks had.
    earlier: usize,
    block_bytes: usize,
}

impl<'a> Records<'a> {
    /// The records of `bytes`, which starts at the start of a record; each must have `columns` fields, at
    /// least one.
    pub(crate) fn new(bytes: &'a [u8], dialect: Dialect, columns: usize) -> Self {
        Self {
            bytes,
            dialect,
            columns,
            scanner: Scanner::new(dialect.delimiter()),
            at: 0,
            finished: false,
            after_carriage_return: false,
            base: 0,
            starts: vec![0],
            ends: Vec::new(),
            fields: 0,
            whole_fields: 0,
            earlier: 0,
            block_bytes: BLOCK,
        }
    }

    #[cfg(test)]
    fn with_block_bytes(mut self, block_bytes: usize) -> Self {
        self.block_bytes = block_bytes;
        self
    }

    pub(crate) fn saw_stray_quotes(&self) -> bool {
        self.scanner.saw_stray_quotes()
    }

    /// The next block; it has at least one record.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block<'_>>, Malformed> {
        self.drop_whole_records()?;
        while self.starts.len() == 1 && !self.finished {
            self.fill()?;
        }
        let (_, starts) = self.starts.split_last().expect("the record in progress always has a start");
        Ok((!starts.is_empty()).then_some(Block {
            bytes: &self.bytes[self.base..],
            first_record: self.earlier,
            starts,
            ends: &self.ends[..self.whole_fields],
            columns: self.columns,
        }))
    }

    /// Forgets the last block, keeping the fields of the record in progress.
    fn drop_whole_records(&mut self) -> Result<(), Malformed> {
        let start = *self.starts.last().expect("the record in progress always has a start");
        self.earlier += self.starts.len() - 1;
        self.starts.clear();
        self.starts.push(0);
        self.base += start as usize;
        self.ends.copy_within(self.whole_fields..self.fields, 0);
        self.fields -= self.whole_fields;
        self.whole_fields = 0;
        self.ends[..self.fields].iter_mut().for_each(|end| *end -= start);
        // Positions up to the end of the next fill must fit their 32 bits.
        if self.at - self.base > u32::MAX as usize - 2 * self.block_bytes - 2 * CHUNK {
            return Err(Malformed::RecordTooLong { offset: self.base as u64 });
        }
        Ok(())
    }

    /// Scans about a block more, to the end of the slice if that is near.
    fn fill(&mut self) -> Result<(), Malformed> {
        if self.at - self.base > u32::MAX as usize - 2 * self.block_bytes - 2 * CHUNK {
            return Err(Malformed::RecordTooLong { offset: self.base as u64 });
        }
        let bytes = self.bytes;
        let limit = self.at.saturating_add(self.block_bytes).min(bytes.len());
        let (chunks, _) = bytes[self.at..limit].as_chunks::<CHUNK>();
        take_chunks(self, chunks)?;
        if limit == bytes.len() {
            let rest = &bytes[self.at..];
            let mut last = [0; CHUNK];
            last[..rest.len()].copy_from_slice(rest);
            self.chunk(&last, rest.len())?;
            self.finish()?;
        }
        Ok(())
    }

    #[expect(clippy::inline_always, reason = "it is compiled for its caller's processor")]
    #[inline(always)]
    fn chunk(&mut self, chunk: &[u8; CHUNK], valid: usize) -> Result<(), Malformed> {
        let marks = self.scanner.scan(chunk, valid, self.at as u64);
        let position = (self.at - self.base) as u32;
        self.at += valid;
        if self.ends.len() < self.fields + CHUNK {
            self.ends.resize((self.fields + CHUNK).max(2 * self.ends.len()), 0);
        }
        let plain = marks.carriage_returns == 0 && !self.after_carriage_return && self.columns > 1;
        if plain && self.take_whole_lines(marks, position) {
            Ok(())
        } else {
            self.take_one_by_one(marks, position)
        }
    }

    /// Takes a chunk in which every line feed ends a record of the right length; says whether it was one.
    #[inline]
    fn take_whole_lines(&mut self, marks: Marks, position: u32) -> bool {
        let all = marks.delimiters | marks.line_feeds;
        let fields_before = self.fields;
        let earlier = self.starts.len();
        let mut whole = self.whole_fields;
        let mut line_feeds = marks.line_feeds;
        while line_feeds != 0 {
            let bit = line_feeds & line_feeds.wrapping_neg();
            whole += self.columns;
            if fields_before + (all & (bit | (bit - 1))).count_ones() as usize != whole {
                self.starts.truncate(earlier);
                return false;
            }
            self.starts.push(position + line_feeds.trailing_zeros() + 1);
            line_feeds ^= bit;
        }
        self.whole_fields = whole;
        self.fields += all.count_ones() as usize;
        let mut rest = all;
        for end in &mut self.ends[fields_before..self.fields] {
            *end = position + rest.trailing_zeros();
            rest &= rest - 1;
        }
        true
    }

    /// Takes any chunk: blank lines, every kind of line end, records of the wrong length.
    fn take_one_by_one(&mut self, marks: Marks, position: u32) -> Result<(), Malformed> {
        let after = (marks.carriage_returns << 1) | u64::from(self.after_carriage_return);
        self.after_carriage_return = marks.carriage_returns >> 63 != 0;
        let pair_ends = marks.line_feeds & after;
        let mut rest = marks.any();
        while rest != 0 {
            let bit = rest & rest.wrapping_neg();
            let end = position + rest.trailing_zeros();
            rest ^= bit;
            if bit & marks.delimiters != 0 {
                self.ends[self.fields] = end;
                self.fields += 1;
            } else if bit & pair_ends != 0 {
                self.restart_record(end + 1);
            } else {
                self.end_record(end)?;
            }
        }
        Ok(())
    }

    fn restart_record(&mut self, start: u32) {
        *self.starts.last_mut().expect("the record in progress always has a start") = start;
    }

    /// Ends the record in progress, and its last field, at `end`; the next one starts after it.
    fn end_record(&mut self, end: u32) -> Result<(), Malformed> {
        let start = *self.starts.last().expect("the record in progress always has a start");
        let found = self.fields - self.whole_fields + 1;
        if found == 1
            && self.dialect.is_blank(&self.bytes[self.base + start as usize..self.base + end as usize])
        {
            self.restart_record(end + 1);
            return Ok(());
        }
        if found != self.columns {
            return Err(Malformed::Ragged {
                offset: (self.base + start as usize) as u64,
                record: (self.earlier + self.starts.len() - 1) as u64,
                expected: self.columns,
                found,
            });
        }
        self.ends[self.fields] = end;
        self.fields += 1;
        self.whole_fields = self.fields;
        self.starts.push(end + 1);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Malformed> {
        self.finished = true;
        if let Some(offset) = self.scanner.open_quote() {
            return Err(Malformed::UnterminatedQuote { offset });
        }
        let end = (self.bytes.len() - self.base) as u32;
        self.ends.push(0);
        // After a last line end the record in progress is empty, which is as good as a blank line.
        if self.starts.last().is_some_and(|&start| start < end) {
            self.end_record(end)?;
            self.restart_record(end);
        }
        Ok(())
    }
}

/// Takes whole chunks, with what the processor has for sets of bits.
#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt+popcnt"))]
fn take_chunks(records: &mut Records<'_>, chunks: &[[u8; CHUNK]]) -> Result<(), Malformed> {
    chunks.iter().try_for_each(|chunk| records.chunk(chunk, CHUNK))
}

#[cfg(test)]
mod tests;
