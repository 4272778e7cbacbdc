//! What a compute target wanted and had over a day: nodes at work, idle workers and those that were missing, one on the other.

use askama::Template;

use super::figure::{Figure, Legend, Table, Walk};
use super::path::steps;
use super::scale::{Span, Tick, round_up};
use crate::text::numbers::short;
use crate::text::times::clock;
use crate::text::{count, counted};

/// Height of the picture's own coordinates.
const HEIGHT: f64 = 100.0;
/// Rows of the table at most: steps are put together, so that a row of a day is an hour.
const MOST_ROWS: usize = 24;

/// What a target wanted and had at the beginning of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WantedStep {
    /// Nodes that its jobs could use.
    pub wanted: u64,
    /// Nodes that served its jobs.
    pub live: u64,
    /// Workers without a job.
    pub idle: u64,
    /// Mini-batches that waited.
    pub waiting: u64,
}

impl WantedStep {
    fn missing(&self) -> u64 {
        self.wanted.saturating_sub(self.live + self.idle)
    }

    /// Up to where each band goes: at work, idle, missing.
    fn bands(&self) -> [u64; 3] {
        let with_idle = self.live + self.idle;
        [self.live, with_idle, with_idle + self.missing()]
    }
}

/// A target over a day.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/wanted.html")]
pub struct Wanted {
    sentence: String,
    columns: usize,
    /// Class and path of each band, the highest first: each lies over the one before it.
    areas: Vec<(&'static str, String)>,
    top: String,
    half: String,
    ticks: Vec<Tick>,
}

/// What the bands are, from the bottom.
const BANDS: [(&str, &str); 3] =
    [("active", "nodes at work"), ("good", "idle workers"), ("waiting", "workers that were missing")];

impl Wanted {
    /// The figure of these steps, each `step_s` seconds long, from `from_us` on; nothing known of a step is `None`. `id` is what the
    /// figure is called. Nothing where no step is known.
    pub fn figure(
        id: &'static str,
        target: &str,
        from_us: u64,
        step_s: u32,
        known: &[Option<WantedStep>],
    ) -> Option<Figure> {
        if known.iter().all(Option::is_none) {
            return None;
        }
        let of = |step: &Option<WantedStep>| step.unwrap_or_default();
        let highest = known.iter().map(|step| of(step).bands()[2]).max().unwrap_or(0);
        let top = round_up(highest as f64);
        let areas = (0..BANDS.len()).rev().map(|band| {
            let heights = known.iter().map(|step| of(step).bands()[band] as f64 / top * HEIGHT);
            (BANDS[band].0, steps(heights, HEIGHT))
        });
        let to_us = from_us + known.len() as u64 * u64::from(step_s) * 1_000_000;
        let sentence = sentence(target, from_us, step_s, known);
        let wanted = Self {
            columns: known.len(),
            areas: areas.collect(),
            top: short(top),
            half: short(top / 2.0),
            ticks: Span { from_us, to_us }.ticks(),
            sentence: sentence.clone(),
        };
        let legend = BANDS.map(|(class, text)| Legend { class, text: text.to_owned() });
        Some(Figure {
            id,
            title: format!("{target}, last 24 hours"),
            sentence,
            picture: wanted.render().unwrap_or_default(),
            legend: legend.to_vec(),
            table: Some(table(target, from_us, step_s, known)),
            is_open: false,
            is_apart: false,
            walk: Some(walk(from_us, step_s, known)),
        })
    }
}

/// What was wanted and had in each step, number by number.
fn walk(from_us: u64, step_s: u32, known: &[Option<WantedStep>]) -> Walk {
    let row = |name: &str, of: fn(&WantedStep) -> u64| {
        let number = |step: &Option<WantedStep>| {
            step.as_ref().map_or("? ".to_owned(), |step| format!("{} ", of(step)))
        };
        (name.to_owned(), String::new(), known.iter().map(number).collect())
    };
    Walk {
        kind: "time",
        from: from_us,
        step: u64::from(step_s.max(1)),
        rows: vec![
            row(BANDS[2].1, WantedStep::missing),
            row(BANDS[1].1, |step| step.idle),
            row(BANDS[0].1, |step| step.live),
        ],
        ..Walk::default()
    }
}

/// What happened over the day.
fn sentence(target: &str, from_us: u64, step_s: u32, known: &[Option<WantedStep>]) -> String {
    let each = || known.iter().enumerate().filter_map(|(at, step)| Some((at, (*step)?)));
    let (_, now) = each().next_back().unwrap_or_default();
    let now = format!(
        "{target} wants {}; {} at work, {} idle",
        counted(now.wanted, "node"),
        count(now.live),
        count(now.idle)
    );
    // The last of those that missed as many.
    match each().max_by_key(|(_, step)| step.missing()).filter(|(_, step)| step.missing() > 0) {
        None => format!("{now}. No worker was missing over the last day."),
        Some((at, most)) => {
            let when = clock(from_us + at as u64 * u64::from(step_s) * 1_000_000);
            format!(
                "{now}. At {} UTC {} were missing, the most of the last day.",
                &when[..5],
                counted(most.missing(), "worker")
            )
        }
    }
}

fn table(target: &str, from_us: u64, step_s: u32, known: &[Option<WantedStep>]) -> Table {
    let each = known.len().div_ceil(MOST_ROWS).max(1);
    let mut table = Table::new(
        format!("{target} over the last day; the most of each time"),
        &["From, UTC", "#Wanted nodes", "#At work", "#Idle workers", "#Missing", "#Waiting mini-batches"],
    );
    for (at, part) in known.chunks(each).enumerate() {
        let part: Vec<WantedStep> = part.iter().flatten().copied().collect();
        let most =
            |of: fn(&WantedStep) -> u64| part.iter().map(of).max().map_or("\u{2013}".to_owned(), count);
        let from = clock(from_us + (at * each) as u64 * u64::from(step_s) * 1_000_000);
        table.rows.push(vec![
            from[..5].to_owned().into(),
            most(|step| step.wanted).into(),
            most(|step| step.live).into(),
            most(|step| step.idle).into(),
            most(WantedStep::missing).into(),
            most(|step| step.waiting).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_a_target_says_when_most_workers_were_missing() {
        let step = |wanted, live, idle| Some(WantedStep { wanted, live, idle, waiting: 7 });
        let mut known = vec![None; 288];
        (known[100], known[101], known[102]) = (step(9, 1, 0), step(4, 4, 0), step(2, 2, 3));
        let figure = Wanted::figure("w", "gpu", 0, 300, &known).unwrap();
        assert_eq!(
            figure.sentence,
            "gpu wants 2 nodes; 2 at work, 3 idle. At 08:20 UTC 8 workers were missing, the most of the last day."
        );
        assert!(figure.picture.len() < 2_000, "{}", figure.picture.len());
        assert_eq!(figure.table.unwrap().rows.len(), 24);
        known[100] = None;
        let quiet = Wanted::figure("w", "gpu", 0, 300, &known).unwrap();
        assert!(quiet.sentence.ends_with("No worker was missing over the last day."), "{}", quiet.sentence);
        assert!(Wanted::figure("w", "gpu", 0, 300, &[None; 288]).is_none());
    }

    #[test]
    fn a_full_day_stays_small() {
        let step =
            |at: u64| Some(WantedStep { wanted: at * 7 % 13, live: at % 5, idle: at % 3, waiting: at });
        let known: Vec<_> = (0..288).map(step).collect();
        let figure = Wanted::figure("w", "gpu", 0, 300, &known).unwrap();
        assert!(figure.picture.len() < 16_000, "{}", figure.picture.len());
    }
}
