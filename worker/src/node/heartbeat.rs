//! The heartbeat: tells the ledger how the node is, and the node what the job wants.

use prs_common::ledger::{NodeInfo, NodeReport, Signal};
use prs_common::timestamp::now_us;
use prs_orchestrator::JobContext;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::commit::outcome::InHand;
use crate::metrics::Metrics;

/// The heartbeat of one node.
pub(crate) struct Heartbeat {
    pub(crate) job: JobContext,
    pub(crate) node_id: u32,
    pub(crate) info: NodeInfo,
    /// How the node is: node and dispatcher write, the heartbeat reads.
    pub(crate) report_rx: watch::Receiver<NodeReport>,
    pub(crate) in_hand: InHand,
    /// What the job wants: the heartbeat writes, node and dispatcher read.
    pub(crate) signal_tx: watch::Sender<Signal>,
    pub(crate) metrics: Metrics,
    /// The worker was asked to leave.
    pub(crate) asked: CancellationToken,
}

impl Heartbeat {
    /// Beats until `stop`, and at once where a first error is new: people wait for it, and the job may end before the next
    /// beat. The last report is delivered before it returns.
    pub(crate) async fn beat(self, stop: CancellationToken) {
        let job = &self.job;
        let mut ticks = tokio::time::interval(job.policy.heartbeat);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut node_id, mut told) = (self.node_id, 0);
        let mut report_rx = self.report_rx.clone();
        loop {
            let stopping = tokio::select! {
                _ = ticks.tick() => false,
                Ok(_) = report_rx.wait_for(|report| report.errors.len() > told) => false,
                () = stop.cancelled() => true,
            };
            let said = NodeReport {
                in_hand: self.in_hand.count(),
                now_us: now_us(),
                ..self.report_rx.borrow().clone()
            };
            told = said.errors.len();
            self.metrics.turns();
            let heard = job.ledger.heartbeat(node_id, &self.info.worker, &said).await;
            self.metrics.heard(&heard);
            match heard {
                // The ledger was rebuilt. Logs and segments keep the id they began with.
                Ok(Signal::Rejoin) => match job.ledger.join(&self.info, Some(self.node_id)).await {
                    Ok(joined) => node_id = joined,
                    Err(error) => tracing::warn!(%error, "the node is not in the rebuilt ledger yet"),
                },
                Ok(Signal::Leave) => self.asked.cancel(),
                Ok(wanted) => {
                    self.signal_tx.send_if_modified(|signal| std::mem::replace(signal, wanted) != wanted);
                }
                Err(error) => tracing::warn!(%error, "the ledger does not hear this node; it works on"),
            }
            if stopping {
                if let Err(error) = job.ledger.leave(node_id).await {
                    tracing::info!(%error, "the ledger does not hear that the node leaves; it will miss it");
                }
                return;
            }
        }
    }
}
