//! Where a job stands: its state, its plan, its counts, how it ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::end_reason::EndReason;
use crate::mini_batch::MiniBatchIndex;

/// Where a job stands (spec S1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Known, not begun.
    Queued,
    /// Mini-batches are being planned; the first ones may run already.
    Scheduling,
    /// Everything is planned.
    Running,
    /// Every mini-batch has its outcome; the result is being written.
    Finalizing,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed,
    /// Ended because a user asked for it.
    Canceled,
}

impl JobState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Scheduling,
        Self::Running,
        Self::Finalizing,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
    ];

    /// Whether the job has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// The word of the reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Scheduling => "scheduling",
            Self::Running => "running",
            Self::Finalizing => "finalizing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

/// How far the planning has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Mini-batches published, or ended before; the first so many of the plan.
    pub scheduled: u64,
    /// Input items in them.
    pub items: u64,
    /// Sum of the [`fingerprint`](crate::mini_batch::fingerprint)s of their descriptors.
    #[serde(default)]
    pub descriptors: u64,
    /// Whether these are all.
    pub complete: bool,
    /// An index that is larger than any of the plan; 0 where the indexes of the plan are dense, as they are unless inputs were
    /// corrected after a former start.
    #[serde(default)]
    pub end: MiniBatchIndex,
}

/// A checkpoint is told behind what it is about: so many mini-batches more, at most, may have been published.
const AHEAD: u64 = 1 << 16;

impl Checkpoint {
    /// No mini-batch of the job has this index or a larger one.
    pub fn end_of_plan(&self) -> MiniBatchIndex {
        match self.end {
            0 if self.complete => self.scheduled,
            0 => self.scheduled + AHEAD,
            end => end,
        }
    }
}

/// A segment whose outcomes are final, but for those that another segment had brought before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedSegment {
    /// Key of the object.
    pub key: String,
    /// Size of the object, bytes.
    pub size: u64,
    /// Mini-batches of it whose outcome was known already.
    pub duplicates: Vec<MiniBatchIndex>,
}

/// The decision how a job ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conclusion {
    /// The final state.
    pub state: JobState,
    /// Why it failed or was canceled; empty for a job that completed.
    pub reason: String,
}

impl Conclusion {
    /// The job failed.
    pub fn failed(reason: &EndReason) -> Self {
        Self { state: JobState::Failed, reason: reason.to_string() }
    }

    /// A user ended the job.
    pub fn canceled(reason: &EndReason) -> Self {
        Self { state: JobState::Canceled, reason: reason.to_string() }
    }
}

/// Kinds of obstacles, by the thing that a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObstacleKind {
    /// An answer of the broker.
    Broker,
    /// An answer of the storage.
    Storage,
    /// An answer of the store of an input.
    Inputs,
    /// A worker that can watch over the job: those that tried fail for a reason of the job, or of their own.
    Watch,
}

impl ObstacleKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Broker, Self::Storage, Self::Inputs, Self::Watch];

    /// The word of the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Storage => "storage",
            Self::Inputs => "inputs",
            Self::Watch => "watch",
        }
    }
}

/// An obstacle that keeps a job from going on, noted by the workers that try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// Its kind.
    pub kind: ObstacleKind,
    /// The last error that told so.
    pub reason: String,
    /// Time since the first one.
    pub lasts: Duration,
}

/// Counts of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobProgress {
    /// How far the planning has come.
    pub checkpoint: Checkpoint,
    /// Mini-batches that succeeded.
    pub succeeded: u64,
    /// Mini-batches that failed for good.
    pub failed: u64,
    /// Input items of mini-batches with an outcome.
    pub items: u64,
    /// Items of these that succeeded.
    pub items_succeeded: u64,
    /// Segments committed.
    pub segments: u64,
    /// How the job ends, once that is decided.
    pub conclusion: Option<Conclusion>,
    /// When that was decided, microseconds since the Unix epoch; nothing where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concluded_us: Option<u64>,
    /// Whether a reader asked for its statistics within [`READS_FOR`](super::READS_FOR).
    #[serde(skip)]
    pub is_read: bool,
    /// The obstacle that keeps the job from going on, where one is known.
    #[serde(skip)]
    pub obstacle: Option<Obstacle>,
}

impl JobProgress {
    /// Mini-batches with an outcome.
    pub fn ended(&self) -> u64 {
        self.succeeded + self.failed
    }

    /// Items that failed.
    pub fn items_failed(&self) -> u64 {
        self.items - self.items_succeeded
    }

    /// Whether every mini-batch of the job has its outcome.
    pub fn is_complete(&self) -> bool {
        self.checkpoint.complete && self.ended() >= self.checkpoint.scheduled
    }
}
