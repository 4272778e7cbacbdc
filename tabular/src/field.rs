//! Takes the quotes off a field.
//!
//! A quote counts only at a field's start; doubled inside it stands for itself, and whatever follows the
//! closing one is taken as it stands, as pandas does.

use std::borrow::Cow;

/// The text of a field: without its quotes, doubled ones made single.
#[inline]
pub(crate) fn unquote(field: &[u8]) -> Cow<'_, [u8]> {
    match quoted(field) {
        None => Cow::Borrowed(field),
        Some(Quoted::Simple(text)) => Cow::Borrowed(text),
        Some(Quoted::Other) => {
            let mut text = Vec::with_capacity(field.len());
            unquote_into(field, &mut text);
            Cow::Owned(text)
        }
    }
}

/// How a field that starts with a quote goes on.
pub(crate) enum Quoted<'a> {
    /// With text, and the only other quote at its very end.
    Simple(&'a [u8]),
    /// With doubled quotes or text after the closing one.
    Other,
}

/// Looks whether a field is quoted.
#[inline]
pub(crate) fn quoted(field: &[u8]) -> Option<Quoted<'_>> {
    let (b'"', rest) = field.split_first()? else { return None };
    match memchr::memchr(b'"', rest) {
        Some(closing) if closing + 1 == rest.len() => Some(Quoted::Simple(&rest[..closing])),
        _ => Some(Quoted::Other),
    }
}

/// Appends the text of a quoted field. After the closing quote the rest is taken as it stands.
pub(crate) fn unquote_into(field: &[u8], text: &mut Vec<u8>) {
    let mut rest = &field[1..];
    while let Some(quote) = memchr::memchr(b'"', rest) {
        text.extend_from_slice(&rest[..quote]);
        rest = &rest[quote + 1..];
        if rest.first() != Some(&b'"') {
            break;
        }
        text.push(b'"');
        rest = &rest[1..];
    }
    text.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_taken_off() {
        let table = [
            ("", ""),
            ("a", "a"),
            ("a\"b", "a\"b"),
            (" \"a\"", " \"a\""),
            ("\"\"", ""),
            ("\"a,b\"", "a,b"),
            ("\"a\"\"b\"", "a\"b"),
            ("\"\"\"\"", "\""),
            ("\"a\"b", "ab"),
            ("\"a\"b\"c\"", "ab\"c\""),
            ("\"a\"\"", "a\""),
        ];
        for (field, text) in table {
            assert_eq!(unquote(field.as_bytes()), text.as_bytes(), "{field}");
        }
    }
}
