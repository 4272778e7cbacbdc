//! `output_format`: how results are written (spec E8), as CSV, as JSON lines or as a Parquet file.
//!
//! Without it they are written as ParallelRunStep does, and a result that is called `.csv` is none: a note says so.

use std::path::Path;

use super::form::RawSetting;
use super::inputs::delimiter;
use super::keys::{JOB, OUTPUT_FORMAT};
use super::reader::Reader;
use super::spec::{CsvFormat, JobSpec, OutputAction, OutputFormat, PlainFormat};
use super::validate::script_below;
use super::yaml::Value;

const KEY: &str = "output_format";
/// The argument that asks for a header in the form of ParallelRunStep.
const HEADER_ARGUMENT: &str = "--append_row_dataframe_header";
/// The file beside the script that changes this form.
const SETTINGS_FILE: &str = "parallel_run_step.settings.json";

/// Takes the form over, where it is given, and holds it against the settings that it goes with.
pub(super) fn read(reader: &mut Reader<'_>, spec: &mut JobSpec) {
    let Some(setting) = reader.get(KEY) else { return };
    let Some(format) = format(reader, &setting) else { return };
    if spec.output_action == OutputAction::SummaryOnly {
        let message = "summary_only writes no rows: remove it, or give output_action: append_row";
        reader.refuse(&setting, message);
    }
    let is_header = |argument: &String| argument.split('=').next() == Some(HEADER_ARGUMENT);
    if spec.arguments.iter().any(is_header) {
        let remedy = match format {
            OutputFormat::Csv(_) => "remove that, and give `header` here",
            OutputFormat::Plain(PlainFormat::JsonLines) => {
                "remove that, each line has the names of the columns"
            }
            OutputFormat::Plain(PlainFormat::Parquet) => "remove that, the file has the names of the columns",
        };
        let message = format!("the arguments have {HEADER_ARGUMENT}: {remedy}");
        reader.refuse(&setting, message);
    }
    spec.output_format = Some(format);
}

fn format(reader: &mut Reader<'_>, setting: &RawSetting) -> Option<OutputFormat> {
    if !matches!(setting.value.value, Value::Mapping(_)) {
        let name = setting.value.as_text().map(|text| text.trim().to_ascii_lowercase());
        match name.as_deref() {
            Some("csv") => return Some(OutputFormat::Csv(CsvFormat::DEFAULT)),
            Some("json_lines") => return Some(OutputFormat::Plain(PlainFormat::JsonLines)),
            Some("parquet") => return Some(OutputFormat::Plain(PlainFormat::Parquet)),
            _ => {}
        }
        let given = setting.value.describe();
        let remedy = match setting.line {
            Some(_) => format!("give {}", JOB.key(KEY).takes),
            None => {
                "--set takes csv, json_lines and parquet; a mapping such as {delimiter: \";\", header: true} goes into the \
                     job file"
                    .to_owned()
            }
        };
        reader.refuse(setting, format!("{given} is not a valid output_format: {remedy}"));
        return None;
    }
    let mut fields = Reader::of_mapping(&setting.shown, &setting.value, reader.problems());
    fields.refuse_unknown(&OUTPUT_FORMAT.names(), OUTPUT_FORMAT.of);
    let CsvFormat { delimiter: comma, header } = CsvFormat::DEFAULT;
    let delimiter = delimiter(&mut fields).map_or(comma, char::from);
    let header = fields.value(OUTPUT_FORMAT.key("header")).unwrap_or(header);
    Some(OutputFormat::Csv(CsvFormat { delimiter, header }))
}

/// A note for a job whose result is named .csv and is not CSV; nothing for any other job.
pub(super) fn note_on_csv(spec: &JobSpec) -> Option<String> {
    let name = &spec.append_row_file_name;
    let is_csv = Path::new(name).extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("csv"));
    if spec.output_action == OutputAction::SummaryOnly || spec.output_format.is_some() || !is_csv {
        return None;
    }
    let script = script_below(&spec.source_directory, &spec.entry_script)?;
    if script.with_file_name(SETTINGS_FILE).exists() {
        return None;
    }
    Some(format!(
        "DataFrames go into {name} as ParallelRunStep writes them, with blanks between columns; `--set \
         output_format=csv` writes a CSV file"
    ))
}
