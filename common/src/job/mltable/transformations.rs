//! `transformations` of an MLTable, in the order written (dialects B.2).
//!
//! The first may say how the files are read; the others say what is done with the rows. What counts records from the
//! beginning of the table (`skip`, `take`) is for the plan, all else for the processes. Behind a filter or a sample the plan
//! counts what processes have found (`job/counting`).

use super::super::form::RawSetting;
use super::super::inputs;
use super::super::near_name::nearest;
use super::super::reader::Reader;
use super::super::takes::Takes;
use super::super::yaml::{Key, Node, Value};
use super::columns::names;
use super::conversions;
use super::delta;
use crate::dataset::input::{TableFormat, TabularOptions};
use crate::dataset::mltable::{Encoding, Header, MlTable, Sample, Step, Window, parse};
use crate::dataset::partition_format::PartitionFormat;

/// All transformations.
const KNOWN: [&str; 12] = [
    "read_delimited",
    "read_parquet",
    "read_json_lines",
    "convert_column_types",
    "drop_columns",
    "keep_columns",
    "extract_columns_from_partition_format",
    "filter",
    "skip",
    "take",
    "take_random_sample",
    delta::READ,
];
const EXTRACT: &str = "extract_columns_from_partition_format";
const SAMPLE: &str = "take_random_sample";
const DELIMITED: [&str; 9] = [
    "delimiter",
    "header",
    "encoding",
    "empty_as_string",
    "include_path_column",
    "path_column",
    "support_multi_line",
    "infer_column_types",
    "partition_size",
];
const PARQUET: [&str; 2] = ["include_path_column", "path_column"];
const JSON_LINES: [&str; 4] = ["include_path_column", "path_column", "invalid_lines", "encoding"];
/// The words of `header`: those of v2, of v1, and whether there is one.
const HEADERS: [(&str, Header); 10] = [
    ("no_header", Header::NoHeader),
    ("no_headers", Header::NoHeader),
    ("false", Header::NoHeader),
    ("from_first_file", Header::FromFirstFile),
    ("only_first_file_has_headers", Header::FromFirstFile),
    ("all_files_same_headers", Header::AllFilesSameHeaders),
    ("all_files_have_same_headers", Header::AllFilesSameHeaders),
    ("true", Header::AllFilesSameHeaders),
    ("all_files_different_headers", Header::AllFilesDifferentHeaders),
    ("combine_all_files_headers", Header::AllFilesDifferentHeaders),
];
const ENCODINGS: [(&str, Encoding); 8] = [
    ("utf8", Encoding::Utf8),
    ("utf8bom", Encoding::Utf8),
    ("iso88591", Encoding::Latin1),
    ("latin1", Encoding::Latin1),
    ("ascii", Encoding::Ascii),
    ("utf16", Encoding::Utf16),
    ("utf32", Encoding::Utf32),
    ("windows1252", Encoding::Windows1252),
];

/// What the transformations say.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) has_rows: bool,
    /// Whether these are those of a Delta table.
    pub(super) is_delta: bool,
    pub(super) options: TabularOptions,
    pub(super) table: MlTable,
    pub(super) partition_format: Option<PartitionFormat>,
}

/// The name of a transformation.
pub(super) fn name_of(item: &Node) -> Option<&str> {
    match &item.value {
        Value::Mapping(entries) => entries.first().map(|(name, _)| name.name.as_str()),
        _ => item.as_text(),
    }
}

/// Reads `transformations` of a table in `folder`; `traits` are columns that none may drop.
pub(super) fn read(fields: &mut Reader<'_>, traits: &[String], folder: &str) -> Done {
    let mut done = Done::default();
    let Some(setting) = fields.get("transformations") else { return done };
    let Value::Sequence(items) = &setting.value.value else {
        let message = format!(
            "{} where a list is expected: give `- read_delimited` or the like",
            setting.value.describe()
        );
        fields.refuse(&setting, message);
        return done;
    };
    for (index, item) in items.iter().enumerate() {
        let shown = format!("transformations[{index}]");
        let (name, argument) = match &item.value {
            Value::Mapping(entries) if entries.len() == 1 => {
                let (Key { name, .. }, argument) = &entries[0];
                (name.as_str(), argument.clone())
            }
            Value::Scalar { text, .. } => (text.as_str(), Node { line: item.line, value: Value::Null }),
            _ => {
                let message =
                    format!("{} is no transformation: give one name, as in `- take: 10`", item.describe());
                fields.refuse_at(&shown, item.line, message);
                continue;
            }
        };
        let shown = format!("{shown}.{name}");
        let setting = RawSetting { key: name.to_owned(), shown, line: item.line, value: argument };
        if name == SAMPLE {
            sample(fields, &setting, folder, &mut done);
        } else {
            one(fields, &setting, index, traits, &mut done);
        }
    }
    done
}

/// Reads one transformation, the `index`th.
fn one(fields: &mut Reader<'_>, setting: &RawSetting, index: usize, traits: &[String], done: &mut Done) {
    let name = setting.key.as_str();
    if !KNOWN.contains(&name) {
        let hint = nearest(name, &KNOWN).map_or_else(
            || format!("there are {}", KNOWN.join(", ")),
            |nearest| format!("did you mean `{nearest}`?"),
        );
        fields.refuse(setting, format!("there is no such transformation: {hint}"));
        return;
    }
    if name.starts_with("read_") {
        if done.has_rows {
            fields.refuse(setting, "the rows are read already: keep one transformation that reads");
        } else if index > 0 {
            fields.refuse(setting, "what is before it has no rows: put it first");
        }
        done.is_delta = !done.has_rows && name == delta::READ;
        done.has_rows = true;
        reader(fields, setting, done);
        return;
    }
    if name == EXTRACT {
        return extract(fields, setting, done);
    }
    let counts = matches!(name, "skip" | "take");
    if !done.has_rows && !counts {
        let message = "it is about rows, and nothing before it reads any: put read_delimited, read_parquet, \
                       read_json_lines or read_delta_lake first";
        fields.refuse(setting, message);
        return;
    }
    if counts {
        window(fields, setting, done);
        return;
    }
    let step = match name {
        "filter" => filter(fields, setting),
        "convert_column_types" => conversions::read(fields, setting).map(Step::ConvertColumnTypes),
        "keep_columns" => names(fields, setting).map(Step::KeepColumns),
        _ => names(fields, setting).map(Step::DropColumns),
    };
    if let Some(Step::DropColumns(columns)) = &step
        && let Some(column) = columns.iter().find(|column| traits.contains(column))
    {
        fields.refuse(
            setting,
            format!("{column:?} is named by traits, so it has to stay: remove one of the two"),
        );
    }
    let is_nothing = |step: &Step| match step {
        Step::KeepColumns(columns) | Step::DropColumns(columns) => columns.is_empty(),
        Step::ConvertColumnTypes(conversions) => conversions.is_empty(),
        Step::Filter { .. }
        | Step::ExtractColumns(_)
        | Step::Sample(_)
        | Step::Window(_)
        | Step::Count {} => false,
    };
    done.table.work.steps.extend(step.filter(|step| !is_nothing(step)));
}

/// `extract_columns_from_partition_format`: the text, or a mapping with it.
fn extract(fields: &mut Reader<'_>, setting: &RawSetting, done: &mut Done) {
    let mut setting = setting.clone();
    if let Value::Mapping(_) = setting.value.value {
        let mut given = Reader::of_mapping(&setting.shown, &setting.value, fields.problems());
        given.refuse_unknown(&["partition_format"], EXTRACT);
        let Some(format) = given.get("partition_format") else {
            return given.refuse(
                &setting,
                "partition_format is missing: give it, such as {partition_format: '{year}/{file}'}",
            );
        };
        setting = format;
    }
    if done.partition_format.is_some() {
        return fields.refuse(&setting, "the columns are extracted already: keep one format");
    }
    let Some(text) = setting.value.as_text().filter(|text| !text.trim().is_empty()) else {
        let given = setting.value.describe();
        return fields
            .refuse(&setting, format!("{given} where a format is expected, such as '{{year}}/{{file}}'"));
    };
    match text.trim().parse::<PartitionFormat>() {
        Ok(format) => {
            let steps = &mut done.table.work.steps;
            // A slice comes with the columns behind those of its data.
            if !steps.is_empty() {
                steps.push(Step::ExtractColumns(format.names().map(str::to_owned).collect()));
            }
            done.partition_format = Some(format);
        }
        Err(reason) => fields.refuse(&setting, format!("{text:?} cannot be read: {reason}")),
    }
}

/// `skip` and `take`, which count records of the whole table.
fn window(fields: &mut Reader<'_>, setting: &RawSetting, done: &mut Done) {
    let least = i64::from(setting.key == "take");
    let takes = Takes::Whole(least..=i64::MAX, ", of records, or of files where none are read");
    let count = match takes.read(&setting.value) {
        Ok(count) => count.as_u64().unwrap_or_default(),
        Err(message) => return fields.refuse(setting, message),
    };
    let Done { table, has_rows, .. } = done;
    let steps = &mut table.work.steps;
    let changes_rows = |step: &Step| matches!(step, Step::Sample(_) | Step::Filter { .. });
    let counted = steps.iter().rposition(|step| matches!(step, Step::Window(_)));
    if counted.is_some_and(|at| steps[at + 1..].iter().any(changes_rows)) {
        let message = "rows are counted already, by an earlier skip or take behind a filter or a sample: keep them in one \
                       place, or have a step of a pipeline write what is left there";
        return fields.refuse(setting, message);
    }
    // Rows that are counted behind what leaves some of them out, which the plan does not know.
    let is_late = steps.iter().any(changes_rows) || table.drops_invalid;
    if *has_rows && is_late && counted.is_none() {
        steps.push(Step::Window(Window::default()));
    }
    let window = match steps.iter_mut().find_map(window_of) {
        Some(window) => window,
        None if is_late => &mut table.sample_window,
        None => &mut table.window,
    };
    let left = if setting.key == "take" { window.taking(count) } else { window.skipping(count) };
    if left.take == Some(0) {
        let all = window.take.unwrap_or_default();
        let message = format!(
            "it skips all {all} that the `take` before it leaves, so nothing is left of the table: skip fewer, or put it \
             before the `take`"
        );
        return fields.refuse(setting, message);
    }
    *window = left;
}

fn window_of(step: &mut Step) -> Option<&mut Window> {
    match step {
        Step::Window(window) => Some(window),
        _ => None,
    }
}

/// `take_random_sample`, of rows or, where none are read, of files.
fn sample(fields: &mut Reader<'_>, setting: &RawSetting, folder: &str, done: &mut Done) {
    const HOW: &str = "give {probability: 0.1, seed: 7}";
    if !matches!(setting.value.value, Value::Mapping(_)) {
        let given = setting.value.describe();
        return fields.refuse(setting, format!("{given} where a mapping is expected: {HOW}"));
    }
    let mut given = Reader::of_mapping(&setting.shown, &setting.value, fields.problems());
    given.refuse_unknown(&["probability", "seed"], SAMPLE);
    let mut read = |key: &str, takes: &Takes| {
        let Some(one) = given.get(key) else {
            let why = if key == "seed" { ", for what runs again has to draw the same rows" } else { "" };
            let place = format!("{}.{key}", setting.shown);
            given.refuse_at(&place, setting.line, format!("it is missing{why}: {HOW}"));
            return None;
        };
        takes.read(&one.value).map_err(|message| given.refuse(&one, message)).ok()
    };
    let probability = read("probability", &Takes::Number(0.0..=1.0));
    let seed = read("seed", &Takes::Whole(i64::MIN..=i64::MAX, ""));
    let (Some(probability), Some(seed)) =
        (probability.and_then(|value| value.as_f64()), seed.and_then(|value| value.as_i64()))
    else {
        return;
    };
    let steps = &mut done.table.work.steps;
    if steps.iter().any(|step| matches!(step, Step::Sample(_))) {
        let message = "a sample is taken already: keep one, with the product of both probabilities";
        return fields.refuse(setting, message);
    }
    if done.table.drops_invalid {
        let message = "with invalid_lines: drop it is not supported yet, for the sample counts lines without reading them: \
                       remove one of the two";
        return fields.refuse(setting, message);
    }
    steps.push(Step::Sample(Sample::new(probability, seed, folder)));
}

fn filter(fields: &mut Reader<'_>, setting: &RawSetting) -> Option<Step> {
    let Some(text) = setting.value.as_text() else {
        let given = setting.value.describe();
        fields.refuse(setting, format!("{given} where an expression is expected, such as `col(\"a\") > 0`"));
        return None;
    };
    let parsed = parse(text);
    let expression = parsed.map_err(|error| fields.refuse(setting, format!("{text:?}, {error}"))).ok()?;
    Some(Step::Filter { text: text.to_owned(), expression })
}

/// A transformation that reads rows.
fn reader(fields: &mut Reader<'_>, setting: &RawSetting, done: &mut Done) {
    let (format, known): (_, &[&'static str]) = match &*setting.key {
        "read_parquet" => (TableFormat::Parquet, &PARQUET),
        "read_json_lines" => (TableFormat::JsonLines, &JSON_LINES),
        delta::READ => (TableFormat::Parquet, &delta::ARGUMENTS),
        _ => (TableFormat::Delimited, &DELIMITED),
    };
    done.options.format = Some(format);
    let is_delta = setting.key == delta::READ;
    match &setting.value.value {
        Value::Null if is_delta => return delta::refuse_without(fields, setting),
        Value::Null => return,
        Value::Mapping(_) => {}
        _ => {
            let message = format!(
                "{} where a mapping is expected: give {}",
                setting.value.describe(),
                known.join(", ")
            );
            return fields.refuse(setting, message);
        }
    }
    let mut given = Reader::of_mapping(&setting.shown, &setting.value, fields.problems());
    given.refuse_unknown(known, &setting.key);
    let table = &mut done.table;
    if is_delta {
        table.delta = delta::as_of(&mut given, setting);
    }
    if given.boolean("include_path_column") == Some(true) {
        let name = given.filled_text("path_column", "the name of a column");
        table.work.path_column = Some(name.unwrap_or_else(|| "Path".to_owned()));
    }
    if let Some(text) = given.text("encoding") {
        let plain = text.trim().to_ascii_lowercase().replace(['-', '_'], "");
        match ENCODINGS.iter().find(|(word, _)| *word == plain) {
            Some((_, Encoding::Ascii)) if format == TableFormat::JsonLines => {
                let setting = given.get("encoding").expect("it has a text");
                given.refuse(&setting, "JSON is UTF-8, of which ascii is a part: give utf8");
            }
            Some((_, encoding)) => table.encoding = *encoding,
            None => refuse_word(&mut given, "encoding", &text, &ENCODINGS.map(|(word, _)| word)),
        }
    }
    if let Some(text) = given.text("invalid_lines") {
        match text.trim().to_ascii_lowercase().as_str() {
            "error" => {}
            "drop" => table.drops_invalid = true,
            _ => refuse_word(&mut given, "invalid_lines", &text, &["error", "drop"]),
        }
    }
    if format != TableFormat::Delimited {
        return;
    }
    done.options.delimiter = inputs::delimiter(&mut given).unwrap_or(done.options.delimiter);
    if let Some(text) = given.text("header") {
        let word = text.trim().to_ascii_lowercase();
        // What the Python classes print.
        let word = word.rsplit('.').next().unwrap_or_default();
        match HEADERS.iter().find(|(known, _)| *known == word) {
            Some((_, header)) => table.header = *header,
            None => refuse_word(
                &mut given,
                "header",
                &text,
                &["no_header", "from_first_file", "all_files_same_headers", "all_files_different_headers"],
            ),
        }
    }
    done.options.has_header =
        matches!(table.header, Header::AllFilesSameHeaders | Header::AllFilesDifferentHeaders);
    table.empty_as_text = given.boolean("empty_as_string").unwrap_or_default();
    table.work.empty_is_missing = table.empty_as_text;
    given.boolean("support_multi_line");
    infer(&mut given, done);
}

/// `infer_column_types`: whether types are found, or which some columns get.
fn infer(given: &mut Reader<'_>, done: &mut Done) {
    let Some(setting) = given.get("infer_column_types") else { return };
    if !matches!(setting.value.value, Value::Mapping(_)) {
        done.table.all_text = given.boolean("infer_column_types") == Some(false);
        return;
    }
    for one in given.nested("infer_column_types", &["sample_size", "column_type_overrides"]) {
        if one.key == "column_type_overrides"
            && let Some(conversions) = conversions::overrides(given, &one)
        {
            done.table.work.steps.push(Step::ConvertColumnTypes(conversions));
        }
    }
}

fn refuse_word(given: &mut Reader<'_>, key: &str, text: &str, known: &[&str]) {
    let setting = given.get(key).expect("it has a text");
    given.refuse(&setting, format!("{text:?} is not one of {}", known.join(", ")));
}
