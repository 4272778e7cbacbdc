//! Compares with pandas itself: what is written byte for byte, what is read value for value.
//!
//! Frames and texts are made from a fixed seed, one Python process answers for all of them
//! (`pandas_oracle.py`), and the answers are compared. The Python is that of the environment
//! variable `PRS_TEST_PYTHON`; it needs pandas and pyarrow. Without it these tests fail.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod random;

use std::ops::ControlFlow;
use std::process::Command;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeStringArray, StringArray, StringViewArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use prs_tabular::{
    ColumnType, Cutting, Dialect, InferMode, NullValues, Schema, Slice, Splitter, TextRules, WriteOptions,
    Writer, read,
};
use random::{Frame, Random, Text};
use serde::Deserialize;

#[derive(Deserialize)]
struct Answers {
    quote_carriage_return: bool,
    float32_exponent_from: f32,
    written: Vec<String>,
    read: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    names: Vec<String>,
    types: Vec<String>,
    columns: Vec<Vec<Option<String>>>,
}

/// Asks pandas about all cases at once.
fn ask(write: &[Frame], read: &[Text]) -> Answers {
    let python = std::env::var_os("PRS_TEST_PYTHON").expect(
        "PRS_TEST_PYTHON is not set: it must name a Python with pandas and pyarrow (`make test` makes one)",
    );
    let folder = tempfile::tempdir().unwrap();
    let (cases, results) = (folder.path().join("cases.json"), folder.path().join("results.json"));
    std::fs::write(&cases, serde_json::json!({ "write": write, "read": read }).to_string()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pandas_oracle.py");
    let status = Command::new(&python).arg(script).args([&cases, &results]).status();
    let status = status.unwrap_or_else(|error| panic!("PRS_TEST_PYTHON={}: {error}", python.display()));
    assert!(status.success(), "pandas_oracle.py failed: {status}");
    serde_json::from_slice(&std::fs::read(&results).unwrap()).unwrap()
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(values: &[Option<String>]) -> Vec<Option<T>> {
    values.iter().map(|value| value.as_ref().map(|text| text.parse().unwrap())).collect()
}

/// The array a description stands for; strings in one of the three layouts by `layout`.
fn array(kind: &str, values: &[Option<String>], layout: usize) -> ArrayRef {
    match kind {
        "int8" => Arc::new(Int8Array::from(parsed(values))),
        "int16" => Arc::new(Int16Array::from(parsed(values))),
        "int32" => Arc::new(Int32Array::from(parsed(values))),
        "int64" => Arc::new(Int64Array::from(parsed(values))),
        "uint8" => Arc::new(UInt8Array::from(parsed(values))),
        "uint16" => Arc::new(UInt16Array::from(parsed(values))),
        "uint32" => Arc::new(UInt32Array::from(parsed(values))),
        "uint64" => Arc::new(UInt64Array::from(parsed(values))),
        "float32" => {
            let bits = parsed::<u32>(values).into_iter();
            Arc::new(bits.map(|bits| bits.map(f32::from_bits)).collect::<Float32Array>())
        }
        "float64" => {
            let bits = parsed::<u64>(values).into_iter();
            Arc::new(bits.map(|bits| bits.map(f64::from_bits)).collect::<Float64Array>())
        }
        "times" => Arc::new(TimestampSecondArray::from(parsed(values))),
        "timems" => Arc::new(TimestampMillisecondArray::from(parsed(values))),
        "timeus" => Arc::new(TimestampMicrosecondArray::from(parsed(values))),
        "timens" => Arc::new(TimestampNanosecondArray::from(parsed(values))),
        "bool" => Arc::new(BooleanArray::from(parsed(values))),
        "category" => Arc::new(values.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>()),
        _ if layout.is_multiple_of(3) => {
            Arc::new(values.iter().map(Option::as_deref).collect::<StringArray>())
        }
        _ if layout % 3 == 1 => Arc::new(values.iter().map(Option::as_deref).collect::<LargeStringArray>()),
        _ => Arc::new(values.iter().map(Option::as_deref).collect::<StringViewArray>()),
    }
}

#[test]
fn frames_are_written_byte_for_byte_as_pandas_writes_them() {
    let mut random = Random::new(20_260_101);
    let mut frames: Vec<Frame> = (0..600).map(|_| Frame::random(&mut random)).collect();
    frames.extend([
        Frame::floats(&mut random, "float64", 60_000),
        Frame::floats(&mut random, "float32", 40_000),
        Frame::float_borders("float64"),
        Frame::float_borders("float32"),
        Frame::times_over_several_chunks(),
    ]);
    let answers = ask(&frames, &[]);
    for (index, (frame, expected)) in frames.iter().zip(&answers.written).enumerate() {
        let options = WriteOptions {
            separator: frame.separator as u8,
            na_rep: frame.na_rep.clone(),
            quote_carriage_return: answers.quote_carriage_return,
            float32_exponent_from: answers.float32_exponent_from,
        };
        let writer = Writer::new(&options).unwrap();
        let columns: Vec<ArrayRef> =
            frame.columns.iter().map(|column| array(column.kind, &column.values, index)).collect();
        let mut out = vec![];
        if let Some(names) = &frame.names {
            writer.write_header(names.iter().map(String::as_str), &mut out);
        }
        writer.write(&columns, &mut out).unwrap();
        let found = String::from_utf8(out).unwrap();
        if found != *expected {
            let (line, (ours, theirs)) = found
                .split('\n')
                .zip(expected.split('\n'))
                .enumerate()
                .find(|(_, (ours, theirs))| ours != theirs)
                .unwrap_or((0, (&found, expected)));
            let kinds: Vec<_> = frame.columns.iter().map(|column| column.kind).collect();
            panic!(
                "frame {index}, columns {kinds:?}, separator {:?}, line {line}:\n  prs {ours:?}\npandas {theirs:?}",
                frame.separator
            );
        }
    }
}

/// The values as the oracle shows them.
fn shown(array: &ArrayRef) -> Vec<Option<String>> {
    let value = |row| {
        if let Some(array) = array.as_primitive_opt::<Int64Type>() {
            array.value(row).to_string()
        } else if let Some(array) = array.as_primitive_opt::<UInt64Type>() {
            array.value(row).to_string()
        } else if let Some(array) = array.as_primitive_opt::<Float64Type>() {
            array.value(row).to_bits().to_string()
        } else if let Some(array) = array.as_boolean_opt() {
            if array.value(row) { "True".to_owned() } else { "False".to_owned() }
        } else {
            array.as_string::<i32>().value(row).to_owned()
        }
    };
    (0..array.len()).map(|row| array.is_valid(row).then(|| value(row))).collect()
}

#[test]
fn texts_are_read_value_for_value_as_pandas_reads_them() {
    let mut random = Random::new(20_260_102);
    let texts: Vec<Text> = (0..2500).map(|_| Text::random(&mut random)).collect();
    let answers = ask(&[], &texts);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.csv");
    for (text, expected) in texts.iter().zip(&answers.read) {
        std::fs::write(&path, &text.content).unwrap();
        let dialect = Dialect::new(text.separator as u8, text.header).unwrap();
        let null_values = NullValues::new(text.null_values.as_deref(), &[]);
        let null_texts = text.null_values.clone().unwrap_or_default();
        let rules = || TextRules { null_values: null_values.clone(), ..TextRules::default() };
        let mut cutting = Cutting::new(&path, Splitter::new(dialect, u64::MAX)).unwrap();
        let mut schema = Schema::infer_while_cutting(&mut cutting, rules(), &|| false).unwrap();
        assert_eq!(
            schema,
            Schema::infer_file(&path, &dialect, rules(), InferMode::Sampled, &|| false).unwrap()
        );
        assert_eq!(schema.names.iter().collect::<Vec<_>>(), expected.names, "{:?}", text.content);
        for (name, dtype) in &text.dtype {
            schema.declare([(name.as_str(), dtype.parse().unwrap())]).unwrap();
        }
        let mut slices: Vec<Slice> = vec![];
        cutting
            .go_on(|slice| {
                slices.push(slice);
                ControlFlow::Continue(())
            })
            .unwrap();
        let bytes = slices
            .first()
            .map_or(&b""[..], |slice| &text.content.as_bytes()[slice.start as usize..slice.end as usize]);
        let batch =
            read(bytes, &dialect, &schema).unwrap_or_else(|error| panic!("{error}: {:?}", text.content));
        assert!(batch.widened.is_empty());
        for (column, array) in batch.columns.iter().enumerate() {
            let found = batch.types[column].to_string();
            // A column of whole numbers beyond 64 bits is one of Python objects there, and text here.
            let big = expected.types[column] == "object" && batch.types[column] == ColumnType::Utf8;
            assert!(
                found == expected.types[column] || big,
                "{found} {}: {:?}",
                expected.types[column],
                text.content
            );
            let mut theirs = expected.columns[column].clone();
            let needs_64_bits = |value: &Option<String>| {
                let digits = value.as_deref().unwrap_or_default().trim();
                digits.parse::<u64>().is_ok_and(|value| i64::try_from(value).is_err())
            };
            if batch.types[column] == ColumnType::Utf8 && theirs.iter().any(needs_64_bits) {
                // There the texts of missing values stay what they are.
                for value in &mut theirs {
                    value.take_if(|value| null_texts.contains(value));
                }
            }
            assert_eq!(shown(array), theirs, "column {column} of {:?}", text.content);
        }
    }
}
