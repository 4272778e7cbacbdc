//! From the actions of a log to the table: the last word on each file, and on the table, counts.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::action::{Action, Add, Metadata, Protocol, read_commit};
use super::checkpoint::read_checkpoint;
use super::columns::{Column, columns};
use super::{DeltaError, log};

/// The newest version of readers that is known.
const READER_VERSION: u64 = 3;
/// What a table may ask its readers for. Deletion vectors and the mapping of columns are refused where they are in use, for
/// a table that has done away with them still names them; checkpoints of the form v2, where one is needed.
const FEATURES: [&str; 7] = [
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
];
/// What to do about one that is not among them.
const WITHOUT_FEATURES: &str = "run ALTER TABLE ... DROP FEATURE for each, and give the version that it makes, or write its rows \
                                as Parquet files, and give read_parquet";

/// Reads the files of a log, one after the other.
#[derive(Debug, Default)]
pub struct Replay {
    /// By path, and by which of its rows are deleted.
    files: BTreeMap<(String, Option<String>), Add>,
    metadata: Option<Metadata>,
    protocol: Option<Protocol>,
}

/// A version of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Which one.
    pub version: u64,
    /// Its columns, in their order.
    pub columns: Vec<Column>,
    /// Its files, bytewise by path.
    pub files: Vec<ActiveFile>,
}

/// A file of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveFile {
    /// Below the folder of the table.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// For each partition column, in the order of the columns, its value as the log has it; none where it is missing.
    pub partition: Vec<Option<String>>,
}

/// Where the times of commits come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeSource {
    /// From when their files were written.
    Files,
    /// From what they say, from this version on; those before by their files. All of them without.
    Commits {
        /// The first version that says it, and its time, milliseconds since 1970.
        since: Option<(u64, i64)>,
    },
}

impl Replay {
    /// Reads the file `name` of the log.
    pub fn add(&mut self, name: &str, bytes: Bytes) -> Result<(), DeltaError> {
        if log::is_commit(name) {
            return read_commit(name, &bytes, |action| self.apply(name, action));
        }
        read_checkpoint(name, bytes, |action| {
            // Classic checkpoints may have the column, and nothing in it.
            if action.sidecar.is_some() {
                return Err(DeltaError::V2Checkpoint(log::version_of(name).unwrap_or_default()));
            }
            self.apply(name, action)
        })
    }

    fn apply(&mut self, file: &str, action: Action) -> Result<(), DeltaError> {
        let decoded = |path: &str| {
            decoded(path).ok_or_else(|| DeltaError::Damaged {
                file: file.to_owned(),
                place: String::new(),
                reason: format!("the path {path:?} is not percent-encoded UTF-8"),
            })
        };
        let Action { add, remove, meta_data, protocol, .. } = action;
        if let Some(remove) = remove {
            let id = remove.deletion_vector.as_ref().map(super::action::DeletionVector::id);
            self.files.remove(&(decoded(&remove.path)?, id));
        }
        if let Some(add) = add {
            let id = add.deletion_vector.as_ref().map(super::action::DeletionVector::id);
            self.files.insert((decoded(&add.path)?, id), add);
        }
        self.metadata = meta_data.or(self.metadata.take());
        self.protocol = protocol.or(self.protocol.take());
        Ok(())
    }

    /// Where the times of the commits come from, up to the version that was read.
    pub fn times(&self) -> TimeSource {
        let setting = |name| self.metadata.as_ref().and_then(|metadata| metadata.setting(name));
        if setting("delta.enableInCommitTimestamps") != Some("true") {
            return TimeSource::Files;
        }
        let version = setting("delta.inCommitTimestampEnablementVersion").and_then(|text| text.parse().ok());
        let time = setting("delta.inCommitTimestampEnablementTimestamp").and_then(|text| text.parse().ok());
        TimeSource::Commits { since: version.zip(time) }
    }

    /// The table as it is now, which is `version`; or why it is not read.
    pub fn finish(self, version: u64) -> Result<Snapshot, DeltaError> {
        let lacks = |what| DeltaError::Lacks { version, what };
        let protocol = self.protocol.ok_or_else(|| lacks("protocol"))?;
        let metadata = self.metadata.ok_or_else(|| lacks("metaData"))?;
        check(&protocol, &metadata)?;
        let all = self.files.len();
        let mut deleted = self.files.keys().filter(|(_, deleted)| deleted.is_some()).map(|(path, _)| path);
        if let Some(file) = deleted.next() {
            let count = 1 + deleted.count();
            return Err(DeltaError::DeletionVectors { file: file.clone(), count, all });
        }
        let schema = metadata.schema_string.as_deref().ok_or_else(|| lacks("schemaString"))?;
        let columns = columns(schema, &metadata.partition_columns)?;
        let keys: Vec<&str> =
            columns.iter().filter(|column| column.is_partition).map(|column| &*column.name).collect();
        let files = self.files.into_iter().map(|((path, _), mut add)| {
            if path.starts_with('/') || has_scheme(&path) {
                return Err(DeltaError::Elsewhere(path));
            }
            let mut value =
                |key: &&str| add.partition_values.remove(*key).flatten().filter(|text| !text.is_empty());
            let partition = keys.iter().map(&mut value).collect();
            Ok(ActiveFile { path, size: add.size, partition })
        });
        let files = files.collect::<Result<_, _>>()?;
        Ok(Snapshot { version, columns, files })
    }
}

/// Refuses a table that asks for more than is read.
fn check(protocol: &Protocol, metadata: &Metadata) -> Result<(), DeltaError> {
    if protocol.min_reader_version > READER_VERSION {
        return Err(DeltaError::ReaderVersion(protocol.min_reader_version));
    }
    let features = protocol.reader_features.iter().flatten();
    let unknown: Vec<String> = features.filter(|name| !FEATURES.contains(&&***name)).cloned().collect();
    if !unknown.is_empty() {
        return Err(DeltaError::Features(unknown, WITHOUT_FEATURES));
    }
    if let Some(mode) = metadata.setting("delta.columnMapping.mode").filter(|mode| *mode != "none") {
        return Err(DeltaError::ColumnMapping(mode.to_owned()));
    }
    match metadata.format.as_ref().and_then(|format| format.provider.as_deref()) {
        Some(provider) if !provider.eq_ignore_ascii_case("parquet") => {
            Err(DeltaError::Format(provider.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Whether a path is a URL.
fn has_scheme(path: &str) -> bool {
    let is_name = |scheme: &str| {
        let mut bytes = scheme.bytes();
        bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    path.split_once(":/").is_some_and(|(scheme, _)| is_name(scheme))
}

/// A path without its percent-encoding; nothing where it is not such a path.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(behind.get(..2)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[2..];
        } else {
            bytes.push(first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}
