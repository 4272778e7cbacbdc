//! Segments: objects that hold the rows of many finished mini-batches, and the record of every try.
//!
//! Layout of a segment: the rows, one mini-batch after the other in plan order; the MessagePack-encoded
//! [`SegmentIndex`]; its length as `u64` little-endian; [`MAGIC`]. A segment is written once and never changed.
//! Segments and the specification of a job are enough to rebuild everything else about it.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::mini_batch::{MiniBatch, MiniBatchIndex, checksum};
use crate::storage::{ObjectMeta, Storage, StorageError};

/// Last bytes of every segment.
pub const MAGIC: &[u8; 8] = b"PRSSEG02";
/// Bytes after the index: its length and [`MAGIC`].
const TRAILER: u64 = 16;
/// Rows of one mini-batch at least this long are passed on without a copy, bytes.
const LARGE: usize = 1 << 20;

/// How a try ended (spec section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TryStatus {
    /// `run()` returned something usable.
    RunDone,
    /// `run()` raised, or returned something unusable.
    RunException,
    /// `run()` took longer than `run_invocation_timeout`.
    RunTimeout,
    /// The data could not be read.
    LoadException,
    /// Reading the data took longer than `task_overhead_timeout`.
    LoadTimeout,
    /// The process died.
    ProcessDied,
    /// The node was lost.
    NodeLost,
}

impl TryStatus {
    /// The word of the reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunDone => "RUN_DONE",
            Self::RunException => "RUN_EXCEPTION",
            Self::RunTimeout => "RUN_TIMEOUT",
            Self::LoadException => "LOAD_EXCEPTION",
            Self::LoadTimeout => "LOAD_TIMEOUT",
            Self::ProcessDied => "PROCESS_DIED",
            Self::NodeLost => "NODE_LOST",
        }
    }
}

/// A file that a mini-batch wrote below its output folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Path below the job's output, `/`-separated.
    pub path: String,
    /// Key of the object that holds it until it is published.
    pub key: String,
}

/// One try of one mini-batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TryRecord {
    /// The mini-batch.
    pub index: MiniBatchIndex,
    /// Checksum of its descriptor: tells on `resume` whether the plan is still the same.
    pub checksum: u32,
    /// Which try it was, from 1.
    pub number: u32,
    /// How it ended.
    pub status: TryStatus,
    /// Whether this is the mini-batch's outcome: it succeeded, or no try is left.
    pub last: bool,
    /// Position in [`SegmentIndex::processes`].
    pub process: u32,
    /// Start, microseconds since the Unix epoch.
    pub started_us: u64,
    /// Whole try, microseconds.
    pub elapsed_us: u64,
    /// CPU time of the process, microseconds.
    pub cpu_us: u64,
    /// Inside `run()`, microseconds.
    pub run_us: u64,
    /// Input items.
    pub items: u64,
    /// Items that succeeded: returned elements, at most `items` (spec E7).
    pub succeeded: u64,
    /// Elements that `run` returned.
    pub returned: u64,
    /// Class of the error; empty on success.
    pub category: String,
    /// Message of the error; empty on success.
    pub message: String,
    /// What the mini-batch consists of, for people.
    pub detail: String,
    /// Offset of its rows in the segment.
    pub offset: u64,
    /// Length of its rows, bytes.
    pub length: u64,
    /// Header line for the result, where the job asks for one.
    pub header: Option<String>,
    /// Files to publish with the outcome.
    pub files: Vec<OutputFile>,
    /// The descriptor of a mini-batch that failed for good, to name its items.
    #[serde(with = "serde_bytes")]
    pub failed: Option<Vec<u8>>,
    /// What the ledger calls this try; empty where it needs no name, because it succeeded.
    pub id: String,
}

impl TryRecord {
    /// A record of a try of the mini-batch with descriptor `body` that tells nothing of how it went: the rest
    /// is for the caller to fill in.
    pub fn new(index: MiniBatchIndex, body: &[u8], status: TryStatus) -> Self {
        Self {
            index,
            checksum: checksum(body),
            number: 0,
            status,
            last: false,
            process: 0,
            started_us: 0,
            elapsed_us: 0,
            cpu_us: 0,
            run_us: 0,
            items: 0,
            succeeded: 0,
            returned: 0,
            category: String::new(),
            message: String::new(),
            detail: MiniBatch::decode(body).map(|mini_batch| mini_batch.detail()).unwrap_or_default(),
            offset: 0,
            length: 0,
            header: None,
            files: Vec::new(),
            failed: None,
            id: String::new(),
        }
    }
}

/// A process that ran tries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessRef {
    /// `processNNN`.
    pub name: String,
    /// Its process id.
    pub pid: u32,
}

/// The table of contents of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentIndex {
    /// How often the job had been started when the segment was written: 1, and one more with each `resume`.
    pub incarnation: u32,
    /// The node that wrote it.
    pub node_id: u32,
    /// Address of the node.
    pub ip: String,
    /// The processes the tries refer to.
    pub processes: Vec<ProcessRef>,
    /// The tries, by mini-batch.
    pub tries: Vec<TryRecord>,
}

/// Collects tries until they are worth an object.
#[derive(Debug, Default)]
pub struct SegmentBuilder {
    processes: Vec<ProcessRef>,
    tries: Vec<(TryRecord, Bytes)>,
    bytes: usize,
}

impl SegmentBuilder {
    /// Adds a try and its rows; the record's place in the segment is filled in here.
    pub fn add(&mut self, mut record: TryRecord, process: &ProcessRef, rows: Bytes) {
        let known = self.processes.iter().rposition(|known| known == process);
        record.process = known.unwrap_or_else(|| {
            self.processes.push(process.clone());
            self.processes.len() - 1
        }) as u32;
        self.bytes += rows.len();
        self.tries.push((record, rows));
    }

    /// Rows so far, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tries so far.
    pub fn len(&self) -> usize {
        self.tries.len()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.tries.is_empty()
    }

    /// The object, in parts, and its table of contents.
    pub fn seal(mut self, incarnation: u32, node_id: u32, ip: &str) -> (Vec<Bytes>, SegmentIndex) {
        self.tries.sort_by_key(|(record, _)| (record.index, record.number));
        let mut parts = Vec::new();
        let mut tail = BytesMut::new();
        let mut offset = 0;
        let mut tries = Vec::with_capacity(self.tries.len());
        for (mut record, rows) in self.tries {
            record.offset = offset;
            record.length = rows.len() as u64;
            offset += record.length;
            if rows.len() >= LARGE {
                parts.push(tail.split().freeze());
                parts.push(rows);
            } else {
                tail.extend_from_slice(&rows);
            }
            tries.push(record);
        }
        let index =
            SegmentIndex { incarnation, node_id, ip: ip.to_owned(), processes: self.processes, tries };
        let encoded = rmp_serde::to_vec(&index).expect("an index holds only integers and strings");
        parts.push(tail.freeze());
        let mut trailer = BytesMut::new();
        trailer.put_u64_le(encoded.len() as u64);
        trailer.put_slice(MAGIC);
        parts.push(encoded.into());
        parts.push(trailer.freeze());
        parts.retain(|part| !part.is_empty());
        (parts, index)
    }
}

/// Why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The object is no segment.
    #[error("{key} is not a segment of this version: {reason}")]
    Damaged {
        /// The object.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Reads the table of contents of a segment.
pub async fn read_index(storage: &dyn Storage, object: &ObjectMeta) -> Result<SegmentIndex, SegmentError> {
    let damaged = |reason: &str| SegmentError::Damaged { key: object.key.clone(), reason: reason.to_owned() };
    let trailer_at = object.size.checked_sub(TRAILER).ok_or_else(|| damaged("it is too short"))?;
    // One read usually brings trailer and index.
    let guess = trailer_at.saturating_sub(256 << 10);
    let tail = storage.get_range(&object.key, guess..object.size).await?;
    let (rest, trailer) =
        tail.split_last_chunk::<16>().ok_or_else(|| damaged("it is shorter than the listing says"))?;
    if &trailer[8..] != MAGIC {
        return Err(damaged("it does not end as a segment does"));
    }
    let length = u64::from_le_bytes(trailer[..8].try_into().expect("eight bytes"));
    let start = trailer_at.checked_sub(length).ok_or_else(|| damaged("its index is longer than itself"))?;
    let encoded = if start >= guess {
        tail.slice((start - guess) as usize..rest.len())
    } else {
        storage.get_range(&object.key, start..trailer_at).await?
    };
    rmp_serde::from_slice(&encoded).map_err(|error| damaged(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::LocalStorage;

    fn record(index: u64) -> TryRecord {
        TryRecord { detail: "x".repeat(100), ..TryRecord::new(index, b"", TryStatus::RunDone) }
    }

    async fn round_trip(rows: Vec<(u64, Bytes)>) {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let mut builder = SegmentBuilder::default();
        for (index, rows) in &rows {
            let process = ProcessRef { name: format!("process{:03}", index % 2), pid: 1 };
            builder.add(record(*index), &process, rows.clone());
        }
        let (parts, index) = builder.seal(1, 0, "127.0.0.1");
        storage.put_parts("segments/a", parts).await.unwrap();
        let object = storage.list("segments/").await.unwrap().remove(0);
        assert_eq!(read_index(&storage, &object).await.unwrap(), index);
        for (wanted, expected) in rows {
            let found = index.tries.iter().find(|record| record.index == wanted).unwrap();
            let range = found.offset..found.offset + found.length;
            assert_eq!(storage.get_range("segments/a", range).await.unwrap(), expected);
        }
        assert!(index.tries.is_sorted_by_key(|record| record.index));
    }

    #[tokio::test]
    async fn rows_are_found_by_the_index_in_plan_order() {
        round_trip(vec![(2, "two\n".into()), (0, "zero\n".into()), (1, Bytes::new())]).await;
    }

    #[tokio::test]
    async fn large_rows_and_long_indices_are_read_back() {
        let large = Bytes::from(vec![b'x'; LARGE + 1]);
        round_trip(vec![(1, large), (0, "small\n".into()), (2, "last\n".into())]).await;
        round_trip((0..5000).rev().map(|index| (index, format!("{index}\n").into())).collect()).await;
    }

    #[tokio::test]
    async fn what_is_no_segment_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        for (key, body) in [("short", "x"), ("wrong", "0123456789abcdef0123")] {
            storage.put(key, body.into(), crate::storage::PutOptions::default()).await.unwrap();
            let object = ObjectMeta { key: key.to_owned(), size: body.len() as u64, version: String::new() };
            let error = read_index(&storage, &object).await.unwrap_err();
            assert!(matches!(error, SegmentError::Damaged { .. }), "{error}");
        }
    }
}
