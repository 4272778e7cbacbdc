//! Delimited text: however it is cut, the records are the same.

use std::io::Cursor;

use prs_tabular::{
    ColumnType, Dialect, Header, InferMode, Names, Schema, Slice, SplitError, Splitter, WriteOptions, Writer,
    read,
};
use prs_tests::fuzz::{Target, kind_of};
use prs_tests::harness::Random;

/// Four bytes that say how the rest is read, and a text.
pub(crate) struct Text;

const DELIMITERS: &[u8] = b",;\t| :a1";
const FIELDS: [&str; 24] = [
    "1",
    "-7",
    "18446744073709551615",
    "99999999999999999999",
    "1.5",
    "1e400",
    "inf",
    "NaN",
    "",
    "NA",
    "True",
    "false",
    "a b",
    "\"\"",
    "\"a,b\"",
    "\"a\nb\"",
    "\"a\"\"b\"",
    "\"a\r\nb\"",
    "é",
    "日本",
    " 1 ",
    "\"1\"",
    "x\"y",
    "0x10",
];

impl Target for Text {
    const LONGEST: usize = 8 << 10;
    const WORDS: &'static [&'static [u8]] = &[
        b",",
        b";",
        b"\t",
        b"\"",
        b"\"\"",
        b"\n",
        b"\r\n",
        b"\r",
        b"\n\n",
        b"\xef\xbb\xbf",
        b"NA",
        b"nan",
        b"True",
        b"-1",
        b"\xff",
        b"\0",
        b" ",
    ];

    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        let mut input: Vec<u8> = (0..4).map(|_| random.below(256) as u8).collect();
        input[0] = 0;
        let columns = 1 + random.below(4);
        let end = ["\n", "\r\n"][random.below(2) as usize];
        for _ in 0..random.below(40) {
            let fields: Vec<_> =
                (0..columns).map(|_| FIELDS[random.below(FIELDS.len() as u64) as usize]).collect();
            input.extend_from_slice(fields.join(",").as_bytes());
            input.extend_from_slice(end.as_bytes());
        }
        input
    }

    fn check(&mut self, input: &[u8]) -> String {
        let Some((&[delimiter, header, target, cut], text)) = input.split_first_chunk() else {
            return "too short".to_owned();
        };
        let delimiter = DELIMITERS[usize::from(delimiter) % DELIMITERS.len()];
        let dialect = Dialect::new(delimiter, header % 2 == 0).unwrap();
        let whole = split(dialect, text, u64::MAX, usize::MAX);
        let (slices, header) = match split(dialect, text, u64::from(target), 1 + usize::from(cut)) {
            Ok(found) => found,
            Err(error) => {
                assert_eq!(whole.unwrap_err().to_string(), error.to_string());
                return kind_of(error);
            }
        };
        let (all, whole_header) = whole.unwrap();
        assert_eq!(header.range, whole_header.range);
        for block in [1, 65] {
            let again = split(dialect, text, u64::from(target), block).unwrap();
            assert_eq!((&again.0, again.1.range), (&slices, header.range.clone()));
        }
        assert!(all.len() <= 1 && slices.is_sorted_by_key(|slice| slice.start));
        assert!(slices.iter().all(|slice| slice.records > 0 && slice.start < slice.end));
        assert!(slices.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert_eq!(
            slices.iter().map(|slice| slice.records).sum::<u64>(),
            all.iter().map(|slice| slice.records).sum::<u64>()
        );
        let Some(all) = all.first() else { return "no records".to_owned() };
        let schema = match Schema::infer(&mut Cursor::new(text), dialect, InferMode::Full) {
            Ok(schema) => schema,
            Err(error) => return kind_of(error),
        };
        let _ = Schema::infer(&mut Cursor::new(text), dialect, InferMode::Sampled);
        same_rows(text, dialect, &texts(&schema), &slices, all);
        same_rows(text, dialect, &schema, &slices, all)
    }
}

fn split(
    dialect: Dialect,
    text: &[u8],
    target: u64,
    block: usize,
) -> Result<(Vec<Slice>, Header), SplitError> {
    let mut splitter = Splitter::new(dialect, target);
    let mut slices = Vec::new();
    for block in text.chunks(block) {
        splitter.feed(block, &mut slices);
    }
    let header = splitter.finish(&mut slices)?;
    Ok((slices, header))
}

/// The same columns, all of them text.
fn texts(schema: &Schema) -> Schema {
    let names = match &schema.names {
        Names::Header(names) => Names::Header(names.clone()),
        Names::Positions(count) => Names::Positions(*count),
    };
    Schema::new(names, vec![ColumnType::Utf8; schema.types.len()])
}

/// What is read of the slices is what is read of all at once, where no column had to be widened.
fn same_rows(text: &[u8], dialect: Dialect, schema: &Schema, slices: &[Slice], all: &Slice) -> String {
    let read = |slice: &Slice| read(&text[slice.start as usize..slice.end as usize], &dialect, schema);
    let parts: Result<Vec<_>, _> = slices.iter().map(read).collect();
    let (parts, whole) = match (parts, read(all)) {
        (Ok(parts), Ok(whole)) => (parts, whole),
        (Err(_), Err(error)) => return kind_of(error),
        (parts, whole) => panic!("{:?} in parts, {:?} in one", parts.map(drop), whole.map(drop)),
    };
    for (part, slice) in parts.iter().zip(slices) {
        assert_eq!(part.records as u64, slice.records);
    }
    assert_eq!(whole.records as u64, all.records);
    if parts.iter().chain([&whole]).any(|batch| !batch.widened.is_empty()) {
        return "widened".to_owned();
    }
    let writer =
        Writer::new(&WriteOptions { na_rep: "-missing-".to_owned(), ..WriteOptions::default() }).unwrap();
    let (mut in_parts, mut in_one) = (Vec::new(), Vec::new());
    for part in &parts {
        writer.write(&part.columns, &mut in_parts).unwrap();
    }
    writer.write(&whole.columns, &mut in_one).unwrap();
    assert_eq!(in_parts.escape_ascii().to_string(), in_one.escape_ascii().to_string());
    format!("{:?}", whole.types)
}
