//! The table of tries: a row for every try of a job, in parts, with a directory that says what is in each part.
//!
//! A reader who looks for one mini-batch, the failed ones or those of a node reads the directory and the parts that can have
//! them, whatever number of tries the job has. There are two tables of the same form, [`Which::All`] with every try, and
//! [`Which::Troubled`] with the tries that failed, the outcomes that lack items, and the outcomes of mini-batches that had failed
//! before. A part is a number of [blocks](Block) behind each other; one that is full does not change. The orchestrator writes
//! them (`prs-orchestrator`, `report::try_table`).
//!
//! Encoding: blocks and the directory are MessagePack as that of [statistics](crate::statistics): arrays of fields that grow at the end. The
//! directory begins with one byte, [`VERSION`]. Reading trusts nothing: a part has a checksum in the directory.

mod directory;
mod rows;

pub use directory::{Directory, DirectoryError, Extent, NODE_BITS, node_bit};
pub use rows::{Block, BlockError, Row, blocks};

/// Version of the encoding.
pub const VERSION: u8 = 1;

/// The folder of the table in the logs of a job.
pub const FOLDER: &str = "sys/job_report/tries/";

/// The name of the directory in it.
pub const DIRECTORY: &str = "directory";

/// One of the two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Which {
    /// Every try.
    All,
    /// The tries of mini-batches with which something was wrong.
    Troubled,
}

impl Which {
    /// The name of a part, from 0, below [`FOLDER`].
    pub fn name(self, part: usize) -> String {
        match self {
            Self::All => format!("{:06}", part + 1),
            Self::Troubled => format!("failed-{:06}", part + 1),
        }
    }

    /// Rows and bytes with which this part is full. They grow with the number of parts, so that the directory stays short.
    pub fn full(self, part: usize) -> (u64, u64) {
        let (rows, bytes) = match self {
            Self::All => (8_192, 2 << 20),
            Self::Troubled => (4_096, 2 << 20),
        };
        let doubled = (part / 1_024).min(16);
        (rows << doubled, bytes << doubled)
    }
}
