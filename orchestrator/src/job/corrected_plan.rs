//! The plan of a job whose inputs were corrected, as its record names it, and the order of its mini-batches: their indexes are
//! not in input order. How it is made and stored: `plan/correction/`, `plan/stored/`.

use bytes::Bytes;
use prs_common::checksum::crc32c;
use prs_common::layout;
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex};
use prs_common::storage::{Storage, StorageError, StorageErrorKind, StorageExt};
use serde::{Deserialize, Serialize};

/// A plan that was made anew because inputs were corrected; the record of the job names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectedPlan {
    /// The start that it was made for.
    pub start: u32,
    /// The name that its content gives it among plans for that start.
    pub content: u64,
    /// Objects that hold it.
    pub parts: u32,
    /// CRC32C of the object with its order.
    pub order: u32,
}

impl CorrectedPlan {
    /// Key of its object of this name.
    pub(crate) fn key(&self, name: &str) -> String {
        layout::corrected_plan(self.start, self.content, name)
    }

    /// The order of its mini-batches.
    ///
    /// # Errors
    /// The storage fails, or gives back something else.
    pub async fn order(&self, storage: &dyn Storage) -> Result<PlanOrder, StorageError> {
        let key = self.key(ORDER);
        let body = storage.get(&key).await?;
        let order = (crc32c(&body) == self.order).then(|| PlanOrder::decode(&body)).flatten();
        order.ok_or_else(|| damaged(storage, key))
    }
}

/// Name of the object with the order of a plan.
pub(crate) const ORDER: &str = "order";

/// The error that an object of a plan is not what was written.
pub(crate) fn damaged(storage: &dyn Storage, key: String) -> StorageError {
    let message = "it is not what was written: submit the job as a new one".to_owned();
    StorageError { kind: StorageErrorKind::Damaged, place: storage.to_string(), key, message }
}

/// Stands for a mini-batch that the plan does not have.
const NOWHERE: usize = usize::MAX;

/// Where in input order each mini-batch of a plan is.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PlanOrder {
    /// The index of the mini-batch at each position.
    indexes: Vec<MiniBatchIndex>,
    /// The position of each index.
    positions: Vec<usize>,
}

/// The order as it is stored: the first index of each run of indexes that follow one another, and its length.
#[derive(Serialize, Deserialize)]
struct Stored {
    end: MiniBatchIndex,
    runs: Vec<(MiniBatchIndex, u64)>,
}

impl PlanOrder {
    /// The order of mini-batches with these descriptors; `end` is larger than any of their indexes.
    pub(crate) fn of(bodies: &[Bytes], end: MiniBatchIndex) -> Self {
        let indexes = bodies.iter().map(|body| MiniBatch::peek_index(body).unwrap_or(end));
        Self::new(indexes.collect(), end)
    }

    fn new(indexes: Vec<MiniBatchIndex>, end: MiniBatchIndex) -> Self {
        let mut positions = vec![NOWHERE; end as usize];
        for (position, index) in indexes.iter().enumerate() {
            if let Some(of_index) = positions.get_mut(*index as usize) {
                *of_index = position;
            }
        }
        Self { indexes, positions }
    }

    /// The position of a mini-batch, if the plan has one with this index.
    pub(crate) fn position(&self, index: MiniBatchIndex) -> Option<usize> {
        self.positions.get(index as usize).copied().filter(|position| *position != NOWHERE)
    }

    /// The mini-batch at a position.
    pub(crate) fn index_at(&self, position: usize) -> Option<MiniBatchIndex> {
        self.indexes.get(position).copied()
    }

    /// An index that is larger than any of the plan.
    pub(crate) fn end(&self) -> MiniBatchIndex {
        self.positions.len() as u64
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut runs: Vec<(MiniBatchIndex, u64)> = Vec::new();
        for &index in &self.indexes {
            match runs.last_mut() {
                Some((first, length)) if *first + *length == index => *length += 1,
                _ => runs.push((index, 1)),
            }
        }
        message_pack::encode(&Stored { end: self.end(), runs })
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let Stored { end, runs } = message_pack::decode(body).ok()?;
        let indexes = runs.into_iter().flat_map(|(first, length)| first..first + length);
        Some(Self::new(indexes.collect(), end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_its_storing() {
        for (indexes, end) in [(vec![], 0), (vec![0, 1, 2], 3), (vec![7, 0, 1, 5, 6, 2], 9)] {
            let order = PlanOrder::new(indexes.clone(), end);
            assert_eq!(PlanOrder::decode(&order.encode()).unwrap(), order);
            for (position, index) in indexes.iter().enumerate() {
                assert_eq!(
                    (order.position(*index), order.index_at(position)),
                    (Some(position), Some(*index))
                );
            }
            assert_eq!(order.end(), end);
            for index in (0..end + 2).filter(|index| !indexes.contains(index)) {
                assert_eq!(order.position(index), None);
            }
        }
    }
}
