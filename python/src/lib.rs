//! The inside of a process: what the interpreter that hosts an entry script loads as `prs_process`.
//!
//! The Python package `azureml_user.parallel_run` imports the script and sets up logging; from then on this
//! extension drives: it reads mini-batches ahead, builds the argument of `run()`, calls it, turns the result
//! into bytes and answers the agent. It does no queue, ledger or object storage input or output, it never
//! retries, and it keeps no state between mini-batches that a killed process could lose.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it needs by path"))]

mod argument;
mod arrow;
mod changes;
mod connection;
mod errors;
mod folders;
mod fork;
mod inbox;
mod item_names;
mod lanes;
mod outbox;
mod outputs;
mod path_columns;
mod printed;
mod results;
mod rows;
mod sample;
mod serve;
mod shuffle;
mod slice_file;
mod slices;
mod tables;

/// The extension module.
#[pyo3::pymodule]
mod prs_process {
    #[pymodule_export]
    use super::arrow::ArrowColumns;
    #[pymodule_export]
    use super::connection::Connection;
    #[pymodule_export]
    use super::folders::{append_to, create, hold, make_folders, open_folder, write_whole};
    #[pymodule_export]
    use super::lanes::Lanes;
    #[pymodule_export]
    use super::lanes::Turn;
    #[pymodule_export]
    use super::sample::sample_mask;
    #[pymodule_export]
    use super::serve::serve;
    #[pymodule_export]
    use super::shuffle::checksums;
    #[pymodule_export]
    use super::shuffle::gather;
    #[pymodule_export]
    use super::slice_file::Slices;
}
