//! Axes: which values get a mark, and where it stands.

use crate::text::times::{clock, day};

/// Marks of a time axis at most: what fits on a narrow screen.
const MOST_TICKS: usize = 5;

/// A stretch of time, microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub from_us: u64,
    /// Where it ends; after `from_us`.
    pub to_us: u64,
}

/// A mark of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Where it stands, percent of the width or height.
    pub(crate) at: String,
    /// What it says.
    pub(crate) label: String,
    /// How its letters stand to it, so that none leaves the picture: `start`, `middle` or `end`.
    pub(crate) anchor: &'static str,
    /// The moment that it says, seconds since the Unix epoch; nothing where it says no time of day.
    pub(crate) moment: Option<u64>,
}

impl Span {
    /// Where a point in time stands in it, from 0 to 1.
    pub(crate) fn fraction(self, us: u64) -> f64 {
        let width = self.to_us.saturating_sub(self.from_us).max(1);
        (us.saturating_sub(self.from_us) as f64 / width as f64).min(1.0)
    }

    /// The marks of a time axis: round times, in UTC.
    pub(crate) fn ticks(self) -> Vec<Tick> {
        const STEPS: [u64; 24] = [
            1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
            172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000,
        ];
        // Whole seconds within it: a mark before its begin would stand on that.
        let (from, to) = (self.from_us.div_ceil(1_000_000), self.to_us / 1_000_000);
        let fits = |step: &&u64| (to / **step).saturating_sub(from / **step) as usize <= MOST_TICKS;
        let step = *STEPS.iter().find(fits).unwrap_or(&STEPS[STEPS.len() - 1]);
        let first = from.div_ceil(step) * step;
        (first..=to)
            .step_by(step as usize)
            .take(MOST_TICKS + 1)
            .map(|second| {
                let us = second * 1_000_000;
                let label = match step {
                    86_400.. => day(us),
                    60.. => clock(us)[..5].to_owned(),
                    _ => clock(us),
                };
                Tick { moment: (step < 86_400).then_some(second), ..tick(self.fraction(us), label) }
            })
            .collect()
    }
}

/// A mark at this fraction of the width.
pub(crate) fn tick(fraction: f64, label: String) -> Tick {
    let anchor = match fraction {
        ..0.08 => "start",
        0.92.. => "end",
        _ => "middle",
    };
    Tick { at: percent(fraction), label, anchor, moment: None }
}

/// A fraction as SVG has it: `12.3%`.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{}%", coordinate(fraction.clamp(0.0, 1.0) * 100.0))
}

/// A coordinate with two digits behind the point at most.
pub(crate) fn coordinate(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The smallest of 1, 2 and 5 times a power of ten that is no smaller: where an axis of values ends.
pub(crate) fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    // What is a hair above is the same number.
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps.iter().map(|step| step * power).find(|end| *end >= value * (1.0 - 1e-9)).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_values() {
        for (value, expected) in [
            (0.0, 1.0),
            (f64::NAN, 1.0),
            (1.0, 1.0),
            (8.1, 10.0),
            (0.03, 0.05),
            (2.0, 2.0),
            (8_130.0, 10_000.0),
            (1_000.0, 1_000.0),
        ] {
            assert!((round_up(value) - expected).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }

    #[test]
    fn a_time_axis_has_few_marks_at_round_times() {
        let noon = 1_763_726_400_000_000; // 12:00:00
        for (seconds, expected) in [
            (3, &["12:00:00", "12:00:01", "12:00:02", "12:00:03"][..]),
            (45, &["12:00:00", "12:00:10", "12:00:20", "12:00:30", "12:00:40"]),
            (3_600, &["12:00", "12:15", "12:30", "12:45", "13:00"]),
            (86_400, &["12:00", "18:00", "00:00", "06:00", "12:00"]),
            (4 * 86_400, &["22 Nov", "23 Nov", "24 Nov", "25 Nov"]),
        ] {
            let ticks = Span { from_us: noon, to_us: noon + seconds * 1_000_000 }.ticks();
            let labels: Vec<_> = ticks.iter().map(|tick| &*tick.label).collect();
            assert_eq!(labels, expected, "{seconds}");
        }
        let first = &Span { from_us: noon, to_us: noon + 60_000_000 }.ticks()[0];
        assert_eq!((&*first.at, first.anchor), ("0%", "start"));
        for seconds in [0, 1, 7, 59, 61, 3_601, 100_000, 40_000_000, 4_000_000_000] {
            let span = Span { from_us: noon + 123_456, to_us: noon + seconds * 1_000_000 };
            assert!(span.ticks().len() <= MOST_TICKS + 1, "{seconds}");
        }
    }
}
