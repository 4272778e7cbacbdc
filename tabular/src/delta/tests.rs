#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::file::properties::WriterProperties;
use arrow_array::builder::{ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{Field, Fields};
use bytes::Bytes;

use super::*;

const SCHEMA: &str = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"day\",\"type\":\"date\",\"nullable\":true,\"metadata\":{}},{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"tags\",\"type\":{\"type\":\"array\",\"elementType\":\"string\",\"containsNull\":true},\"nullable\":true,\"metadata\":{}}]}"#;

fn protocol(reader: u64, features: &str) -> String {
    format!(r#"{{"protocol":{{"minReaderVersion":{reader},"minWriterVersion":2{features}}}}}"#)
}

fn metadata(settings: &str) -> String {
    format!(
        r#"{{"metaData":{{"id":"x","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{SCHEMA}","partitionColumns":["day"],"configuration":{{{settings}}},"createdTime":1}}}}"#
    )
}

fn add(path: &str, day: &str) -> String {
    format!(
        r#"{{"add":{{"path":"{path}","partitionValues":{{"day":{day}}},"size":7,"modificationTime":1,"dataChange":true,"stats":"{{}}"}}}}"#
    )
}

fn remove(path: &str) -> String {
    format!(r#"{{"remove":{{"path":"{path}","deletionTimestamp":1,"dataChange":true}}}}"#)
}

/// The first commit of a plain table, with these lines behind.
fn begun(more: &[String]) -> Vec<String> {
    let first = [r#"{"commitInfo":{"timestamp":1}}"#.to_owned(), protocol(1, ""), metadata("")];
    first.into_iter().chain(more.iter().cloned()).collect()
}

fn replayed(commits: &[Vec<String>]) -> Result<Snapshot, DeltaError> {
    let mut replay = Replay::default();
    for (version, lines) in (0..).zip(commits) {
        replay.add(&commit_name(version), Bytes::from(lines.join("\n")))?;
    }
    replay.finish(commits.len() as u64 - 1)
}

fn paths(snapshot: &Snapshot) -> Vec<(&str, Option<&str>)> {
    snapshot.files.iter().map(|file| (&*file.path, file.partition[0].as_deref())).collect()
}

/// As Delta Live Tables begin a table.
fn without_columns() -> String {
    r#"{"metaData":{"id":"x","format":{"provider":"parquet"},"partitionColumns":[],"configuration":{}}}"#
        .to_owned()
}

#[test]
fn a_table_may_get_its_columns_after_its_first_version() {
    let add = add("a.parquet", r#""2024-01-02""#);
    let commits = [vec![protocol(1, ""), without_columns()], vec![metadata("")], vec![add]];
    assert_eq!(paths(&replayed(&commits).unwrap()), [("a.parquet", Some("2024-01-02"))]);
    let error = replayed(&commits[..1]).unwrap_err().to_string();
    assert!(error.contains("has no schemaString"), "{error}");
}

#[test]
fn the_last_word_on_each_file_counts() {
    let commits = [
        begun(&[
            add("day=2024-01-02/b.parquet", r#""2024-01-02""#),
            add("day=2024-01-01/a.parquet", r#""2024-01-01""#),
        ]),
        vec![remove("day=2024-01-02/b.parquet"), add("a%20b%2525.parquet", r#""""#), String::new()],
        vec![add("0.parquet", "null"), r#"{"txn":{"appId":"x","version":1}}"#.to_owned(), remove("absent")],
        vec![remove("0.parquet"), add("day=2024-01-02/b.parquet", r#""2024-01-02""#)],
    ];
    let snapshot = replayed(&commits).unwrap();
    assert_eq!(
        paths(&snapshot),
        [
            ("a b%25.parquet", None),
            ("day=2024-01-01/a.parquet", Some("2024-01-01")),
            ("day=2024-01-02/b.parquet", Some("2024-01-02")),
        ]
    );
    let columns: Vec<_> =
        snapshot.columns.iter().map(|one| (&*one.name, &*one.kind, one.is_partition)).collect();
    assert_eq!(columns[..2], [("day", r#""date""#, true), ("id", r#""long""#, false)]);
    assert!(columns[2].1.contains(r#""elementType":"string""#), "{columns:?}");
    assert_eq!(paths(&replayed(&commits[..3]).unwrap())[0], ("0.parquet", None));
}

#[test]
fn what_is_not_read_is_refused_by_its_name() {
    let deleted = add("a.parquet", "null").replace(
        r#""stats""#,
        r#""deletionVector":{"storageType":"u","pathOrInlineDv":"ab","offset":1,"sizeInBytes":4,"cardinality":1},"stats""#,
    );
    let with = |reader, features: &str, settings: &str, more: &str| {
        vec![vec![protocol(reader, features), metadata(settings), more.to_owned()]]
    };
    let file = add("a.parquet", "null");
    for (commits, says) in [
        (with(4, "", "", &file), "readers of version 4"),
        (
            with(3, r#","readerFeatures":["timestampNtz","catalogManaged","x"]"#, "", &file),
            "with catalogManaged, x, which are not read: run ALTER TABLE ... DROP FEATURE",
        ),
        (with(2, "", r#""delta.columnMapping.mode":"name""#, &file), "delta.columnMapping.mode = name"),
        (
            with(3, r#","readerFeatures":["deletionVectors"]"#, "", &deleted),
            "a.parquet has deleted rows that are noted beside it (deletionVectors), which is not read, and 1 of its 1 files do: run REORG TABLE",
        ),
        (
            with(1, "", "", &add("s3://other/a.parquet", "null")),
            "names s3://other/a.parquet, which is not below",
        ),
        (with(1, "", "", &add("file:/a.parquet", "null")), "names file:/a.parquet, which is not below"),
        (with(1, "", "", &add("/a.parquet", "null")), "names /a.parquet, which is not below"),
        (
            with(1, "", "", &add("a%zz", "null")),
            "00000000000000000000.json: the path \"a%zz\" is not percent-encoded",
        ),
        (vec![vec![protocol(1, ""), file.clone()]], "up to version 0 has no metaData"),
        (vec![vec![metadata(""), file.clone()]], "up to version 0 has no protocol"),
        (vec![vec![protocol(1, ""), without_columns(), file.clone()]], "up to version 0 has no schemaString"),
        (
            vec![begun(&[]), vec!["{\"add\":{\"path\"".to_owned()]],
            "00000000000000000001.json, line 1: it is no action: EOF",
        ),
        (
            vec![begun(&[r#"{"add":{"size":1}}"#.to_owned()])],
            ".json, line 4: it is no action: missing field `path`",
        ),
        (vec![begun(&[]), vec![String::new()]], "00000000000000000001.json: it is empty: bring back"),
        (
            vec![vec![protocol(1, ""), metadata("").replace("[\"day\"]", "[\"tags\"]"), file.clone()]],
            "the partition column \"tags\" is of type {",
        ),
        (
            vec![vec![protocol(1, ""), metadata("").replace("[\"day\"]", "[\"z\"]"), file.clone()]],
            "the partition column \"z\" is not in schemaString",
        ),
        (vec![vec![protocol(1, ""), metadata("").replace("\"parquet\"", "\"orc\"")]], "its files are orc"),
    ] {
        let error = replayed(&commits).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    // What a table only may have, and has not.
    let features = r#","readerFeatures":["deletionVectors","columnMapping","v2Checkpoint","timestampNtz"]"#;
    let purged = format!(
        "{deleted}\n{}",
        remove("a.parquet").replace(
            "\"dataChange\"",
            r#""deletionVector":{"storageType":"u","pathOrInlineDv":"ab","offset":1},"dataChange""#
        )
    );
    for more in [file.clone(), format!("{purged}\n{file}")] {
        assert_eq!(
            replayed(&with(3, features, r#""delta.columnMapping.mode":"none""#, &more)).unwrap().files.len(),
            1
        );
    }
}

/// A log of files of these names.
fn log(names: &[&str]) -> Log {
    let mut log = Log::default();
    for name in names {
        log.add(name);
    }
    log
}

fn commits(versions: std::ops::RangeInclusive<u64>) -> Vec<String> {
    versions.map(commit_name).collect()
}

#[test]
fn a_version_takes_the_last_whole_checkpoint_and_the_commits_behind() {
    let mut names = commits(0..=12);
    names.extend(
        [
            "00000000000000000004.checkpoint.parquet",
            "00000000000000000008.checkpoint.0000000001.0000000002.parquet",
            "00000000000000000008.checkpoint.0000000002.0000000002.parquet",
            "00000000000000000010.checkpoint.0000000002.0000000002.parquet",
            "_last_checkpoint",
            "00000000000000000003.crc",
            "00000000000000000001.00000000000000000003.compacted.json",
            ".00000000000000000013.json.crc",
            "0000000000000000001x.json",
            "_commits/00000000000000000013.uuid.json",
        ]
        .map(str::to_owned),
    );
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let all = log(&names);
    assert_eq!(all.versions(), Ok((0, 12)));
    let of = |log: &Log, version| log.files_of(version).unwrap();
    assert_eq!(of(&all, 3), commits(0..=3));
    assert_eq!(of(&all, 4), ["00000000000000000004.checkpoint.parquet"]);
    assert_eq!(
        of(&all, 11)[..3],
        [
            "00000000000000000008.checkpoint.0000000001.0000000002.parquet",
            "00000000000000000008.checkpoint.0000000002.0000000002.parquet",
            "00000000000000000009.json"
        ]
    );
    assert_eq!(of(&all, 11).len(), 5);
    // Old commits are gone.
    let cleaned: Vec<&str> = names
        .iter()
        .filter(|name| **name > "00000000000000000004.a" || name.starts_with('_'))
        .copied()
        .collect();
    let mut cleaned = log(&cleaned);
    assert_eq!(cleaned.versions(), Ok((4, 12)));
    let error = cleaned.files_of(3).unwrap_err().to_string();
    assert!(error.contains("there is no version 3: the versions that its log tells are 4 to 12"), "{error}");
    assert!(cleaned.files_of(13).unwrap_err().to_string().contains("4 to 12"));
    cleaned.add(&commit_name(14));
    let error = cleaned.files_of(14).unwrap_err().to_string();
    assert!(
        error.contains("version 14 takes _delta_log/00000000000000000013.json, which is not there"),
        "{error}"
    );
    assert_eq!(log(&["_last_checkpoint"]).versions(), Err(DeltaError::NoLog));
    let error = log(&["00000000000000000005.json"]).files_of(5).unwrap_err().to_string();
    assert!(error.contains("takes _delta_log/00000000000000000000.json"), "{error}");
    let v2 = "00000000000000000005.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json";
    for names in [
        vec![v2, "00000000000000000006.json"],
        vec![v2],
        vec!["00000000000000000002.checkpoint.parquet", v2, "00000000000000000006.json"],
    ] {
        let log = log(&names);
        let error = log.files_of(6).or_else(|_| log.files_of(5)).unwrap_err().to_string();
        assert!(error.contains("form v2") || error.contains("no version"), "{error}");
    }
    let both = log(&["00000000000000000002.checkpoint.parquet", v2, "00000000000000000006.json"]);
    assert_eq!(both.files_of(6), Err(DeltaError::V2Checkpoint(6)));
}

/// A struct that is there in these rows alone.
fn of_rows(fields: Vec<(&str, ArrayRef)>, is_there: &[bool]) -> ArrayRef {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = fields
        .into_iter()
        .map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array))
        .unzip();
    Arc::new(StructArray::new(Fields::from(fields), arrays, Some(NullBuffer::from(is_there.to_vec()))))
}

fn map(rows: &[&[(&str, Option<&str>)]]) -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in rows {
        for (key, value) in *row {
            builder.keys().append_value(key);
            builder.values().append_option(*value);
        }
        builder.append(true).unwrap();
    }
    Arc::new(builder.finish())
}

/// A checkpoint of four actions, with what nobody reads beside them; and, in the form v2, one that names a sidecar.
fn checkpoint(has_sidecar: bool) -> Bytes {
    let text = |values: [Option<&str>; 4]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let mut partition_columns = ListBuilder::new(StringBuilder::new());
    for row in 0..4 {
        if row == 1 {
            partition_columns.values().append_value("day");
        }
        partition_columns.append(true);
    }
    let partition_columns: ArrayRef = Arc::new(partition_columns.finish());
    let day: &[(&str, Option<&str>)] = &[("day", Some("2024-01-01"))];
    let add = of_rows(
        vec![
            ("path", text([None, None, Some("day=2024-01-01/a%20b.parquet"), Some("n.parquet")])),
            ("partitionValues", map(&[&[], &[], day, &[("day", None)]])),
            ("size", Arc::new(Int64Array::from(vec![None, None, Some(5), Some(6)]))),
            ("stats", text([None, None, Some("{}"), None])),
        ],
        &[false, false, true, true],
    );
    let protocol = of_rows(
        vec![("minReaderVersion", Arc::new(Int32Array::from(vec![Some(1), None, None, None])) as ArrayRef)],
        &[true, false, false, false],
    );
    let metadata = of_rows(
        vec![
            ("id", text([None, Some("x"), None, None])),
            ("schemaString", text([None, Some(&SCHEMA.replace("\\\"", "\"")), None, None])),
            ("partitionColumns", partition_columns),
            ("configuration", map(&[&[], &[("delta.enableInCommitTimestamps", Some("true"))], &[], &[]])),
        ],
        &[false, true, false, false],
    );
    let mut columns = vec![("protocol", protocol), ("metaData", metadata), ("add", add)];
    let sidecar = of_rows(
        vec![("path", text([Some("s.parquet"), None, None, None]))],
        &[has_sidecar, false, false, false],
    );
    columns.push(("sidecar", sidecar));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file.into()
}

#[test]
fn a_checkpoint_is_its_actions() {
    let name = "00000000000000000003.checkpoint.parquet";
    let mut replay = Replay::default();
    replay.add(name, checkpoint(false)).unwrap();
    assert_eq!(replay.times(), TimeSource::Commits { since: None });
    let lines = [add("m.parquet", r#""2024-03-01""#), remove("n.parquet")].join("\n");
    replay.add(&commit_name(4), lines.into()).unwrap();
    let snapshot = replay.finish(4).unwrap();
    let expected = [("day=2024-01-01/a b.parquet", Some("2024-01-01")), ("m.parquet", Some("2024-03-01"))];
    assert_eq!(paths(&snapshot), expected);
    assert_eq!((snapshot.columns.len(), snapshot.files[0].size), (3, 5));
}

#[test]
fn a_checkpoint_that_is_damaged_or_new_is_told() {
    let name = "00000000000000000003.checkpoint.parquet";
    let whole = checkpoint(false);
    let error = |bytes: Bytes| Replay::default().add(name, bytes).unwrap_err();
    for cut in [0, 3, 100, whole.len() - 1] {
        let error = error(whole.slice(..cut)).to_string();
        assert!(
            error.contains(
                "_delta_log/00000000000000000003.checkpoint.parquet: it is not a Parquet file, or is cut off"
            ),
            "{error}"
        );
    }
    assert_eq!(error(checkpoint(true)), DeltaError::V2Checkpoint(3));
    // Whatever is damaged in its data, an error or what can be read comes of it.
    let data = crate::parquet::locate(&whole, whole.len() as u64).unwrap().start as usize;
    for at in 0..data {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0x55;
        let _ = Replay::default().add(name, bytes.into());
    }
}

#[test]
fn a_time_has_the_last_version_up_to_then() {
    let commits = [(3, 1_000), (4, 2_000), (5, 1_500), (6, 5_000)];
    for (wanted, expected) in [
        (999, Err(TimeTravelError::Before(3, 1_000))),
        (1_000, Ok(3)),
        (2_000, Ok(4)),
        // The file of version 5 is older than that of version 4.
        (2_001, Ok(5)),
        (4_999, Ok(5)),
        (5_000, Ok(6)),
        (5_001, Err(TimeTravelError::After(6, 5_000))),
    ] {
        assert_eq!(at_time(&commits, wanted), Some(expected), "{wanted}");
    }
    assert_eq!(at_time(&[], 0), None);
    assert_eq!(replayed(&[begun(&[])]).map(|snapshot| snapshot.files.len()), Ok(0));
}

#[test]
fn commits_may_say_their_times() {
    let of = |settings: &str| {
        let mut replay = Replay::default();
        replay.add(&commit_name(0), Bytes::from([protocol(1, ""), metadata(settings)].join("\n"))).unwrap();
        replay.times()
    };
    assert_eq!(of(r#""delta.enableInCommitTimestamps":"false""#), TimeSource::Files);
    assert_eq!(
        of(
            r#""delta.enableInCommitTimestamps":"true","delta.inCommitTimestampEnablementVersion":"7","delta.inCommitTimestampEnablementTimestamp":"1700""#
        ),
        TimeSource::Commits { since: Some((7, 1_700)) }
    );
    let commit = r#"{"commitInfo":{"timestamp":1,"inCommitTimestamp":42}}"#;
    assert_eq!(in_commit_time("a", commit.as_bytes()), Ok(Some(42)));
    assert_eq!(in_commit_time("a", br#"{"commitInfo":{"timestamp":1}}"#), Ok(None));
}
