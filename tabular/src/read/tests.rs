//! Tables of small texts, and that a text read in slices is the text read whole.

use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use proptest::prelude::*;

use super::*;
use crate::{InferMode, Names, NullValues, Splitter};
use ColumnType::{Bool, BoolOrMissing, Float64, Int64, UInt64, Utf8};

/// The values of an array as text, `-` for missing ones.
fn shown(array: &ArrayRef) -> Vec<String> {
    (0..array.len())
        .map(|row| {
            if array.is_null(row) {
                "-".to_owned()
            } else if let Some(array) = array.as_primitive_opt::<Int64Type>() {
                array.value(row).to_string()
            } else if let Some(array) = array.as_primitive_opt::<UInt64Type>() {
                array.value(row).to_string()
            } else if let Some(array) = array.as_primitive_opt::<Float64Type>() {
                format!("{:?}", array.value(row))
            } else if let Some(array) = array.as_boolean_opt() {
                array.value(row).to_string()
            } else {
                array.as_string::<i32>().value(row).to_owned()
            }
        })
        .collect()
}

fn schema(types: &[ColumnType]) -> Schema {
    Schema::new(Names::Positions(types.len()), types.to_vec())
}

/// Reads a column of quoted values beside one of text.
fn one_column(found: ColumnType, values: &[&str]) -> (ColumnType, Vec<String>) {
    let (mut text, mut plain) = (String::new(), String::new());
    for value in values {
        writeln!(text, "\"{value}\",x").unwrap();
        write!(plain, "{value},x\r\n").unwrap();
    }
    let batch = read(text.as_bytes(), &Dialect::default(), &schema(&[found, Utf8])).unwrap();
    let other = read(plain.as_bytes(), &Dialect::default(), &schema(&[found, Utf8])).unwrap();
    assert_eq!(shown(&batch.columns[0]), shown(&other.columns[0]));
    assert_eq!(batch.records, values.len());
    assert_eq!(batch.widened, if batch.types[0] == found { vec![] } else { vec![0] });
    assert_eq!(batch.types[1], Utf8);
    (batch.types[0], shown(&batch.columns[0]))
}

#[test]
fn values_that_fit_keep_the_type() {
    assert_eq!(one_column(Int64, &["1", "-2", " +3 "]), (Int64, vec!["1".into(), "-2".into(), "3".into()]));
    assert_eq!(one_column(UInt64, &["18446744073709551615"]), (UInt64, vec!["18446744073709551615".into()]));
    let floats = ["1", "", "1.5", "-inf", "NaN", "1e5"];
    let expected = ["1.0", "-", "1.5", "-inf", "-", "100000.0"].map(String::from).to_vec();
    assert_eq!(one_column(Float64, &floats), (Float64, expected));
    assert_eq!(one_column(Bool, &["True", "false"]), (Bool, vec!["true".into(), "false".into()]));
    assert_eq!(one_column(BoolOrMissing, &["TRUE", "NA"]), (BoolOrMissing, vec!["true".into(), "-".into()]));
    assert_eq!(
        one_column(Utf8, &["1", "NA", "", "ä b"]),
        (Utf8, ["1", "-", "-", "ä b"].map(String::from).to_vec())
    );
}

#[test]
fn values_that_do_not_fit_widen_their_column_only() {
    assert_eq!(one_column(Int64, &["1", "2.5"]), (Float64, vec!["1.0".into(), "2.5".into()]));
    assert_eq!(one_column(Int64, &["1", ""]), (Float64, vec!["1.0".into(), "-".into()]));
    assert_eq!(one_column(Int64, &["1", "9223372036854775808"]).0, UInt64);
    assert_eq!(one_column(Int64, &["-1", "9223372036854775808"]).0, Utf8);
    assert_eq!(one_column(Int64, &["1", "x", ""]), (Utf8, vec!["1".into(), "x".into(), "-".into()]));
    assert_eq!(one_column(UInt64, &["-1"]), (Utf8, vec!["-1".into()]));
    assert_eq!(one_column(Float64, &["1.50", "True"]), (Utf8, vec!["1.50".into(), "True".into()]));
    assert_eq!(one_column(Bool, &["True", ""]), (BoolOrMissing, vec!["true".into(), "-".into()]));
    assert_eq!(one_column(Bool, &["True", "1"]), (Utf8, vec!["True".into(), "1".into()]));
    assert_eq!(one_column(BoolOrMissing, &["yes"]), (Utf8, vec!["yes".into()]));
}

#[test]
fn texts_that_are_missing_come_before_values() {
    let missing = |texts: &[&str], found, values: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        let rules = TextRules { null_values: NullValues::new(Some(&texts), &[]), ..TextRules::default() };
        let schema = Schema { rules, ..schema(&[found, Utf8]) };
        let text = values.iter().map(|value| format!("{value},x\n")).collect::<Vec<_>>().concat();
        let batch = read(text.as_bytes(), &Dialect::default(), &schema).unwrap();
        (batch.types[0], shown(&batch.columns[0]).join(" "))
    };
    assert_eq!(missing(&["-999"], Int64, &["1", "2"]), (Int64, "1 2".to_owned()));
    assert_eq!(missing(&["-999"], Int64, &["1", "-999"]), (Float64, "1.0 -".to_owned()));
    assert_eq!(
        missing(&["-999"], Float64, &["1", "-999.00", "\"-9.99e2\""]),
        (Float64, "1.0 - -".to_owned())
    );
    assert_eq!(
        missing(&["7"], UInt64, &["18446744073709551615", "7"]),
        (Utf8, "18446744073709551615 -".to_owned())
    );
    assert_eq!(missing(&["true"], Bool, &["false", "true"]), (BoolOrMissing, "false -".to_owned()));
    assert_eq!(missing(&[], Float64, &["1", ""]), (Utf8, "1 ".to_owned()));
    assert_eq!(missing(&[""], Utf8, &["NA", "", "null"]), (Utf8, "NA - null".to_owned()));
}

#[test]
fn values_below_nulls_are_nan() {
    let batch = read(b"1\nNA\n", &Dialect::default(), &schema(&[Float64])).unwrap();
    assert!(batch.columns[0].as_primitive::<Float64Type>().values()[1].is_nan());
}

#[test]
fn a_declared_type_is_not_widened() {
    let mut schema = schema(&[Utf8, Int64]);
    schema.declare([("1", Int64)]).unwrap();
    let error = read(b"a,1\nb,\"\"\n", &Dialect::default(), &schema).unwrap_err();
    assert_eq!(
        error.to_string(),
        "value \"\\\"\\\"\" of record 1 does not fit column \"1\", declared as int64"
    );
    assert_eq!(read(b"NA,1\n", &Dialect::default(), &schema).unwrap().columns[0].null_count(), 1);
}

#[test]
fn what_is_wrong_with_a_text_is_told_with_its_place() {
    let error =
        |bytes: &[u8]| read(bytes, &Dialect::default(), &schema(&[Utf8, Int64])).unwrap_err().to_string();
    assert_eq!(error(b"a,1\nb\n"), "ragged row: record 1 at byte 4 has 1 fields where 2 are expected");
    assert_eq!(error(b"a,1\nb,2,3\n"), "ragged row: record 1 at byte 4 has 3 fields where 2 are expected");
    assert_eq!(
        error(b"a,1\nb\xff,2\n"),
        "bad UTF-8 at byte 5: where the text has another encoding, give it (encoding: latin1)"
    );
    assert_eq!(error(b"a,1\n\"b,2\n"), "the quote opened at byte 4 is never closed");
}

#[test]
fn nothing_gives_empty_columns() {
    for text in ["", "\n \n"] {
        let batch = read(text.as_bytes(), &Dialect::default(), &schema(&[Utf8, Int64, Bool])).unwrap();
        assert_eq!((batch.records, batch.columns.len(), batch.columns[0].len()), (0, 3, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn slices_together_are_the_whole(
        rows in prop::collection::vec(("-?[0-9]{1,19}", "([0-9]{1,3}\\.[0-9]{1,3}|NA|)", "[a-c,\"\n]{0,40}"), 1..80),
        target in 1u64..3000,
    ) {
        let mut text = String::from("a,b,c\n");
        for (a, b, c) in &rows {
            writeln!(text, "{a},{b},\"{}\"", c.replace('"', "\"\"")).unwrap();
        }
        let dialect = Dialect::default();
        let schema = Schema::infer(&mut std::io::Cursor::new(&text), dialect, InferMode::Full).unwrap();
        let mut slices = vec![];
        let mut splitter = Splitter::new(dialect, target);
        splitter.feed(text.as_bytes(), &mut slices);
        splitter.finish(&mut slices).unwrap();
        let whole = read(&text.as_bytes()[6..], &dialect, &schema).unwrap();
        prop_assert_eq!(whole.records, rows.len());
        prop_assert!(whole.widened.is_empty());
        let mut parts = vec![vec![]; 3];
        for slice in slices {
            let part = read(&text.as_bytes()[slice.start as usize..slice.end as usize], &dialect, &schema).unwrap();
            prop_assert_eq!(part.records as u64, slice.records);
            for (all, column) in parts.iter_mut().zip(&part.columns) {
                all.extend(shown(column));
            }
        }
        prop_assert_eq!(parts, whole.columns.iter().map(shown).collect::<Vec<_>>());
    }

    #[test]
    fn the_records_are_those_the_splitter_counted(
        text in "([ab \t,\"\r\n]|\r\n|\"\"|\n\"[^\"]{0,70}\"|[a-z]{60,70}){0,60}",
        target in 0u64..300,
    ) {
        // With a delimiter that never occurs no record is ragged.
        let dialect = Dialect::new(b'|', false).unwrap();
        let text = text.replace('|', "").into_bytes();
        let mut slices = vec![];
        let mut splitter = Splitter::new(dialect, target);
        splitter.feed(&text, &mut slices);
        if splitter.finish(&mut slices).is_ok() {
            let whole = read(&text, &dialect, &schema(&[Utf8])).unwrap();
            let mut parts = vec![];
            for slice in slices {
                let part = read(&text[slice.start as usize..slice.end as usize], &dialect, &schema(&[Utf8])).unwrap();
                prop_assert_eq!(part.records as u64, slice.records);
                parts.extend(shown(&part.columns[0]));
            }
            prop_assert_eq!(parts, shown(&whole.columns[0]));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(prop::sample::select(b"a1.,\"\r\n \xc3\xa9-".to_vec()), 0..300),
        types in prop::collection::vec(prop::sample::select(vec![Int64, UInt64, Float64, Bool, BoolOrMissing, Utf8]), 0..4),
    ) {
        if let Ok(batch) = read(&bytes, &Dialect::default(), &schema(&types)) {
            prop_assert!(batch.columns.iter().all(|column| column.len() == batch.records));
        }
        for mode in [InferMode::Full, InferMode::Sampled] {
            let _ = Schema::infer(&mut std::io::Cursor::new(&bytes), Dialect::default(), mode);
        }
    }
}
