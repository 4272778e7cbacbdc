//! Time without progress (spec S6): no plan, or no outcome.

use std::time::Duration;

use prs_common::end_reason::EndReason;
use prs_common::job::JobSpec;

use super::{Action, Situation, fail};

/// Least time without an outcome that ends a job, seconds.
const LEAST_PATIENCE: u64 = 780;

/// How long a job may go without an outcome.
pub(super) fn patience(spec: &JobSpec) -> Duration {
    let parts = if spec.split_failed { JobSpec::MOST_TRIES_OF_PARTS as u64 } else { 0 };
    let tries = u64::from(spec.run_max_try) * (spec.run_invocation_timeout + spec.task_overhead_timeout)
        + parts * spec.run_invocation_timeout;
    Duration::from_secs(spec.progress_update_timeout.unwrap_or((tries + 60).max(LEAST_PATIENCE)))
}

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let Situation { now, memory, spec, .. } = *situation;
    if now.progress.is_complete() {
        return None;
    }
    // A job may have waited for its first worker.
    let watched = (now.at - memory.watched_since).min(now.at - memory.started);
    if now.progress.checkpoint.scheduled == 0 && watched.as_secs() > spec.first_task_creation_timeout {
        return Some(fail(&EndReason::NothingScheduled { limit: spec.first_task_creation_timeout }));
    }
    let (seconds, limit) = ((now.at - memory.moved).as_secs(), patience(spec).as_secs());
    (seconds > limit && now.present().next().is_some())
        .then(|| fail(&EndReason::NothingEnded { seconds, limit }))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Given, at};
    use super::*;

    #[test]
    fn a_job_that_stands_still_fails_while_nodes_serve_it() {
        let still = |second, nodes, ended| {
            Given::running().decides(decide, |given| {
                given.spec.progress_update_timeout = Some(100);
                given.now.at = at(second);
                given.now.nodes.truncate(nodes);
                given.now.progress.succeeded = ended;
            })
        };
        assert_eq!(still(100, 1, 0), None);
        assert!(still(101, 1, 0).is_some());
        assert_eq!(still(101, 0, 0), None, "nobody serves it, which is no fault of it");
        assert_eq!(still(101, 1, 100), None, "all is done");
    }

    #[test]
    fn a_job_without_a_plan_fails_in_the_time_of_this_watch() {
        let unplanned = |second, watched_since| {
            Given::running().decides(decide, |given| {
                given.spec.first_task_creation_timeout = 600;
                given.now.progress.checkpoint = prs_common::ledger::Checkpoint::default();
                (given.now.at, given.memory.watched_since) = (at(second), at(watched_since));
            })
        };
        assert_eq!(unplanned(600, 0), None);
        assert!(unplanned(601, 0).is_some());
        assert_eq!(unplanned(601, 300), None, "it waited for its first worker");
    }

    #[test]
    fn patience_covers_all_tries_of_a_mini_batch() {
        let mut spec = Given::running().spec;
        (spec.run_max_try, spec.run_invocation_timeout, spec.task_overhead_timeout) = (3, 60, 600);
        assert_eq!(patience(&spec).as_secs(), 3 * 660 + 60);
        spec.run_max_try = 1;
        assert_eq!(patience(&spec).as_secs(), LEAST_PATIENCE);
        spec.progress_update_timeout = Some(5);
        assert_eq!(patience(&spec).as_secs(), 5);
    }
}
