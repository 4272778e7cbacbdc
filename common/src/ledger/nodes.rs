//! What the ledger knows of a node: what it said when it joined, and what it says regularly.
//!
//! Both are written and read whole. What one version of prs does not say another takes as nothing.

use std::cmp::Reverse;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::RunningTry;
use crate::mini_batch::MiniBatchIndex;
use crate::record::record;
use crate::source_line::SourceLine;

/// Most distinct errors that a node tells of.
pub const MOST_SEEN_ERRORS: usize = 3;

/// Most tries under way that a node tells of.
pub const MOST_RUNNING: usize = 64;

/// Most tries of [`NodeReport::longest`].
pub const MOST_LONGEST: usize = 3;
/// Most processes of [`NodeReport::each_process`].
pub const MOST_PROCESSES: usize = 64;
/// Longest [`ProcessExit::killed_for`], bytes.
pub const MOST_KILLED_FOR: usize = 32;
/// Longest [`TryUnderWay::detail`], bytes.
pub const MOST_DETAIL: usize = 120;

/// How [`NodeReport::preparing`] begins where it is about a side input and not about the environment.
pub const OF_SIDE_INPUT: &str = "side input ";
/// The same for the model.
pub const OF_MODEL: &str = "the model";

/// What a node says of itself when it joins, and a worker while it has no job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// Unique name of the worker as this node, across restarts; of one without a job, its `instance`.
    pub worker: String,
    /// Its address.
    pub ip: String,
    /// Processes it runs.
    pub slots: u32,
    /// Name of its host.
    pub host: String,
    /// Version of prs.
    pub version: String,
    /// Name of the program, the same for all jobs that it serves, and while it has none.
    pub instance: String,
    /// GPUs of its host that it may use.
    pub gpus: u32,
    /// The interpreter that jobs without one of their own get; empty where there is none.
    pub python: String,
    /// Since when it serves the job, microseconds since the Unix epoch, by its clock; of a worker without one, since when that runs.
    pub since_us: u64,
}

/// What a node says of itself regularly.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeReport {
    /// Processes that are up.
    pub processes: u32,
    /// Of these, processes that import the script or are in `init()`.
    pub starting: u32,
    /// Failures to import the script and of `init()` so far.
    pub init_failures: u32,
    /// Whether the last of them was one to import it.
    pub fails_to_import: bool,
    /// Whether a process ever got through `init()`.
    pub ever_ready: bool,
    /// Whether every process has been in `init()` longer than a job may (spec S6), and where they are is known.
    pub stuck_in_init: bool,
    /// The same, counting those that were replaced for it while none in their place became ready.
    pub hung_in_init: bool,
    /// The node gave up: `init()` failed too often in a row (spec S6).
    pub gave_up: bool,
    /// The last error of `init()`.
    pub init_error: Option<String>,
    /// Why the node cannot go on (no room on the disk, ...).
    pub fatal: Option<String>,
    /// Whether that is because its host lacks what the script needs (its interpreter, a module): another may have it.
    pub is_unfit: bool,
    /// What it does at the moment to make the environment of the script, or to have a side input that is not fetched right
    /// now, which begins with [`OF_SIDE_INPUT`]; absent before and after that.
    pub preparing: Option<String>,
    /// Bytes of the side inputs that it fetched so far, or found on its host.
    pub fetched: u64,
    /// Mini-batches it took from the queue and has not settled.
    pub in_hand: u64,
    /// Processes that could run a mini-batch, and have none.
    pub free_processes: u32,
    /// The tries that have been under way longest and may get a copy, the longest first, [`MOST_RUNNING`] at most. Those
    /// of less than a second are left out.
    pub running: Vec<RunningTry>,
    /// When the node said this, microseconds since the Unix epoch, by its clock.
    pub now_us: u64,
    /// Processes that have a mini-batch under way.
    pub busy: u32,
    /// The tries that have been under way longest, whatever they are and [`MOST_LONGEST`] at most, the longest first.
    pub longest: Vec<TryUnderWay>,
    /// Tries of mini-batches that the user's code failed.
    pub failed_tries: u64,
    /// Mini-batches that got their outcome from this node.
    pub ended: u64,
    /// Their input items.
    pub ended_items: u64,
    /// The first distinct errors, [`MOST_SEEN_ERRORS`] at most.
    pub errors: Vec<SeenError>,
    /// The last failure to import the script or of `init()`, for the list of errors.
    pub init_failure: Option<InitFailure>,
    /// What a process that imports the script or is in `init()` printed last; before that, how far a side input is.
    pub printed: Option<PrintedLine>,
    /// What it uses, with all that it started; absent until that was looked at.
    pub load: Option<NodeLoad>,
    /// The servers that did not answer when they were called last: `broker`, `ledger`, `storage`.
    pub unavailable: Vec<String>,
    /// Its processes by number, those that ended last among them, [`MOST_PROCESSES`] at most.
    pub each_process: Vec<ProcessView>,
}

/// What a node uses of its host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// Bytes of memory.
    pub memory: u64,
    /// CPU time, percent of one core.
    pub cpu_percent: u32,
    /// The mean of its GPUs; absent where it has none, or they do not tell.
    pub gpu_percent: Option<u32>,
}

/// A try that is under way, as its page shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TryUnderWay {
    /// The mini-batch.
    pub index: MiniBatchIndex,
    /// For how long, milliseconds.
    pub age_ms: u64,
    /// Which try of it, from 1; 0 where an older prs says it.
    pub number: u32,
    /// The process, from 0; absent where an older prs says it.
    pub process: Option<u32>,
    /// What the mini-batch consists of, [`MOST_DETAIL`] bytes at most; empty where the try has just begun.
    pub detail: String,
    /// How long standard output and standard error of its process were when it began; absent where several share them.
    pub printed_from: Option<(u64, u64)>,
}

record! {
    /// A process of a node.
    pub struct ProcessView {
        /// Which process of the node, from 0: the number in its name.
        pub number: u32,
        /// Its process id on the host.
        pub pid: u32,
        /// Tries that ended in it.
        pub tries: u64,
        /// Of these, those that failed.
        pub failed_tries: u64,
        /// When it was started, microseconds since the Unix epoch; in a report by the clock of the node.
        pub started_us: u64,
        /// How it ended; nothing while it is up.
        pub exit: Option<ProcessExit>,
        /// The mini-batch that it has had longest; `None` while it is idle.
        pub holds: Option<HeldMiniBatch>,
    }
}

record! {
    /// A mini-batch that a process has under way.
    pub struct HeldMiniBatch {
        /// The mini-batch.
        pub index: MiniBatchIndex,
        /// Since when, microseconds since the Unix epoch, by the clock of the node.
        pub since_us: u64,
        /// Mini-batches that the process has under way, this one among them.
        pub of: u64,
    }
}

record! {
    /// How a process ended.
    pub struct ProcessExit {
        /// When, microseconds since the Unix epoch; in a report by the clock of the node.
        pub at_us: u64,
        /// What it returned, the negative number of the signal where one ended it.
        pub returncode: i32,
        /// What the node killed it for, or that it could not use the script, [`MOST_KILLED_FOR`] bytes at most; empty where
        /// it ended by itself.
        pub killed_for: String,
    }
}

impl ProcessView {
    /// Whether it did not end by itself as it should.
    fn is_failed(&self) -> bool {
        self.exit.as_ref().is_some_and(|exit| exit.returncode != 0 || !exit.killed_for.is_empty())
    }

    /// `most` of these processes, by number: those that are up, and those that failed, the last ones first, which have up to
    /// half of the room; then the others.
    pub fn bounded(processes: impl IntoIterator<Item = Self>, most: usize) -> Vec<Self> {
        let (mut kept, mut ended): (Vec<Self>, Vec<Self>) =
            processes.into_iter().partition(|process| process.exit.is_none());
        ended.sort_by_key(|process| (!process.is_failed(), Reverse(process.number)));
        let failed = ended.iter().filter(|process| process.is_failed()).count();
        kept.sort_by_key(|process| process.number);
        kept.truncate(most - failed.min(most.div_ceil(2)));
        ended.truncate(most - kept.len());
        kept.append(&mut ended);
        kept.sort_by_key(|process| process.number);
        kept
    }
}

/// The last line that a process printed so far, or one about a side input on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrintedLine {
    /// When, microseconds since the Unix epoch, by the clock of the node.
    pub at_us: u64,
    /// The node of the process.
    pub node_id: u32,
    /// The name of the process, or the side input.
    pub process: String,
    /// The line, without escapes and control characters, cut where it is long.
    pub line: String,
}

/// A failure to import the script, or of `init()`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitFailure {
    /// Class of the exception, or what stands for it.
    pub category: String,
    /// Its message.
    pub message: String,
    /// The last line of the user's code in it.
    pub frame: Option<SourceLine>,
    /// The process that had it.
    pub process: String,
}

/// An error of the user's code, as a node saw it first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenError {
    /// When that was, microseconds since the Unix epoch, by the clock of the node.
    pub at_us: u64,
    /// What failed, such as `mini-batch 7 (a.txt), try 1 of 3`.
    pub what: String,
    /// Class of the exception.
    pub category: String,
    /// First line of its message, cut where it is long.
    pub message: String,
    /// Where in the user's code.
    pub line: Option<SourceLine>,
}

impl SeenError {
    /// Whether this is another occurrence of `other`: the same class from the same line, or with the same message where
    /// no line is known.
    pub fn is_as(&self, other: &Self) -> bool {
        let place = |error: &Self| error.line.as_ref().map(|line| (line.file.clone(), line.line));
        let (here, there) = (place(self), place(other));
        self.category == other.category && here == there && (here.is_some() || self.message == other.message)
    }
}

/// A worker without a job.
#[derive(Debug, Clone, PartialEq)]
pub struct IdleWorker {
    /// What it says of itself.
    pub info: NodeInfo,
    /// How long ago it looked for something to do.
    pub silent: Duration,
}

/// A node of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// Position in the job, from 0.
    pub node_id: u32,
    /// What it said when it joined.
    pub info: NodeInfo,
    /// What it said last.
    pub report: NodeReport,
    /// How long ago that was.
    pub silent: Duration,
    /// Whether it left in order.
    pub left: bool,
}

impl NodeView {
    /// Returns the time since a moment of the clock of the node, however far that is from the clock of this host.
    pub fn since(&self, us: u64) -> Duration {
        Duration::from_micros(self.report.now_us.saturating_sub(us)) + self.silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_class_from_one_line_are_the_same() {
        let error = |category: &str, message: &str, line: Option<u32>| SeenError {
            at_us: 0,
            what: String::new(),
            category: category.to_owned(),
            message: message.to_owned(),
            line: line.map(|line| SourceLine {
                file: "a.py".into(),
                line,
                function: "run".into(),
                text: String::new(),
            }),
        };
        let first = error("ValueError", "cannot parse 1.txt", Some(9));
        assert!(first.is_as(&error("ValueError", "cannot parse 2.txt", Some(9))));
        assert!(!first.is_as(&error("ValueError", "cannot parse 1.txt", Some(8))));
        assert!(!first.is_as(&error("OSError", "cannot parse 1.txt", Some(9))));
        assert!(!first.is_as(&error("ValueError", "cannot parse 1.txt", None)));
        let timeout = error("Timeout", "run() took longer", None);
        assert!(timeout.is_as(&timeout));
        assert!(!timeout.is_as(&error("Timeout", "reading took longer", None)));
    }

    #[test]
    fn of_many_processes_those_are_told_that_are_up_or_died() {
        let exit = |returncode| Some(ProcessExit { returncode, ..ProcessExit::default() });
        let process = |(number, exit)| ProcessView { number, exit, ..ProcessView::default() };
        // Up: 4, 5, 6; died: 1, 3; ended in order: 0, 2.
        let all = [(6, None), (0, exit(0)), (1, exit(3)), (2, exit(0)), (3, exit(-9)), (4, None), (5, None)];
        for (most, expected) in [
            (9, &[0, 1, 2, 3, 4, 5, 6][..]),
            (6, &[1, 2, 3, 4, 5, 6]),
            (5, &[1, 3, 4, 5, 6]),
            (4, &[1, 3, 4, 5]),
            (1, &[3]),
            (0, &[]),
        ] {
            let told = ProcessView::bounded(all.clone().map(process), most);
            assert_eq!(told.iter().map(|one| one.number).collect::<Vec<_>>(), expected, "{most}");
        }
    }

    #[test]
    fn what_another_version_does_not_say_is_nothing() {
        let old = serde_json::json!({ "worker": "w", "ip": "192.0.2.7", "slots": 4 });
        let info: NodeInfo = serde_json::from_value(old).unwrap();
        assert_eq!((info.slots, &*info.version), (4, ""));
        let report: NodeReport = serde_json::from_value(serde_json::json!({ "processes": 2 })).unwrap();
        assert_eq!(report, NodeReport { processes: 2, ..NodeReport::default() });
    }
}
