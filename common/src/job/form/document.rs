//! `--set a.b.c=value` on the document itself, for forms whose keys are not the native ones.
//!
//! It is done before anything of the document is judged. Missing mappings are made; `x[0]` is an item of a list.

use super::super::error::Problem;
use super::super::yaml::{self, Key, Node, Value};

/// Takes those of `overrides` that begin with one of `keys`, and puts each into `document`.
pub(super) fn apply(
    document: &mut Node,
    keys: &[&str],
    overrides: &mut Vec<(String, String)>,
    problems: &mut Vec<Problem>,
) {
    overrides.retain(|(key, value)| {
        let first = key.split(['.', '[']).next().unwrap_or_default();
        if !keys.contains(&first) {
            return true;
        }
        if let Err(message) = set(document, key, yaml::scalar(value.trim())) {
            problems.push(Problem { key: format!("--set {key}"), line: None, message });
        }
        false
    });
}

/// The same with all of `settings`, whatever their keys.
pub(in super::super) fn apply_settings(
    document: &mut Node,
    settings: &[(String, String)],
    problems: &mut Vec<Problem>,
) {
    for (key, value) in settings {
        if let Err(message) = set(document, key, yaml::scalar(value.trim())) {
            problems.push(Problem { key: format!("--set {key}"), line: None, message });
        }
    }
}

/// Puts `value` into the place in `document` that `key` names.
fn set(document: &mut Node, key: &str, value: Node) -> Result<(), String> {
    let mut at = document;
    let mut place = String::new();
    for part in key.split('.') {
        let (name, indices) = part.split_once('[').map_or((part, None), |(name, rest)| (name, Some(rest)));
        at = entry(at, name).ok_or_else(|| format!("`{place}` is no mapping in the file: give it whole"))?;
        place = format!("{place}{}{name}", if place.is_empty() { "" } else { "." });
        for index in indices.into_iter().flat_map(|rest| rest.split('[')) {
            let index = index.strip_suffix(']').and_then(|index| index.parse::<usize>().ok());
            let index = index.ok_or_else(|| format!("`{part}` is not of the form NAME[0]"))?;
            let Value::Sequence(items) = &mut at.value else { return Err(format!("`{place}` is no list")) };
            let items_there = items.len();
            at = items.get_mut(index).ok_or_else(|| format!("`{place}` has {items_there} items"))?;
        }
    }
    *at = value;
    Ok(())
}

/// The value of `name` in the mapping `node`, made where it is missing.
fn entry<'a>(node: &'a mut Node, name: &str) -> Option<&'a mut Node> {
    if node.is_null() {
        node.value = Value::Mapping(Vec::new());
    }
    let Value::Mapping(entries) = &mut node.value else { return None };
    let index = entries.iter().position(|(key, _)| key.name == name).unwrap_or_else(|| {
        let key = Key { name: name.to_owned(), line: node.line.unwrap_or(1) };
        entries.push((key, Node { line: None, value: Value::Null }));
        entries.len() - 1
    });
    Some(&mut entries[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_into_the_document() {
        let yaml = "a: 1\nb: {c: 2, d: [x, {e: 3}]}\nf:\n";
        for (key, value, expected) in [
            ("a", "7", Ok(("a", "7"))),
            ("b.c", "x y", Ok(("b.c", "x y"))),
            ("f.g.h", "true", Ok(("f.g.h", "true"))),
            ("b.d[1].e", "9", Ok(("b.d", "a list"))),
            ("a.x", "1", Err("`a` is no mapping in the file: give it whole")),
            ("b.d[2]", "1", Err("`b.d` has 2 items")),
            ("b.c[0]", "1", Err("`b.c` is no list")),
            ("b.d[x]", "1", Err("`d[x]` is not of the form NAME[0]")),
        ] {
            let mut document = yaml::parse(yaml).unwrap();
            let done = set(&mut document, key, yaml::scalar(value));
            match expected {
                Err(message) => assert_eq!(done.unwrap_err(), message, "{key}"),
                Ok((at, shown)) => {
                    done.unwrap();
                    let node = at.split('.').fold(&document, |node, name| node.get(name).unwrap());
                    assert_eq!(node.as_text().unwrap_or("a list"), shown, "{key}");
                }
            }
        }
        let mut problems = Vec::new();
        let mut overrides = [("b.c", "1"), ("node_count", "2"), ("a.x", "3")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec();
        let mut document = yaml::parse(yaml).unwrap();
        apply(&mut document, &["a", "b"], &mut overrides, &mut problems);
        assert_eq!(overrides, [("node_count".to_owned(), "2".to_owned())]);
        assert_eq!(problems[0].key, "--set a.x");
    }
}
