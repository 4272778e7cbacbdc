//! Copies: second runs of mini-batches that take much longer than others, while processes are idle.
//!
//! The orchestrator says in the ledger of which mini-batches one is wanted. The node that runs such a mini-batch offers its
//! descriptor there, and a node with an idle process takes it: another one, where there is any. A copy has no message
//! in the queue, so nothing is given back, delivered again or blamed because of it. Of the two, the first commit
//! wins; both nodes ask whether the mini-batch has its outcome, and stop what they still run of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::ledger::{LedgerError, OfferedCopy, OpenCopy};
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex};
use prs_common::queue::Delivery;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::Intake;
use crate::commit::outcome::Ready;
use crate::dispatcher::copies::{CopyNews, Standing};

/// Between two looks. Nodes that have neither an idle process nor a mini-batch that runs long ask nothing.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long other nodes have for a copy, before the node that offers it runs it itself.
const OTHERS_FIRST: Duration = Duration::from_secs(2);
/// How long a copy that another node offers is left alone: what waits there behind the mini-batch goes back to the queue when
/// it is offered, and comes first. A copy may take as long as the run that it is a copy of. A bit less than [`INTERVAL`].
const WAITING_FIRST: Duration = Duration::from_millis(400);

/// Offers, takes and compares the copies of one node.
pub(crate) struct Copies {
    pub(crate) intake: Arc<Intake>,
    /// Name of the node's worker.
    pub(crate) worker: String,
    /// Where the node stands: the dispatcher writes, this task reads.
    pub(crate) standing_rx: watch::Receiver<Standing>,
    /// What is to be done because of copies: this task writes, the dispatcher reads.
    pub(crate) copy_news_tx: mpsc::UnboundedSender<CopyNews>,
}

/// What the task remembers between two looks.
#[derive(Default)]
struct Memory {
    /// When the node offered copies of what it runs.
    offered: BTreeMap<MiniBatchIndex, Instant>,
    /// Since when the node has seen that a copy is offered.
    seen: BTreeMap<MiniBatchIndex, Instant>,
    /// Copies that were taken, on their way to the dispatcher.
    fetching: Vec<JoinHandle<()>>,
}

impl Copies {
    /// Looks until the node takes nothing more.
    pub(crate) async fn run(self) {
        let stop = self.intake.end.stop.clone();
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut memory = Memory::default();
        loop {
            let looked = async {
                ticks.tick().await;
                self.look(&mut memory).await
            };
            match stop.run_until_cancelled(looked).await {
                None => return,
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "copies of mini-batches wait: the ledger does not answer");
                }
            }
        }
    }

    async fn look(&self, memory: &mut Memory) -> Result<(), LedgerError> {
        let ledger = &self.intake.job.ledger;
        let standing = self.standing_rx.borrow().clone();
        let long = || standing.long.iter().map(|one| one.index);
        memory.offered.retain(|index, _| long().any(|one| one == *index));
        let twice: Vec<_> = standing.copies.iter().copied().chain(memory.offered.keys().copied()).collect();
        if !twice.is_empty() {
            let ended = ledger.ended(&twice).await?;
            for (index, _) in twice.into_iter().zip(ended).filter(|(_, ended)| *ended) {
                // The dispatcher is gone when the node has ended meanwhile.
                let _ = self.copy_news_tx.send(CopyNews::Superseded(index));
            }
        }
        memory.fetching.retain(|fetching| !fetching.is_finished());
        let mut free = standing.free.saturating_sub(memory.fetching.len());
        if free == 0 && standing.long.is_empty() {
            return Ok(());
        }
        let open = ledger.open_copies().await?;
        memory.seen.retain(|index, _| open.iter().any(|one| one.index == *index && one.offered_by.is_some()));
        for OpenCopy { index, mut offered_by } in open {
            if offered_by.is_none()
                && let Some(one) = standing.long.iter().find(|one| one.index == index)
            {
                let copy =
                    OfferedCopy { failed_tries: one.failed_tries, descriptor: one.descriptor.to_vec() };
                ledger.offer_copy(index, &self.worker, &copy).await?;
                memory.offered.insert(index, Instant::now());
                offered_by = Some(self.worker.clone());
            }
            let Some(worker) = offered_by else { continue };
            let seen = memory.seen.entry(index).or_insert_with(Instant::now).elapsed();
            if free > 0
                && self.may_take(&worker, memory.offered.get(&index), seen)
                && let Some(copy) = ledger.take_copy(index, &self.worker).await?
            {
                free -= 1;
                let intake = Arc::clone(&self.intake);
                memory.fetching.push(self.intake.tasks.spawn(intake.take_in_copy(index, copy)));
            }
        }
        if !memory.offered.is_empty() {
            let _ = self.copy_news_tx.send(CopyNews::Offered);
        }
        Ok(())
    }

    fn may_take(&self, worker: &str, offered_at: Option<&Instant>, seen: Duration) -> bool {
        let has_others = self.intake.job.policy.has_others;
        may_take(worker == self.worker, has_others, offered_at.map(Instant::elapsed), seen)
    }
}

/// Whether a copy that this node offered so long ago, and has seen offered for so long, may run here: one of its own only
/// where no other takes it. When an own one was offered is not known after the node has begun anew.
fn may_take(is_own: bool, has_others: bool, offered: Option<Duration>, seen: Duration) -> bool {
    if is_own {
        !has_others || offered.is_none_or(|offered| offered >= OTHERS_FIRST)
    } else {
        seen >= WAITING_FIRST
    }
}

impl Intake {
    /// Makes a copy ready to run.
    async fn take_in_copy(self: Arc<Self>, index: MiniBatchIndex, copy: OfferedCopy) {
        let OfferedCopy { failed_tries, descriptor } = copy;
        let descriptor = Bytes::from(descriptor);
        match self.index_of(&descriptor).await {
            Some(Ok(named)) if named == index => {}
            Some(named) => {
                tracing::error!(index, ?named, "a copy that is not of its mini-batch is not run");
                return;
            }
            None => return,
        }
        let is_local = MiniBatch::is_local(&descriptor);
        let ready = self.ready(Delivery::without_message(descriptor), index);
        let ready = Ready { failed_tries, is_copy: true, ..ready };
        if is_local {
            // A node that has ended takes nothing more.
            let _ = self.ready_tx.send(vec![ready]).await;
        } else {
            self.bring(ready).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_leaves_its_own_copy_to_others_and_theirs_to_what_waits() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let (now, soon) = (Duration::ZERO, WAITING_FIRST);
        for (is_own, has_others, offered, seen, takes) in [
            (false, true, None, now, false),
            (false, true, None, soon, true),
            (false, true, seconds(0), soon, true),
            (true, true, seconds(0), soon, false),
            (true, true, seconds(2), soon, true),
            (true, true, None, now, true),
            (true, false, seconds(0), now, true),
        ] {
            let may = may_take(is_own, has_others, offered, seen);
            assert_eq!(may, takes, "{is_own} {has_others} {offered:?} {seen:?}");
        }
    }
}
