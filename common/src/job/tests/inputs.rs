//! `inputs`: where they point, how they are read, what is refused.

use serde_json::json;

use super::*;

fn with(inputs: &str) -> String {
    format!("name: job-1\nentry_script: score.py\ninputs: {inputs}\n")
}

#[test]
fn sources() {
    let project = Project::new();
    project.write("list.txt", "\nwherever/x\n");
    project.write("odd[1].csv", "x");
    fs::create_dir(project.path("empty")).unwrap();
    for (input, expected) in [
        ("path: data", json!({"paths": ["FOLDER/data"]})),
        ("path: ./data/", json!({"paths": ["FOLDER/data"]})),
        ("path: data/a.csv", json!({"paths": ["FOLDER/data/a.csv"]})),
        ("path: 'data/*.csv'", json!({"paths": ["FOLDER/data/*.csv"]})),
        ("path: '**/a.*'", json!({"paths": ["FOLDER/**/a.*"]})),
        ("path: 'odd[1].csv'", json!({"paths": ["FOLDER/odd[1].csv"]})),
        (
            "paths: [data, empty, data/b.csv]",
            json!({"paths": ["FOLDER/data", "FOLDER/empty", "FOLDER/data/b.csv"]}),
        ),
        ("list: list.txt", json!({"list": "FOLDER/list.txt"})),
        ("path: s3://bucket/absent", json!({"remote": ["s3://bucket/absent"]})),
        (
            "paths: ['s3://bucket/a/*.csv', s3://other]",
            json!({"remote": ["s3://bucket/a/*.csv", "s3://other"]}),
        ),
    ] {
        for kind in ["file", "tabular", "File"] {
            let inputs = project.setting(&with(&format!("[{{type: {kind}, {input}}}]")), "inputs");
            assert_eq!(inputs[0]["source"], expected, "{input}");
            assert_eq!(inputs[0]["kind"], json!(kind.to_lowercase()), "{input}");
        }
    }
}

#[test]
fn tabular_options() {
    let project = Project::new();
    for (options, expected) in [
        ("", json!({"delimiter": 44, "has_header": true, "dtype": [], "infer": "full"})),
        (
            "format: delimited",
            json!({"format": "delimited", "delimiter": 44, "has_header": true, "dtype": [], "infer": "full"}),
        ),
        (
            "format: JSON_lines",
            json!({"format": "json_lines", "delimiter": 44, "has_header": true, "dtype": [], "infer": "full"}),
        ),
        ("delimiter: ';'", json!({"delimiter": 59, "has_header": true, "dtype": [], "infer": "full"})),
        (r#"delimiter: "\t""#, json!({"delimiter": 9, "has_header": true, "dtype": [], "infer": "full"})),
        (r"delimiter: '\t'", json!({"delimiter": 9, "has_header": true, "dtype": [], "infer": "full"})),
        (
            "encoding: latin1",
            json!({"delimiter": 44, "has_header": true, "encoding": "latin1", "dtype": [], "infer": "full"}),
        ),
        (
            "compression: bz2",
            json!({"delimiter": 44, "has_header": true, "compression": "bz2", "dtype": [], "infer": "full"}),
        ),
        (
            r#"null_values: ["", -999, "null"], add_null_values: ['-']"#,
            json!({
                "delimiter": 44, "has_header": true, "null_values": ["", "-999", "null"], "add_null_values": ["-"],
                "dtype": [], "infer": "full",
            }),
        ),
        (
            "null_values: []",
            json!({"delimiter": 44, "has_header": true, "null_values": [], "dtype": [], "infer": "full"}),
        ),
        ("encoding: utf8", json!({"delimiter": 44, "has_header": true, "dtype": [], "infer": "full"})),
        ("delimiter: 1", json!({"delimiter": 49, "has_header": true, "dtype": [], "infer": "full"})),
        (
            "header: false, infer: sampled",
            json!({"delimiter": 44, "has_header": false, "dtype": [], "infer": "sampled"}),
        ),
        (
            "format: parquet, columns: [b, 1], split_row_groups: true",
            json!({
                "format": "parquet", "delimiter": 44, "has_header": true, "dtype": [], "infer": "full",
                "columns": ["b", "1"], "split_row_groups": true,
            }),
        ),
        (
            "dtype: {z: int, 0: str}",
            json!({"delimiter": 44, "has_header": true, "dtype": [["z", "int"], ["0", "str"]], "infer": "full"}),
        ),
    ] {
        let inputs = project.setting(&with(&format!("[{{type: tabular, path: data, {options}}}]")), "inputs");
        assert_eq!(inputs[0]["tabular"], expected, "{options}");
    }
}

#[test]
fn names_and_modes() {
    let project = Project::new();
    let inputs = project.setting(
        &with("[{type: file, path: data}, {type: file, path: data, name: _b2, mode: direct}, {path: data, type: file, mode: upload}]"),
        "inputs",
    );
    let names: Vec<_> =
        inputs.as_array().unwrap().iter().map(|input| (&input["name"], &input["mode"])).collect();
    assert_eq!(
        names,
        [
            (&json!("input_1"), &json!("upload")),
            (&json!("_b2"), &json!("direct")),
            (&json!("input_3"), &json!("upload"))
        ]
    );
}

#[test]
fn refused_inputs() {
    let project = Project::new();
    project.write("table/MLTable", "x");
    project.write("rows.parquet", "x");
    project.write("blank.txt", "\n");
    fs::create_dir(project.path("empty")).unwrap();
    let expected = "a list of mappings with type and path, such as `- {type: file, path: data}`";
    for (inputs, problem) in [
        ("[]", format!("inputs: there is no input: give {expected}")),
        ("[{type: tabular, path: rows.parquet, format: parquet, encoding: utf16}]", "inputs[0].encoding: only text has it: remove it".to_owned()),
        ("[{type: tabular, path: data, null_values: [null]}]", "inputs[0].null_values[0]: nothing where text is expected: quote it to give it as text".to_owned()),
        ("[{type: tabular, path: data, add_null_values: '-'}]", "inputs[0].add_null_values: \"-\" where a list is expected".to_owned()),
        ("[{type: tabular, path: rows.parquet, format: parquet, infer: full}]", "inputs[0].infer: only text has it: remove it".to_owned()),
        ("[{type: tabular, path: data, format: json_lines, null_values: []}]", "inputs[0].null_values: only delimited text has it: remove it, or give format: delimited".to_owned()),
        ("[{type: file, path: data, encoding: utf16}]", "inputs[0].encoding: only a tabular input has it: remove it, or give type: tabular".to_owned()),
        ("[{type: tabular, path: data, encoding: cp437}]", "inputs[0].encoding: \"cp437\" is not one of utf8, latin1, windows1252, utf16, utf32".to_owned()),
        ("[{type: file, path: data, ignore: ['a[']}]", "inputs[0].ignore[0]: a[ is not a valid glob: unclosed character class; missing ']'".to_owned()),
        ("[{type: file, path: data, ignore: ['/']}]", "inputs[0].ignore[0]: it is empty: give a glob, such as \"*.tmp\"".to_owned()),
        ("[{type: file, list: rows.parquet, ignore: [a]}]", "inputs[0].ignore: a list names each file: remove it, or give path".to_owned()),
        ("data", format!("inputs: \"data\" where a list is expected: give {expected}")),
        ("{a: {type: file}}", format!("inputs: a mapping where a list is expected: give {expected}")),
        ("[data]", format!("inputs[0]: \"data\" is not an input: give {expected}")),
        ("[{path: data}]", "inputs[0].type: the key is missing: give file, tabular or mltable".to_owned()),
        ("[{type: uri_folder, path: data}]", "inputs[0].type: \"uri_folder\" is not one of file, tabular, mltable".to_owned()),
        ("[{type: mltable, path: data}]", "inputs[0].path: there is no file FOLDER/data/MLTable: give the folder of a file MLTable".to_owned()),
        ("[{type: file}]", "inputs[0]: path, paths and list are missing: give one of them".to_owned()),
        ("[{type: file, path: data, list: x}]", "inputs[0]: path and list are given: keep one".to_owned()),
        ("[{type: file, path: ''}]", "inputs[0].path: it is empty: give a local path".to_owned()),
        ("[{type: file, path: [data]}]", "inputs[0].path: a list where text is expected".to_owned()),
        ("[{type: file, paths: data}]", "inputs[0].paths: \"data\" where a list is expected".to_owned()),
        ("[{type: file, paths: []}]", "inputs[0].paths: the list is empty: give at least one path".to_owned()),
        ("[{type: file, paths: [data, absent]}]", "inputs[0].paths[1]: cannot read FOLDER/absent: No such file or directory (os error 2)".to_owned()),
        ("[{type: file, path: 'data/*.tsv'}]", "inputs[0].path: no file found in FOLDER/data/*.tsv: an input needs at least one file".to_owned()),
        ("[{type: file, path: 'data/[z-a]'}]", "inputs[0].path: FOLDER/data/[z-a] is not a valid glob: invalid range; 'z' > 'a'".to_owned()),
        ("[{type: file, path: empty}]", "inputs[0].path: there is no file in FOLDER/empty: an input needs at least one".to_owned()),
        ("[{type: file, list: absent.txt}]", "inputs[0].list: cannot read FOLDER/absent.txt: No such file or directory (os error 2)".to_owned()),
        ("[{type: file, list: blank.txt}]", "inputs[0].list: there is no file in FOLDER/blank.txt: an input needs at least one".to_owned()),
        ("[{type: file, path: 's3://user:secret@bucket/x'}]", "inputs[0].path: a URL must hold no credentials, they come from the environment or a profile: give s3://bucket/folder, s3://bucket/object or a glob below a bucket".to_owned()),
        ("[{type: file, paths: [s3://bucket/x, data]}]", "inputs[0].paths[1]: a local path beside s3://: make them two inputs, or name the files in a list".to_owned()),
        ("[{type: file, list: s3://bucket/x}]", "inputs[0].list: s3:// is not supported yet: give a local path".to_owned()),
        ("[{type: file, path: 'ftp://user:secret@host/x'}]", "inputs[0].path: ftp:// is not supported yet: give a local path".to_owned()),
        ("[{type: file, path: 'azureml:data:1'}]", "inputs[0].path: a name from a data registry (azureml:) is not supported yet: give a local path".to_owned()),
        ("[{type: file, path: '${{inputs.x}}'}]", "inputs[0].path: a reference (`${{ }}`) is not supported yet: give a local path".to_owned()),
        ("[{type: tabular, path: table}]", "inputs[0].path: FOLDER/table/MLTable: the file has to be a mapping of keys to values, not \"x\"".to_owned()),
        ("[{type: tabular, path: table/MLTable}]", "inputs[0].path: FOLDER/table/MLTable: the file has to be a mapping of keys to values, not \"x\"".to_owned()),
        ("[{type: tabular, path: rows.parquet, columns: []}]", "inputs[0].columns: the list is empty: give at least one column, or leave it out for all".to_owned()),
        ("[{type: tabular, path: rows.parquet, columns: a}]", "inputs[0].columns: \"a\" where a list is expected".to_owned()),
        ("[{type: tabular, path: rows.parquet, columns: [a, b, a]}]", "inputs[0].columns[2]: \"a\" is there twice: remove one".to_owned()),
        ("[{type: tabular, path: data, format: delimited, columns: [a]}]", "inputs[0].columns: only Parquet has it: remove it, or give format: parquet".to_owned()),
        ("[{type: tabular, path: rows.parquet, split_row_groups: often}]", "inputs[0].split_row_groups: \"often\" is not one of true, false".to_owned()),
        ("[{type: tabular, path: data, format: parquet, delimiter: ';'}]", "inputs[0].delimiter: only delimited text has it: remove it, or give format: delimited".to_owned()),
        ("[{type: tabular, path: data, format: json_lines, split_row_groups: true}]", "inputs[0].split_row_groups: only Parquet has it: remove it, or give format: parquet".to_owned()),
        ("[{type: tabular, paths: [data/a.csv, data/b.csv], columns: [a]}]", "inputs[0].columns: only Parquet has it: remove it, or give format: parquet".to_owned()),
        ("[{type: tabular, path: data/a.csv, split_row_groups: true}]", "inputs[0].split_row_groups: only Parquet has it: remove it, or give format: parquet".to_owned()),
        ("[{type: file, path: data, columns: [a]}]", "inputs[0].columns: only a tabular input has it: remove it, or give type: tabular".to_owned()),
        ("[{type: tabular, path: data, format: json_lines, delimiter: ';'}]", "inputs[0].delimiter: only delimited text has it: remove it, or give format: delimited".to_owned()),
        ("[{type: tabular, path: data, format: json_lines, dtype: {a: str}}]", "inputs[0].dtype: only delimited text has it: remove it, or give format: delimited".to_owned()),
        ("[{type: tabular, path: data, format: parquet, header: false}]", "inputs[0].header: only delimited text has it: remove it, or give format: delimited".to_owned()),
        ("[{type: tabular, path: data, format: excel}]", "inputs[0].format: \"excel\" is not one of delimited, json_lines, parquet".to_owned()),
        ("[{type: tabular, path: data, delimiter: '||'}]", "inputs[0].delimiter: \"||\" is not a delimiter: give one ASCII character, not a quote or line end".to_owned()),
        ("[{type: tabular, path: data, delimiter: é}]", "inputs[0].delimiter: \"é\" is not a delimiter: give one ASCII character, not a quote or line end".to_owned()),
        ("[{type: tabular, path: data, header: first}]", "inputs[0].header: \"first\" is not one of true, false".to_owned()),
        ("[{type: tabular, path: data, infer: none}]", "inputs[0].infer: \"none\" is not one of full, sampled".to_owned()),
        ("[{type: tabular, path: data, dtype: {a: int128}}]", "inputs[0].dtype.a: \"int128\" is not a known type: give one of int64, int, uint64, float64, float, bool, str, string, object".to_owned()),
        ("[{type: tabular, path: data, dtype: int}]", "inputs[0].dtype: \"int\" where a mapping is expected".to_owned()),
        ("[{type: tabular, path: data, partition_format: 'user.csv'}]", "inputs[0].partition_format: \"user.csv\" cannot be read: it has no field: name a part of the path as {name}".to_owned()),
        ("[{type: file, path: data, partition_format: '{d:MM}'}]", "inputs[0].partition_format: \"{d:MM}\" cannot be read: \"MM\" has no yyyy, and a date has a year: write a date as yyyy/MM/dd, yyyy-MM or alike".to_owned()),
        ("[{type: file, path: data, partition_format: ''}]", "inputs[0].partition_format: it is empty: give a path with fields, such as `{store}/{day:yyyy/MM/dd}/*.csv`".to_owned()),
        ("[{type: tabular, path: data, partition_format: '{user}.csv', dtype: {user: str}}]", "inputs[0].dtype: \"user\" is a column of partition_format, which has its type from there: remove it here".to_owned()),
        ("[{type: tabular, path: data, format: parquet, partition_format: '{user}.csv', columns: [a, user]}]", "inputs[0].columns: \"user\" is a column of partition_format, which has its type from there: remove it here".to_owned()),
        ("[{type: file, path: data, delimiter: ','}]", "inputs[0].delimiter: only a tabular input has it: remove it, or give type: tabular".to_owned()),
        ("[{type: file, path: data, mode: ro_mount}]", "inputs[0].mode: \"ro_mount\" is not one of upload, direct".to_owned()),
        ("[{type: file, path: data, name: 1a}]", "inputs[0].name: \"1a\" is not an input name: give letters, digits and `_` that begin with a letter or `_`".to_owned()),
        ("[{type: file, path: data, pth: x}]", "inputs[0].pth: there is no such key: did you mean `path`?".to_owned()),
        ("[{type: file, path: data, name: input_2}, {type: file, path: data}]", "inputs[1].name: \"input_2\" is the name of another input too: give each its own".to_owned()),
        ("[{type: file, path: data}, {type: tabular, path: data}]", "inputs[1].type: tabular beside file: inputs are all file or all tabular; make them two jobs".to_owned()),
    ] {
        assert_eq!(project.problem(&with(inputs)), problem, "{inputs}");
    }
    for more in [
        "path: rows.parquet, format: delimited",
        "path: data/a.csv, format: parquet, columns: [a]",
        "paths: [data/a.csv, rows.parquet], columns: [a]",
        "path: data, columns: [a]",
        "path: data, partition_format: '{user}.csv', dtype: {other: str}",
    ] {
        assert_eq!(project.load(&with(&format!("[{{type: tabular, {more}}}]"))).unwrap().inputs.len(), 1);
    }
}

#[test]
fn keys_are_columns_of_the_paths_of_every_input() {
    let project = Project::new();
    let input =
        |kind: &str, format: &str| format!("{{type: {kind}, path: data, partition_format: '{format}'}}");
    let files = format!("[{}, {}]", input("file", "{a}/{b}.csv"), input("file", "{b}-{a}"));
    let load = |inputs: &str, more: &str| project.load(&format!("{}{more}\n", with(inputs)));
    for (given, keys) in [
        ("[b, a]", &["b", "a"][..]),
        ("[a]", &["a"]),
        ("'[\"b\", \"a\"]'", &["b", "a"]),
        ("[]", &[]),
        ("'[]'", &[]),
        ("", &[]),
    ] {
        let spec = load(&files, &format!("partition_keys: {given}")).unwrap();
        assert_eq!(spec.partition_keys, keys, "{given}");
        let arguments = given_arguments(&spec, &[]).join(" ");
        let expected = serde_json::to_string(keys).unwrap();
        assert_eq!(
            arguments.contains(&format!("--partition_keys {expected}")),
            !keys.is_empty(),
            "{arguments}"
        );
        assert_eq!(arguments.contains("--mini_batch_size"), keys.is_empty(), "{arguments}");
    }
    let tables = format!("[{}]", input("tabular", "{a}/{b}.csv"));
    for (inputs, more, says) in [
        (
            &files,
            "partition_keys: [c]",
            "partition_keys: \"c\" is no column of a path, the columns that the paths of input input_1 have are a, b; give one that partition_format has",
        ),
        (
            &"[{type: file, path: data}]".to_owned(),
            "partition_keys: [a]",
            "partition_keys: \"a\" is no column of a path, input input_1 has no partition_format; give one that partition_format has",
        ),
        (&files, "partition_keys: [a, a]", "partition_keys: \"a\" is there twice: remove one"),
        (&files, "partition_keys: ['']", "partition_keys: a key is empty: give the name of a column"),
        (
            &files,
            "partition_keys: a",
            "partition_keys: \"a\" is no list of columns: give a list of columns, such as [store, day]",
        ),
        (
            &files,
            "partition_keys: '[1]'",
            "partition_keys: \"[1]\" is no list of columns: give a list of columns, such as [store, day]",
        ),
        (
            &files,
            "partition_keys: {a: b}",
            "partition_keys: a mapping is no list of columns: give a list of columns, such as [store, day]",
        ),
        (
            &files,
            "partition_keys: [{a: b}]",
            "partition_keys: something in it is no text: give a list of columns, such as [store, day]",
        ),
        (
            &files,
            "partition_keys: [a]\nmini_batch_size: 3",
            "mini_batch_size: a mini-batch is all that has the same partition_keys, so it has no size: give one of the two",
        ),
    ] {
        assert_eq!(project.problem(&format!("{}{more}\n", with(inputs))), says);
    }
    // What no path of a table has is a column of its data.
    for (given, keys) in [("[id]", &["id"][..]), ("[a, id]", &["a", "id"])] {
        let spec = load(&tables, &format!("partition_keys: {given}")).unwrap();
        assert!(spec.partition_keys == keys && spec.needs_shuffle(), "{given}");
    }
    let sized = format!("{}partition_keys: [a]\n", with(&files));
    let error = project.load_with(&sized, &[("mini_batch_size", "3")]).unwrap_err().to_string();
    assert!(
        error.contains("--set mini_batch_size: a mini-batch is all that has the same partition_keys"),
        "{error}"
    );
}

#[test]
fn keys_win_in_azures_forms() {
    let project = Project::new();
    let yaml = "name: job-1\ninputs: [{type: file, path: data, partition_format: '{a}.csv'}]\n\
                parallel_run_config:\n  entry_script: score.py\n  source_directory: .\n  mini_batch_size: 5\n  \
                partition_keys: [a]\n";
    let spec = project.load(yaml).unwrap();
    assert_eq!((spec.partition_keys.as_slice(), spec.notes.len()), (&["a".to_owned()][..], 1));
    assert!(
        spec.notes[0].contains("parallel_run_config.mini_batch_size: has no effect beside partition_keys"),
        "{:?}",
        spec.notes
    );
}
