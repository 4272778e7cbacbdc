//! Suspects: mini-batches that were delivered before, and may be what killed the node that had them.
//!
//! A first delivery costs no call to the ledger. One that comes again is looked up by the intake (it may be done),
//! and here its start is noted before it runs, alone in its process. A start that brings no end counts as the loss
//! of a node, so a mini-batch that kills every node runs out of them, while those that only lay beside it are not
//! blamed. Of two that ran side by side both are, once: from then on each of them runs with no other suspect on its
//! node. What goes back in order takes its start back.

use std::time::Duration;

use prs_common::ledger::Begin;
use prs_orchestrator::JobContext;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;
use tokio_util::sync::CancellationToken;

use crate::commit::outcome::{Ended, Outcome, Ready};

/// Pause after the ledger did not answer.
const PAUSE: Duration = Duration::from_millis(300);

/// What is asked about a suspect.
#[derive(Debug)]
pub(crate) enum Ask {
    /// May it run?
    Begin(Ready),
    /// It will not run here; another node may have it.
    GiveBack(Ready),
}

/// Asks the ledger about the suspects of a node, and gives back what does not run.
pub(crate) struct Suspects {
    pub(crate) job: JobContext,
    /// Begins the names of starts; unique among all nodes.
    pub(crate) prefix: String,
    /// Those that may run, and nothing for one that need not: this task writes, the dispatcher reads.
    pub(crate) cleared_tx: mpsc::UnboundedSender<Option<Ready>>,
    /// Those that no node survives: this task writes, the committer reads.
    pub(crate) outcomes_tx: mpsc::UnboundedSender<Outcome>,
    /// Begin nothing more.
    pub(crate) stop: CancellationToken,
}

impl Suspects {
    /// Answers until the dispatcher asks no more.
    pub(crate) async fn run(self, mut asks_rx: mpsc::UnboundedReceiver<Ask>) {
        let mut starts: u64 = 0;
        while let Some(ask) = asks_rx.recv().await {
            match ask {
                Ask::Begin(ready) => {
                    starts += 1;
                    let cleared = self.begin(ready, starts).await;
                    // The dispatcher is gone when the node has ended meanwhile.
                    if let Err(SendError(Some(ready))) = self.cleared_tx.send(cleared) {
                        self.give_back(ready).await;
                    }
                }
                Ask::GiveBack(ready) => self.give_back(ready).await,
            }
        }
    }

    async fn begin(&self, mut ready: Ready, number: u64) -> Option<Ready> {
        let start = format!("{}-{number}", self.prefix);
        loop {
            match self.job.ledger.begin(ready.index, &start).await {
                Ok(Begin::Run { failed_tries, node_losses }) => {
                    (ready.failed_tries, ready.node_losses) = (failed_tries, node_losses);
                    ready.start = Some(start);
                    return Some(ready);
                }
                Ok(Begin::Done) => {
                    let _ = ready.delivery.ack();
                    return None;
                }
                Ok(Begin::GiveUp) => {
                    let _ = self.outcomes_tx.send(Outcome { ready, ended: Ended::NodesLost });
                    return None;
                }
                Err(error) => tracing::warn!(%error, "a mini-batch waits: the ledger does not answer"),
            }
            if self.stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                // The ledger may have noted it all the same.
                ready.start = Some(start);
                self.give_back(ready).await;
                return None;
            }
        }
    }

    async fn give_back(&self, ready: Ready) {
        if let Some(start) = &ready.start
            && let Err(error) = self.job.ledger.abandon(ready.index, start).await
        {
            tracing::warn!(index = ready.index, %error, "a mini-batch that goes back counts as a lost node");
        }
        if let Err(error) = ready.delivery.requeue() {
            tracing::debug!(index = ready.index, %error, "the broker gives a mini-batch to others by itself");
        }
    }
}
