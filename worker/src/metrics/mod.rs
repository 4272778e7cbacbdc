//! What a worker counts of itself, for programs that collect metrics: `--metrics ADDRESS`.
//!
//! A worker that is asked for none has [`Metrics::default`], which counts nothing. One that is asked sums up tries where a
//! segment is committed, so that the hot path of a mini-batch is the same. Jobs are no label: a fleet has too many of them.
//! Nothing here asks a server.

mod family;
mod outage;
mod pulse;
mod start_reason;
mod target;
mod tries;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use prs_common::ledger::LedgerError;
use prs_common::queue::QueueError;
use prs_common::storage::StorageError;
use prs_orchestrator::{OrchestratorMetrics, duty_names};

use family::Families;
pub(crate) use outage::Dependency;
use outage::Outages;
use pulse::{ALIVE_WITHIN, Pulse};
pub(crate) use start_reason::StartReason;
use target::OfTarget;
pub(crate) use target::TargetMetrics;
pub(crate) use tries::CountedTries;

/// Targets with labels of their own; what more there are is counted as [`OTHER`].
const MOST_TARGETS: usize = 100;
/// The target of those.
const OTHER: &str = "other";

/// What a worker counts, or nothing. Cheap to clone; clones count together.
#[derive(Clone, Default)]
pub struct Metrics(Option<Arc<Inner>>);

struct Inner {
    registry: Registry,
    families: Families,
    orchestrator: OrchestratorMetrics,
    targets: Mutex<HashMap<String, TargetMetrics>>,
    outages: Outages,
    pulse: Pulse,
    /// What is read when figures are collected.
    read: Mutex<Option<Read>>,
}

/// Where the figures of the node at work are read.
struct Read {
    uncommitted: Box<dyn Fn() -> u64 + Send>,
    cached: Box<dyn Fn() -> u64 + Send>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "metrics" } else { "no metrics" })
    }
}

impl Metrics {
    /// Metrics that are counted, with those of `targets` from 0 on.
    pub fn counted(targets: &[String]) -> Self {
        let mut registry = Registry::default();
        let (families, orchestrator, outages) =
            (Families::default(), OrchestratorMetrics::default(), Outages::default());
        families.register(&mut registry);
        outages.register(&mut registry);
        orchestrator.register(&mut registry, duty_names());
        let inner = Inner {
            registry,
            families,
            orchestrator,
            targets: Mutex::default(),
            outages,
            pulse: Pulse::default(),
            read: Mutex::default(),
        };
        let metrics = Self(Some(Arc::new(inner)));
        for target in targets {
            metrics.of_target(target);
        }
        metrics
    }

    /// What is counted of jobs of a target.
    pub(crate) fn of_target(&self, target: &str) -> TargetMetrics {
        let Some(inner) = &self.0 else { return TargetMetrics::default() };
        let mut targets = inner.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !targets.contains_key(target);
        let target = if is_new && targets.len() >= MOST_TARGETS { OTHER } else { target };
        let known = targets.entry(target.to_owned());
        known.or_insert_with(|| TargetMetrics::new(OfTarget::new(&inner.families, target))).clone()
    }

    /// What who watches over a job counts.
    pub(crate) fn orchestrator(&self) -> OrchestratorMetrics {
        self.0.as_ref().map(|inner| inner.orchestrator.clone()).unwrap_or_default()
    }

    /// Notes that the worker looks for a job, or tells of itself: it is alive.
    pub(crate) fn turns(&self) {
        if let Some(inner) = &self.0 {
            inner.pulse.beat();
        }
    }

    /// Notes so again and again, as long as this is polled. Never returns.
    pub(crate) async fn turns_meanwhile(&self) {
        loop {
            self.turns();
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }

    /// Whether it has done so lately.
    pub(crate) fn is_alive(&self) -> bool {
        self.silent() <= ALIVE_WITHIN
    }

    /// How long it has been since.
    pub(crate) fn silent(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |inner| inner.pulse.silent())
    }

    /// Notes whether a server answered.
    pub(crate) fn heard<T, E: OfServer>(&self, answer: &Result<T, E>) {
        let Some(inner) = &self.0 else { return };
        match answer {
            Err(error) if error.is_away() => inner.outages.is_away(E::SERVER),
            _ => inner.outages.answers(E::SERVER),
        }
    }

    /// The servers that did not answer when they were called last.
    pub(crate) fn unavailable(&self) -> Vec<String> {
        self.0.iter().flat_map(|inner| inner.outages.last()).map(str::to_owned).collect()
    }

    /// Notes that a call to a server has gone without an answer for longer than one takes.
    pub(crate) fn hears_nothing(&self, server: Dependency) {
        if let Some(inner) = &self.0 {
            inner.outages.is_away(server);
        }
    }

    /// Notes that a node begins: what was heard of servers before is not known any more.
    pub(crate) fn begins(&self) {
        if let Some(inner) = &self.0 {
            inner.outages.are_not_asked();
        }
    }

    /// How long a server has not answered.
    pub(crate) fn away_for(&self, server: Dependency) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |inner| inner.outages.lasts(server))
    }

    /// Counts inputs that were fetched.
    pub(crate) fn fetched(&self, bytes: u64) {
        if let Some(inner) = &self.0 {
            inner.families.input_bytes.inc_by(bytes);
        }
    }

    /// Reads the rows that wait for their commit, and the files in the cache of inputs, both in bytes, from these while the
    /// answer is kept. Broker and storage are asked by nobody after that.
    pub(crate) fn at_work(
        &self,
        uncommitted: impl Fn() -> u64 + Send + 'static,
        cached: impl Fn() -> u64 + Send + 'static,
    ) -> AtWork {
        if let Some(inner) = &self.0 {
            let read = Read { uncommitted: Box::new(uncommitted), cached: Box::new(cached) };
            *inner.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
        }
        AtWork(self.clone())
    }

    /// All metrics, as text of the format `OpenMetrics`.
    pub(crate) fn text(&self) -> String {
        let mut written = String::new();
        let Some(inner) = &self.0 else { return written };
        inner.outages.settle();
        {
            let read = inner.read.lock().unwrap_or_else(PoisonError::into_inner);
            let (uncommitted, cached) =
                read.as_ref().map_or((0, 0), |read| ((read.uncommitted)(), (read.cached)()));
            inner.families.uncommitted.set(uncommitted as i64);
            inner.families.cache.set(cached as i64);
        }
        text::encode(&mut written, &inner.registry).expect("a string takes any text");
        written
    }

    /// Counts a segment whose outcomes became final, which was begun to be stored at `began`.
    pub(crate) fn committed(&self, began: Instant) {
        if let Some(inner) = &self.0 {
            inner.families.commit.observe(began.elapsed().as_secs_f64());
        }
    }
}

/// A node at work, whose figures are read.
#[derive(Debug)]
pub(crate) struct AtWork(Metrics);

impl Drop for AtWork {
    fn drop(&mut self) {
        let Some(inner) = &self.0.0 else { return };
        *inner.read.lock().unwrap_or_else(PoisonError::into_inner) = None;
        inner.outages.are_not_asked();
    }
}

/// An error that tells of a server of the fleet.
pub(crate) trait OfServer {
    /// The server.
    const SERVER: Dependency;

    /// Whether it cannot be reached for now: one that refuses is there.
    fn is_away(&self) -> bool;
}

impl OfServer for QueueError {
    const SERVER: Dependency = Dependency::Broker;

    fn is_away(&self) -> bool {
        self.is_retryable()
    }
}

impl OfServer for LedgerError {
    const SERVER: Dependency = Dependency::Ledger;

    fn is_away(&self) -> bool {
        self.is_retryable()
    }
}

impl OfServer for StorageError {
    const SERVER: Dependency = Dependency::Storage;

    fn is_away(&self) -> bool {
        self.is_retryable()
    }
}

#[cfg(test)]
mod tests {
    use prs_common::storage::StorageErrorKind;

    use super::*;

    fn lines(metrics: &Metrics) -> Vec<String> {
        metrics.text().lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn has(metrics: &Metrics, line: &str) {
        assert!(lines(metrics).iter().any(|found| found == line), "{line} is missing:\n{}", metrics.text());
    }

    #[test]
    fn every_label_of_a_known_target_is_there_from_the_beginning() {
        let metrics = Metrics::counted(&["night".to_owned()]);
        for line in [
            "prs_worker_tries_total{target=\"night\",status=\"RUN_DONE\"} 0",
            "prs_worker_tries_total{target=\"night\",status=\"NODE_LOST\"} 0",
            "prs_worker_items_total{target=\"night\",result=\"failed\"} 0",
            "prs_worker_processes_started_total{target=\"night\",reason=\"timeout\"} 0",
            "prs_worker_run_duration_seconds_count{target=\"night\"} 0",
            "prs_worker_serving{target=\"night\"} 0",
            "prs_worker_dependency_unavailable_seconds_total{dependency=\"broker\"} 0.0",
            "prs_worker_uncommitted_bytes 0",
            "prs_orchestrator_actions_total{duty=\"scheduling\"} 0",
        ] {
            has(&metrics, line);
        }
        assert_eq!(lines(&metrics).last().map(String::as_str), Some("# EOF"));
    }

    #[test]
    fn figures_of_a_node_at_work_are_read_while_it_is() {
        let metrics = Metrics::counted(&[]);
        let at_work = metrics.at_work(|| 12, || 34);
        has(&metrics, "prs_worker_uncommitted_bytes 12");
        has(&metrics, "prs_worker_cache_bytes 34");
        drop(at_work);
        has(&metrics, "prs_worker_uncommitted_bytes 0");
        has(&metrics, "prs_worker_cache_bytes 0");
    }

    #[test]
    fn too_many_targets_share_one() {
        let metrics = Metrics::counted(&[]);
        for number in 0..MOST_TARGETS + 5 {
            drop(metrics.of_target(&format!("t{number}")).serves());
        }
        let of =
            |target: &str| metrics.text().contains(&format!("prs_worker_serving{{target=\"{target}\"}}"));
        assert!(of("t99") && !of("t100") && of(OTHER));
        // A known one stays what it was.
        let _serving = metrics.of_target("t7").serves();
        has(&metrics, "prs_worker_serving{target=\"t7\"} 1");
    }

    #[test]
    fn a_server_that_answers_with_a_refusal_is_there() {
        let metrics = Metrics::counted(&[]);
        let fails = |kind| -> Result<(), _> {
            let text = String::new;
            Err(StorageError { kind, place: text(), key: text(), message: text() })
        };
        let none = "prs_worker_dependency_unavailable_seconds_total{dependency=\"storage\"} 0.0";
        let waited = || !lines(&metrics).iter().any(|line| line == none);
        metrics.heard(&fails(StorageErrorKind::NotFound));
        assert!(!waited());
        metrics.heard(&fails(StorageErrorKind::Unavailable));
        std::thread::sleep(Duration::from_millis(5));
        assert!(waited(), "also while it lasts");
    }

    #[test]
    fn who_counts_nothing_says_nothing() {
        let metrics = Metrics::default();
        metrics.turns();
        metrics.fetched(7);
        metrics.committed(Instant::now());
        drop(metrics.at_work(|| 1, || 2));
        drop(metrics.of_target("default").serves());
        assert_eq!(metrics.text(), "");
    }
}
