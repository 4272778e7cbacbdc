//! How a process reads the slices of a file: what the planner writes into their descriptors.

use serde::{Deserialize, Serialize};

use crate::parquet::RowGroups;
use crate::{ColumnTypes, Dialect, LinesSchema, Schema};

/// How the slices of one file are read, all in the same way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TableReader {
    /// As delimited text, into columns of these names and types.
    Delimited(Dialect, Schema),
    /// The same of one of several files whose columns differ: all of these, in this order, missing where the file has none.
    DelimitedOf(Dialect, Schema, Vec<String>),
    /// As a JSON object a line, into the columns of the whole file, and those that the slice has beside them.
    JsonLines(LinesSchema),
    /// The same, but for lines that hold none: these are left out.
    ValidJsonLines(LinesSchema),
    /// As row groups of Parquet, which are others for each slice.
    Parquet(RowGroups),
    /// As a stream of Arrow, which rows of Parquet files become that are put together by keys.
    Arrow,
    /// In one of these ways, into the columns that all files together have whose rows are put together.
    Among(Box<TableReader>, ColumnTypes),
}

impl TableReader {
    /// The columns of the file, each with its type; nothing where the rows alone say them.
    pub fn column_types(&self) -> Option<ColumnTypes> {
        match self {
            Self::Delimited(_, schema) => Some(ColumnTypes::of_text(schema, schema.names.iter().collect())),
            Self::DelimitedOf(_, schema, all) => Some(ColumnTypes::of_text(schema, all.clone())),
            Self::JsonLines(schema) | Self::ValidJsonLines(schema) => ColumnTypes::of_lines(schema),
            Self::Parquet(_) | Self::Arrow | Self::Among(..) => None,
        }
    }
}
