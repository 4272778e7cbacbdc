//! The nodes side by side: a dot each at the median of its `run()`, those far from the others by name.

use askama::Template;

use super::figure::{Figure, Legend, Table, Walk};
use super::scale::{Tick, percent, tick};
use crate::text::count;
use crate::text::times::duration;

/// Dots at most; of more nodes there is a histogram.
pub(crate) const MOST_DOTS: usize = 500;
/// Bars of the histogram.
const BARS: usize = 40;
/// Dots above one another, and the places along the axis where they are.
const ROWS: usize = 8;
const PLACES: usize = 60;
/// Nodes that are named.
const MOST_NAMES: usize = 10;
/// Of more nodes, those that stand almost in the same place are one dot.
const CROWD: usize = 100;
/// Pixels between dots, and of the picture.
const ROW_HEIGHT: usize = 11;
const HEIGHT: usize = 110;

/// How a node is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeShape {
    /// It served the job to its end.
    Left,
    /// It serves.
    Serving,
    /// It was lost.
    Lost,
}

impl NodeShape {
    /// The name of its shape among those of the page.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Left => "dot",
            Self::Serving => "triangle",
            Self::Lost => "cross",
        }
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeDot {
    /// What it is called.
    pub name: String,
    /// The median of its `run()`, seconds.
    pub median: f64,
    /// How it is shown.
    pub shape: NodeShape,
    /// Whether it is far slower than the others.
    pub is_slow: bool,
}

/// The nodes of a job.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/nodes.html")]
pub struct Nodes {
    sentence: String,
    /// The dots, row by row: where each row is, pixels.
    rows: Vec<(usize, Vec<Dot>)>,
    bars: Vec<Bar>,
    height: usize,
    /// Where the median of all is, percent.
    middle: String,
    ticks: Vec<Tick>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Dot {
    x: String,
    y: usize,
    symbol: &'static str,
    name: String,
    /// Whether the name is shown, and how it stands to the dot.
    anchor: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bar {
    x: String,
    width: String,
    y: usize,
    height: usize,
}

/// An axis of durations: logarithmic where a few are far from most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    from: f64,
    to: f64,
    is_log: bool,
}

impl Axis {
    /// The axis of these values, in their order.
    pub(crate) fn of(sorted: &[f64]) -> Self {
        let smallest = sorted.first().copied().unwrap_or(0.0).max(1e-6);
        let largest = sorted.last().copied().unwrap_or(1.0).max(smallest);
        let (middle, high) = (quantile(sorted, 0.5).max(1e-6), quantile(sorted, 0.95));
        let is_log = high / middle > 20.0 || largest / middle > 50.0;
        if is_log {
            return Self { from: smallest * 0.8, to: largest * 1.25, is_log };
        }
        let room = ((largest - smallest) * 0.06).max(middle * 0.05);
        Self { from: (smallest - room).max(0.0), to: largest + room, is_log }
    }

    fn fraction(self, value: f64) -> f64 {
        let at = if self.is_log {
            (value.max(1e-6) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        if at.is_finite() { at.clamp(0.0, 1.0) } else { 0.5 }
    }

    fn ticks(self) -> Vec<Tick> {
        let marks = (0..4).map(|at| {
            let part = (f64::from(at) + 0.5) / 4.0;
            if self.is_log {
                self.from * (self.to / self.from).powf(part)
            } else {
                self.from + (self.to - self.from) * part
            }
        });
        let mut ticks: Vec<Tick> = marks.map(|value| tick(self.fraction(value), duration(value))).collect();
        ticks.dedup_by(|one, other| one.label == other.label);
        ticks
    }
}

/// The value that this part of all is no larger than. `sorted` is in order.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(at.max(1) - 1).or(sorted.last()).copied().unwrap_or(0.0)
}

impl Nodes {
    /// The figure of these nodes, with their `table`; nothing where there are fewer than two.
    pub fn figure(nodes: &[NodeDot], table: Table) -> Option<Figure> {
        if nodes.len() < 2 {
            return None;
        }
        let mut sorted: Vec<f64> = nodes.iter().map(|node| node.median).collect();
        sorted.sort_by(f64::total_cmp);
        let (axis, middle) = (Axis::of(&sorted), quantile(&sorted, 0.5));
        let slow: Vec<&NodeDot> = nodes.iter().filter(|node| node.is_slow).collect();
        let sentence = sentence(nodes, middle, &slow);
        let picture = Self {
            sentence: sentence.clone(),
            rows: rows(dots(nodes, axis)),
            bars: if nodes.len() > MOST_DOTS { bars(&sorted, axis) } else { Vec::new() },
            height: HEIGHT,
            middle: percent(axis.fraction(middle)),
            ticks: axis.ticks(),
        };
        let mut legend = Vec::new();
        for (shape, class, text) in [
            (NodeShape::Left, "dot", "served to the end"),
            (NodeShape::Serving, "triangle", "serves"),
            (NodeShape::Lost, "cross", "lost"),
        ] {
            if nodes.iter().any(|node| node.shape == shape) {
                legend.push(Legend { class, text: text.to_owned() });
            }
        }
        legend.push(Legend { class: "line", text: "the median of the nodes".to_owned() });
        Some(Figure {
            id: "nodes",
            title: "Nodes, by the median of run()".to_owned(),
            sentence,
            picture: picture.render().unwrap_or_default(),
            legend,
            table: Some(table),
            is_open: false,
            is_apart: false,
            walk: Some(Walk::of_marks("marks")),
        })
    }
}

fn sentence(nodes: &[NodeDot], middle: f64, slow: &[&NodeDot]) -> String {
    let number = count(nodes.len() as u64);
    let usual = format!("Half of {number} nodes take {} or less for a run()", duration(middle));
    match slow {
        [] => format!("{usual}; none is far slower than the others."),
        [one] => format!("{usual}; {} is far slower than the others: {}.", one.name, duration(one.median)),
        [one, ..] => {
            format!("{usual}; {} nodes are far slower than the others, first {}.", slow.len(), one.name)
        }
    }
}

/// Where the dots stand. Of very many only those that are named, or lost.
fn dots(nodes: &[NodeDot], axis: Axis) -> Vec<Dot> {
    let mut order: Vec<&NodeDot> = nodes.iter().collect();
    order.sort_by(|one, other| one.median.total_cmp(&other.median));
    let mut levels = [0_usize; PLACES];
    let mut named = 0;
    let mut last_named: Option<f64> = None;
    let mut dots = Vec::new();
    for node in order.into_iter().rev() {
        if nodes.len() > MOST_DOTS && !node.is_slow {
            continue;
        }
        let at = axis.fraction(node.median);
        let place = ((at * PLACES as f64) as usize).min(PLACES - 1);
        let row = levels[place] % ROWS;
        levels[place] += 1;
        // Names beside one another would hide one another.
        let has_room = last_named.is_none_or(|last| last - at > 0.12) && row == 0;
        let is_named = node.is_slow && named < MOST_NAMES && has_room;
        if is_named {
            (named, last_named) = (named + 1, Some(at));
        }
        let is_crowd = nodes.len() > CROWD && !node.is_slow;
        let at = if is_crowd { (place as f64 + 0.5) / PLACES as f64 } else { at };
        let (x, y, symbol) =
            (percent(at), HEIGHT - ROW_HEIGHT / 2 - 2 - row * ROW_HEIGHT, node.shape.symbol());
        let hides = |dot: &Dot| dot.x == x && dot.y == y && dot.symbol == symbol;
        if is_crowd && dots.iter().any(hides) {
            continue;
        }
        dots.push(Dot {
            x,
            y,
            symbol,
            name: format!("{}: {}", node.name, duration(node.median)),
            anchor: is_named.then(|| tick(at, String::new()).anchor),
        });
    }
    dots
}

/// The dots by where they are.
fn rows(dots: Vec<Dot>) -> Vec<(usize, Vec<Dot>)> {
    let mut rows = std::collections::BTreeMap::<usize, Vec<Dot>>::new();
    for dot in dots {
        rows.entry(dot.y).or_default().push(dot);
    }
    rows.into_iter().collect()
}

fn bars(sorted: &[f64], axis: Axis) -> Vec<Bar> {
    let mut counts = [0_usize; BARS];
    for value in sorted {
        counts[((axis.fraction(*value) * BARS as f64) as usize).min(BARS - 1)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    bars.map(|(at, count)| {
        let height = (count * (HEIGHT - 24)).div_ceil(most);
        Bar {
            x: percent(at as f64 / BARS as f64),
            width: percent(0.9 / BARS as f64),
            y: HEIGHT - height,
            height,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<NodeDot> {
        let node = |number: usize| NodeDot {
            name: format!("node {number}"),
            median: 0.2 + (number % 17) as f64 * 0.002,
            shape: NodeShape::Left,
            is_slow: false,
        };
        (0..count).map(node).collect()
    }

    #[test]
    fn an_axis_is_logarithmic_where_a_few_are_far_from_most() {
        let mut values = vec![1.0; 100];
        assert!(!Axis::of(&values).is_log);
        values.push(41.0);
        assert!(!Axis::of(&values).is_log);
        values.push(60.0);
        assert!(Axis::of(&values).is_log);
        for axis in [Axis::of(&values), Axis::of(&[]), Axis::of(&[0.0]), Axis::of(&[0.0, 0.0])] {
            assert!((0.0..=1.0).contains(&axis.fraction(1.0)));
            assert!(axis.ticks().len() <= 4);
        }
    }

    #[test]
    fn many_nodes_are_a_histogram_with_the_far_ones_as_dots() {
        let table = || Table::new("t", &["n"]);
        let mut few = nodes(12);
        few[7] = NodeDot { median: 0.9, is_slow: true, ..few[7].clone() };
        let figure = Nodes::figure(&few, table()).unwrap();
        assert_eq!(figure.picture.matches("<use").count(), 12);
        assert!(figure.sentence.contains("node 7 is far slower"), "{}", figure.sentence);
        let mut many = nodes(MOST_DOTS + 1);
        many[3] = NodeDot { median: 0.9, is_slow: true, ..many[3].clone() };
        let figure = Nodes::figure(&many, table()).unwrap();
        assert_eq!(figure.picture.matches("<use").count(), 1);
        assert!(figure.picture.matches("<rect").count() <= BARS);
        assert!(Nodes::figure(&nodes(1), table()).is_none());
        let figure = Nodes::figure(&nodes(MOST_DOTS), table()).unwrap();
        assert!(figure.picture.len() < 20_000, "{}", figure.picture.len());
    }
}
