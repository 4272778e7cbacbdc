//! Pictures: where marks stand (pure functions of numbers), and the SVG around them (templates).
//!
//! A picture is as wide as its place. Shapes stand in a coordinate system of their own that is stretched; letters, dots
//! and bars stand at percentages of the width, so that nothing is too small to read on a narrow screen. Colours are classes
//! of the stylesheet, never values: so dark pages, forced colours and print look right. How many marks a picture has
//! depends on its pixels, never on the job.

mod activity;
mod curve;
mod durations;
mod figure;
mod graph;
mod lines;
mod nodes;
mod path;
mod plan_map;
mod progress;
mod rate;
mod scale;
mod shares;
mod tries;
mod wanted;
mod workers;

pub use activity::{Activity, Lane};
pub use curve::Curve;
pub use durations::{Durations, Quantiles};
pub use figure::{Cell, Column, Figure, SortLink, Table, Walk};
pub use graph::{Graph, GraphStep};
pub use lines::{Line, LinePoint, Lines};
pub use nodes::{NodeDot, NodeShape, Nodes};
pub use plan_map::{PlanMap, PlanState};
pub use progress::Progress;
pub use rate::{Rate, RateBucket};
pub use scale::Span;
pub(crate) use scale::round_up;
pub use shares::{BANDS, Shares};
pub use tries::{Tries, TryBar};
pub use wanted::{Wanted, WantedStep};
pub use workers::Workers;

/// Marks of a picture along the time axis, at most.
pub const MOST_BUCKETS: usize = 240;
