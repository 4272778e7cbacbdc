//! Going on with one error group alone: what other errors cost is carried over from the former start of a job to the next one, as
//! outcomes of that, so that it does not run again.
//!
//! What a start carries over is a segment of its own like any other; the worker that recovers the ledger commits it. It is written once the
//! record of the next start is stored: a program that is killed in between leaves a start that runs all that failed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt;
use prs_common::layout;
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::{ErrorDetail, ProcessRef, SegmentBuilder, TryRecord};
use prs_common::storage::{PutMode, Storage, StorageError, StorageExt};

use super::recover::Recovered;
use super::{list, read_all};
use crate::report::group_id_of;

/// The outcomes of a start of a job that lack items.
#[derive(Debug)]
pub struct Carried {
    /// Mini-batches that the error group cost, all or some of their items.
    pub open: u64,
    kept: BTreeMap<MiniBatchIndex, Kept>,
}

/// An outcome that stays.
#[derive(Debug)]
struct Kept {
    /// Its segment.
    key: String,
    node_id: u32,
    ip: String,
    record: TryRecord,
    process: ProcessRef,
    error: Option<ErrorDetail>,
}

/// Looks which outcomes of the `former` start (from 1) of the job in `storage` are of the error group `group`, and which of others.
/// What wrote files is not carried over, for these are published with its start: it runs again.
///
/// # Errors
/// The storage fails.
pub async fn look(storage: &Arc<dyn Storage>, former: u32, group: &str) -> Result<Carried, StorageError> {
    let segments = list(&**storage).await?;
    let mut read = std::pin::pin!(read_all(storage, segments));
    let (mut whole, mut short) = (HashSet::new(), Vec::new());
    while let Some(read) = read.next().await {
        let (object, contents) = read?;
        // The mini-batches of what is damaged run again.
        let Ok(contents) = contents else { continue };
        let index = contents.index;
        for record in index.tries.iter().filter(|record| record.last) {
            if record.is_whole() {
                whole.insert(record.index);
            } else if index.incarnation == former {
                let error = record.error.and_then(|at| index.errors.get(at as usize)).cloned();
                short.push(Kept {
                    key: object.key.clone(),
                    node_id: index.node_id,
                    ip: index.ip.clone(),
                    record: record.clone(),
                    process: index.processes.get(record.process as usize).cloned().unwrap_or_default(),
                    error,
                });
            }
        }
    }
    let mut carried = Carried { open: 0, kept: BTreeMap::new() };
    for kept in short.into_iter().filter(|kept| !whole.contains(&kept.record.index)) {
        let frame = kept.error.as_ref().and_then(|error| error.frame.as_ref());
        let record = &kept.record;
        let id = group_id_of(record.error_status().as_str(), &record.category, frame, &record.message);
        if id == group {
            carried.open += 1;
        } else if record.files.is_empty() {
            carried.kept.insert(record.index, kept);
        }
    }
    Ok(carried)
}

impl Carried {
    /// Mini-batches whose outcomes stay.
    pub fn kept(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Enters them as outcomes that are known.
    pub fn enter(&self, recovered: &mut Recovered) {
        for (index, Kept { record, .. }) in &self.kept {
            let at = *index as usize;
            recovered.known.resize(recovered.known.len().max(at + 1), 0);
            recovered.known[at] = record.checksum;
        }
    }

    /// Writes what stays as outcomes of the start `next` of the job.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn write(self, storage: &dyn Storage, next: u32) -> Result<(), StorageError> {
        let mut by_node: BTreeMap<(u32, String), Vec<Kept>> = BTreeMap::new();
        for (_, kept) in self.kept {
            by_node.entry((kept.node_id, kept.ip.clone())).or_default().push(kept);
        }
        for (number, ((node_id, ip), all)) in by_node.into_iter().enumerate() {
            let key = layout::segment(next, node_id, layout::CARRIED, number as u64);
            let mut segment = SegmentBuilder::default();
            for Kept { key, mut record, process, error, .. } in all {
                let rows = record.offset..record.offset + record.length;
                let rows = if rows.is_empty() { "".into() } else { storage.get_range(&key, rows).await? };
                record.error = error.as_ref().and_then(|error| segment.explain(error));
                segment.add(record, &process, rows);
            }
            let (parts, _) = segment.seal(&key, next, node_id, &ip);
            storage.put(&key, parts.into(), PutMode::Overwrite).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prs_common::mini_batch::{MiniBatch, Work};
    use prs_common::segment::TryStatus;
    use prs_common::storage::LocalStorage;

    use super::*;

    fn group(message: &str) -> String {
        group_id_of(TryStatus::RunException.as_str(), "ValueError", None, message)
    }

    /// Writes a segment of (mini-batch, message of its error; empty where it succeeded, rows).
    async fn write(storage: &dyn Storage, incarnation: u32, tries: &[(MiniBatchIndex, &str, &'static str)]) {
        let mut segment = SegmentBuilder::default();
        for (index, message, rows) in tries {
            let work = Work::Files { base: "", paths: vec!["/d/a"], versions: &[], names: Vec::new() };
            let body = MiniBatch::new(*index, 0, work).encode();
            let status = if message.is_empty() { TryStatus::RunDone } else { TryStatus::RunException };
            let mut record = TryRecord::new(*index, &body, status);
            (record.last, record.items, record.number) = (true, 1, 1);
            if message.is_empty() {
                record.succeeded = 1;
            } else {
                (record.category, record.message) = ("ValueError".to_owned(), (*message).to_owned());
                record.failed = Some(body);
            }
            segment.add(record, &ProcessRef::default(), (*rows).into());
        }
        let key = layout::segment(incarnation, 0, "5f", 0);
        let (parts, _) = segment.seal(&key, incarnation, 0, "");
        storage.put(&key, parts.into(), PutMode::Create).await.unwrap();
    }

    #[tokio::test]
    async fn outcomes_of_other_errors_stay_and_those_of_the_group_are_open() {
        let folder = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        write(&*storage, 1, &[(0, "bad one", ""), (5, "of old", "")]).await;
        write(&*storage, 2, &[(0, "", "row\n"), (1, "bad a", ""), (2, "bad a", ""), (3, "worse", "")]).await;
        let carried = look(&storage, 2, &group("bad a")).await.unwrap();
        assert_eq!((carried.open, carried.kept()), (2, 1));
        carried.write(&*storage, 3).await.unwrap();
        let again = look(&storage, 3, &group("worse")).await.unwrap();
        assert_eq!((again.open, again.kept()), (1, 0), "it is an outcome of the next start");
        assert_eq!(look(&storage, 2, "no such group").await.unwrap().open, 0);
    }
}
