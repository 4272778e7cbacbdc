//! Where the time of slots goes: shares of it over time, stacked. Right at every scale, where bars of tries are not.

use askama::Template;

use super::figure::{Figure, Legend, Table, Walk};
use super::path::steps;
use super::scale::{Span, Tick};
use crate::text::numbers::percent;
use crate::text::times::clock;

/// Height of the picture's own coordinates.
const HEIGHT: f64 = 100.0;

/// What a slot does, from the bottom of the picture: class and words.
pub const BANDS: [(&str, &str); 6] = [
    ("share-0", "run(), on the CPU"),
    ("share-1", "run(), waiting"),
    ("share-2", "loading data"),
    ("share-3", "overhead and commit"),
    ("share-4", "init()"),
    ("share-5", "idle"),
];

/// The shares of a job.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/shares.html")]
pub struct Shares {
    sentence: String,
    columns: usize,
    /// Class and path of each band, the highest first: each lies over the one before it.
    areas: Vec<(&'static str, String)>,
    ticks: Vec<Tick>,
}

impl Shares {
    /// The figure of the time that slots spent, by band, in each step; nothing where there are fewer than ten seconds of it.
    pub fn figure(from_us: u64, step_s: u32, buckets: &[[u64; 6]]) -> Option<Figure> {
        let sums: [u64; 6] = std::array::from_fn(|band| buckets.iter().map(|bucket| bucket[band]).sum());
        let total: u64 = sums.iter().sum();
        if total == 0 || (buckets.len() as u64) * u64::from(step_s) < 10 {
            return None;
        }
        let to_us = from_us + buckets.len() as u64 * u64::from(step_s) * 1_000_000;
        let areas = (0..BANDS.len()).rev().map(|band| {
            let up_to = buckets.iter().map(|bucket| {
                let all: u64 = bucket.iter().sum();
                let below: u64 = bucket[..=band].iter().sum();
                if all == 0 { 0.0 } else { below as f64 / all as f64 * HEIGHT }
            });
            (BANDS[band].0, steps(up_to, HEIGHT))
        });
        let mut order: Vec<usize> = (0..BANDS.len()).collect();
        order.sort_by_key(|band| std::cmp::Reverse(sums[*band]));
        let told = order.iter().take(3).filter(|band| sums[**band] > 0);
        let told: Vec<_> =
            told.map(|band| format!("{} {}", percent(sums[*band], total), BANDS[*band].1)).collect();
        let sentence = format!("Of the time of all slots: {}.", told.join(", "));
        let shares = Self {
            sentence: sentence.clone(),
            columns: buckets.len(),
            areas: areas.collect(),
            ticks: Span { from_us, to_us }.ticks(),
        };
        let legend = BANDS.iter().zip(sums).rev().filter(|(_, sum)| *sum > 0);
        Some(Figure {
            id: "shares",
            title: "Where the time of slots goes".to_owned(),
            sentence,
            picture: shares.render().unwrap_or_default(),
            legend: legend
                .map(|((class, name), sum)| Legend { class, text: format!("{name} {}", percent(sum, total)) })
                .collect(),
            table: Some(table(from_us, step_s, buckets)),
            is_open: false,
            is_apart: false,
            walk: Some(walk(from_us, step_s, buckets)),
        })
    }
}

/// A row for each band, the highest first.
fn walk(from_us: u64, step_s: u32, buckets: &[[u64; 6]]) -> Walk {
    let share = |band: usize| {
        let of = |bucket: &[u64; 6]| {
            let all = u128::from(bucket.iter().sum::<u64>().max(1));
            format!("{} ", (u128::from(bucket[band]) * 100 + all / 2) / all)
        };
        buckets.iter().map(of).collect::<String>()
    };
    let row = |band: usize| (BANDS[band].1.to_owned(), "state=tries".to_owned(), share(band));
    Walk {
        kind: "time",
        from: from_us,
        step: u64::from(step_s.max(1)),
        rows: (0..BANDS.len()).rev().map(row).collect(),
        unit: "\u{202f}%",
        ..Walk::default()
    }
}

fn table(from_us: u64, step_s: u32, buckets: &[[u64; 6]]) -> Table {
    let each = buckets.len().div_ceil(60).max(1);
    let mut table = Table::new(
        "Shares of the time of slots",
        &["From, UTC", "#run(), CPU", "#run(), waiting", "#Loading", "#Overhead", "#init()", "#Idle"],
    );
    for (at, buckets) in buckets.chunks(each).enumerate() {
        let sums: [u64; 6] = std::array::from_fn(|band| buckets.iter().map(|bucket| bucket[band]).sum());
        let total = sums.iter().sum();
        let mut row = vec![clock(from_us + (at * each) as u64 * u64::from(step_s) * 1_000_000).into()];
        row.extend(sums.iter().map(|sum| percent(*sum, total).into()));
        table.rows.push(row);
    }
    table
}
