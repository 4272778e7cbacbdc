//! Types that go together, and files that the reader of the crate `parquet` understands; pandas reads some in
//! `tests/tests/fleet/parquet_output.rs`.

use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ::parquet::file::metadata::RowGroupMetaData;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int64Array, ListArray, NullArray, RecordBatch,
    StringArray, StructArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use bytes::Bytes;
use proptest::prelude::*;

use super::header::FrameSchema;
use super::pandas::Pandas;
use super::types::{MISSING, ORDER, described, merged, normal};
use super::*;

fn field(data_type: DataType) -> Field {
    normal(&Field::new("a", data_type, true))
}

fn structure(names: &[(&str, DataType)]) -> DataType {
    let fields = names.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    DataType::Struct(fields.collect::<Fields>())
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn categories() -> DataType {
    DataType::Dictionary(DataType::Int8.into(), DataType::LargeUtf8.into())
}

#[test]
fn a_type_holds_the_values_of_two_or_there_is_none() {
    use DataType::{
        Boolean, Decimal128, Decimal256, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8,
        Null, Timestamp, UInt8, UInt32, UInt64, Utf8,
    };
    let time = |unit, zone: Option<&str>| Timestamp(unit, zone.map(Into::into));
    let table = [
        (Null, Int64, Some(Int64)),
        (Null, Null, Some(Null)),
        (Int8, Int32, Some(Int32)),
        (UInt8, Int8, Some(Int16)),
        (UInt32, Int8, Some(Int64)),
        (UInt64, Int8, None),
        (Int64, Float64, Some(Float64)),
        (Int64, Float32, Some(Float64)),
        (Int8, Float16, Some(Float16)),
        (Int16, Float16, Some(Float32)),
        (Float16, Float32, Some(Float32)),
        (Boolean, Int8, None),
        (Int64, Utf8, None),
        (Utf8, LargeUtf8, Some(LargeUtf8)),
        (Utf8, categories(), Some(Utf8)),
        (categories(), Null, Some(DataType::Dictionary(Int32.into(), Utf8.into()))),
        (DataType::Dictionary(Int8.into(), Int64.into()), Int8, Some(Int64)),
        (Decimal128(4, 2), Decimal128(10, 1), Some(Decimal128(11, 2))),
        (Decimal128(38, 0), Decimal128(10, 8), Some(Decimal256(46, 8))),
        (DataType::Date64, DataType::Date32, Some(DataType::Date32)),
        (
            time(TimeUnit::Second, None),
            time(TimeUnit::Nanosecond, None),
            Some(time(TimeUnit::Nanosecond, None)),
        ),
        (time(TimeUnit::Second, None), time(TimeUnit::Second, None), Some(time(TimeUnit::Millisecond, None))),
        (time(TimeUnit::Second, None), time(TimeUnit::Second, Some("UTC")), None),
        (list(Null), list(Int8), Some(list(Int8))),
        (list(Int8), list(Utf8), None),
        (list(Int8), Int8, None),
        (
            structure(&[("x", Int8), ("y", Null)]),
            structure(&[("z", Utf8), ("x", Int64)]),
            Some(structure(&[("x", Int64), ("y", Null), ("z", Utf8)])),
        ),
        (structure(&[("x", Int8)]), structure(&[("x", Boolean)]), None),
    ];
    for (one, other, expected) in table {
        for (first, second) in [(&one, &other), (&other, &one)] {
            let found = merged(&field(first.clone()), &field(second.clone()));
            let found = found.map(|field| field.data_type().clone());
            // The order of keys is that of their first appearance.
            if !matches!(one, DataType::Struct(_)) || first == &one {
                assert_eq!(found, expected, "{first} and {second}");
            } else {
                assert_eq!(found.is_some(), expected.is_some(), "{first} and {second}");
            }
        }
    }
}

#[test]
fn orders_and_types_of_pandas_must_be_the_same() {
    let ordered = |order: &str| {
        let field = Field::new("a", categories(), true).with_dict_is_ordered(true);
        normal(&field.with_metadata(
            [(ORDER.to_owned(), order.to_owned())].into_iter().collect::<std::collections::HashMap<_, _>>(),
        ))
    };
    assert!(merged(&ordered("s < l"), &ordered("s < l")).unwrap().dict_is_ordered().unwrap());
    assert_eq!(merged(&ordered("s < l"), &ordered("l < s")), None);
    assert_eq!(merged(&ordered("s < l"), &field(categories())), None);
    assert_eq!(merged(&ordered("s < l"), &field(DataType::Utf8)).unwrap().data_type(), &DataType::Utf8);
    let period = field(DataType::Int64).with_metadata(
        [("ARROW:extension:name".to_owned(), "pandas.period".to_owned())]
            .into_iter()
            .collect::<std::collections::HashMap<_, _>>(),
    );
    assert_eq!(merged(&period, &field(DataType::Int64)), None);
    assert_eq!(merged(&field(DataType::Null), &period), Some(period.clone()));
    let missing = |field: Field| {
        let marks = field.metadata().iter().map(|(key, value)| (key.clone(), value.clone()));
        let marks: std::collections::HashMap<_, _> =
            marks.chain([(MISSING.to_owned(), String::new())]).collect();
        field.with_metadata(marks)
    };
    let fields = [ordered("s < l"), ordered("l < s"), period, field(DataType::Int64), field(DataType::Utf8)];
    for (one, other) in fields.iter().flat_map(|one| fields.iter().map(move |other| (one, other))) {
        assert_eq!(merged(&missing(one.clone()), other).as_ref(), Some(other));
        assert_eq!(merged(other, &missing(one.clone())).as_ref(), Some(other));
        let neither = missing(one.clone());
        assert_eq!(merged(&neither, &missing(other.clone())), Some(neither));
    }
}

#[test]
fn types_are_called_as_in_pandas() {
    let time = |unit, zone: Option<&str>| field(DataType::Timestamp(unit, zone.map(Into::into)));
    let extension = |name: &str, details: &str| {
        let metadata = [("ARROW:extension:name", name), ("ARROW:extension:metadata", details)];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
        field(DataType::Int64)
            .with_metadata(metadata.into_iter().collect::<std::collections::HashMap<_, _>>())
    };
    let order = [(ORDER.to_owned(), "s < l".to_owned())];
    let ordered =
        field(categories()).with_metadata(order.into_iter().collect::<std::collections::HashMap<_, _>>());
    for (field, expected) in [
        (field(DataType::Float64), "float64"),
        (field(categories()), "category"),
        (ordered, "category (s < l)"),
        (time(TimeUnit::Microsecond, None), "datetime64[us]"),
        (time(TimeUnit::Nanosecond, Some("UTC")), "datetime64[ns, UTC]"),
        (field(DataType::Duration(TimeUnit::Microsecond)), "timedelta64[us]"),
        (extension("pandas.period", r#"{"freq": "M"}"#), "period[M]"),
        (
            extension("pandas.interval", r#"{"subtype": "int64", "closed": "right"}"#),
            "interval[int64, right]",
        ),
        (extension("arrow.json", ""), "arrow.json"),
        (extension("own.type", "details"), "own.type details"),
    ] {
        assert_eq!(described(&field), expected);
    }
}

#[test]
fn what_does_not_fit_is_told_of_the_first_frame_that_has_it() {
    let of = |types: &[DataType]| {
        let frames = types.iter().map(|kind| FrameSchema {
            fields: vec![field(DataType::Utf8).with_name("t"), field(kind.clone())],
            pandas: Pandas::default(),
        });
        let frames: Vec<_> = frames.collect();
        let frames: Vec<_> = (3..).zip(&frames).collect();
        unify(&frames).unwrap_err()
    };
    let Misfit::Types { column, first, later } = of(&[DataType::UInt32, DataType::Int8, DataType::UInt64])
    else {
        panic!("it has types that differ");
    };
    assert_eq!((column.as_str(), first, later), ("a", (4, "int8".to_owned()), (5, "uint64".to_owned())));
    let Misfit::Refused { column, first, error } = of(&[DataType::Null, DataType::Decimal128(3, -2)]) else {
        panic!("Parquet has no such decimals");
    };
    assert_eq!((column.as_str(), first), ("a", 4));
    assert!(error.contains("scale"), "{error}");
}

type Columns = Vec<(&'static str, ArrayRef)>;

/// A frame, and its schema.
fn frame(columns: Columns) -> (FrameSchema, Bytes) {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    );
    let batch = batch.unwrap();
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let is_missing = column.logical_null_count() == column.len();
        let marks: std::collections::HashMap<_, _> =
            is_missing.then(|| (MISSING.to_owned(), String::new())).into_iter().collect();
        normal(&field.as_ref().clone().with_metadata(marks))
    });
    (FrameSchema { fields: fields.collect(), pandas: Pandas::default() }, writer.into_inner().unwrap().into())
}

/// The file of these frames, read again.
fn written(frames: Vec<Columns>) -> RecordBatch {
    let frames: Vec<_> = frames.into_iter().map(frame).collect();
    let schemas: Vec<_> = frames.iter().zip(0..).map(|((schema, _), number)| (number, schema)).collect();
    let mut file = FileWriter::new(unify(&schemas).unwrap()).unwrap();
    let mut bytes = Vec::new();
    for (_, frame) in &frames {
        file.add(frame.clone()).unwrap();
        bytes.extend(file.take_written().unwrap());
    }
    bytes.extend(file.finish().unwrap());
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    let reader = reader.with_batch_size(1 << 20).build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    assert_eq!(batches.len(), 1);
    batches[0].clone()
}

#[test]
fn frames_of_several_schemas_become_one_table() {
    let list = |items: Vec<Vec<Option<i64>>>| {
        let items = items.into_iter().map(Some);
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(items)) as ArrayRef
    };
    let nested = |name: &str, value: ArrayRef| {
        Arc::new(StructArray::try_from(vec![(name, value)]).unwrap()) as ArrayRef
    };
    let table = written(vec![
        vec![
            ("a", Arc::new(Int64Array::from(vec![Some(1), None]))),
            ("l", list(vec![vec![Some(1), None], vec![]])),
            ("s", nested("x", Arc::new(Int64Array::from(vec![1, 2])))),
        ],
        vec![
            ("new", Arc::new(StringArray::from(vec!["text"]))),
            ("a", Arc::new(Float64Array::from(vec![2.5]))),
            ("s", nested("y", Arc::new(StringArray::from(vec!["y"])))),
            ("n", Arc::new(NullArray::new(1))),
        ],
    ]);
    let names: Vec<_> = table.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["a", "l", "s", "new", "n"]);
    let a: Vec<_> = table["a"].as_primitive::<Float64Type>().iter().collect();
    assert_eq!(a, [Some(1.0), None, Some(2.5)]);
    assert_eq!(table["l"].as_list::<i32>().value_length(0), 2);
    assert!(table["l"].is_null(2));
    let s = table["s"].as_struct();
    assert_eq!(s.column_by_name("x").unwrap().null_count(), 1);
    assert_eq!(s.column_by_name("y").unwrap().as_string::<i32>().value(2), "y");
    assert_eq!(table["new"].as_string::<i32>().iter().collect::<Vec<_>>(), [None, None, Some("text")]);
}

#[test]
fn a_column_without_a_value_goes_with_any_type() {
    // One more than the whole numbers that a float64 has.
    let id = (1 << 53) + 1;
    let nothing = || Arc::new(Float64Array::from(vec![None, None])) as ArrayRef;
    let texts = |texts: Vec<&str>| Arc::new(StringArray::from(texts)) as ArrayRef;
    let empty = vec![("id", nothing()), ("t", nothing()), ("c", nothing()), ("none", nothing())];
    let whole = vec![
        ("id", Arc::new(Int64Array::from(vec![id])) as ArrayRef),
        ("t", texts(vec!["text"])),
        ("c", categorical(&[Some(0)], &["x"])),
        ("none", Arc::new(NullArray::new(1))),
    ];
    let mut no_texts = empty.clone();
    no_texts[0].1 = categorical(&[None, None], &["x"]);
    let several = vec![empty.clone(), whole.clone(), empty.clone(), no_texts.clone()];
    for (frames, at) in [(several, 2), (vec![whole.clone(), no_texts.clone()], 0), (vec![no_texts, whole], 2)]
    {
        let table = written(frames);
        assert_eq!(table["id"].as_primitive::<Int64Type>().value(at), id);
        assert_eq!(table["t"].as_string::<i32>().value(at), "text");
        assert!(matches!(table["c"].data_type(), DataType::Dictionary(..)));
        let schema = table.schema();
        for (field, column) in schema.fields().iter().zip(table.columns()) {
            let nulls = usize::from(field.name() != "none");
            assert_eq!(column.len() - column.logical_null_count(), nulls, "{field}");
            assert!(field.metadata().is_empty(), "{field}");
        }
    }
    assert_eq!(written(vec![empty])["id"].data_type(), &DataType::Float64);
}

#[test]
fn a_row_group_ends_behind_the_batch_that_fills_it() {
    let column: ArrayRef = Arc::new(arrow_array::Int8Array::from(vec![0; 700_000]));
    let batch = RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    for _ in 0..3 {
        stream.write(&batch).unwrap();
    }
    let schema = FrameSchema { fields: vec![field(DataType::Int8)], pandas: Pandas::default() };
    let mut file = FileWriter::new(unify(&[(0, &schema)]).unwrap()).unwrap();
    file.add(stream.into_inner().unwrap().into()).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.finish().unwrap()).unwrap();
    let rows: Vec<i64> = reader.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(rows, [1_400_000, 700_000]);
}

fn categorical(codes: &[Option<i8>], values: &[&str]) -> ArrayRef {
    let keys = codes.iter().copied().collect::<arrow_array::PrimitiveArray<Int8Type>>();
    Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(values.to_vec()))))
}

fn texts(table: &RecordBatch) -> Vec<Option<String>> {
    let plain = arrow_cast::cast(&table["a"], &DataType::Utf8).unwrap();
    plain.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}

#[test]
fn categories_of_all_frames_are_in_one_dictionary() {
    let table = written(vec![
        vec![("a", categorical(&[Some(2), None], &["z", "", "x"]))],
        vec![("a", Arc::new(NullArray::new(1)))],
        vec![("a", categorical(&[Some(0), Some(1)], &["y", "z"]))],
    ]);
    let expected = [Some("x"), None, None, Some("y"), Some("z")];
    assert_eq!(texts(&table), expected.map(|text| text.map(str::to_owned)));
    assert!(matches!(table["a"].data_type(), DataType::Dictionary(..)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Runs of a code, of single ones and of nulls, in all widths and over several pages.
    #[test]
    fn any_codes_are_read_again(
        runs in prop::collection::vec((prop::option::of(0i8..100), 1usize..40), 0..40),
        most in 1usize..100,
        repeat in prop::sample::select(vec![1usize, 300]),
    ) {
        let values: Vec<String> = (0..most).map(|value| format!("category {value}")).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let runs = runs.iter().map(|(code, times)| (code.map(|code| code % most as i8), *times));
        let once: Vec<Option<i8>> = runs.flat_map(|(code, times)| std::iter::repeat_n(code, times)).collect();
        let mut codes = once.repeat(repeat);
        codes.push(None);
        let expected: Vec<_> =
            codes.iter().map(|code| code.map(|code| values[code as usize].to_owned())).collect();
        let table = written(vec![vec![("a", categorical(&codes, &values))]]);
        prop_assert_eq!(texts(&table), expected);
    }
}

#[test]
fn rows_are_shown_as_text() {
    let (_, frame) = frame(vec![
        ("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
        ("b", Arc::new(StringArray::from(vec!["x\ny", "z", "z"]))),
    ]);
    let shown = shown(frame, 2).unwrap();
    assert_eq!(
        (shown.header.as_str(), shown.rows),
        ("a, b", vec!["1, x\\ny".to_owned(), "null, z".to_owned()])
    );
}

#[test]
fn what_is_no_frame_is_an_error() {
    for header in ["", "!", "AAAA", "KLUv/SAA"] {
        assert!(FrameSchema::decode(header).is_err(), "{header}");
    }
    let (schema, whole) = frame(vec![("a", Arc::new(Int64Array::from(vec![1])))]);
    for frame in [Bytes::new(), Bytes::from_static(b"text\n"), whole.slice(..whole.len() / 2)] {
        let mut file = FileWriter::new(unify(&[(0, &schema)]).unwrap()).unwrap();
        assert!(file.add(frame).is_err());
    }
}
