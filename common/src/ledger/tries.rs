//! Tries of mini-batches: their outcomes, their failures, and what follows from these.

use serde::{Deserialize, Serialize};

use crate::mini_batch::MiniBatchIndex;

/// How the limits of a job bound the tries of a mini-batch (spec S3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TryLimits {
    /// Tries that the user's code may fail.
    pub run_max_try: u32,
    /// Losses of a node while it ran the mini-batch.
    pub max_node_losses: u32,
}

impl TryLimits {
    /// Whether no try is left after so many failed ones and so many lost nodes.
    pub fn are_reached(self, failed_tries: u32, node_losses: u32) -> bool {
        failed_tries >= self.run_max_try || node_losses >= self.max_node_losses
    }
}

/// The outcome of one mini-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MiniBatchOutcome {
    /// The mini-batch.
    pub index: MiniBatchIndex,
    /// Whether a try succeeded; otherwise none is left.
    pub succeeded: bool,
    /// Input items.
    pub items: u64,
    /// Items that succeeded.
    pub items_succeeded: u64,
}

/// Why a try failed, in the ledger's eyes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blame {
    /// The user's code: exception, timeout, death of its process.
    Code,
    /// The node was lost while it ran the mini-batch.
    Node,
}

/// A try that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedTry {
    /// The mini-batch.
    pub index: MiniBatchIndex,
    /// Names the try among all tries of the mini-batch; the same call may come twice.
    pub id: String,
    /// Whose fault it was.
    pub blame: Blame,
}

/// What is to be done about a mini-batch after a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Try it again; so many tries have failed by the user's code.
    Retry {
        /// Tries that the user's code failed so far.
        failed_tries: u32,
    },
    /// No try is left.
    GiveUp {
        /// Tries that the user's code failed.
        failed_tries: u32,
    },
    /// Another try has brought the outcome meanwhile.
    Done,
}

/// What is known of a mini-batch that is delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Run it.
    Run {
        /// Tries that the user's code failed so far.
        failed_tries: u32,
        /// Nodes lost with it so far.
        node_losses: u32,
    },
    /// Nodes were lost with it as often as allowed: let it fail.
    GiveUp,
    /// Its outcome is known: acknowledge and forget it.
    Done,
}

/// The names that are noted of a mini-batch whose tries failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotedTries {
    /// The tries that the user's code failed, in any order.
    pub failed: Vec<String>,
    /// The services of nodes that gave its last try back for another node, in any order.
    pub passed_on_by: Vec<String>,
}
