//! The mini-batches and tries of a job, a page at a time: from the parts of the table of tries that can have what is asked for.
//!
//! | file | what |
//! |---|---|
//! | `wanted` | which tries are asked for, in which order |
//! | `parts` | reading the directory and parts |
//! | `found` | a try as it was found, and how it is written |
//! | `narrowed` | what the statistics list of them |
//! | `list` | a page of tries, or of mini-batches, which are their outcomes |
//! | `one` | one mini-batch with all its tries |

mod found;
mod list;
mod narrowed;
mod one;
mod parts;
mod wanted;

pub use self::found::{CSV_COLUMNS, FoundTry, Range};
pub use self::list::{Cursor, LostPage, TryPage, list, lost};
pub use self::narrowed::{Told, narrowed, open_ranges, under_way};
pub use self::one::{OneMiniBatch, RUNS_IN, known};
pub use self::wanted::{Order, State, Wanted};
