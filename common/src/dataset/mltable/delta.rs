//! A Delta table as the data of an MLTable: which version of it, and, once its log was read, what the log says.

use serde::{Deserialize, Serialize};

/// A Delta table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaTable {
    /// What the MLTable asks for.
    pub as_of: AsOf,
    /// The version that this is, once the log was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The columns of this version, in their order; none before the log was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<DeltaColumn>,
}

/// Which version of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsOf {
    /// The one of this number.
    Version(u64),
    /// The one that the table had at a time.
    Timestamp {
        /// As the MLTable has it.
        text: String,
        /// The same in milliseconds since 1970.
        milliseconds: i64,
    },
}

/// A column of a Delta table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaColumn {
    /// Its name.
    pub name: String,
    /// Its type as the log has it: JSON.
    pub kind: String,
    /// Whether its values are in the log, one for each file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partition: bool,
}
