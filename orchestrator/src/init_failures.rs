//! When failures of `init()` end a node or a job (spec S6), as pure functions.

use std::time::Duration;

use prs_common::job::JobSpec;
use prs_common::ledger::{NodeReport, NodeView};

/// How long a job must have run before failures on all nodes together end it.
const PATIENCE: Duration = Duration::from_mins(2);

/// Whether a node gives up: so many failures in a row with no success.
pub fn node_gives_up(failures_in_a_row: u32, slots: u32) -> bool {
    failures_in_a_row >= 3 * slots.max(1)
}

/// Whether a node is of no use to its job: `init()` fails there, or it cannot go on.
pub fn is_useless(report: &NodeReport) -> bool {
    report.gave_up || report.fatal.is_some()
}

/// The reason to fail the job, where `init()` keeps it from working. `age` is the age of the job.
pub fn job_fails(spec: &JobSpec, nodes: &[NodeView], age: Duration) -> Option<String> {
    let present: Vec<_> = nodes.iter().filter(|node| !node.left).collect();
    let error = || {
        let last = nodes.iter().rev().find_map(|node| node.report.init_error.as_deref());
        last.map(|error| format!(": {error}")).unwrap_or_default()
    };
    let failures: u32 = nodes.iter().map(|node| node.report.init_failures).sum();
    let mut asked = nodes.iter().filter(|node| !node.left || node.report.gave_up).peekable();
    if asked.peek().is_some() && asked.all(|node| node.report.gave_up) {
        return Some(format!("init() failed {failures} times in a row{}", error()));
    }
    let ready = nodes.iter().any(|node| node.report.ever_ready);
    let slots: u32 = present.iter().map(|node| node.info.slots).sum();
    if !ready && age > PATIENCE && failures >= 2 * slots.max(1) {
        return Some(format!("init() failed {failures} times in {} s{}", age.as_secs(), error()));
    }
    let limit = 3 * spec.run_invocation_timeout + 30;
    if !present.is_empty()
        && present.iter().all(|node| node.report.all_in_init.is_some_and(|seconds| seconds > limit as f64))
    {
        return Some(format!(
            "every process has been in init() for more than {limit} s (3 * run_invocation_timeout + 30)"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::NodeInfo;

    use super::*;

    fn node(report: NodeReport) -> NodeView {
        let info = NodeInfo { worker: "w".into(), ip: "127.0.0.1".into(), slots: 2 };
        NodeView { node_id: 0, info, report, silent: Duration::ZERO, left: false }
    }

    #[test]
    fn a_node_gives_up_after_three_failures_a_slot() {
        assert!(!node_gives_up(5, 2));
        assert!(node_gives_up(6, 2));
    }

    #[test]
    fn the_three_ways_a_job_ends_by_init() {
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
        let stuck = NodeReport { all_in_init: Some(33.1), ..NodeReport::default() };
        let waiting = NodeReport { all_in_init: Some(32.9), ..NodeReport::default() };
        assert_eq!(job_fails(&spec, &[], old), None);
        assert_eq!(job_fails(&spec, &[node(fine.clone())], old), None);
        assert_eq!(job_fails(&spec, &[node(fine), node(gave_up.clone())], old), None);
        let reason = job_fails(&spec, &[node(gave_up)], young).unwrap();
        assert_eq!(reason, "init() failed 6 times in a row: ValueError: no model");
        assert_eq!(job_fails(&spec, &[node(failing.clone())], young), None);
        assert!(job_fails(&spec, &[node(failing)], old).unwrap().contains("4 times in 121 s"));
        assert_eq!(job_fails(&spec, &[node(waiting)], young), None);
        assert!(job_fails(&spec, &[node(stuck)], young).unwrap().contains("more than 33 s"));
    }
}
