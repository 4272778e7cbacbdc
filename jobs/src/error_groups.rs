//! One error of a job: what is known of its tries, and the mini-batches that it cost.

use std::collections::HashSet;

use prs_orchestrator::JobRecord;

use crate::errors::{complete, failed_mini_batches};
use crate::failure::Failure;
use crate::homes::{JobHome, Seen};
use crate::mini_batches::{State, Wanted, list};
use crate::records::{DistinctError, ErrorGroupRecord, FailedMiniBatch};
use crate::statistics::published;

/// Tries that are listed at a time.
const LISTED_AT_ONCE: usize = 1_000;

/// An error of a job with all that is known of its tries; nothing where the job has no such group.
///
/// # Errors
/// The storage fails.
pub async fn error_group(
    home: &dyn JobHome,
    seen: Seen,
    group: &str,
) -> Result<Option<ErrorGroupRecord>, Failure> {
    let statistics = published(home, &seen.record).await?;
    let list = complete(home, &seen).await?;
    let told = statistics.errors.as_ref().and_then(|told| told.groups.iter().find(|told| told.id == group));
    let known = list.errors.into_iter().map(DistinctError::from);
    let Some(error) = known.into_iter().find(|error| error.group.as_deref() == Some(group)) else {
        return Ok(None);
    };
    Ok(Some(ErrorGroupRecord::new(seen.result.job_id, error, told)))
}

/// The mini-batches that an error group cost, all or some of their items.
///
/// # Errors
/// The storage fails.
pub async fn lost_by(
    home: &dyn JobHome,
    record: &JobRecord,
    group: &str,
) -> Result<Vec<FailedMiniBatch>, Failure> {
    let wanted = Wanted { states: vec![State::All], groups: vec![group.to_owned()], ..Wanted::default() };
    let (mut lost, mut cursor) = (HashSet::new(), None);
    loop {
        let page = list(home, &wanted, cursor, LISTED_AT_ONCE).await?;
        lost.extend(page.tries.iter().map(|one| one.index));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let mut failed = failed_mini_batches(home, record).await?;
    failed.retain(|one| lost.contains(&one.minibatch_index));
    Ok(failed)
}
