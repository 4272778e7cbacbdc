//! How many processes a node may replace that did not end by themselves.
//!
//! A fresh process costs an import and an `init()`. Where nothing shows that it would do better, their number is bounded,
//! so that an error that all processes have does not cost more than a few of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time for which the bound is.
const WINDOW: Duration = Duration::from_mins(1);
/// Replacements in that time, beside one for each node of the job.
const LEAST: usize = 3;

/// The replacements of the last minute.
#[derive(Debug, Default)]
pub(super) struct Replacements {
    at: VecDeque<Instant>,
}

impl Replacements {
    /// Whether one more is allowed on each node of a job of so many.
    pub(super) fn allow(&self, now: Instant, live_nodes: u32) -> bool {
        let is_recent = |at: &&Instant| now.saturating_duration_since(**at) < WINDOW;
        self.at.iter().filter(is_recent).count() < LEAST + live_nodes.max(1) as usize
    }

    /// Counts one.
    pub(super) fn count(&mut self, now: Instant) {
        self.at.retain(|at| now.saturating_duration_since(*at) < WINDOW);
        self.at.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_and_one_for_each_node_a_minute() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let table = [
            // Seconds of those before, now, nodes; expected.
            (&[][..], 0, 1, true),
            (&[0, 0, 0], 0, 1, true),
            (&[0, 1, 2, 3], 4, 1, false),
            (&[0, 1, 2, 3], 4, 0, false),
            (&[0, 1, 2, 3], 4, 3, true),
            (&[0, 1, 2, 3, 4, 5], 59, 3, false),
            (&[0, 1, 2, 3, 4, 5], 60, 3, true),
            (&[0, 1, 2, 3], 60, 1, true),
        ];
        for (before, now, nodes, expected) in table {
            let mut replacements = Replacements::default();
            for seconds in before {
                replacements.count(at(*seconds));
            }
            assert_eq!(replacements.allow(at(now), nodes), expected, "{before:?} {now} {nodes}");
        }
    }
}
