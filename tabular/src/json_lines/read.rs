//! Reads a slice of JSON lines into columns, as `pandas.DataFrame` makes them of the objects.
//!
//! Columns of one kind become Arrow arrays. The others - nested values, several kinds, big numbers, truth values of which
//! some are missing - stay text, which Python reads value by value; so what pandas makes of them needs no second rule
//! here. Where the columns of the whole file are known, a column is what all of its values in the file make of it.

use std::collections::HashMap;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array};

use super::infer::{Kinds, LinesSchema};
use super::scan::{Kind, Scanner, int, unescape};

/// The columns of a slice, in the order in which their names come up in the file, as far as that is known, or in the slice.
#[derive(Debug)]
pub struct Lines<'a> {
    /// Their names.
    pub names: Vec<&'a str>,
    /// What is in them.
    pub columns: Vec<LinesColumn<'a>>,
    /// How many records there are.
    pub records: usize,
}

/// One column of JSON lines.
#[derive(Debug)]
pub enum LinesColumn<'a> {
    /// `Int64`, `Float64` with NaN for what is missing, `Boolean`, or `Utf8` with nulls.
    Array(ArrayRef),
    /// The JSON text of each value; nothing for a record that has none of this name.
    Values(Vec<Option<&'a str>>),
}

/// Reads whole lines, of a file with the columns of `schema`; with one that has none, the slice alone says what it has. `None` where
/// Python has to look: at what is wrong, or at what is rare.
///
/// Text is in an array where all of it is there. Where some is missing, that depends on `text_has_nan`, whether the text
/// of this pandas has NaN for a null too; without, a null stays `None`.
pub fn read_lines<'a>(bytes: &'a [u8], schema: &'a LinesSchema, text_has_nan: bool) -> Option<Lines<'a>> {
    // Offsets in Arrow's texts have 31 bits.
    if bytes.len() > i32::MAX as usize {
        return None;
    }
    let text = simdutf8::basic::from_utf8(bytes).ok()?;
    let mut table = Table::of(schema);
    let mut start = 0;
    while start < bytes.len() {
        let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |length| start + length);
        table.line(text, start..end)?;
        start = end + 1;
    }
    let Table { columns, records, seen, .. } = table;
    if seen == 0 {
        return None;
    }
    let names = columns.iter().map(|column| column.name).collect();
    let kinds = schema.kinds.iter().map(Some).chain(iter::repeat(None));
    let columns = columns.into_iter().zip(kinds);
    let columns = columns.map(|(column, of_file)| column.finish(text, records, of_file, text_has_nan));
    Some(Lines { names, columns: columns.collect(), records })
}

/// The columns as far as lines were looked at.
#[derive(Default)]
struct Table<'a> {
    columns: Vec<Column<'a>>,
    by_name: HashMap<&'a [u8], usize>,
    records: usize,
    /// How many columns have a value here.
    seen: usize,
}

/// Where the values of a column are. Shorter than the table where the last records have none.
struct Column<'a> {
    name: &'a str,
    cells: Vec<Cell>,
}

#[derive(Clone)]
struct Cell {
    start: u32,
    end: u32,
    /// Nothing where the record has no such name.
    kind: Option<Kind>,
}

const ABSENT: Cell = Cell { start: 0, end: 0, kind: None };

impl<'a> Table<'a> {
    /// Without a line.
    fn of(schema: &'a LinesSchema) -> Self {
        let names = schema.names.iter();
        Self {
            columns: names.clone().map(|name| Column { name, cells: Vec::new() }).collect(),
            by_name: names.zip(0..).map(|(name, position)| (name.as_bytes(), position)).collect(),
            ..Self::default()
        }
    }

    fn line(&mut self, text: &'a str, line: Range<usize>) -> Option<()> {
        let bytes = &text.as_bytes()[line.clone()];
        if bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            return Some(());
        }
        // Most records have the names of the former one in the same order.
        let mut expected = 0;
        Scanner::new(bytes).object(|name, place, kind| {
            if name.is_escaped {
                return None;
            }
            let name = name.quoted;
            let is_expected = self.columns.get(expected).is_some_and(|column| column.name.as_bytes() == name);
            let position = if is_expected { expected } else { self.position(name) };
            expected = position + 1;
            let cells = &mut self.columns[position].cells;
            self.seen += usize::from(cells.is_empty());
            // Of a name that comes twice the last value counts.
            cells.resize(self.records, ABSENT);
            let (start, end) = ((line.start + place.start) as u32, (line.start + place.end) as u32);
            cells.push(Cell { start, end, kind: Some(kind) });
            Some(())
        })?;
        self.records += 1;
        // Names that hardly repeat would cost memory without bound.
        (self.seen * self.records <= text.len() + 1_000).then_some(())
    }

    fn position(&mut self, name: &'a [u8]) -> usize {
        *self.by_name.entry(name).or_insert_with(|| {
            let name = str::from_utf8(name).expect("a name is between two quotes of a text");
            self.columns.push(Column { name, cells: Vec::new() });
            self.columns.len() - 1
        })
    }
}

/// What a column has shown.
#[derive(Default)]
struct Evidence {
    absent: bool,
    null: bool,
    bool: bool,
    int: bool,
    float: bool,
    text: bool,
    other: bool,
}

impl Evidence {
    /// What a file has shown whose values are of these kinds.
    fn of(kinds: &Kinds) -> Self {
        Self {
            absent: kinds.have(&[Kinds::ABSENT]),
            null: kinds.have(&[Kinds::NULL]),
            bool: kinds.have(&[Kinds::BOOL]),
            int: kinds.have(&[Kinds::INT, Kinds::NEGATIVE]),
            float: kinds.have(&[Kinds::FLOAT, Kinds::NAN]),
            text: kinds.have(&[Kinds::TEXT]),
            other: kinds.have(&[Kinds::UINT, Kinds::BIG, Kinds::NESTED]),
        }
    }
}

impl<'a> Column<'a> {
    fn finish(
        mut self,
        text: &'a str,
        records: usize,
        of_file: Option<&Kinds>,
        text_has_nan: bool,
    ) -> LinesColumn<'a> {
        self.cells.resize(records, ABSENT);
        let mut seen = of_file.map(Evidence::of).unwrap_or_default();
        for cell in &self.cells {
            *match cell.kind {
                None => &mut seen.absent,
                Some(Kind::Null) => &mut seen.null,
                Some(Kind::Bool) => &mut seen.bool,
                Some(Kind::Int) => &mut seen.int,
                Some(Kind::Float) => &mut seen.float,
                Some(Kind::Text | Kind::EscapedText) => &mut seen.text,
                Some(Kind::Other) => &mut seen.other,
            } = true;
        }
        let bytes = text.as_bytes();
        let cells = self.cells.iter().map(|cell| (cell.kind, &bytes[cell.start as usize..cell.end as usize]));
        let Evidence { absent, null, bool, int: whole, float, text: is_text, other } = seen;
        LinesColumn::Array(match (other, bool, is_text, whole || float) {
            (false, false, false, true) if float || null || absent => {
                Arc::new(Float64Array::from_iter_values(cells.map(|(kind, value)| number(kind, value))))
            }
            (false, false, false, true) => {
                let whole = cells.map(|(_, value)| int(value).expect("it was seen to be a whole number"));
                Arc::new(Int64Array::from_iter_values(whole))
            }
            (false, true, false, false) if !null && !absent => {
                Arc::new(cells.map(|(_, value)| Some(value == b"true")).collect::<BooleanArray>())
            }
            (false, false, true, false) if text_has_nan || !null => {
                Arc::new(texts(cells, records, bytes.len()))
            }
            _ => {
                let values = self.cells.iter().map(|cell| cell.value(text));
                return LinesColumn::Values(values.collect());
            }
        })
    }
}

impl Cell {
    /// The value as JSON.
    fn value<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (start, end) = (self.start as usize, self.end as usize);
        Some(match self.kind? {
            Kind::Text | Kind::EscapedText => &text[start - 1..=end],
            _ => &text[start..end],
        })
    }
}

/// The number in `value`, which is of this kind; NaN for what is missing or null. Python makes a float of a whole number,
/// so that there is no `-0.0` of them.
fn number(kind: Option<Kind>, value: &[u8]) -> f64 {
    match kind {
        Some(Kind::Int) => int(value).expect("it was seen to be a whole number") as f64,
        Some(Kind::Float) => fast_float2::parse(value).expect("it was seen to be a number"),
        _ => f64::NAN,
    }
}

fn texts<'a>(
    cells: impl Iterator<Item = (Option<Kind>, &'a [u8])>,
    records: usize,
    capacity: usize,
) -> arrow_array::StringArray {
    let mut texts = StringBuilder::with_capacity(records, capacity / 4);
    let mut unescaped = String::new();
    for (kind, value) in cells {
        match kind {
            Some(Kind::Text) => texts.append_value(str::from_utf8(value).expect("it is a part of a text")),
            Some(Kind::EscapedText) => {
                unescaped.clear();
                unescape(value, &mut unescaped).expect("its escapes were looked at");
                texts.append_value(&unescaped);
            }
            _ => texts.append_null(),
        }
    }
    texts.finish()
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use proptest::prelude::*;

    use super::*;

    static NONE: LinesSchema = LinesSchema { names: Vec::new(), kinds: Vec::new() };

    /// What is in the columns, as people write it.
    fn shown(text: &str, schema: &LinesSchema, text_has_nan: bool) -> Option<Vec<(String, String)>> {
        let lines = read_lines(text.as_bytes(), schema, text_has_nan)?;
        let shown = lines.names.iter().zip(&lines.columns).map(|(name, column)| {
            let shown = match column {
                LinesColumn::Values(values) => format!("values {values:?}"),
                LinesColumn::Array(array) => match array.as_string_opt::<i32>() {
                    Some(texts) => format!("texts {:?}", texts.iter().collect::<Vec<_>>()),
                    None => format!("{} {}", array.data_type(), array.null_count()),
                },
            };
            ((*name).to_owned(), shown)
        });
        Some(shown.collect())
    }

    #[test]
    fn a_column_of_one_kind_is_an_array_and_others_are_left_to_python() {
        let table = [
            ("1 2 -3", "Int64 0"),
            ("1 2.5 3", "Float64 0"),
            ("1 null 3", "Float64 0"),
            ("1 . 3", "Float64 0"),
            ("NaN null .", "Float64 0"),
            ("true false true", "Boolean 0"),
            ("\"a\" \"\" \"\\n\"", "texts [Some(\"a\"), Some(\"\"), Some(\"\\n\")]"),
            ("\"a\" . \"c\"", "texts [Some(\"a\"), None, Some(\"c\")]"),
            ("\"a\" null .", "texts [Some(\"a\"), None, None]"),
            ("true null .", "values [Some(\"true\"), Some(\"null\"), None]"),
            ("1 true 2", "values [Some(\"1\"), Some(\"true\"), Some(\"2\")]"),
            ("1 \"\\t\" 2", "values [Some(\"1\"), Some(\"\\\"\\\\t\\\"\"), Some(\"2\")]"),
            ("null null null", "values [Some(\"null\"), Some(\"null\"), Some(\"null\")]"),
            ("[1] . 9223372036854775808", "values [Some(\"[1]\"), None, Some(\"9223372036854775808\")]"),
        ];
        for (values, expected) in table {
            let line = |value: &str| match value {
                "." => "{\"b\":1}\n".to_owned(),
                value => format!("{{\"b\":1,\"a\":{value}}}\n"),
            };
            let text: String = values.split(' ').map(line).collect();
            let found = shown(&text, &NONE, true).unwrap();
            assert_eq!(found.iter().find(|(name, _)| name == "a").unwrap().1, expected, "{text}");
        }
        let found = shown("{\"a\":null}\n{\"a\":\"x\"}", &NONE, false).unwrap();
        assert_eq!(found[0].1, "values [Some(\"null\"), Some(\"\\\"x\\\"\")]");
    }

    #[test]
    fn a_column_is_what_all_values_of_the_file_make_of_it() {
        let table = [
            ("1", "if", "Float64 0"),
            ("1", "ia", "Float64 0"),
            ("1", "in", "Float64 0"),
            ("1", "ig", "Int64 0"),
            ("1", "iu", "values [Some(\"1\")]"),
            ("1", "ib", "values [Some(\"1\")]"),
            ("true", "b", "Boolean 0"),
            ("true", "ba", "values [Some(\"true\")]"),
            ("\"x\"", "so", "values [Some(\"\\\"x\\\"\")]"),
            ("\"x\"", "as", "texts [Some(\"x\")]"),
            (".", "fa", "Float64 0"),
            (".", "sa", "texts [None]"),
            (".", "oa", "values [None]"),
        ];
        for (value, kinds, expected) in table {
            let schema: LinesSchema = serde_json::from_value(serde_json::json!({
                "names": ["z", "a", "y"], "kinds": ["ia", kinds, "i"],
            }))
            .unwrap();
            let line =
                if value == "." { "{\"y\":3}".to_owned() } else { format!("{{\"y\":3,\"a\":{value}}}") };
            let found = shown(&line, &schema, true).unwrap();
            assert_eq!(found.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["z", "a", "y"]);
            assert_eq!(
                (&*found[0].1, &*found[1].1, &*found[2].1),
                ("Float64 0", expected, "Int64 0"),
                "{kinds}"
            );
        }
    }

    #[test]
    fn columns_come_in_the_order_of_their_names_and_the_last_value_counts() {
        let lines = read_lines(b"\n{\"b\":1,\"a\":2,\"b\":3}\r\n \t\n{\"c\":4,\"a\":5,\"b\":6}", &NONE, true)
            .unwrap();
        assert_eq!((&lines.names[..], lines.records), (&["b", "a", "c"][..], 2));
        let LinesColumn::Array(b) = &lines.columns[0] else { panic!("{lines:?}") };
        assert_eq!(b.as_primitive::<arrow_array::types::Int64Type>().values()[..], [3, 6]);
    }

    #[test]
    fn what_is_in_doubt_is_left_to_python() {
        let names: Vec<_> = (0..2_000).map(|number| format!("{{\"a{number}\":1}}\n")).collect();
        let names = names.concat();
        for text in ["", "\n", "{}\n{}\n", "{\"a\":1}\n[]", "{\"a\":\"\u{1}\"}", "{\"a\":1\n}", &names] {
            assert!(read_lines(text.as_bytes(), &NONE, true).is_none(), "{text}");
        }
        assert!(read_lines(b"{\"a\":\"\xff\"}", &NONE, true).is_none());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_left_to_python(
            text in r#"(\{"[ab]":|["\[{}\],: \n]|\\[un"]|-?[0-9.e+]{1,20}|null|true|NaN|-Infinity|d8[0-3]f|"é"|x){0,40}"#,
        ) {
            let _ = read_lines(text.as_bytes(), &NONE, true);
            let line = format!("{{\"a\":1}}\n{{\"a\":{text}}}");
            if let Some(lines) = read_lines(line.as_bytes(), &NONE, true) {
                prop_assert!(lines.records >= 2, "{line}");
            }
        }
    }
}
