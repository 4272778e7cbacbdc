//! Recovery: rebuilds the ledger of a job from its segments.
//!
//! Used by `resume`, and whenever a ledger is lost. Outcomes of mini-batches that succeeded count, whichever
//! incarnation brought them; what failed for good is open again.

use prs_common::layout;
use prs_common::ledger::Entry;
use prs_common::segment::{SegmentError, TryStatus, read_index};

use crate::JobContext;
use crate::schedule::KnownChecksums;
use crate::watch::WatchError;

/// What the segments of a job tell.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Checksums of the descriptors of mini-batches that succeeded.
    pub known: KnownChecksums,
    /// Mini-batches that succeeded.
    pub succeeded: u64,
    /// Segments that could not be read; their mini-batches run again.
    pub damaged: Vec<String>,
}

/// Commits all segments of `job` to its (new) ledger.
pub async fn recover(job: &JobContext) -> Result<Recovered, WatchError> {
    let mut recovered = Recovered::default();
    for object in job.storage.list(layout::SEGMENTS).await? {
        if !layout::is_segment(&object.key) {
            continue;
        }
        let index = match read_index(&*job.storage, &object).await {
            Ok(index) => index,
            Err(error @ SegmentError::Damaged { .. }) => {
                recovered.damaged.push(error.to_string());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let succeeded = index.tries.iter().filter(|record| record.status == TryStatus::RunDone);
        let entries: Vec<_> = succeeded
            .clone()
            .map(|record| Entry {
                index: record.index,
                succeeded: true,
                items: record.items,
                items_succeeded: record.succeeded,
            })
            .collect();
        job.ledger.commit(&job.id, &object.key, object.size, &entries).await?;
        for record in succeeded {
            let at = record.index as usize;
            if at >= recovered.known.len() {
                recovered.known.resize(at + 1, 0);
            }
            if recovered.known[at] == 0 {
                recovered.succeeded += 1;
                // 0 stands for "not known"; a checksum of 0 is too rare to matter and only costs a second run,
                // whose outcome loses against the first.
                recovered.known[at] = record.checksum;
            }
        }
    }
    Ok(recovered)
}
