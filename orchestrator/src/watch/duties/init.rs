//! Nodes that cannot work: `init()` fails, or they cannot go on (spec S6, S8).

use super::patience::patience;
use std::time::Duration;

use prs_common::ledger::{Conclusion, JobState};

use super::{Action, Situation};
use crate::job::init_failures::{awaited, job_fails};

/// How long a worker may take to be known as idle, after the last one that lacked what the script needs.
const SETTLING: Duration = Duration::from_secs(3);
/// How long an idle worker may take to try. One that has not tried then leaves the job alone for another reason.
const TRYING: Duration = Duration::from_secs(30);

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let Situation { now, memory, policy, spec } = *situation;
    if now.progress.is_complete() {
        return None;
    }
    // Who takes the other seats may do what those who came first cannot, but not for ever.
    let others_come = policy.has_others && now.at - memory.joined <= patience(spec);
    let time = if now.untried_workers > 0 { TRYING } else { SETTLING };
    let untried_come = policy.has_others && now.at - memory.lacked <= time;
    let awaited = awaited(spec, &now.nodes, untried_come, others_come);
    job_fails(spec, &now.nodes, awaited, now.at - memory.prepared)
        .map(|reason| Action::Conclude(Conclusion { state: JobState::Failed, reason }))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Given, at};
    use super::*;

    #[test]
    fn a_job_fails_when_every_node_it_may_get_is_of_no_use() {
        let useless = |count: usize, second: u64, has_others: bool, ended: u64| {
            Given::running().decides(decide, |given| {
                let mut node = Given::node();
                (node.report.gave_up, node.left) = (true, true);
                (given.now.nodes, given.spec.node_count) = (vec![node; count], 2);
                (given.now.at, given.now.progress.succeeded) = (at(second), ended);
                given.policy.has_others = has_others;
            })
        };
        assert_eq!(useless(1, 10, true, 0), None, "another one may come");
        assert!(useless(2, 10, true, 0).is_some());
        assert!(useless(1, 10_000, true, 0).is_some(), "none came");
        assert!(useless(1, 10, false, 0).is_some(), "none comes");
        assert_eq!(useless(2, 10, true, 100), None, "all is done");
    }

    #[test]
    fn a_host_that_lacks_something_is_given_up_and_not_the_job_while_another_may_have_it() {
        let unfit = |count: usize, second: u64, untried: u64, change: fn(&mut Given)| {
            Given::running().decides(decide, |given| {
                let mut node = Given::node();
                node.report.fatal = Some("the script cannot be imported".to_owned());
                (node.report.is_unfit, node.report.ever_ready, node.left) = (true, false, true);
                (given.now.nodes, given.now.untried_workers) = (vec![node; count], untried);
                given.now.at = at(second);
                given.policy.has_others = true;
                change(given);
            })
        };
        assert_eq!(unfit(1, 2, 0, |_| {}), None, "who may be idle is not known yet");
        assert!(unfit(1, 10, 0, |_| {}).is_some(), "no other is there");
        assert_eq!(unfit(1, 10, 1, |_| {}), None, "another one may come");
        assert!(unfit(1, 31, 1, |_| {}).is_some(), "it had time to come");
        assert_eq!(unfit(1, 41, 1, |given| given.memory.lacked = at(20)), None, "the import took long");
        assert_eq!(unfit(7, 10, 1, |_| {}), None);
        assert!(unfit(8, 10, 1, |_| {}).is_some(), "enough have tried");
        assert!(
            unfit(1, 10, 0, |given| given.spec.node_count = 3).is_some(),
            "nobody waits for seats to be taken"
        );
        assert!(unfit(1, 0, 1, |given| given.policy.has_others = false).is_some(), "none comes");
        let fit = |given: &mut Given| given.now.nodes.push(Given::node());
        assert_eq!(unfit(3, 10, 0, fit), None, "one works");
        let had_fit = |given: &mut Given| {
            given.now.nodes.push(prs_common::ledger::NodeView { left: true, ..Given::node() });
        };
        assert_eq!(unfit(1, 10, 0, had_fit), None, "one had what this one lacks, and may come again");
    }
}
