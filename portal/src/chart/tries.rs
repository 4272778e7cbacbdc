//! The tries of a small job: a row for each process, a bar for each try.

use askama::Template;

use super::figure::{Cell, Figure, Legend, Table, Walk};
use super::scale::{Span, Tick, percent};
use crate::text::times::{clock, duration_us};
use crate::text::{count, counted, cut};

/// Bars at most; a job with more tries has an [`Activity`](super::Activity).
pub(crate) const MOST_BARS: usize = 400;
/// Rows at most.
const MOST_ROWS: usize = 64;
/// Height of a row, pixels.
const ROW_HEIGHT: usize = 20;
/// Letters of a name that are shown beside a row.
const LETTERS: usize = 16;
/// A bar that is narrower than this has no number in it.
const NARROW: f64 = 0.035;
/// The narrowest bar.
const NARROWEST: f64 = 0.002;

/// A try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TryBar {
    /// What ran it: a process of a node.
    pub process: String,
    /// The mini-batch.
    pub index: u64,
    /// Which try of it, from 1.
    pub number: u32,
    /// When it began, microseconds since the Unix epoch.
    pub started_us: u64,
    /// How long it took, microseconds.
    pub elapsed_us: u64,
    /// Whether it failed.
    pub failed: bool,
}

/// The tries of a job.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/tries.html")]
pub struct Tries {
    sentence: String,
    height: usize,
    row_height: usize,
    names: Vec<(usize, String)>,
    bars: Vec<Bar>,
    ticks: Vec<Tick>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bar {
    x: String,
    width: String,
    y: usize,
    class: &'static str,
    title: String,
    /// The number in it, and where its middle is.
    label: Option<(String, String)>,
}

impl Tries {
    /// The figure of these tries; nothing where there are none, or too many for bars.
    pub fn figure(tries: &[TryBar]) -> Option<Figure> {
        if tries.is_empty() || tries.len() > MOST_BARS {
            return None;
        }
        let mut processes: Vec<&str> = tries.iter().map(|one| &*one.process).collect();
        processes.sort_by_cached_key(|one| natural(one));
        processes.dedup();
        if processes.len() > MOST_ROWS {
            return None;
        }
        let from_us = tries.iter().map(|one| one.started_us).min().unwrap_or(0);
        let to_us =
            tries.iter().map(|one| one.started_us + one.elapsed_us).max().unwrap_or(0).max(from_us + 1);
        let span = Span { from_us, to_us };
        let bars = tries.iter().map(|one| {
            let row = processes.iter().position(|process| *process == one.process).unwrap_or(0);
            bar(one, span, row)
        });
        let sentence = sentence(tries, processes.len(), to_us - from_us);
        let picture = Self {
            sentence: sentence.clone(),
            height: processes.len() * ROW_HEIGHT,
            row_height: ROW_HEIGHT - 2,
            names: processes
                .iter()
                .enumerate()
                .map(|(at, name)| (at * ROW_HEIGHT + ROW_HEIGHT / 2 + 3, cut(name, LETTERS)))
                .collect(),
            bars: bars.collect(),
            ticks: if to_us - from_us < 3_000_000 { since(span) } else { span.ticks() },
        };
        let mut legend = vec![Legend { class: "good", text: "succeeded".to_owned() }];
        if tries.iter().any(|one| one.failed) {
            legend.push(Legend { class: "bad", text: "failed".to_owned() });
        }
        Some(Figure {
            id: "tries",
            title: "Tries".to_owned(),
            sentence,
            picture: picture.render().unwrap_or_default(),
            legend,
            table: Some(table(tries)),
            is_open: false,
            is_apart: false,
            walk: Some(Walk::of_marks("bars")),
        })
    }
}

/// The marks of a span that is shorter than its clock is exact: what has passed since its begin.
fn since(span: Span) -> Vec<Tick> {
    let width = span.to_us - span.from_us;
    [0, 1, 2]
        .map(|part| {
            super::scale::tick(f64::from(part) / 2.0, duration_us(width * u64::from(part as u32) / 2))
        })
        .into()
}

fn bar(one: &TryBar, span: Span, row: usize) -> Bar {
    let from = span.fraction(one.started_us);
    let width = (span.fraction(one.started_us + one.elapsed_us) - from).max(NARROWEST);
    let from = from.min(1.0 - width);
    let what = if one.failed { "failed" } else { "succeeded" };
    let again = if one.number > 1 { format!(", try {}", one.number) } else { String::new() };
    let label = (width > NARROW).then(|| (percent(from + width / 2.0), one.index.to_string()));
    Bar {
        x: percent(from),
        width: percent(width),
        y: row * ROW_HEIGHT + 1,
        class: if one.failed { "bad" } else { "good" },
        title: format!("mini-batch {}{again}: {what}, {}", one.index, duration_us(one.elapsed_us)),
        label,
    }
}

/// A name in pieces that sort as people expect: `node 10` behind `node 9`.
fn natural(name: &str) -> Vec<(u64, String)> {
    let mut pieces = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let letters = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let (text, behind) = rest.split_at(letters);
        let digits = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
        let (number, behind) = behind.split_at(digits);
        pieces.push((0, text.to_owned()));
        pieces.push((number.parse().unwrap_or(0), String::new()));
        rest = behind;
    }
    pieces
}

fn sentence(tries: &[TryBar], processes: usize, took_us: u64) -> String {
    let failed = tries.iter().filter(|one| one.failed).count() as u64;
    let failures = if failed == 0 { "none failed".to_owned() } else { format!("{} failed", count(failed)) };
    format!(
        "{} by {} within {}; {failures}.",
        counted(tries.len() as u64, "try"),
        counted(processes as u64, "process"),
        duration_us(took_us),
    )
}

fn table(tries: &[TryBar]) -> Table {
    let mut order: Vec<&TryBar> = tries.iter().collect();
    order.sort_by_key(|one| (one.started_us, one.index));
    let mut table = Table::new("Tries", &["Mini-batch", "#Try", "Process", "Began, UTC", "#Took", "Ended"]);
    for one in order {
        let ended = if one.failed { Cell::Bad("failed".to_owned()) } else { "succeeded".to_owned().into() };
        table.rows.push(vec![
            one.index.to_string().into(),
            one.number.to_string().into(),
            one.process.clone().into(),
            clock(one.started_us).into(),
            duration_us(one.elapsed_us).into(),
            ended,
        ]);
    }
    table.cut(100, "tries")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(count: u64) -> Vec<TryBar> {
        let one = |index: u64| TryBar {
            process: format!("process{:03}", index % 4),
            index,
            number: 1,
            started_us: 1_000_000 + index / 4 * 50_000,
            elapsed_us: 50_000,
            failed: index.is_multiple_of(7),
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_small_job_has_a_bar_for_each_try() {
        let figure = Tries::figure(&tries(10)).unwrap();
        assert_eq!(figure.picture.matches("<rect").count(), 10);
        assert_eq!(
            figure.sentence.replace('\u{202f}', " "),
            "10 tries by 4 processes within 150 ms; 2 failed."
        );
        assert!(Tries::figure(&tries(401)).is_none());
        assert!(Tries::figure(&[]).is_none());
        let picture = Tries::figure(&tries(400)).unwrap().picture;
        assert!(picture.len() < 80_000, "{}", picture.len());
    }

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let mut names = ["node 10", "node 9", "node 9 b", "a"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a", "node 9", "node 9 b", "node 10"]);
    }
}
