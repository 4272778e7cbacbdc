//! The rate: items a second over time, with the failed tries as marks on the base line.

use askama::Template;

use super::path::steps;
use super::scale::{Span, Tick, percent, round_up};
use super::{Figure, Table, Walk};
use crate::text::numbers::short;
use crate::text::times::clock;
use crate::text::{count, counted, per_second};

/// Height of the picture's own coordinates.
const HEIGHT: f64 = 100.0;

/// What happened in one step of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateBucket {
    /// Items that got their outcome.
    pub items: u64,
    /// Mini-batches that did.
    pub mini_batches: u64,
    /// Tries that failed.
    pub failed_tries: u64,
}

/// The rate of a job.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/rate.html")]
pub struct Rate {
    sentence: String,
    columns: usize,
    area: String,
    failures: Vec<String>,
    top: String,
    half: String,
    ticks: Vec<Tick>,
    strip: Option<Strip>,
}

/// The last minutes of it, finer.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/strip.html")]
struct Strip {
    says: String,
    columns: usize,
    area: String,
    ticks: Vec<Tick>,
}

impl Strip {
    /// Of the items of steps of so many seconds.
    fn new((from_us, step_s, items): (u64, u32, &[u64])) -> Self {
        let seconds = f64::from(step_s.max(1));
        let rates: Vec<f64> = items.iter().map(|items| *items as f64 / seconds).collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let top = round_up(most);
        let to_us = from_us + (seconds * 1e6) as u64 * items.len() as u64;
        let long = crate::text::duration(seconds * items.len() as f64);
        Self {
            says: format!(
                "The last {long}: at most {} items a second.",
                per_second(most).trim_end_matches("/s")
            ),
            columns: rates.len(),
            area: steps(rates.iter().map(|rate| rate / top * HEIGHT), HEIGHT),
            ticks: Span { from_us, to_us }.ticks(),
        }
    }
}

impl Rate {
    /// The figure of these buckets, each `step_s` seconds long; nothing where there are fewer than three: they would be
    /// two blocks.
    /// Behind it stands a strip of the last minutes, where their beginning, the seconds of their steps and the items of each are given.
    pub fn figure(
        from_us: u64,
        step_s: u32,
        buckets: &[RateBucket],
        lately: Option<(u64, u32, &[u64])>,
    ) -> Option<Figure> {
        if buckets.len() < 3 {
            return None;
        }
        let seconds = f64::from(step_s.max(1));
        let rates: Vec<f64> = buckets.iter().map(|bucket| bucket.items as f64 / seconds).collect();
        let top = round_up(rates.iter().copied().fold(0.0, f64::max));
        let to_us = from_us + buckets.len() as u64 * u64::from(step_s.max(1)) * 1_000_000;
        let sentence = sentence(from_us, step_s, &rates, buckets);
        let failures = buckets.iter().enumerate().filter(|(_, bucket)| bucket.failed_tries > 0);
        let rate = Self {
            columns: buckets.len(),
            area: steps(rates.iter().map(|rate| rate / top * HEIGHT), HEIGHT),
            failures: failures.map(|(at, _)| percent((at as f64 + 0.5) / buckets.len() as f64)).collect(),
            top: short(top),
            half: short(top / 2.0),
            ticks: Span { from_us, to_us }.ticks(),
            sentence: sentence.clone(),
            strip: lately.map(Strip::new),
        };
        let mut legend = vec![super::figure::Legend { class: "active", text: "items a second".to_owned() }];
        if !rate.failures.is_empty() {
            legend.push(super::figure::Legend { class: "cross", text: "failed tries".to_owned() });
        }
        Some(Figure {
            id: "rate",
            title: "Rate, items a second".to_owned(),
            sentence,
            picture: rate.render().unwrap_or_default(),
            legend,
            table: Some(table(from_us, step_s, buckets)),
            is_open: false,
            is_apart: false,
            walk: Some(Walk {
                kind: "time",
                from: from_us,
                step: u64::from(step_s.max(1)),
                rows: vec![(String::new(), "state=tries".to_owned(), numbers(&rates))],
                unit: " items a second",
                ..Walk::default()
            }),
        })
    }
}

/// Numbers with a blank behind each, as short as they are right to three digits.
fn numbers(rates: &[f64]) -> String {
    let number = |rate: &f64| match rate {
        0.0 => "0 ".to_owned(),
        ..1.0 => format!("{rate:.3} "),
        ..100.0 => format!("{rate:.1} "),
        _ => format!("{rate:.0} "),
    };
    rates.iter().map(number).collect()
}

/// What the rate did.
fn sentence(from_us: u64, step_s: u32, rates: &[f64], buckets: &[RateBucket]) -> String {
    // The last bucket is not whole.
    let whole = &rates[..rates.len() - 1];
    let most = whole.iter().copied().fold(0.0, f64::max);
    let at = whole.iter().position(|rate| *rate >= most).unwrap_or(0);
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let when = clock(from_us + at as u64 * u64::from(step_s) * 1_000_000);
    let failed: u64 = buckets.iter().map(|bucket| bucket.failed_tries).sum();
    let failures = match failed {
        0 => "no try failed".to_owned(),
        failed => format!("{} failed", counted(failed, "try")),
    };
    format!(
        "{} items a second on average, {} at most, at {when} UTC; {failures}.",
        per_second(mean).trim_end_matches("/s"),
        per_second(most).trim_end_matches("/s"),
    )
}

fn table(from_us: u64, step_s: u32, buckets: &[RateBucket]) -> Table {
    // No more rows than people read: buckets are put together.
    let each = buckets.len().div_ceil(60).max(1);
    let seconds = f64::from(step_s.max(1));
    let mut table = Table::new(
        format!("Rate, in steps of {}", crate::text::duration(seconds * each as f64)),
        &["From, UTC", "#Items", "#Items a second", "#Mini-batches", "#Failed tries"],
    );
    for (at, buckets) in buckets.chunks(each).enumerate() {
        let sum = |of: fn(&RateBucket) -> u64| buckets.iter().map(of).sum::<u64>();
        let items = sum(|bucket| bucket.items);
        table.rows.push(vec![
            clock(from_us + (at * each) as u64 * u64::from(step_s) * 1_000_000).into(),
            count(items).into(),
            short(items as f64 / (buckets.len() as f64 * seconds)).into(),
            count(sum(|bucket| bucket.mini_batches)).into(),
            match sum(|bucket| bucket.failed_tries) {
                0 => "0".to_owned().into(),
                failed => super::Cell::Bad(count(failed)),
            },
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minutes_stand_behind_it() {
        let buckets = [RateBucket { items: 10, ..RateBucket::default() }; 3];
        let lately = vec![50; 60];
        let picture = Rate::figure(0, 3_600, &buckets, Some((7_200_000_000, 5, &lately))).unwrap().picture;
        let says = format!("The last {}: at most 10 items a second.", crate::text::duration(300.0));
        assert!(picture.contains(&says), "{picture}");
        assert_eq!(picture.matches("<svg class=\"picture\"").count(), 2);
        assert!(!Rate::figure(0, 3_600, &buckets, None).unwrap().picture.contains("The last"));
    }
}
