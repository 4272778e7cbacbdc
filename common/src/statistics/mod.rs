//! Statistics: what the orchestrator publishes about a job, of bounded size whatever the job's.
//!
//! There are five [parts](Part), each an object of its own: [`Live`], [`Activity`], [`Summary`], [`Errors`], [`Nodes`]. The
//! orchestrator fills them (`prs-orchestrator`, `report::statistics`), readers draw what they say and compute nothing. Every
//! number covers every try; what a bound leaves out is counted in a field that says so.
//!
//! Encoding: one byte with [`VERSION`], then MessagePack. A structure is an array of its fields in their order: a reader
//! takes fields that are missing at the end as zero, and skips those that it does not know. New fields go to the end; what
//! changes the meaning of a field changes the version. Reading trusts nothing: sizes and counts are checked before anything
//! of that size is allocated.
//!
//! Times are microseconds since the Unix epoch, durations are microseconds, unless the name of a field says otherwise.

mod activity;
mod errors;
mod histogram;
mod live;
mod nodes;
mod plan_map;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
mod varints;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use activity::{Activity, COLUMNS, Cells, Lane, LaneKind, MOST_LANES, MOST_NAMED_LANES, Marks};
pub use errors::{
    Curve, ErrorExample, ErrorGroup, Errors, MOST_EXAMPLES, MOST_GROUPS, MOST_TRACEBACKS, group_id,
};
pub use histogram::{BINS, Histogram};
pub use live::{
    FormerStart, InitState, Lately, Live, MOST_RECENT, MOST_RUNNING, Rate, RunningOn, Signs, SlowOn,
    Threshold, TryRow,
};
pub use nodes::{
    MOST_NODES, MOST_PROCESSES_OF_ALL, NODE_BINS, NodeRow, NodeState, Nodes, RunsHere, node_bin,
};
pub use plan_map::{Cell, MOST_CELLS, PlanMap};
pub use summary::{MOST_SLOWEST, Shares, Summary};
pub use timeline::{Bucket, MOST_BUCKETS, Pieces, Timeline};

/// Version of the encoding.
pub const VERSION: u8 = 1;

/// The folder of the parts in the logs of a job.
pub const FOLDER: &str = "sys/statistics/";

/// The file beside them that who reads the statistics of a job of the same machine touches now and then.
pub const WATCHED: &str = "watched";

/// A part of the statistics.
pub trait Part: Serialize + DeserializeOwned {
    /// Its name: that of its object and of its field in the ledger.
    const NAME: &'static str;
    /// Its longest encoding, bytes.
    const MOST_BYTES: usize;

    /// Whether counts and lengths in it are such as a writer keeps them; else what is wrong.
    fn check(&self) -> Result<(), &'static str>;
}

/// The names of all parts.
pub const NAMES: [&str; 5] = [Live::NAME, Activity::NAME, Summary::NAME, Errors::NAME, Nodes::NAME];

/// Why there are no statistics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatisticsError {
    /// There are more bytes than any writer writes.
    #[error("the statistics {part:?} are {bytes} bytes long; no version of prs writes more than {most}")]
    TooLong {
        /// The part.
        part: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// Another version of prs wrote it, in another form.
    #[error(
        "the statistics {part:?} are of version {version}, this prs reads version {VERSION}: look with the prs that runs the job"
    )]
    OtherVersion {
        /// The part.
        part: &'static str,
        /// Its version.
        version: u8,
    },
    /// It is not what was written.
    #[error("the statistics {part:?} are damaged: {reason}")]
    Damaged {
        /// The part.
        part: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// The bytes of a part.
pub fn encode<P: Part>(part: &P) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    rmp_serde::encode::write(&mut bytes, part)
        .expect("it holds only numbers, strings, bytes and lists of them");
    bytes
}

/// The part that `bytes` hold.
pub fn decode<P: Part>(bytes: &[u8]) -> Result<P, StatisticsError> {
    let part = P::NAME;
    let damaged = |reason: String| StatisticsError::Damaged { part, reason };
    // Another version may have larger ones; the version is told first, where it can be.
    let (version, body) = bytes.split_first().ok_or_else(|| damaged("nothing is there".to_owned()))?;
    if *version != VERSION {
        return Err(StatisticsError::OtherVersion { part, version: *version });
    }
    if bytes.len() > P::MOST_BYTES {
        return Err(StatisticsError::TooLong { part, bytes: bytes.len(), most: P::MOST_BYTES });
    }
    let decoded: P = crate::message_pack::decode(body).map_err(|error| damaged(error.to_string()))?;
    decoded.check().map_err(|reason| damaged(reason.to_owned()))?;
    Ok(decoded)
}

/// `text` cut to so many bytes, at a character.
pub fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Fails with `reason` unless `holds`.
fn ensure(holds: bool, reason: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(reason) }
}
