//! A mini-batch between its delivery and its commit: ready to run, then tried, and what the reports will say of it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex};
use prs_common::queue::Delivery;
use prs_common::segment::{ErrorDetail, ProcessRef, TryRecord, TryStatus};
use prs_common::timestamp::now_us;
use prs_common::tree::OpenFolder;
use prs_orchestrator::JobContext;

use super::splitting::Splitting;
use crate::inputs::Pin;

/// A mini-batch that may run.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Where it came from; settled when its outcome is committed.
    pub(crate) delivery: Delivery,
    /// Which one it is.
    pub(crate) index: MiniBatchIndex,
    /// Tries that failed before.
    pub(crate) failed_tries: u32,
    /// Its descriptor, as the planner wrote it.
    pub(crate) planned: Bytes,
    /// The same for a process: everything it names is on this host.
    pub(crate) local: Bytes,
    /// Keeps its data on this host.
    pub(crate) pin: Pin,
    /// What the ledger calls its start; only one that was delivered before has it, see `suspects`.
    pub(crate) start: Option<String>,
    /// Numbers of the processes of this node that it failed in, the last one at the end.
    pub(crate) failed_in: Vec<u32>,
    /// Nodes that were lost with it, as far as its start told.
    pub(crate) node_losses: u32,
    /// How far it is split; absent where all of it runs.
    pub(crate) splitting: Option<Box<Splitting>>,
    /// Whether it is a second run beside another one, without a message in the queue; see `intake::copies`.
    pub(crate) is_copy: bool,
    /// Counts it among those in hand.
    pub(crate) _held: Held,
}

impl Ready {
    /// Whether it was delivered before, and may be what killed the node that had it.
    pub(crate) fn is_suspect(&self) -> bool {
        self.delivery.redelivered
    }

    /// The items that its next try runs, where it is split.
    pub(crate) fn part(&self) -> Option<Range<u64>> {
        self.splitting.as_ref().map(|splitting| splitting.present())
    }

    /// Whether its next try is for a process that is not in doubt; one of the whole mini-batch is by its number.
    pub(crate) fn is_careful(&self) -> bool {
        self.splitting.as_ref().is_some_and(|splitting| splitting.is_careful())
    }

    /// Number of the process of this node that it failed in last.
    pub(crate) fn last_process(&self) -> u32 {
        self.failed_in.last().copied().unwrap_or_default()
    }

    /// Items of its next try, as far as they are known before.
    pub(crate) fn items(&self) -> u64 {
        let planned = || MiniBatch::decode(&self.planned).map_or(0, |mini_batch| mini_batch.items());
        self.part().map_or_else(planned, |part| part.end - part.start)
    }

    /// Gives it back to the queue, unbegun.
    pub(crate) async fn give_back(self, job: &JobContext) {
        if let Some(start) = &self.start
            && let Err(error) = job.ledger.abandon(self.index, start).await
        {
            tracing::warn!(index = self.index, %error, "a mini-batch that goes back counts as a lost node");
        }
        if let Err(error) = self.delivery.requeue() {
            tracing::debug!(index = self.index, %error, "the broker gives a mini-batch to others by itself");
        }
    }
}

/// Counts the mini-batches that a node has in hand.
#[derive(Debug, Clone, Default)]
pub(crate) struct InHand(Arc<AtomicU64>);

impl InHand {
    /// One more, until the guard is dropped.
    pub(crate) fn hold(&self) -> Held {
        self.0.fetch_add(1, Ordering::Relaxed);
        Held(self.clone())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One mini-batch in hand.
#[derive(Debug)]
pub(crate) struct Held(InHand);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A mini-batch whose try has ended, on its way to its commit.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The mini-batch.
    pub(crate) ready: Ready,
    /// How it ended.
    pub(crate) ended: Ended,
}

impl Outcome {
    /// Whether the try succeeded, all items or some.
    pub(crate) fn has_succeeded(&self) -> bool {
        matches!(&self.ended, Ended::Tried(tried) if tried.record.status == TryStatus::RunDone)
    }
}

/// How a try ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It succeeded, or failed by the user's code.
    Tried(Box<Tried>),
    /// It ran on too many nodes that were lost.
    NodesLost,
}

/// A try that ran.
#[derive(Debug)]
pub(crate) struct Tried {
    /// What the report says of it; `number`, `last` and `files` are filled in by the committer.
    pub(crate) record: TryRecord,
    /// The process that ran it.
    pub(crate) process: Arc<ProcessRef>,
    /// Position in the life of the process.
    pub(crate) seq: u32,
    /// Its rows.
    pub(crate) rows: Bytes,
    /// Files it wrote, `/`-separated, below the folder `seq` of `staging`.
    pub(crate) files: Vec<String>,
    /// Where the process stages files.
    pub(crate) staging: Arc<OpenFolder>,
    /// What more is known of its error, or of items that are missing.
    pub(crate) error: Option<Box<ErrorDetail>>,
}

impl Tried {
    /// Whether no server needs to be asked before it is committed.
    pub(crate) fn is_prepared(&self) -> bool {
        self.record.status == TryStatus::RunDone && self.files.is_empty()
    }
}

/// The record of a mini-batch that no node survives.
pub(crate) fn nodes_lost(ready: &Ready) -> TryRecord {
    TryRecord {
        number: ready.failed_tries + 1,
        started_us: now_us(),
        items: ready.items(),
        category: "NodeLost".to_owned(),
        message: "the node was lost each time it ran this mini-batch, as often as allowed".to_owned(),
        ..TryRecord::new(ready.index, &ready.planned, TryStatus::NodeLost)
    }
}
