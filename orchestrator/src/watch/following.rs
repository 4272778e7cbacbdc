//! Following what is committed: reads the segments that the ledger names, each once and in its order.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use prs_common::ledger::CommittedSegment;
use prs_common::storage::StorageError;

use super::{Watch, WatchError};
use crate::segments::bundles::GROUP;
use crate::segments::{Contents, damage};

/// Bundles whose segments are asked for at a time.
const BUNDLES_AT_ONCE: u64 = 4;
/// How long one look reads segments: cancelling and thresholds end a job within 2 s (spec S7, S13).
const READING: Duration = Duration::from_millis(500);

impl Watch<'_> {
    /// Reads all segments that were committed.
    pub(super) async fn follow_all(&mut self, committed: u64) -> Result<(), WatchError> {
        loop {
            self.follow(committed).await?;
            // It may have come further: nodes go on committing.
            if self.memory.followed >= committed {
                return Ok(());
            }
        }
    }

    /// The same for the last reports of a job whose end is decided: what is damaged is left out of them.
    pub(super) async fn follow_what_is_whole(&mut self, committed: u64) -> Result<(), WatchError> {
        loop {
            match self.follow(committed).await {
                Err(WatchError::Damaged(_)) => {}
                followed => followed?,
            }
            if self.memory.followed >= committed {
                break;
            }
        }
        if let Some(catalog) = self.catalog.as_deref().filter(|catalog| !catalog.damaged.is_empty()) {
            let damaged = damage::describe(&catalog.damaged);
            self.journal.error(format_args!("the reports lack what is {damaged}"));
        }
        Ok(())
    }

    /// Reads segments that were committed since the last look, for a while. All that are read are, before one that is
    /// damaged is an error.
    pub(super) async fn follow(&mut self, committed: u64) -> Result<(), WatchError> {
        let until = Instant::now() + READING;
        if committed < self.memory.followed {
            return Err(WatchError::LedgerLost);
        }
        while self.memory.followed < committed && Instant::now() < until {
            let segments = self.next_segments().await?;
            if segments.is_empty() {
                return Err(WatchError::LedgerLost);
            }
            let read = self.bundles.read(self.memory.followed, segments, until).await?;
            let mut read = std::pin::pin!(read);
            while let Some((segment, index)) = read.next().await {
                self.take_in(segment, index).await?;
            }
        }
        match &self.catalog {
            Some(catalog) if !catalog.damaged.is_empty() => Err(WatchError::Damaged(catalog.damaged.clone())),
            _ => Ok(()),
        }
    }

    async fn take_in(
        &mut self,
        segment: CommittedSegment,
        read: Result<Contents, StorageError>,
    ) -> Result<(), WatchError> {
        let position = self.memory.followed;
        let key = segment.key.as_str().into();
        let contents = read?;
        let Some(mut catalog) = self.catalog.take() else { return Ok(()) };
        match contents {
            Ok(read) => {
                self.bundles.add(position, &segment, &read);
                catalog = catalog.take_in(segment, read.index).await;
            }
            // It counts as read, and nothing in it does.
            Err(reason) => {
                self.bundles.discard();
                catalog.add_damaged(segment, reason);
            }
        }
        self.catalog = Some(catalog);
        self.memory.followed = position + 1;
        self.last_followed = Some(key);
        Ok(())
    }

    /// Committed segments that were not followed yet. The last one that was must still be where it was: a ledger
    /// that lost its end, and went on, would give other segments its place.
    async fn next_segments(&self) -> Result<Vec<CommittedSegment>, WatchError> {
        let (job, first) = (self.job, self.memory.followed);
        let limit = (BUNDLES_AT_ONCE * GROUP - first % GROUP) as usize;
        let Some(last) = &self.last_followed else {
            return Ok(job.ledger.segments(first, limit).await?);
        };
        let mut segments = job.ledger.segments(first - 1, limit + 1).await?;
        if segments.first().is_none_or(|segment| *segment.key != **last) {
            return Err(WatchError::LedgerLost);
        }
        segments.remove(0);
        Ok(segments)
    }
}
