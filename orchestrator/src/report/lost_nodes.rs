//! Nodes that were lost, among the distinct errors of a job. A try that is lost with its node is tried again without a word, and no
//! segment tells of it before its mini-batch was lost too often; so who looks for what slows a job down finds the nodes here.

use std::collections::BTreeMap;

use prs_common::ledger::NodeView;
use prs_common::segment::TryStatus;

use crate::job::errors::{ErrorGroup, Example};
use crate::job::words;

/// What stands for the class of the exception.
const CATEGORY: &str = "NodeLost";

/// The nodes that were not heard of any more while they had mini-batches, with the message about each.
#[derive(Debug, Default)]
pub(super) struct LostNodes(BTreeMap<u32, String>);

impl LostNodes {
    /// Takes note of a node as it was seen.
    pub(super) fn add(&mut self, node: &NodeView) {
        if node.left && node.report.in_hand > 0 {
            self.0.entry(node.node_id).or_insert_with(|| words::lost_node(node));
        }
    }

    /// All of them as one error; nothing where none was lost.
    pub(super) fn group(&self) -> Option<ErrorGroup> {
        let (node_id, message) = self.0.last_key_value()?;
        Some(ErrorGroup {
            status: TryStatus::NodeLost.as_str().to_owned(),
            category: CATEGORY.to_owned(),
            message: message.clone(),
            messages_differ: self.0.len() > 1,
            tries: self.0.len() as u64,
            nodes: self.0.keys().copied().collect(),
            example: Example { node_id: *node_id, ..Example::default() },
            ..ErrorGroup::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prs_common::ledger::{NodeInfo, NodeReport};

    use super::*;

    fn node(node_id: u32, left: bool, in_hand: u64) -> NodeView {
        let info =
            NodeInfo { worker: format!("worker-{node_id}"), host: "gpu-7".into(), ..NodeInfo::default() };
        let report = NodeReport { in_hand, ..NodeReport::default() };
        NodeView { node_id, info, report, silent: Duration::ZERO, left }
    }

    #[test]
    fn a_node_that_was_lost_once_is_an_error() {
        let mut lost = LostNodes::default();
        for seen in [node(0, false, 9), node(1, true, 0)] {
            lost.add(&seen);
        }
        assert_eq!(lost.group(), None, "one works, one left in order");
        lost.add(&node(3, true, 12));
        lost.add(&node(3, true, 12));
        let group = lost.group().unwrap();
        assert_eq!(
            group.message,
            "worker worker-3 on gpu-7 was not heard of any more, with 12 mini-batches in hand: other nodes run what had no outcome"
        );
        assert_eq!((words::cost(&group), group.place()), ("1 node was lost".to_owned(), "node 3".to_owned()));
        lost.add(&node(5, true, 1));
        let group = lost.group().unwrap();
        assert_eq!(words::cost(&group), "2 nodes were lost");
        assert!(group.messages_differ && group.nodes.contains(&3) && group.nodes.contains(&5));
    }
}
