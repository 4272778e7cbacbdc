//! Nodes: a row for each.

use serde::{Deserialize, Serialize};

use super::{Part, ensure};
use crate::ledger::{MOST_LONGEST, MOST_PROCESSES, ProcessView};
use crate::mini_batch::MiniBatchIndex;

/// Rows, at most. Of more nodes the least active are one row.
pub const MOST_NODES: usize = 4_096;
/// Classes of the durations of `run()` on a node: the first is below a millisecond, each has twice the one before, the last
/// has all from four minutes on.
pub const NODE_BINS: usize = 20;

/// Processes of all nodes together, at most: of many nodes each has a few.
pub const MOST_PROCESSES_OF_ALL: usize = 4_096;

/// The class of a duration.
pub fn node_bin(micros: u64) -> usize {
    (micros.max(1).ilog2() as usize).saturating_sub(9).min(NODE_BINS - 1)
}

/// Whether a node is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeState {
    /// It serves the job.
    #[default]
    Present,
    /// It left in order.
    Left,
    /// It was not heard of for too long.
    Lost,
}

crate::record::record! {
    /// A mini-batch that runs on a node.
    pub struct RunsHere {
        /// Which one.
        pub index: MiniBatchIndex,
        /// When it began, microseconds since the Unix epoch by the orchestrator's clock.
        pub since_us: u64,
        /// Number of the process; nothing where that is not known.
        pub process: Option<u32>,
    }
}

crate::record::record! {
    /// A node. What is of tries is of the present start of the job.
    pub struct NodeRow {
        /// Its id in the job.
        pub node_id: u32,
        /// Whether it is there.
        pub state: NodeState,
        /// Name of the worker, 48 bytes at most.
        pub worker: String,
        /// Name of its host, 32 bytes at most.
        pub host: String,
        /// Its address.
        pub ip: String,
        /// Version of prs.
        pub version: String,
        /// Its slots.
        pub slots: u32,
        /// Processes that are up.
        pub processes: u32,
        /// Of these, those that import the script or are in `init()`.
        pub starting: u32,
        /// Mini-batches that it has in hand.
        pub in_hand: u64,
        /// Failures to import the script and of `init()`.
        pub init_failures: u32,
        /// Tries that ended.
        pub tries: u64,
        /// Of these, those that failed.
        pub failed_tries: u64,
        /// Items that succeeded.
        pub items: u64,
        /// Time of the tries, microseconds.
        pub busy_us: u64,
        /// Within `run()`, microseconds.
        pub run_us: u64,
        /// CPU time, microseconds.
        pub cpu_us: u64,
        /// Making the argument of `run()`, microseconds.
        pub load_us: u64,
        /// Median of `run()`, of tries that succeeded, microseconds, within a quarter.
        pub median_us: u64,
        /// What 95 of 100 of them took at most, microseconds.
        pub p95_us: u64,
        /// How many of them are in each class of [`node_bin`]; without the zeros at the end.
        pub bins: Vec<u64>,
        /// When the first try that is known began; 0 where none is.
        pub first_us: u64,
        /// When the node was last heard of.
        pub heard_us: u64,
        /// How far its clock is ahead, microseconds; times are told without it.
        pub clock_us: i64,
        /// Nodes that this row stands for: 1, and more for that of the least active ones.
        pub of: u64,
        /// What it does before it runs anything, 120 bytes at most; empty afterwards.
        pub preparing: String,
        /// Why it cannot go on, 120 bytes at most.
        pub fatal: String,
        /// Processes that have a mini-batch under way.
        pub busy: u32,
        /// Name of the program, the same for all jobs that it serves, 48 bytes at most.
        pub instance: String,
        /// Whether it gave up: `init()` failed too often in a row.
        pub gave_up: bool,
        /// What runs longest on it, the longest first, three at most.
        pub longest: Vec<RunsHere>,
        /// Its processes by number, those that ended last among them.
        pub each_process: Vec<ProcessView>,
    }
}

crate::record::record! {
    /// The nodes of a job, by id; the row for the least active ones is the last.
    pub struct Nodes {
        /// When this was written.
        pub written_us: u64,
        /// The rows.
        pub rows: Vec<NodeRow>,
    }
}

impl Part for Nodes {
    const NAME: &'static str = "nodes";
    const MOST_BYTES: usize = 640 << 10;

    fn check(&self) -> Result<(), &'static str> {
        ensure(self.rows.len() <= MOST_NODES + 1, "too many nodes")?;
        ensure(self.rows.iter().all(|row| row.bins.len() <= NODE_BINS), "a node of too many classes")?;
        ensure(self.rows.iter().all(|row| row.longest.len() <= MOST_LONGEST), "a node that tells too much")?;
        let bounded = self.rows.iter().all(|row| row.each_process.len() <= MOST_PROCESSES);
        ensure(bounded, "a node of too many processes")
    }
}
