//! What a segment knows of an error beside its message: where it comes from, and a traceback.
//!
//! Many tries fail alike. A segment has each distinct error once, and the tries refer to it.

use serde::{Deserialize, Serialize};

use crate::source_line::SourceLine;

/// Longest traceback that is kept, bytes.
const LONGEST: usize = 8 << 10;

/// An error, beside its message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// Class of the exception, or what stands for it.
    pub category: String,
    /// The last line of the user's code that was in it.
    pub frame: Option<SourceLine>,
    /// The traceback, or the stack of a process that was killed; empty where there is none.
    pub traceback: String,
}

impl ErrorDetail {
    /// What is known of an error. Of a long traceback the middle is left out.
    pub fn new(category: &str, frame: Option<SourceLine>, traceback: &str) -> Self {
        Self { category: category.to_owned(), frame, traceback: without_middle(traceback) }
    }

    /// Whether it is the same error: what is raised by the same line, else what has the same traceback.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.category == other.category
            && self.frame == other.frame
            && (self.frame.is_some() || self.traceback == other.traceback)
    }
}

fn without_middle(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(LONGEST / 4)];
    let tail = &text[text.ceil_char_boundary(text.len() - 3 * LONGEST / 4)..];
    // Whole lines, where there are some.
    let head = head.rfind('\n').map_or(head, |end| &head[..=end]);
    let tail = tail.find('\n').map_or(tail, |start| &tail[start + 1..]);
    format!("{head}  ...\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(category: &str, line: Option<u32>, traceback: &str) -> ErrorDetail {
        let frame = line.map(|line| SourceLine { line, ..SourceLine::default() });
        ErrorDetail::new(category, frame, traceback)
    }

    #[test]
    fn errors_are_alike_by_their_line() {
        let table = [
            (detail("A", Some(1), "x"), detail("A", Some(1), "y"), true),
            (detail("A", Some(1), "x"), detail("A", Some(2), "x"), false),
            (detail("A", Some(1), "x"), detail("B", Some(1), "x"), false),
            (detail("A", None, "x"), detail("A", None, "x"), true),
            (detail("A", None, "x"), detail("A", None, "y"), false),
        ];
        for (one, other, alike) in table {
            assert_eq!(one.is_like(&other), alike, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_long_traceback_keeps_its_ends() {
        let lines = "line of a traceback é\n".repeat(10_000);
        let kept = detail("A", None, &lines).traceback;
        assert!(kept.len() < LONGEST + 10 && kept.starts_with("line of"), "{}", kept.len());
        assert!(kept.ends_with("é\n") && kept.contains("é\n  ...\nline of"));
        assert_eq!(detail("A", None, "short").traceback, "short");
    }
}
