//! The mini-batches of a job that failed, with what they were made of, read from its segments.
//!
//! For those who want to run one of them again by itself. The ledger is not asked: it is gone when the job has ended,
//! and segments are there as long as anything is left to resume.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt;
use prs_common::layout;
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::{SegmentError, SegmentIndex, TryRecord, read_index};
use prs_common::storage::{Storage, StorageExt};

use super::READ_AT_ONCE;

/// A mini-batch of which the result has nothing, or not all items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedMiniBatch {
    /// Which one.
    pub index: MiniBatchIndex,
    /// Its descriptor as it was planned; absent where the segments do not have it.
    pub body: Option<Vec<u8>>,
    /// Class of the last error; empty where items are missing without one.
    pub category: String,
    /// Message of the last error.
    pub message: String,
    start: u32,
}

/// The failed mini-batches of the job in `storage`, in the order of the plan. Segments that are damaged are left out.
pub async fn failed_mini_batches(storage: &Arc<dyn Storage>) -> Result<Vec<FailedMiniBatch>, SegmentError> {
    let listed = storage.list_all(layout::SEGMENTS).await?.into_iter();
    let segments = listed.filter(|object| layout::is_segment(&object.key)).map(|object| {
        let storage = Arc::clone(storage);
        async move { read_index(&*storage, &object).await }
    });
    let mut found = Found::default();
    let mut read = futures_util::stream::iter(segments).buffered(READ_AT_ONCE);
    while let Some(read) = read.next().await {
        match read {
            Ok(read) => found.add(read.index),
            Err(error) if error.is_damage() => tracing::warn!(%error, "a segment is left out"),
            Err(error) => return Err(error),
        }
    }
    Ok(found.failed.into_values().collect())
}

/// What the segments said so far.
#[derive(Debug, Default)]
struct Found {
    succeeded: HashSet<MiniBatchIndex>,
    failed: BTreeMap<MiniBatchIndex, FailedMiniBatch>,
}

impl Found {
    fn add(&mut self, segment: SegmentIndex) {
        for record in segment.tries.into_iter().filter(|record| record.last) {
            let index = record.index;
            if record.is_whole() {
                self.succeeded.insert(index);
                self.failed.remove(&index);
            } else if !self.succeeded.contains(&index)
                && self.failed.get(&index).is_none_or(|known| known.start <= segment.incarnation)
            {
                let TryRecord { failed: body, category, message, .. } = record;
                let start = segment.incarnation;
                self.failed.insert(index, FailedMiniBatch { index, body, category, message, start });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use prs_common::segment::TryStatus;

    use super::*;

    fn segment(incarnation: u32, tries: Vec<TryRecord>) -> SegmentIndex {
        SegmentIndex {
            key: String::new(),
            incarnation,
            node_id: 0,
            ip: String::new(),
            processes: Vec::new(),
            tries,
            errors: Vec::new(),
        }
    }

    fn outcome(index: u64, status: TryStatus, items: (u64, u64), message: &str) -> TryRecord {
        let failed = (status != TryStatus::RunDone).then(|| vec![index as u8]);
        let (items, succeeded) = items;
        let message = message.to_owned();
        TryRecord { last: true, items, succeeded, message, failed, ..TryRecord::new(index, b"", status) }
    }

    #[test]
    fn what_succeeded_at_last_has_not_failed() {
        use TryStatus::{RunDone, RunException};
        let first = segment(
            1,
            vec![
                outcome(0, RunDone, (2, 2), ""),
                outcome(1, RunException, (2, 0), "first"),
                outcome(2, RunException, (2, 0), "first"),
                outcome(3, RunDone, (2, 1), ""),
                TryRecord { last: false, ..outcome(4, RunException, (2, 0), "not the last try") },
            ],
        );
        let second =
            segment(2, vec![outcome(1, RunException, (2, 0), "second"), outcome(2, RunDone, (2, 2), "")]);
        for order in [[&first, &second], [&second, &first]] {
            let mut found = Found::default();
            for segment in order {
                found.add(segment.clone());
            }
            let told: Vec<_> = found
                .failed
                .values()
                .map(|one| (one.index, one.message.as_str(), one.body.clone()))
                .collect();
            assert_eq!(told, [(1, "second", Some(vec![1])), (3, "", None)]);
        }
    }
}
