//! How long tries take: a histogram of classes that grow by a factor, and the quantiles.

use askama::Template;

use super::figure::{Figure, Table, Walk};
use super::scale::{Tick, percent, tick};
use crate::text::count;
use crate::text::times::duration;

/// Bars of the histogram at most.
const MOST_BARS: usize = 48;
/// Height of the picture, pixels.
const HEIGHT: f64 = 120.0;

/// What parts of the tries took at most, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quantiles {
    /// Smallest, quarter, half, three quarters, 95 and 99 of a hundred, and largest.
    pub values: [f64; 7],
}

/// The durations of a job.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/durations.html")]
pub struct Durations {
    sentence: String,
    bars: Vec<Bar>,
    ticks: Vec<Tick>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bar {
    x: String,
    width: String,
    y: String,
    height: String,
    title: String,
}

impl Durations {
    /// The figure of classes: where each begins, seconds, and how many tries are in it; the last only ends them. Beside it
    /// the quantiles of what is timed, by name. Nothing where no try is known.
    pub fn figure(edges: &[f64], counts: &[u64], quantiles: &[(&'static str, Quantiles)]) -> Option<Figure> {
        let first = counts.iter().position(|count| *count > 0)?;
        let last = counts.iter().rposition(|count| *count > 0)?;
        let classes = last - first + 1;
        let each = classes.div_ceil(MOST_BARS).max(1);
        let groups: Vec<(f64, f64, u64)> = (first..=last)
            .step_by(each)
            .map(|at| {
                let end = (at + each).min(last + 1);
                (edge(edges, at), edge(edges, end), counts[at..end].iter().sum())
            })
            .collect();
        let most = groups.iter().map(|group| group.2).max().unwrap_or(1).max(1);
        // A single bar would be a block.
        let places = groups.len().max(8) as f64;
        let bars =
            groups.iter().enumerate().filter(|(_, group)| group.2 > 0).map(|(at, (from, to, tries))| {
                let height = (*tries as f64 / most as f64 * (HEIGHT - 16.0)).max(2.0);
                Bar {
                    x: percent(at as f64 / places),
                    width: percent(0.92 / places),
                    y: format!("{:.0}", HEIGHT - height),
                    height: format!("{height:.0}"),
                    title: format!("{} to {}: {} tries", duration(*from), duration(*to), count(*tries)),
                }
            });
        let marks = [0, groups.len() / 3, groups.len() * 2 / 3, groups.len()];
        let mut ticks: Vec<Tick> = marks
            .iter()
            .map(|at| {
                let value = groups.get(*at).map_or_else(|| edge(edges, last + 1), |group| group.0);
                tick(*at as f64 / places, duration(value))
            })
            .collect();
        ticks.dedup_by(|one, other| one.at == other.at || one.label == other.label);
        let total: u64 = counts.iter().sum();
        let sentence = sentence(total, quantiles);
        let picture = Self { sentence: sentence.clone(), bars: bars.collect(), ticks };
        Some(Figure {
            id: "durations",
            title: "Durations of run()".to_owned(),
            sentence,
            picture: picture.render().unwrap_or_default(),
            legend: Vec::new(),
            table: Some(table(quantiles)),
            is_open: true,
            is_apart: false,
            walk: Some(Walk::of_marks("marks")),
        })
    }
}

fn edge(edges: &[f64], at: usize) -> f64 {
    edges.get(at).or(edges.last()).copied().unwrap_or(0.0)
}

fn sentence(total: u64, quantiles: &[(&'static str, Quantiles)]) -> String {
    let Some((_, Quantiles { values })) = quantiles.first() else { return String::new() };
    format!(
        "Of {} tries, half took {} or less and 99 % took {} or less; the slowest took {}.",
        count(total),
        duration(values[2]),
        duration(values[5]),
        duration(values[6]),
    )
}

fn table(quantiles: &[(&'static str, Quantiles)]) -> Table {
    let mut table = Table::new(
        "What parts of the tries took at most",
        &["Of", "#Smallest", "#25 %", "#50 %", "#75 %", "#95 %", "#99 %", "#Largest"],
    );
    for (name, Quantiles { values }) in quantiles {
        let mut row = vec![(*name).to_owned().into()];
        row.extend(values.iter().map(|value| duration(*value).into()));
        table.rows.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_no_more_bars_than_can_be_seen() {
        let edges: Vec<f64> = (0..=128).map(|class| 1e-6 * 2f64.powf(f64::from(class) / 4.0)).collect();
        let quantiles = [("run()", Quantiles::default())];
        for (counts, bars) in [(vec![1; 128], 43), (vec![0; 128], 0), ([vec![0; 70], vec![5]].concat(), 1)] {
            let figure = Durations::figure(&edges, &counts, &quantiles);
            let found = figure.map_or(0, |figure| figure.picture.matches("<rect").count());
            assert_eq!(found, bars);
        }
    }
}
