//! Who has a duty of a job, as the ledger knows it.

use std::time::Duration;

use prs_common::ledger::{Duty, LedgerError, LedgerErrorKind};

use super::context::JobContext;

/// Whether some program watches over `job`.
pub async fn is_watched(job: &JobContext) -> Result<bool, LedgerError> {
    is_taken(job, Duty::Watch).await
}

/// Whether some program has `duty`. It takes the lease from no one.
pub(crate) async fn is_taken(job: &JobContext, duty: Duty) -> Result<bool, LedgerError> {
    match job.ledger.lease(duty, "is anybody there", Duration::ZERO).await {
        Ok(lease) => Ok(lease.is_none()),
        Err(error) if error.kind == LedgerErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
