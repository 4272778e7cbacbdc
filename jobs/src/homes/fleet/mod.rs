//! Jobs of a fleet, as every command sees them: looking at them, following them, ending them.
//!
//! | file | duty |
//! |---|---|
//! | `reader` | the servers for calls that only read |
//! | `connection` | the ledger, which may be away for a while |
//! | `ended` | what was read of jobs that have ended, in memory |
//! | `home` | a job in the storage of a fleet |
//! | `follow` | waiting for its end |
//! | `cancel` | ending it |
//! | `workers` | who serves it, and who could |
//! | `entry` | the job as this program sees it, with its entry in the ledger |
//! | `pipeline` | waiting for a pipeline, and ending it |
//! | `patience` | a step that is repeated while a server fails for a moment |

mod cancel;
mod connection;
mod ended;
pub(crate) mod entry;
mod follow;
mod home;
pub(crate) mod patience;
pub(crate) mod pipeline;
mod reader;
mod workers;

#[cfg(test)]
pub(crate) use cancel::cancel;
pub(crate) use follow::until_ended;
pub(crate) use home::FleetHome;
pub use reader::{Reader, note_gc};
pub(crate) use workers::note_who_serves;
