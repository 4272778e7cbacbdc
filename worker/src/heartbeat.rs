//! The heartbeat: tells the ledger how the node is, and the node what the job wants.

use prs_common::ledger::{NodeReport, Signal};
use prs_orchestrator::JobContext;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Beats until `stop`; the last report is delivered before it returns.
pub(crate) async fn beat(
    job: JobContext,
    node_id: u32,
    worker: String,
    report: watch::Receiver<NodeReport>,
    signal: watch::Sender<Signal>,
    stop: CancellationToken,
) {
    let mut ticks = tokio::time::interval(job.timing.heartbeat);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let stopping = tokio::select! {
            _ = ticks.tick() => false,
            () = stop.cancelled() => true,
        };
        let said = report.borrow().clone();
        match job.ledger.heartbeat(&job.id, node_id, &worker, &said).await {
            Ok(wanted) => {
                signal.send_if_modified(|signal| std::mem::replace(signal, wanted) != wanted);
            }
            Err(error) => tracing::warn!(%error, "the ledger does not hear this node; it works on"),
        }
        if stopping {
            return;
        }
    }
}
