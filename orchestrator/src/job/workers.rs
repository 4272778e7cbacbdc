//! The workers of a fleet as the ledger knows them: idle ones by their looks, busy ones by the heartbeats of their nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use prs_common::ledger::{Ledger, LedgerError, LedgerErrorKind, NodeInfo};
use serde::Serialize;

use crate::Policy;
use crate::job::membership::LOOKS_WITHIN;

/// A worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerView {
    /// Its name, the same as long as it runs.
    pub worker: String,
    /// Its host.
    pub host: String,
    /// Address of the host.
    pub ip: String,
    /// The targets that it looked for jobs of; of a busy one that of its job.
    pub targets: Vec<String>,
    /// Processes it runs, or may run.
    pub slots: u32,
    /// The job that it serves.
    pub job: Option<String>,
    /// Version of prs.
    pub version: String,
    /// How long ago it was heard of, seconds.
    pub seen_seconds: f64,
}

impl WorkerView {
    fn new(info: NodeInfo, target: &str, job: Option<&str>, silent: Duration) -> Self {
        Self {
            worker: info.instance,
            host: info.host,
            ip: info.ip,
            targets: vec![target.to_owned()],
            slots: info.slots,
            job: job.map(str::to_owned),
            version: info.version,
            seen_seconds: silent.as_secs_f64(),
        }
    }
}

/// All workers, or those of one target; by host and name.
pub async fn workers(ledger: &dyn Ledger, target: Option<&str>) -> Result<Vec<WorkerView>, LedgerError> {
    let targets = match target {
        Some(target) => vec![target.to_owned()],
        None => ledger.targets().await?,
    };
    let mut found = BTreeMap::new();
    for target in &targets {
        for worker in ledger.idle_workers(target, LOOKS_WITHIN).await? {
            add(&mut found, WorkerView::new(worker.info, target, None, worker.silent));
        }
        for node in busy(ledger, target).await? {
            add(&mut found, node);
        }
    }
    let mut workers: Vec<_> = found.into_values().collect();
    workers.sort_by(|one, other| (&one.host, &one.worker).cmp(&(&other.host, &other.worker)));
    Ok(workers)
}

/// The nodes of the jobs of `target`.
async fn busy(ledger: &dyn Ledger, target: &str) -> Result<Vec<WorkerView>, LedgerError> {
    let policy = Policy::fleet();
    let mut found = Vec::new();
    for offered in ledger.offers(target, None, policy.lost).await?.offered {
        let nodes = match ledger.job(&offered.offer.run).nodes().await {
            Ok(nodes) => nodes,
            // It has ended meanwhile.
            Err(error) if error.kind == LedgerErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for node in nodes.into_iter().filter(|node| policy.is_present(node)) {
            found.push(WorkerView::new(node.info, target, Some(&offered.offer.job_id), node.silent));
        }
    }
    Ok(found)
}

/// Adds what was seen of a worker. One that has a job looked for it a moment ago; an idle one may look for several targets.
fn add(found: &mut BTreeMap<String, WorkerView>, seen: WorkerView) {
    let Some(known) = found.get_mut(&seen.worker) else {
        found.insert(seen.worker.clone(), seen);
        return;
    };
    match (&known.job, &seen.job) {
        (None, Some(_)) => *known = seen,
        (None, None) => {
            known.seen_seconds = known.seen_seconds.min(seen.seen_seconds);
            known.targets.extend(seen.targets);
        }
        (Some(_), _) => {}
    }
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::{EmbeddedLedger, NodeReport, Offer, TryLimits};

    use super::*;

    fn info(worker: &str, instance: &str) -> NodeInfo {
        NodeInfo {
            worker: worker.to_owned(),
            ip: "192.0.2.7".to_owned(),
            slots: 4,
            host: "h".to_owned(),
            version: "1.2.3".to_owned(),
            instance: instance.to_owned(),
        }
    }

    #[tokio::test]
    async fn workers_are_idle_or_busy_with_a_job() {
        let ledger = EmbeddedLedger::default();
        for (target, worker) in [("cpu", "a"), ("gpu", "a"), ("gpu", "b"), ("cpu", "c")] {
            ledger.offers(target, Some(&info(worker, worker)), Duration::ZERO).await.unwrap();
        }
        ledger.job("run").create(TryLimits { run_max_try: 3, max_node_losses: 10 }).await.unwrap();
        let offer = Offer {
            job_id: "job".to_owned(),
            incarnation: 1,
            run: "run".to_owned(),
            prs_version: "1.2.3".to_owned(),
            nodes: 2,
            started_us: 0,
        };
        ledger.offer("cpu", &offer).await.unwrap();
        for worker in ["c", "d"] {
            let node = ledger.job("run").join(&info(&format!("{worker}-1"), worker), None).await.unwrap();
            ledger.job("run").heartbeat(node, &format!("{worker}-1"), &NodeReport::default()).await.unwrap();
        }
        let told = |workers: Vec<WorkerView>| -> Vec<(String, String, Option<String>)> {
            let told = workers.into_iter().map(|one| {
                let mut targets = one.targets;
                targets.sort();
                (one.worker, targets.join(","), one.job)
            });
            told.collect()
        };
        let of = |worker: &str, targets: &str, job: Option<&str>| {
            (worker.to_owned(), targets.to_owned(), job.map(str::to_owned))
        };
        let job = Some("job");
        let all = [of("a", "cpu,gpu", None), of("b", "gpu", None), of("c", "cpu", job), of("d", "cpu", job)];
        assert_eq!(told(workers(&ledger, None).await.unwrap()), all);
        let gpu = [of("a", "gpu", None), of("b", "gpu", None)];
        assert_eq!(told(workers(&ledger, Some("gpu")).await.unwrap()), gpu);
        assert_eq!(workers(&ledger, Some("none")).await.unwrap(), []);
    }
}
