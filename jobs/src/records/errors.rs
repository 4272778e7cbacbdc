//! The errors of a job, and the items that are missing because of them.

use prs_common::ledger::JobState;
use prs_common::source_line::SourceLine;
use prs_common::statistics;
use prs_common::timestamp::format_us;
use prs_orchestrator::job::errors::{ErrorGroup, Example};
use prs_orchestrator::report::group_id_of;
use serde::{Deserialize, Serialize};

/// The errors of a job; of one that has not ended, those so far.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Errors {
    /// Id of the job.
    pub job_id: String,
    /// Its state.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::states"))]
    pub state: JobState,
    /// Tries that failed.
    pub failed_tries: u64,
    /// Tries with errors that are not told apart any more.
    pub others: u64,
    /// The distinct errors: first those that cost most items, then those of most tries. A pipeline has none of its own.
    pub errors: Vec<DistinctError>,
    /// Of a pipeline: the errors of its steps, as far as these were started, in its order; null for every other job.
    pub steps: Option<Vec<Errors>>,
}

/// Tries that failed alike, or that lack items for the same reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DistinctError {
    /// Id of the group of its tries, the same in every start of the job; null where they are of no mini-batch.
    pub group: Option<String>,
    /// How the tries ended: `RUN_EXCEPTION`, `RUN_TIMEOUT`, ...; `RUN_DONE` where only items are missing.
    pub status: String,
    /// Class of the exception, or what stands for it.
    category: String,
    /// The message of the example.
    message: String,
    /// Whether others of them have another message.
    messages_differ: bool,
    /// The last line of the user's code in it; null where none is known.
    frame: Option<Frame>,
    /// How many tries; of `init()`, how many processes; of lost nodes, how many nodes.
    pub tries: u64,
    /// Mini-batches whose items are missing because of it.
    pub mini_batches_lost: u64,
    /// Those items.
    pub items_lost: u64,
    /// The nodes that had it.
    nodes: Vec<u32>,
    /// One of the tries.
    example: Example,
    /// Traceback of the example; null in the record of a job, and where there is none.
    traceback: Option<String>,
}

/// A line of the user's code.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Frame {
    /// The file, below `source_directory` as the submitter has it.
    file: String,
    /// The line, from 1.
    line: u32,
    /// The function; empty for the module itself.
    function: String,
    /// What stands there; empty where that is not known.
    text: String,
}

/// The mini-batches of a job that failed or lack items.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedItems {
    /// Id of the job.
    pub job_id: String,
    /// The mini-batches, as `failed_mini_batches.jsonl` has them.
    pub mini_batches: Vec<FailedMiniBatch>,
}

/// A mini-batch that failed or lacks items.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedMiniBatch {
    /// Which one.
    pub(crate) mini_batch_id: String,
    /// The same as a number, from 0.
    pub minibatch_index: u64,
    /// The name of its input.
    pub(crate) input: Option<String>,
    /// Its items.
    pub items: Vec<Item>,
    /// How many there are; null where nobody could tell.
    pub(crate) items_total: Option<u64>,
    /// How many of them are missing from the result.
    pub(crate) items_missing: Option<u64>,
    /// Its tries that failed, the first one first.
    pub(crate) tries: Vec<FailedTry>,
}

/// An item, or items that belong together.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Item {
    /// Path or URL of a file.
    File(String),
    /// A part of a table.
    Part {
        /// Path or URL of the table.
        file: String,
        /// Where it begins, bytes.
        start: u64,
        /// Where it ends, bytes; null where it cannot be read.
        end: Option<u64>,
        /// The rows in it; null where nobody could count them.
        records: Option<u64>,
    },
    /// A mini-batch whose items only the job's storage has.
    Stored {
        /// Key of the object that names them.
        descriptor: String,
    },
}

impl Item {
    /// The input, by its position, and the items that a row of the table of tries names; nothing where it names none.
    pub(crate) fn named_in(row: &[u8]) -> Option<(usize, Vec<Self>)> {
        serde_json::from_slice(row).ok()
    }
}

/// A try that failed.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FailedTry {
    /// Which one, from 1.
    pub(crate) r#try: u32,
    /// How it ended: `RUN_EXCEPTION`, `RUN_TIMEOUT`, ...
    pub(crate) status: String,
    /// Class of the exception, or what stands for it.
    pub(crate) category: String,
    /// Its message.
    pub(crate) message: String,
    /// The node where it ran.
    pub(crate) node_id: u32,
    /// The process that ran it.
    pub(crate) process: String,
}

/// An error group of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorGroupRecord {
    /// Id of the job.
    job_id: String,
    #[serde(flatten)]
    error: DistinctError,
    /// When the first and the last of its tries began: UTC, RFC 3339; null where that was not published.
    first_at: Option<String>,
    last_at: Option<String>,
    /// The nodes with most of its tries, and how many each had.
    tries_by_node: Vec<NodeTries>,
    /// How many nodes had it; null where that was not published.
    nodes_total: Option<u64>,
    /// When they began; null where that was not published.
    curve: Option<CurveRecord>,
    /// Some of them, those whose items are missing first.
    examples: Vec<TryExample>,
}

/// Tries of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct NodeTries {
    /// The node.
    node_id: u32,
    /// How many.
    tries: u64,
}

/// How many tries began when.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CurveRecord {
    /// When the first bin begins: UTC, RFC 3339.
    from_at: String,
    /// How long each is.
    step_seconds: u32,
    /// The bins.
    tries: Vec<u64>,
}

/// A try that stands for others.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TryExample {
    /// Its mini-batch, from 0.
    index: u64,
    /// Which try it was, from 1.
    r#try: u32,
    /// The node.
    node_id: u32,
    /// The process.
    process: String,
    /// What the mini-batch consists of.
    detail: String,
    /// When it began: UTC, RFC 3339.
    started_at: String,
    /// Whether its mini-batch got no other try.
    is_lost: bool,
    /// Its traceback, as the log of its process has it; null where it is not near the beginning or the end of that.
    traceback: Option<String>,
}

impl ErrorGroupRecord {
    /// An error of the job `job_id`, with what its orchestrator `told` of it, and the tracebacks of the examples in that.
    pub(crate) fn new(
        job_id: String,
        error: DistinctError,
        told: Option<&statistics::ErrorGroup>,
        tracebacks: Vec<Option<String>>,
    ) -> Self {
        let example = |(one, traceback): (&statistics::ErrorExample, Option<String>)| TryExample {
            index: one.index,
            r#try: one.number,
            node_id: one.node_id,
            process: one.process.clone(),
            detail: one.detail.clone(),
            started_at: format_us(one.started_us),
            is_lost: one.is_lost,
            traceback,
        };
        let curve = |told: &statistics::ErrorGroup| CurveRecord {
            from_at: format_us(told.curve.origin_us()),
            step_seconds: told.curve.step_s(),
            tries: told.curve.bins().to_vec(),
        };
        Self {
            job_id,
            error,
            first_at: told.map(|told| format_us(told.first_us)),
            last_at: told.map(|told| format_us(told.last_us)),
            tries_by_node: told
                .iter()
                .flat_map(|told| &told.nodes)
                .map(|(node_id, tries)| NodeTries { node_id: *node_id, tries: *tries })
                .collect(),
            nodes_total: told.map(|told| told.nodes_total),
            curve: told.map(curve),
            examples: told.iter().flat_map(|told| &told.examples).zip(tracebacks).map(example).collect(),
        }
    }
}

impl From<ErrorGroup> for DistinctError {
    fn from(group: ErrorGroup) -> Self {
        let id = || group_id_of(&group.status, &group.category, group.frame.as_ref(), &group.message);
        Self {
            group: (!group.example.mini_batch_id.is_empty()).then(id),
            status: group.status,
            category: group.category,
            message: group.message,
            messages_differ: group.messages_differ,
            frame: group.frame.map(Frame::from),
            tries: group.tries,
            mini_batches_lost: group.mini_batches_lost,
            items_lost: group.items_lost,
            nodes: group.nodes.into_iter().collect(),
            example: group.example,
            traceback: Some(group.traceback).filter(|traceback| !traceback.is_empty()),
        }
    }
}

impl From<SourceLine> for Frame {
    fn from(SourceLine { file, line, function, text }: SourceLine) -> Self {
        Self { file, line, function, text }
    }
}
