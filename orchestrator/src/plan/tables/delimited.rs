//! Slices of delimited text. Types are found once a file, so that its slices agree.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use prs_common::dataset::mltable::{ColumnType as Converted, Encoding, MlTable, TableWork};
use prs_common::job::{Infer, TabularOptions};
use prs_common::message_pack;
use prs_common::tree;
use prs_tabular::parquet::Rows;
use prs_tabular::{
    ColumnType, Cutting, Dialect, InferMode, NullValues, Schema, SchemaError, Splitter, TableReader,
    TextRules,
};

use super::Slices;
use super::headers::Headers;
use crate::plan::plain_text::PlainText;
use crate::plan::types_seen::GIVE_DTYPE;

/// Cuts a file into slices of about `size` bytes; or says why the rest of it cannot be cut.
pub(super) fn plan(
    options: &TabularOptions,
    table: Option<(&MlTable, &mut Headers)>,
    text: &PlainText,
    size: u64,
    slices: &mut Slices<'_, '_, '_>,
) -> Result<(), String> {
    let has_header = table.as_ref().map_or(options.has_header, |(_, headers)| headers.has_header());
    let dialect = Dialect::new(options.delimiter, has_header).expect("the job file's delimiter was checked");
    if text.broken.is_some() {
        cut_last_line(&text.path).map_err(|error| error.to_string())?;
    }
    let finds_types = !table.as_ref().is_some_and(|(table, _)| table.all_text);
    let infer = if finds_types { options.infer } else { Infer::Sampled };
    let mut rules = rules(options);
    if let Some((table, _)) = &table {
        rules.empty_as_text = table.empty_as_text;
        rules.only_ascii = table.encoding == Encoding::Ascii;
    }
    let splitter = Splitter::new(dialect, size).within(slices.rows.skip, slices.rows.most);
    let mut cutting = Cutting::new(&text.path, splitter).map_err(|error| error.to_string())?;
    let found = match infer {
        Infer::Full => Schema::infer_while_cutting(&mut cutting, rules, slices.taker.sink.stop),
        Infer::Sampled => sample(text, dialect, rules),
    };
    let mut schema = match found.and_then(|schema| declare(schema, options)) {
        Ok(schema) => schema,
        Err(SchemaError::Empty) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let mut all = None;
    if let Some((table, headers)) = table {
        headers.name(&mut schema, &text.path, dialect, slices.name.origin)?;
        if table.all_text {
            schema.types.fill(ColumnType::Utf8);
            schema.declared.fill(true);
        } else {
            read_as_text(&mut schema, &table.work);
        }
        all = headers.all_of(&schema);
    }
    let found = schema.clone();
    let reader = message_pack::encode(&match all {
        None => TableReader::Delimited(dialect, schema),
        Some(all) => TableReader::DelimitedOf(dialect, schema, all),
    });
    let cut = cutting.go_on(|slice| slices.push_counted(&reader, slice));
    slices.rows.skip = cutting.left_to_skip();
    // A header without records says nothing of types.
    if slices.planned_to > 0 {
        note_types(&found, slices);
    }
    cut.map_err(|error| error.to_string())?;
    if finds_types && infer == Infer::Sampled {
        note_sample(&found, text, dialect, slices);
    }
    Ok(())
}

/// Notes the types that were found, for those of other files to be compared with.
fn note_types(schema: &Schema, slices: &mut Slices<'_, '_, '_>) {
    let columns = schema.names.iter().zip(&schema.types).zip(&schema.declared);
    for ((name, of_type), _) in columns.filter(|(_, declared)| !**declared) {
        slices.taker.sink.types.note(&name, of_type.name(), slices.name.origin, GIVE_DTYPE);
    }
}

/// Compares the types that a sample gave with those of all of the file, once all of its slices are on their way.
fn note_sample(sampled: &Schema, text: &PlainText, dialect: Dialect, slices: &mut Slices<'_, '_, '_>) {
    let sink = &mut *slices.taker.sink;
    if sink.is_stopped() || slices.rows.most == 0 {
        return;
    }
    // Whatever is wrong with the file, its slices tell.
    let Ok(whole) =
        Schema::infer_file(&text.path, &dialect, sampled.rules.clone(), InferMode::Full, sink.stop)
    else {
        return;
    };
    let types = sampled.types.iter().zip(&whole.types).zip(&sampled.declared);
    for (name, ((sampled, whole), declared)) in sampled.names.iter().zip(types) {
        if sampled != whole && !declared {
            sink.types.note_sample(&name, (sampled.name(), whole.name()), slices.name.origin);
        }
    }
}

/// Takes off `rows` what [`plan`] will find of them in a file whose first record has the names.
pub(super) fn count(options: &TabularOptions, text: &PlainText, size: u64, rows: &mut Rows) {
    let dialect = Dialect::new(options.delimiter, true).expect("the job file's delimiter was checked");
    let is_cut = text.broken.is_none() || cut_last_line(&text.path).is_ok();
    // No type is of interest.
    let schema = sample(text, dialect, TextRules::default()).and_then(|schema| declare(schema, options));
    if !is_cut || schema.is_err() {
        return;
    }
    let splitter = Splitter::new(dialect, size).within(rows.skip, rows.most);
    let Ok(mut cutting) = Cutting::new(&text.path, splitter) else { return };
    // Where the file cannot be cut to its end, the plan has what is before that.
    let _ = cutting.go_on(|slice| {
        rows.most = rows.most.saturating_sub(slice.records);
        if rows.most == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    rows.skip = cutting.left_to_skip();
}

/// How texts of fields are read.
fn rules(options: &TabularOptions) -> TextRules {
    let null_values = NullValues::new(options.null_values.as_deref(), &options.add_null_values);
    TextRules { null_values, ..TextRules::default() }
}

fn sample(text: &PlainText, dialect: Dialect, rules: TextRules) -> Result<Schema, SchemaError> {
    Schema::infer_file(&text.path, &dialect, rules, InferMode::Sampled, &|| false)
}

/// Gives columns the types that the job file names.
fn declare(mut schema: Schema, options: &TabularOptions) -> Result<Schema, SchemaError> {
    let declared: Result<Vec<(&str, ColumnType)>, SchemaError> =
        options.dtype.iter().map(|(name, dtype)| dtype.parse().map(|dtype| (name.as_str(), dtype))).collect();
    schema.declare(declared?)?;
    Ok(schema)
}

/// Makes text of the columns that get another type anyway: a number that was found has lost leading zeros, and digits
/// beside a missing value. Found truth values stay, unless they become text.
fn read_as_text(schema: &mut Schema, work: &TableWork) {
    for (index, name) in schema.names.iter().enumerate() {
        let is_truth = matches!(schema.types[index], ColumnType::Bool | ColumnType::BoolOrMissing);
        if work.first_conversion(&name).is_some_and(|to| *to == Converted::String || !is_truth) {
            schema.types[index] = ColumnType::Utf8;
            schema.declared[index] = true;
        }
    }
}

/// Takes the last line from a copy that ends where decompression broke, unless its end is there: the line may be a part of
/// a record that reads like a whole one.
fn cut_last_line(copy: &Path) -> io::Result<()> {
    let file = tree::open_to_write(copy)?;
    let mut block = vec![0; 64 << 10];
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let block = &mut block[..(end - start) as usize];
        file.read_exact_at(block, start)?;
        if let Some(at) = memchr::memrchr2(b'\n', b'\r', block) {
            return file.set_len(start + at as u64 + 1);
        }
        end = start;
    }
    file.set_len(0)
}

#[cfg(test)]
mod tests {
    use prs_common::dataset::mltable::{Conversion, Step, parse};
    use prs_tabular::Names;

    use super::*;

    #[test]
    fn columns_that_are_converted_are_read_as_text() {
        let convert = |name: &str, to| {
            Step::ConvertColumnTypes(vec![Conversion { columns: vec![name.to_owned()], to }])
        };
        let filter = |text: &str| Step::Filter { text: text.to_owned(), expression: parse(text).unwrap() };
        let text = || Converted::String;
        for (steps, expected) in [
            (vec![], ""),
            (vec![convert("id", text())], "id"),
            (vec![convert("id", Converted::Int), convert("id", text())], "id"),
            (vec![convert("absent", text()), convert("zip", text())], "zip"),
            (vec![convert("truth", text())], "truth"),
            (vec![convert("truth", Converted::Int)], ""),
            (vec![Step::DropColumns(vec!["id".to_owned()]), convert("zip", text())], "zip"),
            // What a filter compares is what was found.
            (vec![filter("not (id > 5 or zip == 3)"), convert("id", text())], ""),
            (vec![filter("id > 5 and truth"), convert("zip", text()), convert("truth", text())], "zip"),
            (vec![convert("id", Converted::Int), filter("id > 5")], "id"),
        ] {
            let names = ["id", "zip", "truth"].map(str::to_owned).to_vec();
            let types = vec![ColumnType::Float64, ColumnType::Int64, ColumnType::Bool];
            let mut schema = Schema::new(Names::Header(names.clone()), types.clone());
            read_as_text(&mut schema, &TableWork { steps: steps.clone(), ..TableWork::default() });
            for (index, name) in names.iter().enumerate() {
                let is_text = name == expected;
                let kind = if is_text { ColumnType::Utf8 } else { types[index] };
                assert_eq!((schema.types[index], schema.declared[index]), (kind, is_text), "{steps:?}");
            }
        }
    }

    #[test]
    fn a_line_that_may_be_cut_goes() {
        let long = "x".repeat(200_000);
        let table = [
            (String::new(), ""),
            ("a,b".to_owned(), ""),
            ("a,b\n".to_owned(), "a,b\n"),
            ("a,b\n1,7".to_owned(), "a,b\n"),
            ("a,b\r1,7\r".to_owned(), "a,b\r1,7\r"),
            ("a,b\r\n1,7".to_owned(), "a,b\r\n"),
            (format!("a,b\n{long}"), "a,b\n"),
            (long, ""),
        ];
        for (text, expected) in table {
            let copy = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(copy.path(), &text).unwrap();
            cut_last_line(copy.path()).unwrap();
            let left = std::fs::read_to_string(copy.path()).unwrap();
            assert_eq!(left, expected, "{}", &text[..text.len().min(20)]);
        }
    }
}
