//! Finds the values in lines of JSON objects: where each stands, and of which kind it is.
//!
//! What is found is what `json.loads` of Python finds. Where that is not certain - an error, half of a surrogate pair -
//! nothing is found at all, and Python decides.

use std::ops::Range;

use super::infer::Name;

/// Of which kind a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    /// A whole number that fits in 64 bits.
    Int,
    /// Any other number with a point or an exponent; `NaN` and `Infinity`, which Python's JSON has too.
    Float,
    /// Text without escapes.
    Text,
    /// Text with escapes.
    EscapedText,
    /// An object, a list, or a whole number of more than 64 bits.
    Other,
}

/// The objects of a text, name by name.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The text of one line, without its end.
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { bytes: line, at: 0 }
    }

    /// Hands over the names and values of the line's object, where they stand in the line; `None` where Python has to
    /// look, or `on_value` says so.
    pub(super) fn object(
        &mut self,
        mut on_value: impl FnMut(Name<'a>, Range<usize>, Kind) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.next()? == b'}' {
            self.at += 1;
            return self.end();
        }
        loop {
            let (name, is_escaped) = self.string()?;
            let name = Name { quoted: &self.bytes[name], is_escaped };
            self.expect(b':')?;
            let (place, kind) = self.value()?;
            on_value(name, place, kind)?;
            let next = self.next()?;
            self.at += 1;
            match next {
                b',' => _ = self.next()?,
                b'}' => return self.end(),
                _ => return None,
            }
        }
    }

    /// Passes over blanks; the byte behind them.
    fn next(&mut self) -> Option<u8> {
        while let b' ' | b'\t' | b'\r' = *self.bytes.get(self.at)? {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// Passes over blanks and `byte`.
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then(|| self.at += 1)
    }

    /// Nothing but blanks is left.
    fn end(&mut self) -> Option<()> {
        self.next().is_none().then_some(())
    }

    /// Where the text between two quotes is, and whether it has escapes.
    fn string(&mut self) -> Option<(Range<usize>, bool)> {
        if *self.bytes.get(self.at)? != b'"' {
            return None;
        }
        let start = self.at + 1;
        let mut end = start;
        let mut is_escaped = false;
        loop {
            match *self.bytes.get(end)? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    end += 2;
                }
                0..0x20 => return None,
                _ => end += 1,
            }
        }
        self.at = end + 1;
        Some((start..end, is_escaped))
    }

    fn value(&mut self) -> Option<(Range<usize>, Kind)> {
        let first = self.next()?;
        let start = self.at;
        let kind = match first {
            b'"' => {
                let (place, is_escaped) = self.string()?;
                if is_escaped && unescape(&self.bytes[place.clone()], &mut String::new()).is_none() {
                    return None;
                }
                return Some((place, if is_escaped { Kind::EscapedText } else { Kind::Text }));
            }
            b'{' | b'[' => {
                self.nested()?;
                Kind::Other
            }
            b'-' | b'0'..=b'9' => self.number()?,
            _ => {
                let words = [
                    ("null", Kind::Null),
                    ("true", Kind::Bool),
                    ("false", Kind::Bool),
                    ("NaN", Kind::Float),
                    ("Infinity", Kind::Float),
                ];
                let is_next = |(word, _): &&(&str, Kind)| self.bytes[start..].starts_with(word.as_bytes());
                let (word, kind) = words.iter().find(is_next)?;
                self.at += word.len();
                *kind
            }
        };
        Some((start..self.at, kind))
    }

    /// Passes over an object or a list; whether all is right inside shows when Python reads it.
    fn nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn number(&mut self) -> Option<Kind> {
        let start = self.at;
        self.at += usize::from(self.bytes[start] == b'-');
        if self.bytes[self.at..].starts_with(b"Infinity") {
            self.at += b"Infinity".len();
            return Some(Kind::Float);
        }
        let digits = self.digits()?;
        if self.bytes[digits.start] == b'0' && digits.len() > 1 {
            return None;
        }
        let mut kind = Kind::Int;
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
            kind = Kind::Float;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
            kind = Kind::Float;
        }
        let is_big = kind == Kind::Int && digits.len() > 18 && int(&self.bytes[start..self.at]).is_none();
        Some(if is_big { Kind::Other } else { kind })
    }

    /// Passes over one digit or more.
    fn digits(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        (self.at > start).then_some(start..self.at)
    }
}

/// The whole number in `text`, if it fits.
pub(super) fn int(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// Appends the text that stands with escapes in `quoted`; `None` where it is no text of Unicode.
pub(super) fn unescape(mut quoted: &[u8], text: &mut String) -> Option<()> {
    while let Some(at) = memchr::memchr(b'\\', quoted) {
        text.push_str(str::from_utf8(&quoted[..at]).ok()?);
        let escape = *quoted.get(at + 1)?;
        quoted = &quoted[at + 2..];
        text.push(match escape {
            b'"' | b'\\' | b'/' => char::from(escape),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = code_unit(&mut quoted)?;
                let second = if (0xd800..0xdc00).contains(&first) {
                    quoted = quoted.strip_prefix(b"\\u")?;
                    Some(code_unit(&mut quoted)?)
                } else {
                    None
                };
                char::decode_utf16([first].into_iter().chain(second)).next()?.ok()?
            }
            _ => return None,
        });
    }
    text.push_str(str::from_utf8(quoted).ok()?);
    Some(())
}

/// Takes four hexadecimal digits off the front.
fn code_unit(text: &mut &[u8]) -> Option<u16> {
    let (digits, rest) = text.split_at_checked(4)?;
    *text = rest;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)? as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(line: &str) -> Option<Vec<(&str, &str, Kind)>> {
        let mut found = Vec::new();
        let text = |bytes| str::from_utf8(bytes).unwrap();
        Scanner::new(line.as_bytes())
            .object(|name, place, kind| {
                found.push((text(name.quoted), &line[place], kind));
                (!name.is_escaped).then_some(())
            })
            .map(|()| found)
    }

    #[test]
    fn values_are_found_with_their_kinds() {
        let line = " {\"a\":1, \"b\" : -0.5e+3,\t\"\":\"x\" , \"n\":null,\"t\":true,\"f\":false}\r";
        let expected = [
            ("a", "1", Kind::Int),
            ("b", "-0.5e+3", Kind::Float),
            ("", "x", Kind::Text),
            ("n", "null", Kind::Null),
            ("t", "true", Kind::Bool),
            ("f", "false", Kind::Bool),
        ];
        assert_eq!(scanned(line).unwrap(), expected);
        let line = r#"{"o":{"a":[1,"]}\"{"]},"l":[],"e":"\u00e9\"","i":-Infinity,"m":9223372036854775808,"k":-9223372036854775808}"#;
        let expected = [
            ("o", r#"{"a":[1,"]}\"{"]}"#, Kind::Other),
            ("l", "[]", Kind::Other),
            ("e", r#"\u00e9\""#, Kind::EscapedText),
            ("i", "-Infinity", Kind::Float),
            ("m", "9223372036854775808", Kind::Other),
            ("k", "-9223372036854775808", Kind::Int),
        ];
        assert_eq!(scanned(line).unwrap(), expected);
        assert_eq!(scanned("{ }").unwrap(), []);
    }

    #[test]
    fn what_is_in_doubt_is_left_to_python() {
        for line in [
            "",
            "1",
            "[]",
            "{",
            "{}x",
            "{} {}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":01}",
            "{\"a\":-}",
            "{\"a\":1.}",
            "{\"a\":.5}",
            "{\"a\":1e}",
            "{\"a\":+1}",
            "{\"a\":nul}",
            "{\"a\":truex}",
            "{\"a\":\"x}",
            "{\"a\":\"\u{1}\"}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"\\udc00x\"}",
            "{\"a\":\"\\ud800\\u0041\"}",
            "{\"a\":\"\\u00g0\"}",
            "{\"a\":\"\\u00",
            "{\"\\u0061\":1}",
            "{\"a\":[1",
            "{\"a\":1 \"b\":2}",
            "{\"a\":\"\\",
        ] {
            assert_eq!(scanned(line), None, "{line}");
        }
    }

    #[test]
    fn escapes_are_read() {
        for (quoted, expected) in [
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"a\u0041\u00E9b", "aAéb"),
            (r"\ud83d\ude00\u0000", "😀\0"),
        ] {
            let mut text = String::new();
            unescape(quoted.as_bytes(), &mut text).unwrap();
            assert_eq!(text, expected);
        }
    }
}
