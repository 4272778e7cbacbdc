//! Plans a job, schedules it, watches over it, finalizes it and reports on it.
//!
//! A library that knows no process and no command line: it speaks to the nodes of a job through queue, ledger
//! and storage alone, so that the same code serves an embedded run and a fleet.

mod audit;
mod bundles;
mod catalog;
pub mod damage;
pub mod failed;
pub mod failed_mini_batches;
pub mod fleet;
pub mod gc;
mod headers;
pub mod init_failures;
pub mod inputs;
pub mod job_context;
pub mod job_queue;
pub mod job_record;
mod journal;
pub mod log_shipper;
pub mod membership;
pub mod orchestrate;
pub mod panics;
pub mod plan;
pub mod publish;
pub mod queues;
pub mod recover;
pub mod removal;
pub mod report;
mod result;
#[cfg(test)]
mod scene;
pub mod schedule;
mod starts;
mod status;
pub mod stored_descriptors;
pub mod thresholds;
pub mod watch;
pub mod workers;

pub use fleet::{Fleet, LocalFolders};
pub use job_context::{JobContext, Policy, run_name};
pub use job_record::{JobRecord, JobResult};
pub use orchestrate::{Place, orchestrate};
