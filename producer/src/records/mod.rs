//! What `-o json` prints: the records that programs read, in one form for all commands.
//!
//! Every object that is printed has the key `schema`. Within one number keys are only added; who reads them leaves aside
//! what it does not know. A key is always there: null says that something is not known, or that there is none.
//! `docs/schema` has the form of each as a JSON Schema, made from these types.
//!
//! | file | records |
//! |---|---|
//! | `job` | a job, as every command shows it |
//! | `errors` | the errors of a job, its failed items, the failure of a command |
//! | `lists` | jobs, logs, workers, what was removed, what `gc` found |

mod errors;
mod job;
mod lists;
#[cfg(test)]
pub(crate) mod schema;

pub(crate) use errors::{DistinctError, Errors, FailedItems, FailedMiniBatch, Item};
pub(crate) use job::Job;
pub(crate) use lists::{
    Collected, ExpiredJob, Jobs, Leftover, Log, Logs, Removed, RemovedJob, Submitted, Workers,
};
