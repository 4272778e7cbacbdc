//! Intake: takes deliveries from the job's queue and makes them ready to run.
//!
//! A first delivery costs no look-up. One that was delivered before is looked up in the ledger: it may be done
//! already, and its start is noted before it runs, so that only what really ran when a node died is blamed.

use std::time::Duration;

use prs_common::ledger::Begin;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex};
use prs_common::queue::{Answer, Delivery};
use prs_orchestrator::JobContext;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::committer::{Settle, Settlement};

/// Deliveries taken at a time.
const AT_ONCE: usize = 512;
/// Pause before consuming again after the queue was lost.
const RECONSUME_PAUSE: Duration = Duration::from_millis(500);

/// A mini-batch that may run.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Where it came from; settled when its outcome is committed.
    pub(crate) delivery: Delivery,
    /// Which one it is.
    pub(crate) index: MiniBatchIndex,
    /// Tries that were spoiled before.
    pub(crate) spoiled: u32,
}

/// When the intake ends: first it takes nothing more, then it lets go of what it took.
#[derive(Debug, Clone, Default)]
pub(crate) struct IntakeEnd {
    /// Take nothing more.
    pub(crate) stop: CancellationToken,
    /// Everything is settled; what is not goes back with the consumer.
    pub(crate) release: CancellationToken,
}

/// Consumes the queue of `job` until it is told to end. The consumer is kept until then: without it, nothing
/// could be acknowledged any more.
pub(crate) async fn take_in(
    job: JobContext,
    node_id: u32,
    prefetch: usize,
    ready: mpsc::Sender<Vec<Ready>>,
    settle: mpsc::UnboundedSender<Settlement>,
    end: IntakeEnd,
) {
    let mut starts = 0;
    loop {
        let consuming = job.queue.consume(&job.queue_name(), prefetch).await;
        let mut deliveries = match consuming {
            Ok(deliveries) => deliveries,
            Err(error) => {
                tracing::warn!(%error, "the job's queue cannot be consumed; trying again");
                tokio::select! {
                    () = tokio::time::sleep(RECONSUME_PAUSE) => continue,
                    () = end.stop.cancelled() => return,
                }
            }
        };
        loop {
            let taken = tokio::select! {
                taken = deliveries.next(AT_ONCE) => taken,
                () = end.stop.cancelled() => {
                    drop(settle);
                    end.release.cancelled().await;
                    return;
                }
            };
            if taken.is_empty() {
                break;
            }
            let mut batch = Vec::with_capacity(taken.len());
            for delivery in taken {
                starts += 1;
                batch.extend(look_at(&job, node_id, starts, delivery, &settle).await);
            }
            if !batch.is_empty() && ready.send(batch).await.is_err() {
                drop(settle);
                end.release.cancelled().await;
                return;
            }
        }
    }
}

/// What to run of a delivery; everything else about it is settled here.
async fn look_at(
    job: &JobContext,
    node_id: u32,
    starts: u64,
    delivery: Delivery,
    settle: &mpsc::UnboundedSender<Settlement>,
) -> Option<Ready> {
    let index = match MiniBatch::peek_index(&delivery.body) {
        Ok(index) => index,
        Err(error) => {
            tracing::error!(%error, "a message that is no mini-batch goes to the dead letters");
            let _ = delivery.settle(Answer::Reject).await;
            return None;
        }
    };
    if delivery.delivery_count == 0 {
        return Some(Ready { delivery, index, spoiled: 0 });
    }
    let start = format!("{}-{node_id}-{starts}", job.incarnation);
    match job.ledger.begin(&job.id, index, &start).await {
        Ok(Begin::Run { spoiled }) => Some(Ready { delivery, index, spoiled }),
        Ok(Begin::Done) => {
            let _ = delivery.settle(Answer::Ack).await;
            None
        }
        Ok(Begin::GiveUp) => {
            let settlement =
                Settlement { ready: Ready { delivery, index, spoiled: 0 }, settle: Settle::NodesLost };
            let _ = settle.send(settlement);
            None
        }
        Err(error) => {
            tracing::warn!(%error, "a mini-batch goes back to the queue: the ledger does not answer");
            let _ = delivery.settle(Answer::Requeue).await;
            None
        }
    }
}
