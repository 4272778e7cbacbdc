//! Mini-batches that take much longer than others: while processes are idle, they are started a second time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use prs_common::mini_batch::MiniBatchIndex;

use super::{Action, Situation};
use crate::watch::observe::Snapshot;
use crate::watch::scheduler::Publishing;

/// How often the 95th percentile a try may take before it is started a second time.
const TIMES: f64 = 1.5;
/// No shorter try is, however short the others are: to start it costs time, too.
const LEAST: Duration = Duration::from_secs(1);
/// Between two decisions: copies need a moment until the nodes that run them say so.
const PAUSE: Duration = Duration::from_secs(2);

/// A mini-batch that takes much longer than others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Straggler {
    /// Which one.
    pub(crate) index: MiniBatchIndex,
    /// How long it has been running.
    pub(crate) age: Duration,
    /// What 95 of 100 tries took at most.
    pub(crate) usual: Duration,
}

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let Situation { now, memory, spec, .. } = *situation;
    if !spec.speculation || spec.run_max_try < 2 || !is_all_in_hand(situation) {
        return None;
    }
    let usual = memory.usual?;
    if memory.speculated.is_some_and(|at| now.at < at + PAUSE) {
        return None;
    }
    let free: usize = now.present().map(|node| node.report.free_processes as usize).sum();
    let limit = usual.mul_f64(TIMES).max(LEAST);
    let mut stragglers: Vec<Straggler> = ages(now)
        .into_iter()
        .filter(|(index, age)| *age > limit && !memory.copied.contains(index))
        .map(|(index, age)| Straggler { index, age, usual })
        .collect();
    stragglers.sort_by_key(|straggler| (Reverse(straggler.age), straggler.index));
    stragglers.truncate(free);
    (!stragglers.is_empty()).then_some(Action::StartAgain(stragglers))
}

/// Whether everything that has no outcome is with the nodes.
fn is_all_in_hand(situation: &Situation) -> bool {
    let Situation { now, memory, policy, .. } = *situation;
    let progress = &now.progress;
    let open = progress.checkpoint.scheduled.saturating_sub(progress.ended());
    let in_hand: u64 = now.present().map(|node| node.report.in_hand).sum();
    progress.checkpoint.complete
        && progress.conclusion.is_none()
        && !memory.refill
        && now.publishing != Publishing::UnderWay
        && (policy.upkeep.is_none() || memory.is_queue_empty)
        && (1..=in_hand).contains(&open)
}

/// How long each mini-batch has been running, as far as nodes tell; the longest where it runs more than once.
fn ages(now: &Snapshot) -> BTreeMap<MiniBatchIndex, Duration> {
    let mut ages = BTreeMap::new();
    for node in now.present() {
        for running in &node.report.running {
            let age = Duration::from_millis(running.age_ms).saturating_add(node.silent);
            let known: &mut Duration = ages.entry(running.index).or_default();
            *known = age.max(*known);
        }
    }
    ages
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::{Conclusion, JobState, NodeView, RunningTry};

    use super::super::tests::{Given, at};
    use super::*;

    fn node(node_id: u32, free_processes: u32, running: &[(u64, u64)]) -> NodeView {
        let mut node = NodeView { node_id, ..Given::node() };
        node.report.free_processes = free_processes;
        node.report.in_hand = running.len() as u64;
        node.report.running = running.iter().map(|&(index, age_ms)| RunningTry { index, age_ms }).collect();
        node
    }

    /// All but two mini-batches have their outcome, after 4 s at most; one process is idle.
    fn tail() -> Given {
        let mut given = Given::running();
        given.now.progress.succeeded = 98;
        given.now.nodes = vec![node(0, 0, &[(7, 93_000)]), node(1, 1, &[(9, 7_000)])];
        (given.memory.usual, given.memory.is_queue_empty) = (Some(Duration::from_secs(4)), true);
        given
    }

    fn started_again(given: Given) -> Vec<u64> {
        match given.decides(decide, |_| {}) {
            Some(Action::StartAgain(stragglers)) => stragglers.iter().map(|one| one.index).collect(),
            None => Vec::new(),
            Some(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_longest_running_are_started_again_as_far_as_processes_are_idle() {
        for (free, expected) in [(0, &[][..]), (1, &[7]), (2, &[7, 9]), (9, &[7, 9])] {
            let mut given = tail();
            given.now.nodes[1].report.free_processes = free;
            assert_eq!(started_again(given), expected, "{free}");
        }
    }

    #[test]
    fn what_takes_no_longer_than_one_and_a_half_times_the_usual_runs_alone() {
        // Milliseconds: the 95th percentile, the age of the other, whether it is started again.
        for (usual, age, again) in [
            (4_000, 6_000, false),
            (4_000, 6_001, true),
            (10, 1_000, false),
            (10, 1_001, true),
            (62_000, 92_999, false),
        ] {
            let mut given = tail();
            given.now.nodes[1] = node(1, 9, &[(9, age)]);
            given.memory.usual = Some(Duration::from_millis(usual));
            assert_eq!(started_again(given).contains(&9), again, "{usual} {age}");
        }
    }

    #[test]
    fn nothing_is_started_again_where_it_must_not_be() {
        assert_eq!(started_again(tail()), [7]);
        let table: [fn(&mut Given); 14] = [
            |given| given.spec.speculation = false,
            |given| given.spec.run_max_try = 1,
            |given| given.memory.usual = None,
            |given| given.memory.is_queue_empty = false,
            |given| given.memory.refill = true,
            |given| given.memory.speculated = Some(at(9)),
            |given| given.memory.copied.extend([7, 9]),
            |given| given.now.publishing = Publishing::UnderWay,
            |given| given.now.progress.checkpoint.complete = false,
            |given| given.now.progress.succeeded = 97,
            |given| given.now.progress.succeeded = 100,
            |given| {
                let (state, reason) = (JobState::Canceled, String::new());
                given.now.progress.conclusion = Some(Conclusion { state, reason });
            },
            |given| given.now.nodes[0].left = true,
            |given| given.now.nodes[1].left = true,
        ];
        for (number, change) in table.into_iter().enumerate() {
            let mut given = tail();
            change(&mut given);
            assert_eq!(started_again(given), [0; 0], "{number}");
        }
    }

    #[test]
    fn in_one_process_no_queue_is_asked() {
        let mut given = tail();
        (given.policy, given.memory.is_queue_empty) = (crate::job::policy::Policy::embedded(), false);
        assert_eq!(started_again(given), [7]);
    }

    #[test]
    fn a_node_that_is_silent_runs_on() {
        let mut given = tail();
        given.now.nodes = vec![node(0, 1, &[(7, 5_000)]), node(1, 0, &[(9, 5_500)])];
        assert_eq!(started_again(given.clone()), [0; 0]);
        given.now.nodes[0].silent = Duration::from_millis(1_600);
        assert_eq!(started_again(given), [7]);
    }

    #[test]
    fn a_mini_batch_that_runs_twice_counts_once_by_its_longest_try() {
        let mut given = tail();
        given.now.nodes = vec![node(0, 5, &[(7, 9_000)]), node(1, 0, &[(7, 30_000)])];
        let decided = given.decides(decide, |_| {});
        let usual = Duration::from_secs(4);
        let expected = Straggler { index: 7, age: Duration::from_secs(30), usual };
        assert_eq!(decided, Some(Action::StartAgain(vec![expected])));
    }
}
