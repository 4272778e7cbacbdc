//! One dataset of a job: where its files are named, how they are read, and how they reach the nodes.
//!
//! Plain data: nothing here looks at a file or judges a value.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
