//! Running a job on a fleet.
//!
//! The job runs on the workers. What this program does for it (uploading, publishing the plan, waiting) may be
//! interrupted at any point: what is handed in goes on without it.

mod resume;
mod start;
#[cfg(test)]
mod tests;
mod wait;

pub(crate) use resume::{check_at_rest, resume};
pub(crate) use start::{NewJob, Submitted, start};
pub(crate) use wait::{leave, wait};
