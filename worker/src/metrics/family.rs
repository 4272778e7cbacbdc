//! The metrics of a worker by their names; docs/metrics.md has the same list.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper ends of the buckets of durations, seconds; an endless one comes behind them.
const SECONDS: [f64; 12] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0, 30.0, 60.0];

/// A target alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Target {
    pub(super) target: String,
}

/// A target, and how a try ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Try {
    pub(super) target: String,
    pub(super) status: &'static str,
}

/// A target, and what became of an item.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Item {
    pub(super) target: String,
    pub(super) result: &'static str,
}

/// A target, and why a process was started.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Start {
    pub(super) target: String,
    pub(super) reason: &'static str,
}

/// Durations by target.
pub(super) type Durations = Family<Target, Histogram, fn() -> Histogram>;

/// A histogram of durations.
fn durations() -> Histogram {
    Histogram::new(SECONDS)
}

/// All of them.
#[derive(Debug)]
pub(super) struct Families {
    pub(super) tries: Family<Try, Counter>,
    pub(super) items: Family<Item, Counter>,
    pub(super) run: Durations,
    pub(super) load: Durations,
    pub(super) init: Durations,
    pub(super) slots: Family<Target, Gauge>,
    pub(super) busy: Family<Target, Gauge>,
    pub(super) started: Family<Start, Counter>,
    pub(super) commit: Histogram,
    pub(super) uncommitted: Gauge,
    pub(super) input_bytes: Counter,
    pub(super) cache: Gauge,
    pub(super) serving: Family<Target, Gauge>,
}

impl Default for Families {
    fn default() -> Self {
        let by_target = || Durations::new_with_constructor(durations);
        Self {
            tries: Family::default(),
            items: Family::default(),
            run: by_target(),
            load: by_target(),
            init: by_target(),
            slots: Family::default(),
            busy: Family::default(),
            started: Family::default(),
            commit: durations(),
            uncommitted: Gauge::default(),
            input_bytes: Counter::default(),
            cache: Gauge::default(),
            serving: Family::default(),
        }
    }
}

impl Families {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "prs_worker_tries",
            "Tries of mini-batches that ended here and are committed, by status",
            self.tries.clone(),
        );
        registry.register(
            "prs_worker_items",
            "Input items that got their outcome here: succeeded, or failed for good",
            self.items.clone(),
        );
        let durations = [
            ("run", "Time inside run(), of tries that came so far", &self.run),
            ("load", "Time in which a try made the argument of run() of its data", &self.load),
            ("init", "Time in which a process imported the script and ran init()", &self.init),
        ];
        for (what, help, family) in durations {
            let name = format!("prs_worker_{what}_duration");
            registry.register_with_unit(name, help, Unit::Seconds, family.clone());
        }
        registry.register(
            "prs_worker_slots",
            "Processes that the job which is served has here at most; 0 while none is",
            self.slots.clone(),
        );
        registry.register("prs_worker_busy_slots", "Processes that have a mini-batch", self.busy.clone());
        registry.register(
            "prs_worker_processes_started",
            "Processes that were started, by what became of the one before",
            self.started.clone(),
        );
        registry.register_with_unit(
            "prs_worker_commit_duration",
            "Time from the beginning of storing a segment until its outcomes are final",
            Unit::Seconds,
            self.commit.clone(),
        );
        registry.register_with_unit(
            "prs_worker_uncommitted",
            "Rows that wait to be stored",
            Unit::Bytes,
            self.uncommitted.clone(),
        );
        registry.register_with_unit(
            "prs_worker_input",
            "Inputs that were fetched to this worker",
            Unit::Bytes,
            self.input_bytes.clone(),
        );
        registry.register_with_unit(
            "prs_worker_cache",
            "Inputs that are kept here, on the disk and in memory",
            Unit::Bytes,
            self.cache.clone(),
        );
        registry.register("prs_worker_serving", "1 while the worker serves a job", self.serving.clone());
    }
}
