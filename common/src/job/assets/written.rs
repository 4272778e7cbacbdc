//! A tree of YAML as text: strings as JSON has them, all other values as they were written, so that `0.10` stays `0.10`.

use std::fmt::Write;

use super::super::yaml::{Node, ScalarKind, Value};

/// The text of `node`.
pub(in super::super) fn written(node: &Node) -> String {
    let mut text = String::new();
    write(node, 0, &mut text);
    text.push('\n');
    text
}

fn write(node: &Node, depth: usize, text: &mut String) {
    let quoted = |text: &str| serde_json::to_string(text).expect("text is JSON");
    let line = |depth: usize, text: &mut String| {
        text.push('\n');
        text.push_str(&"  ".repeat(depth));
    };
    match &node.value {
        Value::Null => text.push_str("null"),
        Value::Scalar { text: value, kind: ScalarKind::Text } => text.push_str(&quoted(value)),
        Value::Scalar { text: value, .. } => text.push_str(value),
        Value::Sequence(items) if items.is_empty() => text.push_str("[]"),
        Value::Mapping(entries) if entries.is_empty() => text.push_str("{}"),
        Value::Sequence(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                line(depth + 1, text);
                write(item, depth + 1, text);
            }
            line(depth, text);
            text.push(']');
        }
        Value::Mapping(entries) => {
            text.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                line(depth + 1, text);
                let _ = write!(text, "{}: ", quoted(&key.name));
                write(value, depth + 1, text);
            }
            line(depth, text);
            text.push('}');
        }
    }
}
