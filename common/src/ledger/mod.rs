//! The ledger: what is known about a job while it runs.
//!
//! Which mini-batches are done, how often one was tried, which nodes serve the job, who watches over it. Every
//! verb is in the job's own terms and safe to repeat: a reply can be lost after the write was applied, so
//! writes are keyed by mini-batch and try, never bare increments. A ledger that is lost is rebuilt from the
//! segments.

mod embedded;
mod nodes;
mod offers;
#[cfg(feature = "fleet")]
mod redis;

use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::end_reason::EndReason;
use crate::mini_batch::MiniBatchIndex;

#[cfg(feature = "fleet")]
pub use self::redis::RedisLedger;
pub use embedded::EmbeddedLedger;
pub use nodes::{
    IdleWorker, InitFailure, MOST_SEEN_ERRORS, NodeInfo, NodeReport, NodeView, PrintedLine, SeenError,
};
pub use offers::{Bell, Books, Offer, Offered, Offers, Seats};

/// Meaning of a ledger error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerErrorKind {
    /// The job is not known (any more).
    NotFound,
    /// A job of this id exists.
    AlreadyExists,
    /// The server refuses the caller (password, rights).
    Refused,
    /// Another program has the duty by now that the call is a part of.
    Superseded,
    /// The server cannot be reached for now.
    Unavailable,
}

/// An error of the ledger.
#[derive(Debug, thiserror::Error)]
#[error("{}{message}", of_job(.job))]
pub struct LedgerError {
    /// What the error means to a caller.
    pub kind: LedgerErrorKind,
    /// The job; empty when there was no connection yet.
    pub job: String,
    /// The cause, in words.
    pub message: String,
}

impl LedgerError {
    /// An error of the books of `job`.
    fn new(kind: LedgerErrorKind, job: &str, message: impl Into<String>) -> Self {
        Self { kind, job: job.to_owned(), message: message.into() }
    }

    /// The error of a program that writes without its duty.
    fn superseded(job: &str, duty: Duty) -> Self {
        let message = format!("another program has the duty to {} it by now", duty.as_str());
        Self::new(LedgerErrorKind::Superseded, job, message)
    }

    /// Whether the same call may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        self.kind == LedgerErrorKind::Unavailable
    }
}

fn of_job(job: &str) -> String {
    if job.is_empty() { String::new() } else { format!("job {job}: ") }
}

/// Where a job stands (spec S1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// How the limits of a job bound the tries of a mini-batch (spec S3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TryLimits {
    /// Tries that the user's code may fail.
    pub run_max_try: u32,
    /// Losses of a node while it ran the mini-batch.
    pub max_node_losses: u32,
}

impl TryLimits {
    /// Whether no try is left after so many failed ones and so many lost nodes.
    pub fn are_reached(self, failed_tries: u32, node_losses: u32) -> bool {
        failed_tries >= self.run_max_try || node_losses >= self.max_node_losses
    }
}

/// How far the planning has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Mini-batches published: all below this index.
    pub scheduled: u64,
    /// Input items in them.
    pub items: u64,
    /// Sum of the [`fingerprint`](crate::mini_batch::fingerprint)s of their descriptors.
    #[serde(default)]
    pub descriptors: u64,
    /// Whether these are all.
    pub complete: bool,
}

/// A checkpoint is told behind what it is about: so many mini-batches more, at most, may have been published.
const AHEAD: u64 = 1 << 16;

impl Checkpoint {
    /// No mini-batch of the job has this index or a larger one.
    pub fn end_of_plan(&self) -> MiniBatchIndex {
        if self.complete { self.scheduled } else { self.scheduled + AHEAD }
    }
}

/// The outcome of one mini-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MiniBatchOutcome {
    /// The mini-batch.
    pub index: MiniBatchIndex,
    /// Whether a try succeeded; otherwise none is left.
    pub succeeded: bool,
    /// Input items.
    pub items: u64,
    /// Items that succeeded.
    pub items_succeeded: u64,
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

/// Why a try failed, in the ledger's eyes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blame {
    /// The user's code: exception, timeout, death of its process.
    Code,
    /// The node was lost while it ran the mini-batch.
    Node,
}

/// A try that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedTry {
    /// The mini-batch.
    pub index: MiniBatchIndex,
    /// Names the try among all tries of the mini-batch; the same call may come twice.
    pub id: String,
    /// Whose fault it was.
    pub blame: Blame,
}

/// What is to be done about a mini-batch after a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Try it again; so many tries have failed by the user's code.
    Retry {
        /// Tries that the user's code failed so far.
        failed_tries: u32,
    },
    /// No try is left.
    GiveUp {
        /// Tries that the user's code failed.
        failed_tries: u32,
    },
    /// Another try has brought the outcome meanwhile.
    Done,
}

/// What is known of a mini-batch that is delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Run it.
    Run {
        /// Tries that the user's code failed so far.
        failed_tries: u32,
        /// Nodes lost with it so far.
        node_losses: u32,
    },
    /// Nodes were lost with it as often as allowed: let it fail.
    GiveUp,
    /// Its outcome is known: acknowledge and forget it.
    Done,
}

/// A duty that one program at a time has for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duty {
    /// To watch over the job and write its result: the orchestrator.
    Watch,
    /// To publish its plan.
    Schedule,
}

impl Duty {
    /// A word for keys and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Schedule => "schedule",
        }
    }
}

/// What a job wants of its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Carry on.
    Run,
    /// Everything is done: end the processes in order and leave.
    Finish,
    /// The job ends early: start nothing, stop what runs, commit what is finished, leave.
    Stop,
    /// The ledger does not know this node (it was lost and rebuilt): join again.
    Rejoin,
}

impl Signal {
    /// What a job in this state, and with this conclusion if there is one, wants of its nodes.
    pub fn of(state: JobState, conclusion: Option<JobState>) -> Self {
        match state {
            _ if conclusion.is_some_and(|end| end != JobState::Completed) => Self::Stop,
            JobState::Failed | JobState::Canceled => Self::Stop,
            JobState::Finalizing | JobState::Completed => Self::Finish,
            JobState::Queued | JobState::Scheduling | JobState::Running => Self::Run,
        }
    }
}

/// The ledger of a fleet, or of one process: the books of its jobs, and what brings jobs and workers together.
///
/// # Contract
/// * Every call may be repeated with the same arguments and has its effect once.
/// * An `offer` rings the bells of its target where it is new or has changed; so does `ring`.
#[async_trait]
pub trait Ledger: Debug + Display + Send + Sync {
    /// The books of a start of a job, which need not be there.
    fn job(&self, run: &str) -> Arc<dyn JobLedger>;

    /// Offers a job to the workers of `target`.
    async fn offer(&self, target: &str, offer: &Offer) -> Result<(), LedgerError>;
    /// Takes the offer of a run back.
    async fn withdraw(&self, target: &str, run: &str) -> Result<(), LedgerError>;
    /// The offers of `target`, with the nodes that were heard of within `quiet`. A `worker` that says who it is counts
    /// as idle.
    async fn offers(
        &self,
        target: &str,
        worker: Option<&NodeInfo>,
        quiet: Duration,
    ) -> Result<Offers, LedgerError>;
    /// How many workers of `target` looked for something to do within this time.
    async fn idle(&self, target: &str, within: Duration) -> Result<u64, LedgerError>;
    /// The same, one by one; those that looked longest ago first.
    async fn idle_workers(&self, target: &str, within: Duration) -> Result<Vec<IdleWorker>, LedgerError>;
    /// The targets that workers looked for something to do for, in the last days.
    async fn targets(&self) -> Result<Vec<String>, LedgerError>;
    /// Takes the duty to fill the offers of `target` from storage, for `time`; false while another worker has it, or
    /// they are filled.
    async fn begin_to_fill(&self, target: &str, time: Duration) -> Result<bool, LedgerError>;
    /// Notes that the offers of `target` are filled; after `time` they are compared with storage again.
    async fn filled(&self, target: &str, time: Duration) -> Result<(), LedgerError>;
    /// Notes which storage the ledger belongs to, unless that is noted already; returns the identity of that storage.
    async fn belongs_to(&self, storage: &str) -> Result<String, LedgerError>;
    /// Rings the bells of `target`.
    async fn ring(&self, target: &str) -> Result<(), LedgerError>;
    /// A bell that rings for all of `targets`.
    fn bell(&self, targets: &[String]) -> Box<dyn Bell>;
}

/// The books of one start of a job. Where they are not there (any more), a call fails with
/// [`LedgerErrorKind::NotFound`].
///
/// # Contract
/// * Every call may be repeated with the same arguments and has its effect once.
/// * `commit`: for each mini-batch the first commit wins, and later ones change nothing.
/// * After a `commit`, a `record_failure` or a `checkpoint` has returned, `progress` shows it to everyone.
#[async_trait]
pub trait JobLedger: Debug + Send + Sync {
    /// Enters the job. [`LedgerErrorKind::AlreadyExists`] when it is there.
    async fn create(&self, limits: TryLimits) -> Result<(), LedgerError>;
    /// The state of the job.
    async fn state(&self) -> Result<JobState, LedgerError>;
    /// Moves the job to another state; false when it has ended already (an ended job never changes). `fence` is the number of
    /// the caller's lease of [`Duty::Watch`]; [`LedgerErrorKind::Superseded`] where that is not the last one given.
    async fn set_state(&self, state: JobState, fence: u64) -> Result<bool, LedgerError>;
    /// Forgets the job, which is to be filled anew, where `owner` watches over it and its early end is not decided;
    /// otherwise false, and it stays as it is. One that is not known is forgotten already.
    async fn reset(&self, owner: &str) -> Result<bool, LedgerError>;
    /// Forgets the job.
    async fn remove(&self) -> Result<(), LedgerError>;

    /// Notes how far the planning has come; a checkpoint behind the present one changes nothing. `fence` is the number of
    /// the caller's lease of [`Duty::Schedule`], as in [`set_state`](Self::set_state).
    async fn checkpoint(&self, checkpoint: Checkpoint, fence: u64) -> Result<(), LedgerError>;
    /// The counts.
    async fn progress(&self) -> Result<JobProgress, LedgerError>;
    /// Whether each of these mini-batches has its outcome.
    async fn ended(&self, indexes: &[MiniBatchIndex]) -> Result<Vec<bool>, LedgerError>;

    /// Makes the outcomes in a segment final; returns the mini-batches whose outcome was known already. Once the plan
    /// is known to be complete, one that it does not have counts as these do, and is not remembered.
    async fn commit(
        &self,
        key: &str,
        size: u64,
        outcomes: &[MiniBatchOutcome],
    ) -> Result<Vec<MiniBatchIndex>, LedgerError>;
    /// Committed segments in the order of their commits, from the `after`-th on, `limit` (1 or more) of
    /// them at most.
    async fn segments(&self, after: u64, limit: usize) -> Result<Vec<CommittedSegment>, LedgerError>;

    /// Notes a failed try and decides what is next.
    async fn record_failure(&self, failed: &FailedTry) -> Result<Verdict, LedgerError>;
    /// Notes that a mini-batch which was delivered before is about to run on a node. A start that another
    /// node noted before, and that brought no outcome, counts as a loss of that node. `start` names this start
    /// among all of the mini-batch.
    async fn begin(&self, index: MiniBatchIndex, start: &str) -> Result<Begin, LedgerError>;
    /// Takes a noted start back: it ended in order, without an outcome, and blames nobody.
    async fn abandon(&self, index: MiniBatchIndex, start: &str) -> Result<(), LedgerError>;

    /// Enters a node, whether or not a seat is free, and gives it its id: the one the worker has already; else `wish`,
    /// where that is free; else the lowest free one.
    async fn join(&self, info: &NodeInfo, wish: Option<u32>) -> Result<u32, LedgerError>;
    /// Enters a node where a seat is free, and gives it its id; nothing where the job has enough. A worker that has a
    /// seat keeps it.
    async fn take_seat(&self, info: &NodeInfo, seats: Seats) -> Result<Option<u32>, LedgerError>;
    /// Notes what a node says of itself and tells it what the job wants. `worker` is the name it joined with.
    async fn heartbeat(&self, node_id: u32, worker: &str, report: &NodeReport)
    -> Result<Signal, LedgerError>;
    /// Notes that a node leaves in order.
    async fn leave(&self, node_id: u32) -> Result<(), LedgerError>;
    /// The nodes of the job.
    async fn nodes(&self) -> Result<Vec<NodeView>, LedgerError>;

    /// Decides how the job ends. The first conclusion is remembered, and returned to everyone who comes later.
    /// Nodes of a job that is to fail or was canceled are told to stop.
    async fn conclude(&self, conclusion: &Conclusion) -> Result<Conclusion, LedgerError>;

    /// Takes or renews the lease of a duty. Returns its fencing number, which grows whenever the lease changes
    /// hands, also where the ledger was lost in between, or nothing while another owner holds it.
    async fn lease(&self, duty: Duty, owner: &str, time: Duration) -> Result<Option<u64>, LedgerError>;
    /// Gives a lease up before its time; one of another owner stays.
    async fn release(&self, duty: Duty, owner: &str) -> Result<(), LedgerError>;
}
