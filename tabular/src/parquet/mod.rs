//! Parquet, as far as a plan needs it: the footer of a file, and slices of whole row groups.
//!
//! No data is read here. A process reads it with pyarrow, which its environment has; [`RowGroups`] tells it what.

#[cfg_attr(not(feature = "parquet"), path = "no_dictionaries.rs")]
mod dictionaries;
mod doubt;
mod footer;
mod misfit;
mod split;
#[cfg(test)]
mod tests;
mod thrift;
#[cfg_attr(not(feature = "parquet"), path = "no_write.rs")]
pub mod write;

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use footer::{Footer, FooterError, FoundTypes, RowGroup, TAIL, locate};
pub use split::{Rows, split};

/// Which rows of a Parquet file a slice has, and where the bytes are that tell them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowGroups {
    /// The row groups, by their numbers.
    pub groups: Range<u32>,
    /// Of the only row group these rows alone, counted from its first one.
    pub rows: Option<Range<u64>>,
    /// The columns, in this order, with those that pandas made the index of; all of them without.
    pub columns: Option<Vec<String>>,
    /// Where the data of the columns lies, bytes of the file, in their order.
    pub data: Vec<Range<u64>>,
    /// Where the footer lies, with the [`TAIL`]. Its checksum is that of the slice.
    pub footer: Range<u64>,
    /// The file that has the footer, at the same place; empty where it is that with the data.
    pub footer_file: String,
    /// Whether types are in doubt that all of the file decides, of which this slice is a part: [`Footer::types`].
    pub is_in_doubt: bool,
    /// The file that has the data which decides then, at the same place; empty where it is that with the data.
    pub types_file: String,
    /// Of a file of a Delta table, the columns of the table, in their order; they are those of the file without.
    pub of_table: Option<Vec<TableColumn>>,
}

/// A column of a Delta table, as a file of it has the column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its type, as the log of the table has it: JSON.
    pub kind: String,
    /// Where its values are.
    pub values: ColumnValues,
}

/// Where the values of a column of a Delta table are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnValues {
    /// In the file. One that was written before the column was added has none: they are missing.
    OfFile,
    /// In the log: the same one in all rows, or none.
    OfLog(Option<String>),
}

impl fmt::Display for RowGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start: first, end } = self.groups;
        match &self.rows {
            Some(rows) => write!(f, "rows {}-{} of row group {first}", rows.start, rows.end),
            None if end == first.saturating_add(1) => write!(f, "row group {first}"),
            None => write!(f, "row groups {first}-{}", end.saturating_sub(1)),
        }
    }
}
