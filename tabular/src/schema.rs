//! The names and types of a text's columns, which every slice of it is read with.
//!
//! The types are found once (`infer`) or declared by the user (`dtype` of an input), so that all
//! mini-batches of a file look alike. This file holds what they are and how names come about; it opens no
//! files.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::field::unquote;
use crate::scan::{marks_of, places};
use crate::{Dialect, NullValues};

/// What a column holds, as pandas would have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ColumnType {
    /// Whole numbers, none missing.
    #[serde(rename = "i")]
    Int64,
    /// Whole numbers, none missing and none negative, some too big for [`Self::Int64`].
    #[serde(rename = "u")]
    UInt64,
    /// Numbers, or nothing but missing values.
    #[serde(rename = "f")]
    Float64,
    /// Truth values, none missing.
    #[serde(rename = "b")]
    Bool,
    /// Truth values, some missing; pandas holds them as objects.
    #[serde(rename = "m")]
    BoolOrMissing,
    /// Text.
    #[serde(rename = "s")]
    Utf8,
}

/// The names of the columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Names {
    /// From the header, made unique as pandas does.
    #[serde(rename = "h")]
    Header(Vec<String>),
    /// There is no header: this many columns are named 0, 1, 2 and so on.
    #[serde(rename = "p")]
    Positions(usize),
}

/// What a text's records look like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// The columns' names.
    pub names: Names,
    /// The columns' types; as many as names.
    pub types: Vec<ColumnType>,
    /// For each column, whether the user declared its type. A value that does not fit a declared type is an
    /// error; one that does not fit a found type widens the column.
    pub declared: Vec<bool>,
    /// What is special about the text.
    #[serde(default, skip_serializing_if = "TextRules::are_usual")]
    pub rules: TextRules,
}

/// What is special about a text, where it is not read as pandas would.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TextRules {
    /// An empty field of a column of text is an empty text, and not missing.
    #[serde(rename = "e")]
    pub empty_as_text: bool,
    /// A byte beyond 127 is an error.
    #[serde(rename = "a")]
    pub only_ascii: bool,
    /// Texts that are missing values.
    #[serde(rename = "n", default, skip_serializing_if = "NullValues::are_usual")]
    pub null_values: NullValues,
}

impl TextRules {
    /// Whether nothing is.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Why there is no schema.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The file has neither header nor record.
    #[error("the file has no columns: it holds nothing but blank lines")]
    Empty,
    /// The header is not UTF-8.
    #[error(
        "bad UTF-8 in the header at byte {offset} of the file: where the text has another encoding, \
         give it (encoding: latin1)"
    )]
    HeaderNotUtf8 {
        /// Offset of the first bad byte in the file.
        offset: u64,
    },
    /// The header, or the first record of a file without one, does not end.
    #[error("the first record, at byte {offset}, does not end within {limit} bytes; is a quote left open?")]
    FirstRecordTooLong {
        /// Offset of its first byte in the file.
        offset: u64,
        /// How far was looked, in bytes.
        limit: u64,
    },
    /// `dtype` names a column that is not there.
    #[error("dtype is given for column {name:?}, which the file does not have; its columns are {columns}")]
    UnknownColumn {
        /// The name that was given.
        name: String,
        /// The names there are, separated by commas.
        columns: String,
    },
    /// `dtype` names a type that is not known.
    #[error("dtype {given:?} is not known; it must be one of int64, uint64, float64, bool, str")]
    UnknownType {
        /// The type that was given.
        given: String,
    },
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Schema {
    /// A schema with types that were found, not declared.
    pub fn new(names: Names, types: Vec<ColumnType>) -> Self {
        debug_assert_eq!(names.len(), types.len());
        let declared = vec![false; types.len()];
        Self { names, types, declared, rules: TextRules::default() }
    }

    /// Sets the types of the columns that `dtypes` names (a column without a header goes by its position).
    pub fn declare<'a>(
        &mut self,
        dtypes: impl IntoIterator<Item = (&'a str, ColumnType)>,
    ) -> Result<(), SchemaError> {
        let by_name: HashMap<String, usize> = self.names.iter().zip(0..).collect();
        for (name, dtype) in dtypes {
            let Some(&column) = by_name.get(name) else {
                let columns = self.names.iter().collect::<Vec<_>>().join(", ");
                return Err(SchemaError::UnknownColumn { name: name.to_owned(), columns });
            };
            self.types[column] = dtype;
            self.declared[column] = true;
        }
        Ok(())
    }
}

impl FromStr for ColumnType {
    type Err = SchemaError;

    /// Reads a `dtype` as pandas names it.
    fn from_str(given: &str) -> Result<Self, SchemaError> {
        match given {
            "int64" | "int" => Ok(Self::Int64),
            "uint64" => Ok(Self::UInt64),
            "float64" | "float" => Ok(Self::Float64),
            "bool" => Ok(Self::Bool),
            "str" | "string" | "object" => Ok(Self::Utf8),
            _ => Err(SchemaError::UnknownType { given: given.to_owned() }),
        }
    }
}

impl ColumnType {
    /// What pandas calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int64 => "int64",
            Self::UInt64 => "uint64",
            Self::Float64 => "float64",
            Self::Bool => "bool",
            Self::BoolOrMissing => "object",
            Self::Utf8 => "str",
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Names {
    /// How many columns there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Header(names) => names.len(),
            Self::Positions(count) => *count,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names as text.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.len()).map(|index| match self {
            Self::Header(names) => names[index].clone(),
            Self::Positions(_) => index.to_string(),
        })
    }

    /// The names in a header record without its line end, which starts at `offset` of the file.
    pub(crate) fn from_header(record: &[u8], dialect: Dialect, offset: u64) -> Result<Self, SchemaError> {
        Ok(Self::Header(made_unique(texts(record, dialect, offset)?)))
    }
}

/// The texts of the fields of a record without its line end, which starts at `offset` of the file.
pub(crate) fn texts(record: &[u8], dialect: Dialect, offset: u64) -> Result<Vec<String>, SchemaError> {
    let text = |field: &[u8]| {
        if let Err(error) = simdutf8::compat::from_utf8(field) {
            let within = field.as_ptr().addr() - record.as_ptr().addr() + error.valid_up_to();
            return Err(SchemaError::HeaderNotUtf8 { offset: offset + within as u64 });
        }
        Ok(String::from_utf8_lossy(&unquote(field)).into_owned())
    };
    fields(record, dialect).into_iter().map(text).collect()
}

/// The fields of one record without its line end, quotes and all.
pub(crate) fn fields(record: &[u8], dialect: Dialect) -> Vec<&[u8]> {
    let ends = marks_of(record, dialect.delimiter())
        .flat_map(|(start, marks)| places(marks.delimiters).map(move |place| start + place));
    let mut start = 0;
    let fields = ends.chain([record.len()]).map(|end| &record[std::mem::replace(&mut start, end + 1)..end]);
    fields.collect()
}

/// Gives names to the nameless and numbers to the doubled, in the order pandas does: given names first.
fn made_unique(mut names: Vec<String>) -> Vec<String> {
    let nameless: Vec<usize> = (0..names.len()).filter(|&index| names[index].is_empty()).collect();
    for &index in &nameless {
        names[index] = format!("Unnamed: {index}");
    }
    let given = (0..names.len()).filter(|index| nameless.binary_search(index).is_err());
    let order: Vec<usize> = given.chain(nameless.iter().copied()).collect();
    // How often each name stands in `names`, and how many columns of that name are done.
    let mut present: HashMap<String, usize> = HashMap::new();
    for name in &names {
        *present.entry(name.clone()).or_default() += 1;
    }
    let mut done: HashMap<String, usize> = HashMap::new();
    for index in order {
        let given = names[index].clone();
        let mut name = given.clone();
        let mut count = done.get(&name).copied().unwrap_or(0);
        while count > 0 {
            done.insert(given.clone(), count + 1);
            name = format!("{given}.{count}");
            count = if present.get(&name).is_some_and(|&times| times > 0) {
                count + 1
            } else {
                done.get(&name).copied().unwrap_or(0)
            };
        }
        if name != given {
            *present.entry(given).or_default() -= 1;
            *present.entry(name.clone()).or_default() += 1;
        }
        *done.entry(name.clone()).or_default() += 1;
        names[index] = name;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_unique_as_pandas_does() {
        let table: [(&str, &[&str]); 13] = [
            ("a,a,a", &["a", "a.1", "a.2"]),
            ("a,,", &["a", "Unnamed: 1", "Unnamed: 2"]),
            ("a,a.1,a", &["a", "a.1", "a.2"]),
            ("a.1,a,a", &["a.1", "a", "a.2"]),
            ("a,,Unnamed: 1", &["a", "Unnamed: 1.1", "Unnamed: 1"]),
            (",", &["Unnamed: 0", "Unnamed: 1"]),
            ("Unnamed: 0,,", &["Unnamed: 0", "Unnamed: 1", "Unnamed: 2"]),
            ("a,a,a.1", &["a", "a.2", "a.1"]),
            ("a,a,a.1,a.1", &["a", "a.2", "a.1", "a.1.1"]),
            ("x,x,x.1,x.2,x", &["x", "x.3", "x.1", "x.2", "x.4"]),
            (" a,a ", &[" a", "a "]),
            ("\"q,\"\"r\",b", &["q,\"r", "b"]),
            ("one", &["one"]),
        ];
        for (header, expected) in table {
            let names = Names::from_header(header.as_bytes(), Dialect::default(), 0).unwrap();
            assert_eq!(names.iter().collect::<Vec<_>>(), expected, "{header}");
        }
    }

    #[test]
    fn a_header_with_bad_text_is_told_with_its_place() {
        let error = Names::from_header(b"abc,d\xffe", Dialect::default(), 3).unwrap_err();
        assert_eq!(
            error.to_string(),
            "bad UTF-8 in the header at byte 8 of the file: where the text has another encoding, give it (encoding: latin1)"
        );
    }

    #[test]
    fn declared_types_are_checked_against_the_columns() {
        let mut schema = Schema::new(Names::Positions(2), vec![ColumnType::Float64; 2]);
        schema.declare([("1", "string".parse().unwrap())]).unwrap();
        assert_eq!(
            (schema.types[1], schema.declared[1], schema.declared[0]),
            (ColumnType::Utf8, true, false)
        );
        let error = schema.declare([("x", ColumnType::Bool)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "dtype is given for column \"x\", which the file does not have; its columns are 0, 1"
        );
        let error = "int32".parse::<ColumnType>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "dtype \"int32\" is not known; it must be one of int64, uint64, float64, bool, str"
        );
    }

    #[test]
    fn a_schema_is_written_compactly() {
        let schema = Schema::new(Names::Header(vec!["a".into()]), vec![ColumnType::BoolOrMissing]);
        let json = serde_json::to_string(&schema).unwrap();
        assert_eq!(json, r#"{"names":{"h":["a"]},"types":["m"],"declared":[false]}"#);
        assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
        let null_values = NullValues::new(Some(&["-".to_owned()]), &[]);
        for (rules, expected) in [
            (TextRules { empty_as_text: true, ..TextRules::default() }, r#","rules":{"e":true,"a":false}}"#),
            (
                TextRules { null_values, ..TextRules::default() },
                r#","rules":{"e":false,"a":false,"n":["-"]}}"#,
            ),
        ] {
            let schema = Schema { rules, ..schema.clone() };
            let json = serde_json::to_string(&schema).unwrap();
            assert!(json.ends_with(expected), "{json}");
            assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
        }
    }
}
