//! Failures of `init()`, and of the import of the script, among the distinct errors of a job.

use std::collections::BTreeMap;

use prs_common::ledger::{InitFailure, NodeView};

use crate::job::errors::{ErrorGroup, Example};
use crate::job::pattern;

/// What the status of such errors is.
pub(super) const STATUS: &str = "INIT_EXCEPTION";

/// The failures of every node of a job: how many, and the last.
#[derive(Debug, Default)]
pub struct InitErrors(BTreeMap<u32, (u32, InitFailure)>);

impl InitErrors {
    /// Takes note of what a node says.
    pub fn add(&mut self, node: &NodeView) {
        let Some(failure) = &node.report.init_failure else { return };
        let told = (node.report.init_failures, failure);
        if self.0.get(&node.node_id).is_none_or(|(count, known)| (*count, known) != told) {
            self.0.insert(node.node_id, (told.0, failure.clone()));
        }
    }

    /// The distinct ones: by the line that raised them, else by their message. All failures of a node count for its
    /// last.
    pub fn groups(&self) -> Vec<ErrorGroup> {
        let mut groups: BTreeMap<_, ErrorGroup> = BTreeMap::new();
        for (node_id, (count, failure)) in &self.0 {
            let InitFailure { category, message, frame, process } = failure;
            let place = frame.clone().ok_or_else(|| pattern(message.lines().next().unwrap_or_default()));
            let group = groups.entry((category, place)).or_insert_with(|| ErrorGroup {
                status: STATUS.to_owned(),
                category: category.clone(),
                message: message.clone(),
                frame: frame.clone(),
                example: Example {
                    node_id: *node_id,
                    process: process.clone(),
                    log: format!("user/error/{node_id}/{process}.txt"),
                    ..Example::default()
                },
                ..ErrorGroup::default()
            });
            group.messages_differ |= group.message != *message;
            group.tries += u64::from(*count);
            group.nodes.insert(*node_id);
        }
        groups.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prs_common::ledger::{NodeInfo, NodeReport};
    use prs_common::source_line::SourceLine;

    use super::*;

    #[test]
    fn failures_of_nodes_are_one_error_where_they_are_alike() {
        let mut errors = InitErrors::default();
        let mut add = |node_id, init_failures, message: &str, line: Option<u32>| {
            let failure = InitFailure {
                category: "OSError".into(),
                message: message.into(),
                frame: line.map(|line| SourceLine { line, ..SourceLine::default() }),
                process: format!("process00{init_failures}"),
            };
            let report = NodeReport { init_failures, init_failure: Some(failure), ..NodeReport::default() };
            let info = NodeInfo { worker: "w".into(), slots: 2, ..NodeInfo::default() };
            errors.add(&NodeView { node_id, info, report, silent: Duration::ZERO, left: false });
        };
        add(0, 1, "no /models/a", Some(4));
        add(0, 3, "no /models/a", Some(4));
        add(1, 2, "no /models/b", Some(4));
        add(2, 1, "no GPU 3", None);
        add(3, 1, "no GPU 4", None);
        let groups = errors.groups();
        let told: Vec<_> = groups.iter().map(|group| (group.tries, group.nodes.len())).collect();
        assert_eq!(told, [(5, 2), (2, 2)]);
        assert!(groups[0].messages_differ);
        assert_eq!(groups[0].example.log, "user/error/0/process003.txt");
    }
}
