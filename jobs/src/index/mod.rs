//! The list of all jobs of a fleet, by the index in its ledger: a copy in memory that asks what changed, and the keeper that
//! compares the index with storage.
//!
//! Whoever changes a job notes its summary in the index, which may fail: nobody waits for it. So one program at a time keeps the
//! index: it fills it where the ledger has lost it, looks at the jobs that nobody has noted for a while, and now and then compares
//! it with the jobs in storage.

mod copy;
mod keeper;

pub use copy::IndexCopy;
pub use keeper::Keeper;
pub use prs_orchestrator::job::summary::JobSummary;

use prs_orchestrator::job::summary::attention as attention_of;

use crate::homes::Seen;

/// What lists say of a job as it was seen.
pub fn summary(seen: &Seen) -> JobSummary {
    let shown = seen.shown().honest();
    let result = Some(&seen.result);
    JobSummary::of(&seen.record, seen.result.state, &shown.status, result, shown.remark_in_short())
}

/// What needs a person about a job as it was seen, in one line; nothing where all is well.
pub fn attention(seen: &Seen) -> Option<String> {
    let shown = seen.shown();
    attention_of(seen.result.state, &shown.status, Some(&seen.result), shown.remark_in_short())
}
