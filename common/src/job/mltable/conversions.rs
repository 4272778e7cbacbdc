//! `convert_column_types`: which column gets which type (dialects B.3).

use std::collections::HashSet;

use super::super::form::RawSetting;
use super::super::near_name::nearest;
use super::super::reader::Reader;
use super::super::yaml::{Node, Value};
use super::columns::names;
use crate::dataset::mltable::{ColumnType, Conversion};

/// Names of the types.
const TYPES: [&str; 6] = ["int", "float", "string", "boolean", "datetime", "stream_info"];
/// What a format of points in time may hold behind `%`.
const DIRECTIVES: &str = "YymbBdHIMSfpz";

/// The conversions of a list; nothing where one of them is wrong. No column may have two types.
pub(super) fn read(fields: &mut Reader<'_>, setting: &RawSetting) -> Option<Vec<Conversion>> {
    let items = match &setting.value.value {
        Value::Sequence(items) => items.as_slice(),
        Value::Mapping(_) => std::slice::from_ref(&setting.value),
        _ => {
            let given = setting.value.describe();
            let message =
                format!("{given} where a list is expected, such as `- {{columns: a, column_type: int}}`");
            fields.refuse(setting, message);
            return None;
        }
    };
    let mut conversions: Vec<Conversion> = Vec::new();
    let mut typed = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let shown = format!("{}[{index}]", setting.shown);
        let mut given = Reader::of_mapping(&shown, item, fields.problems());
        if !matches!(item.value, Value::Mapping(_)) {
            let message = format!("{} is no conversion: give columns and column_type", item.describe());
            given.refuse_at(&shown, item.line, message);
            return None;
        }
        given.refuse_unknown(&["columns", "column_type"], "a conversion");
        let (Some(columns), Some(to)) = (given.get("columns"), given.get("column_type")) else {
            given.refuse_at(&shown, item.line, "give both columns and column_type");
            return None;
        };
        let columns = names(&mut given, &columns)?;
        let to = column_type(&mut given, &to)?;
        if let Some(name) = columns.iter().find(|name| !typed.insert((*name).clone())) {
            let message = format!("{name:?} has a type already: remove one");
            fields.refuse_at(&shown, item.line, message);
            return None;
        }
        conversions.push(Conversion { columns, to });
    }
    Some(conversions)
}

/// The conversions that `infer_column_types.column_type_overrides` asks for: a list as above, or columns with their types.
pub(super) fn overrides(fields: &mut Reader<'_>, setting: &RawSetting) -> Option<Vec<Conversion>> {
    let Value::Mapping(entries) = &setting.value.value else { return read(fields, setting) };
    let mut conversions = Vec::new();
    for (name, value) in entries {
        let shown = format!("{}.{}", setting.shown, name.name);
        let one = RawSetting { key: name.name.clone(), shown, line: Some(name.line), value: value.clone() };
        let to = column_type(fields, &one)?;
        conversions.push(Conversion { columns: vec![name.name.clone()], to });
    }
    Some(conversions)
}

/// The type that `setting` is: a word, or a mapping of the word to what is said of it.
fn column_type(fields: &mut Reader<'_>, setting: &RawSetting) -> Option<ColumnType> {
    let (name, details) = match &setting.value.value {
        Value::Mapping(entries) => match &entries[..] {
            [(name, details)] => (name.name.as_str(), Some(details)),
            _ => ("", None),
        },
        _ => (setting.value.as_text().unwrap_or_default(), None),
    };
    let word = TYPES.iter().find(|known| known.eq_ignore_ascii_case(name)).copied();
    let plain = |kind| details.is_none_or(Node::is_null).then_some(kind);
    let found = match word {
        Some("int") => plain(ColumnType::Int),
        Some("float") => plain(ColumnType::Float),
        Some("string") => plain(ColumnType::String),
        Some("boolean") => return boolean(fields, setting, details),
        Some("datetime") => return datetime(fields, setting, details),
        Some(_) => {
            let message = "stream_info stands for a file in Azure, which nothing here opens: give string, and open the \
                           path in the script";
            fields.refuse(setting, message);
            return None;
        }
        None => None,
    };
    if found.is_none() {
        let hint = nearest(name, &TYPES).filter(|_| word.is_none()).map_or_else(
            || format!("give one of {}", TYPES[..5].join(", ")),
            |nearest| format!("did you mean {nearest}?"),
        );
        fields.refuse(setting, format!("{} is no type of a column: {hint}", setting.value.describe()));
    }
    found
}

/// What is said of a type, in a mapping without other keys than `known`.
fn details_of<'a>(
    fields: &'a mut Reader<'_>,
    setting: &RawSetting,
    details: Option<&Node>,
    known: &[&'static str],
) -> Option<Reader<'a>> {
    let none = Node { line: setting.line, value: Value::Mapping(Vec::new()) };
    let details = details.filter(|details| !details.is_null()).unwrap_or(&none);
    if !matches!(details.value, Value::Mapping(_)) {
        let message =
            format!("{} where a mapping is expected: give {}", details.describe(), known.join(", "));
        fields.refuse(setting, message);
        return None;
    }
    let mut given = Reader::of_mapping(&setting.shown, details, fields.problems());
    given.refuse_unknown(known, "the type");
    Some(given)
}

fn texts(given: &mut Reader<'_>, key: &str) -> Option<Vec<String>> {
    let texts = given.texts(key)?;
    Some(texts.iter().filter_map(|text| text.value.as_text()).map(str::to_owned).collect())
}

fn boolean(fields: &mut Reader<'_>, setting: &RawSetting, details: Option<&Node>) -> Option<ColumnType> {
    let mut given = details_of(fields, setting, details, &["true_values", "false_values", "mismatch_as"])?;
    let [true_values, false_values] = ["true_values", "false_values"].map(|key| texts(&mut given, key));
    if given.has("true_values") != given.has("false_values") {
        given.refuse(setting, "give both true_values and false_values, or neither");
        return None;
    }
    if let Some((truths, falsehoods)) = true_values.as_ref().zip(false_values.as_ref())
        && let Some(both) = truths.iter().find(|value| falsehoods.contains(value))
    {
        let message = format!("{both:?} is among true_values and false_values: remove one");
        given.refuse(setting, message);
        return None;
    }
    let mismatch_as = match given.text("mismatch_as").map(|text| text.to_ascii_lowercase()).as_deref() {
        None | Some("error") => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(other) => {
            let message = format!("mismatch_as {other:?} is not one of error, true, false");
            given.refuse(setting, message);
            return None;
        }
    };
    Some(ColumnType::Boolean { true_values, false_values, mismatch_as })
}

fn datetime(fields: &mut Reader<'_>, setting: &RawSetting, details: Option<&Node>) -> Option<ColumnType> {
    let mut given = details_of(fields, setting, details, &["formats", "date_constant"])?;
    let formats = match given.get("formats") {
        Some(one) if one.value.as_text().is_some() => one.value.as_text().map(|one| vec![one.to_owned()]),
        Some(_) => texts(&mut given, "formats"),
        None => Some(Vec::new()),
    }?;
    if let Some((format, wrong)) = formats.iter().find_map(|format| Some((format, wrong_directive(format)?)))
    {
        let message = format!(
            "{wrong} of {format:?} is not one of {}",
            DIRECTIVES.chars().map(|letter| format!("%{letter}")).collect::<Vec<_>>().join(" ")
        );
        given.refuse(setting, message);
        return None;
    }
    let date_constant = given.text("date_constant");
    if let Some(date) = date_constant.as_deref().filter(|date| !is_date(date)) {
        let message = format!("date_constant {date:?} is no day: give it as 2023-01-31");
        given.refuse(setting, message);
        return None;
    }
    Some(ColumnType::Datetime { formats, date_constant })
}

/// The first directive of `format` that is not read.
fn wrong_directive(format: &str) -> Option<String> {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        let letter = rest[at + 1..].chars().next();
        match letter {
            Some(letter) if DIRECTIVES.contains(letter) => rest = &rest[at + 2..],
            letter => return Some(letter.map_or_else(|| "%".to_owned(), |letter| format!("%{letter}"))),
        }
    }
    None
}

/// Whether `text` has the form of a day; whether there is such a day shows when it is used.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_number =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    let in_range = |part: &str, last| part.parse::<u32>().is_ok_and(|number| (1..=last).contains(&number));
    matches!(parts[..], [year, month, day]
        if is_number(year, 4) && is_number(month, 2) && is_number(day, 2) && in_range(month, 12) && in_range(day, 31))
}
