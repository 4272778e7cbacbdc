//! What a call of the deployment of a pipeline may give, as a form asks for it: the inputs that its component declares, each with what it
//! is where a call says nothing of it. Nothing is judged here: the call is.

use serde_json::{Map, Value as Json};

use super::super::yaml;
use super::as_json;

/// Types of inputs that are values, and no data.
const VALUES: [&str; 5] = ["string", "boolean", "integer", "number", "float"];

/// An input that a call may give.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallInput {
    /// Its name.
    pub name: String,
    /// Its type, such as `uri_folder` or `integer`; empty where the component does not say it.
    pub kind: String,
    /// A text for people.
    pub description: String,
    /// Whether the pipeline runs without it.
    pub is_optional: bool,
    /// What it is where a call does not give it.
    pub default: Option<String>,
    /// The only values that it takes; empty where it takes any.
    pub choices: Vec<String>,
    /// The least and the greatest number that it takes.
    pub bounds: (Option<String>, Option<String>),
}

impl CallInput {
    /// Whether it is a value, and no data.
    pub fn is_value(&self) -> bool {
        VALUES.contains(&&*self.kind)
    }

    /// Whether a call that does not give it is refused.
    pub fn is_required(&self) -> bool {
        !self.is_optional && self.default.is_none()
    }
}

/// What the document `text` names as its component: a file beside it, or a version in the registry.
pub fn component_named(text: &str) -> Option<String> {
    Some(object(text)?.get("component")?.as_str()?.trim().to_owned())
}

/// The inputs of the deployment in `text`, whose component stands in `component`, or in it. One that it gives itself is a default.
pub fn call_inputs(text: &str, component: Option<&str>) -> Vec<CallInput> {
    let deployment = object(text).unwrap_or_default();
    let component = match component {
        Some(component) => object(component),
        None => deployment.get("component").and_then(Json::as_object).cloned(),
    };
    let entries = |of: &Map<String, Json>| of.get("inputs").and_then(Json::as_object).cloned();
    let given = entries(&deployment).unwrap_or_default();
    let declared = component.as_ref().and_then(entries).unwrap_or_default();
    let input = |(name, declared): (String, Json)| {
        let key = |key: &str| declared.get(key).and_then(scalar);
        let choices = declared.get("enum").and_then(Json::as_array);
        let default = given.get(&name).and_then(value_of).or_else(|| value_of(&declared));
        CallInput {
            kind: key("type").unwrap_or_default().trim().to_ascii_lowercase(),
            description: key("description").unwrap_or_default(),
            is_optional: key("optional").is_some_and(|word| word.eq_ignore_ascii_case("true")),
            default,
            choices: choices.into_iter().flatten().filter_map(scalar).collect(),
            bounds: (key("min"), key("max")),
            name,
        }
    };
    declared.into_iter().map(input).collect()
}

fn object(text: &str) -> Option<Map<String, Json>> {
    match as_json(&yaml::parse(text).ok()?) {
        Json::Object(object) => Some(object),
        _ => None,
    }
}

fn scalar(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(_) | Json::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// What an input is: a value or a path, or a mapping that has it.
fn value_of(input: &Json) -> Option<String> {
    scalar(input).or_else(|| ["default", "path", "value"].into_iter().find_map(|key| scalar(input.get(key)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_what_the_component_declares_with_what_the_deployment_gives() {
        let component = "type: pipeline\ninputs:\n  rows: {type: uri_folder, description: What is scored.}\n  \
                         n: {type: integer, default: 5, min: 1, max: 9}\n  mode: {type: String, enum: [a, b], optional: true}\n  \
                         far: {type: uri_file, path: s3://b/x}\njobs: {}\n";
        let text = "type: pipeline\ncomponent: ./component.yml\ninputs: {n: 7, rows: {path: s3://b/rows}}\n";
        assert_eq!(component_named(text).as_deref(), Some("./component.yml"));
        let inputs = call_inputs(text, Some(component));
        let seen: Vec<_> = inputs
            .iter()
            .map(|one| (&*one.name, &*one.kind, one.default.as_deref(), one.is_value(), one.is_optional))
            .collect();
        let expected = [
            ("rows", "uri_folder", Some("s3://b/rows"), false, false),
            ("n", "integer", Some("7"), true, false),
            ("mode", "string", None, true, true),
            ("far", "uri_file", Some("s3://b/x"), false, false),
        ];
        assert_eq!(seen.len(), 4);
        for one in expected {
            assert!(seen.contains(&one), "{one:?} in {seen:?}");
        }
        let of = |name: &str| inputs.iter().find(|one| one.name == name).unwrap();
        assert_eq!(of("n").bounds, (Some("1".to_owned()), Some("9".to_owned())));
        assert_eq!(
            (&of("mode").choices[..], &*of("rows").description),
            (&["a".to_owned(), "b".to_owned()][..], "What is scored.")
        );
        let bare = call_inputs("component: {inputs: {x: {type: number}}}", None);
        assert!(bare[0].is_required() && component_named("component: {}").is_none());
    }
}
