//! Which uploaded files jobs name, in the listings of their inputs.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::TryStreamExt;
use prs_common::failpoint;
use prs_common::layout::{BLOBS, INPUTS};
use prs_common::storage::{Storage, StorageError, StorageErrorKind, StorageExt};
use tokio::runtime::Handle;

use super::GcError;
use crate::inputs::blob::promised_digest;
use crate::inputs::manifest::{ManifestError, ManifestReader, Store};
use crate::job::fleet::{JOBS, job_storage};

/// Uploaded files, by the first half of the checksums that name them: two that share it are both kept.
#[derive(Debug, Default)]
pub(super) struct Named(HashSet<u128>);

impl Named {
    /// Adds the file with this checksum.
    pub(super) fn add(&mut self, digest: &str) {
        self.0.extend(half(digest));
    }

    /// Whether the file with this checksum, in hexadecimal, is one of them.
    pub(super) fn has(&self, digest: &str) -> bool {
        half(digest).is_none_or(|half| self.0.contains(&half))
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }
}

fn half(digest: &str) -> Option<u128> {
    u128::from_str_radix(digest.get(..32)?, 16).ok()
}

/// Objects of one job that are listed before the others of it are passed over: some pages of a listing. A folder is walked anew each time.
const LOOKED_AT: usize = 10_000;

/// What the keys of a job begin with.
pub(super) fn prefix(job_id: &str) -> String {
    format!("{JOBS}/{job_id}/")
}

/// The ids of all jobs, and would-be jobs, that have something in storage.
pub(super) async fn job_prefixes(storage: &dyn Storage) -> Result<Vec<String>, StorageError> {
    let (below, mut ids) = (format!("{JOBS}/"), Vec::<String>::new());
    let (mut objects, mut passed) = (storage.list(&below, ""), 0);
    while let Some(object) = objects.try_next().await? {
        let id = object.key.strip_prefix(&below).and_then(|rest| rest.split_once('/'));
        let Some((id, _)) = id else { continue };
        if ids.last().is_none_or(|last| last != id) {
            ids.push(id.to_owned());
            passed = 0;
            continue;
        }
        passed += 1;
        if passed == LOOKED_AT {
            // `0` follows `/`: whatever else the job has is passed over.
            objects = storage.list(&below, &format!("{below}{id}0"));
        }
    }
    Ok(ids)
}

/// What the job names.
pub(super) async fn named_by(storage: &Arc<dyn Storage>, job_id: String) -> Result<Named, GcError> {
    let job = job_storage(&**storage, &job_id);
    let mut named = Named::default();
    let listings = job.list_all(INPUTS).await?;
    failpoint::pass("gc_listed");
    for listing in listings {
        match names(&job, &listing.key).await {
            Ok(more) => named.extend(more),
            // The job was removed since.
            Err(ManifestError::Storage(error))
                if error.kind == StorageErrorKind::NotFound && !is_listed(&*job, &listing.key).await? => {}
            Err(ManifestError::Storage(error)) => return Err(error.into()),
            Err(source @ ManifestError::Damaged { .. }) => return Err(GcError::Listing { job_id, source }),
        }
    }
    Ok(named)
}

async fn is_listed(job: &dyn Storage, key: &str) -> Result<bool, StorageError> {
    Ok(job.list_all(INPUTS).await?.iter().any(|listing| listing.key == key))
}

/// What the listing `key` of a job names.
async fn names(job: &Arc<dyn Storage>, key: &str) -> Result<Named, ManifestError> {
    let (job, key, handle) = (Arc::clone(job), key.to_owned(), Handle::current());
    let reading = tokio::task::spawn_blocking(move || {
        let mut named = Named::default();
        read(&job, &key, &handle, &mut named).map(|()| named)
    });
    reading.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

fn read(job: &Arc<dyn Storage>, key: &str, handle: &Handle, named: &mut Named) -> Result<(), ManifestError> {
    let mut reader = ManifestReader::open(Arc::clone(job), key, None, handle)?;
    while let Some(files) = reader.next_block()? {
        for file in files {
            let source = &reader.sources()[file.source as usize];
            if source.store != Store::Shared {
                continue;
            }
            let rest = if file.key.is_empty() { &file.relative } else { &file.key };
            let key = format!("{}{rest}", source.prefix);
            debug_assert!(key.starts_with(BLOBS), "nothing else is shared");
            named.0.extend(promised_digest(&key).and_then(half));
        }
    }
    Ok(())
}
