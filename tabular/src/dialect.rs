//! How a delimited text is written down: its delimiter, and whether its first record names the columns.
//!
//! Quoting is not part of it: fields are always quoted with `"`, and a quote inside is doubled.

use serde::{Deserialize, Serialize};

/// The delimiter and the header of a delimited text; always valid, however it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Dialect {
    delimiter: u8,
    has_header: bool,
}

/// Whether a byte can be told from the text as a delimiter.
pub(crate) fn can_delimit(byte: u8) -> bool {
    byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r' | 0)
}

/// The delimiter cannot be told from the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("delimiter {0:?} is not possible: one ASCII character is needed, not a quote and not a line end")]
pub struct DialectError(pub char);

impl Dialect {
    /// A dialect with the given delimiter: any ASCII character but `"`, NUL, `\n` and `\r`.
    pub fn new(delimiter: u8, has_header: bool) -> Result<Self, DialectError> {
        if can_delimit(delimiter) {
            Ok(Self { delimiter, has_header })
        } else {
            Err(DialectError(char::from(delimiter)))
        }
    }

    /// The byte between two fields.
    pub fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// Whether the first record that is not blank gives the names of the columns.
    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// Whether `bytes`, a line or a part of one, is nothing but blanks. Such lines are no records.
    pub(crate) fn is_blank(self, bytes: &[u8]) -> bool {
        // From the end: the last byte of nearly every line already decides.
        bytes.iter().rev().all(|&byte| matches!(byte, b' ' | b'\t') && byte != self.delimiter)
    }
}

impl Default for Dialect {
    /// Comma-separated with a header.
    fn default() -> Self {
        Self { delimiter: b',', has_header: true }
    }
}

#[derive(Deserialize)]
struct Unchecked {
    delimiter: u8,
    has_header: bool,
}

impl TryFrom<Unchecked> for Dialect {
    type Error = DialectError;

    fn try_from(raw: Unchecked) -> Result<Self, DialectError> {
        Self::new(raw.delimiter, raw.has_header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_that_cannot_be_told_from_the_text_are_refused() {
        for byte in [b'"', b'\n', b'\r', 0, 0x80, 0xff] {
            assert!(Dialect::new(byte, true).is_err(), "{byte:#x}");
            let json = format!(r#"{{"delimiter":{byte},"has_header":true}}"#);
            assert!(serde_json::from_str::<Dialect>(&json).is_err(), "{json}");
        }
        for byte in [b',', b'\t', b' ', b';', b'|', 1] {
            let dialect = Dialect::new(byte, false).unwrap();
            let json = serde_json::to_string(&dialect).unwrap();
            assert_eq!(serde_json::from_str::<Dialect>(&json).unwrap(), dialect);
        }
    }

    #[test]
    fn a_delimiter_is_never_blank() {
        assert!(Dialect::default().is_blank(b" \t"));
        assert!(Dialect::default().is_blank(b""));
        assert!(!Dialect::default().is_blank(b"\""));
        assert!(!Dialect::new(b'\t', true).unwrap().is_blank(b" \t"));
    }
}
