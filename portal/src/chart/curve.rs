//! A curve the size of a line of text: how many tries began when, over the time of a job.

use askama::Template;

use super::path::steps;
use crate::text::counted;
use crate::text::times::{clock, duration};

/// Height of the picture's own coordinates.
const HEIGHT: f64 = 20.0;

/// Tries over time.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/curve.html")]
pub struct Curve {
    sentence: String,
    columns: usize,
    area: String,
}

impl Curve {
    /// The curve of `bins`, each `step_s` seconds long, of which the first begins at `from_us`; nothing where all tries are in
    /// one bin, which has no shape.
    pub fn new(from_us: u64, step_s: u32, bins: &[u64]) -> Option<Self> {
        let top = bins.iter().copied().max().filter(|top| *top > 0)?;
        if bins.iter().filter(|count| **count > 0).count() < 2 {
            return None;
        }
        let at = bins.iter().position(|count| *count == top).unwrap_or_default();
        let begins_us = from_us + at as u64 * u64::from(step_s) * 1_000_000;
        let sentence = format!(
            "Most of these tries, {}, began in the {} from {} UTC.",
            counted(top, "try"),
            duration(f64::from(step_s)),
            clock(begins_us),
        );
        let area = steps(bins.iter().map(|count| *count as f64 / top as f64 * HEIGHT), HEIGHT);
        Some(Self { sentence, columns: bins.len(), area })
    }

    /// What it shows, in words.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// The picture.
    pub fn picture(&self) -> String {
        self.render().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_says_when_most_tries_began() {
        // 2025-11-21 12:00 UTC.
        let noon = 1_763_726_400_000_000;
        let mut bins = [0; 24];
        assert_eq!(Curve::new(noon, 2, &bins), None);
        bins[3] = 7;
        assert_eq!(Curve::new(noon, 2, &bins), None);
        bins[5] = 14;
        let curve = Curve::new(noon, 2, &bins).unwrap();
        assert_eq!(
            curve.sentence(),
            "Most of these tries, 14 tries, began in the 2\u{202f}s from 12:00:10 UTC."
        );
        assert!(curve.picture().contains("M0 20V20h3V10h1V20h1V0h1V20h18V20z"), "{}", curve.picture());
    }
}
