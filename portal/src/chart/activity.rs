//! The activity of nodes over time: how busy each was, and where tries failed. Cells, one path for each of five levels.

use std::fmt::Write;

use askama::Template;

use super::figure::{Cell, Figure, Legend, Table, Walk};
use super::path::lines;
use super::scale::{Span, Tick};
use crate::text::numbers::percent;
use crate::text::{count, cut};

/// Levels of busy.
const LEVELS: usize = 5;
/// Height of a lane where there are few, and where there are many, pixels.
const HEIGHTS: (usize, usize) = (16, 9);
/// Lanes that are few.
const FEW: usize = 24;
/// Letters of a name that are shown beside a lane.
const LETTERS: usize = 16;

/// A row of the picture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lane {
    /// What it is: a process, a node, or a group of nodes.
    pub name: String,
    /// How busy it was in each column: 0 to 250 for nothing to all of its slots; nothing before it came and after it left.
    pub busy: Vec<Option<u8>>,
    /// Whether tries failed in each column, or a node was lost.
    pub failed: Vec<bool>,
    /// Tries that failed in all.
    pub failed_tries: u64,
    /// What an address filters mini-batches by to have those of the row: `node=17`; empty where no filter does.
    pub query: String,
}

/// The activity of a job.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/activity.html")]
pub struct Activity {
    sentence: String,
    columns: usize,
    height: usize,
    /// Height of a lane, without what is between it and the next.
    lane: usize,
    /// Class and path of each level.
    levels: Vec<(String, String)>,
    crosses: String,
    /// Names and where they stand, pixels.
    names: Vec<(usize, String)>,
    ticks: Vec<Tick>,
}

/// The level of a cell.
fn level(busy: u8) -> usize {
    match busy {
        0 => 0,
        busy => (usize::from(busy) * (LEVELS - 1)).div_ceil(250).min(LEVELS - 1),
    }
}

/// The level that most cells of a lane have; the lowest of several.
fn commonest(lane: &Lane) -> usize {
    let mut cells = [0_usize; LEVELS];
    for busy in lane.busy.iter().flatten() {
        cells[level(*busy)] += 1;
    }
    (0..LEVELS).rev().max_by_key(|at| cells[*at]).unwrap_or_default()
}

impl Activity {
    /// The figure of these lanes; nothing where there are none, or only a column or two.
    pub fn figure(span: Span, lanes: &[Lane]) -> Option<Figure> {
        let columns = lanes.iter().map(|lane| lane.busy.len()).max().filter(|columns| *columns > 2)?;
        let height = if lanes.len() <= FEW { HEIGHTS.0 } else { HEIGHTS.1 };
        // Names are 12 pixels high.
        let named_each = if lanes.len() <= FEW { 1 } else { 2 };
        // Each lane is drawn in its commonest level, and what differs from that on top: fewer cells than all there are.
        let mut grounds = vec![String::new(); LEVELS];
        let mut paths = vec![String::new(); LEVELS];
        let (mut crosses, mut names) = (String::new(), Vec::new());
        for (at, lane) in lanes.iter().enumerate() {
            let y = at * height;
            let middle = y as f64 + (height - 1) as f64 / 2.0;
            let ground = commonest(lane);
            lines(&mut grounds[ground], lane.busy.len(), |column| lane.busy[column].is_some(), middle);
            for (level_at, path) in paths.iter_mut().enumerate().filter(|(level_at, _)| *level_at != ground) {
                let is_in = |column: usize| lane.busy[column].is_some_and(|busy| level(busy) == level_at);
                lines(path, lane.busy.len(), is_in, middle);
            }
            for (column, _) in lane.failed.iter().enumerate().filter(|(_, failed)| **failed) {
                let (top, size) = (y + height / 2 - 3, 5);
                // A cell is as wide as it is: the cross has its width, and is as high as a letter.
                let _ = write!(crosses, "M{column}.2 {top}l.6 {size}m-.6 0l.6-{size}");
            }
            if at % named_each == 0 {
                names.push((y + height / 2 + 4, cut(&lane.name, LETTERS)));
            }
        }
        let failed = lanes.iter().filter(|lane| lane.failed_tries > 0).count();
        let sentence = sentence(lanes, failed);
        let levels = grounds.into_iter().enumerate().chain(paths.into_iter().enumerate());
        let levels = levels.filter(|(_, path)| !path.is_empty());
        let activity = Self {
            sentence: sentence.clone(),
            columns,
            height: lanes.len() * height,
            lane: height - 1,
            levels: levels.map(|(level, path)| (format!("busy-{level}"), path)).collect(),
            crosses,
            names,
            ticks: span.ticks(),
        };
        let mut legend = vec![
            Legend { class: "busy-0", text: "idle".to_owned() },
            Legend { class: "busy-2", text: "half busy".to_owned() },
            Legend { class: "busy-4", text: "busy".to_owned() },
        ];
        if failed > 0 {
            legend.push(Legend { class: "cross", text: "tries failed".to_owned() });
        }
        Some(Figure {
            id: "activity",
            title: "Activity".to_owned(),
            sentence,
            picture: activity.render().unwrap_or_default(),
            legend,
            table: Some(table(lanes)),
            is_open: false,
            is_apart: false,
            walk: Some(walk(span, columns, lanes)),
        })
    }
}

/// How busy each cell is, in tenths: small letters and digits, and large letters where tries failed as well.
fn walk(span: Span, columns: usize, lanes: &[Lane]) -> Walk {
    const LETTERS: [char; 22] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I',
        'J', 'K',
    ];
    let tenths = LETTERS.len() / 2;
    let mut words = vec![".not there".to_owned()];
    words.extend(LETTERS.iter().enumerate().map(|(at, letter)| {
        let failed = if at < tenths { "" } else { ", tries failed" };
        format!("{letter}{}\u{202f}% busy{failed}", at % tenths * 10)
    }));
    let row = |lane: &Lane| {
        let cell = |column: usize| {
            let Some(busy) = lane.busy.get(column).copied().flatten() else { return '.' };
            let failed = lane.failed.get(column).copied().unwrap_or_default();
            LETTERS[(usize::from(busy.min(250)) * 10 + 125) / 250 + if failed { tenths } else { 0 }]
        };
        let query = if lane.query.is_empty() { String::new() } else { format!("&{}", lane.query) };
        (lane.name.clone(), format!("state=tries{query}"), (0..columns).map(cell).collect())
    };
    Walk {
        kind: "time",
        from: span.from_us,
        step: ((span.to_us - span.from_us) / 1_000_000 / columns.max(1) as u64).max(1),
        rows: lanes.iter().map(row).collect(),
        words: words.join(";"),
        ..Walk::default()
    }
}

/// How busy a lane was over the time that it was there, 0 to 1.
fn mean(lane: &Lane) -> Option<f64> {
    let known: Vec<f64> = lane.busy.iter().flatten().map(|busy| f64::from(*busy) / 250.0).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

fn sentence(lanes: &[Lane], failed: usize) -> String {
    let means: Vec<f64> = lanes.iter().filter_map(mean).collect();
    let all = if means.is_empty() { 0.0 } else { means.iter().sum::<f64>() / means.len() as f64 };
    let busy = percent((all * 1_000.0).round() as u64, 1_000);
    let failures = match failed {
        0 => "no try failed".to_owned(),
        failed => format!("tries failed in {} of {} rows", count(failed as u64), count(lanes.len() as u64)),
    };
    format!("The slots were busy {busy} of the time; {failures}.")
}

fn table(lanes: &[Lane]) -> Table {
    let mut table = Table::new("Activity of each row", &["Row", "#Busy", "#Failed tries"]);
    table.rows = lanes
        .iter()
        .map(|lane| {
            let busy = mean(lane).map(|mean| percent((mean * 1_000.0).round() as u64, 1_000));
            let failed = count(lane.failed_tries);
            let failed = if lane.failed_tries > 0 { Cell::Bad(failed) } else { failed.into() };
            vec![lane.name.clone().into(), busy.unwrap_or_else(|| "\u{2013}".to_owned()).into(), failed]
        })
        .collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nothing_is_idle() {
        for (busy, expected) in
            [(0, 0), (1, 1), (62, 1), (63, 2), (125, 2), (188, 4), (187, 3), (250, 4), (255, 4)]
        {
            assert_eq!(level(busy), expected, "{busy}");
        }
    }

    #[test]
    fn a_lane_is_drawn_in_its_commonest_level_and_what_differs_on_top() {
        let lane = |busy: &[Option<u8>]| Lane { busy: busy.to_vec(), ..Lane::default() };
        assert_eq!(commonest(&lane(&[Some(250), Some(250), Some(0), None])), 4);
        assert_eq!(commonest(&lane(&[Some(250), Some(0)])), 0, "the lowest of several");
        assert_eq!(commonest(&lane(&[None])), 0);
        let span = Span { from_us: 0, to_us: 4_000_000 };
        let lanes = [lane(&[Some(250), Some(250), Some(0), None])];
        let picture = Activity::figure(span, &lanes).unwrap().picture;
        let (ground, on_top) = (picture.find("d=\"M0 7.5h3").unwrap(), picture.find("d=\"M2 7.5h1").unwrap());
        assert!(ground < on_top, "{picture}");
    }

    #[test]
    fn the_largest_picture_is_small_enough() {
        let lane = |number: usize| Lane {
            name: format!("{}-{}", number * 8, number * 8 + 7),
            busy: (0..96).map(|column| Some(((column * 37 + number * 11) % 251) as u8)).collect(),
            failed: (0..96).map(|column| (column + number).is_multiple_of(7)).collect(),
            failed_tries: 3,
            query: "node=1".to_owned(),
        };
        let lanes: Vec<Lane> = (0..80).map(lane).collect();
        let figure = Activity::figure(Span { from_us: 0, to_us: 3_600_000_000 }, &lanes).unwrap();
        // The worst there is: each cell differs from its neighbours.
        assert!(figure.picture.len() < 60_000, "{}", figure.picture.len());
        let calm =
            |number: usize| Lane { busy: vec![Some(240); 96], failed: vec![false; 96], ..lane(number) };
        let lanes: Vec<Lane> = (0..80).map(calm).collect();
        let figure = Activity::figure(Span { from_us: 0, to_us: 3_600_000_000 }, &lanes).unwrap();
        assert!(figure.picture.len() < 7_000, "{}", figure.picture.len());
    }
}
