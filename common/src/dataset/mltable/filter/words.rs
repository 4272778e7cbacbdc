//! The text of a filter as words, each with its place.

use super::Operator;
use super::parser::FilterError;

/// A word of a filter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
    Or,
    And,
    Not,
    Compare(Operator),
    Open,
    Close,
    Comma,
    /// A minus sign.
    Minus,
    /// A number without a sign, as it is written.
    Number(String),
    Text(String),
    /// A name of letters, digits and `_`, which is no other word.
    Name(String),
    End,
}

/// Signs, those first that others are the beginning of.
const SIGNS: [(&str, Word); 16] = [
    ("&&", Word::And),
    ("||", Word::Or),
    ("==", Word::Compare(Operator::Equal)),
    ("!=", Word::Compare(Operator::NotEqual)),
    ("<=", Word::Compare(Operator::LessOrEqual)),
    (">=", Word::Compare(Operator::GreaterOrEqual)),
    ("<", Word::Compare(Operator::Less)),
    (">", Word::Compare(Operator::Greater)),
    ("&", Word::And),
    ("|", Word::Or),
    ("!", Word::Not),
    ("~", Word::Not),
    ("(", Word::Open),
    (")", Word::Close),
    (",", Word::Comma),
    ("-", Word::Minus),
];

/// The words of `text` with the byte offsets at which they begin; the last is [`Word::End`].
pub(super) fn words(text: &str) -> Result<Vec<(usize, Word)>, FilterError> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (word, length) = if let Some((sign, word)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign))
        {
            (word.clone(), sign.len())
        } else if first == '"' || first == '\'' {
            quoted(rest, first)
                .ok_or_else(|| FilterError::new(text, at, "the quotation mark is not closed"))?
        } else if first.is_ascii_digit() || first == '.' {
            let length = number(rest);
            let what = format!("{:?} is no number", &rest[..length]);
            let is_number = rest[..length].parse::<f64>().is_ok();
            if !is_number || rest[length..].starts_with(|next: char| next.is_alphanumeric() || next == '_') {
                return Err(FilterError::new(text, at, what));
            }
            (Word::Number(rest[..length].to_owned()), length)
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(rest.len());
            let word = match &rest[..length] {
                "or" => Word::Or,
                "and" => Word::And,
                "not" => Word::Not,
                name => Word::Name(name.to_owned()),
            };
            (word, length)
        } else {
            let hint = if first == '=' { "; compare with ==" } else { "" };
            return Err(FilterError::new(text, at, format!("{first:?} has no meaning here{hint}")));
        };
        words.push((at, word));
        at += length;
    }
    words.push((text.len(), Word::End));
    Ok(words)
}

/// The text in quotation marks that `rest` begins with, and its length with them; a backslash takes away the meaning of
/// the next character.
fn quoted(rest: &str, mark: char) -> Option<(Word, usize)> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => match characters.next()?.1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                other if other == '\\' || other == '"' || other == '\'' => text.push(other),
                other => text.extend(['\\', other]),
            },
            character if character == mark => return Some((Word::Text(text), at + 1)),
            character => text.push(character),
        }
    }
    None
}

/// The length of the number that `rest` begins with.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = digits(0);
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = digits(at + 1 + sign);
        if end > at + 1 + sign {
            at = end;
        }
    }
    at
}
