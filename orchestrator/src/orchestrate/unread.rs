//! The end of a job whose record cannot be read.
//!
//! How such a job ends cannot be written down. Once its record could not be read for as long as a job waits for a worker that
//! can watch over it, the job is taken out of those to be served. What it has in storage stays as it is: commands say what
//! is wrong with it, and `rm` removes it.

use std::time::Instant;

use prs_common::ledger::{Conclusion, LedgerErrorKind};

use super::{WatchEnd, clean_up, stuck};
use crate::JobContext;
use crate::job::record::JobRecordError;
use crate::watch::WatchError;

/// Ends a job without its record, where that could not be read for too long, or where it was decided that the job ends early.
pub(super) async fn end_unread(
    job: &JobContext,
    error: JobRecordError,
) -> Result<Option<WatchEnd>, WatchError> {
    let error = WatchError::Record(error);
    let Some(stuck) = stuck(job).await? else { return Err(error) };
    tracing::error!(job = job.id, %error, "the job is served no longer; prs rm removes it");
    decide_end(job, &Conclusion::failed(&(&stuck).into())).await?;
    Ok(Some(WatchEnd::Over))
}

/// Ends a job whose record cannot be read as `wanted`, and takes it out of those to be served. Returns how it ends: what was
/// decided before stands.
///
/// # Errors
/// Ledger, queue or storage fails. May be repeated.
pub async fn leave_unread(job: &JobContext, wanted: &Conclusion) -> Result<Conclusion, WatchError> {
    let decided = decide_end(job, wanted).await?;
    clean_up(job).await?;
    Ok(decided)
}

/// Decides how the job ends, and waits a while until its nodes have left.
async fn decide_end(job: &JobContext, wanted: &Conclusion) -> Result<Conclusion, WatchError> {
    let decided = match job.ledger.conclude(wanted).await {
        Err(error) if error.kind == LedgerErrorKind::NotFound => wanted.clone(),
        decided => decided?,
    };
    job.nodes_end.notify_one();
    let deadline = Instant::now() + job.policy.leave;
    while Instant::now() < deadline {
        match job.ledger.nodes().await {
            Ok(nodes) if nodes.iter().any(|node| job.policy.is_present(node)) => {}
            _ => break,
        }
        tokio::time::sleep(job.policy.watch).await;
    }
    job.membership.forget_job(&job.id).await?;
    Ok(decided)
}
