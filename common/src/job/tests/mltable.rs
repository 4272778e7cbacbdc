//! The file `MLTable`: what becomes of it, what is refused, and where it says so.

use serde_json::json;

use super::*;
use crate::dataset::mltable::Window;

/// A job over the table in `table/`.
const TABLE: &str = "name: job-1\nentry_script: score.py\ninputs: [{type: mltable, path: table}]\n";

fn project(mltable: &str) -> Project {
    let project = Project::new();
    for file in ["table/a.csv", "table/b.csv", "table/deep/c{d}.csv", "table/deep/e.txt"] {
        project.write(file, "x\n1\n");
    }
    project.write("table/MLTable", mltable);
    project
}

/// What `job.json` has of the input.
fn input(project: &Project, yaml: &str) -> Json {
    project.setting(yaml, "inputs")[0].clone()
}

#[test]
fn paths_are_files_folders_and_patterns_in_their_order() {
    for (paths, expected) in [
        ("[file: a.csv]", json!(["FOLDER/table/a.csv"])),
        (
            "[file: ./b.csv, file: a.csv, ./b.csv]",
            json!(["FOLDER/table/b.csv", "FOLDER/table/a.csv", "FOLDER/table/b.csv"]),
        ),
        (
            "[file: deep, folder: ./deep/, folder: .]",
            json!(["FOLDER/table/deep", "FOLDER/table/deep", "FOLDER/table"]),
        ),
        ("[pattern: './*.csv']", json!(["FOLDER/table/*.csv"])),
        ("[pattern: 'deep/c{d}.*']", json!([r"FOLDER/table/deep/c\{d\}.*"])),
        ("[file: ../data/a.csv]", json!(["FOLDER/table/../data/a.csv"])),
    ] {
        let project = project(&format!("paths: {paths}\n"));
        let input = input(&project, TABLE);
        assert_eq!(input["source"]["paths"], expected, "{paths}");
        assert_eq!(
            (&input["kind"], &input["mltable"]["path"]),
            (&json!("file"), &json!("FOLDER/table/MLTable"))
        );
    }
    let project = project(
        "paths: [file: s3://bucket/a.csv, folder: s3://bucket/in, pattern: 's3://bucket/{x}/*.csv']\n",
    );
    let expected = json!(["s3://bucket/a.csv", "s3://bucket/in/", r"s3://bucket/\{x\}/*.csv"]);
    assert_eq!(input(&project, TABLE)["source"]["remote"], expected);
}

#[test]
fn a_table_is_rows_where_it_says_how_they_are_read() {
    let rows = "paths: [file: a.csv]\ntransformations: [read_delimited]\n";
    let files = "paths: [file: a.csv]\ntransformations: [take: 1]\n";
    for (mltable, given, kind) in [
        (rows, "type: mltable, path: table", "tabular"),
        (rows, "type: mltable, path: table/MLTable", "tabular"),
        (rows, "type: MLTable, path: ./table/", "tabular"),
        (rows, "type: tabular, path: table", "tabular"),
        (rows, "type: tabular, path: table/MLTable, split_row_groups: true", "tabular"),
        (rows, "type: file, path: table/MLTable", "file"),
        (files, "type: mltable, path: table", "file"),
        (files, "type: file, path: table/MLTable", "file"),
    ] {
        let project = project(mltable);
        let yaml = format!("name: job-1\nentry_script: score.py\ninputs: [{{{given}}}]\n");
        let input = input(&project, &yaml);
        assert_eq!(input["kind"], kind, "{given}");
        assert_eq!(input["mltable"]["path"], "FOLDER/table/MLTable");
    }
    // A folder of files is what it is.
    let project = project(rows);
    let yaml = "name: job-1\nentry_script: score.py\ninputs: [{type: file, path: table}]\n";
    assert_eq!(input(&project, yaml)["mltable"], Json::Null);
    // Rows are asked for, and there are none.
    let project = self::project(files);
    let yaml = "name: job-1\nentry_script: score.py\ninputs: [{type: tabular, path: table}]\n";
    assert!(project.problem(yaml).contains("no transformation reads rows"), "{}", project.problem(yaml));
    let yaml =
        "name: job-1\nentry_script: score.py\ninputs: [{type: mltable, path: table, delimiter: ';'}]\n";
    assert_eq!(project.problem(yaml), "inputs[0].delimiter: the file MLTable says it: remove it");
}

#[test]
fn transformations_are_kept_in_their_order() {
    let project = project(
        "$schema: any\ntype: mltable\npaths:\n  - file: a.csv\ntransformations:\n  - read_delimited:\n      delimiter: '\\t'\n      \
         encoding: UTF-16\n      header: PromoteHeadersBehavior.NO_HEADERS\n      empty_as_string: true\n      \
         include_path_column: true\n      support_multi_line: true\n      partition_size: 1\n      \
         infer_column_types: {sample_size: 5, column_type_overrides: {a: string}}\n  - skip: 2\n  - take: '10'\n  - skip: 1\n  \
         - keep_columns: [a, b]\n  - keep_columns: []\n  - drop_columns: b\n  - extract_columns_from_partition_format: '{y}/{f}'\n  \
         - filter: a == None\n  - convert_column_types:\n      - {columns: a, column_type: {boolean: {true_values: [x], \
         false_values: [y], mismatch_as: 'true'}}}\n      - {columns: [c, d], column_type: {datetime: {formats: '%Y'}}}\nmetadata: {x: 1}\n\
         traits: {index_columns: [a]}\n",
    );
    let input = input(&project, TABLE);
    let table = &input["mltable"];
    assert_eq!(table["window"], json!({ "skip": 3, "take": 9 }));
    assert_eq!(
        (&table["header"], &table["encoding"], &table["empty_as_text"]),
        (&json!("no_header"), &json!("utf16"), &json!(true))
    );
    assert_eq!(
        table["work"],
        json!({ "path_column": "Path", "empty_is_missing": true, "steps": [
            { "convert_column_types": [{ "columns": ["a"], "to": "string" }] },
            { "keep_columns": ["a", "b"] },
            { "drop_columns": ["b"] },
            { "extract_columns": ["y", "f"] },
            { "filter": { "text": "a == None", "expression": { "compare": [{ "column": "a" }, "==", "null"] } } },
            { "convert_column_types": [
                { "columns": ["a"], "to": { "boolean": { "true_values": ["x"], "false_values": ["y"], "mismatch_as": true } } },
                { "columns": ["c", "d"], "to": { "datetime": { "formats": ["%Y"], "date_constant": null } } },
            ] },
        ] })
    );
    assert_eq!((&input["partition_format"], &input["tabular"]["delimiter"]), (&json!("{y}/{f}"), &json!(9)));
    let spec = project.load(TABLE).unwrap();
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<JobSpec>(&text).unwrap().inputs, spec.inputs);
}

#[test]
fn rows_are_counted_before_and_behind_a_filter() {
    let window = |skip, take| Window { skip, take };
    let sample = "take_random_sample: {probability: 0.4, seed: 7}";
    for (transformations, before, behind, steps) in [
        (&["filter: kind == 'a'", "skip: 10", "take: 100"][..], window(0, None), window(10, Some(100)), 2),
        (
            &["skip: 7", "filter: kind != 'a'", "take: 3", "drop_columns: kind"],
            window(7, None),
            window(0, Some(3)),
            3,
        ),
        (&["filter: id >= 5", "take: 300", "filter: kind == 'c'"], window(0, None), window(0, Some(300)), 3),
        (
            &["take: 500", "filter: kind == 'b'", "take: 90", "skip: 60"],
            window(0, Some(500)),
            window(60, Some(30)),
            2,
        ),
        (&["filter: id >= 260 and kind == 'a'", "skip: 1"], window(0, None), window(1, None), 2),
        (&["filter: kind == 'b'", "skip: 85", "take: 9000"], window(0, None), window(85, Some(9_000)), 2),
        (&[sample, "skip: 30", "take: 111"], window(0, None), window(30, Some(111)), 2),
        (&["skip: 2", sample, "skip: 1", "skip: 3"], window(2, None), window(4, None), 2),
    ] {
        let text = transformations.join("\n- ");
        let project =
            project(&format!("paths: [file: a.csv]\ntransformations:\n- read_delimited\n- {text}\n"));
        project.write("job.yml", TABLE);
        let loaded = load_any(RunsOn::ThisMachine, &project.path("job.yml"), &[]).unwrap();
        let Loaded::Pipeline(loaded) = loaded else { panic!("{text}: nothing is counted") };
        let [count, run] = &loaded.pipeline.steps[..] else { panic!("{text}: {:?}", loaded.pipeline) };
        let [counted, table] = [count, run].map(|step| step.spec.inputs[0].mltable.as_ref().unwrap());
        assert_eq!((table.window, table.work.counted_window()), (before, Some((1, behind))), "{text}");
        assert_eq!((table.work.steps.len(), counted.work.steps.len()), (steps, 2), "{text}");
    }
    for plain in ["skip: 3\n- take: 5\n- filter: a > 1", "take: 5", "filter: a > 1", sample] {
        let project =
            project(&format!("paths: [file: a.csv]\ntransformations:\n- read_delimited\n- {plain}\n"));
        assert!(!project.load(TABLE).unwrap().needs_counts(), "{plain}");
    }
}

#[test]
fn what_is_wrong_with_a_table_is_told_with_its_place() {
    let read = "paths: [file: a.csv]\ntransformations:\n- read_delimited\n";
    let with = |transformation: &str| format!("{read}- {transformation}\n");
    let table = [
        ("x: [".to_owned(), "MLTable:2: not valid YAML"),
        (String::new(), "MLTable: the file is empty"),
        ("type: mltable\n".to_owned(), "MLTable: paths: the key is missing"),
        ("paths: []\n".to_owned(), "MLTable:1: paths: a list where a list of paths"),
        ("paths: [file: a.csv]\ntype: uri_file\n".to_owned(), "MLTable:2: type: \"uri_file\" is not mltable"),
        (
            "paths: [file: a.csv]\npath: x\n".to_owned(),
            "MLTable:2: path: there is no such key: did you mean `paths`?",
        ),
        (
            "paths:\n- file: absent.csv\n".to_owned(),
            "MLTable:2: paths[0].file: there is no FOLDER/table/absent.csv",
        ),
        (
            "paths:\n- folder: a.csv\n".to_owned(),
            "MLTable:2: paths[0].folder: FOLDER/table/a.csv is a file: give file",
        ),
        ("paths:\n- pattern: '*.{csv,txt}'\n".to_owned(), "MLTable:2: paths[0].pattern: no file found in"),
        (
            "paths:\n- {file: a.csv, folder: b}\n".to_owned(),
            "MLTable:2: paths[0]: give one of file, folder, pattern",
        ),
        (
            "paths:\n- file: a.csv\n- file: s3://bucket/x\n".to_owned(),
            "MLTable:3: paths[1]: a local path beside s3://",
        ),
        (
            "paths:\n- file: ftp://u:secret@h/x\n".to_owned(),
            "MLTable:2: paths[0].file: ftp:// is not supported yet",
        ),
        (
            "paths:\n- file: azureml://datastores/d/paths/p\n".to_owned(),
            "MLTable:2: paths[0].file: the datastore d is not known",
        ),
        (with("read_parquet"), "MLTable:4: transformations[1].read_parquet: the rows are read already"),
        (
            "paths: [file: a.csv]\ntransformations:\n- take: 1\n- read_parquet\n".to_owned(),
            "MLTable:4: transformations[1].read_parquet: what is before it",
        ),
        (
            "paths: [file: a.csv]\ntransformations:\n- keep_columns: a\n".to_owned(),
            "MLTable:3: transformations[0].keep_columns: it is about rows",
        ),
        (
            with("read_delta_lake: {version_as_of: 1}"),
            "transformations[1].read_delta_lake: the rows are read already",
        ),
        (
            with("take_random_sample: 0.5"),
            "transformations[1].take_random_sample: 0.5 where a mapping is expected",
        ),
        (
            with("take_random_sample: {probability: 0.5}"),
            "transformations[1].take_random_sample.seed: it is missing, for what runs again has to draw the same rows",
        ),
        (
            with("take_random_sample: {probability: 1.5, seed: 1}"),
            "transformations[1].take_random_sample.probability: 1.5 is out of range",
        ),
        (
            with("take_random_sample: {probability: 0.5, seed: x}"),
            "transformations[1].take_random_sample.seed: \"x\" is not a whole number",
        ),
        (
            with(
                "take_random_sample: {probability: 0.5, seed: 1}\n- take_random_sample: {probability: 1, seed: 2}",
            ),
            "MLTable:5: transformations[2].take_random_sample: a sample is taken already",
        ),
        (
            with(
                "take_random_sample: {probability: 0.5, seed: 1}\n- take: 5\n- drop_columns: a\n- filter: a > 1\n- skip: 2",
            ),
            "MLTable:8: transformations[5].skip: rows are counted already, by an earlier skip or take behind a filter",
        ),
        (
            with("filter: id < 9\n- take: 9\n- filter: id > 2\n- take: 2"),
            "MLTable:7: transformations[4].take: rows are counted already, by an earlier skip or take behind a filter",
        ),
        (
            with("keep_colums: a"),
            "transformations[1].keep_colums: there is no such transformation: did you mean `keep_columns`?",
        ),
        (
            with("random_split: 1"),
            "transformations[1].random_split: there is no such transformation: there are",
        ),
        (with("{take: 1, skip: 1}"), "MLTable:4: transformations[1]: a mapping is no transformation"),
        (with("take: 0"), "transformations[1].take: 0 is out of range"),
        (with("skip: -1"), "transformations[1].skip: "),
        (with("keep_columns: [a, a]"), "transformations[1].keep_columns: \"a\" is there twice"),
        (with("drop_columns:"), "transformations[1].drop_columns: nothing where the name of a column"),
        (
            with("drop_columns: t\ntraits: {timestamp_column: t}"),
            "transformations[1].drop_columns: \"t\" is named by traits",
        ),
        (
            with("filter: 'a = 1'"),
            "transformations[1].filter: \"a = 1\", at character 3: '=' has no meaning here; compare with ==",
        ),
        (
            with("filter: 'a > 1'\n- take: 5\n- skip: 5"),
            "MLTable:6: transformations[3].skip: it skips all 5 that the `take` before it leaves",
        ),
        (
            with("take: 2\n- skip: 2"),
            "MLTable:5: transformations[2].skip: it skips all 2 that the `take` before it leaves",
        ),
        (with("convert_column_types: int"), "transformations[1].convert_column_types: \"int\" where a list"),
        (
            with("convert_column_types: [{columns: a, column_type: integer}]"),
            "column_type: \"integer\" is no type of a column",
        ),
        (
            with("convert_column_types: [{columns: a, column_type: stream_info}]"),
            "stream_info stands for a file in Azure",
        ),
        (
            with(
                "convert_column_types: [{columns: [a, b], column_type: int}, {columns: b, column_type: int}]",
            ),
            "\"b\" has a type already",
        ),
        (
            with("convert_column_types: [{columns: a, column_type: {boolean: {true_values: [x]}}}]"),
            "give both true_values and false_values",
        ),
        (
            with("convert_column_types: [{columns: a, column_type: {datetime: {formats: ['%Q']}}}]"),
            "%Q of \"%Q\" is not one of %Y %y",
        ),
        (
            with("convert_column_types: [{columns: a, column_type: {datetime: {date_constant: x}}}]"),
            "date_constant \"x\" is no day",
        ),
        (with("extract_columns_from_partition_format: 'x.csv'"), "\"x.csv\" cannot be read: it has no field"),
    ];
    let mut wrong = Vec::new();
    for (mltable, expected) in table {
        let project = project(&mltable);
        let problems = project.problems(TABLE);
        let told = problems.len() == 1 && problems[0].starts_with("inputs[0].path: FOLDER/table/MLTable");
        if !told || !problems[0].contains(expected) {
            wrong.push(format!("{mltable}{expected}\n{problems:#?}"));
        }
        assert!(!problems.concat().contains("secret"), "{problems:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    for (reader, expected) in [
        ("read_delimited: {delimiter: '||'}", "delimiter: \"||\" is not a delimiter"),
        ("read_delimited: {encoding: ebcdic}", "encoding: \"ebcdic\" is not one of utf8"),
        ("read_delimited: {header: maybe}", "header: \"maybe\" is not one of no_header"),
        ("read_delimited: {invalid_lines: drop}", "invalid_lines: there is no such key"),
        (
            "read_delimited: {include_path_column: maybe}",
            "include_path_column: \"maybe\" is not one of true, false",
        ),
        ("read_delimited: 5", "5 where a mapping is expected"),
        ("read_parquet: {encoding: utf8}", "encoding: there is no such key"),
        ("read_json_lines: {invalid_lines: skip}", "invalid_lines: \"skip\" is not one of error, drop"),
        ("read_json_lines: {encoding: ascii}", "JSON is UTF-8"),
    ] {
        let project = project(&format!("paths: [file: a.csv]\ntransformations:\n- {reader}\n"));
        let problems = project.problems(TABLE).concat();
        assert!(
            problems.contains("MLTable:3: transformations[0].") && problems.contains(expected),
            "{reader}: {problems}"
        );
    }
    let project = project(
        "paths:\n- file: absent\ntransformations:\n- read_json_lines: {invalid_lines: drop}\n- take: 0\n- filter: ''\n",
    );
    assert_eq!(project.problems(TABLE).len(), 3, "all of them are told");
}

#[test]
fn the_mode_of_a_parallel_job_says_whether_a_table_is_rows() {
    let rows = "paths: [file: a.csv]\ntransformations: [read_delimited]\n";
    let files = "paths: [file: a.csv]\n";
    for (mltable, mode, kind, size, notes) in [
        (rows, "direct", "tabular", json!({ "bytes": 1 << 20 }), 0),
        (rows, "ro_mount", "file", json!({ "files": 1 }), 0),
        (rows, "download", "file", json!({ "files": 1 }), 0),
        (rows, "eval_mount", "file", json!({ "files": 1 }), 1),
        (rows, "rw_mount", "file", json!({ "files": 1 }), 1),
        (files, "direct", "file", json!({ "files": 1 }), 0),
        (files, "eval_download", "file", json!({ "files": 1 }), 0),
    ] {
        let project = project(mltable);
        for path in ["table", "./table/MLTable"] {
            let yaml = format!(
                "type: parallel\ninputs:\n  x: {{type: mltable, path: {path}, mode: {mode}}}\ninput_data: ${{{{inputs.x}}}}\n\
                 task: {{type: run_function, code: ., entry_script: score.py}}\nname: job-1\n"
            );
            let spec = project.load(&yaml).unwrap_or_else(|error| panic!("{mode}: {error}"));
            assert_eq!(input(&project, &yaml)["kind"], kind, "{mode} {path}");
            assert_eq!(project.setting(&yaml, "mini_batch_size"), size, "{mode}");
            assert_eq!(spec.notes.len(), notes, "{mode}: {:?}", spec.notes);
        }
    }
}

#[test]
fn a_delta_table_is_a_folder_of_one_version() {
    let delta = |paths: &str, arguments: &str| {
        let project = project(&format!(
            "paths:\n- {paths}\ntransformations:\n- read_delta_lake{arguments}\n- take: 5\n"
        ));
        project.write("table/sales/_delta_log/00000000000000000000.json", "{}");
        project
    };
    for (paths, arguments, as_of) in [
        ("folder: sales", ": {version_as_of: 3}", json!({ "version": 3 })),
        (
            "file: sales/",
            ": {timestamp_as_of: '2024-05-01T02:00:00.5+02:00', include_path_column: true}",
            json!({ "timestamp": { "text": "2024-05-01T02:00:00.5+02:00", "milliseconds": 1_714_521_600_500_i64 } }),
        ),
        ("folder: s3://bucket/sales", ": {version_as_of: 0}", json!({ "version": 0 })),
        (
            "s3://bucket/sales",
            ": {timestamp_as_of: 1970-01-01T00:00:01Z}",
            json!({ "timestamp": { "text": "1970-01-01T00:00:01Z", "milliseconds": 1000 } }),
        ),
    ] {
        let input = input(&delta(paths, arguments), TABLE);
        assert_eq!(input["mltable"]["delta"], json!({ "as_of": as_of }), "{arguments}");
        assert_eq!((&input["kind"], &input["tabular"]["format"]), (&json!("tabular"), &json!("parquet")));
    }
    for (paths, arguments, says) in [
        (
            "folder: sales",
            "",
            "MLTable:4: transformations[0].read_delta_lake: it does not say which version of the table: give {version_as_of: 3}",
        ),
        (
            "folder: sales",
            ": {include_path_column: true}",
            "transformations[0].read_delta_lake: it does not say which version",
        ),
        (
            "folder: sales",
            ": {version_as_of: 1, timestamp_as_of: 2024-05-01T00:00:00Z}",
            ".version_as_of: it is there beside timestamp_as_of",
        ),
        ("folder: sales", ": {version_as_of: -1}", ".version_as_of: -1 is out of range"),
        ("folder: sales", ": {version_as_of: new}", ".version_as_of: \"new\" is not a whole number"),
        (
            "folder: sales",
            ": {timestamp_as_of: '2024-05-01'}",
            ".timestamp_as_of: \"2024-05-01\" where a time is expected as RFC 3339 has it, with its zone",
        ),
        (
            "folder: sales\n- folder: deep",
            ": {version_as_of: 1}",
            "MLTable:1: paths: read_delta_lake takes one folder, and there are 2",
        ),
        (
            "folder: deep",
            ": {version_as_of: 1}",
            "paths: read_delta_lake: FOLDER/table/deep has no folder _delta_log, so it is no Delta table",
        ),
        ("file: a.csv", ": {version_as_of: 1}", "paths: read_delta_lake: FOLDER/table/a.csv is no folder"),
        ("pattern: '*.csv'", ": {version_as_of: 1}", "/*.csv is no folder: give that of the table"),
        ("pattern: 's3://bucket/*'", ": {version_as_of: 1}", "s3://bucket/* is a pattern: give the folder"),
        ("file: https://host/sales", ": {version_as_of: 1}", "it is on an HTTP server"),
    ] {
        let problems = delta(paths, arguments).problems(TABLE);
        assert!(problems.len() == 1 && problems[0].contains(says), "{says}\n{problems:#?}");
    }
}
