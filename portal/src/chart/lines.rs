//! A figure of hosts over time: the mean of the nodes as a line, the band from the least to the most behind it, and lines of their own beside
//! it: of those nodes that have the most of it, or of what it is the sum of.

use std::fmt::Write;

use askama::Template;

use super::figure::{Figure, Legend, Table, Walk};
use super::scale::{Span, Tick, coordinate, round_up};
use crate::text::times::clock;

/// Width and height of the picture's own coordinates.
const SIZE: (f64, f64) = (1_000.0, 100.0);
/// How the lines beside it are dashed, the first first.
const DASHES: [&str; 3] = ["9 3", "4 3", "1 3"];
/// Columns that are walked, at most.
const MOST_COLUMNS: u64 = 1_000;
const SECOND: u64 = 1_000_000;
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

/// A line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Line<'a> {
    /// What it is of.
    pub name: &'a str,
    /// What an address of mini-batches filters by that belong to it; empty where there is none.
    pub query: &'a str,
    /// When, and how much.
    pub points: &'a [LinePoint],
}

/// The picture.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/lines.html")]
pub struct Lines {
    sentence: String,
    band: String,
    mean: String,
    /// The lines beside it, with how each is dashed.
    beside: Vec<(&'static str, String)>,
    top: String,
    half: String,
    ticks: Vec<Tick>,
}

impl Lines {
    /// The figure `id` of a line, and of those beside it, which `what` names; `says` puts values into words. Its places lead to mini-batches
    /// below the address `open`. Nothing where there are fewer than two points.
    pub fn figure(
        id: &'static str,
        title: &str,
        of: Line<'_>,
        (what, beside): (&str, &[Line<'_>]),
        open: &str,
        says: impl Fn(f64) -> String,
    ) -> Option<Figure> {
        let Line { name: whose, points, .. } = of;
        let beside = &beside[..beside.len().min(DASHES.len())];
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
            beside: DASHES
                .into_iter()
                .zip(beside)
                .map(|(dash, one)| (dash, line(one.points.iter().map(|point| place(point, 1)).collect())))
                .collect(),
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
            legend: {
                let mut all = Vec::new();
                if is_band || !beside.is_empty() {
                    all.push(legend("share-0", whose));
                }
                if is_band {
                    all.push(legend("busy-1", "from the least to the most of them"));
                }
                if !beside.is_empty() {
                    let named: Vec<&str> = beside.iter().map(|one| one.name).collect();
                    all.push(legend("line", &format!("{what}longest dashes first: {}", named.join(", "))));
                }
                all
            },
            walk: walk(of, beside, span, &says).map(|walk| Walk { open: open.to_owned(), ..walk }),
            table: Some(table(title, points, says)),
            is_open: false,
            is_apart: false,
        })
    }
}

/// What is read out at each point: the mean, and the lines beside it. Nothing where points have no common distance.
fn walk(of: Line<'_>, beside: &[Line<'_>], span: Span, says: impl Fn(f64) -> String) -> Option<Walk> {
    let gaps = of.points.windows(2).map(|pair| pair[1].at_us.saturating_sub(pair[0].at_us));
    let step_us = gaps.min().filter(|step| *step >= SECOND)?;
    let columns = (span.to_us - span.from_us) / step_us + 1;
    if columns > MOST_COLUMNS {
        return None;
    }
    let row = |line: &Line<'_>| {
        let mut cells = vec!["\u{2013}".to_owned(); columns as usize];
        for point in line.points {
            let at = point.at_us.checked_sub(span.from_us).map(|behind| (behind / step_us) as usize);
            if let Some(cell) = at.and_then(|at| cells.get_mut(at)) {
                // Blanks part the cells.
                *cell = says(point.values[1]).replace(' ', "\u{202f}");
            }
        }
        (line.name.to_owned(), line.query.to_owned(), cells.join(" "))
    };
    Some(Walk {
        kind: "time",
        from: span.from_us,
        step: (step_us / SECOND).max(1),
        rows: std::iter::once(&of).chain(beside).map(row).collect(),
        ..Walk::default()
    })
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
        let named = |name, points| Line { name, query: "state=tries", points };
        let figure = Lines::figure("cpu", "CPU", named("a", &one), ("", &[]), "", says).unwrap();
        assert_eq!(figure.sentence, "60 % on average, 80 % at most, at 12:00:10 UTC.");
        assert!(
            figure.picture.contains("\"M0 60L1000 20\"") && figure.legend.is_empty(),
            "{}",
            figure.picture
        );
        let high = [point(0, [50.0; 3]), point(10, [100.0; 3])];
        let highest = [Line { query: "node=17", ..named("node 17", &high) }];
        let several = [point(0, [10.0, 40.0, 50.0]), point(10, [20.0, 80.0, 100.0])];
        let beside = ("highest, ", &highest[..]);
        let figure =
            Lines::figure("cpu", "CPU", named("mean of 2 nodes", &several), beside, "/to", says).unwrap();
        let walk = figure.walk.unwrap();
        assert_eq!((walk.step, &*walk.rows[0].2, &*walk.open), (10, "40\u{202f}% 80\u{202f}%", "/to"));
        let (name, query, cells) = &walk.rows[1];
        assert_eq!((&**name, &**query, &**cells), ("node 17", "node=17", "50\u{202f}% 100\u{202f}%"));
        assert!(figure.picture.contains("stroke-dasharray=\"9 3\""), "{}", figure.picture);
        let said: Vec<_> = figure.legend.iter().map(|one| &*one.text).collect();
        assert_eq!(said[0], "mean of 2 nodes");
        assert!(said[2].ends_with("node 17"), "{said:?}");
        assert!(figure.picture.contains("M0 50L1000 0L1000 80L0 90z"), "{}", figure.picture);
        assert!(Lines::figure("cpu", "CPU", named("a", &one[..1]), ("", &[]), "", says).is_none());
    }
}
