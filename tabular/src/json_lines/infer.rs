//! The columns of a whole file of JSON lines, in the order in which their names come up, and of which kinds their values are.
//!
//! Kinds are those by which pandas decides on the type of a column of Python objects. The type itself is not decided here: a
//! process has pandas give it to an example of each kind, put before the values of a slice.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::scan::{Kind, Scanner, unescape};
use crate::pieces::{Source, look_at_all};
use crate::split::BYTE_ORDER_MARK;

/// How long the names of a file may be together, in bytes, so that memory has a bound, and the descriptor of a mini-batch.
const MOST_OF_NAMES: usize = 1 << 20;

/// The columns of a file of JSON lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinesSchema {
    /// Their names.
    pub names: Vec<String>,
    /// Of each, the kinds of its values, in the order in which they come up.
    pub kinds: Vec<Kinds>,
}

/// Kinds of values, each once, a letter for each.
///
/// The order matters to pandas: a whole number beyond 64 bits behind a null becomes a float, and one before it stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kinds(String);

impl Kinds {
    /// A whole number from 0 on that fits 64 bits with a sign.
    pub(super) const INT: char = 'i';
    /// The same below 0.
    pub(super) const NEGATIVE: char = 'g';
    /// A whole number that needs all 64 bits.
    pub(super) const UINT: char = 'u';
    /// A whole number beyond 64 bits.
    pub(super) const BIG: char = 'B';
    pub(super) const FLOAT: char = 'f';
    pub(super) const NAN: char = 'x';
    pub(super) const BOOL: char = 'b';
    pub(super) const TEXT: char = 's';
    pub(super) const NULL: char = 'n';
    /// An object or a list.
    pub(super) const NESTED: char = 'o';
    /// The record has no value of this name.
    pub(super) const ABSENT: char = 'a';

    fn of(kind: Kind, value: &[u8]) -> char {
        let digits = || value.strip_prefix(b"-").unwrap_or(value);
        match (kind, value.first()) {
            (Kind::Null, _) => Self::NULL,
            (Kind::Bool, _) => Self::BOOL,
            (Kind::Text | Kind::EscapedText, _) => Self::TEXT,
            (Kind::Float, Some(b'N')) => Self::NAN,
            (Kind::Float, _) => Self::FLOAT,
            (Kind::Int, Some(b'-')) if digits() != b"0" => Self::NEGATIVE,
            (Kind::Int, _) => Self::INT,
            (Kind::Other, Some(b'{' | b'[')) => Self::NESTED,
            (Kind::Other, _) => {
                let fits = str::from_utf8(value).is_ok_and(|digits| digits.parse::<u64>().is_ok());
                if fits { Self::UINT } else { Self::BIG }
            }
        }
    }

    /// Whether one of these is among them.
    pub(super) fn have(&self, kinds: &[char]) -> bool {
        self.0.contains(kinds)
    }

    fn add(&mut self, kind: char) {
        if !self.0.contains(kind) {
            self.0.push(kind);
        }
    }

    /// The type that pandas gives to a column of such values; where it depends on their order, or on the pandas, about that.
    pub fn type_name(&self) -> &'static str {
        let only = |kinds: &[char]| !self.0.is_empty() && self.0.chars().all(|kind| kinds.contains(&kind));
        let missing = [Self::ABSENT, Self::NAN, Self::NULL];
        if only(&[Self::INT, Self::NEGATIVE]) {
            "int64"
        } else if only(&[Self::INT, Self::UINT]) {
            "uint64"
        } else if only(&[Self::BOOL]) {
            "bool"
        } else if only(&[&missing[..], &[Self::TEXT]].concat()) && self.have(&[Self::TEXT]) {
            "str"
        } else if only(&[&missing[..], &[Self::INT, Self::NEGATIVE, Self::FLOAT]].concat())
            && self.have(&[Self::INT, Self::NEGATIVE, Self::FLOAT, Self::NAN])
        {
            "float64"
        } else {
            "object"
        }
    }

    /// The letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl LinesSchema {
    /// Looks at all of the file at `path`, or at what of it comes before it `is_stopped`. Nothing where its names are too many to
    /// be known at a time. Lines without an object do not count here; reading their slice fails, or leaves them out.
    pub fn infer_file(path: &Path, is_stopped: &dyn Fn() -> bool) -> io::Result<Option<Self>> {
        Self::infer(File::open(path)?, is_stopped)
    }

    fn infer(mut source: impl Read, is_stopped: &dyn Fn() -> bool) -> io::Result<Option<Self>> {
        let together = Mutex::new(Found::default());
        let lock = || together.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first = Vec::new();
        source.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut first)?;
        if first == BYTE_ORDER_MARK {
            first.clear();
        }
        look_at_all(
            LinesOf(first.as_slice().chain(source)),
            Found::of,
            |found| lock().append(found),
            &|| is_stopped() || lock().is_too_much(),
        )?;
        let found = lock();
        Ok((!found.is_too_much()).then(|| found.schema()))
    }
}

/// The lines that can be read.
struct LinesOf<R>(R);

impl<R: Read> Source for LinesOf<R> {
    fn read_more(&mut self, piece: &mut Vec<u8>, wanted: usize) -> io::Result<()> {
        self.0.by_ref().take(wanted as u64).read_to_end(piece)?;
        Ok(())
    }

    fn last_start(&self, piece: &[u8]) -> usize {
        memchr::memrchr(b'\n', piece).map_or(0, |end| end + 1)
    }
}

/// What the lines of a piece have shown.
#[derive(Default)]
struct Found {
    names: Vec<String>,
    columns: Vec<Column>,
    by_name: HashMap<String, usize>,
    records: u64,
    /// Bytes in all names.
    of_names: usize,
}

#[derive(Default)]
struct Column {
    kinds: Kinds,
    /// How many records have a value.
    values: u64,
    /// The last value of this record.
    last: Option<(u64, char)>,
    /// The letter that came last: nearly always that of the next one too.
    usual: char,
}

impl Found {
    fn of(piece: &[u8]) -> Self {
        let mut found = Self::default();
        let is_text = simdutf8::basic::from_utf8(piece).is_ok();
        let mut start = 0;
        let mut of_record = Vec::new();
        for end in memchr::memchr_iter(b'\n', piece).chain([piece.len()]) {
            let line = &piece[start..end];
            start = end + 1;
            if (is_text || simdutf8::basic::from_utf8(line).is_ok()) && !found.is_too_much() {
                found.line(line, &mut of_record);
            }
        }
        found
    }

    /// Adds what is seen in a line, in the memory of `of_record`.
    fn line(&mut self, line: &[u8], of_record: &mut Vec<usize>) {
        of_record.clear();
        let (record, known, of_names) = (self.records, self.names.len(), self.of_names);
        let mut expected = 0;
        let read = Scanner::new(line).object(|name, place, kind| {
            let kind = Kinds::of(kind, &line[place]);
            let is_expected = !name.is_escaped
                && self.names.get(expected).is_some_and(|expected| expected.as_bytes() == name.quoted);
            let position = if is_expected { expected } else { self.position(&name.text()?) };
            expected = position + 1;
            let column = &mut self.columns[position];
            if column.last.is_none_or(|(of, _)| of != record) {
                of_record.push(position);
            }
            // Of a name that comes twice the last value counts.
            column.last = Some((record, kind));
            Some(())
        });
        if read.is_none() {
            // What only such lines have is no column.
            for name in self.names.drain(known..) {
                self.by_name.remove(&name);
            }
            self.columns.truncate(known);
            self.of_names = of_names;
            for &position in of_record.iter().filter(|position| **position < known) {
                self.columns[position].last = None;
            }
            return;
        }
        self.records += 1;
        for &position in &*of_record {
            let column = &mut self.columns[position];
            column.values += 1;
            if let Some((_, kind)) = column.last
                && kind != column.usual
            {
                column.usual = kind;
                column.kinds.add(kind);
            }
        }
    }

    fn position(&mut self, name: &str) -> usize {
        if let Some(&position) = self.by_name.get(name) {
            return position;
        }
        self.of_names += name.len();
        self.names.push(name.to_owned());
        self.columns.push(Column::default());
        self.by_name.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    /// Adds what the lines behind these have shown.
    fn append(&mut self, later: Self) {
        for (name, later) in later.names.iter().zip(later.columns) {
            let position = self.position(name);
            let column = &mut self.columns[position];
            later.kinds.0.chars().for_each(|kind| column.kinds.add(kind));
            column.values += later.values;
        }
        self.records += later.records;
    }

    fn is_too_much(&self) -> bool {
        self.of_names > MOST_OF_NAMES
    }

    fn schema(&self) -> LinesSchema {
        let mut schema = LinesSchema::default();
        for (name, column) in self.names.iter().zip(&self.columns) {
            let mut kinds = column.kinds.clone();
            if column.values < self.records {
                kinds.add(Kinds::ABSENT);
            }
            schema.names.push(name.clone());
            schema.kinds.push(kinds);
        }
        schema
    }
}

/// A name as it stands in a line.
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    /// Between its quotes.
    pub(super) quoted: &'a [u8],
    pub(super) is_escaped: bool,
}

impl<'a> Name<'a> {
    /// Its text; `None` where it is no text of Unicode.
    fn text(self) -> Option<Cow<'a, str>> {
        if !self.is_escaped {
            return str::from_utf8(self.quoted).ok().map(Cow::Borrowed);
        }
        let mut text = String::new();
        unescape(self.quoted, &mut text)?;
        Some(Cow::Owned(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns as people write them.
    fn shown(text: &str) -> Vec<(String, String)> {
        let LinesSchema { names, kinds } = LinesSchema::infer(text.as_bytes(), &|| false).unwrap().unwrap();
        names.into_iter().zip(kinds.into_iter().map(|kinds| kinds.0)).collect()
    }

    #[test]
    fn columns_are_those_of_all_lines() {
        for (text, expected) in [
            ("", ""),
            ("\n \t\r\n", ""),
            ("{\"a\":1}", "a:i"),
            ("\u{feff}{\"a\":-1}\n", "a:g"),
            ("{\"a\":-0}\n{\"a\":1.5,\"b\":true}\n", "a:if b:ba"),
            ("{\"b\":null}\r\n{\"a\":\"x\",\"b\":[]}\r\n", "b:no a:sa"),
            (
                "{\"a\":9223372036854775808}\n{\"a\":18446744073709551616}\n{\"a\":-9223372036854775809}",
                "a:uB",
            ),
            ("{\"a\":NaN}\n{\"a\":-Infinity}\n{\"a\":{}}", "a:xfo"),
            // A name may be written in other ways, and more than once.
            ("{\"\\u0061\":1}\n{\"a\":\"\\n\"}", "a:is"),
            ("{\"a\":1,\"b\":1,\"a\":null}\n{\"b\":1,\"a\":2}", "a:ni b:i"),
            // Lines that hold no object.
            ("{\"x\":1\n[1]\n{\"a\":1}\n{\"a\":\"\\ud800\"}\n{\"a\":1}x", "a:i"),
            ("{\"a\":1.5,\"a\":\n{\"a\":true}", "a:b"),
            ("{\"z\":1,\"a\":x}\n{\"a\":1}\n{\"z\":null}", "a:ia z:na"),
        ] {
            let found: Vec<_> = shown(text).iter().map(|(name, kinds)| format!("{name}:{kinds}")).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn pieces_come_together_in_their_order() {
        let line = |number: u32| match number {
            150_000 => "{\"id\":null,\"late\":[1]}".to_owned(),
            180_000 => "{\"id\":99999999999999999999}".to_owned(),
            _ => format!("{{\"id\":{number},\"note\":\"some text of a record\"}}"),
        };
        let text = (0..200_000).map(line).collect::<Vec<_>>().join("\n");
        let found = shown(&text);
        let expected = [("id", "inB"), ("note", "sa"), ("late", "oa")];
        assert_eq!(found, expected.map(|(name, kinds)| (name.to_owned(), kinds.to_owned())));
    }

    #[test]
    fn kinds_have_the_names_of_types() {
        for (kinds, expected) in [
            ("i", "int64"),
            ("gi", "int64"),
            ("iu", "uint64"),
            ("gu", "object"),
            ("if", "float64"),
            ("ina", "float64"),
            ("x", "float64"),
            ("b", "bool"),
            ("ba", "object"),
            ("san", "str"),
            ("si", "object"),
            ("n", "object"),
            ("o", "object"),
        ] {
            assert_eq!(Kinds(kinds.to_owned()).type_name(), expected, "{kinds}");
        }
    }

    #[test]
    fn names_without_end_are_not_kept() {
        let lines: Vec<_> = (0..120_000).map(|number| format!("{{\"name{number:05}\":1}}")).collect();
        let text = lines.join("\n");
        assert_eq!(LinesSchema::infer(text.as_bytes(), &|| false).unwrap(), None);
        let bad = b"{\"a\":1}\n{\"\xff\":1}\n{\"a\":true}\n";
        let found = LinesSchema::infer(&bad[..], &|| false).unwrap().unwrap();
        assert_eq!((&*found.names, found.kinds[0].as_str()), (&["a".to_owned()][..], "ib"));
    }
}
