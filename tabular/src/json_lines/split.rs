//! Splits JSON lines into slices that end at line ends, in one pass over the bytes that keeps none of them.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use crc_fast::{CrcAlgorithm, Digest};

use crate::Slice;
use crate::split::{BLOCK, BYTE_ORDER_MARK};

/// How long a line may be, in bytes: as long as a record of delimited text.
const LONGEST_LINE: u64 = u32::MAX as u64;

/// A part of a file of JSON lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinesPart {
    /// Whole lines, at least one of them not blank.
    Slice(Slice),
    /// A line that is longer than a record may be, 4 GiB; no slice has it.
    TooLong {
        /// Offset of its first byte.
        start: u64,
    },
}

/// Splits the file at `path` into slices that end at the first line end at or after `target` bytes. Every part goes to
/// `on_part` as soon as its end is known, until that says stop. Where the file `is_cut`, as a damaged compressed one is, a
/// last line without its end is not all there, and no slice has it.
pub fn split_lines(
    path: &Path,
    target: u64,
    is_cut: bool,
    on_part: impl FnMut(LinesPart) -> ControlFlow<()>,
) -> io::Result<()> {
    split_lines_within(path, target, is_cut, &mut 0, u64::MAX, on_part)
}

/// The same without so many lines that are not blank at the beginning, and after so many as `most` with a part that nobody wants. In
/// `skip` stands then what the file was too short for.
pub fn split_lines_within(
    path: &Path,
    target: u64,
    is_cut: bool,
    skip: &mut u64,
    most: u64,
    on_part: impl FnMut(LinesPart) -> ControlFlow<()>,
) -> io::Result<()> {
    let limits = Limits { target, longest: LONGEST_LINE, to_skip: *skip, most };
    *skip = split(File::open(path)?, Splitter::new(limits), BLOCK, is_cut, on_part)?;
    Ok(())
}

fn split(
    mut text: impl Read,
    mut splitter: Splitter,
    block: usize,
    is_cut: bool,
    mut on_part: impl FnMut(LinesPart) -> ControlFlow<()>,
) -> io::Result<u64> {
    let mut bytes = Vec::with_capacity(block);
    let mut parts = Vec::new();
    loop {
        bytes.clear();
        text.by_ref().take(block as u64).read_to_end(&mut bytes)?;
        let is_last = bytes.len() < block;
        splitter.feed(&bytes, &mut parts);
        if is_last {
            splitter.finish(is_cut, &mut parts);
        }
        if parts.drain(..).try_for_each(&mut on_part).is_break() || is_last {
            return Ok(splitter.limits.to_skip);
        }
    }
}

/// What a slice may be.
#[derive(Debug, Clone, Copy)]
struct Limits {
    target: u64,
    longest: u64,
    /// Lines that no slice has, at the beginning.
    to_skip: u64,
    /// Lines of all further parts at most.
    most: u64,
}

/// Finds the parts of a file, which is fed block by block. The first block holds the byte order mark, if there is one.
struct Splitter {
    limits: Limits,
    slice_start: u64,
    /// Whole lines of the slice that are not blank.
    records: u64,
    /// Of the whole lines of the slice.
    checksum: Digest,
    line: Line,
}

/// The line whose end was not found yet.
#[derive(Clone, Copy)]
struct Line {
    start: u64,
    length: u64,
    is_blank: bool,
    is_too_long: bool,
    /// Of the slice, this line included.
    checksum: Digest,
}

impl Splitter {
    fn new(limits: Limits) -> Self {
        let checksum = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let line = Line { start: 0, length: 0, is_blank: true, is_too_long: false, checksum };
        Self { limits, slice_start: 0, records: 0, checksum, line }
    }

    fn feed(&mut self, mut block: &[u8], out: &mut Vec<LinesPart>) {
        if self.line.start + self.line.length == 0
            && let Some(rest) = block.strip_prefix(BYTE_ORDER_MARK)
        {
            block = rest;
            self.start_slice(BYTE_ORDER_MARK.len() as u64);
        }
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', block) {
            self.piece(&block[start..=end], out);
            self.end_line(out);
            start = end + 1;
        }
        self.piece(&block[start..], out);
    }

    /// The file ends here, and with it the last line; unless the file `is_cut`.
    fn finish(&mut self, is_cut: bool, out: &mut Vec<LinesPart>) {
        if !is_cut {
            self.end_line(out);
        }
        self.end_slice(self.line.start, out);
    }

    /// More of the current line, perhaps with its end.
    fn piece(&mut self, bytes: &[u8], out: &mut Vec<LinesPart>) {
        let line = &mut self.line;
        line.length += bytes.len() as u64;
        line.is_blank = line.is_blank && is_blank(bytes);
        if line.length <= self.limits.longest {
            line.checksum.update(bytes);
        } else if !line.is_too_long {
            let Line { start, length, .. } = *line;
            self.end_slice(start, out);
            self.start_slice(start);
            (self.line.length, self.line.is_too_long) = (length, true);
            if self.limits.to_skip == 0 {
                self.limits.most = self.limits.most.saturating_sub(1);
                out.push(LinesPart::TooLong { start });
            }
        }
    }

    /// The current line ends after what was fed of it.
    fn end_line(&mut self, out: &mut Vec<LinesPart>) {
        let Line { start, length, is_blank, is_too_long, checksum } = self.line;
        let end = start + length;
        if self.limits.to_skip > 0 && (is_too_long || !is_blank) {
            self.limits.to_skip -= 1;
            self.start_slice(end);
            return;
        }
        if is_too_long {
            self.start_slice(end);
            return;
        }
        self.records += u64::from(!is_blank);
        self.checksum = checksum;
        self.line = Line { start: end, length: 0, is_blank: true, is_too_long, checksum };
        if !is_blank && (end - self.slice_start >= self.limits.target || self.records >= self.limits.most) {
            self.end_slice(end, out);
            self.start_slice(end);
        }
    }

    /// The current slice ends at `end`, after its whole lines. Blank lines alone are none.
    fn end_slice(&mut self, end: u64, out: &mut Vec<LinesPart>) {
        let Self { slice_start: start, records, .. } = *self;
        if records > 0 {
            self.limits.most = self.limits.most.saturating_sub(records);
            let checksum = self.checksum.finalize() as u32;
            out.push(LinesPart::Slice(Slice { start, end, records, checksum }));
        }
    }

    /// The next slice, and its first line, start at `start`.
    fn start_slice(&mut self, start: u64) {
        *self = Self::new(self.limits);
        self.slice_start = start;
        self.line.start = start;
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Start, end and records of a slice; or the start of a line that is too long, and zeros.
    type Bounds = (u64, u64, u64);

    fn parts(text: &[u8], target: u64, longest: u64, block: usize, is_cut: bool) -> Vec<Bounds> {
        let mut found = Vec::new();
        let splitter = Splitter::new(Limits { target, longest, to_skip: 0, most: u64::MAX });
        split(text, splitter, block, is_cut, |part| {
            found.push(match part {
                LinesPart::Slice(Slice { start, end, records, checksum }) => {
                    let bytes = &text[start as usize..end as usize];
                    assert_eq!(checksum, crc_fast::crc32_iscsi(bytes), "{start}-{end} of {text:?}");
                    (start, end, records)
                }
                LinesPart::TooLong { start } => (start, 0, 0),
            });
            ControlFlow::Continue(())
        })
        .unwrap();
        found
    }

    #[test]
    fn slices_end_at_line_ends_and_blank_lines_are_no_records() {
        let table: [(&str, u64, &[Bounds]); 12] = [
            ("", 4, &[]),
            ("\n \r\n\t\n", 1, &[]),
            ("{}", 4, &[(0, 2, 1)]),
            ("{}\n{}\n", 1, &[(0, 3, 1), (3, 6, 1)]),
            ("{}\n{}\n", 3, &[(0, 3, 1), (3, 6, 1)]),
            ("{}\n{}\n", 4, &[(0, 6, 2)]),
            ("{}\r\n{}\r\n", 4, &[(0, 4, 1), (4, 8, 1)]),
            ("{}\r{}\n", 1, &[(0, 6, 1)]),
            ("\n\n{}\n\n\n{}\n\n", 3, &[(0, 5, 1), (5, 10, 1)]),
            ("\u{feff}{}\n{}", 1, &[(3, 6, 1), (6, 8, 1)]),
            ("\u{feff}\n", 1, &[]),
            ("{}\n{}\n{}", 4, &[(0, 6, 2), (6, 8, 1)]),
        ];
        for (text, target, expected) in table {
            assert_eq!(parts(text.as_bytes(), target, 100, 1 << 10, false), expected, "{text:?} {target}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_costs_nothing_else() {
        let text = b"{}\n{}\n{123456789}\n{}\n\n{}";
        let expected = [(0, 6, 2), (6, 0, 0), (18, 24, 2)];
        assert_eq!(parts(text, 100, 8, 1 << 10, false), expected);
        assert_eq!(parts(b"{}\n{123456789}", 100, 8, 1 << 10, false), [(0, 3, 1), (3, 0, 0)]);
    }

    #[test]
    fn what_is_left_of_a_cut_line_is_in_no_slice() {
        assert_eq!(parts(b"{}\n{}\n{\"a\": 1", 100, 80, 1 << 10, true), [(0, 6, 2)]);
        assert_eq!(parts(b"{\"a\": 1", 100, 80, 1 << 10, true), []);
        assert_eq!(parts(b"{123456789", 100, 8, 1 << 10, true), [(0, 0, 0)]);
    }

    proptest! {
        #[test]
        fn blocks_may_be_cut_anywhere(
            text in "(\u{feff})?([ {}\r\n]|\\{\"a\":1\\}\n|\n\n){0,60}",
            target in 0u64..50,
            longest in 6u64..40,
            block in 3usize..40,
            is_cut: bool,
        ) {
            let text = text.as_bytes();
            let expected = parts(text, target, longest, 1 << 10, is_cut);
            prop_assert_eq!(&parts(text, target, longest, block, is_cut), &expected);
            let slices: Vec<_> = expected.iter().filter(|(_, end, _)| *end > 0).collect();
            prop_assert!(slices.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }

        #[test]
        fn slices_within_bounds_have_the_lines_between_them(
            lines in proptest::collection::vec("\\{\\}|\\{\"a\":1\\}|| \r", 0..40),
            target in 1u64..40,
            block in 3usize..40,
            skip in 0u64..30,
            most in 1u64..30,
        ) {
            let text = lines.join("\n");
            let limits = Limits { target, longest: 100, to_skip: skip, most };
            let (mut found, mut left) = (String::new(), most);
            let to_skip = split(text.as_bytes(), Splitter::new(limits), block, false, |part| {
                let LinesPart::Slice(slice) = part else { panic!("{part:?}") };
                let bytes = &text[slice.start as usize..slice.end as usize];
                assert_eq!(slice.checksum, crc_fast::crc32_iscsi(bytes.as_bytes()));
                found.push_str(bytes);
                left -= slice.records;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
            let records: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
            prop_assert_eq!(to_skip, skip.saturating_sub(records.len() as u64));
            let expected: Vec<&str> = records.into_iter().skip(skip as usize).take(most as usize).collect();
            prop_assert_eq!(found.split_whitespace().collect::<Vec<_>>(), expected);
        }
    }
}
