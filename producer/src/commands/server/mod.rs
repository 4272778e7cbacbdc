//! The commands that are the server, and what it starts.

mod serve;
mod take_up;

pub(super) use serve::serve;
pub(super) use take_up::take_up;
