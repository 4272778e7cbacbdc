//! Text as people read it on a page: numbers, times, and what programs wrote for a terminal.
//!
//! Nothing here is HTML: templates escape all of it.

pub mod json;
pub mod numbers;
pub mod terminal;
pub mod times;

pub use numbers::{bytes, count, counted, per_second, percent};
pub use terminal::{Run, plain, runs};
pub use times::{clock, day_and_clock, duration};

/// Text of at most so many characters; what is longer ends in an ellipsis.
pub fn cut(text: &str, longest: usize) -> String {
    if text.char_indices().nth(longest).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(longest.saturating_sub(1)).collect();
    format!("{}\u{2026}", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn long_text_ends_in_an_ellipsis() {
        for (text, longest, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab\u{2026}"),
            ("a bcd", 3, "a\u{2026}"),
            ("\u{e4}\u{f6}", 2, "\u{e4}\u{f6}"),
            ("", 3, ""),
        ] {
            assert_eq!(cut(text, longest), expected);
        }
    }
}
