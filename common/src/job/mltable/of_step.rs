//! The file `MLTable` that another step of a pipeline writes: it is read when the step starts that gets it.
//!
//! When the pipeline is submitted, the mode of the input says whether it is rows or files, and nothing else is known of it.
//! What of a job hangs on what the table says (keys in its columns, rows that are counted before a plan is made) is not to
//! be had with it, and refused by name.

use std::path::Path;

use super::super::counting::counted_window;
use super::super::form::RawSetting;
use super::super::names::Names;
use super::{NAME, Reach, Table, Wanted, read_within};
use crate::dataset::input::{Input, InputKind, InputSource};
use crate::dataset::mltable::MlTable;
use crate::dataset::step_output::StepOutput;

/// What stands as the path of an input whose table is in the output at `address` of another step.
pub(in super::super) fn address_of_step(address: &str) -> Option<String> {
    StepOutput::parse(address)?;
    Some(format!("{}/{NAME}", address.trim_end_matches('/')))
}

/// The input `name` of this type whose table is at `path`, where another step writes that.
pub(in super::super) fn unread(name: &str, kind: &str, path: &RawSetting) -> Option<Input> {
    let address = path.value.as_text()?.trim().strip_suffix(NAME)?.strip_suffix('/')?;
    let output = StepOutput::parse(address)?;
    let kind = if kind == "tabular" { InputKind::Tabular } else { InputKind::File };
    Some(Input {
        mltable: Some(Box::new(MlTable { is_unread: true, ..MlTable::default() })),
        ..Input::new(name, kind, InputSource::Output(output))
    })
}

/// Gives `input` what the table says that a step wrote to `folder`, an absolute path or an `s3://` URL.
///
/// # Errors
/// All that is wrong with it, each with file and line.
pub fn read_of_step(input: &mut Input, folder: &str, text: String) -> Result<(), String> {
    let file = format!("{}/{NAME}", folder.trim_end_matches('/'));
    let wanted = if input.kind == InputKind::Tabular { Wanted::Rows } else { Wanted::Files };
    let read = read_within(Ok(text), Path::new(&file), wanted, &Names::default(), Reach::Folder);
    let Table { source, options, described, partition_format, .. } = read.map_err(|all| all.join("; "))?;
    let tabular = (input.kind == InputKind::Tabular).then_some(options);
    let mltable = Some(Box::new(described));
    let read = Input { source, tabular, mltable, partition_format, ..input.clone() };
    if counted_window(&read).is_some() {
        return Err(format!(
            "{file}: skip and take behind a filter, a sample or invalid_lines: drop are counted by a step that is planned when \
             the pipeline is submitted, and the table was not there then: put them before, or have the step write the rows \
             that are wanted"
        ));
    }
    *input = read;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(kind: &str) -> Input {
        let address = address_of_step("prs-step://prep/table").unwrap();
        let node = super::super::Node::text(address, None);
        let path = RawSetting { key: "path".to_owned(), shown: "path".to_owned(), line: None, value: node };
        unread("data", kind, &path).unwrap()
    }

    #[test]
    fn an_input_is_what_the_table_says_once_it_is_read() {
        let mut rows = input("tabular");
        assert_eq!(rows.source.label(), "prs-step://prep/table");
        assert!(rows.mltable.as_ref().unwrap().is_unread && rows.kind == InputKind::Tabular);
        let table = "paths: [{pattern: '*.csv'}, {file: a.csv}]\ntransformations: [{read_delimited: {delimiter: ';'}}, {take: 3}]\n";
        read_of_step(&mut rows, "s3://bucket/p-prep/output/table", table.to_owned()).unwrap();
        let named = ["*.csv", "a.csv"].map(|name| format!("s3://bucket/p-prep/output/table/{name}"));
        assert_eq!(rows.source, InputSource::Remote(named.to_vec()));
        assert_eq!(rows.tabular.as_ref().map(|options| options.delimiter), Some(b';'));
        let read = rows.mltable.unwrap();
        assert_eq!((read.is_unread, read.window.take), (false, Some(3)));
        assert_eq!(read.path, "s3://bucket/p-prep/output/table/MLTable");

        for (table, source) in [
            ("paths: [folder: .]\n", "s3://bucket/out/"),
            ("paths: [file: notes.txt]\n", "s3://bucket/out/notes.txt"),
            // Files are what it reads its rows of.
            (
                "paths: [pattern: ./*/ids.csv]\ntransformations: [read_delimited]\n",
                "s3://bucket/out/*/ids.csv",
            ),
        ] {
            let mut files = input("file");
            read_of_step(&mut files, "s3://bucket/out", table.to_owned()).unwrap();
            assert_eq!(files.source, InputSource::Remote(vec![source.to_owned()]), "{table}");
            assert_eq!((files.kind, files.tabular), (InputKind::File, None), "{table}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (kind, table, says) in [
            (
                "file",
                "paths:\n- file: ../a\n",
                "s3://bucket/o/MLTable:2: paths[0].file: ../a is not below the folder",
            ),
            ("file", "paths:\n- /data\n", "s3://bucket/o/MLTable:2: paths[0]: /data is not below the folder"),
            (
                "file",
                "paths:\n- file: x/ids.csv\n- file: ../a.csv\n",
                "s3://bucket/o/MLTable:3: paths[1].file: ../a.csv is not below the folder",
            ),
            (
                "file",
                "paths:\n- folder: /tmp\n",
                "s3://bucket/o/MLTable:2: paths[0].folder: /tmp is not below the folder of the table",
            ),
            ("tabular", "paths: [file: a]\n", "no transformation reads rows"),
            ("tabular", "paths: [folder: .]\n", "transformations: no transformation reads rows"),
            ("file", "paths: [\n", "s3://bucket/o/MLTable:2: not valid YAML"),
            (
                "tabular",
                "paths: [folder: x]\ntransformations:\n- read_delimited\n- keep_colums: a\n",
                "s3://bucket/o/MLTable:4: transformations[1].keep_colums: there is no such transformation: did you mean `keep_columns`?",
            ),
            (
                "tabular",
                "paths: [file: a]\ntransformations: [read_parquet, filter: a > 1, skip: 2]\n",
                "s3://bucket/o/MLTable: skip and take behind a filter",
            ),
        ] {
            let error = read_of_step(&mut input(kind), "s3://bucket/o", table.to_owned()).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
