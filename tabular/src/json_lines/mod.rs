//! JSON lines: a record is a line that is not blank, and holds one object.
//!
//! A line ends at `\n` and nowhere else, for a string of JSON has no line end inside; a `\r` before it is blank. What a
//! record holds is not looked at until its slice is read.

mod infer;
mod read;
mod scan;
mod split;

pub use infer::{Kinds, LinesSchema};
pub use read::{Lines, LinesColumn, read_lines};
pub use split::{LinesPart, split_lines, split_lines_within};
