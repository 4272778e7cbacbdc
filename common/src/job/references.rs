//! `${{ }}` in the native settings: the path of a side input, and that of a named output, which differ from process to
//! process.
//!
//! A job file is checked for what its references name; what they stand for is put in their place when a process is started.

use super::near_name::nearest;

/// The references that there are.
const FORMS: &str = "${{side_inputs.NAME}} and ${{outputs.NAME}}";

/// What a reference names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference<'a> {
    /// The path of a side input on the node.
    SideInput(&'a str),
    /// The path of an output in the folder of the process.
    Output(&'a str),
}

impl<'a> Reference<'a> {
    /// What the inside of an expression names.
    ///
    /// # Errors
    /// What is wrong with it, with the remedy.
    fn parse(inside: &'a str) -> Result<Self, String> {
        match parts(inside)[..] {
            ["side_inputs", name] => Ok(Self::SideInput(name)),
            ["outputs", name] => Ok(Self::Output(name)),
            ["inputs", ..] => Err(format!(
                "${{{{{inside}}}}}: run() gets what is in the inputs; name what it needs beside it under side_inputs, and \
                 write ${{{{side_inputs.NAME}}}}"
            )),
            _ => Err(format!("${{{{{inside}}}}} is no reference: there are {FORMS}")),
        }
    }
}

/// `text` with what `value` gives for each reference in its place.
///
/// # Errors
/// An expression without an end, what is no reference, and what `value` says.
pub fn resolve_references(
    text: &str,
    mut value: impl FnMut(Reference<'_>) -> Result<String, String>,
) -> Result<String, String> {
    substitute(text, |inside| value(Reference::parse(inside)?))
}

/// The message about a reference to the side input `name`, which is none of `names`.
pub(super) fn no_side_input(name: &str, names: &[&str]) -> String {
    let absent = format!("${{{{side_inputs.{name}}}}}: there is no side input `{name}`");
    match nearest(name, names) {
        Some(near) => format!("{absent}: did you mean `{near}`?"),
        None if names.is_empty() => format!("{absent}: give it under side_inputs"),
        None => format!("{absent}; there are: {}", names.join(", ")),
    }
}

/// The names in the inside of an expression.
pub(super) fn parts(inside: &str) -> Vec<&str> {
    inside.split('.').map(str::trim).collect()
}

/// The inside of the expression that `text` is.
pub(super) fn whole(text: &str) -> Option<&str> {
    let inside = text.trim().strip_prefix("${{")?.strip_suffix("}}")?.trim();
    (!inside.contains("}}")).then_some(inside)
}

/// `text` with what `value` gives for the inside of each expression in its place.
pub(super) fn substitute(
    text: &str,
    mut value: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        let (inside, after) =
            after.split_once("}}").ok_or_else(|| format!("`${{{{{after}` has no end: close it with }}}}"))?;
        done.push_str(before);
        done.push_str(&value(inside.trim())?);
        rest = after;
    }
    Ok(done + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_their_values() {
        let value = |reference: Reference<'_>| match reference {
            Reference::SideInput("gone") => Err("no".to_owned()),
            Reference::SideInput(name) => Ok(format!("/side/{name}")),
            Reference::Output(name) => Ok(format!("/out/{name} x")),
        };
        for (text, expected) in [
            ("", Ok("")),
            ("plain $x ${y} {{z}}", Ok("plain $x ${y} {{z}}")),
            ("${{side_inputs.m}}", Ok("/side/m")),
            ("--m=${{ side_inputs . m }}/a:${{outputs.o}}", Ok("--m=/side/m/a:/out/o x")),
            ("${{side_inputs.gone}}", Err("no")),
            ("${{side_inputs.m", Err("`${{side_inputs.m` has no end: close it with }}")),
            ("${{side_inputs.m.path}}", Err("${{side_inputs.m.path}} is no reference: there are")),
            ("${{name}}", Err("${{name}} is no reference: there are")),
            ("${{inputs.a}}", Err("under side_inputs")),
        ] {
            let resolved = resolve_references(text, value);
            match expected {
                Ok(expected) => assert_eq!(resolved.as_deref(), Ok(expected), "{text}"),
                Err(part) => assert!(resolved.unwrap_err().contains(part), "{text}"),
            }
        }
    }
}
