//! The outcome of a mini-batch that was split (`split_failed`).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{TryRecord, TryStatus};

/// The outcome that the parts of a mini-batch make together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutTogether {
    /// How the first of the parts ended that lack items.
    pub failed_as: TryStatus,
    /// Number of its try.
    pub failed_try: u32,
    /// Items of the parts that failed for good, in input order, counted from 0 in the mini-batch.
    pub failed_items: Vec<Range<u64>>,
    /// Headers of its rows that differ from the first one.
    pub other_headers: Vec<String>,
}

impl TryRecord {
    /// Returns the outcome of parts that it is; `None` for a try that a process ran.
    pub fn put_together(&self) -> Option<&PutTogether> {
        self.together.as_deref()
    }

    /// Items that failed, counted from 0 in the mini-batch; `None` where it is not known which.
    pub fn failed_items(&self) -> Option<&[Range<u64>]> {
        self.put_together().map(|together| &*together.failed_items)
    }

    /// The status that its error is counted under: where parts make an outcome, that of the part that failed.
    pub fn error_status(&self) -> TryStatus {
        self.put_together().map_or(self.status, |together| together.failed_as)
    }

    /// All headers of its rows.
    pub fn headers(&self) -> impl Iterator<Item = &String> {
        let others = self.put_together().into_iter().flat_map(|together| &together.other_headers);
        self.header.iter().chain(others)
    }
}
