//! A file that is one JSON array as JSON lines, an element a line, while it is read.
//!
//! Nothing of an element changes but white space between its parts, so numbers and the order of keys stay as they were
//! written. The process that reads a line looks at what is inside it.

use std::io::{self, Read};

use super::encoding::BadText;

/// How much is read at a time, bytes.
const BLOCK: usize = 64 << 10;
/// The largest array that is read, bytes of its text: programs that write more write lines.
const LARGEST: u64 = 256 << 20;

/// The elements of the array in `inner`.
pub(super) struct ArrayLines<R> {
    inner: R,
    raw: Vec<u8>,
    /// Bytes of the text that were looked at.
    offset: u64,
    lines: Vec<u8>,
    given: usize,
    /// Arrays and objects that are open.
    depth: u64,
    in_text: bool,
    is_escaped: bool,
    awaits: Awaits,
    is_over: bool,
    /// What ends the array, told behind all that is before it.
    failed: Option<io::Error>,
}

/// What comes next outside of texts, beside white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaits {
    /// The `[` of the array.
    Array,
    /// An element, or the end of an array without any.
    ElementOrEnd,
    /// An element.
    Element,
    /// The rest of an element, or what follows it.
    More,
    /// The end of the file.
    End,
}

impl<R: Read> ArrayLines<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            raw: vec![0; BLOCK],
            offset: 0,
            lines: Vec::new(),
            given: 0,
            depth: 0,
            in_text: false,
            is_escaped: false,
            awaits: Awaits::Array,
            is_over: false,
            failed: None,
        }
    }

    /// Reads on until there is something to give, or nothing is left.
    fn fill(&mut self) -> io::Result<()> {
        self.given = 0;
        self.lines.clear();
        while self.lines.is_empty() && !self.is_over {
            let count = self.inner.read(&mut self.raw)?;
            let raw = std::mem::take(&mut self.raw);
            let taken = if count == 0 {
                self.end()
            } else {
                raw[..count].iter().try_for_each(|byte| self.take(*byte))
            };
            self.raw = raw;
            self.failed = taken.err();
            self.is_over = count == 0 || self.failed.is_some();
        }
        match self.failed.take_if(|_| self.lines.is_empty()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn take(&mut self, byte: u8) -> io::Result<()> {
        self.offset += 1;
        if self.offset > LARGEST {
            return Err(BadText::error(
                "the array has more than 256 MiB: write an object a line, or several files",
            ));
        }
        if self.in_text {
            return self.take_of_text(byte);
        }
        match (self.awaits, byte) {
            (Awaits::More, b' ' | b'\t' | b'\r' | b'\n') => self.lines.push(b' '),
            (_, b' ' | b'\t' | b'\r' | b'\n') | (Awaits::Array, 0xef | 0xbb | 0xbf) => {}
            (Awaits::Array, b'[') => (self.depth, self.awaits) = (1, Awaits::ElementOrEnd),
            (Awaits::ElementOrEnd, b']') => self.awaits = Awaits::End,
            (Awaits::More, b',' | b']') if self.depth == 1 => {
                self.lines.push(b'\n');
                self.awaits = if byte == b',' { Awaits::Element } else { Awaits::End };
            }
            (Awaits::More, b'}') if self.depth == 1 => return Err(self.misplaced()),
            (Awaits::ElementOrEnd | Awaits::Element, b',' | b']' | b'}')
            | (Awaits::Array | Awaits::End, _) => {
                return Err(self.misplaced());
            }
            (Awaits::ElementOrEnd | Awaits::Element | Awaits::More, _) => {
                self.awaits = Awaits::More;
                self.lines.push(byte);
                match byte {
                    b'"' => self.in_text = true,
                    b'[' | b'{' => self.depth += 1,
                    b']' | b'}' => self.depth -= 1,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn take_of_text(&mut self, byte: u8) -> io::Result<()> {
        if matches!(byte, b'\n' | b'\r') {
            return Err(BadText::error(format!(
                "bad JSON: a text has a line end at byte {}",
                self.offset - 1
            )));
        }
        self.lines.push(byte);
        if self.is_escaped {
            self.is_escaped = false;
        } else {
            self.is_escaped = byte == b'\\';
            self.in_text = byte != b'"';
        }
        Ok(())
    }

    fn misplaced(&self) -> io::Error {
        let what = if self.awaits == Awaits::End { "more follows the array" } else { "it is no array" };
        BadText::error(format!("bad JSON: {what} at byte {}", self.offset - 1))
    }

    fn end(&self) -> io::Result<()> {
        match self.awaits {
            Awaits::End => Ok(()),
            _ => Err(BadText::error("bad JSON: the array has no end")),
        }
    }
}

impl<R: Read> Read for ArrayLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.lines.len() {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.fill()?;
        }
        let count = buffer.len().min(self.lines.len() - self.given);
        buffer[..count].copy_from_slice(&self.lines[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> (String, Option<String>) {
        let mut lines = Vec::new();
        let error = ArrayLines::new(text.as_bytes()).read_to_end(&mut lines).err();
        (String::from_utf8(lines).unwrap(), error.map(|error| error.to_string()))
    }

    #[test]
    fn an_element_is_a_line_and_stays_as_it_was_written() {
        for (array, expected) in [
            ("[]", ""),
            (" [ ] \n", ""),
            ("\u{feff}[1]", "1\n"),
            (
                "[\n {\"a\": 1.10,\n  \"b\": [1, {\"c\": \"],}\\\"\\\\\"}]},\r\n {}\n]\n",
                "{\"a\": 1.10,   \"b\": [1, {\"c\": \"],}\\\"\\\\\"}]}\n{} \n",
            ),
            ("[1e400,null,\"\\u00e4\u{e4}\"]", "1e400\nnull\n\"\\u00e4\u{e4}\"\n"),
        ] {
            assert_eq!(lines(array), (expected.to_owned(), None), "{array}");
        }
        let long = format!("[{}]", vec!["{\"a\":1}"; 50_000].join(",\n"));
        let (all, error) = lines(&long);
        assert!(error.is_none() && all == "{\"a\":1}\n".repeat(50_000));
    }

    #[test]
    fn what_is_no_array_is_told_behind_what_is_before_it() {
        for (array, before, says) in [
            ("[1,]", "1\n", "it is no array at byte 3"),
            ("[,1]", "", "it is no array at byte 1"),
            ("[1}", "1", "it is no array at byte 2"),
            ("[1][2]", "1\n", "more follows the array at byte 3"),
            ("[{\"a\":1},{\"a\":", "{\"a\":1}\n{\"a\":", "the array has no end"),
            ("[\"a\nb\"]", "\"a", "a text has a line end at byte 3"),
            ("", "", "the array has no end"),
        ] {
            let (read, error) = lines(array);
            assert_eq!(read, before, "{array}");
            assert!(error.unwrap().contains(says), "{array}");
        }
    }
}
