//! Text of others, names and messages of scripts among it, as a terminal may show it: without characters that move the
//! cursor, clear the screen, change its title or order what stands on it otherwise.

use std::borrow::Cow;

/// `text` with an escape in the place of each control character but line ends, tabs and colours.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_hidden) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let colour = colour(rest);
        if colour == 0 {
            rest = push_first(&mut shown, rest);
        } else {
            shown.push_str(&rest[..colour]);
            rest = &rest[colour..];
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// What a terminal shows of a line that returns to its begin, as progress bars do: what was written last.
pub(crate) fn written_last(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').next().unwrap_or(line)
}

/// The same of what is to stay on one line, and has no columns.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    let breaks = |letter: char| is_hidden(letter) || "\n\t".contains(letter);
    if !text.contains(breaks) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if breaks(letter) { shown.extend(letter.escape_debug()) } else { shown.push(letter) }
    }
    Cow::Owned(shown)
}

fn is_hidden(letter: char) -> bool {
    // Those that order text otherwise are no control characters of Unicode.
    let reorders = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    reorders || letter.is_control() && !"\n\t".contains(letter)
}

/// Adds an escape for the first character of `text`, and gives what is behind it.
fn push_first<'a>(shown: &mut String, text: &'a str) -> &'a str {
    let mut letters = text.chars();
    if let Some(letter) = letters.next() {
        shown.extend(letter.escape_unicode());
    }
    letters.as_str()
}

/// Bytes of the colour that `text` begins with; 0 without.
fn colour(text: &str) -> usize {
    let Some(codes) = text.strip_prefix("\u{1b}[") else { return 0 };
    let end = codes.find(|letter: char| !letter.is_ascii_digit() && letter != ';').unwrap_or(codes.len());
    if codes[end..].starts_with('m') { "\u{1b}[".len() + end + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let table = [
            ("plain, ä, 日本\n\tand tabs", "plain, ä, 日本\n\tand tabs", "plain, ä, 日本\\n\\tand tabs"),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}", "\\u{1b}]0;title\\u{7}"),
            (
                "nul \0, del \u{7f}, c1 \u{9b}2J",
                "nul \\u{0}, del \\u{7f}, c1 \\u{9b}2J",
                "nul \\0, del \\u{7f}, c1 \\u{9b}2J",
            ),
            ("over\rwritten", "over\\u{d}written", "over\\rwritten"),
            ("a\u{202e}b", "a\\u{202e}b", "a\\u{202e}b"),
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("\u{1b}[31", "\\u{1b}[31", "\\u{1b}[31"),
            ("\u{1b}", "\\u{1b}", "\\u{1b}"),
        ];
        for (text, shown, line) in table {
            assert_eq!(visible(text), shown, "{text:?}");
            assert_eq!(one_line(text), line, "{text:?}");
        }
        for (line, last) in [("a", "a"), ("0 %\r50 %\r99 %", "99 %"), ("a\r", "a"), ("\r", ""), ("", "")] {
            assert_eq!(written_last(line), last, "{line:?}");
        }
    }
}
