//! The heartbeat: tells the ledger how the node is, and the node what the job wants.

use prs_common::ledger::{Heard, NodeInfo, NodeReport, Signal};
use prs_common::timestamp::now_us;
use prs_orchestrator::JobContext;
use prs_orchestrator::job::reach::Server;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::commit::outcome::InHand;
use crate::metrics::Metrics;
use crate::perf::load::Meter;

/// How a job stands before the first heartbeat.
pub(crate) const ALONE: Heard = Heard { signal: Signal::Run, live_nodes: 1, has_succeeded: false };

/// The heartbeat of one node.
pub(crate) struct Heartbeat {
    pub(crate) job: JobContext,
    pub(crate) node_id: u32,
    pub(crate) info: NodeInfo,
    /// How the node is: node and dispatcher write, the heartbeat reads.
    pub(crate) report_rx: watch::Receiver<NodeReport>,
    /// The server that the node does not reach, where it leaves the job for that.
    pub(crate) cut_rx: watch::Receiver<Option<Server>>,
    pub(crate) in_hand: InHand,
    /// What the job wants: the heartbeat writes, node and dispatcher read.
    pub(crate) signal_tx: watch::Sender<Signal>,
    /// How the job stands: the heartbeat writes, committer, dispatcher and suspects read.
    pub(crate) heard_tx: watch::Sender<Heard>,
    pub(crate) metrics: Metrics,
    /// What the node uses; nobody asks that of an embedded one.
    pub(crate) meter: Option<Meter>,
    /// The worker was asked to leave.
    pub(crate) asked: CancellationToken,
}

impl Heartbeat {
    /// Beats until `stop`, and at once where a first error is new, for people wait for it and the job may end before the
    /// next beat, and where the orchestrator of this program ends the job. The last report is delivered before it returns.
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
                () = job.nodes_end.notified() => false,
                () = stop.cancelled() => true,
            };
            let said = NodeReport {
                in_hand: self.in_hand.count(),
                now_us: now_us(),
                load: self.meter.as_ref().and_then(Meter::seen),
                unavailable: self.unavailable(),
                ..self.report_rx.borrow().clone()
            };
            told = said.errors.len();
            self.metrics.turns();
            let heard = job.ledger.heartbeat(node_id, &self.info.worker, &said).await;
            self.metrics.heard(&heard);
            if let Ok(heard) = heard {
                self.heard_tx.send_replace(heard);
            }
            match heard.map(|heard| heard.signal) {
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

    /// The servers that do not answer, and the one that did not when the node left for that.
    fn unavailable(&self) -> Vec<String> {
        let mut all = self.metrics.unavailable();
        if let Some(cut_off) = self.cut_rx.borrow().map(|server| server.as_str().to_owned())
            && !all.contains(&cut_off)
        {
            all.push(cut_off);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use prs_common::job::JobSpec;
    use prs_common::ledger::{Conclusion, JobState};
    use prs_common::storage::{LocalStorage, Storage};
    use prs_orchestrator::inputs::InputStores;

    use super::*;
    use crate::opener;

    #[tokio::test]
    async fn the_end_of_a_job_is_heard_before_the_next_beat() {
        let folder = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        let inputs = InputStores::new(Arc::clone(&storage), Arc::clone(&storage), opener());
        let spec = Arc::new(JobSpec::new("job", "/code", "main.py", vec![]));
        let mut job = JobContext::embedded(("job", 1), spec, storage, inputs, folder.path(), folder.path());
        job.policy.heartbeat = Duration::from_hours(1);
        job.ledger.create(job.try_limits()).await.unwrap();
        let info = NodeInfo { worker: "worker".to_owned(), ..NodeInfo::default() };
        let node_id = job.ledger.join(&info, None).await.unwrap();
        let (_report_tx, report_rx) = watch::channel(NodeReport::default());
        let (signal_tx, mut signal_rx) = watch::channel(Signal::Run);
        let heartbeat = Heartbeat {
            job: job.clone(),
            node_id,
            info,
            report_rx,
            cut_rx: watch::channel(None).1,
            in_hand: InHand::default(),
            signal_tx,
            heard_tx: watch::channel(ALONE).0,
            metrics: Metrics::default(),
            meter: None,
            asked: CancellationToken::new(),
        };
        let stop = CancellationToken::new();
        let beating = tokio::spawn(heartbeat.beat(stop.clone()));
        // The first beat is over: the next one comes in an hour.
        while job.ledger.nodes().await.unwrap().iter().all(|node| node.report.now_us == 0) {
            tokio::task::yield_now().await;
        }
        assert_eq!(*signal_rx.borrow(), Signal::Run);
        let failed = Conclusion { state: JobState::Failed, reason: "refused".to_owned() };
        job.ledger.conclude(&failed).await.unwrap();
        job.nodes_end.notify_one();
        let heard = signal_rx.wait_for(|signal| *signal == Signal::Stop);
        tokio::time::timeout(Duration::from_mins(1), heard).await.unwrap().unwrap();
        stop.cancel();
        beating.await.unwrap();
    }
}
