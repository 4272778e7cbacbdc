//! When failures of `init()` end a node or a job (spec S6), and nodes that are of no use a job, as pure functions.

use std::time::Duration;

use prs_common::end_reason::EndReason;
use prs_common::job::JobSpec;
use prs_common::ledger::{NodeReport, NodeView};

/// How long a job must have run before failures on all nodes together end it.
const PATIENCE: Duration = Duration::from_mins(2);

/// Nodes whose hosts lack what the script needs, after which no other is tried.
const MOST_UNFIT: usize = 8;

/// How many failures in a row with no success a node has before it gives up.
pub fn failures_of_a_node(slots: u32) -> u32 {
    3 * slots.max(1)
}

/// Whether a node gives up: so many failures in a row with no success.
pub fn node_gives_up(failures_in_a_row: u32, slots: u32) -> bool {
    failures_in_a_row >= failures_of_a_node(slots)
}

/// How long all processes of a job may be in `init()`, seconds.
pub fn longest_init(spec: &JobSpec) -> u64 {
    3 * spec.run_invocation_timeout + 30
}

/// What failed, where processes do not become ready.
pub fn what_fails(to_import: bool) -> &'static str {
    if to_import { "importing the script" } else { "init()" }
}

/// How many nodes have to join the job before one that could work is given up hope of. `may_come` says whether workers
/// that have not tried may be nodes soon, `may_come_late` whether any other may be, some time.
pub fn awaited(spec: &JobSpec, nodes: &[NodeView], may_come: bool, may_come_late: bool) -> u32 {
    let unfit = nodes.iter().filter(|node| node.report.is_unfit).count();
    let others = spec.node_count.saturating_add(unfit as u32);
    let ready = nodes.iter().any(|node| node.report.ever_ready);
    match unfit {
        0 if may_come_late => spec.node_count,
        // A host without what the script needs is found out at once, and says nothing of the others.
        1..MOST_UNFIT if may_come => others,
        1.. if ready && may_come_late => others,
        _ => 1,
    }
}

/// Whether a node is of no use to its job: `init()` fails there, or it cannot go on.
pub fn is_useless(report: &NodeReport) -> bool {
    report.gave_up || report.fatal.is_some()
}

/// The reason to fail the job, where its nodes keep it from working. `awaited` is the number of nodes that have to come
/// before one that could work is given up hope of; `age` is the age of the job.
pub fn job_fails(spec: &JobSpec, nodes: &[NodeView], awaited: u32, age: Duration) -> Option<String> {
    let present: Vec<_> = nodes.iter().filter(|node| !node.left).collect();
    let last = nodes.iter().rev().find(|node| node.report.init_error.is_some());
    let to_import = last.is_some_and(|node| node.report.fails_to_import);
    let error = last.and_then(|node| node.report.init_error.as_deref());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    let times: u32 = nodes.iter().map(|node| node.report.init_failures).sum();
    let useless = nodes.iter().filter(|node| is_useless(&node.report)).count();
    if useless >= awaited.max(1) as usize && present.iter().all(|node| is_useless(&node.report)) {
        let fatal = nodes.iter().find_map(|node| node.report.fatal.clone());
        let unfit = nodes.iter().filter(|node| node.report.is_unfit).count();
        let fatal =
            fatal.map(
                |reason| {
                    if unfit > 1 { format!("{reason}\n  tried        on {unfit} hosts") } else { reason }
                },
            );
        return fatal.or_else(|| {
            let reason = if to_import {
                EndReason::ImportFailed { times, error }
            } else {
                EndReason::InitFailed { times, error }
            };
            Some(reason.to_string())
        });
    }
    let ready = nodes.iter().any(|node| node.report.ever_ready);
    let most = nodes.iter().map(|node| node.info.slots).max().unwrap_or_default();
    let slots = present.iter().map(|node| node.info.slots).sum::<u32>().max(awaited.saturating_mul(most));
    if !ready && age > PATIENCE && times >= slots.max(1).saturating_mul(2) {
        let seconds = age.as_secs();
        let reason = if to_import {
            EndReason::ImportKeepsFailing { times, seconds, error }
        } else {
            EndReason::InitKeepsFailing { times, seconds, error }
        };
        return Some(reason.to_string());
    }
    // Where a node was ready once, a process that was replaced a moment ago is likely to be, too.
    let is_stuck = |report: &NodeReport| report.stuck_in_init || (!ready && report.hung_in_init);
    if !present.is_empty() && present.iter().all(|node| is_stuck(&node.report)) {
        let place = present.iter().find_map(|node| node.report.init_error.as_deref());
        let place = place.map(|place| format!(": {place}")).unwrap_or_default();
        return Some(EndReason::StuckInInit { limit: longest_init(spec), place }.to_string());
    }
    None
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::NodeInfo;

    use super::*;

    fn node(report: NodeReport) -> NodeView {
        let info = NodeInfo { worker: "w".into(), slots: 2, ..NodeInfo::default() };
        NodeView { node_id: 0, info, report, silent: Duration::ZERO, left: false }
    }

    #[test]
    fn a_node_gives_up_after_three_failures_a_slot() {
        assert!(!node_gives_up(5, 2));
        assert!(node_gives_up(6, 2));
    }

    #[test]
    fn the_ways_a_job_ends_by_its_nodes() {
        let mut spec = JobSpec::new("job", "/", "x.py", vec![]);
        spec.run_invocation_timeout = 1;
        let (young, old) = (Duration::from_secs(1), Duration::from_secs(121));
        let fine = NodeReport { ever_ready: true, init_failures: 9, ..NodeReport::default() };
        let gave_up = NodeReport {
            gave_up: true,
            init_failures: 6,
            init_error: Some("ValueError: no model".into()),
            ..NodeReport::default()
        };
        let failing = NodeReport { init_failures: 4, ..NodeReport::default() };
        let place = Some("process001 is at code/x.py:4 in init".to_owned());
        let stuck = NodeReport { stuck_in_init: true, init_error: place, ..NodeReport::default() };
        let hung = NodeReport { hung_in_init: true, ..NodeReport::default() };
        let fatal = NodeReport { fatal: Some("the disk is full".into()), ..NodeReport::default() };
        let left = |report| NodeView { left: true, ..node(report) };
        let table = [
            (vec![], 1, old, None),
            (vec![node(fine.clone())], 1, old, None),
            (vec![node(fine.clone()), node(gave_up.clone())], 1, old, None),
            (
                vec![node(gave_up.clone())],
                1,
                young,
                Some("init() failed 6 times in a row: ValueError: no model"),
            ),
            (vec![left(gave_up.clone())], 2, young, None),
            // 2 nodes with 2 slots each: 8 failures.
            (vec![left(gave_up.clone())], 2, old, None),
            (vec![left(gave_up.clone()), node(gave_up.clone())], 2, young, Some("12 times in a row")),
            (vec![left(fatal.clone())], 1, young, Some("the disk is full")),
            (vec![left(fatal.clone())], 2, old, None),
            (vec![left(fatal.clone()), left(gave_up.clone())], 2, young, Some("the disk is full")),
            (vec![left(fatal.clone()), left(fatal.clone()), node(NodeReport::default())], 2, old, None),
            (vec![left(fatal.clone()), left(fine.clone())], 1, young, Some("the disk is full")),
            (vec![node(failing.clone())], 1, young, None),
            (vec![node(failing.clone())], 1, old, Some("4 times in 121 s")),
            (vec![node(failing.clone())], 2, old, None),
            (vec![node(failing.clone()), node(failing)], 2, old, Some("8 times in 121 s")),
            (vec![node(stuck.clone()), node(NodeReport::default())], 1, young, None),
            (vec![node(hung.clone())], 1, young, Some("more than 33 s")),
            (vec![node(hung.clone()), node(stuck.clone())], 1, young, Some("more than 33 s")),
            (vec![node(hung), left(fine.clone())], 1, young, None),
            (
                vec![node(stuck)],
                1,
                young,
                Some(
                    "more than 33 s (3 * run_invocation_timeout + 30): process001 is at code/x.py:4 in init",
                ),
            ),
        ];
        for (nodes, awaited, age, expected) in table {
            let reason = job_fails(&spec, &nodes, awaited, age);
            let fits = match expected {
                None => reason.is_none(),
                Some(part) => reason.as_ref().is_some_and(|reason| reason.contains(part)),
            };
            assert!(fits, "{reason:?} instead of {expected:?} with {awaited} awaited: {nodes:?}");
        }
    }
}
