//! Error groups: failed tries with one cause, and how they came over time.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::varints::Varints;
use super::{Part, ensure};
use crate::hexadecimal;
use crate::mini_batch::MiniBatchIndex;
use crate::source_line::SourceLine;

/// Most groups that are told apart; tries of others are counted.
pub const MOST_GROUPS: usize = 200;
/// Groups with a traceback, at most.
pub const MOST_TRACEBACKS: usize = 50;
/// Examples of a group, at most.
pub const MOST_EXAMPLES: usize = 3;
/// Nodes that a group names, at most.
const MOST_NODES: usize = 8;
/// Bins of the curve of a group.
const BINS: usize = 24;
/// Digits of the id of a group.
const DIGITS: usize = 12;

/// The id of the group of a try that failed: the same in every start of a job, and in every job of the same code. `pattern`
/// is what the first line of its message has in common with others, for errors that come from no line of the user's code.
pub fn group_id(status: &str, category: &str, frame: Option<&SourceLine>, pattern: &str) -> String {
    let mut sum = Sha256::new();
    let line = frame.map(|frame| frame.line.to_string()).unwrap_or_default();
    let cause = match frame {
        Some(frame) => [&*frame.file, &*frame.function, &*line],
        None => ["", "", pattern],
    };
    for text in [status, category].into_iter().chain(cause) {
        sum.update((text.len() as u64).to_le_bytes());
        sum.update(text);
    }
    let mut id = hexadecimal(&sum.finalize());
    id.truncate(DIGITS);
    id
}

/// How many came when: bins from the beginning of a start of the job on, whose length doubles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "PackedCurve", try_from = "PackedCurve")]
pub struct Curve {
    origin_us: u64,
    step_s: u32,
    bins: [u64; BINS],
}

impl Default for Curve {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Curve {
    /// An empty one that begins at this time.
    pub fn new(origin_us: u64) -> Self {
        Self { origin_us, step_s: 1, bins: [0; BINS] }
    }

    /// When the first bin begins.
    pub fn origin_us(&self) -> u64 {
        self.origin_us
    }

    /// How long a bin is, seconds.
    pub fn step_s(&self) -> u32 {
        self.step_s
    }

    /// The bins.
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }

    /// Adds one at this time.
    pub fn add(&mut self, time_us: u64) {
        let since_s = time_us.saturating_sub(self.origin_us) / 1_000_000;
        while since_s / u64::from(self.step_s) >= BINS as u64
            && let Some(step) = self.step_s.checked_mul(2)
        {
            self.step_s = step;
            self.bins = std::array::from_fn(|at| {
                let of = |at: usize| self.bins.get(at).copied().unwrap_or_default();
                of(2 * at) + of(2 * at + 1)
            });
        }
        let at = (since_s / u64::from(self.step_s)).min(BINS as u64 - 1);
        self.bins[at as usize] += 1;
    }
}

crate::record::record! {
    /// How a curve is encoded.
    struct PackedCurve {
        /// When it begins.
        origin_us: u64,
        /// Seconds of a bin.
        step_s: u32,
        /// The bins, without the zeros at the end.
        bins: Varints,
    }
}

impl From<Curve> for PackedCurve {
    fn from(of: Curve) -> Self {
        Self { origin_us: of.origin_us, step_s: of.step_s, bins: Varints::trimmed(&of.bins) }
    }
}

impl TryFrom<PackedCurve> for Curve {
    type Error = &'static str;

    fn try_from(packed: PackedCurve) -> Result<Self, Self::Error> {
        ensure(packed.step_s > 0 && packed.bins.0.len() <= BINS, "a curve of other bins")?;
        let bins = std::array::from_fn(|at| packed.bins.0.get(at).copied().unwrap_or_default());
        Ok(Self { origin_us: packed.origin_us, step_s: packed.step_s, bins })
    }
}

crate::record::record! {
    /// A try that stands for others.
    pub struct ErrorExample {
        /// Its mini-batch.
        pub index: MiniBatchIndex,
        /// Which try it was, from 1.
        pub number: u32,
        /// The node where it ran.
        pub node_id: u32,
        /// The process that ran it.
        pub process: String,
        /// What the mini-batch consists of, 120 bytes at most.
        pub detail: String,
        /// When it began.
        pub started_us: u64,
        /// Whether its mini-batch got no other try.
        pub is_lost: bool,
    }
}

crate::record::record! {
    /// Tries that failed alike, or lack items for the same reason.
    pub struct ErrorGroup {
        /// Its [id](group_id).
        pub id: String,
        /// How the tries ended: `RUN_EXCEPTION`, ...; `RUN_DONE` where only items are missing.
        pub status: String,
        /// Class of the exception, or what stands for it; 120 bytes at most.
        pub category: String,
        /// The message of the first example, 500 bytes at most.
        pub message: String,
        /// What all messages of the group begin with, within `message`, bytes.
        pub common_start: u32,
        /// What all of them end with, bytes; both together are `message` where all are the same.
        pub common_end: u32,
        /// The file of the last line of the user's code in it, below `source_directory`; empty where none is known.
        pub file: String,
        /// The line, from 1.
        pub line: u32,
        /// The function.
        pub function: String,
        /// What stands in the line.
        pub text: String,
        /// Traceback of the first example, 8 KiB at most; empty where there is none, or no room for it.
        pub traceback: String,
        /// So many tries.
        pub tries: u64,
        /// Mini-batches whose items are missing because of it.
        pub mini_batches_lost: u64,
        /// Those items.
        pub items_lost: u64,
        /// When the first of the tries began.
        pub first_us: u64,
        /// When the last of them began.
        pub last_us: u64,
        /// When they began, all.
        pub curve: Curve,
        /// Tries by node: the nodes with most of them, and how many.
        pub nodes: Vec<(u32, u64)>,
        /// All nodes that had it.
        pub nodes_total: u64,
        /// Some of the tries; those whose items are missing first.
        pub examples: Vec<ErrorExample>,
    }
}

impl ErrorGroup {
    /// Most nodes in `nodes`.
    pub const MOST_NODES: usize = MOST_NODES;

    /// The message with `<...>` for what differs between the tries.
    pub fn pattern(&self) -> String {
        let (start, end) = (self.common_start as usize, self.common_end as usize);
        let length = self.message.len();
        if start + end >= length {
            return self.message.clone();
        }
        match (self.message.get(..start), self.message.get(length - end..)) {
            (Some(start), Some(end)) => format!("{start}<...>{end}"),
            _ => self.message.clone(),
        }
    }

    /// The line of the user's code, where one is known.
    pub fn frame(&self) -> Option<SourceLine> {
        let Self { file, line, function, text, .. } = self.clone();
        (!file.is_empty()).then_some(SourceLine { file, line, function, text })
    }

    pub(super) fn check(&self) -> Result<(), &'static str> {
        ensure(self.nodes.len() <= MOST_NODES, "an error of too many nodes")?;
        ensure(self.examples.len() <= MOST_EXAMPLES, "an error of too many examples")
    }
}

crate::record::record! {
    /// The distinct errors of a job: first those that cost most items, then those of most tries.
    pub struct Errors {
        /// When this was written.
        pub written_us: u64,
        /// The groups.
        pub groups: Vec<ErrorGroup>,
        /// Groups that are not among them, as far as they were told apart.
        pub other_groups: u64,
        /// Their tries, and those that were not told apart.
        pub other_tries: u64,
    }
}

impl Part for Errors {
    const NAME: &'static str = "errors";
    const MOST_BYTES: usize = 512 << 10;

    fn check(&self) -> Result<(), &'static str> {
        ensure(self.groups.len() <= MOST_GROUPS, "too many errors")?;
        self.groups.iter().try_for_each(ErrorGroup::check)
    }
}
