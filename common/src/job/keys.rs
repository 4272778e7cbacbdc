//! The table of job-file keys (spec section 2): what each takes, its default, who may set it, what the script gets of it.
//!
//! One entry is all that says so. The reader, `--set`, the arguments that are reserved, `prs explain`, `prs show` and the
//! tables of `docs/job-file.md` come from it. A key whose value is stored under its own name in `job.json`, as
//! [`Takes`] reads it, needs an entry here and a field of [`JobSpec`](super::JobSpec), and no code that reads it.

use std::fmt;

use serde_json::{Map, Value as Json};

use super::environment::ENVIRONMENT;
use super::model::MODEL;
use super::own_id::check_named_file;
use super::takes::{COUNT, INT_MAX, SECONDS, THRESHOLD, Takes};
use super::validate::{JOB_NAME, TARGET_NAME, check_name, check_target};
use super::yaml::Node;

/// A key of a job file.
#[derive(Debug)]
pub struct Key {
    /// Its name, in job files and in `job.json`.
    pub name: &'static str,
    /// Its type and range.
    pub takes: Takes,
    /// What holds where a job file does not have it.
    pub default: Fallback,
    /// What it is for, in a few words of Markdown.
    pub meaning: &'static str,
    /// Where the documentation has more, seen from `docs/job-file.md`.
    pub more: Option<&'static str>,
    /// What it has to do with the arguments of the script.
    pub argument: Argument,
    /// Whether the output depends on it: two jobs that differ in it have no output in common (spec P3). So of every key
    /// that does not say otherwise.
    pub decides_output: bool,
    settable: &'static [Start],
}

/// What holds without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Nothing: the key is required.
    Required,
    /// This value, as a job file writes it.
    Value(&'static str),
    /// What these words say.
    Says(&'static str),
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "required",
            Self::Value(text) | Self::Says(text) => text,
        })
    }
}

/// What a key has to do with the arguments of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// Nothing: an argument of this name is the script's own.
    None,
    /// prs gives it to the script as `--KEY VALUE`, in front of the arguments of the job (spec E11).
    Given,
    /// An argument of this name counts as the key, and reaches the script all the same: azureml has no key for it.
    Setting,
    /// Both: the script gets it once, from prs or where the job has it among its arguments.
    Both,
}

impl Argument {
    /// Whether prs gives it to the script.
    pub fn is_given(self) -> bool {
        matches!(self, Self::Given | Self::Both)
    }

    /// Whether an argument of its name counts as the key.
    pub fn is_setting(self) -> bool {
        matches!(self, Self::Setting | Self::Both)
    }
}

/// What may change settings without changing the job file (spec P2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// `submit --set` and `resubmit --set`.
    Submission,
    /// `resume --set`: how the job is run, not what.
    Resumption,
}

/// A mapping of a job file.
#[derive(Debug)]
pub struct Section {
    /// What its keys are named with in front, such as `inputs.`.
    pub prefix: &'static str,
    /// What has these keys.
    pub of: &'static str,
    /// Its keys, in the order in which people read them.
    pub keys: &'static [Key],
}

const fn key(name: &'static str, takes: Takes, default: Fallback) -> Key {
    let (meaning, more, argument, decides_output, settable) = ("", None, Argument::None, true, &[]);
    Key { name, takes, default, meaning, more, argument, decides_output, settable }
}

const fn required(name: &'static str, takes: Takes) -> Key {
    key(name, takes, Fallback::Required)
}

const fn with_default(name: &'static str, takes: Takes, default: &'static str) -> Key {
    key(name, takes, Fallback::Value(default))
}

const fn optional(name: &'static str, takes: Takes, default: &'static str) -> Key {
    key(name, takes, Fallback::Says(default))
}

/// Both starts of a job.
const ANY: &[Start] = &[Start::Submission, Start::Resumption];
const AT_SUBMISSION: &[Start] = &[Start::Submission];

impl Key {
    const fn means(mut self, meaning: &'static str) -> Self {
        self.meaning = meaning;
        self
    }

    const fn more(mut self, place: &'static str) -> Self {
        self.more = Some(place);
        self
    }

    const fn set(mut self, starts: &'static [Start]) -> Self {
        self.settable = starts;
        self
    }

    const fn argument(mut self, argument: Argument) -> Self {
        self.argument = argument;
        self
    }

    /// The output is the same whatever it is.
    const fn keeps_output(mut self) -> Self {
        self.decides_output = false;
        self
    }

    /// Whether such a start of a job may change it.
    pub fn is_settable(&self, start: Start) -> bool {
        self.settable.contains(&start)
    }

    /// Its type and range, in words.
    pub fn range(&self) -> String {
        self.takes.to_string()
    }

    /// The default as `job.json` has it; nothing where that depends on more than the key.
    pub(super) fn default_value(&self) -> Option<Json> {
        let Fallback::Value(text) = self.default else { return None };
        self.takes.read(&Node::text(text, None)).ok().filter(|value| !value.is_null())
    }
}

impl Section {
    /// The key of this name.
    pub fn find(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The key of this name, which is in the table.
    pub(super) fn key(&self, name: &str) -> &'static Key {
        self.find(name).expect("the reader names keys of the table")
    }

    /// The names of its keys.
    pub fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }

    /// The defaults that `job.json` has under the names of the keys.
    pub(super) fn defaults(&self) -> Map<String, Json> {
        self.keys.iter().filter_map(|key| Some((key.name.to_owned(), key.default_value()?))).collect()
    }
}

/// The keys that such a start of a job may change.
pub fn settable(start: Start) -> Vec<&'static str> {
    JOB.keys.iter().filter(|key| key.is_settable(start)).map(|key| key.name).collect()
}

/// The keys of which any one says that items may be missing.
pub const THRESHOLDS: [&str; 3] = ["error_threshold", "allowed_failed_count", "allowed_failed_percent"];

/// All keys of a job file.
pub static SECTIONS: [&Section; 3] = [&JOB, &INPUT, &OUTPUT_FORMAT];

/// All keys with their whole names, such as `inputs.path`.
pub fn all() -> impl Iterator<Item = (String, &'static Key)> {
    let of_section = |section: &'static Section| {
        section.keys.iter().map(move |key| (format!("{}{}", section.prefix, key.name), key))
    };
    SECTIONS.into_iter().flat_map(of_section)
}

/// The words that a key takes, with its place as a problem names it (`inputs[0].type`); nothing where it takes others than a few words.
pub fn words_of(place: &str) -> Option<&'static [&'static str]> {
    const BOOLEAN: &[&str] = &["true", "false"];
    let place = place.strip_prefix("--set ").unwrap_or(place);
    let parts = place.split('.').map(|part| part.split('[').next().unwrap_or_default());
    let name = parts.collect::<Vec<_>>().join(".");
    let (_, key) = all().find(|(known, _)| *known == name)?;
    match key.takes {
        Takes::Words(words) => Some(words),
        Takes::Boolean => Some(BOOLEAN),
        _ => None,
    }
}

/// Mini-batches that one process may have under way at once.
const MOST_CONCURRENT: i64 = 1000;

const TEXTS: &str = "a mapping of names to texts";

/// The keys of the job itself.
pub static JOB: Section = Section {
    prefix: "",
    of: "a job file",
    keys: &[
        required("name", Takes::Named(JOB_NAME, check_name)).keeps_output().means("begins the id of the job"),
        optional("display_name", Takes::Text, "none").keeps_output().means("for people: the name that Azure's forms give the job"),
        optional("description", Takes::Text, "none").keeps_output().means("for people"),
        optional("experiment_name", Takes::Text, "none").keeps_output().means("for people: kept with the job"),
        optional("tags", Takes::Own(TEXTS), "none").keeps_output().means("for people: kept with the job"),
        optional("properties", Takes::Own(TEXTS), "none").keeps_output().means("for people: kept with the job"),
        optional("source_directory", Takes::Own("the folder that holds the entry script"), "the job file's folder").keeps_output()
            .means("what the script is and imports; its code goes along with the job, at most 512 MiB")
            .more("#what-is-packed"),
        required(
            "entry_script",
            Takes::Own("a .py file below source_directory, or a module name such as pkg.main"),
        )
        .means("the script with `run()`"),
        optional("arguments", Takes::Own("a list of texts"), "none")
            .means("for the script, behind those that prs gives it")
            .more("entry-script.md"),
        required(
            "inputs",
            Takes::Own("a list of mappings with type and path, such as `- {type: file, path: data}`"),
        )
        .means("what the job works through, all of one type")
        .more("#an-input"),
        optional(
            "side_inputs",
            Takes::Own("a mapping of names to paths, such as {model: ./model, table: s3://bucket/table.csv}"),
            "none",
        )
        .means("files and folders that each node has whole before `init()`; the script gets the path")
        .more("#side-inputs"),
        optional(
            "outputs",
            Takes::Own("a mapping of names to paths below the output, such as {models: out/models}"),
            "a folder for each `${{outputs.NAME}}`",
        )
        .means("files and folders of the output that the script is given by name")
        .more("#named-outputs"),
        optional(
            "mini_batch_size",
            Takes::Own("a number of files; for tabular inputs bytes, as 1024, 100KB, 10MB or 1GB"),
            "10 files; 1MB",
        )
        .set(AT_SUBMISSION)
        .argument(Argument::Given)
        .means("how much one call of `run()` gets"),
        optional("partition_keys", Takes::Own("a list of columns"), "none")
            .argument(Argument::Given)
            .means("what has the same values in these columns, of the paths or the data, is one mini-batch, whatever its size")
            .more("#partitions"),
        optional(
            "environment",
            Takes::Own(ENVIRONMENT),
            "the active virtual environment, else the one that the wheel of prs is installed in, else `python3`",
        )
        .set(ANY)
        .more("environments.md")
        .means("runs the script; an interpreter is looked for where the job runs, packages are installed there"),
        optional("model", Takes::Own(MODEL), "none")
            .more("environments.md#a-model")
            .means("what the script finds below `AZUREML_MODEL_DIR`, under its own name"),
        optional("environment_variables", Takes::Own("a mapping of names to values"), "none")
            .means("set in every process"),
        with_default("output_action", Takes::Words(&["append_row", "summary_only"]), "append_row")
            .argument(Argument::Given)
            .means("`append_row`: returned rows go into one file; `summary_only`: they are only counted"),
        with_default(
            "append_row_file_name",
            Takes::Named("the name of a file", check_named_file),
            "parallel_run_step.txt",
        )
        .argument(Argument::Given)
        .means(
            "name of that file; not one that prs uses in an output itself (`failed_mini_batches.jsonl`, `.tmp`, \
             `.prs-…`), in any spelling that some store takes for the same",
        ),
        optional(
            "output_format",
            Takes::Own("csv, json_lines, parquet, or a mapping such as {delimiter: \";\", header: true} for CSV"),
            "as ParallelRunStep: blanks between columns, no header",
        )
        .set(AT_SUBMISSION)
        .means("how results are written; `--set` takes `csv`, `json_lines` and `parquet`")
        .more("#tables-in-the-result"),
        optional("output", Takes::Own("the folder for the output, of this machine or s3://bucket/folder"), "`output/` of the run").keeps_output()
            .argument(Argument::Given)
            .means(
                "where the result goes; `${{name}}` in it is the id of the job, also in `append_row_file_name` and `outputs`. The job has a folder of this machine for itself while it runs; it must not hold a result \
                 already, but for `resume`, which replaces what the job brought. To a bucket the result is delivered at \
                 the end of the job, from `output/` of the run. The script gets a folder of its \
                 process, whose files go there",
            )
            .more("commands.md#the-output"),
        optional("keep", Takes::Time, "until `rm` removes it").keeps_output()
            .set(ANY)
            .means("how long the job is kept after its end; then `gc` removes it")
            .more("commands.md#what-is-kept"),
        with_default("compute_target", Takes::Named(TARGET_NAME, check_target), "default").keeps_output()
            .means("the fleet that runs the job; a run on this machine says that it does without"),
        with_default("node_count", COUNT, "1").keeps_output()
            .set(ANY)
            .argument(Argument::Given)
            .means("nodes of the fleet that the job asks for; a run on this machine says that it does without"),
        optional("process_count_per_node", COUNT, "1 on a host with GPUs, else the number of cores").keeps_output()
            .set(ANY)
            .argument(Argument::Given)
            .means("Python processes on each node"),
        optional("max_concurrency", Takes::Whole(1..=MOST_CONCURRENT, ""), "16")
            .keeps_output()
            .set(ANY)
            .means("mini-batches that one process has under way at once, where `run` is an `async def`, or the script streams")
            .more("entry-script.md#several-mini-batches-at-once"),
        optional("max_mini_batches_per_process", COUNT, "any number").keeps_output()
            .set(ANY)
            .means("mini-batches that one process runs; then a fresh one takes its place, for scripts that leak memory")
            .more("entry-script.md#scripts-that-leak"),
        optional("max_memory_per_process", Takes::Size, "any").keeps_output()
            .set(ANY)
            .means("memory of its own that one process may have between two mini-batches, in units of 1024; with as much, a fresh one takes its place")
            .more("entry-script.md#scripts-that-leak"),
        with_default("run_invocation_timeout", SECONDS, "60").keeps_output()
            .set(ANY)
            .argument(Argument::Given)
            .means("how long one `run()` may take; then its process is killed"),
        with_default("run_max_try", COUNT, "3").keeps_output()
            .set(ANY)
            .argument(Argument::Given)
            .means("tries of a mini-batch, before it counts as failed; tries lost with their worker are counted apart"),
        with_default("split_failed", Takes::Boolean, "false").keeps_output()
            .set(ANY)
            .more("entry-script.md#one-bad-item")
            .means(
                "whether a mini-batch whose last try failed is split by halves, down to its single items, so that an item \
                 that cannot be run costs no others; not with `partition_keys`",
            ),
        with_default("error_threshold", THRESHOLD, "-1").keeps_output()
            .set(ANY)
            .argument(Argument::Both)
            .means(
                "failed items beyond which the job is aborted. Without any of the three thresholds, a job that \
                 completes without some items exits with 10",
            )
            .more("commands.md#exit-codes"),
        with_default("allowed_failed_count", THRESHOLD, "-1").keeps_output()
            .set(ANY)
            .argument(Argument::Both)
            .means("failed mini-batches beyond which the job is aborted"),
        with_default("allowed_failed_percent", Takes::Number(0.0..=100.0), "100").keeps_output()
            .set(ANY)
            .argument(Argument::Both)
            .means("percentage of failed mini-batches beyond which it is aborted, judged once all are scheduled"),
        with_default("logging_level", Takes::Words(&["WARNING", "INFO", "DEBUG"]), "INFO").keeps_output()
            .set(ANY)
            .argument(Argument::Given)
            .means("lowest level of the script's log messages that is kept"),
        with_default("speculation", Takes::Boolean, "true").keeps_output()
            .set(ANY)
            .means(
                "whether a mini-batch that takes much longer than others is started a second time while processes are \
                 idle; the first outcome counts",
            )
            .more("reliability.md#stragglers"),
        with_default("task_overhead_timeout", SECONDS, "600").keeps_output()
            .set(ANY)
            .argument(Argument::Setting)
            .means("how long reading the data of a mini-batch may take"),
        optional(
            "progress_update_timeout",
            SECONDS,
            "computed: all tries of one mini-batch and a minute, at least 780",
        ).keeps_output()
        .set(ANY)
        .argument(Argument::Setting)
        .means("how long the job may be without any progress before it fails"),
        with_default("first_task_creation_timeout", SECONDS, "600").keeps_output()
            .set(ANY)
            .argument(Argument::Setting)
            .means("until when the first mini-batch must be planned"),
        with_default(
            "resource_monitor_interval",
            Takes::Whole(0..=INT_MAX, " seconds, where 0 is off"),
            "600",
        ).keeps_output()
        .set(ANY)
        .argument(Argument::Setting)
        .more("sizing.md#what-a-host-does")
        .means("time between two looks at what the host and the processes use"),
        with_default("copy_logs_to_parent", Takes::Boolean, "false").keeps_output()
            .argument(Argument::Setting)
            .means("whether the pipeline has the logs of its step; a job that is no step of one has a note of it"),
        with_default("allow_reuse", Takes::Boolean, "true")
            .keeps_output()
            .set(AT_SUBMISSION)
            .more("commands.md#an-output-that-is-there-already")
            .means("whether a job that completed with the same settings, code and inputs gives its output, and nothing runs"),
    ],
};

/// The keys of an input.
pub static INPUT: Section = Section {
    prefix: "inputs.",
    of: "an input",
    keys: &[
        optional("name", Takes::Own("letters, digits and `_` that begin with a letter or `_`"), "`input_1`, `input_2`, …")
            .means("what the script sees as `dataset_name`"),
        required("type", Takes::Words(&["file", "tabular", "mltable"]))
            .means("whether `run()` gets paths or rows, or the file `MLTable` says it; all inputs of a job are of one type")
            .more("mltable.md"),
        optional(
            "path",
            Takes::Own("a local path, or an s3:// or https:// URL"),
            "one of path, paths and list is required",
        )
        .means("a folder, file or glob; over https one file"),
        optional("paths", Takes::Own("a list of them"), "as for `path`").means("several, one after the other"),
        optional("list", Takes::Own("a local path"), "as for `path`")
            .means("a local text file with one path, `s3://` or `https://` URL a line"),
        optional("ignore", Takes::Own("a list of globs, such as `[\"*.tmp\", old/]`"), "nothing")
            .means("files and folders that are left out of a folder or glob")
            .more("#files-that-are-left-out"),
        with_default("mode", Takes::Words(&["upload", "direct"]), "upload").means(
            "`upload`: a fleet gets local files through its storage; `direct`: every node has them under the same path",
        ),
        optional("format", Takes::Words(&["delimited", "json_lines", "parquet"]), "by the suffix of each file")
            .means("tabular: what the files are")
            .more("#tabular-data"),
        with_default("delimiter", Takes::Own("one ASCII character, not a quote or line end"), ",")
            .means("delimited text: what stands between two fields"),
        with_default("header", Takes::Boolean, "true").means("delimited text: whether the first record names the columns"),
        with_default("encoding", Takes::Words(&["utf8", "latin1", "windows1252", "utf16", "utf32"]), "utf8")
            .means("text: how it is encoded; a byte order mark of UTF-16 or UTF-32 says so itself"),
        with_default("compression", Takes::Words(&["infer", "none", "gzip", "bz2", "xz", "zip", "zstd"]), "infer")
            .means("text: how each file is compressed; `infer`: as its first bytes say"),
        optional(
            "null_values",
            Takes::Own("a list of texts, such as `[\"\", \"-\"]`; `[]` for none"),
            "those of `pandas.read_csv`",
        )
        .means("delimited text: which texts are missing values")
        .more("#missing-values"),
        optional("add_null_values", Takes::Own("a list of texts, such as `[\"-\", \"-999\"]`"), "none")
            .means("delimited text: which texts are missing values too")
            .more("#missing-values"),
        optional("dtype", Takes::Own("a mapping of columns to int64, uint64, float64, bool or str"), "found in the data")
            .means("delimited text: types of columns"),
        with_default("infer", Takes::Words(&["full", "sampled"]), "full")
            .means("text: whether other types are found in all of a file, or sooner: in a sample, of JSON lines in each mini-batch"),
        optional("columns", Takes::Own("a list of names"), "all of them")
            .means("Parquet: the columns to read, in this order")
            .more("#parquet"),
        with_default("split_row_groups", Takes::Boolean, "false")
            .means("Parquet: whether a row group larger than `mini_batch_size` is split by its rows")
            .more("#parquet"),
        optional(
            "partition_format",
            Takes::Own("a path with fields, such as `{store}/{day:yyyy/MM/dd}/*.csv`"),
            "none",
        )
        .means("columns from the paths of the files")
        .more("#columns-from-paths"),
    ],
};

/// The keys of `output_format`.
pub static OUTPUT_FORMAT: Section = Section {
    prefix: "output_format.",
    of: "output_format",
    keys: &[
        with_default("delimiter", Takes::Own("one ASCII character, not a quote or line end"), ",")
            .means("what stands between two fields; `\"\\t\"` for a tab"),
        with_default("header", Takes::Boolean, "true")
            .means("whether the first line of the result has the names of the columns"),
    ],
};
