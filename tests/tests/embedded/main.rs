//! Embedded runs: one program, one folder, no server.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

mod alone;
mod bad_input;
mod bad_script;
mod commands;
mod compat;
mod corrected;
mod crash_and_resume;
mod docs;
mod errors;
mod failure_table;
mod foreign_trees;
mod happy_path;
mod init_failures;
mod left_behind;
mod logs;
mod new;
mod output_claims;
mod outputs;
mod packed_code;
mod pipeline_corrected;
mod pipeline_starts;
mod program_names;
mod progress;
mod resume;
mod signals;
mod split;
mod step_outputs;
mod surroundings;
mod thresholds;
mod time_limits;
mod tries;
mod tutorial;
