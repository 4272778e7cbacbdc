//! The node agent: takes mini-batches from a job's queue, runs them in Python processes, commits the outcomes.
//!
//! One [`run_node`] serves one job on one host. It owns the processes and everything they write; it plans
//! nothing and decides nothing about the job as a whole. Its folders, from the bottom up: `metrics`, `host`, `inputs`,
//! `process`, `commit`, `intake`, `dispatcher`, `perf`, `node`, `serve`; a folder uses those before it alone. `serve` is there
//! with the feature `fleet`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it needs by path"))]

mod commit;
mod connect;
mod dispatcher;
pub mod foreground;
mod host;
pub mod inputs;
mod intake;
#[cfg_attr(not(feature = "fleet"), allow(dead_code, reason = "nobody asks for any"))]
pub mod metrics;
mod node;
mod node_settings;
mod perf;
mod process;
#[cfg(feature = "fleet")]
pub mod serve;

pub use connect::{connect_fleet, opener};
pub use host::allocator::{give_memory_back, keep_little_memory};
pub use host::descendants::end_left_overs;
pub use host::environment::{
    MadeEnvironment, NotMade, describe_environments, find_environment, make_environment,
};
pub use host::file_size_limit::survive_file_size_limit;
pub use host::interpreter::{InterpreterMissing, find_interpreter, how_found};
pub use host::memory_folder::tidy_memory;
pub use host::python_home::{ExtensionMissing, find_extension, prepare as prepare_python_home};
pub use host::work_folder::{WorkFolder, WorkFolderError};
pub use host::{Host, raise_descriptor_limit};
pub use node::{LeftNode, run_node};
pub use node_settings::{NodeEnd, NodeSettings, Prefetch, Unfit};
