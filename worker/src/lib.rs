//! The node agent: takes mini-batches from a job's queue, runs them in Python processes, commits the outcomes.
//!
//! One [`run_node`] serves one job on one host. It owns the processes and everything they write; it plans
//! nothing and decides nothing about the job as a whole.

mod allocator;
mod batch_size;
mod committer;
mod connect;
mod descendants;
mod dispatcher;
mod file_size_limit;
pub mod foreground;
mod gpu;
mod heartbeat;
mod host;
mod import_failure;
pub mod inputs;
mod intake;
mod interpreter;
mod late_objects;
mod launch;
mod memory_folder;
mod node;
mod node_settings;
mod plan_end;
mod printed;
mod process;
mod process_log;
mod python_home;
mod seen_errors;
pub mod serve;
mod settlement;
mod silence;
mod slot;
mod sources;
mod stack;
mod suspects;
mod unique;
mod work_folder;

pub use allocator::{give_memory_back, keep_little_memory};
pub use connect::{connect_fleet, opener};
pub use descendants::end_left_overs;
pub use file_size_limit::survive_file_size_limit;
pub use host::{Host, raise_descriptor_limit};
pub use interpreter::{InterpreterMissing, find_interpreter, how_found};
pub use memory_folder::tidy_memory;
pub use node::run_node;
pub use node_settings::{NodeEnd, NodeSettings, Prefetch, Unfit};
pub use python_home::{ExtensionMissing, find_extension, prepare as prepare_python_home};
pub use work_folder::{WorkFolder, WorkFolderError};
