//! The plan in one row, in the order of the input: what of it failed, ran again, runs, is done, waits.

use askama::Template;

use super::figure::{Figure, Legend, Table, Walk};
use super::path::row;
use super::scale::{Tick, percent, tick};
use crate::text::{count, counted};

/// Cells that have their numbers in them, at most.
const NUMBERED: usize = 20;
/// Height of the picture's own coordinates.
const HEIGHT: usize = 24;

/// The state of a cell: the worst of its mini-batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanState {
    /// None has begun.
    Waiting,
    /// All have their outcome.
    Done,
    /// Some have, some have not.
    Running,
    /// All have their outcome, some after a failed try.
    Retried,
    /// Some failed for good.
    Failed,
}

impl PlanState {
    const ALL: [Self; 5] = [Self::Waiting, Self::Done, Self::Running, Self::Retried, Self::Failed];

    fn class(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Done => "good",
            Self::Running => "active",
            Self::Retried => "warn",
            Self::Failed => "bad",
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Waiting => 'w',
            Self::Done => 's',
            Self::Running => 'p',
            Self::Retried => 'r',
            Self::Failed => 'f',
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Waiting => "without an outcome",
            Self::Done => "succeeded",
            Self::Running => "partly done",
            Self::Retried => "succeeded after a failed try",
            Self::Failed => "failed",
        }
    }
}

/// The plan of a job.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/plan_map.html")]
pub struct PlanMap {
    sentence: String,
    columns: usize,
    paths: Vec<(&'static str, String)>,
    numbers: Vec<Tick>,
    ticks: Vec<Tick>,
}

impl PlanMap {
    /// The figure of cells that have `width` mini-batches each, of `scheduled` in all, with those that failed in each, and a list of `most`
    /// ranges with failures; nothing where there is no cell.
    pub fn figure(cells: &[(PlanState, u64)], width: u64, scheduled: u64, most: usize) -> Option<Figure> {
        if cells.is_empty() {
            return None;
        }
        let mut paths = Vec::new();
        for state in PlanState::ALL {
            let mut path = String::new();
            row(&mut path, cells.len(), |at| cells[at].0 == state, 0, HEIGHT);
            if !path.is_empty() {
                paths.push((state.class(), path));
            }
        }
        let number = |at: usize| {
            let middle = (at as f64 + 0.5) / cells.len() as f64;
            Tick { at: percent(middle), label: at.to_string(), anchor: "middle", moment: None }
        };
        let has_numbers = width == 1 && cells.len() <= NUMBERED;
        let numbers = if has_numbers { (0..cells.len()).map(number).collect() } else { Vec::new() };
        let end = (cells.len() as u64 * width).max(1);
        let ticks = if has_numbers {
            Vec::new()
        } else {
            [0.0, 0.5, 1.0]
                .iter()
                .map(|part| tick(*part, count((part * end.min(scheduled.max(1)) as f64) as u64)))
                .collect()
        };
        let failed: u64 = cells.iter().map(|cell| cell.1).sum();
        let sentence = sentence(scheduled, width, failed, cells);
        let picture = Self { sentence: sentence.clone(), columns: cells.len(), paths, numbers, ticks };
        let present = |state: &PlanState| cells.iter().any(|cell| cell.0 == *state);
        Some(Figure {
            id: "plan",
            title: format!("Plan, {} in input order", counted(scheduled, "mini-batch")),
            sentence,
            picture: picture.render().unwrap_or_default(),
            legend: PlanState::ALL
                .into_iter()
                .rev()
                .filter(present)
                .map(|state| Legend { class: state.class(), text: state.word().to_owned() })
                .collect(),
            table: (failed > 0).then(|| table(cells, width, scheduled).cut(most, "ranges")),
            is_open: failed > 0,
            is_apart: false,
            walk: Some(Walk {
                kind: "index",
                step: width,
                rows: vec![(
                    "Mini-batches".to_owned(),
                    "state=all".to_owned(),
                    cells.iter().map(|cell| cell.0.letter()).collect(),
                )],
                words: PlanState::ALL.map(|state| format!("{}{}", state.letter(), state.word())).join(";"),
                ..Walk::default()
            }),
        })
    }
}

fn sentence(scheduled: u64, width: u64, failed: u64, cells: &[(PlanState, u64)]) -> String {
    let size =
        if width == 1 { String::new() } else { format!(" Each cell is {}.", counted(width, "mini-batch")) };
    let waits = cells.iter().filter(|cell| matches!(cell.0, PlanState::Waiting | PlanState::Running)).count();
    let text = match (failed, waits) {
        (0, 0) => format!("All {} have their outcome.", counted(scheduled, "mini-batch")),
        (0, _) => "None failed so far.".to_owned(),
        (failed, _) => {
            let found = cells.iter().filter(|cell| cell.1 > 0).count();
            format!("{} failed, in {} of {} cells.", counted(failed, "mini-batch"), found, cells.len())
        }
    };
    text + &size
}

fn table(cells: &[(PlanState, u64)], width: u64, scheduled: u64) -> Table {
    let mut table = Table::new("Where mini-batches failed", &["Mini-batches", "#Failed"]);
    for (at, (_, failed)) in cells.iter().enumerate().filter(|(_, cell)| cell.1 > 0) {
        let first = at as u64 * width;
        let last = (first + width).min(scheduled.max(first + 1)) - 1;
        let range =
            if first == last { first.to_string() } else { format!("{} to {}", count(first), count(last)) };
        table.rows.push(vec![range.into(), super::Cell::Bad(count(*failed))]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_plan_has_numbers_and_a_large_one_few_marks() {
        let cells = [(PlanState::Done, 0), (PlanState::Failed, 1), (PlanState::Retried, 0)];
        let figure = PlanMap::figure(&cells, 1, 3, 50).unwrap();
        assert_eq!(figure.sentence, "1 mini-batch failed, in 1 of 3 cells.");
        assert_eq!(figure.picture.matches("<text").count(), 3);
        assert_eq!(figure.table.unwrap().rows.len(), 1);
        let cells: Vec<_> = (0..1_024_u64)
            .map(|at| if at.is_multiple_of(2) { (PlanState::Failed, 1) } else { (PlanState::Done, 0) })
            .collect();
        let figure = PlanMap::figure(&cells, 1_024, 1_000_000, 50).unwrap();
        assert!(figure.picture.len() < 24_000, "{}", figure.picture.len());
        let table = figure.table.unwrap();
        assert_eq!(
            (table.rows.len(), table.rest.replace('\u{202f}', " ")),
            (50, "50 of 512 ranges.".to_owned())
        );
        assert!(PlanMap::figure(&[], 1, 0, 50).is_none());
    }
}
