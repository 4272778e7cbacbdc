//! The protocol between a node agent and one of its Python processes.
//!
//! One Unix stream socket; each message, a [`ToProcess`] or [`FromProcess`], is the head of a [frame](Frames) with the
//! raw bytes that it names: both sides encode and decode it here. The socket is inherited by the process under the number
//! named in [`SOCKET_VARIABLE`]; standard output is never used, since scripts print.
//!
//! Order: the process says [`FromProcess::Hello`]; the agent answers [`ToProcess::Start`]; the process imports
//! the script, calls `init()` and says `Ready` or `InitFailed`. Then any number of `Run` frames, each with one
//! or many mini-batches, answered by `Outcomes` frames; how the mini-batches are grouped into answers is free.
//! `Shutdown` ends it in order, the closing of the socket ends it at once. Which mini-batch is running at this
//! moment stands in the [process page](crate::process_page), not in a message.

mod frame;

use serde::{Deserialize, Serialize};

use crate::file_content::Contents;
use crate::job::{NamedOutput, OutputFormat};
use crate::segment::Printed;
use crate::source_line::SourceLine;

pub use frame::{Frame, Frames, MAX_FRAME, Message, ProtocolViolation, encode};

/// Version of this protocol; both sides must have the same.
pub const PROTOCOL_VERSION: u32 = 11;
/// Environment variable with the number of the inherited socket.
pub const SOCKET_VARIABLE: &str = "PRS_PROCESS_SOCKET";
/// Environment variable with the number of the inherited descriptor of the process page.
pub const PAGE_VARIABLE: &str = "PRS_PROCESS_PAGE";
/// Environment variable with the folders that the agent holds open: of each the number of an inherited descriptor, a colon and the
/// path, with `//`, which is in none of them, in between.
pub const HELD_VARIABLE: &str = "PRS_PROCESS_HELD";
/// Environment variable of a process that has the terminal of who started it: the name of its debugger.
pub const FOREGROUND_VARIABLE: &str = "PRS_PROCESS_FOREGROUND";

/// What an agent says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToProcess {
    /// Everything a process must know before it imports the script.
    Start(Box<Start>),
    /// Mini-batches to run, in this order.
    Run(Vec<Assignment>),
    /// No more work comes: call `shutdown()`, say `Bye`, exit with 0.
    Shutdown,
}

impl Message for ToProcess {
    fn raw_bytes(&self) -> u64 {
        let Self::Run(assignments) = self else { return 0 };
        assignments.iter().map(|assignment| u64::from(assignment.bytes)).sum()
    }
}

/// What a process must know before it imports the script.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Protocol version of the agent.
    pub protocol: u32,
    /// Id of the job.
    pub job_id: String,
    /// Position of the node in the job, from 0.
    pub node_id: u32,
    /// `processNNN`.
    pub process_name: String,
    /// Absolute folder of the user's code; first on `sys.path`.
    pub code_dir: String,
    /// File below `code_dir`, or a dotted module name.
    pub entry_script: String,
    /// `sys.argv[1:]`: prs's own arguments, then the user's.
    pub arguments: Vec<String>,
    /// `WARNING`, `INFO` or `DEBUG`.
    pub logging_level: String,
    /// True for `append_row`, false for `summary_only`.
    pub append_row: bool,
    /// How results are written; absent, the script's own settings say it.
    pub output_format: Option<OutputFormat>,
    /// `EntryScript().log_dir`, absolute.
    pub log_dir: String,
    /// `EntryScript().working_dir`, absolute; also the current directory.
    pub working_dir: String,
    /// `EntryScript().output_dir`, absolute, of this process alone.
    pub output_dir: String,
    /// Folder into which the files of a finished mini-batch are moved, as `<staging_dir>/<seq>/<path>`;
    /// on the same file system as `output_dir`.
    pub staging_dir: String,
    /// Longest path of a file below `output_dir` that all stores of the job take, bytes.
    pub longest_output_path: u32,
    /// Folder that relative paths in descriptors start from (plain copies of compressed inputs).
    pub scratch_dir: String,
    /// File the cProfile figures go to, when the job asks for them.
    pub profile_path: Option<String>,
    /// The inputs of the job, by position.
    pub inputs: Vec<InputInfo>,
    /// File that the stack goes to when the process crashes, or gets `stack_signal`.
    pub stack_path: String,
    /// Number of the signal that asks for the stack.
    pub stack_signal: i32,
    /// What of `output_dir` the script knows by name.
    #[serde(default)]
    pub outputs: Vec<NamedOutput>,
    /// For scripts that have several mini-batches under way at once.
    pub concurrency: Concurrency,
    /// Tries of a mini-batch that may fail.
    pub run_max_try: u32,
}

/// What a process of a script with an `async def run`, or of a streaming script, must know beside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concurrency {
    /// Mini-batches it may have under way at once.
    pub most: u32,
    /// Whether the job asks for so many; then other scripts are refused.
    pub is_asked_for: bool,
    /// Seconds one call of `run` may take; its task is cancelled then.
    pub run_timeout: u64,
    /// Folder with a folder for the files of each mini-batch, named by its `seq`, absolute, on the same file system as
    /// `staging_dir`.
    pub outputs_dir: String,
}

/// What the script may know of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputInfo {
    /// Name in the job file.
    pub name: String,
    /// `file` or `tabular`.
    pub kind: String,
    /// Path, glob or list as the job file has it.
    pub path: String,
    /// What is done with each slice of its table: a [`TableWork`](crate::dataset::mltable::TableWork) as JSON, for Python to
    /// read; nothing where the slices are given as they are read.
    #[serde(default)]
    pub table: Option<String>,
    /// Whether its files are local ones of the user, of whose content a later start has to know.
    #[serde(default)]
    pub is_local: bool,
}

/// One mini-batch handed to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Position in the life of this process, from 1, without gaps; the process claims it in its page.
    pub seq: u32,
    /// Tries of this mini-batch that failed before.
    pub retry_count: u32,
    /// Bytes of its encoded [`crate::mini_batch::MiniBatch`], which names local paths; behind the head, in this order.
    pub bytes: u32,
    /// The first of its items that it runs, counted from 0, and the one behind the last; absent where it runs all.
    #[serde(default)]
    pub part: Option<(u64, u64)>,
}

/// What a process says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromProcess {
    /// First words.
    Hello {
        /// Protocol version of the process.
        protocol: u32,
        /// Python's version, for the log.
        python: String,
    },
    /// The script is imported and `init()` has returned.
    Ready {
        /// Seconds that import and `init()` took.
        seconds: f64,
        /// Where `run()` begins, where that is known.
        run: Option<SourceLine>,
        /// Mini-batches that it has under way at once, each in a lane of the page. Absent for a plain `run`, which has them
        /// one after the other.
        concurrency: Option<u32>,
    },
    /// The script cannot be imported, has no `run`, or `init()` raised.
    InitFailed {
        /// What happened.
        error: ErrorInfo,
        /// Whether every other process on this host would fail in the same way: a module or the function `run` is
        /// missing, the script is no Python.
        is_permanent: bool,
    },
    /// Finished mini-batches, in the order in which they ended.
    Outcomes(Vec<Outcome>),
    /// Mini-batches that the agent took back before they were started. The agent hands out no further
    /// work to this process before all of them are acknowledged, so a taken-back `seq` never runs later.
    Skipped(Vec<u32>),
    /// Something a person should read once (a column was widened, ...).
    Notice(String),
    /// `shutdown()` has returned (or raised: the error).
    Bye(Option<ErrorInfo>),
}

impl Message for FromProcess {
    fn raw_bytes(&self) -> u64 {
        let Self::Outcomes(outcomes) = self else { return 0 };
        outcomes.iter().map(|outcome| u64::from(outcome.rows)).sum()
    }
}

/// How one try of a mini-batch ended, as the process saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which assignment.
    pub seq: u32,
    /// Input items (files, or rows of the DataFrame).
    pub items: u64,
    /// Elements that `run` returned.
    pub returned: u64,
    /// Bytes of its rows as they go into the result, behind the head, in this order; 0 for `summary_only` and on failure.
    pub rows: u32,
    /// Header of a returned DataFrame with its line end, to be written as it is, where the job asks for one.
    pub header: Option<String>,
    /// Files the mini-batch wrote below `output_dir`, now below the staging folder; `/`-separated.
    pub files: Vec<String>,
    /// Start of the try, microseconds since the Unix epoch.
    pub started_us: u64,
    /// Whole try, microseconds.
    pub elapsed_us: u64,
    /// CPU time of the process during the try, microseconds.
    pub cpu_us: u64,
    /// Inside `run()`, microseconds.
    pub run_us: u64,
    /// Before `run()`, making its argument, microseconds.
    pub load_us: u64,
    /// Absent when the try succeeded; one of [`Stage::Items`] says why a try that stands lacks items.
    pub error: Option<ErrorInfo>,
    /// Where what it printed is, of a try that failed or took long and printed anything.
    pub printed: Option<Printed>,
    /// Contents of the local files that it had, of a try that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Box<Contents>>,
}

/// An error inside a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// Where it happened.
    pub stage: Stage,
    /// Class of the exception, such as `ValueError`; groups errors in the reports.
    pub category: String,
    /// The message, one or more lines, never empty.
    pub message: String,
    /// Full traceback; empty where there is none.
    pub traceback: String,
    /// The last line of the user's code in it.
    pub frame: Option<Box<SourceLine>>,
}

impl ErrorInfo {
    /// An error that no line of the user's code stands behind.
    pub fn new(stage: Stage, category: &str, message: String) -> Self {
        Self { stage, category: category.to_owned(), message, traceback: String::new(), frame: None }
    }
}

/// What a process was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Importing the script.
    Import,
    /// `init()`.
    Init,
    /// Making the argument of `run()` from the data.
    Load,
    /// `run()` itself, and turning its result into rows.
    Run,
    /// `run()` took too long, and was cancelled.
    Cancelled,
    /// Some items of a `run()` of prs's own: the rows of the others stand.
    Items,
    /// `shutdown()`.
    Shutdown,
}
