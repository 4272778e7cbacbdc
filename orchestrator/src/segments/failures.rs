//! What the tries of mini-batches say that failed or lack items.
//!
//! The orchestrator collects it with the catalog, in `kept_failures`. Commands read it from the segments themselves: the ledger is gone when
//! the job has ended, and segments are there as long as anything is left to resume.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use futures_util::StreamExt;
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::{SegmentIndex, TryRecord, TryStatus};
use prs_common::storage::{Storage, StorageError};

/// Longest message of a failed try that is remembered, bytes.
const LONGEST_MESSAGE: usize = 2_000;

/// A try that failed or lacks items, for the list of failed mini-batches.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct TryFailure {
    #[serde(rename = "try")]
    number: u32,
    #[serde(skip)]
    pub(super) incarnation: u32,
    status: TryStatus,
    category: String,
    message: String,
    node_id: u32,
    process: String,
}

impl TryFailure {
    /// A try of the segment with this `index`.
    pub(super) fn of(index: &SegmentIndex, record: &TryRecord) -> Self {
        let process = index.processes.get(record.process as usize);
        let message = &record.message;
        Self {
            number: record.number,
            incarnation: index.incarnation,
            status: record.status,
            category: record.category.clone(),
            message: message[..message.floor_char_boundary(LONGEST_MESSAGE)].to_owned(),
            node_id: index.node_id,
            process: process.map(|process| process.name.clone()).unwrap_or_default(),
        }
    }

    /// Sorts the tries of a mini-batch by age.
    pub(super) fn order(&self) -> (u32, u32) {
        (self.incarnation, self.number)
    }

    /// What it said.
    #[cfg(test)]
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

/// What is remembered of a mini-batch that had failed tries, or that lacks items.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// The start of the job that brought its outcome; 0 before there is one.
    pub(super) start: u32,
    /// Its descriptor, once it has failed for good, or lacks items.
    pub(crate) body: Option<Vec<u8>>,
    /// Its items, and those that are missing.
    pub(crate) items: (u64, u64),
    /// Positions of those that failed, where they are known.
    pub(crate) failed_items: Option<Vec<Range<u64>>>,
    /// The tries.
    pub(crate) tries: Vec<TryFailure>,
}

impl Failures {
    /// Takes in the outcome, of this `start` of the job.
    fn end(&mut self, start: u32, record: &TryRecord) {
        self.start = start;
        self.items = (record.items, record.items - record.succeeded);
        self.body.clone_from(&record.failed);
        self.failed_items = record.failed_items().map(<[_]>::to_vec);
    }
}

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
}

/// The failed mini-batches of the job in `storage`, in the order of the plan, of whatever start. Segments that are damaged
/// are left out.
pub async fn failed_mini_batches(storage: &Arc<dyn Storage>) -> Result<Vec<FailedMiniBatch>, StorageError> {
    Ok(Found::read(storage).await?.failed())
}

/// What segments tell of mini-batches of which no start of the job has all items.
#[derive(Debug, Default)]
pub(crate) struct Found {
    whole: HashSet<MiniBatchIndex>,
    failures: BTreeMap<MiniBatchIndex, Failures>,
}

impl Found {
    /// Reads the segments in `storage`. Damaged ones are left out, and those that went when the job ended.
    pub(crate) async fn read(storage: &Arc<dyn Storage>) -> Result<Self, StorageError> {
        let mut found = Self::default();
        let mut read = std::pin::pin!(super::read_all(storage, super::list(&**storage).await?));
        while let Some(read) = read.next().await {
            match read?.1 {
                Ok(contents) => found.add(&contents.index),
                Err(reason) => tracing::warn!(reason, "a segment is left out"),
            }
        }
        Ok(found)
    }

    pub(super) fn add(&mut self, index: &SegmentIndex) {
        for record in &index.tries {
            if record.last && record.is_whole() {
                self.whole.insert(record.index);
                self.failures.remove(&record.index);
            } else if !self.whole.contains(&record.index) {
                let failures = self.failures.entry(record.index).or_default();
                failures.tries.push(TryFailure::of(index, record));
                if record.last && failures.start <= index.incarnation {
                    failures.end(index.incarnation, record);
                }
            }
        }
    }

    fn failed(self) -> Vec<FailedMiniBatch> {
        let ended = self.failures.into_iter().filter(|(_, failures)| failures.start > 0);
        let failed = ended.map(|(index, failures)| {
            let last = failures.tries.into_iter().max_by_key(TryFailure::order);
            let (category, message) = last.map(|last| (last.category, last.message)).unwrap_or_default();
            FailedMiniBatch { index, body: failures.body, category, message }
        });
        failed.collect()
    }

    /// Those that failed in this `start` of the job: what failed before runs again.
    pub(crate) fn of_start(self, start: u32) -> impl Iterator<Item = (MiniBatchIndex, Failures)> {
        let counts = move |one: &TryFailure| one.status != TryStatus::RunDone || one.incarnation == start;
        let failed = self.failures.into_iter().filter(move |(_, failures)| failures.start == start);
        failed.map(move |(index, mut failures)| {
            failures.tries.retain(counts);
            (index, failures)
        })
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
                found.add(segment);
            }
            let told: Vec<_> = found
                .failed()
                .into_iter()
                .map(|FailedMiniBatch { index, body, message, .. }| (index, message, body))
                .collect();
            assert_eq!(told, [(1, "second".to_owned(), Some(vec![1])), (3, String::new(), None)]);
        }
    }
}
