//! Segments: objects that hold the rows of many finished mini-batches, and the record of every try.
//!
//! Layout of a segment: the rows, one mini-batch after the other in plan order; the MessagePack-encoded
//! [`SegmentIndex`]; its length as `u64` and its CRC32C as `u32`, both little-endian; [`MAGIC`]. The index has the CRC32C
//! of the rows of each try and the segment's own key, so that nothing is taken from a segment that storage gives back
//! otherwise than it was put (spec S15). A segment is written once and never changed. Segments and the specification
//! of a job are enough to rebuild everything else about it.

mod bundle;
mod error_detail;
mod read;
mod split;

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::checksum::crc32c;
use crate::file_content::Contents;
use crate::mini_batch::{MiniBatch, MiniBatchIndex, checksum};

pub use bundle::{Bundle, Bundled};
pub use error_detail::ErrorDetail;
pub use read::{READS, ReadIndex, SegmentError, read_again_after, read_index};
pub use split::PutTogether;

/// Last bytes of every segment.
pub const MAGIC: &[u8; 8] = b"PRSSEG05";
/// Distinct errors that a segment explains.
const MOST_ERRORS: usize = 64;
/// Rows of one mini-batch at least this long are passed on without a copy, bytes.
const LARGE: usize = 1 << 20;

/// How a try ended (spec section 5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TryStatus {
    /// `run()` returned something usable.
    #[default]
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
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::RunDone,
        Self::RunException,
        Self::RunTimeout,
        Self::LoadException,
        Self::LoadTimeout,
        Self::ProcessDied,
        Self::NodeLost,
    ];

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
    /// Its size, bytes.
    pub size: u64,
    /// CRC32C of its content.
    pub crc: u32,
}

/// A try that took as long tells where what it printed is, also where it succeeded.
pub const LONG: Duration = Duration::from_millis(10);

/// Where what a try printed is: ranges of bytes in the standard output and the standard error of its process, each with its begin
/// and its end. What children print late, and what the other mini-batches of a process print that has several under way, is
/// in there, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// In `user/stdout/<node>/<process>.stdout.txt`.
    pub stdout: (u64, u64),
    /// In `user/stderr/<node>/<process>.stderr.txt`.
    pub stderr: (u64, u64),
}

impl Printed {
    /// What was printed between two moments at which the logs were so long, standard output first; nothing where nothing was.
    pub fn between(before: (u64, u64), after: (u64, u64)) -> Option<Self> {
        let printed =
            Self { stdout: (before.0, after.0.max(before.0)), stderr: (before.1, after.1.max(before.1)) };
        let is_empty = |(from, to): (u64, u64)| from == to;
        (!is_empty(printed.stdout) || !is_empty(printed.stderr)).then_some(printed)
    }
}

/// One try of one mini-batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Class of the error; empty on success, unless items are missing.
    pub category: String,
    /// Message of the error; empty on success, unless items are missing.
    pub message: String,
    /// What the mini-batch consists of, for people.
    pub detail: String,
    /// Offset of its rows in the segment.
    pub offset: u64,
    /// Length of its rows, bytes.
    pub length: u64,
    /// CRC32C of its rows.
    pub crc: u32,
    /// Header line for the result, where the job asks for one.
    pub header: Option<String>,
    /// Files to publish with the outcome.
    pub files: Vec<OutputFile>,
    /// The descriptor of a mini-batch that failed for good, or that lacks items, to name its items.
    #[serde(with = "serde_bytes")]
    pub failed: Option<Vec<u8>>,
    /// What the ledger calls this try; empty where it needs no name, because it succeeded.
    pub id: String,
    /// Position in [`SegmentIndex::errors`] of what more is known of the error.
    pub error: Option<u32>,
    /// Until `run()` began, microseconds: making its argument of the data.
    #[serde(default)]
    pub load_us: u64,
    /// Where in the logs of its process what it printed is, of a try that failed or took [`LONG`] and printed anything.
    #[serde(default)]
    pub printed: Option<Printed>,
    /// Number of the process of the node in whose place that of this try was started, because mini-batches failed in it; on
    /// the first try of a process.
    #[serde(default)]
    pub in_place_of: Option<u32>,
    /// What the parts of a mini-batch that was split make together, where it is their outcome, and no try of its own.
    #[serde(default)]
    pub together: Option<Box<PutTogether>>,
    /// Contents of the local files that it had, where their content is not in its descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Box<Contents>>,
}

impl TryRecord {
    /// A record of a try of the mini-batch with descriptor `body` that tells nothing of how it went: the rest
    /// is for the caller to fill in.
    pub fn new(index: MiniBatchIndex, body: &[u8], status: TryStatus) -> Self {
        Self {
            index,
            checksum: checksum(body),
            status,
            detail: MiniBatch::decode(body).map(|mini_batch| mini_batch.detail()).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Whether every item of the mini-batch succeeded.
    pub fn is_whole(&self) -> bool {
        self.status == TryStatus::RunDone && self.succeeded >= self.items
    }

    /// Whether it is an outcome that counts. Of a former start of the job only what is whole does: what failed or
    /// lacks items is tried anew.
    pub fn is_outcome(&self, of_this_start: bool) -> bool {
        self.last && (of_this_start || self.is_whole())
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
    /// Key of the segment: tells an object that storage gives back in place of another.
    pub key: String,
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
    /// The distinct errors of the tries.
    pub errors: Vec<ErrorDetail>,
}

impl SegmentIndex {
    /// What more is known of the error of one of its tries.
    pub fn error_of(&self, record: &TryRecord) -> Option<&ErrorDetail> {
        self.errors.get(record.error? as usize)
    }
}

/// Collects tries until they are worth an object.
#[derive(Debug, Default)]
pub struct SegmentBuilder {
    processes: Vec<ProcessRef>,
    tries: Vec<(TryRecord, Bytes)>,
    errors: Vec<ErrorDetail>,
    bytes: usize,
}

impl SegmentBuilder {
    /// Adds a try and its rows; the record's place in the segment and the checksum of the rows are filled in here.
    pub fn add(&mut self, mut record: TryRecord, process: &ProcessRef, rows: Bytes) {
        let known = self.processes.iter().rposition(|known| known == process);
        record.process = known.unwrap_or_else(|| {
            self.processes.push(process.clone());
            self.processes.len() - 1
        }) as u32;
        record.crc = crc32c(&rows);
        self.bytes += rows.len();
        self.tries.push((record, rows));
    }

    /// Takes note of what is known of an error: the position is for [`TryRecord::error`]. Nothing where the segment has
    /// enough of them; errors that are alike are one.
    pub fn explain(&mut self, error: &ErrorDetail) -> Option<u32> {
        let known = self.errors.iter().rposition(|known| known.is_like(error));
        let position = known.or_else(|| {
            (self.errors.len() < MOST_ERRORS).then(|| {
                self.errors.push(error.clone());
                self.errors.len() - 1
            })
        });
        position.map(|position| position as u32)
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

    /// The object `key`, in parts, and its table of contents.
    pub fn seal(mut self, key: &str, incarnation: u32, node_id: u32, ip: &str) -> (Vec<Bytes>, SegmentIndex) {
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
        let index = SegmentIndex {
            key: key.to_owned(),
            incarnation,
            node_id,
            ip: ip.to_owned(),
            processes: self.processes,
            tries,
            errors: self.errors,
        };
        let encoded = rmp_serde::to_vec(&index).expect("an index holds only integers and strings");
        parts.push(tail.freeze());
        let mut trailer = BytesMut::new();
        trailer.put_u64_le(encoded.len() as u64);
        trailer.put_u32_le(crc32c(&encoded));
        trailer.put_slice(MAGIC);
        parts.push(encoded.into());
        parts.push(trailer.freeze());
        parts.retain(|part| !part.is_empty());
        (parts, index)
    }
}
