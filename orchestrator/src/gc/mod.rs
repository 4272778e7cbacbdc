//! Collections: removing what no job names, uploaded inputs and what killed submissions left (`prs gc`).
//!
//! Uploaded files are named by their content and shared by all jobs of a fleet. A submission does not send what is there
//! already, so nothing may be removed between its look and the moment its listings say that the files are needed.
//!
//! # Why nothing goes that a job needs
//! One object, the mark (`mark.rs`), is written when a collection begins, while it works, and when it has ended.
//!
//! * A collection first writes that it collects. Only then it reads which files the listings below `jobs/` name. It
//!   removes others, and when the last removal is answered it writes that nobody collects.
//! * A submission reads the mark while nobody collects, uploads, stores its listings, and reads the mark again. Where it is
//!   the same, no collection was at work in between: one before had ended its removals when the submission looked for its
//!   files, and one after finds the listings. Where it is another, the submission does all of it again, which sends
//!   only what was removed.
//!
//! Files that programs send to a server come before the job that names them. So a request for one, or an upload, claims it while
//! nobody collects (`claim.rs`): a collection reads the claims after it has written that it collects, and leaves what was claimed
//! within `CLAIMED_FOR`.
//!
//! Writes of the mark are conditional, so one program collects at a time. One that was killed leaves a mark that says it
//! collects; who has watched such a mark for `mark::DEAD` without a change takes it over. A collection that lives
//! writes its mark every `mark::BEAT`, and once more before each removal, which it gives up after
//! `mark::REMOVAL`: one whose mark was taken over finds out before it removes anything. One whose removal failed, and may
//! take effect all the same, leaves its mark to be taken over.
//!
//! What is left: a collection that is stopped between that write and its removal for so long that a submission takes its
//! mark over, and then goes on; and a store without conditional writes. A file may then be missing that a new job needs.
//! The job fails with the name of the file, for nodes run no mini-batch on anything else.

mod claim;
mod mark;
mod named;
pub mod removal;

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::layout::{self, BLOBS};
use prs_common::storage::{ObjectMeta, Storage, StorageError, StorageExt};
use prs_common::timestamp::now_us;
use serde::Serialize;

use self::mark::Collecting;
use self::named::{Named, job_prefixes};
use crate::inputs::blob::promised_digest;
use crate::inputs::manifest::ManifestError;
use crate::job::fleet::{job_ids, job_storage};
use crate::job::record::{JobRecord, JobRecordError};

pub use self::claim::{CLAIMED_FOR, claim};
pub use self::mark::{Quiet, until_quiet};

/// Objects that are removed together: so few that it takes moments.
const REMOVED_TOGETHER: usize = 1_000;
/// Prefixes of jobs that are looked at side by side.
const LOOKS_AT_ONCE: usize = 16;
/// What is younger is not what a killed submission left, whatever is wanted: one at work has no record yet, seconds.
const LEFT_FOR: u64 = 3_600;

/// What a collection looks for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only what was written longer ago than this, seconds. What submissions left is at least an hour old.
    pub older: u64,
    /// Jobs that are as good as gone: what they name does not count.
    pub gone: HashSet<String>,
}

/// What no job names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Uploaded inputs.
    pub inputs: Amount,
    /// What submissions left that were killed before there was a job, and removals that were interrupted, by the ids of
    /// the jobs.
    pub leftovers: Vec<(String, Amount)>,
}

/// How much of something there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Amount {
    /// Objects.
    pub objects: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, object: &ObjectMeta) {
        self.objects += 1;
        self.bytes += object.size;
    }
}

/// Why a collection did not finish.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A listing cannot be read, so nobody knows what its job needs.
    #[error(
        "job {job_id}: {source}; no uploaded input is removed while it is there: prs rm {job_id} removes the job"
    )]
    Listing {
        /// The job.
        job_id: String,
        /// The reason.
        source: ManifestError,
    },
    /// Another program took the mark over.
    #[error("another program took over because this one did not respond in time; run it again")]
    TakenOver,
    /// A removal failed, and may take effect all the same.
    #[error("{0}; run it again")]
    Removal(#[source] StorageError),
    /// A removal was not answered in time, and may take effect later.
    #[error("the storage did not answer a removal within {} s; run it again", mark::REMOVAL.as_secs())]
    Unanswered,
    /// The store is too slow for a removal to be begun in time.
    #[error("the storage takes longer than {} s to write a small object; run it again", mark::PROMPT.as_secs())]
    Slow,
}

impl GcError {
    /// Whether the same call may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Storage(error) | Self::Removal(error) => error.is_retryable(),
            Self::Listing { source, .. } => source.is_retryable(),
            Self::TakenOver | Self::Unanswered | Self::Slow => true,
        }
    }
}

/// What of the storage of a fleet no job names. Removes nothing.
pub async fn look(storage: &Arc<dyn Storage>, wanted: &Wanted) -> Result<Found, GcError> {
    let leftovers = leftovers(storage, wanted).await?;
    let mut named = named_by_jobs(storage, wanted, &leftovers).await?;
    named.extend(claim::claimed(&**storage).await?.0);
    let mut found = Found { leftovers: amounts(&leftovers), ..Found::default() };
    let mut inputs = storage.list(BLOBS, "");
    while let Some(object) = inputs.try_next().await? {
        if is_unnamed(&object, &named, wanted) {
            found.inputs.add(&object);
        }
    }
    Ok(found)
}

/// Removes what of the storage of a fleet no job names, and tells what that was. `by` is who others are told of, who wait
/// meanwhile; `tell` hears of another collection that is waited for.
pub async fn collect(
    storage: &Arc<dyn Storage>,
    wanted: &Wanted,
    by: &str,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Found, GcError> {
    let mut collecting = Collecting::begin(Arc::clone(storage), by, tell).await?;
    let collected = remove(storage, wanted, &mut collecting).await;
    // A removal that was not answered may still come: then the mark is left to be taken over.
    if matches!(collected, Err(GcError::Unanswered | GcError::Removal(_))) {
        return collected;
    }
    let ended = collecting.end().await;
    collected.and_then(|found| ended.map(|()| found))
}

async fn remove(
    storage: &Arc<dyn Storage>,
    wanted: &Wanted,
    collecting: &mut Collecting,
) -> Result<Found, GcError> {
    let leftovers = collecting.meanwhile(leftovers(storage, wanted)).await??;
    let mut named = collecting.meanwhile(named_by_jobs(storage, wanted, &leftovers)).await??;
    let (claimed, old_claims) = collecting.meanwhile(claim::claimed(&**storage)).await??;
    named.extend(claimed);
    let mut found = Found { leftovers: amounts(&leftovers), ..Found::default() };
    for (_, objects) in &leftovers {
        for objects in objects.chunks(REMOVED_TOGETHER) {
            collecting.remove(objects.iter().map(|object| object.key.clone()).collect()).await?;
        }
    }
    let mut keys = Vec::new();
    let mut inputs = storage.list(BLOBS, "").try_chunks(REMOVED_TOGETHER).map_err(|error| error.1);
    while let Some(page) = collecting.meanwhile(inputs.try_next()).await?? {
        for object in page.into_iter().filter(|object| is_unnamed(object, &named, wanted)) {
            found.inputs.add(&object);
            keys.push(object.key);
            if keys.len() == REMOVED_TOGETHER {
                collecting.remove(std::mem::take(&mut keys)).await?;
            }
        }
    }
    collecting.remove(keys).await?;
    for claims in old_claims.chunks(REMOVED_TOGETHER) {
        collecting.remove(claims.to_vec()).await?;
    }
    Ok(found)
}

/// The objects of ids that are no jobs, in the list of jobs or by a record.
async fn leftovers(
    storage: &Arc<dyn Storage>,
    wanted: &Wanted,
) -> Result<Vec<(String, Vec<ObjectMeta>)>, GcError> {
    let listed: HashSet<String> = job_ids(&**storage).await?.into_iter().collect();
    let unlisted = job_prefixes(&**storage).await?.into_iter().filter(|id| !listed.contains(id));
    let age = wanted.older.max(LEFT_FOR);
    let looks = unlisted.map(|id| async move {
        let job = job_storage(&**storage, &id);
        match JobRecord::read(&*job).await {
            Err(JobRecordError::Absent { .. }) => {}
            Err(JobRecordError::Storage(error)) => return Err(error),
            // What cannot be understood may be a job all the same.
            _ => return Ok(None),
        }
        let prefix = named::prefix(&id);
        let mut objects = storage.list_all(&prefix).await?;
        let [output, kept] = [layout::OUTPUT, layout::KEPT].map(|name| format!("{prefix}{name}"));
        if objects.iter().any(|object| object.key == kept) {
            // Its result was to stay.
            objects.retain(|object| object.key != kept && !object.key.starts_with(&output));
        }
        let is_left = !objects.is_empty() && objects.iter().all(|object| is_older(object, age));
        Ok(is_left.then_some((id, objects)))
    });
    let looks = stream::iter(looks.collect::<Vec<_>>()).buffered(LOOKS_AT_ONCE);
    Ok(looks.try_filter_map(|found| std::future::ready(Ok(found))).try_collect().await?)
}

fn amounts(leftovers: &[(String, Vec<ObjectMeta>)]) -> Vec<(String, Amount)> {
    let amount = |objects: &[ObjectMeta]| Amount {
        objects: objects.len() as u64,
        bytes: objects.iter().map(|object| object.size).sum(),
    };
    leftovers.iter().map(|(id, objects)| (id.clone(), amount(objects))).collect()
}

/// The uploaded files that jobs name.
async fn named_by_jobs(
    storage: &Arc<dyn Storage>,
    wanted: &Wanted,
    leftovers: &[(String, Vec<ObjectMeta>)],
) -> Result<Named, GcError> {
    let left: HashSet<&str> = leftovers.iter().map(|(id, _)| &**id).collect();
    let jobs = job_prefixes(&**storage).await?;
    let jobs = jobs.into_iter().filter(|id| !wanted.gone.contains(id) && !left.contains(&**id));
    let reads = jobs.map(|id| named::named_by(storage, id)).collect::<Vec<_>>();
    let mut reads = stream::iter(reads).buffer_unordered(LOOKS_AT_ONCE);
    let mut named = Named::default();
    while let Some(more) = reads.next().await {
        named.extend(more?);
    }
    Ok(named)
}

fn is_unnamed(object: &ObjectMeta, named: &Named, wanted: &Wanted) -> bool {
    promised_digest(&object.key).is_some_and(|digest| !named.has(digest)) && is_older(object, wanted.older)
}

/// Whether it was written longer ago than `age`, seconds. What a store does not date counts as new.
fn is_older(object: &ObjectMeta, age: u64) -> bool {
    let now = now_us() / 1_000_000;
    object.modified.is_some_and(|modified| modified.saturating_add(age) <= now)
}

#[cfg(test)]
mod tests;
