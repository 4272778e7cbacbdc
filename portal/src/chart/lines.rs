//! A figure of hosts over time: the mean of all nodes as a line, and the band from the least to the most behind it.

use std::fmt::Write;

use askama::Template;

use super::figure::{Figure, Legend, Table};
use super::scale::{Span, Tick, coordinate, round_up};
use crate::text::times::clock;

/// Width and height of the picture's own coordinates.
const SIZE: (f64, f64) = (1_000.0, 100.0);
/// Rows of the table.
const MOST_ROWS: usize = 60;

/// What was measured of all nodes at a time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinePoint {
    /// When, microseconds since the Unix epoch.
    pub at_us: u64,
    /// The least, the mean, the most.
    pub values: [f64; 3],
}

/// The picture.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/lines.html")]
pub struct Lines {
    sentence: String,
    band: String,
    mean: String,
    top: String,
    half: String,
    ticks: Vec<Tick>,
}

impl Lines {
    /// The figure `id` of these points, whose values `says` puts into words; nothing where there are fewer than two.
    pub fn figure(
        id: &'static str,
        title: &str,
        points: &[LinePoint],
        says: impl Fn(f64) -> String,
    ) -> Option<Figure> {
        let (first, last) = (points.first()?, points.last()?);
        if last.at_us <= first.at_us {
            return None;
        }
        let span = Span { from_us: first.at_us, to_us: last.at_us };
        let most = points.iter().map(|point| point.values[2]).fold(0.0, f64::max);
        let top = round_up(most);
        let place = |point: &LinePoint, which: usize| {
            let (x, y) = (span.fraction(point.at_us) * SIZE.0, SIZE.1 - point.values[which] / top * SIZE.1);
            format!("{} {}", coordinate(x), coordinate(y.clamp(0.0, SIZE.1)))
        };
        let line = |places: Vec<String>| {
            let mut path = String::new();
            for (at, place) in places.iter().enumerate() {
                let _ = write!(path, "{}{place}", if at == 0 { "M" } else { "L" });
            }
            path
        };
        let is_band = points.iter().any(|point| point.values[2] > point.values[0]);
        let upper = points.iter().map(|point| place(point, 2));
        let lower = points.iter().rev().map(|point| place(point, 0));
        let mean: f64 = points.iter().map(|point| point.values[1]).sum::<f64>() / points.len() as f64;
        let at = points.iter().find(|point| point.values[2] >= most).map_or(first.at_us, |point| point.at_us);
        let sentence = format!("{} on average, {} at most, at {} UTC.", says(mean), says(most), clock(at));
        let picture = Self {
            sentence: sentence.clone(),
            band: if is_band { line(upper.chain(lower).collect()) + "z" } else { String::new() },
            mean: line(points.iter().map(|point| place(point, 1)).collect()),
            top: says(top),
            half: says(top / 2.0),
            ticks: span.ticks(),
        };
        let legend = |class, text: &str| Legend { class, text: text.to_owned() };
        Some(Figure {
            id,
            title: title.to_owned(),
            sentence,
            picture: picture.render().unwrap_or_default(),
            legend: if is_band {
                vec![legend("share-0", "mean of all nodes"), legend("busy-1", "from the least to the most")]
            } else {
                Vec::new()
            },
            table: Some(table(title, points, says)),
            is_open: false,
            is_apart: false,
            walk: None,
        })
    }
}

fn table(title: &str, points: &[LinePoint], says: impl Fn(f64) -> String) -> Table {
    let mut table = Table::new(title, &["At, UTC", "#Least", "#Mean", "#Most"]);
    for point in points.iter().step_by(points.len().div_ceil(MOST_ROWS).max(1)) {
        let mut row = vec![clock(point.at_us).into()];
        row.extend(point.values.map(|value| says(value).into()));
        table.rows.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_is_a_line_and_several_have_a_band() {
        let noon = 1_763_726_400_000_000;
        let point = |second: u64, values| LinePoint { at_us: noon + second * 1_000_000, values };
        let says = |value: f64| format!("{value:.0} %");
        let one = [point(0, [40.0; 3]), point(10, [80.0; 3])];
        let figure = Lines::figure("cpu", "CPU", &one, says).unwrap();
        assert_eq!(figure.sentence, "60 % on average, 80 % at most, at 12:00:10 UTC.");
        assert!(
            figure.picture.contains("\"M0 60L1000 20\"") && figure.legend.is_empty(),
            "{}",
            figure.picture
        );
        let several = [point(0, [10.0, 40.0, 50.0]), point(10, [20.0, 80.0, 100.0])];
        let figure = Lines::figure("cpu", "CPU", &several, says).unwrap();
        assert!(figure.picture.contains("M0 50L1000 0L1000 80L0 90z"), "{}", figure.picture);
        assert!(Lines::figure("cpu", "CPU", &one[..1], says).is_none());
    }
}
