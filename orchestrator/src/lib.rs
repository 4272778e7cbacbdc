//! Plans a job, schedules it, watches over it, finalizes it and reports on it.
//!
//! A library that knows no process and no command line: it speaks to the nodes of a job through queue, ledger
//! and storage alone, so that the same code serves an embedded run and a fleet.

mod catalog;
mod finalize;
pub mod init_failures;
pub mod job_context;
pub mod job_record;
mod journal;
pub mod plan;
pub mod recover;
pub mod report;
pub mod schedule;
pub mod thresholds;
pub mod watch;

pub use job_context::{JobContext, Timing};
pub use job_record::{JobRecord, JobResult};
