//! How a process reads the slices of a file: what the planner writes into their descriptors.

use serde::{Deserialize, Serialize};

use crate::parquet::RowGroups;
use crate::{Dialect, LinesSchema, Schema};

/// How the slices of one file are read, all in the same way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TableReader {
    /// As delimited text, into columns of these names and types.
    Delimited(Dialect, Schema),
    /// The same of one of several files whose columns differ: all of these, in this order, missing where the file has none.
    DelimitedOf(Dialect, Schema, Vec<String>),
    /// As a JSON object a line; the columns are those of the slice.
    JsonLines,
    /// The same, but for lines that hold none: these are left out.
    ValidJsonLines,
    /// As a JSON object a line, into the columns of the whole file.
    JsonLinesOf(LinesSchema),
    /// The same, but for lines that hold none: these are left out.
    ValidJsonLinesOf(LinesSchema),
    /// As row groups of Parquet, which are others for each slice.
    Parquet(RowGroups),
    /// As a stream of Arrow, which rows of Parquet files become that are put together by keys.
    Arrow,
}
