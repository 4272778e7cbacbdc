//! `${{ }}` in the native settings: the path of a side input, and that of a named output, which differ from process to
//! process.
//!
//! A job file is checked for what its references name; what they stand for is put in their place when a process is started.

use std::cell::Cell;

use super::near_name::few;

/// Bytes that the values of all expressions of one job file may have together: a value that is named again and again
/// makes more of a file than it is.
const MOST_FILLED_IN: usize = 64 << 20;

thread_local! {
    /// Bytes that may still be filled in, while a job file is lifted.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Does `lift`, which fills in the expressions of one job file, with a bound to what they make of it.
pub(super) fn bounded<T>(lift: impl FnOnce() -> T) -> T {
    let outer = LEFT.replace(Some(MOST_FILLED_IN));
    let done = lift();
    LEFT.set(outer);
    done
}

/// Takes the value of an expression from what may be filled in.
///
/// # Errors
/// There is no more room.
pub(super) fn fill(bytes: usize) -> Result<(), String> {
    let Some(left) = LEFT.get() else { return Ok(()) };
    LEFT.set(Some(left.saturating_sub(bytes)));
    if bytes <= left {
        return Ok(());
    }
    Err(format!(
        "the values of all ${{{{ }}}} of the file have more than {} MiB together: give long values in a file of code or data",
        MOST_FILLED_IN >> 20
    ))
}

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
pub(super) fn no_side_input<'a>(name: &str, names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let names = few(names);
    let absent = format!("${{{{side_inputs.{name}}}}}: there is no side input `{name}`");
    match names.nearest(name) {
        Some(near) => format!("{absent}: did you mean `{near}`?"),
        None if names.is_empty() => format!("{absent}: give it under side_inputs"),
        None => format!("{absent}; there are: {names}"),
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
        let value = value(inside.trim())?;
        fill(value.len())?;
        done.push_str(&value);
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
