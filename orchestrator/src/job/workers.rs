//! The workers of a fleet as the ledger knows them: idle ones by their looks, busy ones by the heartbeats of their nodes.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use prs_common::ledger::{IdleWorker, Ledger, LedgerError, LedgerErrorKind, NodeInfo, NodeView};
use prs_common::timestamp::format_us;
use serde::Serialize;

use crate::Policy;

/// A worker that was not heard of for longer is silent.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// A silent worker is shown for so long.
pub(super) const SILENT_IS_SHOWN: Duration = Duration::from_mins(1);
/// How long a wish that a worker leaves is remembered, where the worker never hears it.
const DRAIN_IS_REMEMBERED: Duration = Duration::from_hours(1);

/// A worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerView {
    /// Its name, the same as long as it runs.
    pub worker: String,
    /// What it is at: `idle`, `serving`, `draining` (it was asked to leave), or `silent` (nothing was heard of it for ten seconds).
    pub state: &'static str,
    /// Its host.
    pub host: String,
    /// Address of the host.
    pub ip: String,
    /// The target of its job; of one without a job the first of `targets`.
    pub target: String,
    /// The targets that it looked for jobs of; of a busy one that of its job.
    pub targets: Vec<String>,
    /// Processes it runs, or may run.
    pub slots: u32,
    /// Of these, processes that have a mini-batch under way.
    pub busy_slots: u32,
    /// GPUs of its host that it may use.
    pub gpus: u32,
    /// The interpreter that jobs without one of their own get there; of a busy one that of its job. Empty where there is none.
    pub python: String,
    /// The job that it serves.
    pub job_id: Option<String>,
    /// Which node of that job it is.
    pub node_id: Option<u32>,
    /// Why it was asked to leave; null where nobody did.
    pub drain_reason: Option<String>,
    /// Version of prs.
    pub version: String,
    /// Since when it serves its job, by its clock; of one without a job, since when it runs.
    pub since: Option<String>,
    /// Memory that it has, with all that it started, bytes; null of one without a job.
    pub memory: Option<u64>,
    /// CPU time that it uses, percent of one core; the same.
    pub cpu_percent: Option<u32>,
    /// The mean of its GPUs, percent; the same, and where it has none.
    pub gpu_percent: Option<u32>,
    /// The servers that did not answer it when it called them last: `broker`, `ledger`, `storage`.
    pub unavailable: Vec<String>,
    /// How long ago it was heard of, seconds.
    pub last_seen_seconds: f64,
}

/// The states of workers.
pub const WORKER_STATES: [&str; 4] = ["idle", "serving", "draining", "silent"];

impl WorkerView {
    /// A worker that was heard of so long ago, with its job and the node it is of that.
    fn new(info: NodeInfo, target: &str, job: Option<(&str, u32)>, silent: Duration) -> Self {
        Self {
            worker: info.instance,
            state: if job.is_some() { "serving" } else { "idle" },
            host: info.host,
            ip: info.ip,
            target: target.to_owned(),
            targets: vec![target.to_owned()],
            slots: info.slots,
            busy_slots: 0,
            gpus: info.gpus,
            python: info.python,
            job_id: job.map(|(job, _)| job.to_owned()),
            node_id: job.map(|(_, node)| node),
            drain_reason: None,
            version: info.version,
            since: (info.since_us > 0).then(|| format_us(info.since_us)),
            memory: None,
            cpu_percent: None,
            gpu_percent: None,
            unavailable: Vec::new(),
            last_seen_seconds: silent.as_secs_f64(),
        }
    }

    /// The worker that a node of a job is.
    fn of_node(node: NodeView, target: &str, job_id: &str) -> Self {
        let NodeView { node_id, info, report, silent, .. } = node;
        let load = report.load;
        Self {
            busy_slots: report.busy,
            memory: load.map(|load| load.memory),
            cpu_percent: load.map(|load| load.cpu_percent),
            gpu_percent: load.and_then(|load| load.gpu_percent),
            unavailable: report.unavailable,
            ..Self::new(info, target, Some((job_id, node_id)), silent)
        }
    }

    fn is_silent(&self) -> bool {
        self.last_seen_seconds > SILENT_AFTER.as_secs_f64()
    }

    /// Takes in whether it was asked to leave.
    fn settle(&mut self, draining: &HashMap<String, String>) {
        self.drain_reason = draining.get(&self.worker).cloned();
        if self.is_silent() {
            self.state = "silent";
        } else if self.drain_reason.is_some() {
            self.state = "draining";
        }
    }
}

/// All workers, or those of one target; by host and name.
pub async fn workers(ledger: &dyn Ledger, target: Option<&str>) -> Result<Vec<WorkerView>, LedgerError> {
    let targets = match target {
        Some(target) => vec![target.to_owned()],
        None => ledger.targets().await?,
    };
    let draining = ledger.draining().await?;
    let mut found = BTreeMap::new();
    for target in &targets {
        for worker in ledger.idle_workers(target, SILENT_IS_SHOWN).await? {
            add(&mut found, WorkerView::new(worker.info, target, None, worker.silent));
        }
        for node in busy(ledger, target).await? {
            add(&mut found, node);
        }
    }
    let mut workers: Vec<_> = found.into_values().collect();
    for worker in &mut workers {
        worker.settle(&draining);
    }
    workers.sort_by(|one, other| (&one.host, &one.worker).cmp(&(&other.host, &other.worker)));
    Ok(workers)
}

/// The workers of a target: those that looked for something to do, and the nodes of its jobs, each with the id of its job.
pub(super) fn of_one_target(
    target: &str,
    idle: Vec<IdleWorker>,
    nodes: Vec<(&str, NodeView)>,
    draining: &HashMap<String, String>,
) -> Vec<WorkerView> {
    let mut found = BTreeMap::new();
    for worker in idle {
        add(&mut found, WorkerView::new(worker.info, target, None, worker.silent));
    }
    for (job_id, node) in nodes.into_iter().filter(|(_, node)| is_shown(node)) {
        add(&mut found, WorkerView::of_node(node, target, job_id));
    }
    let mut workers: Vec<WorkerView> = found.into_values().collect();
    for worker in &mut workers {
        worker.settle(draining);
    }
    workers
}

/// Whether a node stands for a worker that is there, or was a moment ago.
fn is_shown(node: &NodeView) -> bool {
    !node.left && node.silent < SILENT_IS_SHOWN
}

/// Asks a worker to leave, as the first SIGTERM does: what it runs may end, the rest goes back. False where there is none of this
/// name.
pub async fn drain(ledger: &dyn Ledger, worker: &str, reason: &str) -> Result<bool, LedgerError> {
    if !workers(ledger, None).await?.iter().any(|known| known.worker == worker) {
        return Ok(false);
    }
    ledger.drain(worker, reason, DRAIN_IS_REMEMBERED).await?;
    Ok(true)
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
        for node in nodes.into_iter().filter(is_shown) {
            found.push(WorkerView::of_node(node, target, &offered.offer.job_id));
        }
    }
    Ok(found)
}

/// Adds what was seen of a worker. One that has a job looked for it a moment ago; an idle one may look for several targets; one whose
/// node is silent may have left the job.
fn add(found: &mut BTreeMap<String, WorkerView>, seen: WorkerView) {
    let Some(known) = found.get_mut(&seen.worker) else {
        found.insert(seen.worker.clone(), seen);
        return;
    };
    match (&known.job_id, &seen.job_id) {
        (None, Some(_)) if seen.is_silent() && !known.is_silent() => {}
        (None, Some(_)) => *known = seen,
        (None, None) => {
            known.last_seen_seconds = known.last_seen_seconds.min(seen.last_seen_seconds);
            known.targets.extend(seen.targets);
        }
        (Some(_), None) if known.is_silent() && !seen.is_silent() => *known = seen,
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
            ..NodeInfo::default()
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
                (one.worker, targets.join(","), one.job_id)
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

    #[test]
    fn workers_of_a_target_are_at_one_thing_each() {
        let idle =
            |name: &str, silent| IdleWorker { info: info(name, name), silent: Duration::from_secs(silent) };
        let node = |name: &str, silent, left| {
            let silent = Duration::from_secs(silent);
            (
                "job",
                NodeView { node_id: 0, info: info(name, name), report: NodeReport::default(), silent, left },
            )
        };
        let draining = ["c", "e"].map(|name| (name.to_owned(), "an update".to_owned())).into();
        let idle = vec![idle("a", 1), idle("b", 30), idle("c", 1), idle("d", 2)];
        let nodes = vec![
            node("d", 0, false),
            node("e", 0, false),
            node("f", 20, false),
            node("g", 70, false),
            node("h", 0, true),
        ];
        let told: Vec<_> = of_one_target("cpu", idle, nodes, &draining)
            .into_iter()
            .map(|worker| (worker.worker, worker.state))
            .collect();
        let expected = [
            ("a", "idle"),
            ("b", "silent"),
            ("c", "draining"),
            ("d", "serving"),
            ("e", "draining"),
            ("f", "silent"),
        ];
        assert_eq!(told, expected.map(|(name, state)| (name.to_owned(), state)));
    }

    #[tokio::test]
    async fn a_worker_that_was_asked_to_leave_is_draining() {
        let ledger = EmbeddedLedger::default();
        ledger.offers("cpu", Some(&info("a", "a")), Duration::ZERO).await.unwrap();
        assert!(!drain(&ledger, "b", "").await.unwrap(), "there is none");
        assert!(drain(&ledger, "a", "the host is updated").await.unwrap());
        let seen = workers(&ledger, None).await.unwrap().remove(0);
        assert_eq!((seen.state, seen.drain_reason.as_deref()), ("draining", Some("the host is updated")));
        ledger.retire("cpu", &info("a", "a")).await.unwrap();
        assert_eq!(workers(&ledger, None).await.unwrap(), []);
    }

    #[test]
    fn what_was_heard_last_of_a_worker_counts() {
        let view = |job: Option<&str>, silent: u64| {
            let job = job.map(|job| (job, 0));
            WorkerView::new(info("w", "w"), "cpu", job, Duration::from_secs(silent))
        };
        for (first, second, expected) in [
            (view(None, 1), view(Some("job"), 2), ("serving", Some("job"))),
            (view(Some("job"), 2), view(None, 1), ("serving", Some("job"))),
            // It left the job without a word.
            (view(Some("job"), 30), view(None, 1), ("idle", None)),
            (view(None, 1), view(Some("job"), 30), ("idle", None)),
            (view(None, 30), view(Some("job"), 30), ("silent", Some("job"))),
        ] {
            let mut found = BTreeMap::new();
            for seen in [first, second] {
                add(&mut found, seen);
            }
            let mut seen = found.remove("w").unwrap();
            seen.settle(&HashMap::new());
            assert_eq!((seen.state, seen.job_id.as_deref()), expected);
        }
    }
}
