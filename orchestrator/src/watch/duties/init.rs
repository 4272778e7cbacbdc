//! Nodes that cannot work: `init()` fails, or they cannot go on (spec S6, S8).

use super::patience::patience;
use super::{Action, Situation, fail};
use crate::init_failures::job_fails;

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let Situation { now, memory, policy, spec } = *situation;
    if now.progress.is_complete() {
        return None;
    }
    // Who takes the other seats may do what those who came first cannot, but not for ever.
    let others_come = policy.has_others && now.at - memory.joined <= patience(spec);
    let awaited = if others_come { spec.node_count } else { 1 };
    job_fails(spec, &now.nodes, awaited, now.at - memory.started).map(fail)
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
}
