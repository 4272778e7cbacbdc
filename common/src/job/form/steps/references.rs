//! What the inputs of a step stand for, and the expressions of the pipeline in its other texts.

use std::collections::{HashMap, HashSet};

use super::super::super::near_name::few;
use super::super::super::yaml::{Key, Node, Value};
use super::super::RawSetting;
use super::super::bindings::python_text;
use super::super::component::{self, Component, Declared, value_of};
use super::super::expressions::{fill, parts, substitute, whole};
use super::{Flattening, Inputs, Opened, Scope};
use crate::dataset::step_output::StepOutput;

/// What references of a step may name.
const FORMS: &str =
    "${{parent.inputs.NAME}}, ${{parent.jobs.STEP.outputs.NAME}} and ${{parent.jobs.STEP.inputs.NAME}}";
/// Steps that may have their inputs from one another, one after the other.
const LONGEST_CHAIN: usize = 100;
/// Keys whose text is split, or quoted, after its expressions have their values.
const COMMAND_LINES: [&str; 2] = ["command", "program_arguments"];

impl Flattening<'_> {
    /// Gives the inputs of the step at this position their values. `asked` are the steps that ask for it.
    pub(super) fn bind(&mut self, scope: &mut Scope, at: usize, asked: &mut Vec<usize>) {
        if scope.steps[at].bound.is_some() {
            return;
        }
        asked.push(at);
        let mut given = scope.steps[at].inputs.clone();
        for setting in &mut given {
            match self.value(scope, &setting.value, asked) {
                Ok(value) => setting.value = value.unwrap_or(Node { line: None, value: Value::Null }),
                Err(message) => {
                    // One problem is enough: what it is to be is not known.
                    self.refuse(&setting.shown, setting.line, message);
                    setting.value = Node::text("", None);
                }
            }
        }
        asked.pop();
        let Opened { component, shown, line, .. } = &scope.steps[at];
        let (shown, line) = (shown.clone(), *line);
        let bound = match component {
            Some((Component { label, .. }, declared)) => {
                let (label, declared) = (label.clone(), declared.clone());
                self.match_inputs(&declared, &label, &shown, line, &given)
            }
            None => given
                .into_iter()
                .map(|one| (one.key, Some(one.value).filter(|value| !value.is_null())))
                .collect(),
        };
        scope.steps[at].bound = Some(bound);
    }

    /// The inputs that a component declares, with the values that are `given`.
    pub(super) fn match_inputs(
        &mut self,
        declared: &[Declared],
        label: &str,
        shown: &str,
        line: Option<usize>,
        given: &[RawSetting],
    ) -> Inputs {
        let names: HashSet<&str> = declared.iter().map(|one| &*one.name).collect();
        let own: HashMap<&str, &RawSetting> = given.iter().map(|setting| (&*setting.key, setting)).collect();
        for setting in given {
            if !names.contains(&*setting.key) {
                let message = component::unknown_input(&setting.key, declared, label);
                self.refuse(&setting.shown, setting.line, message);
            }
        }
        let mut bound = Inputs::default();
        for one in declared {
            let own = own.get(&*one.name);
            let value = own.map(|setting| setting.value.clone()).filter(|value| !value.is_null());
            let where_to = if shown.is_empty() {
                format!("under inputs, or as --set inputs.{}=VALUE, and .path=PATH for data", one.name)
            } else {
                "under inputs of the step".to_owned()
            };
            match one.take(value, label, &where_to) {
                Ok(value) => bound.add(one.name.clone(), value),
                Err(message) => {
                    let dot = if shown.is_empty() { "" } else { "." };
                    let place = format!("{shown}{dot}inputs.{}", one.name);
                    self.refuse(&place, own.and_then(|setting| setting.line).or(line), message);
                    bound.add(one.name.clone(), Some(Node::text("", None)));
                }
            }
        }
        bound
    }

    /// What an input stands for that is given as `node`; nothing where it is bound to one without a value.
    fn value(
        &mut self,
        scope: &mut Scope,
        node: &Node,
        asked: &mut Vec<usize>,
    ) -> Result<Option<Node>, String> {
        match &node.value {
            Value::Scalar { text, .. } if text.contains("${{") => match whole(text) {
                Some(inside) => self.reference(scope, inside, node.line, asked),
                None => substitute(text, |inside| text_of(scope, inside))
                    .map(|text| Some(Node::text(text, node.line))),
            },
            Value::Mapping(entries) => {
                let is_reference = |(key, value): &&(Key, Node)| {
                    ["path", "value", "default"].contains(&&*key.name)
                        && value.as_text().is_some_and(|text| text.contains("${{"))
                };
                let Some((key, reference)) = entries.iter().find(is_reference) else {
                    return Ok(Some(node.clone()));
                };
                let Some(value) = self.value(scope, reference, asked)? else { return Ok(None) };
                let others = entries.iter().filter(|(other, _)| other.name != key.name);
                let mut merged = match value.value {
                    Value::Mapping(inner) => inner,
                    _ => vec![(key.clone(), value)],
                };
                for (other, value) in others {
                    merged.retain(|(present, _)| present.name != other.name);
                    merged.push((other.clone(), value.clone()));
                }
                Ok(Some(Node { line: node.line, value: Value::Mapping(merged) }))
            }
            _ => Ok(Some(node.clone())),
        }
    }

    /// What the reference with this inside stands for.
    fn reference(
        &mut self,
        scope: &mut Scope,
        inside: &str,
        line: Option<usize>,
        asked: &mut Vec<usize>,
    ) -> Result<Option<Node>, String> {
        let shown = format!("${{{{{inside}}}}}");
        match parts(inside)[..] {
            ["parent", "inputs", name] | ["parent", "inputs", name, "path"] => input_of(scope, name, &shown),
            ["parent", "jobs", step, "outputs", name] | ["parent", "jobs", step, "outputs", name, "path"] => {
                let step = step_of(scope, step, &shown)?;
                let opened = &scope.steps[step];
                let Some(output) = opened.outputs.iter().find(|output| output.name == name) else {
                    let names = few(opened.outputs.iter().map(|output| &*output.name));
                    let step = &opened.name;
                    return Err(match names.nearest(name) {
                        Some(near) => {
                            format!("{shown}: step {step} has no output `{name}`: did you mean `{near}`?")
                        }
                        None => format!("{shown}: step {step} has no output `{name}`; there are: {names}"),
                    });
                };
                let address =
                    StepOutput { step: format!("{}{}", scope.prefix, opened.name), output: name.to_owned() };
                let key = |name: &str| Key { name: name.to_owned(), line: line.unwrap_or(1) };
                let kind = Node { line, ..output.kind.clone() };
                let entries = vec![(key("type"), kind), (key("path"), Node::text(address.to_string(), line))];
                Ok(Some(Node { line, value: Value::Mapping(entries) }))
            }
            ["parent", "jobs", step, "inputs", name] | ["parent", "jobs", step, "inputs", name, "path"] => {
                let at = step_of(scope, step, &shown)?;
                if asked.contains(&at) {
                    return Err(format!(
                        "{shown}: the inputs of steps name each other: give one of them a value"
                    ));
                }
                if asked.len() >= LONGEST_CHAIN {
                    return Err(format!(
                        "{shown}: more than {LONGEST_CHAIN} steps have their inputs from one another: give them an input \
                         of the pipeline"
                    ));
                }
                self.bind(scope, at, asked);
                let bound = scope.steps[at].bound.as_ref();
                if let Some(value) = bound.and_then(|bound| bound.get(name)) {
                    return filled(value.as_ref());
                }
                let names = bound.map_or_else(|| few([].into_iter()), Inputs::names);
                Err(format!("{shown}: step {step} has no input `{name}`; there are: {names}"))
            }
            ["parents", ..] => Err(format!("{shown}: write `parent`, without an s")),
            ["search_space", ..] => Err(format!("{shown}: sweeps are not supported")),
            _ => Err(format!("{shown} is no reference that an input may be bound to: there are {FORMS}")),
        }
    }
}

/// Gives the expressions of the pipeline in `node` their values. In command lines, which are split or quoted later, each
/// becomes an input of the step. What is wrong goes to `wrong`, with its place.
pub(super) fn fill_in(
    node: &mut Node,
    scope: &Scope,
    place: &str,
    is_command_line: bool,
    inputs: &mut Inputs,
    wrong: &mut Vec<(String, Option<usize>, String)>,
) {
    match &mut node.value {
        Value::Mapping(entries) => {
            for (key, value) in entries {
                let dot = if place.is_empty() { "" } else { "." };
                let place = format!("{place}{dot}{}", key.name);
                let is_command_line = COMMAND_LINES.contains(&&*key.name);
                fill_in(value, scope, &place, is_command_line, inputs, wrong);
            }
        }
        Value::Sequence(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                fill_in(item, scope, &format!("{place}[{index}]"), false, inputs, wrong);
            }
        }
        Value::Scalar { text, .. } if text.contains("${{") => {
            let filled = if is_command_line {
                substitute(text, |inside| match parts(inside)[..] {
                    ["parent", "inputs", name] | ["parent", "inputs", name, "path"] => {
                        let shown = format!("${{{{{inside}}}}}");
                        let value = input_of(scope, name, &shown)?;
                        let own = format!("parent_inputs_{name}");
                        inputs.add(own.clone(), value);
                        Ok(format!("${{{{inputs.{own}}}}}"))
                    }
                    ["parent" | "parents", ..] => text_of(scope, inside),
                    _ => Ok(format!("${{{{{inside}}}}}")),
                })
            } else {
                substitute(text, |inside| match parts(inside)[..] {
                    ["parent" | "parents", ..] => text_of(scope, inside),
                    _ => Ok(format!("${{{{{inside}}}}}")),
                })
            };
            match filled {
                Ok(filled) => *text = filled,
                Err(message) => wrong.push((place.to_owned(), node.line, message)),
            }
        }
        Value::Scalar { .. } | Value::Null => {}
    }
}

/// The text of a value of the pipeline.
pub(super) fn text_of(scope: &Scope, inside: &str) -> Result<String, String> {
    let shown = format!("${{{{{inside}}}}}");
    match parts(inside)[..] {
        ["parent", "inputs", name] | ["parent", "inputs", name, "path"] => {
            let value = input_of(scope, name, &shown)?;
            let value = value.ok_or_else(|| format!("{shown}: the optional input has no value"))?;
            let value = value_of(&value).ok_or_else(|| {
                format!("{shown} is data: bind it to an input of the step, and write ${{{{inputs.NAME}}}}")
            })?;
            Ok(python_text(&value))
        }
        ["parent", "jobs", ..] => {
            Err(format!("{shown}: bind it to an input of the step, and write ${{{{inputs.NAME}}}}"))
        }
        ["parents", ..] => Err(format!("{shown}: write `parent`, without an s")),
        _ => Err(format!("{shown} is no reference here: there are {FORMS}")),
    }
}

fn input_of(scope: &Scope, name: &str, shown: &str) -> Result<Option<Node>, String> {
    if let Some(value) = scope.inputs.get(name) {
        return filled(value.as_ref());
    }
    let names = scope.inputs.names();
    Err(match names.nearest(name) {
        Some(near) => format!("{shown}: the pipeline has no input `{name}`: did you mean `{near}`?"),
        None => format!("{shown}: the pipeline has no input `{name}`; there are: {names}"),
    })
}

/// A copy of the value of an input, which is put in where it is named.
fn filled(value: Option<&Node>) -> Result<Option<Node>, String> {
    value.map_or(Ok(()), |value| fill(value.text_length()))?;
    Ok(value.cloned())
}

fn step_of(scope: &Scope, name: &str, shown: &str) -> Result<usize, String> {
    scope.by_name.get(name).copied().ok_or_else(|| {
        let names = few(scope.steps.iter().map(|step| &*step.name));
        match names.nearest(name) {
            Some(near) => format!("{shown}: there is no step `{name}`: did you mean `{near}`?"),
            None => format!("{shown}: there is no step `{name}`; there are: {names}"),
        }
    })
}
