//! Running a job on a fleet.
//!
//! The job runs on the workers. What this program does for it (uploading, publishing the plan, waiting) may be
//! interrupted at any point: what is handed in goes on without it.

mod resume;
mod reuse;
mod start;
#[cfg(test)]
mod tests;
mod until_left;
mod wait;

pub(crate) use resume::{begin, check_at_rest, resume};
pub(crate) use reuse::give;
pub(crate) use start::{
    Given, NewJob, Started, Submitted, copy_listings, enter, give_id_back, start, store, take_id,
};
pub(crate) use until_left::until_left;
pub(crate) use wait::{leave, wait};
