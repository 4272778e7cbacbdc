//! `JobSpec`: every setting of a job, resolved and checked.
//!
//! It is what a job file becomes once defaults, overrides and paths are settled, and what
//! `job.json` stores, so that every process of a job works from the same values. Nothing here
//! reads a file or judges a value: that is `validate`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::keys::JOB;
use crate::dataset::input::{Input, InputKind};

/// The resolved settings of one job (spec section 2).
///
/// Made by [`load`](super::load) from a job file, or by [`JobSpec::new`] in code; the latter
/// checks nothing. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name of the job: `^[a-z]([-a-z0-9]*[a-z0-9])?$`, 3 to 32 characters.
    pub name: String,
    /// Free text for people.
    pub description: Option<String>,
    /// The script to import: a file path below `source_directory`, or a dotted module name (E1).
    pub entry_script: String,
    /// Folder that holds the entry script and what it needs; goes along to every node.
    pub source_directory: PathBuf,
    /// How much goes into one mini-batch.
    pub mini_batch_size: MiniBatchSize,
    /// Failed items beyond which the job is aborted; -1 ignores all failures (S7).
    pub error_threshold: i64,
    /// Failed mini-batches beyond which the job is aborted; -1 ignores all failures (S7).
    pub allowed_failed_count: i64,
    /// Percentage of failed mini-batches, 0 to 100, beyond which the job is aborted once all of
    /// them are scheduled; 100 ignores all failures.
    pub allowed_failed_percent: f64,
    /// Whether the job file, or `--set`, has any of the three: then items may be missing from the result of a job that
    /// completed, as far as they allow it.
    #[serde(default)]
    pub failures_allowed: bool,
    /// What becomes of the returned rows.
    pub output_action: OutputAction,
    /// Name of the result file of `append_row`.
    pub append_row_file_name: String,
    /// How returned DataFrames are written there. `None` means as ParallelRunStep does: with spaces between columns and
    /// no header, unless the script's own settings say otherwise (E8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_format: Option<OutputFormat>,
    /// Number of nodes the job asks for, at least 1.
    pub node_count: u32,
    /// Processes on each node, at least 1. `None` leaves it to the host: 1 where there are GPUs,
    /// else the number of cores.
    pub process_count_per_node: Option<u32>,
    /// Seconds one call of `run` may take, at least 1 (S4).
    pub run_invocation_timeout: u64,
    /// Tries of a mini-batch that may fail in the user's code, at least 1 (S3).
    pub run_max_try: u32,
    /// Lowest level of the script's log messages that is kept.
    pub logging_level: LoggingLevel,
    /// The Python interpreter: an absolute path, or a command to be found on `PATH`. `None` means
    /// the active virtual environment's Python, else `python3`.
    pub environment: Option<String>,
    /// Variables set in every process of the job.
    #[serde(default)]
    pub environment_variables: BTreeMap<String, String>,
    /// Name of the fleet that runs the job.
    pub compute_target: String,
    /// The inputs, at least one, all of one kind; each is partitioned on its own.
    pub inputs: Vec<Input>,
    /// Folder for the output. `None` means `output/` of the run.
    pub output: Option<PathBuf>,
    /// Seconds that the job is kept after its end, at least 3,600; then `gc` removes it. `None`: until `rm` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u64>,
    /// Arguments for the script, as written in the job file; they follow prs's own (E11).
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Whether a former job's output may be given back without running (P3); not built yet, so always false.
    pub allow_reuse: bool,
    /// Seconds that the overhead of one mini-batch may take, at least 1.
    pub task_overhead_timeout: u64,
    /// Seconds without progress after which the job fails, at least 1. `None` means computed.
    pub progress_update_timeout: Option<u64>,
    /// Seconds until the first mini-batch must be scheduled, at least 1.
    pub first_task_creation_timeout: u64,
    /// Seconds between two looks at the host's resources; 0 is off. Not built yet, so always 0.
    pub resource_monitor_interval: u64,
    /// Whether the pipeline that the job is a step of has its logs too.
    #[serde(default)]
    pub copy_logs_to_parent: bool,
    /// What the loader took with a reservation that its author should know of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl JobSpec {
    /// A job with the defaults of spec section 2 in every other setting. Checks nothing.
    ///
    /// `mini_batch_size` takes the default for the kind of the first input, file where there is
    /// none.
    pub fn new(
        name: impl Into<String>,
        source_directory: impl Into<PathBuf>,
        entry_script: impl Into<String>,
        inputs: Vec<Input>,
    ) -> Self {
        let kind = inputs.first().map_or(InputKind::File, |input| input.kind);
        let mini_batch_size = MiniBatchSize::default_for(kind);
        let mut settings = JOB.defaults();
        let required = json!({
            "name": name.into(), "source_directory": "", "entry_script": entry_script.into(),
            "mini_batch_size": mini_batch_size, "inputs": [],
        });
        settings.extend(required.as_object().cloned().unwrap_or_default());
        let spec = Self::of_stored(settings);
        Self { source_directory: source_directory.into(), inputs, ..spec }
    }

    /// The settings as `job.json` has them, under the names of their keys. Paths are UTF-8.
    pub fn stored(&self) -> Map<String, Json> {
        let stored = serde_json::to_value(self).expect("a job file is UTF-8, and so are its paths");
        stored.as_object().cloned().unwrap_or_default()
    }

    /// The settings that [`stored`](Self::stored) gave, some of them changed as the table of keys has it.
    pub(super) fn of_stored(settings: Map<String, Json>) -> Self {
        serde_json::from_value(Json::Object(settings)).expect("the table of keys has the types of the fields")
    }
}

/// How much input goes into one mini-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MiniBatchSize {
    /// A number of files, at least 1 (file inputs).
    Files(u64),
    /// An approximate number of bytes, at least 1 (tabular inputs).
    Bytes(u64),
}

impl MiniBatchSize {
    /// 10 files, or 1 MiB.
    pub fn default_for(kind: InputKind) -> Self {
        match kind {
            InputKind::File => Self::Files(10),
            InputKind::Tabular => Self::Bytes(1024 * 1024),
        }
    }

    /// The bare number, files or bytes, as the script's `--mini_batch_size` shows it (E11).
    pub fn amount(self) -> u64 {
        match self {
            Self::Files(amount) | Self::Bytes(amount) => amount,
        }
    }
}

/// What becomes of the rows that `run` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputAction {
    /// They are written to one file (E8).
    AppendRow,
    /// They are counted; the script writes its own files (E9).
    SummaryOnly,
}

/// How returned DataFrames are written: rows of fields, quoted as RFC 4180 says, each row ended by a line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// The character between two fields; ASCII, neither a quote nor a line end.
    pub delimiter: char,
    /// Whether the names of the columns are the first line of the result.
    pub header: bool,
}

impl OutputFormat {
    /// What `csv` stands for.
    pub const CSV: Self = Self { delimiter: ',', header: true };
}

/// Lowest level of the script's log messages that is kept, by its name in Python's `logging`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LoggingLevel {
    /// Warnings and errors.
    Warning,
    /// Also information.
    Info,
    /// Everything.
    Debug,
}

impl fmt::Display for LoggingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "WARNING",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
        })
    }
}
