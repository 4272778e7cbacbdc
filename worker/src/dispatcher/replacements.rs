//! Which processes are replaced that did not end by themselves, and how many of them.
//!
//! A process that fails one mini-batch after the other, while others of the job succeed, is taken for broken. A fresh process
//! costs an import and an `init()`, so their number is bounded. Where nothing of the job has succeeded, there may be an error
//! that all processes have: then some are replaced for tries that would have no other process, and none for its failures.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use prs_common::mini_batch::MiniBatchIndex;

/// The time for which the bound is.
const WINDOW: Duration = Duration::from_mins(1);
/// Replacements in that time, beside one for each node of the job.
const LEAST: usize = 3;
/// Mini-batches that a process failed in a row when it counts as broken.
const BROKEN: usize = 3;
/// Mini-batches whose failures a process is known to have survived.
const KNOWN_TO_BE_BORNE: usize = 64;

/// The mini-batches that a process failed since it last succeeded, each once, up to [`BROKEN`] of them.
#[derive(Debug, Default)]
pub(crate) struct FailedInARow {
    indices: Vec<MiniBatchIndex>,
    /// Those that it failed before it succeeded with others, the last [`KNOWN_TO_BE_BORNE`] of them.
    survived: VecDeque<MiniBatchIndex>,
}

impl FailedInARow {
    /// Notes how a try ended.
    pub(super) fn note(&mut self, index: MiniBatchIndex, has_failed: bool) {
        if !has_failed {
            self.survived.extend(self.indices.drain(..));
            let surplus = self.survived.len().saturating_sub(KNOWN_TO_BE_BORNE);
            self.survived.drain(..surplus);
        } else if self.indices.len() < BROKEN && !self.indices.contains(&index) {
            self.indices.push(index);
        }
    }

    /// Whether the process is known to have succeeded after this mini-batch failed in it.
    pub(super) fn has_survived(&self, index: MiniBatchIndex) -> bool {
        self.survived.contains(&index)
    }

    /// Whether its last try failed.
    pub(super) fn is_any(&self) -> bool {
        !self.indices.is_empty()
    }

    /// Whether the process is to be replaced. `is_usable`: a process of the job has succeeded; `is_allowed`: one more may be
    /// replaced.
    pub(super) fn ask_for_another(&self, is_usable: bool, is_allowed: bool) -> bool {
        self.indices.len() >= BROKEN && is_usable && is_allowed
    }
}

/// The replacements of a node.
#[derive(Debug, Default)]
pub(super) struct Replacements {
    /// Times of the replacements of the last minute.
    at: VecDeque<Instant>,
    /// Replacements before any process of the job had succeeded.
    unproven: usize,
}

impl Replacements {
    /// Whether one more is allowed on each node of a job of so many: in this minute, or, where no process has shown that it
    /// can run the mini-batches of the job, at all.
    pub(super) fn allow(&self, now: Instant, live_nodes: u32, is_usable: bool) -> bool {
        let is_recent = |at: &&Instant| now.saturating_duration_since(**at) < WINDOW;
        let used = if is_usable { self.at.iter().filter(is_recent).count() } else { self.unproven };
        used < LEAST + live_nodes.max(1) as usize
    }

    /// Counts one.
    pub(super) fn count(&mut self, now: Instant, is_usable: bool) {
        self.at.retain(|at| now.saturating_duration_since(*at) < WINDOW);
        self.at.push_back(now);
        self.unproven += usize::from(!is_usable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_fails_what_others_can_do_is_replaced() {
        // Index of each try, and whether it failed.
        let (x, ok) = (true, false);
        let table = [
            (&[][..], true, true, false),
            (&[(0, x), (1, x)], true, true, false),
            (&[(0, x), (1, x), (2, x)], true, true, true),
            (&[(0, x), (1, x), (2, x), (3, x)], true, true, true),
            // No process succeeds: it is no fault of this one.
            (&[(0, x), (1, x), (2, x)], false, true, false),
            (&[(0, x), (1, x), (2, x)], true, false, false),
            // One mini-batch may be bad, whatever the number of its tries.
            (&[(0, x), (0, x), (0, x)], true, true, false),
            (&[(0, x), (1, x), (0, x), (1, x)], true, true, false),
            (&[(0, x), (1, x), (9, ok), (2, x)], true, true, false),
            (&[(9, ok), (0, x), (1, x), (0, x), (2, x)], true, true, true),
        ];
        for (tries, is_usable, is_allowed, expected) in table {
            let mut failed = FailedInARow::default();
            for &(index, has_failed) in tries {
                failed.note(index, has_failed);
            }
            let found = failed.ask_for_another(is_usable, is_allowed);
            assert_eq!(found, expected, "{tries:?} {is_usable} {is_allowed}");
            assert_eq!(failed.is_any(), tries.last().is_some_and(|(_, has_failed)| *has_failed), "{tries:?}");
        }
    }

    #[test]
    fn three_and_one_for_each_node_a_minute() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let table = [
            // Seconds of those before, now, nodes; whether one more is allowed, and where nothing has succeeded.
            (&[][..], 0, 1, true, true),
            (&[0, 0, 0], 0, 1, true, true),
            (&[0, 1, 2, 3], 4, 1, false, false),
            (&[0, 1, 2, 3], 4, 0, false, false),
            (&[0, 1, 2, 3], 4, 3, true, true),
            (&[0, 1, 2, 3, 4, 5], 59, 3, false, false),
            (&[0, 1, 2, 3, 4, 5], 60, 3, true, false),
            (&[0, 1, 2, 3], 60, 1, true, false),
            (&[0, 100, 200, 300], 400, 1, true, false),
        ];
        for (before, now, nodes, usable, unproven) in table {
            for (is_usable, expected) in [(true, usable), (false, unproven)] {
                let mut replacements = Replacements::default();
                for seconds in before {
                    replacements.count(at(*seconds), is_usable);
                }
                let allowed = replacements.allow(at(now), nodes, is_usable);
                assert_eq!(allowed, expected, "{before:?} {now} {nodes} {is_usable}");
            }
        }
    }
}
