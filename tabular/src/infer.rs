//! Finds the types of a file's columns as `pandas.read_csv` would, from a sample or from all of it.
//!
//! The first mini-batch must not wait until a big file has been read to its end (spec S2), so a sample is
//! read up front: blocks spread evenly over the file. A block starts anywhere, so its first record is
//! searched: the scan starts after one line end after another until every record in the block has the right
//! number of fields and no quote stands where none belongs. A block where that never happens is left out;
//! whatever a sample misses, the reader finds (it widens the column for the slice concerned).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::field::unquote;
use crate::records::{Block, Records};
use crate::scan::{marks_of, places};
use crate::schema::{ColumnType, Names, Schema, SchemaError, fields, texts};
use crate::split::BYTE_ORDER_MARK;
use crate::value::{self, Kind};
use crate::{Dialect, Malformed};

/// Ragged records that are passed over in one part of a file.
const MOST_RAGGED: usize = 64;
/// How many blocks a sample has.
const SAMPLES: u64 = 16;
/// How long each is, in bytes.
const SAMPLE: usize = 64 << 10;
/// How many line ends are tried as the start of a block's first record.
const TRIES: usize = 64;
/// How long the first record may be, in bytes.
const FIRST_RECORD_LIMIT: u64 = 64 << 20;
/// How much is read at a time when all records count, in bytes.
const STEP: usize = 1 << 20;

/// Which records the types are found from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InferMode {
    /// Those in 16 blocks of 64 KiB, spread evenly over the file, the first records among them.
    #[default]
    Sampled,
    /// All.
    Full,
}

/// What was seen in a column.
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

    /// What a column of this type has shown already.
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

    #[inline]
    fn add(&mut self, field: &[u8]) {
        self.0 |= match value::kind(&unquote(field)) {
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

    pub(crate) fn add_column(&mut self, block: &Block<'_>, column: usize) {
        if self.0 & Self::TEXT == 0 {
            block.column(column).for_each(|field| self.add(field));
        }
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

impl Schema {
    /// Finds the names and types of the columns of the file at `path`.
    ///
    /// Records that are ragged do not count here; reading their slice fails (spec D5).
    pub fn infer_file(path: &Path, dialect: &Dialect, mode: InferMode) -> Result<Self, SchemaError> {
        Self::infer(&mut File::open(path)?, *dialect, mode)
    }

    /// The same for anything that can be read at any place.
    pub fn infer<R: Read + Seek>(
        source: &mut R,
        dialect: Dialect,
        mode: InferMode,
    ) -> Result<Self, SchemaError> {
        let length = source.seek(SeekFrom::End(0))?;
        let first = first_record(source, dialect)?.ok_or(SchemaError::Empty)?;
        let (names, start) = if dialect.has_header() {
            (Names::from_header(&first.bytes, dialect, first.start)?, first.end)
        } else {
            (Names::Positions(fields(&first.bytes, dialect).len()), first.start)
        };
        let mut evidence = vec![Evidence::default(); names.len()];
        if mode == InferMode::Full || length - start <= SAMPLES * SAMPLE as u64 {
            scan_all(source, start, dialect, &mut evidence)?;
        } else {
            let spread = (length - start - SAMPLE as u64) / (SAMPLES - 1);
            for sample in 0..SAMPLES {
                let bytes = read_at(source, start + sample * spread, SAMPLE)?;
                scan_sample(&bytes, sample == 0, dialect, &mut evidence);
            }
        }
        Ok(Self::new(names, evidence.into_iter().map(Evidence::column_type).collect()))
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

fn read_at<R: Read + Seek>(source: &mut R, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    source.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::with_capacity(length);
    source.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Looks at the whole records of a sample; `aligned` says that it starts with one.
fn scan_sample(bytes: &[u8], aligned: bool, dialect: Dialect, evidence: &mut [Evidence]) {
    let starts = memchr::memchr2_iter(b'\n', b'\r', bytes).map(|line_end| line_end + 1);
    let starts = aligned.then_some(0).into_iter().chain(starts).take(TRIES);
    for start in starts {
        let part = &bytes[start..];
        // What follows the last line end may be cut off.
        let Some(last) = line_ends(part, dialect).last() else { continue };
        if aligned && start == 0 {
            // It starts where it should: what is odd in it is the file's own.
            scan_tolerantly(&part[..=last], dialect, evidence);
            return;
        }
        let mut found = evidence.to_vec();
        if scan_part(&part[..=last], dialect, &mut found) == Ok(false) {
            evidence.copy_from_slice(&found);
            return;
        }
    }
}

/// Adds what is seen in all records but ragged ones; after too many of these it looks no further.
fn scan_tolerantly(mut part: &[u8], dialect: Dialect, evidence: &mut [Evidence]) {
    for _ in 0..MOST_RAGGED {
        let Err(Malformed::Ragged { offset, .. }) = scan_part(part, dialect, evidence) else { return };
        let (before, ragged) = part.split_at(offset as usize);
        // Evidence that is added twice is the same evidence.
        let _ = scan_part(before, dialect, evidence);
        let near = &ragged[..ragged.len().min(SAMPLE)];
        let Some(end) = line_ends(near, dialect).next() else { return };
        part = &ragged[end + 1..];
    }
}

/// Adds what is seen up to a malformed record; says whether there were stray quotes.
fn scan_part(part: &[u8], dialect: Dialect, evidence: &mut [Evidence]) -> Result<bool, Malformed> {
    let mut records = Records::new(part, dialect, evidence.len());
    while let Some(block) = records.next_block()? {
        for (column, evidence) in evidence.iter_mut().enumerate() {
            evidence.add_column(&block, column);
        }
    }
    Ok(records.saw_stray_quotes())
}

/// Looks at all records from `start` on, but malformed ones.
fn scan_all<R: Read + Seek>(
    source: &mut R,
    start: u64,
    dialect: Dialect,
    evidence: &mut [Evidence],
) -> io::Result<()> {
    source.seek(SeekFrom::Start(start))?;
    let mut bytes = vec![];
    let mut step = STEP;
    loop {
        let before = bytes.len();
        source.by_ref().take(step as u64).read_to_end(&mut bytes)?;
        let ended = bytes.len() - before < step;
        let whole =
            if ended { bytes.len() } else { line_ends(&bytes, dialect).last().map_or(0, |last| last + 1) };
        // An error is the reader's to tell, in the slice it belongs to.
        scan_tolerantly(&bytes[..whole], dialect, evidence);
        bytes.drain(..whole);
        if ended {
            return Ok(());
        }
        // A record longer than a step: read more of it before looking again.
        step = STEP.max(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ColumnType::{Bool, BoolOrMissing, Float64, Int64, UInt64, Utf8};
    use std::fmt::Write as _;
    use std::io::Cursor;

    fn infer(text: &str, has_header: bool, mode: InferMode) -> Schema {
        let dialect = Dialect::new(b',', has_header).unwrap();
        Schema::infer(&mut Cursor::new(text.as_bytes()), dialect, mode).unwrap()
    }

    #[test]
    fn ragged_records_hide_nothing_but_themselves() {
        let mut text = "a,b,c\n".to_owned();
        for record in 0..30_000 {
            match record {
                0 | 7 | 20_000 => text.push_str("x,y\n"),
                9 => text.push_str("1,2,3,4\r\n"),
                _ => text.push_str("1,\"u\nv\",true\n"),
            }
        }
        for mode in [InferMode::Sampled, InferMode::Full] {
            assert_eq!(infer(&text, true, mode).types, [Int64, Utf8, Bool]);
        }
        let short = &text[..2_000];
        assert_eq!(infer(short, true, InferMode::Sampled).types[..2], [Int64, Utf8]);
    }

    #[test]
    fn types_are_those_pandas_gives() {
        let table: [(ColumnType, &[&str]); 33] = [
            (Int64, &["1", "-2"]),
            (Float64, &["1", ""]),
            (UInt64, &["9223372036854775808", "1"]),
            (Utf8, &["9223372036854775808", "-1"]),
            (Utf8, &["9223372036854775808", "-0"]),
            (Utf8, &["9223372036854775808", ""]),
            (Float64, &["9223372036854775808", "1.5"]),
            (Float64, &["9223372036854775808", "-1", "1.5"]),
            (Float64, &["9223372036854775808", "", "1.5"]),
            (Float64, &["9223372036854775808", "inf"]),
            (UInt64, &["18446744073709551615", "+5"]),
            (Utf8, &["18446744073709551615", "abc"]),
            (Utf8, &["18446744073709551616", "1.5"]),
            (Float64, &["1.5", "18446744073709551616"]),
            (Float64, &["-9223372036854775808", ""]),
            (Utf8, &["-9223372036854775809"]),
            (Bool, &["True", "false"]),
            (BoolOrMissing, &["True", ""]),
            (BoolOrMissing, &["NA", "TRUE"]),
            (Utf8, &["True", "1"]),
            (Utf8, &["True", "x"]),
            (Utf8, &["True", "1.0"]),
            (Utf8, &["inf", "True"]),
            (Float64, &["", ""]),
            (Float64, &["NaN", "null"]),
            (Utf8, &["1", "x"]),
            (Float64, &["inf", "1"]),
            (Float64, &["1", "1e400"]),
            (Float64, &[" 1.5 ", "2"]),
            (Int64, &[" 1 ", "2"]),
            (Utf8, &[" ", "2"]),
            (Float64, &["1.0"]),
            (Utf8, &["2020-01-01"]),
        ];
        for (expected, values) in table {
            for quote in ["", "\""] {
                let mut text = String::from("a,b\n");
                for value in values {
                    writeln!(text, "{quote}{value}{quote},x").unwrap();
                }
                for mode in [InferMode::Sampled, InferMode::Full] {
                    assert_eq!(infer(&text, true, mode).types, [expected, Utf8], "{values:?}");
                }
            }
        }
    }

    #[test]
    fn names_come_from_the_header_or_from_the_first_record() {
        assert_eq!(
            infer("\u{feff}\n \na,\"b\nc\"\r\n1,2\n", true, InferMode::Full).names,
            Names::Header(vec!["a".into(), "b\nc".into()])
        );
        assert_eq!(
            infer("\u{feff}\n\n7,8,9", false, InferMode::Sampled),
            Schema::new(Names::Positions(3), vec![Int64; 3])
        );
        assert_eq!(infer("a,b", true, InferMode::Full).types, [Float64, Float64]);
        for text in ["", "\n \n", "\u{feff}", "  "] {
            let error = Schema::infer(&mut Cursor::new(text), Dialect::default(), InferMode::Full);
            assert!(matches!(error, Err(SchemaError::Empty)), "{text:?}: {error:?}");
        }
    }

    #[test]
    fn a_sample_sees_all_parts_of_a_big_file_and_full_sees_all() {
        let mut text = String::from("id,value,note\n");
        for row in 0..300_000 {
            let value = if row > 200_000 { "2.5" } else { "2" };
            let lonely = if row == 100_001 { "x" } else { "3" };
            writeln!(text, "{row},{value},{lonely}").unwrap();
        }
        assert!(text.len() as u64 > 3 * SAMPLES * SAMPLE as u64);
        assert_eq!(infer(&text, true, InferMode::Sampled).types, [Int64, Float64, Int64]);
        assert_eq!(infer(&text, true, InferMode::Full).types, [Int64, Float64, Utf8]);
    }

    #[test]
    fn samples_that_start_inside_quotes_find_their_records() {
        let mut text = String::from("id,note,flag\n");
        for row in 0..20_000 {
            writeln!(
                text,
                "{row},\"some text,\nwith \"\"lines\"\",\nand more, {}\n\",true",
                "words\n".repeat(30)
            )
            .unwrap();
        }
        assert_eq!(infer(&text, true, InferMode::Sampled).types, [Int64, Utf8, Bool]);
    }

    #[test]
    fn ragged_records_do_not_keep_the_types_from_being_found() {
        assert_eq!(infer("a,b\n1,2\n1,2,3\n", true, InferMode::Full).types.len(), 2);
        assert_eq!(infer("a,b\n1,2\n1,2,3\n", true, InferMode::Sampled).types.len(), 2);
    }
}
