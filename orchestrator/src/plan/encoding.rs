//! Text of another encoding as UTF-8, while it is read (dialects B.2, `encoding`).
//!
//! All that is read later, slices and records, is UTF-8. What is no text in the encoding ends it with the place and the
//! reason, as damage in a compressed file does.

use std::io::{self, Read};

use prs_common::dataset::mltable::Encoding;

/// How much is read at a time, bytes.
const BLOCK: usize = 64 << 10;

/// The characters that code page 1252 has for the bytes 0x80 to 0x9f; those it leaves open are control characters, as in
/// ISO 8859-1.
const WINDOWS_1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}',
    '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}',
    '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}',
    '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// What is wrong with a text that could be read: no damage of what it came in.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct BadText(String);

impl BadText {
    /// An error of a reader.
    pub(super) fn error(message: impl Into<String>) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, Self(message.into()))
    }

    /// Whether `error` is such a one.
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().and_then(|cause| cause.downcast_ref::<Self>()).is_some()
    }
}

/// UTF-8 of what `inner` has.
pub(super) struct Utf8Reader<R> {
    inner: R,
    encoding: Encoding,
    /// Bytes that were read and not taken; less than a character, but while they are looked at.
    raw: Vec<u8>,
    /// Where in the text they begin, bytes.
    offset: u64,
    text: String,
    given: usize,
    is_over: bool,
    /// What ends the text, told behind all that is before it.
    failed: Option<io::Error>,
    /// Where the text begins there is a mark, or none.
    began: bool,
    is_big_endian: bool,
}

impl<R: Read> Utf8Reader<R> {
    pub(super) fn new(inner: R, encoding: Encoding) -> Self {
        Self {
            inner,
            encoding,
            raw: Vec::new(),
            offset: 0,
            text: String::new(),
            given: 0,
            is_over: false,
            failed: None,
            began: false,
            is_big_endian: false,
        }
    }

    /// Reads on until there is text, or none is left.
    fn fill(&mut self) -> io::Result<()> {
        (self.given, self.text) = (0, String::new());
        while self.text.is_empty() && !self.is_over {
            let read = Read::by_ref(&mut self.inner).take(BLOCK as u64).read_to_end(&mut self.raw);
            self.is_over = !matches!(read, Ok(BLOCK));
            let decoded = self.decode();
            self.failed = read.and(decoded).err();
            self.is_over |= self.failed.is_some();
        }
        match self.failed.take_if(|_| self.text.is_empty()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Takes as many characters as are there.
    fn decode(&mut self) -> io::Result<()> {
        let width = match self.encoding {
            Encoding::Utf16 => 2,
            Encoding::Utf32 => 4,
            _ => 1,
        };
        if !std::mem::replace(&mut self.began, true) && width > 1 {
            let little: &[u8] = if width == 2 { &[0xff, 0xfe] } else { &[0xff, 0xfe, 0, 0] };
            let big: &[u8] = if width == 2 { &[0xfe, 0xff] } else { &[0, 0, 0xfe, 0xff] };
            self.is_big_endian = self.raw.starts_with(big);
            if self.raw.starts_with(little) || self.is_big_endian {
                self.raw.drain(..width);
                self.offset += width as u64;
            }
        }
        let mut taken = 0;
        while let Some(unit) = self.raw.get(taken..taken + width) {
            let number = self.number(unit);
            let mut length = width;
            let character = match self.encoding {
                Encoding::Windows1252 if (0x80..0xa0).contains(&number) => {
                    Some(WINDOWS_1252[number as usize - 0x80])
                }
                Encoding::Utf16 if (0xd800..0xdc00).contains(&number) => {
                    let Some(second) = self.raw.get(taken + 2..taken + 4) else { break };
                    length = 4;
                    let pair = [number as u16, self.number(second) as u16];
                    char::decode_utf16(pair).next().and_then(Result::ok)
                }
                _ => char::from_u32(number),
            };
            let Some(character) = character else { return Err(self.refuse(taken)) };
            self.text.push(character);
            taken += length;
        }
        if self.is_over && taken < self.raw.len() {
            return Err(self.refuse(taken));
        }
        self.raw.drain(..taken);
        self.offset += taken as u64;
        Ok(())
    }

    fn number(&self, unit: &[u8]) -> u32 {
        let add = |number: u32, byte: &u8| number << 8 | u32::from(*byte);
        if self.is_big_endian { unit.iter().fold(0, add) } else { unit.iter().rev().fold(0, add) }
    }

    /// What is wrong behind `taken` bytes. What is before that was text.
    fn refuse(&self, taken: usize) -> io::Error {
        let name = if self.encoding == Encoding::Utf16 { "UTF-16" } else { "UTF-32" };
        let offset = self.offset + taken as u64;
        BadText::error(format!("bad {name} at byte {offset} of the text"))
    }
}

impl<R: Read> Read for Utf8Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text.len() {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.fill()?;
        }
        let count = buffer.len().min(self.text.len() - self.given);
        buffer[..count].copy_from_slice(&self.text.as_bytes()[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], encoding: Encoding) -> io::Result<String> {
        let mut text = String::new();
        Utf8Reader::new(bytes, encoding).read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn each_encoding_becomes_utf8() {
        let text = "a,\u{e4}\u{1f600}\n".repeat(40_000);
        let units: Vec<u16> = text.encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        let long: Vec<u8> = text.chars().flat_map(|one| (one as u32).to_le_bytes()).collect();
        let long_big: Vec<u8> = text.chars().flat_map(|one| (one as u32).to_be_bytes()).collect();
        for (bytes, encoding) in [
            (little.clone(), Encoding::Utf16),
            ([&[0xff, 0xfe], &*little].concat(), Encoding::Utf16),
            ([&[0xfe, 0xff], &*big].concat(), Encoding::Utf16),
            (long.clone(), Encoding::Utf32),
            ([&[0xff, 0xfe, 0, 0], &*long].concat(), Encoding::Utf32),
            ([&[0, 0, 0xfe, 0xff], &*long_big].concat(), Encoding::Utf32),
        ] {
            assert!(read(&bytes, encoding).unwrap() == text, "{encoding:?}");
        }
        let all: Vec<u8> = (0..=255).collect();
        let latin: String = (0..=255_u8).map(char::from).collect();
        assert_eq!(read(&all, Encoding::Latin1).unwrap(), latin);
        let windows = read(&all, Encoding::Windows1252).unwrap();
        assert!(windows.contains('\u{20ac}') && windows.contains('\u{178}') && windows.ends_with('\u{ff}'));
        assert_eq!(windows.chars().count(), 256);
    }

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        for (bytes, encoding, place) in [
            (&[b'a', 0, 0, 0xdc][..], Encoding::Utf16, "bad UTF-16 at byte 2"),
            (&[b'a', 0, 0, 0xd8, b'b', 0], Encoding::Utf16, "bad UTF-16 at byte 2"),
            (&[b'a', 0, 0, 0xd8], Encoding::Utf16, "bad UTF-16 at byte 2"),
            (&[0xff, 0xfe, b'a', 0, b'b'], Encoding::Utf16, "bad UTF-16 at byte 4"),
            (&[0, 0, 0x11, 0], Encoding::Utf32, "bad UTF-32 at byte 0"),
        ] {
            let mut text = String::new();
            let error = Utf8Reader::new(bytes, encoding).read_to_string(&mut text).unwrap_err();
            assert!(error.to_string().starts_with(place), "{error}");
        }
    }
}
