//! The errors of a job, and the items that are missing because of them.

use prs_common::ledger::JobState;
use prs_common::source_line::SourceLine;
use prs_orchestrator::job::errors::{ErrorGroup, Example};
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
    /// How the tries ended: `RUN_EXCEPTION`, `RUN_TIMEOUT`, ...; `RUN_DONE` where only items are missing.
    status: String,
    /// Class of the exception, or what stands for it.
    category: String,
    /// The message of the example.
    message: String,
    /// Whether others of them have another message.
    messages_differ: bool,
    /// The last line of the user's code in it; null where none is known.
    frame: Option<Frame>,
    /// How many tries; of `init()`, how many processes.
    tries: u64,
    /// Mini-batches whose items are missing because of it.
    mini_batches_lost: u64,
    /// Those items.
    items_lost: u64,
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
    mini_batch_id: String,
    /// The same as a number, from 0.
    pub minibatch_index: u64,
    /// The name of its input.
    input: Option<String>,
    /// Its items.
    pub items: Vec<Item>,
    /// How many there are; null where nobody could tell.
    items_total: Option<u64>,
    /// How many of them are missing from the result.
    items_missing: Option<u64>,
    /// Its tries that failed, the first one first.
    tries: Vec<FailedTry>,
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

/// A try that failed.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct FailedTry {
    /// Which one, from 1.
    r#try: u32,
    /// How it ended: `RUN_EXCEPTION`, `RUN_TIMEOUT`, ...
    status: String,
    /// Class of the exception, or what stands for it.
    category: String,
    /// Its message.
    message: String,
    /// The node where it ran.
    node_id: u32,
    /// The process that ran it.
    process: String,
}

impl From<ErrorGroup> for DistinctError {
    fn from(group: ErrorGroup) -> Self {
        Self {
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
