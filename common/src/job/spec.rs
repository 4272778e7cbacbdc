//! `JobSpec`: every setting of a job, resolved and checked.
//!
//! It is what a job file becomes once defaults, overrides and paths are settled, and what
//! `job.json` stores, so that every process of a job works from the same values. Nothing here
//! reads a file or judges a value: that is `validate`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
    /// Tries of a mini-batch that the user's code may spoil, at least 1 (S3).
    pub run_max_try: u32,
    /// Lowest level of the script's log messages that is kept.
    pub logging_level: LoggingLevel,
    /// The Python interpreter: an absolute path, or a command to be found on `PATH`. `None` means
    /// the active virtual environment's Python, else `python3`.
    pub environment: Option<String>,
    /// Variables set in every process of the job.
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
        Self {
            name: name.into(),
            description: None,
            entry_script: entry_script.into(),
            source_directory: source_directory.into(),
            mini_batch_size: MiniBatchSize::default_for(kind),
            error_threshold: -1,
            allowed_failed_count: -1,
            allowed_failed_percent: 100.0,
            failures_allowed: false,
            output_action: OutputAction::AppendRow,
            append_row_file_name: "parallel_run_step.txt".to_owned(),
            output_format: None,
            node_count: 1,
            process_count_per_node: None,
            run_invocation_timeout: 60,
            run_max_try: 3,
            logging_level: LoggingLevel::Info,
            environment: None,
            environment_variables: BTreeMap::new(),
            compute_target: "default".to_owned(),
            inputs,
            output: None,
            keep: None,
            arguments: Vec::new(),
            allow_reuse: false,
            task_overhead_timeout: 600,
            progress_update_timeout: None,
            first_task_creation_timeout: 600,
            resource_monitor_interval: 0,
            notes: Vec::new(),
        }
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

impl fmt::Display for OutputAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AppendRow => "append_row",
            Self::SummaryOnly => "summary_only",
        })
    }
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

/// One dataset that the job works through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Name, unique in the job, a valid identifier; `input_1`, `input_2`, ... by default.
    pub name: String,
    /// What a mini-batch of it is to the script.
    pub kind: InputKind,
    /// Where its files are named.
    pub source: InputSource,
    /// Whether every node has the files under the same path.
    #[serde(default)]
    pub mode: InputMode,
    /// How to read it; present when, and only when, `kind` is tabular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tabular: Option<TabularOptions>,
}

/// What a mini-batch of an input is to the script (E4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A list of file paths.
    File,
    /// A `DataFrame`.
    Tabular,
}

impl fmt::Display for InputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Tabular => "tabular",
        })
    }
}

/// Where an input's files are named (D1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputSource {
    /// Absolute paths, each a folder, a file or a glob, listed one after the other.
    Paths(Vec<String>),
    /// Absolute path of a text file with one path or `s3://` URL a line.
    List(PathBuf),
    /// `s3://bucket/key` URLs, each a folder, an object or a glob, listed one after the other.
    Remote(Vec<String>),
    /// The listing itself, as an object of the job's storage. Never from a job file: it is what the others
    /// become when a job is submitted whose files are not on every node.
    Manifest {
        /// Its key.
        key: String,
        /// What the user called the input, for people.
        label: String,
        /// Files in it.
        files: u64,
        /// Bytes in all files whose size is known.
        bytes: u64,
        /// Checksum of what it holds, in hexadecimal: the same listing has the same one (P3, D6).
        checksum: String,
        /// URLs of the stores that its files are in, beside the fleet's own: nodes open no other.
        #[serde(default)]
        stores: Vec<String>,
        /// What the job file names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        named: Option<Box<InputSource>>,
    },
}

impl InputSource {
    /// What the user called it.
    pub fn label(&self) -> String {
        match self {
            Self::Paths(paths) | Self::Remote(paths) => paths.join(", "),
            Self::List(path) => path.display().to_string(),
            Self::Manifest { label, .. } => label.clone(),
        }
    }
}

/// How an input's files reach the nodes (P5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputMode {
    /// In a fleet, they are uploaded to storage at submission.
    #[default]
    Upload,
    /// Every node has them under the same path.
    Direct,
}

/// How delimited text is read (D2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabularOptions {
    /// The byte between two fields; ASCII, neither a quote nor a line end.
    pub delimiter: u8,
    /// Whether the first record of each file names the columns.
    pub has_header: bool,
    /// Types given by column name, in the order of the job file.
    pub dtype: Vec<(String, String)>,
    /// How the types of the other columns are found.
    pub infer: Infer,
}

impl Default for TabularOptions {
    fn default() -> Self {
        Self { delimiter: b',', has_header: true, dtype: Vec::new(), infer: Infer::Sampled }
    }
}

/// How column types are found where the job does not give them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Infer {
    /// From blocks sampled over the whole of the file.
    #[default]
    Sampled,
    /// From all of it.
    Full,
}
