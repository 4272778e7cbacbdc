//! Suspects: mini-batches that were delivered before, and may be what killed the node that had them.
//!
//! A first delivery costs no call to the ledger. One that comes again is looked up by the intake (it may be done),
//! and here its start is noted before it runs, alone in its process. A start that brings no end counts as the loss
//! of a node, so a mini-batch that kills every node runs out of them, while those that only lay beside it are not
//! blamed. Of two that ran side by side both are, once: from then on each of them runs with no other suspect on its
//! node. What goes back in order takes its start back.
//!
//! A mini-batch that failed here is a suspect, too: its next try begins as that of any other, and runs alone. One that
//! the queue brings back learns from the names of its tries in which processes it failed.

use std::time::Duration;

use prs_common::ledger::{Begin, Heard, LedgerError, NotedTries};
use prs_orchestrator::JobContext;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::commit::next_try::{Failed, NextTry};
use crate::commit::outcome::{Ended, Outcome, Ready};
use crate::process::launch::process_number;

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

/// The decision about a suspect.
enum Settled {
    /// It runs here.
    Run,
    /// It has its outcome.
    Done,
    /// No node survives it.
    NodesLost,
    /// Another node may run it.
    PassedOn,
}

/// Numbers of the processes of `service` that failed a mini-batch, by the names of its tries.
fn failed_in(service: &str, noted: &NotedTries) -> Vec<u32> {
    let process = |id: &String| process_number(id.strip_prefix(service)?.rsplit_once('-')?.0);
    let mut failed_in: Vec<u32> = noted.failed.iter().filter_map(process).collect();
    failed_in.sort_unstable();
    failed_in
}

/// Asks the ledger about the suspects of a node, and gives back what does not run.
pub(crate) struct Suspects {
    pub(crate) job: JobContext,
    /// Prefix of the names of starts and the ids of tries of this service; unique among all services of nodes.
    pub(crate) service: String,
    /// How the job stands: the heartbeat writes, this task reads.
    pub(crate) heard_rx: watch::Receiver<Heard>,
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
                        ready.give_back(&self.job).await;
                    }
                }
                Ask::GiveBack(ready) => ready.give_back(&self.job).await,
            }
        }
    }

    async fn begin(&self, mut ready: Ready, number: u64) -> Option<Ready> {
        let start = format!("{}{number}", self.service);
        loop {
            match self.settle(&mut ready, &start).await {
                Ok(Settled::Run) => {
                    ready.start = Some(start);
                    return Some(ready);
                }
                Ok(Settled::Done) => {
                    let _ = ready.delivery.ack();
                    return None;
                }
                Ok(Settled::NodesLost) => {
                    let _ = self.outcomes_tx.send(Outcome { ready, ended: Ended::NodesLost });
                    return None;
                }
                Ok(Settled::PassedOn) => {
                    ready.give_back(&self.job).await;
                    return None;
                }
                Err(error) => tracing::warn!(%error, "a mini-batch waits: the ledger does not answer"),
            }
            if self.stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                // The ledger may have noted it all the same.
                ready.start = Some(start);
                ready.give_back(&self.job).await;
                return None;
            }
        }
    }

    /// Notes the start of a suspect, unless it is not to run here. May be repeated.
    async fn settle(&self, ready: &mut Ready, start: &str) -> Result<Settled, LedgerError> {
        (ready.failed_tries, ready.node_losses) = match self.job.ledger.begin(ready.index, start).await? {
            Begin::Run { failed_tries, node_losses } => (failed_tries, node_losses),
            Begin::Done => return Ok(Settled::Done),
            Begin::GiveUp => return Ok(Settled::NodesLost),
        };
        if ready.failed_tries == 0 || !ready.failed_in.is_empty() {
            return Ok(Settled::Run);
        }
        let noted = self.job.ledger.noted_tries(ready.index).await?;
        let failed = Failed {
            tries: ready.failed_tries,
            run_max_try: self.job.spec.run_max_try,
            live_nodes: self.heard_rx.borrow().live_nodes,
        };
        if failed.next_at(&self.service, &noted) == NextTry::AnyNode {
            self.job.ledger.pass_on(ready.index, start, &self.service).await?;
            return Ok(Settled::PassedOn);
        }
        ready.failed_in = failed_in(&self.service, &noted);
        Ok(Settled::Run)
    }
}

#[cfg(test)]
mod tests {
    use prs_common::layout;

    use super::*;
    use crate::process::launch::process_name;

    #[test]
    fn tries_tell_the_processes_that_they_failed_in() {
        let (here, other) = (layout::writer(1, 7, "a1"), layout::writer(1, 7, "a2"));
        let id = |service: &str, process, seq| format!("{service}{}-{seq}", process_name(process));
        let failed = vec![
            id(&here, 12, 3),
            id(&other, 5, 1),
            id(&here, 1_000, 40),
            "strange".to_owned(),
            here.clone(),
        ];
        let noted = NotedTries { failed, passed_on_by: Vec::new() };
        assert_eq!(failed_in(&here, &noted), [12, 1_000]);
        assert_eq!(failed_in(&other, &noted), [5]);
    }
}
