//! Recovery: brings the ledger of a job up to what its segments say.
//!
//! Used by `resume`, and by everyone who begins to watch over a job or finds it stalled: a ledger that was lost is
//! rebuilt, one that lost its last moments is completed, and segments whose writer died before their commit are
//! used. Outcomes of mini-batches that succeeded with all their items count, whichever incarnation brought them; others
//! only those of the present one, for what failed or lacked items before is open again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt;
use prs_common::file_content::Contents as FileContents;
use prs_common::ledger::{Blame, FailedTry, MiniBatchOutcome};
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::{ReadIndex, SegmentIndex, TryRecord, TryStatus};
use prs_common::storage::ObjectMeta;

use super::{Contents, read_all, read_segment};
use crate::JobContext;
use crate::job::ServerError;
use crate::job::corrected_plan::PlanOrder;
use crate::plan::schedule::KnownChecksums;
use crate::segments::bundles::{self, GROUP};

/// Committed segments asked for at a time.
const LISTED_AT_ONCE: usize = 4_096;
/// Mini-batches that may wait or be in hand beyond those that have ended: the backlog of the scheduler, and the most that
/// five hundred nodes take.
const OPEN: u64 = 1 << 20;
/// Bytes of a segment for each of its outcomes, at least.
const LEAST_OUTCOME: u64 = 64;

/// What the segments of a job tell.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Checksums of the descriptors of mini-batches that have their outcome.
    pub known: KnownChecksums,
    /// An index that is larger than that of any mini-batch with a try.
    pub end: MiniBatchIndex,
    /// Contents of the local files that these had.
    pub contents: BTreeMap<MiniBatchIndex, Box<FileContents>>,
    /// Mini-batches that had no outcome before.
    pub ended: u64,
    /// Segments that could not be read; their mini-batches run again.
    pub damaged: Vec<String>,
}

/// Commits the segments of `job` that its ledger does not know.
pub async fn recover(job: &JobContext) -> Result<Recovered, ServerError> {
    let mut committed = HashSet::new();
    loop {
        let listed = job.ledger.segments(committed.len() as u64, LISTED_AT_ONCE).await?;
        let is_last = listed.len() < LISTED_AT_ONCE;
        committed.extend(listed.into_iter().map(|segment| segment.key));
        if is_last {
            break;
        }
    }
    let unknown = super::list(&*job.storage).await?.into_iter().filter(|one| !committed.contains(&one.key));
    let mut unknown: BTreeMap<_, _> = unknown.map(|object| (object.key.clone(), object)).collect();
    let progress = job.ledger.progress().await?;
    let order = job.order().await?;
    let end = order.as_ref().map_or(0, |order| order.end());
    let mut recovery = Recovery {
        job,
        published: progress.checkpoint.scheduled.max(progress.ended()).max(end),
        order,
        far: Vec::new(),
        recovered: Recovered::default(),
    };
    if unknown.len() as u64 >= GROUP {
        let mut bundles = std::pin::pin!(bundles::all(&job.storage).await?);
        while let Some(bundle) = bundles.next().await {
            for bundled in bundle.segments {
                let Some(object) = unknown.get(&bundled.key) else { continue };
                if object.size == bundled.size
                    && let Some(read) = bundled.read()
                    && let Some(object) = unknown.remove(&read.index.key)
                {
                    recovery.take_in(object, Ok(read)).await?;
                }
            }
        }
    }
    let mut read = std::pin::pin!(read_all(&job.storage, unknown.into_values()));
    while let Some(read) = read.next().await {
        let (object, contents) = read?;
        recovery.take_in(object, contents).await?;
    }
    recovery.end().await
}

/// A recovery under way.
struct Recovery<'a> {
    job: &'a JobContext,
    /// So many mini-batches have been published, or more, as what was run of the plan tells. It bounds what an index costs
    /// that no plan has.
    published: u64,
    /// Where the plan is one of corrected inputs, which of the indexes of former starts it has still.
    order: Option<Arc<PlanOrder>>,
    /// Segments that name mini-batches farther than the plan is known to have come, by how far.
    far: Vec<(MiniBatchIndex, ObjectMeta)>,
    recovered: Recovered,
}

impl Recovery<'_> {
    async fn take_in(&mut self, object: ObjectMeta, contents: Contents) -> Result<(), ServerError> {
        match contents {
            Ok(ReadIndex { index, .. }) if self.covers(&index) => self.commit(&object, &index).await?,
            // Others may show that the plan has come so far.
            Ok(read) => self.far.push((highest(&read.index), object)),
            Err(reason) => {
                self.published += object.size / LEAST_OUTCOME;
                self.recovered.damaged.push(reason);
            }
        }
        Ok(())
    }

    /// Whether the plan can have come as far as a segment says.
    fn covers(&self, index: &SegmentIndex) -> bool {
        highest(index) < self.published.saturating_add(OPEN)
    }

    /// Enters one segment into the ledger.
    async fn commit(&mut self, object: &ObjectMeta, index: &SegmentIndex) -> Result<(), ServerError> {
        let (job, recovered) = (self.job, &mut self.recovered);
        let current = index.incarnation == job.incarnation;
        let (mut failed_tries, mut ended) = (Vec::new(), Vec::new());
        recovered.end = recovered.end.max(highest(index) + 1);
        let is_planned = |record: &TryRecord| {
            self.order.as_ref().is_none_or(|order| order.position(record.index).is_some())
        };
        for record in index.tries.iter().filter(|record| is_planned(record)) {
            if record.is_outcome(current) {
                ended.push(record);
            } else if current && !record.id.is_empty() {
                let blame = if record.status == TryStatus::NodeLost { Blame::Node } else { Blame::Code };
                failed_tries.push(FailedTry { index: record.index, id: record.id.clone(), blame });
            }
        }
        for failed in &failed_tries {
            job.ledger.record_failure(failed).await?;
        }
        let entries: Vec<MiniBatchOutcome> = ended.iter().map(|record| entry(record)).collect();
        let duplicates = job.ledger.commit(&object.key, object.size, &entries).await?;
        recovered.ended += entries.len().saturating_sub(duplicates.len()) as u64;
        for record in ended {
            let at = record.index as usize;
            if at >= recovered.known.len() {
                recovered.known.resize(at + 1, 0);
            }
            // 0 stands for "not known"; a checksum of 0 is too rare to matter and only costs a second run, whose outcome
            // loses against the first.
            if recovered.known[at] == 0 {
                recovered.known[at] = record.checksum;
                recovered.contents.extend(record.contents.clone().map(|contents| (record.index, contents)));
            }
        }
        self.published += index.tries.iter().filter(|record| record.last).count() as u64;
        Ok(())
    }

    async fn end(mut self) -> Result<Recovered, ServerError> {
        self.far.sort_unstable_by_key(|(highest, _)| *highest);
        for (highest, object) in std::mem::take(&mut self.far) {
            let contents = read_segment(&*self.job.storage, &object).await?;
            if contents.as_ref().is_ok_and(|read| !self.covers(&read.index)) {
                self.recovered.damaged.push(format!(
                    "{} is damaged: it names mini-batch {highest}, and the plan cannot have come so far",
                    object.key
                ));
            } else {
                self.take_in(object, contents).await?;
            }
        }
        Ok(self.recovered)
    }
}

/// The highest index in a segment.
fn highest(index: &SegmentIndex) -> MiniBatchIndex {
    index.tries.iter().map(|record| record.index).max().unwrap_or(0)
}

/// The outcome of a mini-batch, as its record tells it.
pub fn entry(record: &TryRecord) -> MiniBatchOutcome {
    MiniBatchOutcome {
        index: record.index,
        succeeded: record.status == TryStatus::RunDone,
        items: record.items,
        items_succeeded: record.succeeded,
    }
}

#[cfg(test)]
mod tests {
    use prs_common::layout;
    use prs_common::segment::{Bundle, Bundled, read_index};
    use prs_common::storage::{PutMode, Storage};

    use super::*;
    use crate::fixtures::Fixture;

    #[tokio::test]
    async fn only_outcomes_that_were_missing_count() {
        let mut fixture = Fixture::new(6).await;
        fixture.succeed(0..3).await;
        fixture.store(1..5).await;
        fixture.store([4, 5]).await;
        let recovered = recover(&fixture.job).await.unwrap();
        assert_eq!(recovered.ended, 3);
        assert_eq!(recovered.known.iter().filter(|checksum| **checksum != 0).count(), 5);
        assert_eq!(fixture.job.ledger.progress().await.unwrap().succeeded, 6);
        assert_eq!(recover(&fixture.job).await.unwrap().ended, 0);
    }

    #[tokio::test]
    async fn a_ledger_that_was_lost_is_filled_from_bundles() {
        let mut fixture = Fixture::new(1).await;
        let mut bundled = Vec::new();
        for index in 0..GROUP + 3 {
            let (key, size, _) = fixture.store([index]).await;
            let object = ObjectMeta { key: key.clone(), size, ..ObjectMeta::default() };
            let encoded = read_index(&*fixture.storage, &object).await.unwrap().encoded;
            bundled.push(Bundled { key, size, encoded });
        }
        bundled.truncate(GROUP as usize);
        // One is of a segment that storage has otherwise.
        bundled[7].size += 1;
        let bundle = Bundle { segments: bundled }.encode();
        // One of a former start serves as well.
        fixture.storage.put(&layout::bundle(3, 512), bundle.into(), PutMode::Overwrite).await.unwrap();
        let before = fixture.storage.calls("get");
        assert_eq!(recover(&fixture.job).await.unwrap().ended, GROUP + 3);
        assert_eq!(fixture.storage.calls("get") - before, 1 + 3 + 1);
    }

    #[tokio::test]
    async fn an_index_that_no_plan_can_have_costs_nothing_and_is_told() {
        let mut fixture = Fixture::new(3).await;
        fixture.store([0, 1]).await;
        // The highest that is possible, and then one of a plan that has come that far.
        fixture.store([OPEN + 1]).await;
        fixture.store([2 * OPEN + 4]).await;
        fixture.store([u64::from(u32::MAX)]).await;
        let recovered = recover(&fixture.job).await.unwrap();
        assert_eq!(recovered.ended, 3);
        assert_eq!(recovered.known.len() as u64, OPEN + 2);
        assert_eq!(recovered.damaged.len(), 2);
        assert!(recovered.damaged[1].contains("names mini-batch 4294967295"), "{:?}", recovered.damaged);
    }
}
