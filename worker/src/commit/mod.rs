//! What makes the outcome of a mini-batch final: its rows in a segment, the segment in the ledger.

pub(crate) mod committer;
mod late_objects;
pub(crate) mod next_try;
pub(crate) mod outcome;
pub(crate) mod splitting;
pub(crate) mod traces;
