//! Live: where a job stands, its timeline, what ended last and what runs longest.

use super::{ErrorGroup, Part, Timeline, ensure};
use crate::mini_batch::MiniBatchIndex;
use crate::segment::TryStatus;

/// Tries that ended last, at most.
pub const MOST_RECENT: usize = 400;
/// Mini-batches that run longest, at most.
pub const MOST_RUNNING: usize = 50;
/// Steps of the last minutes, at most.
const MOST_LATELY: usize = 60;
/// Error groups that stand here, at most.
const MOST_TOP_ERRORS: usize = 3;
/// Former starts that have a line of their own, at most.
const MOST_FORMER: usize = 50;

crate::record::record! {
    /// A try that ended.
    pub struct TryRow {
        /// The mini-batch.
        pub index: MiniBatchIndex,
        /// Which try it was, from 1.
        pub number: u32,
        /// How it ended, by its place in [`TryStatus::ALL`].
        pub status: u8,
        /// The node that ran it.
        pub node_id: u32,
        /// Number of the process on the node.
        pub process: u32,
        /// When it began.
        pub started_us: u64,
        /// All of it, microseconds.
        pub elapsed_us: u64,
        /// Within `run()`, microseconds.
        pub run_us: u64,
        /// Making the argument of `run()`, microseconds.
        pub load_us: u64,
        /// Whether the mini-batch got its outcome with it.
        pub is_outcome: bool,
    }
}

impl TryRow {
    /// How it ended; nothing for what this version of prs does not know.
    pub fn status(&self) -> Option<TryStatus> {
        TryStatus::ALL.get(self.status as usize).copied()
    }
}

crate::record::record! {
    /// A mini-batch that runs.
    pub struct RunningOn {
        /// Which one.
        pub index: MiniBatchIndex,
        /// The node.
        pub node_id: u32,
        /// When it began, microseconds since the Unix epoch by the orchestrator's clock.
        pub since_us: u64,
        /// Which try of it, from 1; 0 where that is not known.
        pub number: u32,
        /// Number of the process on the node; nothing where that is not known.
        pub process: Option<u32>,
        /// What it consists of, 120 bytes at most; empty where that is not known.
        pub detail: String,
        /// How long standard output and standard error of the process were when it began; nothing where that is not known.
        pub printed_from: Option<(u64, u64)>,
    }
}

crate::record::record! {
    /// What got its outcome a second, over some time.
    pub struct Rate {
        /// The time, seconds; shorter where the job is younger.
        pub over_s: f64,
        /// Mini-batches a second.
        pub per_second: f64,
        /// Their items a second.
        pub items_per_second: f64,
    }
}

crate::record::record! {
    /// A limit of the job.
    pub struct Threshold {
        /// Its key in the job file.
        pub name: String,
        /// The limit; below 0 there is none.
        pub limit: i64,
        /// What counts so far.
        pub used: u64,
        /// Since when more than four fifths of it count, microseconds since the Unix epoch; 0 where fewer do.
        pub near_us: u64,
    }
}

impl Threshold {
    /// Whether more than four fifths of it count.
    pub fn is_near(&self) -> bool {
        self.limit > 0 && self.used.saturating_mul(5) > self.limit.unsigned_abs().saturating_mul(4)
    }
}

crate::record::record! {
    /// How processes come to life.
    pub struct InitState {
        /// Failures to import the script and of `init()`.
        pub failures: u64,
        /// Whether a process ever became ready.
        pub is_ready: bool,
        /// Whether on all nodes the last failure was one to import the script.
        pub fails_to_import: bool,
        /// The last error, in one line, 500 bytes at most.
        pub error: String,
        /// The node that had it.
        pub node_id: u32,
        /// What a node does before it runs anything, 120 bytes at most.
        pub preparing: String,
    }
}

crate::record::record! {
    /// A node whose `run()` takes far longer than that of the others.
    pub struct SlowOn {
        /// Which one.
        pub node_id: u32,
        /// How many times as long as the median of all nodes.
        pub factor: f64,
        /// When its first try began; 0 where that is not known.
        pub since_us: u64,
    }
}

crate::record::record! {
    /// What needs a person, as far as the tries and the nodes of the job tell.
    pub struct Signs {
        /// Whether the rest was looked for: an older prs did not.
        pub is_known: bool,
        /// What half of all calls of `run()` took at most, microseconds; 0 where none ended.
        pub run_p50_us: u64,
        /// What 99 of 100 took.
        pub run_p99_us: u64,
        /// Nodes that are far slower than the others.
        pub slow_nodes: u64,
        /// The slowest of them.
        pub slowest: Option<SlowOn>,
        /// Nodes that were lost: in the last ten minutes, and in all of a job that has ended.
        pub lost_nodes: u64,
        /// When the first of these was heard of last; 0 where none was lost.
        pub lost_us: u64,
    }
}

crate::record::record! {
    /// Items that got their outcome in the last minutes, finer than the timeline tells it.
    pub struct Lately {
        /// When the first step began.
        pub from_us: u64,
        /// Length of a step, seconds.
        pub step_s: u32,
        /// The items of each step, 60 at most; none where the job is young.
        pub items: Vec<u64>,
    }
}

crate::record::record! {
    /// A start of the job before the present one, as far as its segments tell.
    pub struct FormerStart {
        /// Which one, from 1.
        pub incarnation: u32,
        /// Its tries.
        pub tries: u64,
        /// Those that failed.
        pub failed_tries: u64,
        /// Mini-batches whose outcome is of it.
        pub succeeded: u64,
        /// When the first of its tries began.
        pub first_us: u64,
        /// When the last of them ended.
        pub last_us: u64,
        /// Within `run()`, microseconds.
        pub run_us: u64,
    }
}

crate::record::record! {
    /// Where a job stands. Counts of mini-batches and items are those of the ledger, of one instant with the rest.
    pub struct Live {
        /// When this was written.
        pub written_us: u64,
        /// Which start of the job this is, from 1.
        pub incarnation: u32,
        /// When it began.
        pub started_us: u64,
        /// Seconds since then, or until the end.
        pub seconds: f64,
        /// `queued`, `scheduling`, `running`, `finalizing`, `completed`, `failed` or `canceled`.
        pub state: String,
        /// `waiting_for_nodes`, `planning`, `init`, `processing`, `retrying`, `assembling` or `tidying`; empty after the end.
        pub phase: String,
        /// Why the job ended as it did, 2,000 bytes at most; empty before, and where it completed.
        pub reason: String,
        /// Mini-batches that are planned.
        pub scheduled: u64,
        /// Whether these are all.
        pub is_planned: bool,
        /// Of them, those that succeeded.
        pub succeeded: u64,
        /// Those that failed for good.
        pub failed: u64,
        /// Those that nodes have in hand.
        pub in_flight: u64,
        /// Those that wait.
        pub waiting: u64,
        /// Those whose first try failed.
        pub retried: u64,
        /// Items of the mini-batches that are planned.
        pub items: u64,
        /// Items that succeeded.
        pub items_succeeded: u64,
        /// Items that did not, of mini-batches with an outcome.
        pub items_failed: u64,
        /// Elements that outcomes returned.
        pub rows: u64,
        /// Bytes of them.
        pub bytes: u64,
        /// Tries that ended, of all starts.
        pub tries: u64,
        /// Of these, those that failed.
        pub failed_tries: u64,
        /// Of these, those that were lost with their nodes.
        pub node_losses: u64,
        /// Nodes that serve the job.
        pub nodes: u64,
        /// Nodes that it asks for.
        pub nodes_wanted: u64,
        /// Nodes of which nothing was heard for too long.
        pub nodes_lost: u64,
        /// Processes that are up.
        pub processes: u64,
        /// Of these, those that import the script or are in `init()`.
        pub starting: u64,
        /// Slots of the nodes.
        pub slots: u64,
        /// Over 5 s, 1 min and 10 min.
        pub rates: Vec<Rate>,
        /// Seconds until the end; below 0 where nobody can tell.
        pub eta_s: f64,
        /// The limits.
        pub thresholds: Vec<Threshold>,
        /// How processes come to life.
        pub init: InitState,
        /// When something ended last; 0 where nothing has.
        pub last_outcome_us: u64,
        /// The three error groups that cost most, without their tracebacks.
        pub top_errors: Vec<ErrorGroup>,
        /// All error groups.
        pub distinct_errors: u64,
        /// What happened when, in the present start.
        pub timeline: Timeline,
        /// The starts before it, the last 50 of them.
        pub former: Vec<FormerStart>,
        /// The tries that were committed last, the oldest first.
        pub recent: Vec<TryRow>,
        /// What runs longest, the longest first.
        pub running: Vec<RunningOn>,
        /// Segments that the numbers of tries cover.
        pub followed: u64,
        /// Segments that were committed.
        pub committed: u64,
        /// What needs a person.
        pub signs: Signs,
        /// The state that it is decided to end in, as in `state`; empty where nothing is decided.
        pub ends_as: String,
        /// Why, 500 bytes at most.
        pub ends_why: String,
        /// What happened in the last minutes, of a job that has run for an hour.
        pub lately: Lately,
    }
}

impl Live {
    /// Steps of the last minutes, at most.
    pub const MOST_LATELY: usize = MOST_LATELY;
    /// Former starts that have a line of their own, at most.
    pub const MOST_FORMER: usize = MOST_FORMER;
    /// Error groups that stand here, at most.
    pub const MOST_TOP_ERRORS: usize = MOST_TOP_ERRORS;

    /// Mini-batches with an outcome.
    pub fn ended(&self) -> u64 {
        self.succeeded.saturating_add(self.failed)
    }

    /// Seconds until the end, where that can be told.
    pub fn eta(&self) -> Option<f64> {
        (self.eta_s >= 0.0).then_some(self.eta_s)
    }
}

impl Part for Live {
    const NAME: &'static str = "live";
    const MOST_BYTES: usize = 48 << 10;

    fn check(&self) -> Result<(), &'static str> {
        ensure(self.recent.len() <= MOST_RECENT, "too many recent tries")?;
        ensure(self.running.len() <= MOST_RUNNING, "too many running mini-batches")?;
        ensure(self.top_errors.len() <= MOST_TOP_ERRORS, "too many errors")?;
        ensure(self.former.len() <= MOST_FORMER, "too many former starts")?;
        ensure(self.lately.items.len() <= MOST_LATELY, "too many steps of the last minutes")?;
        ensure(self.rates.len() <= 16 && self.thresholds.len() <= 16, "too many rates")?;
        self.top_errors.iter().try_for_each(ErrorGroup::check)
    }
}
