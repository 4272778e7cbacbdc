//! One dataset of a job: where its files are named, how they are read, and how they reach the nodes.
//!
//! Plain data: nothing here looks at a file or judges a value.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::http_url;
use super::left_out::{Exclusions, LeftOut};
use super::mltable::{Encoding, MlTable};
use super::partition_format::PartitionFormat;
use super::step_output::StepOutput;

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
    /// What a file `MLTable` says of it; nothing where the job file names the files itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mltable: Option<Box<MlTable>>,
    /// Which columns the paths of its files have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_format: Option<PartitionFormat>,
    /// Exclusions from the folders that it names.
    #[serde(default, skip_serializing_if = "Exclusions::is_empty")]
    pub exclusions: Exclusions,
}

impl Input {
    /// One of which the job file says no more.
    pub fn new(name: &str, kind: InputKind, source: InputSource) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            source,
            mode: InputMode::default(),
            tabular: (kind == InputKind::Tabular).then(TabularOptions::default),
            mltable: None,
            partition_format: None,
            exclusions: Exclusions::default(),
        }
    }

    /// The columns that the paths of its files have.
    pub fn path_columns(&self) -> impl Iterator<Item = &str> {
        self.partition_format.iter().flat_map(PartitionFormat::names)
    }
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
    /// Absolute path of a text file with one path, `s3://` or `https://` URL a line.
    List(PathBuf),
    /// `s3://bucket/key` URLs, each a folder, an object or a glob, and `https://host/path` ones, each a file; listed one
    /// after the other.
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
        /// Entries that the rules of listings left out.
        #[serde(default, skip_serializing_if = "LeftOut::is_empty")]
        left_out: LeftOut,
        /// What the job file names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        named: Option<Box<InputSource>>,
    },
    /// An output of another step of the same pipeline. It is known where that is once the pipeline has an id.
    Output(StepOutput),
    /// No data: one item, for a job that is one command.
    OneItem,
}

/// The name of the one item of [`InputSource::OneItem`].
pub const ONE_ITEM: &str = "command";

impl InputSource {
    /// What the user called it, without the secrets of URLs.
    pub fn label(&self) -> String {
        match self {
            Self::Paths(paths) => paths.join(", "),
            Self::Remote(urls) => urls.iter().map(|url| http_url::shown(url)).collect::<Vec<_>>().join(", "),
            Self::List(path) => path.display().to_string(),
            Self::Manifest { label, .. } => label.clone(),
            Self::Output(output) => output.to_string(),
            Self::OneItem => ONE_ITEM.to_owned(),
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

/// How the records of a file are written down (D2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableFormat {
    /// Fields between delimiters, a record a line.
    Delimited,
    /// A JSON object a line.
    JsonLines,
    /// Parquet.
    Parquet,
}

impl TableFormat {
    /// What the suffix of a file, URL or glob says, below that of a compression; delimited text where it says nothing.
    pub fn by_suffix(name: &str) -> Self {
        let name = if http_url::is_http(name) { http_url::path_of(name) } else { name };
        let name = name.to_ascii_lowercase();
        match below_compression(&name).rsplit_once('.').map(|(_, suffix)| suffix) {
            Some("parquet" | "parq" | "pq") => Self::Parquet,
            Some("jsonl" | "ndjson" | "json") => Self::JsonLines,
            _ => Self::Delimited,
        }
    }
}

/// The lower-case `name` without the suffix of a compression.
pub fn below_compression(name: &str) -> &str {
    let suffixes = [".gz", ".zst", ".bz2", ".xz", ".zip"];
    suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// How tables are read (D2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabularOptions {
    /// What every file is; nothing where the suffix of each says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<TableFormat>,
    /// Of delimited text, the byte between two fields; ASCII, neither a quote nor a line end.
    pub delimiter: u8,
    /// Whether the first record of each file names the columns.
    pub has_header: bool,
    /// How text is encoded.
    #[serde(default, skip_serializing_if = "Encoding::is_default")]
    pub encoding: Encoding,
    /// How each file is compressed.
    #[serde(default, skip_serializing_if = "Compression::is_default")]
    pub compression: Compression,
    /// Texts that are missing values in delimited text; those of pandas without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null_values: Option<Vec<String>>,
    /// Texts that are missing values beside those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_null_values: Vec<String>,
    /// Types given by column name, in the order of the job file.
    pub dtype: Vec<(String, String)>,
    /// How the types of the other columns are found.
    pub infer: Infer,
    /// The columns of Parquet files that are read, in this order; all of them without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Whether a row group of a Parquet file that is larger than a mini-batch is split by its rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub split_row_groups: bool,
}

impl Default for TabularOptions {
    fn default() -> Self {
        Self {
            format: None,
            delimiter: b',',
            has_header: true,
            encoding: Encoding::default(),
            compression: Compression::default(),
            null_values: None,
            add_null_values: Vec::new(),
            dtype: Vec::new(),
            infer: Infer::Full,
            columns: None,
            split_row_groups: false,
        }
    }
}

impl TabularOptions {
    /// What the file of this name is.
    pub fn format_of(&self, name: &str) -> TableFormat {
        self.format.unwrap_or_else(|| TableFormat::by_suffix(name))
    }
}

/// How files of text are compressed as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// As the first bytes of each say.
    #[default]
    Infer,
    /// Not at all.
    None,
    /// By gzip.
    Gzip,
    /// By bzip2.
    Bz2,
    /// By xz.
    Xz,
    /// In a zip file of one file.
    Zip,
    /// By Zstandard.
    Zstd,
}

impl Compression {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How column types are found where the job does not give them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Infer {
    /// From blocks sampled over the whole of the file.
    Sampled,
    /// From all of it.
    #[default]
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_its_suffix_says_below_the_compression() {
        use TableFormat::{Delimited, JsonLines, Parquet};
        for (name, expected) in [
            ("/in/a.csv", Delimited),
            ("/in/a.CSV.gz", Delimited),
            ("a", Delimited),
            ("/in.json/a", Delimited),
            ("a.gz", Delimited),
            ("a.gz.jsonl.txt", Delimited),
            ("a.jsonl", JsonLines),
            ("s3://bucket/*.NDJSON.zst", JsonLines),
            ("a.b.json.gz", JsonLines),
            ("a.json.zip", JsonLines),
            ("a.csv.bz2", Delimited),
            ("a.ndjson.xz", JsonLines),
            ("a.parquet", Parquet),
            ("a.parq", Parquet),
            ("a.PQ.gz", Parquet),
        ] {
            assert_eq!(TableFormat::by_suffix(name), expected, "{name}");
            let given = TabularOptions { format: Some(Parquet), ..TabularOptions::default() };
            assert_eq!(given.format_of(name), Parquet, "{name}");
        }
    }
}
