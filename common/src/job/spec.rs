//! `JobSpec`: every setting of a job, resolved and checked.
//!
//! It is what a job file becomes once defaults, overrides and paths are settled, and what
//! `job.json` stores, so that every process of a job works from the same values. Nothing here
//! reads a file or judges a value: that is `validate`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::counting::Counting;
use super::environment::Environment;
use super::graph::Graph;
use super::keys::JOB;
use super::names::NamedAsset;
use super::origin::Origins;
use super::outputs::NamedOutput;
use super::own_id::WithJobId;
use super::shuffle::ShuffleStage;
use super::side_inputs::SideInput;
use crate::dataset::input::{Input, InputKind, InputSource};
use crate::storage::Reach;

/// The resolved settings of one job (spec section 2).
///
/// Made by [`load`](super::load) from a job file, or by [`JobSpec::new`] in code; the latter
/// checks nothing. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name of the job: `^[a-z]([-a-z0-9]*[a-z0-9])?$`, 3 to 32 characters.
    pub name: String,
    /// The name as its author wrote it, where that is another one.
    #[serde(default)]
    pub display_name: Option<String>,
    /// Free text for people.
    pub description: Option<String>,
    /// What Azure's forms count the job to.
    #[serde(default)]
    pub experiment_name: Option<String>,
    /// What people tell jobs apart by.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The same, of programs.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// The script to import: a file path below `source_directory`, or a dotted module name (E1).
    pub entry_script: String,
    /// Folder that holds the entry script and what it needs; goes along to every node.
    pub source_directory: PathBuf,
    /// How much goes into one mini-batch.
    pub mini_batch_size: MiniBatchSize,
    /// Columns of all inputs: what has the same values in them is one mini-batch, and its size does not count. Without
    /// any, the size does.
    #[serde(default)]
    pub partition_keys: Vec<String>,
    /// What the job does of a shuffle, where its data, or that of the job behind it, is put together by keys first. Never
    /// from a job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<ShuffleStage>,
    /// What the job does where rows are counted before it is planned. Never from a job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<Counting>,
    /// Of the last step of a shuffle: where its inputs were before their rows were put together, as the job file names them.
    /// Never from a job file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grouped_from: Vec<InputSource>,
    /// Bytes of each input behind which its plan ends: a trial looks at no more. Never from a job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_bytes: Option<u64>,
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
    /// Mini-batches that one process has under way at once, 1 to 1000, where its script can; `None` means
    /// [`JobSpec::CONCURRENCY`] (E17).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// Mini-batches that one process runs, at least 1; then a fresh one takes its place. `None` is any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mini_batches_per_process: Option<u64>,
    /// Anonymous memory that one process may have between mini-batches, bytes, at least 1; with as much, a fresh one takes its
    /// place. `None` is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory_per_process: Option<u64>,
    /// Seconds one call of `run` may take, at least 1 (S4).
    pub run_invocation_timeout: u64,
    /// Tries of a mini-batch that may fail in the user's code, at least 1 (S3).
    pub run_max_try: u32,
    /// Whether a mini-batch is split after its last try, so that items that cannot be run cost no others. Never with
    /// `partition_keys`.
    #[serde(default)]
    pub split_failed: bool,
    /// Lowest level of the script's log messages that is kept.
    pub logging_level: LoggingLevel,
    /// What runs the script: an interpreter, or packages of which an environment is made. `None` means the active virtual
    /// environment's Python, else `python3`.
    pub environment: Option<Environment>,
    /// What scripts find below `AZUREML_MODEL_DIR`: a side input that no text can refer to.
    #[serde(default)]
    pub model: Option<SideInput>,
    /// Variables set in every process of the job.
    #[serde(default)]
    pub environment_variables: BTreeMap<String, String>,
    /// Name of the fleet that runs the job.
    pub compute_target: String,
    /// The inputs, at least one, all of one kind; each is partitioned on its own.
    pub inputs: Vec<Input>,
    /// What each node has whole before `init()` (P4), under names of their own.
    #[serde(default)]
    pub side_inputs: Vec<SideInput>,
    /// Files and folders of the output that the script knows by name.
    #[serde(default)]
    pub outputs: Vec<NamedOutput>,
    /// Folder for the output. `None` means `output/` of the run.
    pub output: Option<PathBuf>,
    /// Folder in a bucket that the output is delivered to at the end of the job, beside `output/` of the run: an `s3://` URL without a
    /// `/` at its end. The key `output` gives it, or [`output`](Self::output).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_to: Option<String>,
    /// Seconds that the job is kept after its end, at least 3,600; then `gc` removes it. `None`: until `rm` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u64>,
    /// Arguments for the script, as written in the job file; they follow prs's own (E11).
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Whether a former job's output may be given back without running (P3).
    pub allow_reuse: bool,
    /// Whether mini-batches that take much longer than others are started a second time.
    pub speculation: bool,
    /// Seconds that the overhead of one mini-batch may take, at least 1.
    pub task_overhead_timeout: u64,
    /// Seconds without progress after which the job fails, at least 1. `None` means computed.
    pub progress_update_timeout: Option<u64>,
    /// Seconds until the first mini-batch must be scheduled, at least 1.
    pub first_task_creation_timeout: u64,
    /// Seconds between two looks at what host and processes use; 0 is off.
    pub resource_monitor_interval: u64,
    /// Whether the pipeline that the job is a step of has its logs too.
    #[serde(default)]
    pub copy_logs_to_parent: bool,
    /// What of it is registered: which versions were meant when the job was submitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_data: Vec<NamedAsset>,
    /// What another job with other inputs is made of, where the job file is a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Box<Graph>>,
    /// The deployment that was called, where the job is a call of an endpoint. Never from a job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed: Option<Box<Deployed>>,
    /// Which places elsewhere it may use, where a server took it. Never from a job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Box<Reach>>,
    /// Who handed the job in; nothing where no program said so. Never from a job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_by: Option<Box<Submitter>>,
    /// The job that this one runs again. Never from a job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resubmitted_from: Option<String>,
    /// What the job file calls the output, where the id of the job is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_job_id: Option<Box<WithJobId>>,
    /// What the loader took with a reservation that its author should know of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What gave the settings, by their keys.
    #[serde(default, skip_serializing_if = "Origins::is_empty")]
    pub origins: Origins,
}

impl JobSpec {
    /// Mini-batches that one process has under way at once where nobody says how many.
    pub const CONCURRENCY: u32 = 16;
    /// Tries of the parts of one mini-batch that is split.
    pub const MOST_TRIES_OF_PARTS: usize = 500;

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

    /// Takes over what people say of a job, which changes nothing of what it does, from `other`.
    pub fn take_words(&mut self, other: &Self) {
        self.display_name.clone_from(&other.display_name);
        self.description.clone_from(&other.description);
        self.tags.clone_from(&other.tags);
    }

    /// Where the files of all inputs and side inputs are named.
    pub fn sources(&self) -> impl Iterator<Item = &InputSource> {
        let side_inputs = self.with_model().map(|side_input| &side_input.source);
        self.inputs.iter().map(|input| &input.source).chain(side_inputs)
    }

    /// The side inputs, and the model, which is one too.
    pub fn with_model(&self) -> impl Iterator<Item = &SideInput> {
        self.side_inputs.iter().chain(&self.model)
    }

    /// The same, to be changed.
    pub fn with_model_mut(&mut self) -> impl Iterator<Item = &mut SideInput> {
        self.side_inputs.iter_mut().chain(&mut self.model)
    }

    /// The places elsewhere that it may use, for what opens them; nothing where it may use all.
    pub fn reach(&self) -> Option<Arc<Reach>> {
        self.reach.as_deref().cloned().map(Arc::new)
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

/// A deployment that was called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployed {
    /// The endpoint.
    pub endpoint: String,
    /// The deployment.
    pub deployment: String,
    /// What it was then.
    pub revision: u64,
    /// Who called, where a server took the call: the id of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_by: Option<String>,
}

/// Who handed a job in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitter {
    /// What people call them.
    pub name: String,
    /// What a server tells them from others of the same name by; nothing where no server took the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
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

/// How what `run` returned is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OutputFormat {
    /// Delimited text; only DataFrames can be returned.
    Csv(CsvFormat),
    /// A format that has no settings.
    Plain(PlainFormat),
}

impl OutputFormat {
    /// Whether the result is a Parquet file.
    pub fn is_parquet(self) -> bool {
        self == Self::Plain(PlainFormat::Parquet)
    }

    /// Whether the names of the columns are the first line of the result.
    pub fn has_header(self) -> bool {
        matches!(self, Self::Csv(CsvFormat { header: true, .. }))
    }
}

/// Rows of fields, quoted as RFC 4180 says, each row ended by a line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvFormat {
    /// The character between two fields; ASCII, neither a quote nor a line end.
    pub delimiter: char,
    /// Whether the names of the columns are the first line of the result.
    pub header: bool,
}

impl CsvFormat {
    /// What `csv` stands for.
    pub const DEFAULT: Self = Self { delimiter: ',', header: true };
}

/// The formats that have a name and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlainFormat {
    /// One JSON value a line: an object for each row of a DataFrame, and what an element of a list is.
    JsonLines,
    /// A Parquet file with the columns of DataFrames in their types; only DataFrames can be returned.
    Parquet,
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
