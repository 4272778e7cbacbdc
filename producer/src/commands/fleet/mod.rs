//! The commands that only a fleet has.

mod worker;
mod workers;

pub(super) use worker::worker;
pub(super) use workers::workers;
