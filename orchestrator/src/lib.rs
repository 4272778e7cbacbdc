//! Plans a job, schedules it, watches over it, finalizes it and reports on it.
//!
//! A library that knows no process and no command line: it speaks to the nodes of a job through queue, ledger
//! and storage alone, so that the same code serves an embedded run and a fleet. Its folders, from the bottom up:
//! `metrics`, `caught`, `inputs`, `job`, `gc`, `plan`, `report`, `replay`, `publish`, `segments`, `result`, `watch`, `panics`,
//! `orchestrate`, `pipeline`; each uses those before it alone.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it needs by path"))]

pub mod caught;
#[cfg(test)]
mod fixtures;
pub mod gc;
pub mod inputs;
pub mod job;
mod metrics;
pub mod orchestrate;
pub mod panics;
pub mod pipeline;
pub mod plan;
pub mod publish;
pub mod replay;
pub mod report;
mod result;
pub mod segments;
pub mod watch;

pub use job::context::JobContext;
pub use job::fleet::{Fleet, LocalFolders};
pub use job::policy::Policy;
pub use job::record::{JobRecord, JobResult, run_name};
pub use metrics::OrchestratorMetrics;
pub use orchestrate::{WatchEnd, orchestrate};
pub use watch::duty_names;
