//! A line of a log that is an object of JSON, cut where it can be folded open: the text stays as it is.

use serde_json::Value;

/// A piece of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// An entry of an object or of an array begins.
    Begin,
    /// It ends.
    End,
}

/// How deep entries are told apart; what is deeper stays in one piece.
const DEEPEST: usize = 8;
/// A longer line is not cut: a window is full of lines.
const LONGEST: usize = 16 << 10;

/// The pieces of a line that is an object with something in it; nothing for any other line.
pub fn pieces(line: &str) -> Option<Vec<Piece>> {
    let text = line.trim();
    let is_object = text.starts_with('{') && text.ends_with('}') && text.len() <= LONGEST;
    if !is_object || serde_json::from_str::<Value>(text).is_err() || text[1..].trim_start() == "}" {
        return None;
    }
    let mut pieces = Vec::new();
    let (mut from, mut depth, mut is_in_text, mut is_escaped) = (0, 0_usize, false, false);
    let mut add = |pieces: &mut Vec<Piece>, to: usize, mark: Piece| {
        pieces.push(Piece::Text(text[from..to].to_owned()));
        pieces.push(mark);
        from = to;
    };
    // An entry begins at its first letter, so that entries stand below one another.
    let entry = |at: usize| text.len() - text[at..].trim_start().len();
    // Of each bracket that is open whether its entries are told apart.
    let mut open = Vec::new();
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_in_text => is_escaped = true,
            '"' => is_in_text = !is_in_text,
            _ if is_in_text => {}
            '{' | '[' => {
                let is_empty = text[at + 1..].trim_start().starts_with(['}', ']']);
                open.push(!is_empty && depth < DEEPEST);
                depth += 1;
                if open.last() == Some(&true) {
                    add(&mut pieces, entry(at + 1), Piece::Begin);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if open.pop() == Some(true) {
                    add(&mut pieces, at, Piece::End);
                }
            }
            ',' if open.last() == Some(&true) => {
                add(&mut pieces, entry(at + 1), Piece::End);
                pieces.push(Piece::Begin);
            }
            _ => {}
        }
    }
    pieces.push(Piece::Text(text[from..].to_owned()));
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Option<String> {
        let piece = |piece: Piece| match piece {
            Piece::Text(text) => text,
            Piece::Begin => "\u{ab}".to_owned(),
            Piece::End => "\u{bb}".to_owned(),
        };
        pieces(line).map(|pieces| pieces.into_iter().map(piece).collect())
    }

    #[test]
    fn objects_are_cut_and_nothing_else() {
        for (line, expected) in [
            ("{\"a\":1}", Some("{«\"a\":1»}")),
            (
                " {\"a\": \"x, {y}\", \"b\": [1, {\"c\": \"\\\"\"}]}",
                Some("{«\"a\": \"x, {y}\", »«\"b\": [«1, »«{«\"c\": \"\\\"\"»}»]»}"),
            ),
            ("{\"a\":{},\"b\":[ ]}", Some("{«\"a\":{},»«\"b\":[ ]»}")),
            ("{}", None),
            ("{ }", None),
            ("[1]", None),
            ("{\"a\":1", None),
            ("{\"a\":1} and more}", None),
            ("INFO {\"a\":1}", None),
            ("", None),
        ] {
            assert_eq!(shown(line).as_deref(), expected, "{line}");
        }
        let deep = format!("{}1{}", "{\"a\":".repeat(20), "}".repeat(20));
        let cut = shown(&deep).unwrap();
        assert_eq!((cut.matches('«').count(), cut.matches('»').count()), (DEEPEST, DEEPEST));
        assert_eq!(shown(&format!("{{\"a\":\"{}\"}}", "x".repeat(LONGEST))), None);
    }
}
