//! Taking a ticket: one at a time, from whichever target has one first.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use prs_common::queue::{Deliveries, Delivery, QueueErrorKind};
use prs_orchestrator::Fleet;
use prs_orchestrator::queues::ticket_queue;

use crate::silence::Silence;

/// Pause before the ticket queue is consumed again.
const PAUSE: Duration = Duration::from_millis(300);

/// Between two thoughts about whether a ticket should have come.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The ticket queues of a worker.
pub(super) struct Tickets<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) targets: &'a [String],
}

/// A ticket in hand.
pub(super) struct Taken {
    /// The ticket, to be answered for when the job was served.
    pub(super) delivery: Delivery,
    /// The target it was for.
    pub(super) target: String,
    /// Keeps the ticket from others.
    pub(super) deliveries: Box<dyn Deliveries>,
}

impl Tickets<'_> {
    /// Waits for a ticket, as long as that takes. The consumers of the other targets are given up: what came to them
    /// meanwhile goes back.
    pub(super) async fn next(&self) -> Taken {
        let mut waiting: FuturesUnordered<_> = self.targets.iter().map(|target| self.take(target)).collect();
        loop {
            if let Some(taken) = waiting.next().await {
                return taken;
            }
            // A worker without a target would wait for ever; its command line does not allow that.
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn take(&self, target: &str) -> Taken {
        let name = ticket_queue(target);
        let mut told = false;
        loop {
            let queue = &self.fleet.queue;
            match queue.consume(&name, 1).await {
                Ok(mut deliveries) => {
                    let mut silence = Silence::default();
                    loop {
                        let taken = tokio::time::timeout(LOOK_INTERVAL, deliveries.next(1)).await;
                        match taken.map(|mut taken| taken.pop()) {
                            Ok(Some(delivery)) => {
                                return Taken { delivery, target: target.to_owned(), deliveries };
                            }
                            Ok(None) => break,
                            Err(_) if silence.shows_that_it_is_forgotten(&**queue, &name).await => break,
                            Err(_) => {}
                        }
                    }
                    tracing::info!(target, "the tickets are consumed anew");
                }
                // Whoever hands in the first job makes the queue. A crowd of workers that made it at the same time could
                // leave some brokers with a queue that does not deliver for minutes.
                Err(error) if error.kind == QueueErrorKind::NotFound => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::info!(
                            target,
                            "no job was ever handed in for this target; waiting for the first"
                        );
                    }
                }
                Err(error) => tracing::warn!(%error, "no ticket can be taken; trying again"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
