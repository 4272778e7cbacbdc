//! The list of all jobs of a fleet, by the index in its ledger: a copy in memory that asks what changed, and the keeper that
//! compares the index with storage.
//!
//! A program that changes a job notes its summary in the index, which may fail: it does not wait for that. So one program at a time keeps the
//! index: it fills it where the ledger has lost it, looks at the jobs that nobody has noted for a while, and now and then compares
//! it with the jobs in storage.

mod copy;
mod keeper;

pub use copy::IndexCopy;
pub use keeper::Keeper;
pub use prs_orchestrator::report::summary::JobSummary;

use prs_common::ledger::Noted;

use crate::attention::attention;
use crate::failure::Failure;
use crate::homes::fleet::Reader;
use crate::homes::{Seen, Whereabouts};
use crate::phase::phase;

/// What lists say of a job as it was seen.
pub fn summary(seen: &Seen) -> JobSummary {
    let Seen { record, result, .. } = seen;
    let status = seen.shown().honest().status;
    let said = (attention(seen, None, &result.job_id).into_iter().next(), phase(seen, None));
    JobSummary::of(record, result.state, &status, Some(result), said)
}

/// Brings a copy of the index up to date, and says whether it changed; nothing where there is no fleet, or its ledger does not
/// answer.
///
/// # Errors
/// The ledger refuses it.
pub async fn refresh(whereabouts: &Whereabouts, copy: &mut IndexCopy) -> Result<Option<bool>, Failure> {
    let Some(reader) = Reader::connect(whereabouts).await? else { return Ok(None) };
    let Some(ledger) = reader.ledger(&*whereabouts.caller).await? else { return Ok(None) };
    match copy.refresh(&*ledger).await {
        Ok(is_changed) => Ok(Some(is_changed)),
        Err(error) => reader.without_ledger(error, &*whereabouts.caller).map(|()| None),
    }
}

/// Notes what was seen of a job that was just changed, so that all servers list it so; nothing without a fleet. Where that fails, lists show it
/// a little later.
pub async fn note(whereabouts: &Whereabouts, seen: &Seen) {
    // A step stands in no list.
    if seen.record.parent.is_some() {
        return;
    }
    let noted = async {
        let Some(reader) = Reader::connect(whereabouts).await? else { return Ok(()) };
        let Some(ledger) = reader.ledger(&*whereabouts.caller).await? else { return Ok(()) };
        summary(seen).note(&*ledger, Noted::Now).await.map(drop).map_err(Failure::server)
    };
    if let Err(failure) = noted.await {
        tracing::debug!(job = seen.record.job_id, %failure, "lists show what was changed a little later");
    }
}
