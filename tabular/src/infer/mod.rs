//! Finds the types of a file's columns as `pandas.read_csv` would, from all of it or from a sample.
//!
//! All of a file is read before its first slice is cut, on all cores (`whole`). A job may ask for its first mini-batch sooner: then
//! blocks spread evenly over the file are read (`sample`). A block starts anywhere, so its first record is
//! searched: the scan starts after one line end after another until every record in the block has the right
//! number of fields and no quote stands where none belongs. A block where that never happens is left out;
//! whatever a sample misses, the reader finds (it widens the column for the slice concerned).

mod sample;
#[cfg(test)]
mod tests;
mod whole;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use multiversion::multiversion;

use crate::field::unquote;
use crate::records::{Block, Records};
use crate::scan::{marks_of, places};
use crate::schema::{ColumnType, Names, Schema, SchemaError, fields, texts};
use crate::split::{BYTE_ORDER_MARK, Cutting, Slice, Splitter};
use crate::value::{self, Kind};
use crate::{Dialect, Malformed, NullValues, TextRules};

/// Ragged records that are passed over in one part of a file; behind them its records are looked at one by one.
const MOST_RAGGED: usize = 64;
/// How much is read to find the first record, in bytes, and how long a block of a sample is.
const SAMPLE: usize = 64 << 10;
/// How long the first record may be, in bytes.
const FIRST_RECORD_LIMIT: u64 = 64 << 20;

/// Which records the types are found from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InferMode {
    /// Records in 16 blocks of 64 KiB, spread evenly over the file, the first ones among them.
    Sampled,
    /// All.
    #[default]
    Full,
}

/// Kinds of values that were seen in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Evidence(u8);

impl Evidence {
    const MISSING: u8 = 1;
    const INT: u8 = 2;
    const NEGATIVE: u8 = 4;
    const UINT: u8 = 8;
    /// A whole number too long for 64 bits, before any number with a point.
    const BIG: u8 = 16;
    const FLOAT: u8 = 32;
    const BOOL: u8 = 64;
    const TEXT: u8 = 128;

    /// Evidence that a column of this type has shown.
    pub(crate) fn of(column: ColumnType) -> Self {
        Self(match column {
            ColumnType::Int64 => Self::INT,
            ColumnType::UInt64 => Self::INT | Self::UINT,
            ColumnType::Float64 => Self::FLOAT,
            ColumnType::Bool => Self::BOOL,
            ColumnType::BoolOrMissing => Self::BOOL | Self::MISSING,
            ColumnType::Utf8 => Self::TEXT,
        })
    }

    fn add(&mut self, field: &[u8], null_values: &NullValues) {
        self.add_kind(null_values.kind(&unquote(field)));
    }

    #[inline]
    fn add_kind(&mut self, kind: Kind) {
        self.0 |= match kind {
            Kind::Missing => Self::MISSING,
            Kind::Int { negative: false } => Self::INT,
            Kind::Int { negative: true } => Self::INT | Self::NEGATIVE,
            Kind::UInt => Self::INT | Self::UINT,
            Kind::BigInt if self.0 & Self::FLOAT == 0 => Self::BIG,
            Kind::BigInt | Kind::Float => Self::FLOAT,
            Kind::Bool => Self::BOOL,
            Kind::Text => Self::TEXT,
        };
    }

    /// Evidence of these records and of those behind them, which show `later`.
    fn followed_by(self, later: Self) -> Self {
        if self.0 & Self::FLOAT != 0 && later.0 & Self::BIG != 0 {
            return Self(self.0 | (later.0 & !Self::BIG) | Self::FLOAT);
        }
        Self(self.0 | later.0)
    }

    pub(crate) fn add_column(&mut self, block: &Block<'_>, column: usize, null_values: &NullValues) {
        if self.0 & Self::TEXT != 0 {
            return;
        }
        if null_values.hide_values() {
            return block.column(column).for_each(|field| self.add(field, null_values));
        }
        add_plain(self, block, column, null_values);
    }

    /// The narrowest type that holds what was seen.
    ///
    /// One rule differs from pandas': whole numbers beyond 64 bits become text, not Python objects.
    pub(crate) fn column_type(self) -> ColumnType {
        let has = |flag| self.0 & flag != 0;
        let number = has(Self::INT | Self::FLOAT | Self::BIG);
        if has(Self::TEXT | Self::BIG) || (has(Self::BOOL) && number) {
            ColumnType::Utf8
        } else if has(Self::BOOL) {
            if has(Self::MISSING) { ColumnType::BoolOrMissing } else { ColumnType::Bool }
        } else if has(Self::FLOAT) || !number {
            ColumnType::Float64
        } else if has(Self::UINT) {
            if has(Self::NEGATIVE | Self::MISSING) { ColumnType::Utf8 } else { ColumnType::UInt64 }
        } else if has(Self::MISSING) {
            ColumnType::Float64
        } else {
            ColumnType::Int64
        }
    }
}

/// Adds the fields of a column of which no number and no truth value is missing, with what the processor has for sets of bits.
#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt+popcnt"))]
fn add_plain(evidence: &mut Evidence, block: &Block<'_>, column: usize, null_values: &NullValues) {
    let missing = null_values.contain(b"").then_some(Kind::Missing);
    for place in block.places(column) {
        let field = &block.bytes[place.start..];
        let known = match (&field[..place.len()], place.len()) {
            (b"", _) => missing,
            // A plain value holds no quote, so these two are its own.
            ([b'"', .., b'"'], length) => value::kind_of_plain_value(&field[1..], length - 2),
            (_, length) => value::kind_of_plain_value(field, length),
        };
        match known {
            Some(kind) => evidence.add_kind(kind),
            None => evidence.add(&field[..place.len()], null_values),
        }
    }
}

/// How fields are looked at.
#[derive(Clone, Copy)]
struct Look<'a> {
    dialect: Dialect,
    null_values: &'a NullValues,
}

impl Schema {
    /// Finds the names and types of the columns of the file at `path`, of delimited text; once `is_stopped`, from what was read
    /// until then.
    ///
    /// Records that are ragged do not count here; reading their slice fails (spec D5).
    pub fn infer_file(
        path: &Path,
        dialect: &Dialect,
        rules: TextRules,
        mode: InferMode,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, SchemaError> {
        Self::infer_until(&mut File::open(path)?, *dialect, rules, mode, is_stopped)
    }

    /// Finds the same of all of a file of which nothing is cut yet, and cuts it meanwhile.
    pub fn infer_while_cutting(
        cutting: &mut Cutting,
        rules: TextRules,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, SchemaError> {
        let Cutting { file, splitter, found } = cutting;
        Start::find(file, splitter.dialect())?.schema_of_all(file, (splitter, found), rules, is_stopped)
    }

    /// Finds them in anything that can be read at any place.
    pub fn infer<R: Read + Seek>(
        source: &mut R,
        dialect: Dialect,
        mode: InferMode,
    ) -> Result<Self, SchemaError> {
        Self::infer_until(source, dialect, TextRules::default(), mode, &|| false)
    }

    fn infer_until<R: Read + Seek>(
        source: &mut R,
        dialect: Dialect,
        rules: TextRules,
        mode: InferMode,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, SchemaError> {
        let start = Start::find(source, dialect)?;
        match mode {
            InferMode::Sampled => {
                let look = Look { dialect, null_values: &rules.null_values };
                let evidence = sample::scan(source, start.at, look, start.names.len())?;
                Ok(start.schema(evidence, rules))
            }
            InferMode::Full => {
                let mut splitter = Splitter::new(dialect, u64::MAX);
                start.schema_of_all(source, (&mut splitter, &mut Vec::new()), rules, is_stopped)
            }
        }
    }
}

/// The beginning of a file.
struct Start {
    names: Names,
    dialect: Dialect,
    /// Where its records begin.
    at: u64,
}

impl Start {
    fn find<R: Read + Seek>(source: &mut R, dialect: Dialect) -> Result<Self, SchemaError> {
        let first = first_record(source, dialect)?.ok_or(SchemaError::Empty)?;
        let (names, at) = if dialect.has_header() {
            (Names::from_header(&first.bytes, dialect, first.start)?, first.end)
        } else {
            (Names::Positions(fields(&first.bytes, dialect).len()), first.start)
        };
        Ok(Self { names, dialect, at })
    }

    /// The schema that all records show, which are cut meanwhile.
    fn schema_of_all<R: Read + Seek>(
        self,
        source: &mut R,
        (splitter, slices): (&mut Splitter, &mut Vec<Slice>),
        rules: TextRules,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Schema, SchemaError> {
        source.seek(SeekFrom::Start(0))?;
        let mut cut = whole::Cut::new(source, splitter, slices);
        cut.pass_over(self.at)?;
        let look = Look { dialect: self.dialect, null_values: &rules.null_values };
        let evidence = whole::scan(cut, look, self.names.len(), is_stopped)?;
        Ok(self.schema(evidence, rules))
    }

    fn schema(self, evidence: Vec<Evidence>, rules: TextRules) -> Schema {
        let types = evidence.into_iter().map(Evidence::column_type).collect();
        Schema { rules, ..Schema::new(self.names, types) }
    }
}

/// The fields of the first record of the file at `path`, as they stand there.
pub fn first_fields(path: &Path, dialect: &Dialect) -> Result<Vec<String>, SchemaError> {
    let first = first_record(&mut File::open(path)?, *dialect)?.ok_or(SchemaError::Empty)?;
    texts(&first.bytes, *dialect, first.start)
}

/// The first record that is not blank.
struct FirstRecord {
    start: u64,
    /// After the record and its line end.
    end: u64,
    /// Without the line end.
    bytes: Vec<u8>,
}

fn first_record<R: Read + Seek>(
    source: &mut R,
    dialect: Dialect,
) -> Result<Option<FirstRecord>, SchemaError> {
    source.seek(SeekFrom::Start(0))?;
    let mut bytes = vec![];
    let mut wanted = SAMPLE as u64;
    loop {
        source.by_ref().take(wanted).read_to_end(&mut bytes)?;
        let ended = (bytes.len() as u64) < wanted;
        let begin = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let mut start = begin;
        let line_ends: Vec<_> = line_ends(&bytes[begin..], dialect).map(|end| begin + end).collect();
        let mut line_ends = line_ends.into_iter();
        loop {
            // Only the end of the file ends a line that has no line end.
            let end = match line_ends.next() {
                Some(end) => end,
                None if ended => bytes.len(),
                None => break,
            };
            if !dialect.is_blank(&bytes[start..end]) {
                let pair = bytes[end..].starts_with(b"\r\n");
                let after = (end + 1 + usize::from(pair)).min(bytes.len());
                bytes.truncate(end);
                bytes.drain(..start);
                return Ok(Some(FirstRecord { start: start as u64, end: after as u64, bytes }));
            }
            if end == bytes.len() {
                return Ok(None);
            }
            start = end + 1;
        }
        if wanted > FIRST_RECORD_LIMIT {
            return Err(SchemaError::FirstRecordTooLong { offset: start as u64, limit: wanted });
        }
        wanted *= 4;
        source.seek(SeekFrom::Start(0))?;
        bytes.clear();
    }
}

/// Where the line ends outside quotes are.
fn line_ends(bytes: &[u8], dialect: Dialect) -> impl Iterator<Item = usize> {
    marks_of(bytes, dialect.delimiter())
        .flat_map(|(start, marks)| places(marks.line_ends()).map(move |place| start + place))
}

/// Adds what is seen in all records but ragged ones.
fn scan_tolerantly(mut part: &[u8], look: Look<'_>, evidence: &mut [Evidence]) {
    for _ in 0..MOST_RAGGED {
        let Err(Malformed::Ragged { offset, .. }) = scan_part(part, look, evidence) else { return };
        let (before, ragged) = part.split_at(offset as usize);
        // Evidence that is added twice is the same evidence.
        let _ = scan_part(before, look, evidence);
        let Some(end) = line_ends(ragged, look.dialect).next() else { return };
        part = &ragged[end + 1..];
    }
    scan_one_by_one(part, look, evidence);
}

/// Adds the same one record after the other, however many are ragged: each of these costs [`scan_part`] a block.
fn scan_one_by_one(part: &[u8], look: Look<'_>, evidence: &mut [Evidence]) {
    let Look { dialect, null_values } = look;
    let mut start = 0;
    for end in line_ends(part, dialect).chain([part.len()]) {
        let record = &part[start..end];
        start = end + 1;
        let fields = fields(record, dialect);
        if fields.len() == evidence.len() && !dialect.is_blank(record) {
            fields.iter().zip(&mut *evidence).for_each(|(field, evidence)| evidence.add(field, null_values));
        }
    }
}

/// Adds what is seen up to a malformed record; says whether there were stray quotes.
fn scan_part(part: &[u8], look: Look<'_>, evidence: &mut [Evidence]) -> Result<bool, Malformed> {
    let mut records = Records::new(part, look.dialect, evidence.len());
    while let Some(block) = records.next_block()? {
        for (column, evidence) in evidence.iter_mut().enumerate() {
            evidence.add_column(&block, column, look.null_values);
        }
    }
    Ok(records.saw_stray_quotes())
}
