//! What messages of the same error have in common: all but the names and numbers of the items.

/// `message` with a placeholder for each quoted text, path and number.
pub(crate) fn pattern(message: &str) -> String {
    let mut pattern = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let (length, placeholder) = match first {
            '\'' | '"' | '`' => match quoted(rest, first) {
                Some(length) => (length, Some("<...>")),
                None => (1, None),
            },
            _ if first.is_alphanumeric() || "/._-+".contains(first) => {
                let word = word(rest);
                (word.len(), is_name(word).then_some("<...>"))
            }
            _ => (first.len_utf8(), None),
        };
        pattern.push_str(placeholder.unwrap_or(&rest[..length]));
        rest = &rest[length..];
    }
    pattern
}

/// Length of the quoted text that `text` begins with.
fn quoted(text: &str, quote: char) -> Option<usize> {
    text[1..].find(quote).map(|at| at + 2)
}

/// The word or path that `text` begins with.
fn word(text: &str) -> &str {
    let belongs = |each: char| each.is_alphanumeric() || "/._-+".contains(each);
    text.split_once(|each| !belongs(each)).map_or(text, |(word, _)| word)
}

/// Whether a word is a number, a path, or a name with a number in it.
fn is_name(word: &str) -> bool {
    word.contains('/') || word.contains(|each: char| each.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_items_are_left_out() {
        for (message, expected) in [
            ("cannot parse p031.txt", "cannot parse <...>"),
            ("cannot open /data/a b", "cannot open <...> b"),
            ("row 12 of 'it is': bad", "row <...> of <...>: bad"),
            ("it isn't so", "it isn't so"),
            ("-1.5e+7 is too small, é", "<...> is too small, é"),
            ("upstream API failed.", "upstream API failed."),
            ("", ""),
        ] {
            assert_eq!(pattern(message), expected);
        }
    }
}
