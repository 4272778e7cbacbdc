//! What an orchestrator counts of itself, for programs that collect metrics. A program that is asked for none counts into
//! numbers that nobody reads: each is an atomic, and touched once a look at the most.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use prs_common::statistics::NAMES;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DutyLabel {
    duty: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartLabel {
    part: &'static str,
}

/// The metrics of the orchestrators of one program. Cheap to clone; clones count together.
#[derive(Debug, Clone, Default)]
pub struct OrchestratorMetrics(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    jobs: Gauge,
    takeovers: Counter,
    follow_lag: Gauge,
    actions: Family<DutyLabel, Counter>,
    statistics: Family<PartLabel, Gauge>,
    /// The run that was watched over last: who comes back to it takes it from nobody.
    last: Mutex<String>,
}

impl OrchestratorMetrics {
    /// Registers all of them, with every value that a label can have; `duties` are the names of all duties.
    pub fn register(&self, registry: &mut Registry, duties: impl IntoIterator<Item = &'static str>) {
        for duty in duties {
            drop(self.0.actions.get_or_create(&DutyLabel { duty }));
        }
        for part in NAMES {
            drop(self.0.statistics.get_or_create(&PartLabel { part }));
        }
        registry.register("prs_orchestrator_jobs", "Jobs that this worker watches over", self.0.jobs.clone());
        registry.register(
            "prs_orchestrator_takeovers",
            "Jobs whose watch this worker took over from another program",
            self.0.takeovers.clone(),
        );
        registry.register(
            "prs_orchestrator_follow_lag_segments",
            "Segments of the watched job that are committed and not yet followed",
            self.0.follow_lag.clone(),
        );
        registry.register(
            "prs_orchestrator_actions",
            "Actions that the duties of the orchestrator asked for",
            self.0.actions.clone(),
        );
        registry.register_with_unit(
            "prs_orchestrator_statistics",
            "Size of each part of the statistics of the watched job, as written last",
            Unit::Bytes,
            self.0.statistics.clone(),
        );
    }

    /// Counts a job as watched over until the answer is dropped.
    pub(crate) fn watching(&self, run: &str) -> Watching {
        self.0.jobs.inc();
        Watching { metrics: self.clone(), run: run.to_owned(), has_looked: false }
    }

    /// Counts an action that a duty asked for.
    pub(crate) fn acts(&self, duty: &'static str) {
        self.0.actions.get_or_create(&DutyLabel { duty }).inc();
    }

    /// Notes the size of a part of the statistics.
    pub(crate) fn part_written(&self, part: &'static str, bytes: usize) {
        self.0.statistics.get_or_create(&PartLabel { part }).set(bytes as i64);
    }
}

/// A job that is watched over.
#[derive(Debug)]
pub(crate) struct Watching {
    metrics: OrchestratorMetrics,
    run: String,
    has_looked: bool,
}

impl Watching {
    /// Notes a look at the job; `is_new` while no orchestrator has done anything for this start of it.
    pub(crate) fn looks(&mut self, is_new: bool) {
        if std::mem::replace(&mut self.has_looked, true) {
            return;
        }
        let mut last = self.metrics.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_new && *last != self.run {
            self.metrics.0.takeovers.inc();
        }
        last.clone_from(&self.run);
    }

    /// Notes how many segments are to be followed.
    pub(crate) fn lags(&self, segments: u64) {
        self.metrics.0.follow_lag.set(segments as i64);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.metrics.0.jobs.dec();
        self.metrics.0.follow_lag.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &OrchestratorMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry, ["states", "speculation"]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn all_labels_are_there_from_the_beginning() {
        let text = text(&OrchestratorMetrics::default());
        for line in [
            "prs_orchestrator_jobs 0",
            "prs_orchestrator_takeovers_total 0",
            "prs_orchestrator_actions_total{duty=\"speculation\"} 0",
            "prs_orchestrator_statistics_bytes{part=\"live\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing:\n{text}");
        }
    }

    #[test]
    fn a_watch_is_taken_over_once_and_from_another() {
        let metrics = OrchestratorMetrics::default();
        let takeovers = |run, is_new: &[bool]| {
            let mut watching = metrics.watching(run);
            for is_new in is_new {
                watching.looks(*is_new);
            }
            watching.lags(3);
            assert!(metrics.0.jobs.get() == 1 && metrics.0.follow_lag.get() == 3);
            drop(watching);
            assert!(metrics.0.jobs.get() == 0 && metrics.0.follow_lag.get() == 0);
            metrics.0.takeovers.get()
        };
        assert_eq!(takeovers("new", &[true, false]), 0);
        assert_eq!(takeovers("new", &[false]), 0, "it comes back");
        assert_eq!(takeovers("of another", &[false, false]), 1);
        assert_eq!(takeovers("new", &[false]), 2, "another had it meanwhile, or may have");
    }
}
