//! The words of a command line, as a POSIX shell splits it: quotes and backslashes, and nothing else of a shell.
//!
//! What crates of this kind do is not enough: an expression, `${{ inputs.x }}`, is one unit whatever blanks it has, its
//! value stays in its word whatever blanks that has, and `#` begins no comment.

/// Splits `text`, with what `value` gives for the inside of each `${{ }}` in its place.
///
/// # Errors
/// A quote or an expression without an end, and what `value` says.
pub(super) fn split(
    text: &str,
    mut value: impl FnMut(&str) -> Result<String, String>,
) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if let Some(inside) = rest.strip_prefix("${{") {
            let (inside, after) = inside
                .split_once("}}")
                .ok_or_else(|| format!("`${{{{{inside}` has no end: close it with }}}}"))?;
            word.get_or_insert_default().push_str(&value(inside.trim())?);
            rest = after;
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        match (quote, letter) {
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), _) if letter == open => quote = None,
            (None, '\\') => {
                let next = rest.chars().next().ok_or("a backslash at the end: remove it")?;
                rest = &rest[next.len_utf8()..];
                // A backslash at the end of a line joins it with the next one.
                if next != '\n' {
                    word.get_or_insert_default().push(next);
                }
            }
            (Some('"'), '\\') if rest.starts_with(['"', '\\', '$', '`', '\n']) => {
                let next = rest.chars().next().expect("it starts with one");
                rest = &rest[next.len_utf8()..];
                if next != '\n' {
                    word.get_or_insert_default().push(next);
                }
            }
            (None, letter) if letter.is_ascii_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("the quote {quote} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let value = |inside: &str| Ok(format!("<{inside}> '\""));
        for (text, expected) in [
            ("", vec![]),
            (" \n\t ", vec![]),
            ("--a 1  --b=2\n--c", vec!["--a", "1", "--b=2", "--c"]),
            ("'a b' \"c d\" e\\ f", vec!["a b", "c d", "e f"]),
            ("a'b'\"c\"d ''", vec!["abcd", ""]),
            ("'a\\b' \"a\\b \\\" \\$ \\\\\"", vec!["a\\b", "a\\b \" $ \\"]),
            ("a \\\n b", vec!["a", "b"]),
            ("$HOME * ; | # & > x", vec!["$HOME", "*", ";", "|", "#", "&", ">", "x"]),
            ("--x ${{ inputs.x }} y", vec!["--x", "<inputs.x> '\"", "y"]),
            ("'${{inputs.x}}'\"${{x}}\"z", vec!["<inputs.x> '\"<x> '\"z"]),
            ("é日", vec!["é日"]),
            ("${a} $x {{", vec!["${a}", "$x", "{{"]),
        ] {
            assert_eq!(split(text, value).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_has_no_end_is_refused() {
        for (text, part) in [
            ("a 'b", "the quote ' "),
            ("\"", "the quote \" "),
            ("a\\", "a backslash"),
            ("${{ inputs.x", "has no end"),
        ] {
            assert!(split(text, |_| Ok(String::new())).unwrap_err().contains(part), "{text:?}");
        }
        assert_eq!(split("a ${{x}}", |inside| Err(inside.to_owned())), Err("x".to_owned()));
    }
}
