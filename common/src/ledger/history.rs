//! What a compute target wanted and had over the last day, in steps of five minutes.

use std::time::Duration;

/// Length of a step.
pub const HISTORY_STEP: Duration = Duration::from_mins(5);
/// Steps that are kept: a day.
pub const HISTORY_STEPS: u64 = 288;

/// What a target wanted and had at the beginning of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TargetCounts {
    /// Nodes that its jobs could use.
    pub wanted: u64,
    /// Nodes that served its jobs.
    pub live: u64,
    /// Workers without a job.
    pub idle: u64,
    /// Mini-batches that no node had.
    pub waiting: u64,
}

/// When a step of [`HISTORY_STEP`] begins, microseconds since the Unix epoch.
pub(crate) fn step_begins_us(step: u64) -> u64 {
    step * HISTORY_STEP.as_micros() as u64
}

/// The steps of the last day in their order, of `found` ones in any order.
pub(crate) fn of_last_day(now: u64, mut found: Vec<(u64, TargetCounts)>) -> Vec<(u64, TargetCounts)> {
    found.retain(|(step, _)| *step <= now && step + HISTORY_STEPS > now);
    found.sort_by_key(|(step, _)| *step);
    found.into_iter().map(|(step, counts)| (step_begins_us(step), counts)).collect()
}
