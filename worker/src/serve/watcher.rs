//! When a worker that is of no use as a node of a job watches over it no longer: its nodes do that, once there are any.

use std::time::Duration;

use prs_common::ledger::NodeView;
use prs_orchestrator::JobContext;
use prs_orchestrator::job::init_failures::is_useless;

/// Between two looks at the nodes of the job.
const INTERVAL: Duration = Duration::from_secs(2);

/// Whether a job needs a watcher that is no node of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Nobody else watches over it.
    Needed,
    /// A node may.
    Nodes,
    /// The ledger does not say that any worker was of no use: it was lost since.
    Unknown,
}

/// Ends when `job` needs no such watcher any more.
pub(super) async fn until_not_needed(job: &JobContext) -> Need {
    loop {
        tokio::time::sleep(INTERVAL).await;
        // A ledger that does not answer changes nothing.
        let Ok(nodes) = job.ledger.nodes().await else { continue };
        match need(&nodes, |node| job.policy.is_present(node)) {
            Need::Needed => {}
            other => return other,
        }
    }
}

fn need(nodes: &[NodeView], is_present: impl Fn(&NodeView) -> bool) -> Need {
    let is_of_use = |node: &NodeView| is_present(node) && !is_useless(&node.report);
    if nodes.iter().any(is_of_use) {
        Need::Nodes
    } else if nodes.iter().any(|node| is_useless(&node.report)) {
        Need::Needed
    } else {
        Need::Unknown
    }
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::{NodeInfo, NodeReport};

    use super::*;

    #[test]
    fn a_watcher_is_needed_while_all_nodes_are_gone_or_of_no_use() {
        let node = |gave_up, left| NodeView {
            node_id: 0,
            info: NodeInfo::default(),
            report: NodeReport { gave_up, ..NodeReport::default() },
            silent: Duration::ZERO,
            left,
        };
        let (useless, gone, works) = (node(true, true), node(false, true), node(false, false));
        let table = [
            (vec![], Need::Unknown),
            (vec![gone.clone()], Need::Unknown),
            (vec![useless.clone()], Need::Needed),
            (vec![node(true, false)], Need::Needed),
            (vec![gone, useless.clone()], Need::Needed),
            (vec![useless, works], Need::Nodes),
        ];
        for (nodes, expected) in table {
            assert_eq!(need(&nodes, |node| !node.left), expected, "{nodes:?}");
        }
    }
}
