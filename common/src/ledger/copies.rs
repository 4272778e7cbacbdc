//! Copies: second runs of mini-batches that take much longer than others.
//!
//! The orchestrator wants one, the node that runs the mini-batch offers its descriptor, a node with an idle process takes
//! it. A copy has no message in the queue: that of the mini-batch stays with the node that had it first, so a copy that is
//! lost costs nothing, and blames nobody.

use serde::{Deserialize, Serialize};

use crate::mini_batch::MiniBatchIndex;

/// A copy that is wanted, and that no node has taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenCopy {
    /// The mini-batch.
    pub index: MiniBatchIndex,
    /// The worker that offers it; nothing before it does.
    pub offered_by: Option<String>,
}

/// What a node needs to run a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedCopy {
    /// Tries that the user's code had failed when it was offered.
    pub failed_tries: u32,
    /// The descriptor of the mini-batch, as the queue brought it.
    #[serde(with = "serde_bytes")]
    pub descriptor: Vec<u8>,
}

/// A mini-batch that a node runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTry {
    /// Which one.
    pub index: MiniBatchIndex,
    /// How long its try has been under way, milliseconds.
    pub age_ms: u64,
}
