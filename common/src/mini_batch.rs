//! The mini-batch: the unit of work, and its descriptor as it travels through the queue.
//!
//! A descriptor is encoded once, by the planner, and forwarded unread from the queue to the process that
//! runs it; whoever needs to look inside borrows from the encoded bytes. It holds no row and no file content.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// Position of a mini-batch in the plan of its job, dense from 0 (spec D6).
pub type MiniBatchIndex = u64;

/// What one mini-batch consists of, as the planner wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MiniBatch<'a> {
    /// Position in the plan.
    pub index: MiniBatchIndex,
    /// Position of the input in the job's list of inputs.
    pub input: u32,
    /// The data.
    #[serde(borrow)]
    pub work: Work<'a>,
}

/// The data of a mini-batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work<'a> {
    /// Files of a file dataset.
    Files {
        /// Absolute folder all paths are below; empty when the paths are absolute themselves.
        #[serde(borrow)]
        base: &'a str,
        /// Paths relative to `base`, in listing order.
        #[serde(borrow)]
        paths: Vec<&'a str>,
    },
    /// A slice of a delimited text file: whole records, without the header record.
    Delimited {
        /// Local path of the plain file: absolute, or, for a decompressed copy, relative to the scratch
        /// folder of the job.
        #[serde(borrow)]
        path: &'a str,
        /// The file as the user named it (it differs from `path` for compressed files), for messages.
        #[serde(borrow)]
        origin: &'a str,
        /// Size and time of change of `origin` when it was planned: a changed file is another mini-batch.
        #[serde(borrow)]
        version: &'a str,
        /// First byte of the slice.
        start: u64,
        /// One past the last byte of the slice.
        end: u64,
        /// Records the planner counted in the slice.
        records: u64,
        /// Encoded dialect and schema of the file (the reader's own format), the same for all its slices.
        #[serde(borrow, with = "serde_bytes")]
        schema: &'a [u8],
    },
    /// A part of a file that cannot be split into records; running it fails with this reason (spec D5).
    Unreadable {
        /// The file.
        #[serde(borrow)]
        origin: &'a str,
        /// Where the trouble starts, bytes (in the plain text of a compressed file).
        offset: u64,
        /// What is wrong.
        #[serde(borrow)]
        reason: &'a str,
    },
}

impl<'a> MiniBatch<'a> {
    /// Reads a descriptor, borrowing from `body`.
    pub fn decode(body: &'a [u8]) -> Result<Self, rmp_serde::decode::Error> {
        rmp_serde::from_slice(body)
    }

    /// The index alone, from an encoded descriptor.
    pub fn peek_index(body: &[u8]) -> Result<MiniBatchIndex, rmp_serde::decode::Error> {
        rmp_serde::from_slice::<(MiniBatchIndex, IgnoredAny, IgnoredAny)>(body).map(|(index, _, _)| index)
    }

    /// Writes the descriptor.
    pub fn encode(&self) -> Vec<u8> {
        rmp_serde::to_vec(self).expect("a descriptor holds only integers, strings and bytes")
    }

    /// The id the entry script and the reports see.
    pub fn id(&self) -> String {
        id_of(self.index)
    }

    /// Input items as far as the plan knows: files, or records.
    pub fn items(&self) -> u64 {
        match &self.work {
            Work::Files { paths, .. } => paths.len() as u64,
            Work::Delimited { records, .. } => *records,
            Work::Unreadable { .. } => 1,
        }
    }

    /// One line that tells a person what the mini-batch consists of ("Mini-batch Detail" of the report).
    pub fn detail(&self) -> String {
        match &self.work {
            Work::Files { paths, .. } => match paths.as_slice() {
                [] => String::new(),
                [only] => (*only).to_owned(),
                [first, rest @ ..] => format!("{first} and {} more", rest.len()),
            },
            Work::Unreadable { origin, offset, .. } => format!("{origin} from byte {offset}"),
            Work::Delimited { origin, start, end, .. } => format!("{origin} bytes {start}-{end}"),
        }
    }
}

/// Checksum of an encoded descriptor: the same plan gives the same checksums (spec D6).
pub fn checksum(body: &[u8]) -> u32 {
    crc32fast::hash(body)
}

/// The `mini_batch_id` of the mini-batch at `index`; fixed width, so that ids sort as the plan does.
pub fn id_of(index: MiniBatchIndex) -> String {
    format!("mb-{index:010}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_survive_the_wire_and_borrow_from_it() {
        let files = MiniBatch {
            index: 7,
            input: 0,
            work: Work::Files { base: "/data", paths: vec!["a/1.png", "b.png"] },
        };
        let slice = MiniBatch {
            index: 8,
            input: 1,
            work: Work::Delimited {
                path: "/cache/x.csv",
                origin: "/in/x.csv.gz",
                version: "100-1",
                start: 10,
                end: 1 << 40,
                records: 3,
                schema: &[1, 2, 3],
            },
        };
        for mini_batch in [files, slice] {
            let body = mini_batch.encode();
            assert_eq!(MiniBatch::decode(&body).unwrap(), mini_batch);
            assert_eq!(MiniBatch::peek_index(&body).unwrap(), mini_batch.index);
        }
        assert_eq!(id_of(7), "mb-0000000007");
    }
}
