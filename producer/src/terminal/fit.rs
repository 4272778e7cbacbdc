//! One line of words and a bar, in as many columns as there are.

use console::{measure_text_width, truncate_str};

/// Columns of the smallest and of the largest bar.
const BAR: (usize, usize) = (10, 40);
/// Between two parts.
const GAP: &str = "  ";

/// A part of a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    text: String,
    /// The same in fewer columns.
    short: Option<String>,
    /// What has the lowest is left out first; what has none stays.
    rank: Option<u8>,
}

impl Part {
    /// A part that stays.
    pub(crate) fn kept(text: impl Into<String>) -> Self {
        Self { text: text.into(), short: None, rank: None }
    }

    /// A part that is left out where there is no room for it, the one of the lowest `rank` first.
    pub(crate) fn ranked(rank: u8, text: impl Into<String>) -> Self {
        Self { text: text.into(), short: None, rank: Some(rank) }
    }

    /// The same, in these words where there is little room.
    pub(crate) fn or(self, short: impl Into<String>) -> Self {
        Self { short: Some(short.into()), ..self }
    }
}

/// `head`, a bar where there is room for one, and the parts, in `width` columns.
pub(crate) fn fit(head: &str, fraction: Option<f64>, mut parts: Vec<Part>, width: usize) -> String {
    loop {
        let rest: String = parts.iter().flat_map(|part| [GAP, &part.text]).collect();
        let used = measure_text_width(head) + measure_text_width(&rest);
        let room = width.saturating_sub(used + GAP.len());
        if let Some(fraction) = fraction.filter(|_| room >= BAR.0) {
            return format!("{head}{GAP}{}{rest}", bar(fraction, room.min(BAR.1)));
        }
        if used <= width {
            return format!("{head}{rest}");
        }
        if let Some(part) = parts.iter_mut().find(|part| part.short.is_some()) {
            part.text = part.short.take().unwrap_or_default();
        } else if let Some(least) = parts.iter().filter_map(|part| part.rank).min() {
            parts.retain(|part| part.rank != Some(least));
        } else {
            return truncate_str(&format!("{head}{rest}"), width, "…").into_owned();
        }
    }
}

fn bar(fraction: f64, columns: usize) -> String {
    let filled = (fraction.clamp(0.0, 1.0) * columns as f64) as usize;
    format!("{}{}", "█".repeat(filled), "░".repeat(columns - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_fits_into_it() {
        let parts = || {
            vec![
                Part::kept("12/30 mini-batches").or("12/30"),
                Part::ranked(1, "240/600 items"),
                Part::ranked(2, "1.9 items/s"),
                Part::ranked(3, "15 s left"),
            ]
        };
        let table = [
            (
                120,
                "running 0:31  ████████████████░░░░░░░░░░░░░░░░░░░░░░░░  12/30 mini-batches  240/600 items  1.9 items/s  15 s left",
            ),
            (90, "running 0:31  ████░░░░░░  12/30 mini-batches  240/600 items  1.9 items/s  15 s left"),
            (77, "running 0:31  12/30 mini-batches  240/600 items  1.9 items/s  15 s left"),
            (60, "running 0:31  12/30  240/600 items  1.9 items/s  15 s left"),
            (50, "running 0:31  12/30  1.9 items/s  15 s left"),
            (37, "running 0:31  12/30  15 s left"),
            (20, "running 0:31  12/30"),
            (15, "running 0:31  …"),
        ];
        for (width, expected) in table {
            let line = fit("running 0:31", Some(0.4), parts(), width);
            if width == 90 {
                assert!(line.contains("  ███") && measure_text_width(&line) <= 90, "{line}");
                continue;
            }
            assert!(measure_text_width(&line) <= width, "{line}");
            assert_eq!(line, expected, "{width}");
        }
        assert_eq!(fit("ending 0:31", None, Vec::new(), 120), "ending 0:31");
    }
}
