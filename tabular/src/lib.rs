//! Delimited text, from bytes to Arrow and back.
//!
//! What it is for: a tabular dataset (spec D2) is split at record boundaries into slices of about the
//! asked size ([`Splitter`]), the types of its columns are found once from a sample ([`Schema`]), a
//! slice is read into Arrow arrays ([`read`]), and what the script returned is written as
//! `DataFrame.to_csv` would ([`Writer`], spec E8).
//!
//! Text means the same here as it does to pandas' C parser: where quotes open, what ends a record, which
//! lines are blank, what counts as missing, which words are numbers. The tests compare with pandas.
//!
//! What it does not do: other formats, compression, encodings but UTF-8, dates (they are strings, as
//! `pandas.read_csv` leaves them), files on other hosts.

mod dialect;
mod field;
mod infer;
#[cfg(feature = "arrow")]
mod read;
mod records;
mod scan;
mod schema;
mod split;
mod value;
#[cfg(feature = "arrow")]
mod write;

pub use dialect::{Dialect, DialectError};
pub use infer::InferMode;
#[cfg(feature = "arrow")]
pub use read::{Batch, ReadError, read};
pub use records::Malformed;
pub use schema::{ColumnType, Names, Schema, SchemaError};
pub use split::{Header, Slice, SplitError, Splitter, split_file};
#[cfg(feature = "arrow")]
pub use write::{WriteError, WriteOptions, Writer, supports};
