//! What of a record is printed, and how, where a command line says it: `--query` and `-o tsv` (dialects F.3).

use std::sync::OnceLock;

use clap::ValueEnum;
use jmespath::{Expression, Variable};
use serde_json::Value;

use crate::failure::Failure;

/// The number of the form of a record, which is no part of what is asked for.
const SCHEMA: &str = "schema";

/// How data is printed, as the command line says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For shells: values without quotes, with tabs between them.
    Tsv,
}

#[derive(Debug)]
struct Shape {
    query: Option<Expression<'static>>,
    is_tsv: bool,
}

static SHAPE: OnceLock<Shape> = OnceLock::new();

/// Has all records be printed so.
///
/// # Errors
/// `query` is no expression.
pub(crate) fn choose(query: Option<&str>, form: Form) -> Result<(), Failure> {
    let query = query.map(compile).transpose()?;
    let is_tsv = form == Form::Tsv;
    if query.is_some() || is_tsv {
        let _ = SHAPE.set(Shape { query, is_tsv });
    }
    Ok(())
}

fn compile(query: &str) -> Result<Expression<'static>, Failure> {
    jmespath::compile(query).map_err(|error| {
        let why = error.reason.to_string();
        Failure::wrong(format!(
            "--query {query}: it is no JMESPath expression: {why}, at character {}",
            error.offset
        ))
    })
}

/// Whether records are printed otherwise than as they are.
pub(crate) fn is_chosen() -> bool {
    SHAPE.get().is_some()
}

/// The text of `record`, with a line feed at its end where there is any.
pub(super) fn of(record: Value) -> Result<String, Failure> {
    let shape = SHAPE.get().expect("it was chosen");
    text(record, shape.query.as_ref(), shape.is_tsv)
}

fn text(record: Value, query: Option<&Expression<'_>>, is_tsv: bool) -> Result<String, Failure> {
    let mut found = bare(record);
    if let Some(query) = query {
        let data: Variable = serde_json::from_value(found).expect("a record is data");
        let answer =
            query.search(data).map_err(|error| Failure::wrong(format!("--query: {}", error.reason)))?;
        found = serde_json::to_value(&*answer).expect("an answer is data");
    }
    if is_tsv {
        return Ok(tsv(&found));
    }
    Ok(serde_json::to_string_pretty(&found).expect("only plain values are printed") + "\n")
}

/// The record without its number; of a list of things the list.
fn bare(record: Value) -> Value {
    let Value::Object(mut record) = record else { return record };
    record.remove(SCHEMA);
    if record.len() == 1
        && let Some((_, list @ Value::Array(_))) = record.iter().next()
    {
        return list.clone();
    }
    Value::Object(record)
}

/// A line for each item of a list, or one.
fn tsv(found: &Value) -> String {
    match found {
        Value::Null => String::new(),
        Value::Array(items) => items.iter().map(|item| row(item) + "\n").collect(),
        one => row(one) + "\n",
    }
}

fn row(item: &Value) -> String {
    let cells: Vec<String> = match item {
        Value::Array(items) => items.iter().map(cell).collect(),
        Value::Object(entries) => entries.values().map(cell).collect(),
        one => vec![cell(one)],
    };
    cells.join("\t")
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.replace(['\t', '\n', '\r'], " "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_samples_ask_for_is_found() {
        let job =
            json!({ "schema": 1, "name": "job-1", "defaults": { "deployment_name": "xgb" }, "tags": {} });
        let list = json!({ "schema": 1, "models": [{ "name": "a", "version": "1" }, { "name": "b", "version": "2" }] });
        for (record, query, is_tsv, expected) in [
            (&job, "name", true, "job-1\n"),
            (&job, "name", false, "\"job-1\"\n"),
            (&job, "defaults.deployment_name", true, "xgb\n"),
            (&job, "nothing", true, ""),
            (&job, "{Name: name, Default: defaults.deployment_name}", true, "xgb\tjob-1\n"),
            (&list, "[].name", true, "a\nb\n"),
            (&list, "[0].version", true, "1\n"),
            (&list, "[?name=='b'].version", true, "2\n"),
            (&list, "length(@)", true, "2\n"),
        ] {
            let expression = compile(query).unwrap();
            assert_eq!(text(record.clone(), Some(&expression), is_tsv).unwrap(), expected, "{query}");
        }
        assert_eq!(text(list, None, true).unwrap(), "a\t1\nb\t2\n");
        assert!(compile("[?name").unwrap_err().to_string().contains("--query [?name"));
    }
}
