//! All workers by what they are at: a mark each, by state, so that a few sick ones show among hundreds.

use std::fmt::Write;

use askama::Template;

use super::figure::{Figure, Legend, Walk};
use crate::text::{count, counted};

/// Marks at most; of more workers each mark stands for several.
const MOST_MARKS: u64 = 512;
/// Marks in a row, and the room of one.
const IN_A_ROW: u64 = 32;
const ROOM: u64 = 10;

/// States of workers in their order: the word, the class of its fill, and the path of its mark from the upper left of its room.
const STATES: [(&str, &str, &str); 4] = [
    ("serving", "active", "l8 4-8 4z"),
    // A circle but for a gap that nobody sees.
    ("idle", "good", "m0 4a4 4 0 1 0 0-.1z"),
    ("draining", "warn", "m4 0l4 8h-8z"),
    ("silent", "bad", "h8v8h-8z"),
];

/// The workers.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/workers.html")]
pub struct Workers {
    sentence: String,
    width: u64,
    height: u64,
    /// Class and path of the marks of each state, and what these are.
    marks: Vec<(&'static str, String, String)>,
}

impl Workers {
    /// The figure of so many workers, by the words of their states; nothing where there are none.
    pub fn figure(by_state: &[(&str, u64)]) -> Option<Figure> {
        let of =
            |word: &str| by_state.iter().filter(|(state, _)| *state == word).map(|(_, count)| count).sum();
        let counts: [u64; 4] = STATES.map(|(word, ..)| of(word));
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        let each = total.div_ceil(MOST_MARKS);
        let (mut at, mut marks, mut legend) = (0, Vec::new(), Vec::new());
        for ((word, class, mark), of_state) in STATES.into_iter().zip(counts) {
            if of_state == 0 {
                continue;
            }
            let mut path = String::new();
            // A few are never none.
            for _ in 0..of_state.div_ceil(each) {
                let (x, y) = (at % IN_A_ROW * ROOM + 1, at / IN_A_ROW * ROOM + 1);
                let _ = write!(path, "M{x} {y}{mark}");
                at += 1;
            }
            let text = format!("{} {word}", count(of_state));
            marks.push((class, path, text.clone()));
            legend.push(Legend { class, text });
        }
        let told: Vec<String> = legend.iter().map(|one| one.text.clone()).collect();
        let scale = if each == 1 { String::new() } else { format!("; a mark stands for {each}") };
        let sentence = format!("{}: {}{scale}.", counted(total, "worker"), told.join(", "));
        let workers = Self {
            sentence: sentence.clone(),
            width: IN_A_ROW * ROOM,
            height: at.div_ceil(IN_A_ROW) * ROOM,
            marks,
        };
        Some(Figure {
            id: "workers-by-state",
            title: "Workers by state".to_owned(),
            sentence,
            picture: workers.render().unwrap_or_default(),
            legend,
            // The list of workers is the same as a table.
            table: None,
            is_open: false,
            is_apart: false,
            // The states below it are links.
            walk: Some(Walk::of_marks("marks")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_sick_workers_show_among_many() {
        let figure = Workers::figure(&[("serving", 480), ("idle", 17), ("silent", 3)]).unwrap();
        assert_eq!(figure.sentence, "500 workers: 480 serving, 17 idle, 3 silent.");
        assert_eq!(figure.picture.matches('M').count(), 500);
        // What keys walk.
        assert_eq!(figure.picture.matches("<use ").count(), 3);
        assert!(figure.picture.contains("<title>3 silent</title>") && figure.walk.is_some());
        assert!(figure.picture.len() < 12_000, "{}", figure.picture.len());
        let many = Workers::figure(&[("serving", 50_000), ("silent", 1)]).unwrap();
        assert!(many.sentence.ends_with("; a mark stands for 98."), "{}", many.sentence);
        assert!(many.picture.matches('M').count() <= 513 && many.picture.contains("f-bad"));
        assert!(Workers::figure(&[("idle", 0)]).is_none());
    }
}
