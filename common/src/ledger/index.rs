//! The index of the jobs of a fleet: a summary of each, kept in the ledger so that a list of jobs costs no read of storage.
//!
//! Storage has the truth. A program that changes a job notes its summary here, as a hint that may be lost; a keeper compares the
//! index with storage, and fills it anew where the ledger has lost it. What a summary says is not the ledger's business.

use std::time::Duration;

use bytes::Bytes;

use super::JobState;

/// A job as the index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedJob {
    /// The job.
    pub job_id: String,
    /// Grows from start to start and from state to state: a summary with a lower number than that which is known is out of date.
    pub order: u64,
    /// What lists say of it.
    pub summary: Bytes,
    /// How it ended; nothing before that.
    pub ended: Option<EndedJob>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedJob {
    /// What it counts as.
    pub kind: EndKind,
    /// When it ended, microseconds since the Unix epoch.
    pub ended_us: u64,
}

/// What ends of jobs are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndKind {
    /// The compute target.
    pub target: String,
    /// The last state.
    pub state: JobState,
    /// Whether it completed with every item.
    pub is_complete: bool,
}

/// A job that the ledger did not know counts as ended where that was within this time: an older end was counted before the ledger lost
/// its counts, or is none of those that are counted.
pub(crate) const ENDED_LATELY: Duration = Duration::from_hours(1);

/// How a summary came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// By a program that changed the job, or looked at it now.
    Now,
    /// By the keeper, which found it in storage a while ago: it counts only where nothing is known of the job, and the job was
    /// not removed meanwhile.
    Found,
}

/// How far a program is that fills the index with the jobs of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filling<'a> {
    /// The program, which has the duty to keep the index.
    pub owner: &'a str,
    /// A name that no other filling has: what it has entered is lost with it.
    pub name: &'a str,
    /// Whether it begins.
    pub begins: bool,
    /// Jobs found.
    pub found: u64,
    /// Jobs there are.
    pub total: u64,
    /// Whether the index has all of them.
    pub is_filled: bool,
}

/// What changed in the index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexChanges {
    /// A name of this filling of the index, another one whenever it was lost; empty until every job was found.
    pub filling: String,
    /// Jobs found so far, while it is filled.
    pub found: u64,
    /// Jobs that there are to find.
    pub total: u64,
    /// Jobs in the index.
    pub jobs: u64,
    /// The number of the last change here: the next question begins behind it.
    pub last: u64,
    /// Changed jobs in the order of their changes, with what is known of each; nothing of one that was removed.
    pub changed: Vec<(String, Option<Bytes>)>,
}
