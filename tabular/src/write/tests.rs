//! What frames become, as seen with pandas; `tests/pandas.rs` compares many more with pandas itself.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    BooleanArray, DictionaryArray, Float32Array, Float64Array, Int64Array, LargeStringArray, NullArray,
    StringArray, StringViewArray, TimestampMillisecondArray, UInt8Array,
};

use super::*;

fn written(options: &WriteOptions, columns: &[ArrayRef]) -> String {
    let mut out = vec![];
    Writer::new(options).unwrap().write(columns, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn options(separator: u8, na_rep: &str) -> WriteOptions {
    WriteOptions { separator, na_rep: na_rep.to_owned(), ..WriteOptions::default() }
}

#[test]
fn rows_are_written_with_missing_values() {
    let columns: [ArrayRef; 5] = [
        Arc::new(Int64Array::from(vec![Some(1), None])),
        Arc::new(Float64Array::from(vec![f64::NAN, 1.5])),
        Arc::new(StringArray::from(vec![Some("a b"), None])),
        Arc::new(BooleanArray::from(vec![true, false])),
        Arc::new(TimestampMillisecondArray::from(vec![Some(1), None])),
    ];
    let expected = "1  \"a b\" True \"1970-01-01 00:00:00.001\"\n 1.5  False \n";
    assert_eq!(written(&WriteOptions::default(), &columns), expected);
    let expected = "1,n a,a b,True,1970-01-01 00:00:00.001\nn a,1.5,n a,False,n a\n";
    assert_eq!(written(&options(b',', "n a"), &columns), expected);
}

#[test]
fn texts_are_quoted_only_when_they_must_be() {
    let values = vec!["a\rb", "c\r\nd", "e\nf", " ", "\t", "'", "q\"r", "", "\u{e4}"];
    let expected = "a\rb\n\"c\r\nd\"\n\"e\nf\"\n\" \"\n\t\n'\n\"q\"\"r\"\n\"\"\n\u{e4}\n";
    let columns: [ArrayRef; 3] = [
        Arc::new(StringArray::from(values.clone())),
        Arc::new(LargeStringArray::from(values.clone())),
        Arc::new(StringViewArray::from(values)),
    ];
    for column in columns {
        assert_eq!(written(&WriteOptions::default(), &[column]), expected);
    }
    let with_cr = WriteOptions { quote_carriage_return: true, ..WriteOptions::default() };
    assert_eq!(written(&with_cr, &[Arc::new(StringArray::from(vec!["a\rb"]))]), "\"a\rb\"\n");
}

#[test]
fn numbers_that_hold_the_separator_are_quoted() {
    assert_eq!(
        written(&options(b'.', ""), &[Arc::new(Float64Array::from(vec![1.5, 1e300]))]),
        "\"1.5\"\n1e+300\n"
    );
    assert_eq!(
        written(&options(b'u', ""), &[Arc::new(BooleanArray::from(vec![true, false]))]),
        "\"True\"\nFalse\n"
    );
    assert_eq!(written(&options(b'1', ""), &[Arc::new(UInt8Array::from(vec![21, 2]))]), "\"21\"\n2\n");
}

#[test]
fn a_single_empty_field_is_quoted() {
    let column: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some("x")]));
    assert_eq!(written(&WriteOptions::default(), std::slice::from_ref(&column)), "\"\"\n\"\"\nx\n");
    assert_eq!(written(&options(b' ', "N A"), std::slice::from_ref(&column)), "\"\"\n\"N A\"\nx\n");
    assert_eq!(written(&WriteOptions::default(), &[column.clone(), column]), " \n \nx x\n");
}

#[test]
fn the_word_for_missing_is_cut_for_floats_alone() {
    let long = "n".repeat(40);
    let columns: [ArrayRef; 2] =
        [Arc::new(Float32Array::from(vec![None])), Arc::new(Int64Array::from(vec![None]))];
    assert_eq!(written(&options(b' ', &long), &columns), format!("{} {long}\n", &long[..32]));
}

#[test]
fn times_look_alike_within_so_many_cells() {
    let mut times = vec![0; 100_001];
    times[99_999] = 1;
    let text = written(&options(b',', ""), &[Arc::new(TimestampMillisecondArray::from(times))]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines[100_000]), ("1970-01-01 00:00:00.000", "1970-01-01"));
}

#[test]
fn headers_are_fields_like_others() {
    let writer = Writer::new(&WriteOptions::default()).unwrap();
    let header = |names: &[&str]| {
        let mut out = b"before".to_vec();
        writer.write_header(names.iter().copied(), &mut out);
        String::from_utf8(out.split_off(6)).unwrap()
    };
    assert_eq!(header(&["a b", "", "3"]), "\"a b\"  3\n");
    assert_eq!(header(&[""]), "\"\"\n");
    assert_eq!(header(&["", ""]), " \n");
    assert_eq!(header(&[]), "\n");
}

#[test]
fn what_cannot_be_written_is_told() {
    let error = |columns: &[ArrayRef]| {
        Writer::new(&WriteOptions::default()).unwrap().write(columns, &mut vec![]).unwrap_err().to_string()
    };
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let nothing: ArrayRef = Arc::new(NullArray::new(1));
    assert!(!supports(nothing.data_type()));
    assert_eq!(error(&[numbers.clone(), nothing]), "column 1 has type Null, which is not written here");
    assert_eq!(
        error(&[numbers, Arc::new(Int64Array::from(vec![1, 2]))]),
        "column 1 has 2 rows where 1 are expected"
    );
    assert_eq!(error(&[]), "there are no columns to write");
    assert!(Writer::new(&options(b'"', "")).is_err());
}

#[test]
fn slices_of_arrays_are_written_from_their_own_start() {
    let column: ArrayRef = Arc::new(StringArray::from(vec![Some("a b"), Some("c"), None, Some("d e")]));
    assert_eq!(written(&options(b' ', "-"), &[column.slice(1, 3)]), "c\n-\n\"d e\"\n");
}

#[test]
fn words_of_a_dictionary_are_written_as_texts() {
    let words = [Some("a b"), None, Some("c"), Some("a b"), Some("")];
    let column: ArrayRef = Arc::new(words.into_iter().collect::<DictionaryArray<Int8Type>>());
    assert!(supports(column.data_type()));
    assert_eq!(written(&options(b' ', "-"), std::slice::from_ref(&column)), "\"a b\"\n-\nc\n\"a b\"\n\"\"\n");
    assert_eq!(written(&options(b' ', "-"), &[column.slice(2, 2)]), "c\n\"a b\"\n");
    let nothing: ArrayRef = Arc::new([None::<&str>].into_iter().collect::<DictionaryArray<Int8Type>>());
    assert_eq!(written(&options(b' ', "-"), &[nothing]), "-\n");
}
