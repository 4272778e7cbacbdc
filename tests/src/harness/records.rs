//! The records that `-o json` prints: what tests read of them is held to the schemas in `docs/schema`. No key may be
//! missing, and none may be there that has no description.
//!
//! Only what these schemas use of JSON Schema is known; any other keyword is a panic.

use std::path::Path;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Keywords that refuse nothing.
const TOLD: [&str; 5] = ["$schema", "$defs", "title", "description", "default"];

/// Asserts that `printed` is what a command with these arguments prints. Commands without a schema may print anything.
#[track_caller]
pub(super) fn check(arguments: &[String], printed: &Value) {
    let Some(name) = schema_of(arguments, printed) else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/schema/{name}.json"));
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let problem = Checker { root: &schema }.problem(&schema, printed, "");
    assert_eq!(problem, None, "{arguments:?} prints what {name}.json does not have: {printed:#}");
}

/// The schema of what a command prints.
fn schema_of(arguments: &[String], printed: &Value) -> Option<&'static str> {
    if printed.get("error").is_some_and(|error| error.get("exit_code").is_some()) {
        return Some("command-error");
    }
    Some(match arguments.first()?.as_str() {
        "submit" | "resume" | "resubmit" if printed.get("state").is_none() => "submitted",
        "submit" | "resume" | "resubmit" | "stream" | "cancel" | "status" | "result" => "job",
        "doctor" => "diagnosis",
        "errors" if arguments.iter().any(|one| one == "--items") => "failed-items",
        "errors" => "errors",
        "list" => "jobs",
        "logs" => "logs",
        "man" => "manual",
        "new" => "made",
        "profiles" => "profiles",
        "rm" => "removed",
        "explain" => "explained",
        "gc" => "collected",
        "show" => "shown",
        "try" => "tried",
        "validate" => "validated",
        "workers" => "workers",
        _ => return None,
    })
}

/// Holds values to the parts of one schema.
struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    /// What is wrong with `value`, which stands at `place`; nothing where it is as `schema` says.
    fn problem(&self, schema: &Value, value: &Value, place: &str) -> Option<String> {
        let keywords = schema.as_object().unwrap_or_else(|| panic!("{schema} is no object"));
        keywords.iter().find_map(|(keyword, says)| self.breach(keywords, keyword, says, value, place))
    }

    fn breach(
        &self,
        schema: &Map<String, Value>,
        keyword: &str,
        says: &Value,
        value: &Value,
        place: &str,
    ) -> Option<String> {
        let is_kept = match keyword {
            told if TOLD.contains(&told) => true,
            "const" => value == says,
            "enum" => says.as_array().unwrap().contains(value),
            "type" => match says.as_array() {
                Some(types) => types.iter().any(|says| is_of(value, says)),
                None => is_of(value, says),
            },
            "format" => is_formed(value, says.as_str().unwrap()),
            "minimum" => value.as_f64().is_none_or(|number| number >= says.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= says.as_f64().unwrap()),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= says.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= says.as_u64().unwrap()),
            "required" => {
                let keys = says.as_array().unwrap().iter();
                return keys.map(|key| key.as_str().unwrap()).find_map(|key| {
                    let is_missing = value.is_object() && value.get(key).is_none();
                    is_missing.then(|| format!("{place}/{key} is missing"))
                });
            }
            "properties" => {
                return value.as_object()?.iter().find_map(|(key, value)| {
                    let place = format!("{place}/{key}");
                    match says.get(key) {
                        Some(schema) => self.problem(schema, value, &place),
                        None => Some(format!("{place} is not described")),
                    }
                });
            }
            // Of objects whose keys are not described any may be there.
            "additionalProperties" if schema.contains_key("properties") => {
                panic!("properties and others in {schema:?}")
            }
            "additionalProperties" => {
                return value.as_object()?.iter().find_map(|(key, value)| {
                    if *says == true { None } else { self.problem(says, value, &format!("{place}/{key}")) }
                });
            }
            "items" => return self.first_problem(value.as_array()?.iter().map(|item| (says, item)), place),
            "prefixItems" => {
                return self.first_problem(says.as_array().unwrap().iter().zip(value.as_array()?), place);
            }
            "anyOf" => {
                says.as_array().unwrap().iter().any(|schema| self.problem(schema, value, place).is_none())
            }
            "oneOf" => {
                let schemas = says.as_array().unwrap().iter();
                schemas.filter(|schema| self.problem(schema, value, place).is_none()).count() == 1
            }
            "$ref" => {
                let part = self.root.pointer(says.as_str().unwrap().trim_start_matches('#'));
                return self.problem(part.unwrap_or_else(|| panic!("there is no {says}")), value, place);
            }
            other => panic!("the keyword {other} is not known here"),
        };
        (!is_kept).then(|| format!("{place}: {value} breaks {keyword} {says}"))
    }

    fn first_problem<'v>(
        &self,
        mut items: impl Iterator<Item = (&'v Value, &'v Value)>,
        place: &str,
    ) -> Option<String> {
        let place = format!("{place}/[]");
        items.find_map(|(schema, item)| self.problem(schema, item, &place))
    }
}

fn is_of(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

fn is_formed(value: &Value, format: &str) -> bool {
    match format {
        "date-time" => value.as_str().is_none_or(|text| text.parse::<Timestamp>().is_ok()),
        // Of numbers only the size is meant.
        _ => value.is_number() || value.is_null(),
    }
}
