//! Finds delimiters and line ends outside quotes, 64 bytes at a time.
//!
//! Every byte is compared with the four special characters at once, which gives bit sets; a running
//! exclusive-or over the quotes' bits then says which bytes are inside quotes. That shortcut is exact as
//! long as every quote that opens stands at the start of a field or directly after one that closed (a
//! doubled quote). A chunk where that does not hold (`ab"c`) is walked byte by byte with pandas' state
//! machine, from and to the same state, so the answer never depends on the path taken.

use wide::u8x16;

/// How many bytes one step looks at.
pub(crate) const CHUNK: usize = 64;

/// Where the special characters outside quotes are in a chunk: bit `i` stands for byte `i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) delimiters: u64,
    pub(crate) line_feeds: u64,
    pub(crate) carriage_returns: u64,
}

/// What the scan knows of the bytes before the next chunk. At most one of the first three is set;
/// none means in the middle of an unquoted field.
#[derive(Debug, Clone)]
pub(crate) struct Scanner {
    delimiter: u8,
    in_quotes: bool,
    at_field_start: bool,
    after_closing: bool,
    /// Offset of the quote that opened the last quoted field.
    opened_at: u64,
    /// Whether a quote stood where none opens a field; a hint that the start was not a field's start.
    stray_quotes: bool,
}

impl Scanner {
    /// A scanner whose first byte is the start of a record.
    pub(crate) fn new(delimiter: u8) -> Self {
        Self {
            delimiter,
            in_quotes: false,
            at_field_start: true,
            after_closing: false,
            opened_at: 0,
            stray_quotes: false,
        }
    }

    /// Offset of the opening quote when the scan stands inside quotes.
    pub(crate) fn open_quote(&self) -> Option<u64> {
        self.in_quotes.then_some(self.opened_at)
    }

    pub(crate) fn saw_stray_quotes(&self) -> bool {
        self.stray_quotes
    }

    /// Scans the first `valid` bytes of `bytes`, of which the first lies at `offset`. A chunk that is not
    /// full must be the last one.
    #[expect(clippy::inline_always, reason = "it is compiled for its caller's processor")]
    #[inline(always)]
    pub(crate) fn scan(&mut self, bytes: &[u8; CHUNK], valid: usize, offset: u64) -> Marks {
        let valid_bits = if valid < CHUNK { (1 << valid) - 1 } else { u64::MAX };
        let wanted = [b'"', self.delimiter, b'\n', b'\r'];
        let [quotes, delimiters, line_feeds, carriage_returns] =
            positions(bytes, wanted).map(|set| set & valid_bits);
        let mut marks = Marks { delimiters, line_feeds, carriage_returns };
        if quotes == 0 {
            if self.in_quotes {
                return Marks::default();
            }
            self.after_closing = false;
            self.at_field_start = marks.any() >> 63 != 0;
            return marks;
        }
        let inside = running_xor(quotes) ^ if self.in_quotes { u64::MAX } else { 0 };
        let opening = quotes & inside;
        let closing = quotes & !inside;
        marks.keep(!inside);
        let after_closing = (closing << 1) | u64::from(self.after_closing);
        let field_starts = (marks.any() << 1) | u64::from(self.at_field_start);
        if opening & !(field_starts | after_closing) != 0 {
            return self.walk(&bytes[..valid], offset);
        }
        self.in_quotes = inside >> 63 != 0;
        self.at_field_start = marks.any() >> 63 != 0;
        self.after_closing = closing >> 63 != 0;
        let field_opening = opening & !after_closing;
        if field_opening != 0 {
            self.opened_at = offset + u64::from(field_opening.ilog2());
        }
        marks
    }

    /// The same byte by byte.
    #[cold]
    fn walk(&mut self, bytes: &[u8], offset: u64) -> Marks {
        let mut marks = Marks::default();
        for (index, &byte) in bytes.iter().enumerate() {
            if self.in_quotes {
                // A closing quote may turn out to be the first half of a doubled one.
                self.after_closing = byte == b'"';
                self.in_quotes = !self.after_closing;
                continue;
            }
            let bit = 1 << index;
            let doubled = std::mem::take(&mut self.after_closing);
            let first = std::mem::take(&mut self.at_field_start);
            match byte {
                b'"' if first || doubled => {
                    self.in_quotes = true;
                    if first {
                        self.opened_at = offset + index as u64;
                    }
                }
                b'"' => self.stray_quotes = true,
                b'\n' => marks.line_feeds |= bit,
                b'\r' => marks.carriage_returns |= bit,
                _ if byte == self.delimiter => marks.delimiters |= bit,
                _ => {}
            }
            self.at_field_start = marks.any() & bit != 0;
        }
        marks
    }
}

impl Marks {
    #[inline]
    pub(crate) fn any(&self) -> u64 {
        self.delimiters | self.line_feeds | self.carriage_returns
    }

    #[inline]
    pub(crate) fn line_ends(&self) -> u64 {
        self.line_feeds | self.carriage_returns
    }

    #[inline]
    fn keep(&mut self, mask: u64) {
        self.delimiters &= mask;
        self.line_feeds &= mask;
        self.carriage_returns &= mask;
    }
}

/// The marks of each chunk of `bytes`, which start at the start of a record, with the chunk's own place.
pub(crate) fn marks_of(bytes: &[u8], delimiter: u8) -> impl Iterator<Item = (usize, Marks)> {
    let mut scanner = Scanner::new(delimiter);
    bytes.chunks(CHUNK).enumerate().map(move |(index, part)| {
        let mut chunk = [0; CHUNK];
        chunk[..part.len()].copy_from_slice(part);
        (index * CHUNK, scanner.scan(&chunk, part.len(), 0))
    })
}

/// The places of the bits of a set, from the first on.
pub(crate) fn places(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        place
    })
}

/// For each wanted byte, the set of its positions in the chunk.
#[inline]
pub(crate) fn positions<const N: usize>(bytes: &[u8; CHUNK], wanted: [u8; N]) -> [u64; N] {
    let mut sets = [0; N];
    let (lanes, _) = bytes.as_chunks::<16>();
    for (lane, part) in lanes.iter().enumerate() {
        let part = u8x16::new(*part);
        for (set, byte) in sets.iter_mut().zip(wanted) {
            *set |= u64::from(part.simd_eq(u8x16::splat(byte)).to_bitmask() as u16) << (16 * lane);
        }
    }
    sets
}

/// Bit `i` of the result is the exclusive-or of bits `0..=i`.
#[inline]
fn running_xor(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ (bits << 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Scans a text both ways and returns the marks of each.
    fn both_ways(text: &[u8]) -> [(Vec<Marks>, Option<u64>); 2] {
        let mut fast = Scanner::new(b',');
        let mut slow = Scanner::new(b',');
        let (mut by_fast, mut by_slow) = (vec![], vec![]);
        for (index, part) in text.chunks(CHUNK).enumerate() {
            let mut chunk = [b'"'; CHUNK];
            chunk[..part.len()].copy_from_slice(part);
            let offset = (index * CHUNK) as u64;
            by_fast.push(fast.scan(&chunk, part.len(), offset));
            by_slow.push(slow.walk(part, offset));
        }
        [(by_fast, fast.open_quote()), (by_slow, slow.open_quote())]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_shortcut_agrees_with_the_state_machine(text in "([ab,\"\r\n]|\"\"|,\"|\",){0,200}") {
            let [fast, slow] = both_ways(text.as_bytes());
            prop_assert_eq!(fast, slow);
        }
    }

    #[test]
    fn quotes_open_only_at_the_start_of_a_field() {
        let cases: [(&str, &[usize]); 6] = [
            ("a,\"b,c\",d", &[1, 7]),
            ("a\"b,c\",d", &[3, 6]),
            ("\"a\"\"b,\",c", &[7]),
            ("\"a\"b\"c,d\",e", &[6, 9]),
            (" \"a,b\"", &[3]),
            ("\"\",\"\"\"\",x", &[2, 7]),
        ];
        for (text, expected) in cases {
            let [(marks, _), _] = both_ways(text.as_bytes());
            let found: Vec<usize> = (0..64).filter(|bit| marks[0].delimiters >> bit & 1 == 1).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
