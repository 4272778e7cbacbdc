//! The progress bar: what succeeded, what failed, what is in flight, what waits.

use askama::Template;

use super::scale::coordinate;

/// Width of the picture.
const WIDTH: f64 = 1_000.0;
/// Width of the smallest part that is not nothing.
const SMALLEST: f64 = 4.0;

/// The bar of a job.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/progress.html")]
pub struct Progress {
    parts: Vec<Part>,
    sentence: String,
}

/// A part of the bar.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    class: &'static str,
    x: String,
    width: String,
}

impl Progress {
    /// The bar of these counts; `sentence` says the same.
    pub fn new(succeeded: u64, failed: u64, in_flight: u64, waiting: u64, sentence: String) -> Self {
        let counts = [("good", succeeded), ("bad", failed), ("active", in_flight), ("waiting", waiting)];
        let widths = widths(counts.map(|(_, count)| count));
        let mut x = 0.0;
        let mut parts = Vec::new();
        for ((class, _), width) in counts.into_iter().zip(widths) {
            if width > 0.0 {
                parts.push(Part { class, x: coordinate(x), width: coordinate(width) });
            }
            x += width;
        }
        Self { parts, sentence }
    }
}

/// The widths of parts: what is not nothing is seen, and all together are as wide as the picture.
fn widths(counts: [u64; 4]) -> [f64; 4] {
    let total: f64 = counts.iter().map(|count| *count as f64).sum();
    if total == 0.0 {
        return [0.0, 0.0, 0.0, WIDTH];
    }
    let exact = counts.map(|count| count as f64 / total * WIDTH);
    let shown = counts.map(|count| if count == 0 { 0.0 } else { SMALLEST });
    let mut widths = [0.0; 4];
    for (at, width) in widths.iter_mut().enumerate() {
        *width = exact[at].max(shown[at]);
    }
    // The widest part gives what the smallest were widened by.
    let surplus = widths.iter().sum::<f64>() - WIDTH;
    let widest = (0..4).max_by(|one, other| widths[*one].total_cmp(&widths[*other])).unwrap_or(0);
    widths[widest] -= surplus;
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_nothing_is_seen() {
        for (counts, expected) in [
            ([0, 0, 0, 0], [0.0, 0.0, 0.0, 1000.0]),
            ([1, 1, 0, 2], [250.0, 250.0, 0.0, 500.0]),
            ([1_000_000, 1, 0, 0], [996.0, 4.0, 0.0, 0.0]),
            ([0, 1, 1, 1_000_000], [0.0, 4.0, 4.0, 992.0]),
            ([10, 0, 0, 0], [1000.0, 0.0, 0.0, 0.0]),
        ] {
            let widths = widths(counts);
            let near = widths.iter().zip(expected).all(|(width, expected)| (width - expected).abs() < 0.01);
            assert!(near, "{counts:?}: {widths:?}");
        }
    }
}
