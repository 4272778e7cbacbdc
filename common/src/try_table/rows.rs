//! The rows of the table of tries, in blocks of tries that have their node in common.

use serde_bytes::ByteBuf;

use crate::message_pack;
use crate::mini_batch::MiniBatchIndex;
use crate::record::record;
use crate::segment::{ErrorDetail, Printed, ProcessRef, TryStatus};

record! {
    /// A try.
    pub struct Row {
        /// The mini-batch.
        pub index: MiniBatchIndex,
        /// Which try it was, from 1.
        pub number: u32,
        /// How it ended, by its place in [`TryStatus::ALL`].
        pub status: u8,
        /// Whether it is the outcome of its mini-batch.
        pub is_outcome: bool,
        /// Position of its process in [`Block::processes`].
        pub process: u32,
        /// Start by the clock of its node, microseconds since the Unix epoch.
        pub started_us: u64,
        /// All of it, microseconds.
        pub elapsed_us: u64,
        /// CPU time of its process, microseconds.
        pub cpu_us: u64,
        /// Within `run()`, microseconds.
        pub run_us: u64,
        /// Making the argument of `run()`, microseconds.
        pub load_us: u64,
        /// Input items.
        pub items: u64,
        /// Those that succeeded.
        pub succeeded: u64,
        /// Elements that `run()` returned.
        pub returned: u64,
        /// Class of the error; empty where there is none.
        pub category: String,
        /// Its message.
        pub message: String,
        /// What the mini-batch consists of, for people.
        pub detail: String,
        /// Id of its error group; empty where there is none.
        pub group: String,
        /// Where in the logs of its process what it printed is, where that is known.
        pub printed: Option<Printed>,
        /// The input of the mini-batch, by its position, and its items, as JSON: in the table of troubled ones, of an outcome that failed or
        /// lacks items; else empty.
        pub named: ByteBuf,
    }
}

impl Row {
    /// How it ended; nothing for what this version of prs does not know.
    pub fn status(&self) -> Option<TryStatus> {
        TryStatus::ALL.get(self.status as usize).copied()
    }

    /// Whether it failed.
    pub fn has_failed(&self) -> bool {
        self.status != TryStatus::RunDone as u8
    }
}

record! {
    /// Tries of one node, of one segment.
    pub struct Block {
        /// The start of the job that they are of, from 1.
        pub incarnation: u32,
        /// The node.
        pub node_id: u32,
        /// Its address.
        pub ip: String,
        /// The processes that the rows refer to.
        pub processes: Vec<ProcessRef>,
        /// The tries.
        pub rows: Vec<Row>,
        /// What more is known of errors, by the ids of their groups; of each group once in a part.
        pub errors: Vec<(String, ErrorDetail)>,
    }
}

/// Why a part cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a part of the table of tries is damaged: {reason}")]
pub struct BlockError {
    reason: String,
}

/// The blocks of a part.
pub fn blocks(mut bytes: &[u8]) -> Result<Vec<Block>, BlockError> {
    let damaged = |reason: String| BlockError { reason };
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) =
            bytes.split_first_chunk::<4>().ok_or_else(|| damaged("it ends within a length".to_owned()))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (body, rest) =
            rest.split_at_checked(length).ok_or_else(|| damaged("it ends within a block".to_owned()))?;
        let block: Block = message_pack::decode(body).map_err(|error| damaged(error.to_string()))?;
        if block.rows.iter().any(|row| row.process as usize >= block.processes.len()) {
            return Err(damaged("a try ran in a process that its block does not name".to_owned()));
        }
        found.push(block);
        bytes = rest;
    }
    Ok(found)
}

impl Block {
    /// Appends it to a part.
    pub fn append_to(&self, part: &mut Vec<u8>) {
        let at = part.len();
        part.extend([0; 4]);
        rmp_serde::encode::write(part, self).expect("it holds only numbers, strings and lists of them");
        let length = (part.len() - at - 4) as u32;
        part[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
}
