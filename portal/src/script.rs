//! The script of the pages as it is sent: without comments, without blanks that say nothing, and with short names in place of its own. The
//! source stays as people read it, and nothing has to be built.
//!
//! It does less than a minifier: no expression is changed, and a name stays wherever the text alone does not show that it is the script's own.
//! It expects what the script keeps to: statements end in `;`, and no statement is empty.

use std::collections::{BTreeMap, BTreeSet};

/// What a piece of a script is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A name, or a word of the language.
    Name,
    /// A number, a text, a pattern; of a template what stands between its expressions.
    Literal,
    /// A sign.
    Sign,
}

/// A piece of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    /// Whether blanks stand before it, and whether a line ends among them.
    blank: Option<bool>,
}

/// Words of the language, and names that browsers have as well: what is not declared where it stands is theirs.
const TAKEN: &[&str] = &[
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "null",
    "of",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
    "close",
    "closed",
    "document",
    "event",
    "external",
    "fetch",
    "find",
    "focus",
    "frames",
    "history",
    "length",
    "location",
    "name",
    "navigator",
    "open",
    "origin",
    "parent",
    "performance",
    "print",
    "screen",
    "scroll",
    "self",
    "status",
    "stop",
    "top",
    "window",
];

/// What stands before a brace that holds statements, and no properties.
const BEFORE_BLOCKS: &[&str] = &["", ")", ">", ";", "{", "}", "catch", "else", "finally", "try"];

/// The script as it is sent.
pub(crate) fn sent(script: &str) -> String {
    let tokens = tokens(script);
    let names = short_names(&tokens);
    let tokens = needed(&tokens);
    let mut out = String::with_capacity(script.len());
    for (at, token) in tokens.iter().enumerate() {
        if let (Some(before), Some(ends_line)) = (at.checked_sub(1).map(|at| tokens[at]), token.blank)
            && let Some(blank) = needed_blank(before, *token, ends_line)
        {
            out.push(blank);
        }
        let short = names.get(token.text).filter(|_| token.kind == Kind::Name);
        out.push_str(short.map_or(token.text, String::as_str));
    }
    out
}

/// The pieces without those that say nothing: what ends the last of a list or of a block, and a `const` behind another.
fn needed<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut needed = Vec::with_capacity(tokens.len());
    // Of each bracket that is open whether the statement in it declares constants.
    let mut declares = vec![false];
    let mut pieces = tokens.iter().peekable();
    while let Some(token) = pieces.next() {
        let after = pieces.peek().map_or("", |token| token.text);
        if closes(*token) {
            declares.pop();
        }
        if opens(*token) {
            declares.push(false);
        }
        let in_statement = declares.last_mut();
        match (token.kind, token.text) {
            (Kind::Sign, ",") if ["]", ")", "}"].contains(&after) => continue,
            (Kind::Sign, ";") if after == "}" => continue,
            (Kind::Sign, ";")
                if after == "const" && in_statement.as_ref().is_some_and(|declares| **declares) =>
            {
                pieces.next();
                needed.push(Token { text: ",", ..*token });
                continue;
            }
            (Kind::Sign, ";") => {
                if let Some(declares) = in_statement {
                    *declares = false;
                }
            }
            (Kind::Name, "const") => {
                if let Some(declares) = in_statement {
                    *declares = true;
                }
            }
            _ => {}
        }
        needed.push(*token);
    }
    needed
}

/// Whether it begins what a bracket holds; one of a template is a `${`.
fn opens(token: Token<'_>) -> bool {
    match token.kind {
        Kind::Sign => "([{".contains(token.text),
        kind => kind == Kind::Literal && token.text.ends_with("${"),
    }
}

/// Whether it ends that.
fn closes(token: Token<'_>) -> bool {
    match token.kind {
        Kind::Sign => ")]}".contains(token.text),
        kind => kind == Kind::Literal && token.text.starts_with('}'),
    }
}

/// The blank that has to stay between two pieces.
fn needed_blank(before: Token<'_>, token: Token<'_>, ends_line: bool) -> Option<char> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    let (last, first) = (before.text.chars().last()?, token.text.chars().next()?);
    let is_between_words = is_word(last) && is_word(first);
    // `+ +a` and `- -a` are not `++a` and `--a`.
    let is_between_signs = last == first && "+-/".contains(last);
    if !ends_line {
        return (is_between_words || is_between_signs).then_some(' ');
    }
    // The end of a line is no end of a statement where its last sign, or the first of the next one, needs more.
    (!";{}(,[=>&|?:".contains(last) && !"})].?:&|".contains(first)).then_some('\n')
}

/// The pieces of a script.
fn tokens(script: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let (mut at, mut blank) = (0, None);
    // Of each brace that is open whether an expression of a template is in it.
    let mut open = Vec::new();
    while let Some(first) = script[at..].chars().next() {
        let rest = &script[at..];
        if first.is_whitespace() {
            blank = Some(blank == Some(true) || first == '\n');
            at += first.len_utf8();
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let is_in_template = first == '}' && open.last() == Some(&true);
        let (kind, length) = match first {
            '"' | '\'' => (Kind::Literal, 1 + quoted(&rest[1..], first)),
            '`' => (Kind::Literal, 1 + template(&rest[1..])),
            '}' if is_in_template => (Kind::Literal, 1 + template(&rest[1..])),
            '/' if begins_pattern(tokens.last()) => (Kind::Literal, pattern(rest)),
            '0'..='9' => {
                (Kind::Literal, while_of(rest, |letter| letter.is_ascii_alphanumeric() || letter == '.'))
            }
            first if first.is_alphabetic() || first == '_' || first == '$' => {
                let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
                (Kind::Name, while_of(rest, is_of_name))
            }
            other => (Kind::Sign, other.len_utf8()),
        };
        let text = &rest[..length];
        if first == '}' {
            open.pop();
        }
        if text.ends_with("${") || text == "{" {
            open.push(text != "{");
        }
        tokens.push(Token { kind, text, blank: blank.take() });
        at += length;
    }
    tokens
}

/// How far a text goes whose end is this quote.
fn quoted(text: &str, end: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            letter if letter == end => return at + end.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// How far a template goes, up to its end or to an expression.
fn template(text: &str) -> usize {
    let end = quoted(text, '`');
    text.find("${").map_or(end, |expression| end.min(expression + 2))
}

/// Whether a `/` behind this begins a pattern; behind a value it divides.
fn begins_pattern(before: Option<&Token<'_>>) -> bool {
    before.is_none_or(|token| token.kind == Kind::Sign && !")]}".contains(token.text))
}

/// How far a pattern goes, with its letters.
fn pattern(text: &str) -> usize {
    let (mut is_escaped, mut is_in_set) = (false, false);
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_in_set = true,
            ']' => is_in_set = false,
            '/' if !is_in_set => {
                return at + 1 + while_of(&text[at + 1..], |letter| letter.is_ascii_lowercase());
            }
            _ => {}
        }
    }
    text.len()
}

fn while_of(text: &str, is_in: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !is_in(letter)).unwrap_or(text.len())
}

/// Short names for the script's own: those that it declares, and that are nowhere the name of a property.
fn short_names<'a>(tokens: &[Token<'a>]) -> BTreeMap<&'a str, String> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let (mut uses, mut declared, mut kept) =
        (BTreeMap::<&str, usize>::new(), BTreeSet::new(), BTreeSet::new());
    kept.extend(TAKEN);
    let mut open: Vec<&str> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let (before, after) = (at.checked_sub(1).map_or("", text), text(at + 1));
        if token.kind != Kind::Name {
            if closes(*token) {
                open.pop();
            }
            if opens(*token) {
                let is_block = token.text == "{" && BEFORE_BLOCKS.contains(&before);
                open.push(if is_block { "block" } else { token.text });
            }
            continue;
        }
        *uses.entry(token.text).or_default() += 1;
        let is_spread = at >= 3 && (at - 3..at).all(|at| text(at) == ".");
        let is_in_braces = open.last() == Some(&"{") && ["{", ","].contains(&before);
        let is_property = (before == "." && !is_spread)
            || (is_in_braces && [":", ",", "}"].contains(&after))
            || (is_in_braces && after == "=" && text(at + 2) != "=")
            || (is_in_braces && after == "(" && text(behind(tokens, at + 1)) == "{");
        if is_property {
            kept.insert(token.text);
        }
        if ["const", "function"].contains(&before)
            || is_of_let(tokens, at)
            || (after == "=" && text(at + 2) == ">")
        {
            declared.insert(token.text);
        }
        // Names in a list: parameters, and what an array is taken apart into.
        let is_list = match open.last() {
            Some(&"(") => is_of_parameters(tokens, at),
            Some(&"[") => is_of_declaration(tokens, at),
            _ => false,
        };
        if is_list && ["(", "[", ","].contains(&before) {
            declared.insert(token.text);
        }
    }
    let mut own: Vec<(&str, usize)> = uses
        .iter()
        .filter(|(name, _)| declared.contains(*name) && !kept.contains(*name) && name.len() > 1)
        .map(|(name, count)| (*name, *count))
        .collect();
    own.sort_by_key(|(name, count)| (std::cmp::Reverse(count * (name.len() - 1)), *name));
    let letters = || ('a'..='z').chain('A'..='Z');
    let one = letters().map(String::from);
    let two = letters().flat_map(|first| letters().map(move |second| format!("{first}{second}")));
    let free =
        one.chain(two).filter(|name| !uses.contains_key(name.as_str()) && !TAKEN.contains(&name.as_str()));
    own.into_iter()
        .zip(free)
        .filter(|((name, _), short)| short.len() < name.len())
        .map(|((name, _), short)| (name, short))
        .collect()
}

/// Whether the name at this place is declared with `let`, alone or behind others.
fn is_of_let(tokens: &[Token<'_>], at: usize) -> bool {
    let is_in_list =
        |token: &&Token<'_>| token.text == "," || (token.kind == Kind::Name && !TAKEN.contains(&token.text));
    tokens[..at].iter().rev().find(|token| !is_in_list(token)).is_some_and(|token| token.text == "let")
}

/// The place behind the bracket that fits the one at this place.
fn behind(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        if closes(*token) {
            depth -= 1;
        }
        if opens(*token) {
            depth += 1;
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}

/// Where the bracket is that the name at this place stands in.
fn opening(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let mut depth = 0;
    for place in (0..at).rev() {
        if opens(tokens[place]) {
            if depth == 0 {
                return Some(place);
            }
            depth -= 1;
        }
        if closes(tokens[place]) {
            depth += 1;
        }
    }
    None
}

/// Whether the list around this place is one of parameters: of a function, or of what `=>` follows.
fn is_of_parameters(tokens: &[Token<'_>], at: usize) -> bool {
    let Some(from) = opening(tokens, at) else { return false };
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let end = behind(tokens, from);
    (text(end) == "=" && text(end + 1) == ">") || (from >= 2 && text(from - 2) == "function")
}

/// Whether the brackets around this place take an array apart: behind `const` or `let`, or among parameters.
fn is_of_declaration(tokens: &[Token<'_>], at: usize) -> bool {
    let Some(from) = opening(tokens, at) else { return false };
    let before = from.checked_sub(1).map_or("", |at| tokens[at].text);
    ["const", "let"].contains(&before) || (before == "(" && is_of_parameters(tokens, from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_is_left_out() {
        for (script, expected) in [
            ("// Why.\n\n  f(\"// b\"); // c\n", "f(\"// b\");"),
            ("if (a) {\n  f();\n  g(1,\n    2,\n  );\n}\n", "if(a){f();g(1,2)}"),
            ("x = [1, 2,];", "x=[1,2];"),
            (
                "const a = 1; const b = () => { const c = 2; f(c); }; if (d) g(); const e = 3; let h; const i = 4;",
                "const a=1,b=()=>{const c=2;f(c)};if(d)g();const e=3;let h;const i=4;",
            ),
            ("x = a\n  ? b\n  : c;", "x=a?b:c;"),
            ("a = b\nc = d;", "a=b\nc=d;"),
            ("a + +b; a - -b; a++; typeof a; return b;", "a+ +b;a- -b;a++;typeof a;return b;"),
            ("a = b / c / d; e(/[/\"]\\/ x/g, 1);", "a=b/c/d;e(/[/\"]\\/ x/g,1);"),
            ("a(`x  ${ b + `y ${ c }` }  z`, '\\'  ');", "a(`x  ${b+`y ${c}`}  z`,'\\'  ');"),
            ("a = `{ ${ { b: 1 }.b } }`;", "a=`{ ${{b:1}.b} }`;"),
        ] {
            assert_eq!(sent(script), expected, "{script}");
        }
    }

    #[test]
    fn its_own_names_become_short_and_no_other() {
        for (script, expected) in [
            ("const first = 1; let second = first;", "const a=1;let b=a;"),
            ("function twice(value) { return value * 2; } twice(9);", "function a(b){return b*2}a(9);"),
            (
                "const [one, two] = list.map((each, at) => each + at + one + two);",
                "const[b,c]=list.map((a,d)=>a+d+b+c);",
            ),
            ("for (const [part, [html]] of parts) f(part, html);", "for(const[a,[html]]of parts)f(a,html);"),
            (
                "const f = async (given = 1, ...rest) => `${given} ${rest}`;",
                "const f=async(a=1,...rest)=>`${a} ${rest}`;",
            ),
            ("const each = (it) => it ? each : it;", "const a=(b)=>b?a:b;"),
            // A property somewhere, taken apart or put together, keeps its name everywhere.
            ("const text = 1; x.text = text;", "const text=1;x.text=text;"),
            ("const text = 1; f({ text });", "const text=1;f({text});"),
            ("const { text } = x; const other = { text: 1, g: text };", "const{text}=x,a={text:1,g:text};"),
            (
                "const call = { begin() { return 1; } }; const begin = 2;",
                "const a={begin(){return 1}},begin=2;",
            ),
            ("const put = 1; if (x) { put(2); }", "const a=1;if(x){a(2)}"),
            ("const { a = 1, b } = x; let from = a;", "const{a=1,b}=x;let c=a;"),
            // What a browser has under a name may be meant elsewhere.
            (
                "const open = 1; const name = open; document.title = name;",
                "const open=1,name=open;document.title=name;",
            ),
            // A name that is taken is given to nothing else.
            ("const first = a + b;", "const c=a+b;"),
        ] {
            assert_eq!(sent(script), expected, "{script}");
        }
    }

    #[test]
    fn what_is_sent_says_the_same_as_the_source() {
        let (source, packed) = (tokens(crate::SOURCE), sent(crate::SOURCE));
        let names = short_names(&source);
        let expected: Vec<&str> = needed(&source)
            .iter()
            .map(|token| match names.get(token.text).filter(|_| token.kind == Kind::Name) {
                Some(short) => short,
                None => token.text,
            })
            .collect();
        let found: Vec<&str> = tokens(&packed).iter().map(|token| token.text).collect();
        assert_eq!(found, expected);
        assert_eq!(names.values().collect::<BTreeSet<_>>().len(), names.len(), "no two have the same");
        assert!(names.values().all(|short| source.iter().all(|token| token.text != short)), "{names:?}");
    }
}
