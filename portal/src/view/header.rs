//! The head of a page: what the job is called, how it stands, and the counts that answer whether it is all right.

use prs_common::ledger::JobState;

use super::Facts;
use crate::chart::Progress;
use crate::text::times::{duration, utc};
use crate::text::{bytes, count, counted, per_second, percent};

/// A state: never told by a colour alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chip {
    /// The family that it looks like: `neutral`, `active`, `good`, `warn` or `bad`.
    pub family: &'static str,
    /// The word.
    pub word: &'static str,
}

impl Chip {
    /// The chip of a job.
    pub(crate) fn of(state: JobState, complete: bool) -> Self {
        let (family, word) = match state {
            JobState::Queued => ("neutral", "queued"),
            JobState::Scheduling => ("active", "scheduling"),
            JobState::Running => ("active", "running"),
            JobState::Finalizing => ("active", "finalizing"),
            JobState::Completed if complete => ("good", "completed"),
            JobState::Completed => ("warn", "completed, items missing"),
            JobState::Failed => ("bad", "failed"),
            JobState::Canceled => ("neutral", "canceled"),
        };
        Self { family, word }
    }

    /// The name of its shape among those of the page.
    pub(crate) fn shape(&self) -> &'static str {
        match (self.family, self.word) {
            ("neutral", "canceled") => "canceled",
            (family, _) => family,
        }
    }
}

/// The head of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The name that people gave it.
    pub title: String,
    /// Its name in the job file, where that is another one.
    pub name: String,
    /// Its state.
    pub chip: Chip,
    /// What it does at the moment; empty where that is its state.
    pub phase: String,
    /// The answers, from the left.
    pub figures: Vec<(&'static str, String)>,
    /// The bar.
    pub bar: Progress,
    /// The numbers of the bar.
    pub counts: String,
    /// `2026-11-21 12:00:05 UTC`, and the same for programs.
    pub submitted: (String, String),
    /// When it ended; empty where it has not.
    pub ended: (String, String),
}

impl Header {
    /// The head of the page of a job.
    pub fn new(facts: &Facts) -> Self {
        let (scheduled, succeeded, failed) = facts.mini_batches;
        let live = facts.statistics.live.as_ref().filter(|_| !facts.state.is_final());
        let in_flight = live.map_or(0, |live| live.in_flight);
        let waiting = scheduled.saturating_sub(succeeded + failed + in_flight);
        let mut counts = vec![format!("{} of {}", count(succeeded), counted(scheduled, "mini-batch"))];
        if failed > 0 {
            counts.push(format!("{} failed", count(failed)));
        }
        if in_flight > 0 {
            counts.push(format!("{} in flight", count(in_flight)));
        }
        let retried = facts.statistics.live.as_ref().map_or(0, |live| live.retried);
        if retried > 0 {
            counts.push(format!("{} retried", count(retried)));
        }
        if facts.failed_tries > 0 {
            counts.push(format!("{} failed", counted(facts.failed_tries, "try")));
        }
        let counts = counts.join(" \u{b7} ");
        Self {
            title: facts.spec.display_name.clone().unwrap_or_else(|| facts.spec.name.clone()),
            name: facts.spec.display_name.as_ref().map(|_| facts.spec.name.clone()).unwrap_or_default(),
            chip: Chip::of(facts.state, facts.complete),
            phase: live.map(|live| live.phase.replace('_', " ")).unwrap_or_default(),
            figures: figures(facts),
            bar: Progress::new(succeeded, failed, in_flight, waiting, counts.clone()),
            counts,
            submitted: utc(facts.submitted_us),
            ended: facts.ended_us.map(utc).unwrap_or_default(),
        }
    }
}

fn figures(facts: &Facts) -> Vec<(&'static str, String)> {
    let ((scheduled, succeeded, failed), (items, items_succeeded, missing)) =
        (facts.mini_batches, facts.items);
    let ended = facts.state.is_final();
    let mut figures = Vec::new();
    if !ended {
        figures.push(("done", percent(succeeded + failed, scheduled)));
    }
    if items > 0 {
        figures.push((
            "items",
            if missing == 0 {
                count(items)
            } else {
                format!("{} of {}", count(items_succeeded), count(items))
            },
        ));
    }
    if facts.output.is_file && ended {
        let size = format!("{}, {}", counted(facts.output.rows, "row"), bytes(facts.output.bytes));
        figures.push(("result", size));
    }
    figures.push(("time", duration(facts.seconds)));
    let live = facts.statistics.live.as_ref();
    if let Some(live) = live.filter(|_| !ended) {
        let rate = live.rates.first().map_or(0.0, |rate| rate.items_per_second);
        figures.push(("items a second", per_second(rate)));
        figures.extend(live.eta().map(|eta| ("left", duration(eta))));
    } else if items > 0 && facts.seconds > 0.0 && facts.reused.is_none() {
        figures.push(("on average", per_second(items as f64 / facts.seconds).replace("/s", " items/s")));
    }
    let nodes =
        facts.statistics.nodes.as_ref().map_or(0, |nodes| nodes.rows.iter().map(|row| row.of.max(1)).sum());
    if nodes > 0 {
        figures.push(("nodes", count(nodes)));
    }
    figures
}
