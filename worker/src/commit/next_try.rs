//! Where a mini-batch runs next after a try of it failed: on this node, in another process, or on whichever node the queue
//! gives it to.
//!
//! Tries before the last one stay on the node, which has the data and knows the processes that failed. The last one is for
//! another node where there is one, in case it is this node that fails. What comes back here all the same goes to the
//! queue once more, and then runs: no mini-batch waits for a node that does not come, and no message circles.

use prs_common::ledger::NotedTries;

/// The place of the next try of a mini-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextTry {
    /// In a process of this node.
    Here,
    /// On the node that takes it from the queue.
    AnyNode,
}

/// A mini-batch one or more tries of which failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed {
    /// Tries that the user's code failed.
    pub(crate) tries: u32,
    /// Tries that it may fail.
    pub(crate) run_max_try: u32,
    /// Live nodes of the job, this one among them.
    pub(crate) live_nodes: u32,
}

impl Failed {
    fn has_others_for_last_try(self) -> bool {
        self.live_nodes > 1 && self.tries.saturating_add(1) >= self.run_max_try
    }

    /// Decides right after a try failed. `of_data`: the data could not be read, and is to be made local anew.
    pub(crate) fn next(self, of_data: bool) -> NextTry {
        if of_data || self.has_others_for_last_try() { NextTry::AnyNode } else { NextTry::Here }
    }

    /// Decides about a mini-batch that the queue brought to `service` of a node, which fails its tries by the names that
    /// begin so.
    pub(crate) fn next_at(self, service: &str, noted: &NotedTries) -> NextTry {
        let failed_here = noted.failed.iter().any(|id| id.starts_with(service));
        let passed_on = noted.passed_on_by.iter().any(|other| other == service);
        if failed_here && !passed_on && self.has_others_for_last_try() {
            NextTry::AnyNode
        } else {
            NextTry::Here
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NextTry::{AnyNode, Here};
    use super::*;

    #[test]
    fn the_last_try_is_for_another_node() {
        let table = [
            // Failed tries, run_max_try, live nodes, whether the data could not be read; expected.
            (1, 3, 3, false, Here),
            (2, 3, 3, false, AnyNode),
            (2, 3, 1, false, Here),
            (1, 2, 2, false, AnyNode),
            (1, 2, 0, false, Here),
            (4, 20, 2, false, Here),
            (19, 20, 2, false, AnyNode),
            (u32::MAX, u32::MAX, 2, false, AnyNode),
            (1, 3, 1, true, AnyNode),
        ];
        for (tries, run_max_try, live_nodes, of_data, expected) in table {
            let failed = Failed { tries, run_max_try, live_nodes };
            assert_eq!(failed.next(of_data), expected, "{failed:?} {of_data}");
        }
    }

    #[test]
    fn a_node_that_failed_it_gives_the_last_try_back_once() {
        let table = [
            // Services that failed it, that gave it back; failed tries, live nodes; expected.
            (&["0-"][..], &[][..], 2, 2, AnyNode),
            (&["0-"], &["0-"], 2, 2, Here),
            (&["0-"], &["1-"], 2, 2, AnyNode),
            (&["1-"], &[], 2, 2, Here),
            (&["1-", "0-"], &["1-"], 2, 3, AnyNode),
            (&["0-"], &[], 2, 1, Here),
            (&["0-"], &[], 1, 2, Here),
            (&[], &[], 2, 2, Here),
        ];
        for (failed, passed_on_by, tries, live_nodes, expected) in table {
            let noted = NotedTries {
                failed: failed.iter().map(|service| format!("{service}process000-7")).collect(),
                passed_on_by: passed_on_by.iter().map(|service| (*service).to_owned()).collect(),
            };
            let found = Failed { tries, run_max_try: 3, live_nodes }.next_at("0-", &noted);
            assert_eq!(found, expected, "{noted:?} {tries} {live_nodes}");
        }
    }

    #[test]
    fn no_last_try_circles() {
        // All nodes failed it, and each finds itself noted: each gives it back once, then it runs.
        let services = ["0-", "1-", "2-"];
        let failed = services.iter().map(|service| format!("{service}process000-1")).collect();
        let mut noted = NotedTries { failed, passed_on_by: Vec::new() };
        let at = Failed { tries: 3, run_max_try: 4, live_nodes: 3 };
        let runs = services.iter().cycle().take(10).position(|service| {
            let next = at.next_at(service, &noted);
            noted.passed_on_by.extend((next == AnyNode).then(|| (*service).to_owned()));
            next == Here
        });
        assert_eq!(runs, Some(3));
    }
}
