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
        ("", json!({"delimiter": 44, "has_header": true, "dtype": [], "infer": "sampled"})),
        ("format: delimited", json!({"delimiter": 44, "has_header": true, "dtype": [], "infer": "sampled"})),
        ("delimiter: ';'", json!({"delimiter": 59, "has_header": true, "dtype": [], "infer": "sampled"})),
        (r#"delimiter: "\t""#, json!({"delimiter": 9, "has_header": true, "dtype": [], "infer": "sampled"})),
        (r"delimiter: '\t'", json!({"delimiter": 9, "has_header": true, "dtype": [], "infer": "sampled"})),
        ("delimiter: 1", json!({"delimiter": 49, "has_header": true, "dtype": [], "infer": "sampled"})),
        (
            "header: false, infer: full",
            json!({"delimiter": 44, "has_header": false, "dtype": [], "infer": "full"}),
        ),
        (
            "dtype: {z: int, 0: str}",
            json!({"delimiter": 44, "has_header": true, "dtype": [["z", "int"], ["0", "str"]], "infer": "sampled"}),
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
        ("data", format!("inputs: \"data\" where a list is expected: give {expected}")),
        ("{a: {type: file}}", format!("inputs: a mapping where a list is expected: give {expected}")),
        ("[data]", format!("inputs[0]: \"data\" is not an input: give {expected}")),
        ("[{path: data}]", "inputs[0].type: the key is missing: give file or tabular".to_owned()),
        ("[{type: uri_folder, path: data}]", "inputs[0].type: \"uri_folder\" is not one of file, tabular".to_owned()),
        ("[{type: mltable, path: data}]", "inputs[0].type: MLTable is not supported yet: give type: tabular and the delimited files".to_owned()),
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
        ("[{type: tabular, path: 's3://bucket/*.parquet'}]", "inputs[0].path: s3://bucket/*.parquet: parquet is not supported yet: give delimited text, with format: delimited if it is".to_owned()),
        ("[{type: file, path: 'https://user:secret@host/x'}]", "inputs[0].path: https:// is not supported yet: give a local path".to_owned()),
        ("[{type: file, path: 'azureml:data:1'}]", "inputs[0].path: a name from a data registry (azureml:) is not supported yet: give a local path".to_owned()),
        ("[{type: file, path: '${{inputs.x}}'}]", "inputs[0].path: a reference (`${{ }}`) is not supported yet: give a local path".to_owned()),
        ("[{type: tabular, path: table}]", "inputs[0].path: FOLDER/table is an MLTable, which is not supported yet: give the delimited files".to_owned()),
        ("[{type: tabular, path: table/MLTable}]", "inputs[0].path: FOLDER/table/MLTable is an MLTable, which is not supported yet: give the delimited files".to_owned()),
        ("[{type: tabular, path: rows.parquet}]", "inputs[0].path: rows.parquet: parquet is not supported yet: give delimited text, with format: delimited if it is".to_owned()),
        ("[{type: tabular, path: '*.jsonl.gz'}]", "inputs[0].path: *.jsonl.gz: json_lines is not supported yet: give delimited text, with format: delimited if it is".to_owned()),
        ("[{type: tabular, path: data, format: parquet}]", "inputs[0].format: parquet is not supported yet: give delimited text".to_owned()),
        ("[{type: tabular, path: data, format: excel}]", "inputs[0].format: \"excel\" is not one of delimited, json_lines, parquet".to_owned()),
        ("[{type: tabular, path: data, delimiter: '||'}]", "inputs[0].delimiter: \"||\" is not a delimiter: give one ASCII character, not a quote or line end".to_owned()),
        ("[{type: tabular, path: data, delimiter: é}]", "inputs[0].delimiter: \"é\" is not a delimiter: give one ASCII character, not a quote or line end".to_owned()),
        ("[{type: tabular, path: data, header: first}]", "inputs[0].header: \"first\" is not one of true, false".to_owned()),
        ("[{type: tabular, path: data, infer: none}]", "inputs[0].infer: \"none\" is not one of sampled, full".to_owned()),
        ("[{type: tabular, path: data, dtype: {a: int128}}]", "inputs[0].dtype.a: \"int128\" is not a known type: give one of int64, int, uint64, float64, float, bool, str, string, object".to_owned()),
        ("[{type: tabular, path: data, dtype: int}]", "inputs[0].dtype: \"int\" where a mapping is expected".to_owned()),
        ("[{type: tabular, path: data, partition_format: '{user}.csv'}]", "inputs[0].partition_format: not supported yet: remove it and take the values from the path in the script".to_owned()),
        ("[{type: file, path: data, delimiter: ','}]", "inputs[0].delimiter: only a tabular input has it: remove it, or give type: tabular".to_owned()),
        ("[{type: file, path: data, mode: ro_mount}]", "inputs[0].mode: \"ro_mount\" is not one of upload, direct".to_owned()),
        ("[{type: file, path: data, name: 1a}]", "inputs[0].name: \"1a\" is not an input name: give letters, digits and `_` that begin with a letter or `_`".to_owned()),
        ("[{type: file, path: data, pth: x}]", "inputs[0].pth: there is no such key: did you mean `path`?".to_owned()),
        ("[{type: file, path: data, name: input_2}, {type: file, path: data}]", "inputs[1].name: \"input_2\" is the name of another input too: give each its own".to_owned()),
        ("[{type: file, path: data}, {type: tabular, path: data}]", "inputs[1].type: tabular beside file: inputs are all file or all tabular; make them two jobs".to_owned()),
    ] {
        assert_eq!(project.problem(&with(inputs)), problem, "{inputs}");
    }
    assert_eq!(
        project.load(&with("[{type: tabular, path: rows.parquet, format: delimited}]")).unwrap().inputs.len(),
        1
    );
}
