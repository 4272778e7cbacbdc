//! The node agent: takes mini-batches from a job's queue, runs them in Python processes, commits the outcomes.
//!
//! One [`run_node`] serves one job on one host. It owns the processes and everything they write; it plans
//! nothing and decides nothing about the job as a whole.

mod batch_size;
mod committer;
mod descendants;
mod dispatcher;
mod gpu;
mod heartbeat;
mod host;
mod intake;
mod launch;
mod node;
mod node_settings;
mod process;
mod process_log;
mod python_home;
mod settlement;
mod slot;

pub use descendants::end_left_overs;
pub use host::Host;
pub use node::run_node;
pub use node_settings::NodeSettings;
pub use python_home::{ExtensionMissing, find_extension};
