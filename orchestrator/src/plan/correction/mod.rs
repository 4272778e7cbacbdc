//! A later start of a job whose inputs are not what they were: found out before anything is touched.
//!
//! Inputs that failed may be corrected before a job goes on. Mini-batches that have rows keep them where their data is as it was;
//! all else is planned anew, behind them in number and in its place in the result. Where that data is another, the job cannot go
//! on: rows of old and new data would be mixed.

mod changes;
mod evidence;
mod matching;
mod recut;
mod split;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use prs_common::file_content::Contents;
use prs_common::job::InputSource;
use prs_common::layout;
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, SliceRef, StoreRef, Work, checksum};
use prs_common::storage::{Storage, StorageError, StorageExt};
use tokio_util::sync::CancellationToken;

use self::evidence::Evidence;
use self::matching::{Former, Matched, matched};
pub use self::split::look_at_split;
use super::schedule::{KnownChecksums, plan_aside};
use super::stored::{self, FormerPlans};
use super::{Batch, PlanEnd, PlanError};
use crate::JobContext;
use crate::inputs::listed::{self, Listed};
use crate::job::corrected_plan::CorrectedPlan;
use crate::job::count;

/// Mini-batches of former starts that have rows.
#[derive(Debug, Clone, Default)]
pub struct WithRows {
    /// Checksums of their descriptors.
    pub checksums: KnownChecksums,
    /// Contents of their local files, as far as these were noted.
    pub contents: BTreeMap<MiniBatchIndex, Box<Contents>>,
    /// An index that is larger than that of any mini-batch with a try.
    pub end: MiniBatchIndex,
}

/// State of the inputs of a job beside its former starts.
#[derive(Debug)]
pub enum Inputs {
    /// Mini-batches that have rows are those that the plan has.
    AsTheyWere,
    /// Others were corrected, so that the plan is another.
    Corrected(Box<Corrected>),
}

/// A plan of corrected inputs.
#[derive(Debug)]
pub struct Corrected {
    matched: Matched,
    /// Mini-batches that keep their rows.
    kept: u64,
    /// Findings at the end of it.
    found: PlanEnd,
}

/// Why a job cannot go on with its inputs as they are now.
#[derive(Debug, thiserror::Error)]
pub enum CorrectionError {
    /// The inputs cannot be planned.
    #[error("the inputs cannot be planned: {0}")]
    Plan(#[from] PlanError),
    /// The storage of the job fails.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Mini-batches have rows of data that is not there any more.
    #[error("the inputs changed, and the job has rows of what they were: {0}")]
    Changed(String),
}

/// Looks at the inputs of `job`, whose start this is to be, beside what is `known` of former starts.
///
/// # Errors
/// The inputs cannot be planned, the storage fails, or rows would be mixed.
pub async fn look(job: &JobContext, known: WithRows) -> Result<Inputs, CorrectionError> {
    let spec = &job.spec;
    let has_no_rows = known.checksums.is_empty() && job.corrected.is_none();
    if has_no_rows || !stored::may_change(spec) || is_listed_the_same(job).await {
        return Ok(Inputs::AsTheyWere);
    }
    let known = Arc::new(known);
    let Some((natural, found)) = differs(job, &known).await? else { return Ok(Inputs::AsTheyWere) };
    let former = former(job, &known, &natural).await?;
    let kept = former.done.len() as u64;
    let matched = {
        let spec = spec.clone();
        let work = move || {
            let evidence = Evidence::new(known);
            let size = spec.mini_batch_size.amount();
            let ends = ends(former.done.iter().chain(&former.open));
            let cut = |like: &SliceRef<'_>, done: &[(MiniBatchIndex, SliceRef<'_>)]| {
                recut::recut(like, done, (size, ends.get(like.origin).copied().unwrap_or_default()))
            };
            let matched = matched(&spec, &natural, &former, (&cut, &evidence));
            let matched = matched.map_err(|changes| CorrectionError::Changed(changes.to_string()))?;
            match copied(&matched.bodies, &former.done) {
                Some(file) => Err(CorrectionError::Changed(format!(
                    "other files changed, and {file}, of which a plain copy is made, has another place among them"
                ))),
                None => Ok(matched),
            }
        };
        tokio::task::spawn_blocking(work).await
    };
    let matched = matched.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    Ok(Inputs::Corrected(Box::new(Corrected { matched, kept, found })))
}

/// Whether the local files are, by name, size, time of change and inode, those that the last start listed; a start that did not
/// plan to its end has not said.
async fn is_listed_the_same(job: &JobContext) -> bool {
    if job.spec.inputs.iter().any(|input| matches!(input.source, InputSource::List(_))) {
        return false;
    }
    let Ok(before) = job.storage.get(&layout::listed(job.incarnation - 1)).await else { return false };
    let spec = job.spec.clone();
    let now = tokio::task::spawn_blocking(move || listed::list(&spec, &|| false)).await;
    let before: Result<Listed, _> = message_pack::decode(&before);
    matches!((before, now), (Ok(before), Ok(Ok(Some(now)))) if before.is_same(&now))
}

/// Plans the inputs as they are now, where mini-batches that have rows are not those of that plan.
async fn differs(
    job: &JobContext,
    known: &Arc<WithRows>,
) -> Result<Option<(Vec<Bytes>, PlanEnd)>, CorrectionError> {
    // Indexes of a plan that was corrected before are not those of any other.
    if job.corrected.is_none()
        && let Some(same) = are_all_in(job, &known.checksums).await?
    {
        let known = Arc::clone(known);
        let compared = tokio::task::spawn_blocking(move || Evidence::new(known).changes(&same)).await;
        let changes = compared.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        let is_same = changes.is_empty();
        return if is_same { Ok(None) } else { Err(CorrectionError::Changed(changes.to_string())) };
    }
    let mut natural = Vec::new();
    let found = each(job, |batch| {
        natural.extend(batch.bodies);
        true
    });
    let found = found.await?;
    Ok(Some((natural, found)))
}

/// The descriptors of mini-batches that have rows, where the plan of the inputs as they are now has all of these.
async fn are_all_in(job: &JobContext, known: &KnownChecksums) -> Result<Option<Vec<Bytes>>, CorrectionError> {
    // The audit finds outcomes of numbers beyond the plan.
    let end = known.iter().rposition(|known| *known != 0).map_or(0, |last| last + 1);
    let (mut is_another, mut met, mut same) = (false, 0, Vec::new());
    each(job, |batch| {
        let known = known.iter().skip(batch.first as usize);
        let with_rows = known.zip(&batch.bodies).filter(|(known, _)| **known != 0);
        for (known, body) in with_rows {
            is_another |= *known != checksum(body);
            same.push(body.clone());
        }
        met = batch.first as usize + batch.bodies.len();
        !is_another && met < end
    })
    .await?;
    Ok((!is_another && met >= end).then_some(same))
}

/// Hands the batches of the plan of the inputs as they are now to `take`, until that says that nobody wants more.
async fn each(job: &JobContext, mut take: impl FnMut(Batch) -> bool) -> Result<PlanEnd, CorrectionError> {
    let natural = JobContext { corrected: None, ..job.clone() };
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let (mut batches, planner) = plan_aside(&natural, &stop);
    while let Some(batch) = batches.recv().await {
        if !take(batch) {
            stop.cancel();
            break;
        }
    }
    drop(batches);
    match planner.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())) {
        // All of it was corrected away; there may be rows of it.
        Err(PlanError::NoRecords) => Ok(PlanEnd::default()),
        ended => Ok(ended?),
    }
}

/// Descriptors of mini-batches, as former starts noted them; of one with rows that nobody noted, the one in its place now serves
/// where it is the same.
async fn former(
    job: &JobContext,
    WithRows { checksums: known, end, .. }: &WithRows,
    natural: &[Bytes],
) -> Result<Former, CorrectionError> {
    let plans = FormerPlans::read(&job.storage, job.incarnation - 1, job.corrected).await?;
    let mut former = Former { done: Vec::new(), open: Vec::new(), end: *end };
    let mut unknown = Vec::new();
    for (index, known) in (0..).zip(known).filter(|(_, known)| **known != 0) {
        let noted = plans.bodies.get(&index).into_iter().flatten();
        let in_place = natural.get(index as usize).filter(|_| job.corrected.is_none());
        match noted.chain(in_place).find(|body| checksum(body) == *known) {
            Some(body) => former.done.push(body.clone()),
            None => unknown.push(index),
        }
    }
    if let Some(first) = unknown.first() {
        return Err(CorrectionError::Changed(format!(
            "{}, mini-batch {first} among them, were made of files that the job did not come to note",
            count(unknown.len() as u64, "mini-batch")
        )));
    }
    if let Some(order) = job.order().await? {
        former.done.sort_by_cached_key(|body| {
            MiniBatch::peek_index(body).ok().and_then(|index| order.position(index))
        });
    }
    let is_done = |index: &MiniBatchIndex| known.get(*index as usize).is_some_and(|known| *known != 0);
    for (index, bodies) in plans.bodies {
        former.end = former.end.max(index + 1);
        if !is_done(&index) {
            former.open.extend(bodies.into_iter().next_back());
        }
    }
    Ok(former)
}

/// A file whose mini-batches are to run and that is read as a plain copy in the scratch folder of a run, which only who makes the
/// plan of the inputs has.
fn copied(bodies: &[Bytes], done: &[Bytes]) -> Option<String> {
    let done: HashSet<&Bytes> = done.iter().collect();
    let open =
        bodies.iter().filter(|body| !done.contains(body)).filter_map(|body| MiniBatch::decode(body).ok());
    let is_copy = |slice: &&SliceRef<'_>| slice.store == StoreRef::Local && slice.key != slice.origin;
    open.into_iter()
        .find_map(|one| one.work.slices().iter().find(is_copy).map(|slice| slice.origin.to_owned()))
}

/// Where the slices of each file ended.
fn ends<'a>(bodies: impl Iterator<Item = &'a Bytes>) -> BTreeMap<String, u64> {
    let mut ends = BTreeMap::<String, u64>::new();
    for body in bodies {
        let Ok(MiniBatch { work: Work::Slice(slice), .. }) = MiniBatch::decode(body) else { continue };
        let end = ends.entry(slice.origin.to_owned()).or_default();
        *end = slice.end.max(*end);
    }
    ends
}

impl Corrected {
    /// A line for a person.
    pub fn words(&self) -> String {
        let open = self.matched.bodies.len() as u64 - self.kept;
        format!(
            "inputs were corrected: {} keep their rows, {open} run, {} of them new",
            count(self.kept, "mini-batch"),
            self.matched.fresh
        )
    }

    /// Stores it as the plan of the start `start` of the job in `storage`; the record names it afterwards.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn store(&self, storage: &dyn Storage, start: u32) -> Result<CorrectedPlan, StorageError> {
        let Matched { bodies, end, .. } = &self.matched;
        stored::store(storage, start, (bodies, *end), &self.found).await
    }
}
