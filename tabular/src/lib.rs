//! Tables as text: delimited text from bytes to Arrow and back, and JSON lines.
//!
//! What it is for: a tabular dataset (spec D2) is split at record boundaries into slices of about the
//! asked size ([`Splitter`]), the types of its columns are found once for all of it ([`Schema`]), a
//! slice is read into Arrow arrays ([`read`]), and what the script returned is written as
//! `DataFrame.to_csv` would ([`Writer`], spec E8).
//!
//! Text means the same here as it does to pandas' C parser: where quotes open, what ends a record, which
//! lines are blank, what counts as missing, which words are numbers. The tests compare with pandas.
//!
//! JSON lines are split in the same way ([`split_lines`]) and, where they are plain, read into Arrow arrays (`read_lines`).
//!
//! Of Parquet and of Delta tables it tells where the rows are (`parquet`, `delta`).
//!
//! What it does not do: other formats, compression, encodings but UTF-8, dates (they are strings, as
//! `pandas.read_csv` leaves them), files on other hosts.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it needs by path"))]

mod column_types;
#[cfg(feature = "delta")]
pub mod delta;
mod dialect;
mod field;
mod infer;
mod json_lines;
mod null_values;
pub mod parquet;
mod pieces;
mod read;
mod reader;
mod records;
mod scan;
mod schema;
mod split;
mod value;
mod write;

pub use column_types::ColumnTypes;
pub use dialect::{Dialect, DialectError};
pub use infer::{InferMode, first_fields};
pub use json_lines::{Kinds, Lines, LinesColumn, LinesSchema, read_lines};
pub use json_lines::{LinesPart, split_lines, split_lines_within};
pub use null_values::NullValues;
pub use read::{Batch, ReadError, read, read_some};
pub use reader::TableReader;
pub use records::Malformed;
pub use schema::{ColumnType, Names, Schema, SchemaError, TextRules};
pub use split::{Cutting, Header, Slice, SplitError, Splitter, record_starts};
pub use write::{WriteError, WriteOptions, Writer, supports};

/// Which rules give columns their types. A result that was made by others is none of a job that runs by these.
pub const RULES_OF_TYPES: u32 = 4;
