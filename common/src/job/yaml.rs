//! Job file text to a tree that knows its lines.
//!
//! Keeps for every scalar the text as written, because `arguments: [--rate, 1e-3]` has to reach the
//! script as `1e-3`. Knows YAML, not job files: keys and values are judged in `validate`.

use std::collections::HashSet;

use saphyr::{LoadableYamlNode, MarkedYaml, Marker, Scalar as Parsed, YamlData};

/// Columns a line may be indented by. The parser limits the nesting of brackets, not that of blocks,
/// and each level of a block takes a column.
const MAX_INDENT: usize = 200;

/// Mappings and lists that may be nested. The parser keeps to `MAX_INDENT` and to a limit of brackets, so the walk that counts is short.
const DEEPEST: usize = 64;

/// The key that brings the entries of other mappings (<https://yaml.org/type/merge.html>).
const MERGE: &str = "<<";

/// A value and where it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Line, from 1; `None` for a value that is not from the file.
    pub(crate) line: Option<usize>,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    Scalar {
        /// As written, without quotes.
        text: String,
        kind: ScalarKind,
    },
    Sequence(Vec<Node>),
    Mapping(Vec<(Key, Node)>),
}

/// What YAML takes a scalar for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Text,
    Integer,
    Number,
    Boolean,
}

/// A key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) line: usize,
}

/// Text that is not YAML, or YAML that no job file needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlError {
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

impl Node {
    pub(crate) fn text(text: impl Into<String>, line: Option<usize>) -> Self {
        Self { line, value: Value::Scalar { text: text.into(), kind: ScalarKind::Text } }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Mapping(entries) => {
                entries.iter().find(|(name, _)| name.name == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Mapping(entries) => {
                entries.iter_mut().find(|(name, _)| name.name == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// The text of a scalar.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The line in which it is nested deeper than so many levels, 0 where it has none; nothing where it is not.
    fn too_deep(&self, most: usize) -> Option<usize> {
        let below = |node: &Self| node.too_deep(most.saturating_sub(1));
        match &self.value {
            Value::Null | Value::Scalar { .. } => None,
            Value::Sequence(_) | Value::Mapping(_) if most == 0 => Some(self.line.unwrap_or(0)),
            Value::Sequence(nodes) => nodes.iter().find_map(below),
            Value::Mapping(entries) => entries.iter().find_map(|(_, node)| below(node)),
        }
    }

    /// Bytes of all texts and keys in it.
    pub(crate) fn text_length(&self) -> usize {
        match &self.value {
            Value::Null => 0,
            Value::Scalar { text, .. } => text.len(),
            Value::Sequence(nodes) => nodes.iter().map(Self::text_length).sum(),
            Value::Mapping(entries) => {
                entries.iter().map(|(key, node)| key.name.len() + node.text_length()).sum()
            }
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// What the value is, for an error: a scalar as it is, anything else by its kind.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Scalar { text, kind: ScalarKind::Text } => format!("{text:?}"),
            Value::Scalar { text, .. } => text.clone(),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(_) => "a mapping".to_owned(),
        }
    }
}

/// The scalar that `text` is where a file has it without quotes.
pub(crate) fn scalar(text: &str) -> Node {
    let kind = match Parsed::parse_from_cow(text.into()) {
        Parsed::Null => return Node { line: None, value: Value::Null },
        Parsed::Boolean(_) => ScalarKind::Boolean,
        Parsed::Integer(_) => ScalarKind::Integer,
        Parsed::FloatingPoint(_) => ScalarKind::Number,
        Parsed::String(_) => ScalarKind::Text,
    };
    Node { line: None, value: Value::Scalar { text: text.to_owned(), kind } }
}

/// The bytes of a line before its first text: each level that begins on it has at least one of them.
fn indent(line: &str) -> usize {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        let token = rest.split([' ', '\t']).next().unwrap_or_default();
        let begins_a_level = matches!(token, "-" | "?" | ":" | "---") || token.starts_with(['&', '!']);
        if !begins_a_level {
            return line.len() - rest.len();
        }
        rest = &rest[token.len()..];
    }
}

/// Parses the one document of `text`, which is a mapping.
pub(crate) fn parse(text: &str) -> Result<Node, YamlError> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let is_deep = |line: &str| line.split('\r').any(|line| indent(line) > MAX_INDENT);
    if let Some(index) = text.lines().position(is_deep) {
        let message = format!("the line is indented by more than {MAX_INDENT} columns: nest less deeply");
        return Err(YamlError { line: Some(index + 1), message });
    }
    let documents = MarkedYaml::load_from_str(text).map_err(|error| scan_error(text, &error))?;
    let document = match <[_; 1]>::try_from(documents) {
        Ok([document]) => document,
        Err(documents) if documents.is_empty() => return Err(whole("the file is empty".to_owned())),
        Err(documents) => {
            let message = format!("the file holds {} YAML documents: keep one", documents.len());
            return Err(whole(message));
        }
    };
    let source = Source { text, characters: text.char_indices().map(|(byte, _)| byte).collect() };
    let node = source.node(&document)?;
    if let Some(line) = node.too_deep(DEEPEST) {
        let message = format!("mappings and lists are nested deeper than {DEEPEST}: nest less deeply");
        return Err(YamlError { line: Some(line).filter(|line| *line > 0), message });
    }
    match node.value {
        Value::Mapping(_) => Ok(node),
        Value::Null => Err(whole("the file is empty".to_owned())),
        _ => Err(whole(format!("the file has to be a mapping of keys to values, not {}", node.describe()))),
    }
}

/// Entries of a mapping, or of a list of mappings, one after the other; none where it is neither.
fn mappings(node: Node) -> Option<Vec<(Key, Node)>> {
    match node.value {
        Value::Mapping(entries) => Some(entries),
        Value::Sequence(nodes) => {
            let all = nodes.into_iter().map(|node| match node.value {
                Value::Mapping(entries) => Some(entries),
                _ => None,
            });
            all.collect::<Option<Vec<_>>>().map(|all| all.into_iter().flatten().collect())
        }
        Value::Null | Value::Scalar { .. } => None,
    }
}

fn whole(message: String) -> YamlError {
    YamlError { line: None, message }
}

fn scan_error(text: &str, error: &saphyr::ScanError) -> YamlError {
    let line = error.marker().line();
    let written = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let message = if error.info() == "duplicated key in mapping" {
        let key = written.trim_start_matches([' ', '-']).split(':').next().unwrap_or_default();
        format!("{} is given twice: keep one", key.trim())
    } else if written.starts_with('\t') || written.trim_start_matches(' ').starts_with('\t') {
        "the line is indented with a tab: use spaces".to_owned()
    } else {
        let column = error.marker().col() + 1;
        format!("not valid YAML at column {column}: {}: {}", error.info(), remedy(error.info()))
    };
    YamlError { line: Some(line), message }
}

/// What helps against what the parser says.
fn remedy(found: &str) -> &'static str {
    let table = [
        ("escape", "write \\\\ for a backslash, or use single quotes"),
        ("trailing content", "put all of the value into the quotation marks"),
        ("misplaced bracket", "remove the bracket, or quote the value"),
        ("tab", "use spaces in place of tabs"),
        ("mapping values are not allowed", "quote a value that has a colon and a space in it"),
        ("quoted scalar", "close the quotation mark"),
        ("flow", "close the bracket"),
        ("bracket", "close the bracket"),
        ("expected ','", "close the bracket"),
        ("anchor", "quote a value that begins with & or *"),
        ("alias", "quote a value that begins with & or *"),
        ("unexpected character", "quote a value that begins with this character"),
        ("simple key", "each line needs a key, a colon and a space"),
    ];
    let known = table.into_iter().find(|(part, _)| found.contains(part));
    known
        .map_or("look at the indentation, the quotation marks and the brackets up to there", |(_, remedy)| {
            remedy
        })
}

/// The text, with the byte offset of each character, which is what markers count.
struct Source<'a> {
    text: &'a str,
    characters: Vec<usize>,
}

impl Source<'_> {
    fn node(&self, yaml: &MarkedYaml<'_>) -> Result<Node, YamlError> {
        let line = yaml.span.start.line();
        let refuse = |message: &str| Err(YamlError { line: Some(line), message: message.to_owned() });
        let value = match &yaml.data {
            YamlData::Value(Parsed::Null) => Value::Null,
            YamlData::Value(scalar) => self.scalar(scalar, yaml.span.start, yaml.span.end),
            YamlData::Sequence(items) => {
                Value::Sequence(items.iter().map(|item| self.node(item)).collect::<Result<_, _>>()?)
            }
            YamlData::Mapping(entries) => {
                let mut mapping = Vec::with_capacity(entries.len());
                let mut merged = Vec::new();
                for (key, value) in entries {
                    let line = key.span.start.line();
                    let Some(name) = self.node(key)?.as_text().map(str::to_owned) else {
                        return refuse("a key must be plain text");
                    };
                    let mut node = self.node(value)?;
                    if name == MERGE && self.slice(key.span.start, key.span.end).trim() == MERGE {
                        let Some(mappings) = mappings(node) else {
                            let message = "<< takes a mapping, or a list of mappings: write <<: *NAME, and &NAME before the mapping";
                            return Err(YamlError { line: Some(line), message: message.to_owned() });
                        };
                        merged.extend(mappings);
                        continue;
                    }
                    // Nothing is marked where the next token begins.
                    node.line = node.line.map(|at| if node.is_null() { line } else { at });
                    mapping.push((Key { name, line }, node));
                }
                // Of the same key the first one counts, and that of the mapping itself.
                let mut known: HashSet<String> =
                    mapping.iter().map(|(key, _): &(Key, _)| key.name.clone()).collect();
                mapping.extend(merged.into_iter().filter(|(key, _)| known.insert(key.name.clone())));
                Value::Mapping(mapping)
            }
            YamlData::Tagged(tag, _) => {
                return refuse(&format!("the YAML tag {tag} is not known: remove it"));
            }
            YamlData::Representation(..) | YamlData::Alias(_) | YamlData::BadValue => {
                return refuse("the value does not fit its YAML tag, or there is none");
            }
        };
        Ok(Node { line: Some(line), value })
    }

    fn scalar(&self, scalar: &Parsed<'_>, start: Marker, end: Marker) -> Value {
        let (kind, canonical) = match scalar {
            Parsed::String(text) => {
                return Value::Scalar { text: text.to_string(), kind: ScalarKind::Text };
            }
            Parsed::Integer(value) => (ScalarKind::Integer, value.to_string()),
            Parsed::FloatingPoint(value) => (ScalarKind::Number, value.to_string()),
            Parsed::Boolean(value) => (ScalarKind::Boolean, value.to_string()),
            Parsed::Null => return Value::Null,
        };
        // An alias (`*x`) is not written where it is used.
        let written = self.slice(start, end).trim();
        let as_written = Parsed::parse_from_cow(written.into()) == *scalar;
        Value::Scalar { text: if as_written { written.to_owned() } else { canonical }, kind }
    }

    fn slice(&self, start: Marker, end: Marker) -> &str {
        let byte = |marker: Marker| self.characters.get(marker.index()).copied().unwrap_or(self.text.len());
        self.text.get(byte(start)..byte(end)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(yaml: &str, key: &str) -> String {
        parse(yaml).unwrap().get(key).unwrap().as_text().unwrap().to_owned()
    }

    #[test]
    fn scalars_keep_their_text() {
        for written in
            ["1e-3", "0x1F", "007", "+5", "3.10", "True", "FALSE", "1_000", ".5", "-1", "yes", "10KB"]
        {
            assert_eq!(text_of(&format!("k: {written}  # why\n"), "k"), written);
            assert_eq!(text_of(&format!("# é\nk: [\"é\", 1]\nx: {written}"), "x"), written);
            assert_eq!(text_of(&format!("k: '{written}'"), "k"), written);
        }
        assert_eq!(text_of("a: &x 1.50\nb: *x\n", "b"), "1.5");
        assert_eq!(text_of("a: !!str 1.50\n", "a"), "1.50");
        assert_eq!(text_of("a: >\n  folded\n  text\n", "a"), "folded text\n");
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let node = parse("# first\nname: x\ninputs:\n  - path: a\n    type:\nlast: 1\n").unwrap();
        assert_eq!(node.get("name").unwrap().line, Some(2));
        assert_eq!(node.get("inputs").unwrap().line, Some(4));
        let Value::Sequence(items) = &node.get("inputs").unwrap().value else { panic!("a list") };
        assert_eq!(items[0].get("path").unwrap().line, Some(4));
        assert_eq!(items[0].get("type").unwrap().line, Some(5));
        assert_eq!(node.get("last").unwrap().line, Some(6));
    }

    #[test]
    fn lines_of_a_file_with_carriage_returns() {
        let node = parse("\u{FEFF}a: 1\r\nb: é\r\nc: 2.50\r\n").unwrap();
        assert_eq!(node.get("a").unwrap().as_text(), Some("1"));
        assert_eq!(node.get("c").unwrap().as_text(), Some("2.50"));
        assert_eq!(node.get("c").unwrap().line, Some(3));
    }

    #[test]
    fn a_merge_key_brings_what_the_mapping_does_not_have() {
        let base = "base: &base {a: 1, b: 2}\nmore: &more {b: 3, c: 4}\n";
        for (mapping, expected) in [
            ("{<<: *base}", "a=1 b=2"),
            ("{<<: *base, b: 5}", "b=5 a=1"),
            ("{b: 5, <<: *base}", "b=5 a=1"),
            ("{<<: [*base, *more]}", "a=1 b=2 c=4"),
            ("{<<: [*more, *base], c: 9}", "c=9 b=3 a=1"),
            ("{<<: {<<: *more, d: 6}}", "d=6 b=3 c=4"),
            ("{<<: []}", ""),
            ("{'<<': 7}", "<<=7"),
        ] {
            let node = parse(&format!("{base}it: {mapping}\n")).unwrap();
            let Value::Mapping(entries) = &node.get("it").unwrap().value else { panic!("a mapping") };
            let found: Vec<_> = entries
                .iter()
                .map(|(key, node)| format!("{}={}", key.name, node.as_text().unwrap()))
                .collect();
            assert_eq!(found.join(" "), expected, "{mapping}");
        }
        for mapping in ["{<<: 1}", "{<<: }", "{<<: [*base, 1]}"] {
            let error = parse(&format!("{base}it: {mapping}\n")).unwrap_err();
            assert!(error.line == Some(3) && error.message.starts_with("<< takes a mapping"), "{error:?}");
        }
        let twice = parse("a: {<<: {b: 1}, <<: {c: 2}}\n").unwrap_err();
        assert_eq!(twice.message, "a is given twice: keep one");
    }

    #[test]
    fn deep_nesting_is_refused() {
        for (open, close) in [("[", "]"), ("- ", ""), ("? ", ""), ("{a: ", "}")] {
            let yaml = format!("k:\n  {}1{}\n", open.repeat(200_000), close.repeat(200_000));
            let error = parse(&yaml).unwrap_err();
            assert_eq!(error.line, Some(2), "{error:?}");
        }
        // Whatever begins levels, and what stands between, the parser does not fall that deep.
        for level in [
            "? : ", ": ", ": ? ", "? &a ", "? !a ", "- !a ", "a: ? ", "? a: ", "- a: ", "a: - ", "\t- ",
            "?\t",
        ] {
            for before in ["", "--- ", "a\r", "k:\r\n "] {
                let yaml = format!("{before}{}1\n", level.repeat(50_000));
                assert!(parse(&yaml).is_err(), "{before:?} {level:?}");
            }
        }
    }

    #[test]
    fn refused_text() {
        for (yaml, line, message) in [
            ("", None, "the file is empty"),
            ("# only this\n", None, "the file is empty"),
            ("~", None, "the file is empty"),
            ("[1]", None, "the file has to be a mapping of keys to values, not a list"),
            ("hello", None, "the file has to be a mapping of keys to values, not \"hello\""),
            ("a: 1\n---\nb: 2\n", None, "the file holds 2 YAML documents: keep one"),
            ("a: 1\nb: 2\na: 3\n", Some(3), "a is given twice: keep one"),
            ("x:\n  - a: 1\n    a: 3\n", Some(3), "a is given twice: keep one"),
            ("x:\n\ta: 1\n", Some(2), "the line is indented with a tab: use spaces"),
            ("x: !secret y\n", Some(1), "the YAML tag !secret is not known: remove it"),
            ("x: !!int y\n", Some(1), "the value does not fit its YAML tag, or there is none"),
            ("[a]: 1\n", Some(1), "a key must be plain text"),
        ] {
            let expected = YamlError { line, message: message.to_owned() };
            assert_eq!(parse(yaml).unwrap_err(), expected, "{yaml:?}");
        }
        for (yaml, line) in
            [("a: [1, 2\nb: 3\n", 2), ("a: \"x\nb: 1", 1), ("a: b: c\n", 1), ("a: *nowhere", 1)]
        {
            let error = parse(yaml).unwrap_err();
            assert_eq!(error.line, Some(line), "{error:?}");
            assert!(error.message.starts_with("not valid YAML at column "), "{error:?}");
        }
        for yaml in ["a: [", "\u{0}"] {
            assert!(parse(yaml).is_err(), "{yaml:?}");
        }
    }
}
