//! Delta tables, as far as a plan needs them: which files of Parquet a version of the table consists of, and which columns it
//! has.
//!
//! A table is a folder. Below `_delta_log` is a commit for each version, JSON lines that add files to the table and remove them;
//! now and then a checkpoint, Parquet, has all files of a version. Here is what is in them, and which of them a version takes
//! ([`Log`]); they are read elsewhere, and handed to a [`Replay`]. No file of the table itself is looked at.
//!
//! A table that asks its readers for more than that is refused by the name of what it asks for: rows would be wrong else.

mod action;
#[cfg_attr(not(feature = "parquet"), path = "no_checkpoint.rs")]
mod checkpoint;
mod columns;
mod error;
mod log;
mod replay;
#[cfg(test)]
mod tests;
mod times;

pub use action::in_commit_time;
pub use columns::Column;
pub use error::DeltaError;
pub use log::{Log, commit_name};
pub use replay::{ActiveFile, Replay, Snapshot, TimeSource};
pub use times::{TimeTravelError, at_time};

/// The folder of the log, below that of its table.
pub const LOG: &str = "_delta_log/";
