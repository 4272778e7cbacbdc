//! When and how a field is quoted: `csv.QUOTE_MINIMAL` of Python's csv module.

use std::ops::Range;

use crate::scan::{CHUNK, positions};

/// Knows the characters that make quotes necessary.
#[derive(Debug, Clone)]
pub(super) struct Quoting {
    separator: u8,
    carriage_return: bool,
}

impl Quoting {
    pub(super) fn new(separator: u8, carriage_return: bool) -> Self {
        Self { separator, carriage_return }
    }

    #[inline]
    pub(super) fn separator(&self) -> u8 {
        self.separator
    }

    #[inline]
    fn is_special(&self, byte: u8) -> bool {
        byte == self.separator || byte == b'"' || byte == b'\n' || (byte == b'\r' && self.carriage_return)
    }

    /// Whether the separator is among the given characters.
    pub(super) fn separates(&self, characters: &[u8]) -> bool {
        characters.contains(&self.separator)
    }

    /// Appends a text, quoted if it must be.
    pub(super) fn write(&self, text: &[u8], out: &mut Vec<u8>) {
        if text.iter().any(|&byte| self.is_special(byte)) {
            write_quoted(text, out);
        } else {
            out.extend_from_slice(text);
        }
    }

    /// A text, quoted if it must be.
    pub(super) fn quoted(&self, text: &str) -> Vec<u8> {
        let mut quoted = vec![];
        self.write(text.as_bytes(), &mut quoted);
        quoted
    }

    /// Puts quotes around what was appended from `start` on if it must be; it holds no quotes.
    pub(super) fn mend(&self, start: usize, out: &mut Vec<u8>) {
        if out[start..].contains(&self.separator) {
            out.insert(start, b'"');
            out.push(b'"');
        }
    }

    /// Marks the special characters in `bytes`: bit `i % 64` of word `i / 64` stands for byte `i`.
    pub(super) fn mark(&self, bytes: &[u8], marks: &mut Vec<u64>) {
        // Looking for the quote twice is as good as not looking for the carriage return.
        let wanted = [self.separator, b'"', b'\n', if self.carriage_return { b'\r' } else { b'"' }];
        let (chunks, rest) = bytes.as_chunks::<CHUNK>();
        marks.clear();
        marks.extend(
            chunks.iter().map(|chunk| positions(chunk, wanted).into_iter().fold(0, |all, set| all | set)),
        );
        let mut last = 0;
        for (index, &byte) in rest.iter().enumerate() {
            last |= u64::from(self.is_special(byte)) << index;
        }
        // One word more than needed, so that the last byte's end is in reach too.
        marks.extend([last, 0]);
    }
}

/// Whether any bit of `bits` is set.
#[inline]
pub(super) fn any_marked(marks: &[u64], bits: Range<usize>) -> bool {
    let (first, last) = (bits.start / 64, bits.end / 64);
    let from = u64::MAX << (bits.start % 64);
    let to = !(u64::MAX << (bits.end % 64));
    if first == last {
        return marks[first] & from & to != 0;
    }
    marks[first] & from != 0 || marks[last] & to != 0 || marks[first + 1..last].iter().any(|&word| word != 0)
}

/// Appends a text in quotes, its own quotes doubled.
pub(super) fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(quote) = memchr::memchr(b'"', rest) {
        out.extend_from_slice(&rest[..=quote]);
        out.push(b'"');
        rest = &rest[quote + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn marks_are_the_special_characters(text in "[ab\"\r\n ]{0,200}", start in 0usize..200, length in 0usize..150, cr: bool) {
            let quoting = Quoting::new(b' ', cr);
            let mut marks = vec![];
            quoting.mark(text.as_bytes(), &mut marks);
            let start = start.min(text.len());
            let end = text.len().min(start + length);
            let expected = text.as_bytes()[start..end].iter().any(|&byte| quoting.is_special(byte));
            prop_assert_eq!(any_marked(&marks, start..end), expected);
        }
    }
}
