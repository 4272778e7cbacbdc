//! What a job of prs is and where its things live.
//!
//! The words every other crate uses: the job and its settings, the listing of its inputs, the mini-batch, the
//! wire between an agent and its processes, segments, and the three interfaces a job stands on (queue, ledger,
//! storage) with their embedded implementations. It runs nothing: planning and watching are in
//! `prs-orchestrator`, processes in `prs-worker`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it needs by path"))]

pub mod absent;
pub mod backoff;
pub mod calls;
pub mod checksum;
pub mod code;
pub mod config;
pub mod dataset;
pub mod end_reason;
pub mod failpoint;
pub mod file_content;
pub mod file_version;
pub mod hexadecimal;
mod host_name;
pub mod job;
pub mod layout;
pub mod ledger;
pub mod log_context;
pub mod log_file;
pub mod message_pack;
pub mod mini_batch;
pub mod near_name;
pub mod output_name;
pub mod private_folder;
pub mod process_page;
pub mod queue;
mod record;
#[cfg(feature = "s3")]
mod refusals;
pub mod registry;
pub mod seal;
pub mod segment;
pub mod servers;
pub mod source_line;
mod split_mix;
pub mod statistics;
pub mod stops;
pub mod storage;
pub mod temporary_folder;
pub mod timestamp;
pub mod traces;
pub mod tree;
pub mod try_table;
pub mod wire;

pub use hexadecimal::{bytes_of, hexadecimal};
pub use host_name::{host_id, host_name};
