//! The actions of a commit: JSON, an object a line, whose one key says what it is. A row of a checkpoint is the same.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::DeltaError;

/// What a line says, as far as it is of interest.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Action {
    pub(super) add: Option<Add>,
    pub(super) remove: Option<Remove>,
    pub(super) meta_data: Option<Metadata>,
    pub(super) protocol: Option<Protocol>,
    commit_info: Option<CommitInfo>,
    /// In a checkpoint of the form v2, a file with more of it.
    pub(super) sidecar: Option<Value>,
}

/// A file becomes part of the table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add {
    pub(super) path: String,
    #[serde(default)]
    pub(super) partition_values: HashMap<String, Option<String>>,
    pub(super) size: u64,
    pub(super) deletion_vector: Option<DeletionVector>,
}

/// A file is no part of the table any more.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Remove {
    pub(super) path: String,
    pub(super) deletion_vector: Option<DeletionVector>,
}

/// Which rows of a file are deleted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeletionVector {
    storage_type: String,
    path_or_inline_dv: String,
    offset: Option<i64>,
}

impl DeletionVector {
    /// What tells it from others of the same file.
    pub(super) fn id(&self) -> String {
        let Self { storage_type, path_or_inline_dv, offset } = self;
        format!("{storage_type}{path_or_inline_dv}@{}", offset.unwrap_or_default())
    }
}

/// Columns and settings.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) format: Option<Format>,
    /// Absent where a writer adds the columns in a later version.
    pub(super) schema_string: Option<String>,
    #[serde(default)]
    pub(super) partition_columns: Vec<String>,
    /// Settings of the table.
    #[serde(default)]
    pub(super) configuration: Option<HashMap<String, Option<String>>>,
}

impl Metadata {
    /// A setting of the table.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.configuration.as_ref()?.get(name)?.as_deref()
    }
}

/// How files are written.
#[derive(Debug, Deserialize)]
pub(super) struct Format {
    pub(super) provider: Option<String>,
}

/// What readers must be able to do.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub(super) min_reader_version: u64,
    #[serde(default)]
    pub(super) reader_features: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommitInfo {
    in_commit_timestamp: Option<i64>,
}

/// Reads the commit `file` and hands its actions to `take`.
pub(super) fn read_commit(
    file: &str,
    bytes: &[u8],
    mut take: impl FnMut(Action) -> Result<(), DeltaError>,
) -> Result<(), DeltaError> {
    let damaged = |line: usize, reason: String| DeltaError::Damaged {
        file: file.to_owned(),
        place: if line == 0 { String::new() } else { format!(", line {line}") },
        reason,
    };
    let mut is_empty = true;
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        is_empty = false;
        let action = serde_json::from_slice(line).map_err(|error| damaged(number, shown(&error)))?;
        take(action)?;
    }
    if is_empty { Err(damaged(0, "it is empty".to_owned())) } else { Ok(()) }
}

/// An error of JSON with its column alone: each line is read by itself.
fn shown(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (reason, _) = text.rsplit_once(" at line ").unwrap_or((&text, ""));
    match error.column() {
        0 => format!("it is no action: {reason}"),
        column => format!("it is no action: {reason} at character {column}"),
    }
}

/// The time that a commit says it was made at, in milliseconds since 1970; nothing where it says none.
pub fn in_commit_time(file: &str, bytes: &[u8]) -> Result<Option<i64>, DeltaError> {
    let mut time = None;
    read_commit(file, bytes, |action| {
        time = time.or(action.commit_info.and_then(|info| info.in_commit_timestamp));
        Ok(())
    })?;
    Ok(time)
}
