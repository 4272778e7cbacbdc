//! Inputs whose rows a step puts together for others by columns of the data: none of them is corrected.
//!
//! What such a step writes is in the order of its mini-batches, and what reads it has rows of all of them. So a start that
//! finds other inputs than those before is refused, also where the step itself has completed.

use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, checksum};

use super::{Corrected, CorrectionError, Inputs, WithRows, each, is_listed_the_same, look};
use crate::JobContext;
use crate::plan::schedule::KnownChecksums;
use crate::plan::stored::FormerPlans;

/// Looks at the inputs of `job`, a step that puts rows together, as [`look`] does. One that `is_complete` has all rows of them,
/// and nothing else says so any more than the notes of its plan.
///
/// # Errors
/// As of [`look`], and any input is another, or is new to one that is complete.
pub async fn look_at_split(
    job: &JobContext,
    known: WithRows,
    is_complete: bool,
) -> Result<(), CorrectionError> {
    let known = if is_complete { noted(job).await? } else { known };
    if is_complete && known.checksums.is_empty() {
        return Ok(());
    }
    let (checksums, end) = (known.checksums.clone(), known.end);
    let file = match look(job, known).await? {
        Inputs::Corrected(corrected) => first_open(&corrected, &checksums),
        Inputs::AsTheyWere if is_complete && !is_listed_the_same(job).await => beyond(job, end).await?,
        Inputs::AsTheyWere => None,
    };
    match file {
        Some(file) => Err(CorrectionError::Changed(format!(
            "{file} is new or another, and rows of other data are put together already"
        ))),
        None => Ok(()),
    }
}

/// The mini-batches of a step that is complete.
async fn noted(job: &JobContext) -> Result<WithRows, CorrectionError> {
    let plans = FormerPlans::read(&job.storage, job.incarnation - 1, None).await?;
    let end = plans.bodies.last_key_value().map_or(0, |(last, _)| last + 1);
    let newest = |index| plans.bodies.get(&index).and_then(|bodies| bodies.last());
    let checksums = (0..end).map(|index| newest(index).map_or(0, |body| checksum(body))).collect();
    Ok(WithRows { checksums, end, ..WithRows::default() })
}

/// A file of a mini-batch that is to run.
fn first_open(corrected: &Corrected, known: &KnownChecksums) -> Option<String> {
    let mut bodies = corrected.matched.bodies.iter().filter_map(|body| MiniBatch::decode(body).ok());
    let is_open = |one: &MiniBatch<'_>| known.get(one.index as usize).is_none_or(|known| *known == 0);
    bodies.find(is_open).map(|one| one.detail())
}

/// A file that the plan of the inputs as they are now has behind the mini-batch `end`.
async fn beyond(job: &JobContext, end: MiniBatchIndex) -> Result<Option<String>, CorrectionError> {
    let mut found = None;
    each(job, |batch| {
        let behind = batch.bodies.get(end.saturating_sub(batch.first) as usize);
        found = behind.and_then(|body| Some(MiniBatch::decode(body).ok()?.detail()));
        found.is_none()
    })
    .await?;
    Ok(found)
}
