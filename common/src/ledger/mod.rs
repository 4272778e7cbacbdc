//! The ledger: what is known about a job while it runs.
//!
//! Which mini-batches are done, how often one was tried, which nodes serve the job, who watches over it. Every
//! verb is in the job's own terms and safe to repeat: a reply can be lost after the write was applied, so
//! writes are keyed by mini-batch and try, never bare increments. A ledger that is lost is rebuilt from the
//! segments.

mod copies;
mod embedded;
mod error;
mod history;
mod index;
mod nodes;
mod offers;
mod progress;
#[cfg(feature = "fleet")]
mod redis;
mod tries;

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::mini_batch::MiniBatchIndex;

#[cfg(feature = "fleet")]
pub use self::redis::RedisLedger;
pub use copies::{OfferedCopy, OpenCopy, RunningTry};
pub use embedded::EmbeddedLedger;
pub use error::{LedgerError, LedgerErrorKind};
pub use history::{HISTORY_STEP, HISTORY_STEPS, TargetCounts};
pub use index::{EndKind, EndedJob, Filling, IndexChanges, IndexedJob, Noted};
pub use nodes::{
    HeldMiniBatch, IdleWorker, InitFailure, MOST_DETAIL, MOST_KILLED_FOR, MOST_LONGEST, MOST_PROCESSES,
    MOST_RUNNING, MOST_SEEN_ERRORS, NodeInfo, NodeLoad, NodeReport, NodeView, OF_MODEL, OF_SIDE_INPUT,
    PrintedLine, ProcessExit, ProcessView, SeenError, TryUnderWay,
};
pub use offers::{Bell, KnownJob, Offer, Offered, Offers, Seats};
pub use progress::{Checkpoint, CommittedSegment, Conclusion, JobProgress, JobState, Obstacle, ObstacleKind};
pub use tries::{Begin, Blame, FailedTry, MiniBatchOutcome, NotedTries, TryLimits, Verdict};

/// How long it is remembered that an autoscaler asked for a target.
pub const ASK_IS_TOLD: Duration = Duration::from_hours(1);
/// Targets of which that is remembered: who asks may name what is none.
const MOST_ASKED: usize = 1_000;

/// Who has read the statistics of a job counts as a reader for so long.
pub const READS_FOR: Duration = Duration::from_secs(10);

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
    /// The worker was asked to leave: let what runs end, give the rest back, and look for no other job.
    Leave,
}

impl Signal {
    /// The same for a worker that was asked to leave, or was not.
    #[must_use]
    pub fn unless_asked_to_leave(self, leaves: bool) -> Self {
        if leaves && self == Self::Run { Self::Leave } else { self }
    }

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

/// A node of which nothing was heard for so long does not count as live.
pub const LIVE: Duration = Duration::from_secs(3);

/// The answer to a heartbeat: the signal, and how the job stands for the processes of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The job's signal to the node.
    pub signal: Signal,
    /// Nodes of the job that were heard of within [`LIVE`], this one among them.
    pub live_nodes: u32,
    /// Whether a mini-batch of the job succeeded.
    pub has_succeeded: bool,
}

/// The memory of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that it uses.
    pub used: u64,
    /// Bytes that it may use, where it may not use all that its host has.
    pub limit: Option<u64>,
}

/// The ledger of a fleet, or of one process: what it keeps of each job, and what brings jobs and workers together.
///
/// # Contract
/// * Every call may be repeated with the same arguments and has its effect once.
/// * An `offer` rings the bells of its target where it is new or has changed; so does `ring`.
#[async_trait]
pub trait Ledger: Debug + Display + Send + Sync {
    /// A handle to what the ledger keeps of a start of a job, which may be nothing.
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
    /// The time of the server, microseconds since 1970, and its version, empty where it does not tell.
    async fn clock(&self) -> Result<(u64, String), LedgerError>;
    /// The memory of the server as far as this user may ask for it, and its version as [`Self::clock`] has it.
    async fn memory(&self) -> Result<(Option<Memory>, String), LedgerError>;
    /// Notes which storage the ledger belongs to, unless that is noted already; returns the identity of that storage.
    async fn belongs_to(&self, storage: &str) -> Result<String, LedgerError>;
    /// Rings the bells of `target`.
    async fn ring(&self, target: &str) -> Result<(), LedgerError>;
    /// A bell that rings for all of `targets`.
    fn bell(&self, targets: &[String]) -> Box<dyn Bell>;

    /// Notes what `target` wants and has, for its history: the first note of each step of [`HISTORY_STEP`] counts, and others
    /// change nothing (false).
    async fn note_history(&self, target: &str, counts: TargetCounts) -> Result<bool, LedgerError>;
    /// The history of `target`: the steps of the last day that were noted, in their order, each with when it began (microseconds
    /// since the Unix epoch, by the clock of the ledger).
    async fn history(&self, target: &str) -> Result<Vec<(u64, TargetCounts)>, LedgerError>;

    /// Notes that an autoscaler asks for `target` now. That is remembered for [`ASK_IS_TOLD`], of 1,000 targets at most: of others nothing is
    /// noted.
    async fn note_ask(&self, target: &str) -> Result<(), LedgerError>;
    /// The targets that autoscalers asked for, each with how long ago that was last.
    async fn asks(&self) -> Result<HashMap<String, Duration>, LedgerError>;

    /// Asks the worker with this `instance` to leave: its next look at offers or its next heartbeat tells it so. The wish is
    /// forgotten after `time`.
    async fn drain(&self, worker: &str, reason: &str, time: Duration) -> Result<(), LedgerError>;
    /// The workers that were asked to leave and have not ended, with the reason for each.
    async fn draining(&self) -> Result<HashMap<String, String>, LedgerError>;
    /// Forgets a worker of `target` that ends, as it looked for something to do.
    async fn retire(&self, target: &str, worker: &NodeInfo) -> Result<(), LedgerError>;

    /// Notes a job in the index of jobs; false where what is known of it stands. The first note that says how a start of it ended counts
    /// that end, whichever program makes it, unless the job was found.
    async fn note_job(&self, job: &IndexedJob, noted: Noted) -> Result<bool, LedgerError>;
    /// Notes in the index that a job was removed.
    async fn forget_job(&self, job_id: &str) -> Result<(), LedgerError>;
    /// What changed in the index behind the change with the number `since`, the first `limit` changes of it. A job that changed
    /// several times is there once, with what is known of it now.
    async fn changed_jobs(&self, since: u64, limit: usize) -> Result<IndexChanges, LedgerError>;
    /// How many jobs ended so since the ledger was empty last.
    async fn ended_jobs(&self) -> Result<BTreeMap<EndKind, u64>, LedgerError>;
    /// Takes or renews the duty to keep the index; false while another owner has it.
    async fn keep_index(&self, owner: &str, time: Duration) -> Result<bool, LedgerError>;
    /// Notes how far the index is filled. False where another one keeps it, or it was lost since the filling began.
    async fn fill_index(&self, filling: Filling<'_>) -> Result<bool, LedgerError>;
}

/// A job as the ledger has it.
#[derive(Debug, Clone)]
pub struct JobLook {
    /// Its state.
    pub state: JobState,
    /// Its counts.
    pub progress: JobProgress,
    /// Its nodes, by their ids.
    pub nodes: Vec<NodeView>,
    /// The published parts that were asked for, in their order; nothing of one that is not there.
    pub statistics: Vec<Option<Bytes>>,
}

/// What the ledger keeps of one start of a job. Where it keeps nothing (any more), a call fails with
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
    /// The names that are noted of the tries of a mini-batch; none once it has its outcome.
    async fn noted_tries(&self, index: MiniBatchIndex) -> Result<NotedTries, LedgerError>;
    /// Takes a noted start back, and notes that `service` gave the last try of the mini-batch back for another node.
    async fn pass_on(&self, index: MiniBatchIndex, start: &str, service: &str) -> Result<(), LedgerError>;

    /// Wants a second run of mini-batches; returns those that none was wanted of before. There is one at most of each.
    /// `fence` is as in [`set_state`](Self::set_state).
    async fn want_copies(
        &self,
        indexes: &[MiniBatchIndex],
        fence: u64,
    ) -> Result<Vec<MiniBatchIndex>, LedgerError>;
    /// The copies that are wanted and not taken yet, in any order.
    async fn open_copies(&self) -> Result<Vec<OpenCopy>, LedgerError>;
    /// Offers a copy that is wanted; changes nothing about one that is not, or that another worker offers.
    async fn offer_copy(
        &self,
        index: MiniBatchIndex,
        worker: &str,
        copy: &OfferedCopy,
    ) -> Result<(), LedgerError>;
    /// Takes a copy that is offered, to run it; nothing where another worker has.
    async fn take_copy(
        &self,
        index: MiniBatchIndex,
        worker: &str,
    ) -> Result<Option<OfferedCopy>, LedgerError>;

    /// Publishes parts of the statistics by their names, in place of the former ones. `fence` is as in
    /// [`set_state`](Self::set_state).
    async fn publish_statistics(&self, parts: &[(&str, Bytes)], fence: u64) -> Result<(), LedgerError>;
    /// The published parts with these names (one or more), nothing of one that is not there. For [`READS_FOR`] from now on
    /// `progress` tells of a reader. The first reader after such a time finds no part: those of former readers are removed.
    async fn statistics(&self, names: &[&str]) -> Result<Vec<Option<Bytes>>, LedgerError>;

    /// Enters a node, whether or not a seat is free, and gives it its id: the one the worker has already; else `wish`,
    /// where that is free; else the lowest free one.
    async fn join(&self, info: &NodeInfo, wish: Option<u32>) -> Result<u32, LedgerError>;
    /// Enters a node where a seat is free, and gives it its id; nothing where the job has enough. A worker that has a
    /// seat keeps it.
    async fn take_seat(&self, info: &NodeInfo, seats: Seats) -> Result<Option<u32>, LedgerError>;
    /// Notes what a node says of itself and tells it what the job wants. `worker` is the name it joined with.
    async fn heartbeat(&self, node_id: u32, worker: &str, report: &NodeReport) -> Result<Heard, LedgerError>;
    /// Notes that a node leaves in order.
    async fn leave(&self, node_id: u32) -> Result<(), LedgerError>;
    /// The nodes of the job.
    async fn nodes(&self) -> Result<Vec<NodeView>, LedgerError>;
    /// State, counts and nodes of the job, and the published parts with these names as [`statistics`](Self::statistics) gives them;
    /// without a name nobody counts as a reader. A ledger that is a server answers in one call.
    async fn look(&self, names: &[&str]) -> Result<JobLook, LedgerError> {
        let (state, progress, nodes) = (self.state().await?, self.progress().await?, self.nodes().await?);
        let statistics = if names.is_empty() { Vec::new() } else { self.statistics(names).await? };
        Ok(JobLook { state, progress, nodes, statistics })
    }

    /// Decides how the job ends. The first conclusion is remembered, and returned to everyone who comes later.
    /// Nodes of a job that is to fail or was canceled are told to stop.
    async fn conclude(&self, conclusion: &Conclusion) -> Result<Conclusion, LedgerError>;

    /// Notes what keeps the job from going on, or with nothing that it goes on. An obstacle of the kind that is noted already keeps its
    /// beginning. [`JobLedger::progress`] tells it to everyone.
    async fn note_obstacle(&self, obstacle: Option<(ObstacleKind, &str)>) -> Result<(), LedgerError>;

    /// Takes or renews the lease of a duty. Returns its fencing number, which grows whenever the lease changes
    /// hands, also where the ledger was lost in between, or nothing while another owner holds it.
    async fn lease(&self, duty: Duty, owner: &str, time: Duration) -> Result<Option<u64>, LedgerError>;
    /// Gives a lease up before its time; one of another owner stays.
    async fn release(&self, duty: Duty, owner: &str) -> Result<(), LedgerError>;
}
