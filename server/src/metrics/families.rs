//! The metrics of a server by their names; docs/metrics.md has the same list.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper ends of the buckets of durations, seconds; an endless one comes behind them.
const SECONDS: [f64; 12] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0, 30.0, 60.0];

/// Which build it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Build {
    pub(super) component: &'static str,
    pub(super) version: &'static str,
    pub(super) commit: &'static str,
}

/// An address as the router has it, and what became of the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Answered {
    pub(super) method: &'static str,
    pub(super) route: String,
    pub(super) status: u32,
}

/// The same, without what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Asked {
    pub(super) method: &'static str,
    pub(super) route: String,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reason {
    pub(super) reason: &'static str,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Target {
    pub(super) target: String,
}

/// A target, and a state of its workers or jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct InState {
    pub(super) target: String,
    pub(super) state: &'static str,
}

/// A server behind this one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Dependency {
    pub(super) dependency: &'static str,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Ended {
    pub(super) target: String,
    pub(super) state: &'static str,
    pub(super) complete: &'static str,
}

/// Who reads a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfKind {
    pub(crate) kind: &'static str,
}

/// Of a figure that is not always there and has no labels.
pub(super) type NoLabels = [(&'static str, &'static str); 0];

/// Durations of requests.
pub(super) type Durations = Family<Asked, Histogram, fn() -> Histogram>;

/// A gauge of what is no whole number.
pub(super) type Fraction = Gauge<f64, AtomicU64>;

/// Durations.
pub(super) fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

/// All of them.
#[derive(Debug)]
pub(super) struct Families {
    pub(super) build: Family<Build, Gauge>,
    pub(super) requests: Family<Answered, Counter>,
    pub(super) durations: Durations,
    pub(super) in_flight: Gauge,
    pub(super) refused: Family<Reason, Counter>,
    pub(super) streams: Family<OfKind, Gauge>,
    pub(super) renders: Histogram,
    pub(super) audit_lag: Fraction,
    pub(super) watched: Gauge,
    pub(super) indexed: Gauge,
    pub(super) index_age: Fraction,
    pub(super) wanted: Family<Target, Gauge>,
    pub(super) asked: Family<Target, Gauge>,
    pub(super) live: Family<Target, Gauge>,
    pub(super) workers: Family<InState, Gauge>,
    pub(super) jobs: Family<InState, Gauge>,
    pub(super) waiting: Family<Target, Gauge>,
    pub(super) in_hand: Family<Target, Gauge>,
    pub(super) oldest_wait: Family<Target, Fraction>,
    pub(super) unwatched: Family<Target, Gauge>,
    pub(super) progress_age: Family<Target, Fraction>,
    pub(super) ended: Family<Ended, Counter>,
    pub(super) dependency: Family<Dependency, Gauge>,
    pub(super) dead_messages: Family<NoLabels, Gauge>,
    pub(super) ledger_memory: Family<NoLabels, Gauge>,
    pub(super) ledger_limit: Family<NoLabels, Gauge>,
}

impl Default for Families {
    fn default() -> Self {
        Self {
            build: Family::default(),
            requests: Family::default(),
            durations: Durations::new_with_constructor(histogram),
            in_flight: Gauge::default(),
            refused: Family::default(),
            streams: Family::default(),
            renders: histogram(),
            audit_lag: Gauge::default(),
            watched: Gauge::default(),
            indexed: Gauge::default(),
            index_age: Fraction::default(),
            wanted: Family::default(),
            asked: Family::default(),
            live: Family::default(),
            workers: Family::default(),
            jobs: Family::default(),
            waiting: Family::default(),
            in_hand: Family::default(),
            oldest_wait: Family::default(),
            unwatched: Family::default(),
            progress_age: Family::default(),
            ended: Family::default(),
            dependency: Family::default(),
            dead_messages: Family::default(),
            ledger_memory: Family::default(),
            ledger_limit: Family::default(),
        }
    }
}

impl Families {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("prs_build_info", "Which build of prs this is", self.build.clone());
        registry.register("prs_http_requests", "Requests that were answered", self.requests.clone());
        registry.register_with_unit(
            "prs_http_request_duration",
            "Time until the answer to a request began",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "prs_http_requests_in_flight",
            "Requests whose answer has not begun",
            self.in_flight.clone(),
        );
        registry.register(
            "prs_http_refused_requests",
            "Requests that were refused, by what was wrong with them",
            self.refused.clone(),
        );
        registry.register(
            "prs_live_streams",
            "Streams of events and of parts of pages that are open",
            self.streams.clone(),
        );
        registry.register_with_unit(
            "prs_audit_lag",
            "How long the oldest line of the audit has been waiting that is not stored",
            Unit::Seconds,
            self.audit_lag.clone(),
        );
        registry.register("prs_live_watched_jobs", "Jobs that are watched", self.watched.clone());
        registry.register_with_unit(
            "prs_live_render",
            "Time of a look at a watched job, until all that its watchers see is made",
            Unit::Seconds,
            self.renders.clone(),
        );
        registry.register("prs_job_index_jobs", "Jobs of the list in memory", self.indexed.clone());
        registry.register_with_unit(
            "prs_job_index_age",
            "How long ago this list was brought up to date; a server in front of a folder does so on demand",
            Unit::Seconds,
            self.index_age.clone(),
        );
        let of_target = [
            (
                "wanted_nodes",
                "Nodes that the jobs of a target can use now, those at work among them",
                &self.wanted,
            ),
            ("asked_nodes", "Nodes that the unfinished jobs of a target ask for altogether", &self.asked),
            ("live_nodes", "Nodes that serve jobs of a target", &self.live),
            ("waiting_mini_batches", "Mini-batches that are planned and that no node has", &self.waiting),
            ("in_flight_mini_batches", "Mini-batches that a node has", &self.in_hand),
            ("unwatched_jobs", "Jobs of a target that nobody watches over", &self.unwatched),
        ];
        for (name, help, family) in of_target {
            registry.register(format!("prs_target_{name}"), help, family.clone());
        }
        registry.register(
            "prs_target_workers",
            "Workers of a target, by what they are at",
            self.workers.clone(),
        );
        registry.register("prs_target_jobs", "Unfinished jobs of a target, by state", self.jobs.clone());
        registry.register_with_unit(
            "prs_target_oldest_wait",
            "How long the job that waits longest for a node has been waiting",
            Unit::Seconds,
            self.oldest_wait.clone(),
        );
        registry.register_with_unit(
            "prs_target_progress_age",
            "Time since the last outcome, or the first node, of the job of a target that has nodes and waits longest for one",
            Unit::Seconds,
            self.progress_age.clone(),
        );
        registry.register(
            "prs_target_ended_jobs",
            "Starts of jobs of a target that ended, since the ledger was empty last",
            self.ended.clone(),
        );
        registry.register(
            "prs_broker_dead_messages",
            "Messages that no node understood, in the queue prs.dead of the broker",
            self.dead_messages.clone(),
        );
        for (name, help, family) in [
            ("prs_ledger_memory", "Memory that the server of the ledger uses", &self.ledger_memory),
            ("prs_ledger_memory_limit", "Memory that it may use, where it has a limit", &self.ledger_limit),
        ] {
            registry.register_with_unit(name, help, Unit::Bytes, family.clone());
        }
        registry.register(
            "prs_dependency_up",
            "1 where the server behind this one answers, 0 where it does not",
            self.dependency.clone(),
        );
    }

    /// Forgets the figures of the fleet.
    pub(super) fn forget_fleet(&self) {
        for family in [&self.wanted, &self.asked, &self.live, &self.waiting, &self.in_hand, &self.unwatched] {
            family.clear();
        }
        self.workers.clear();
        self.jobs.clear();
        self.oldest_wait.clear();
        self.progress_age.clear();
        self.ended.clear();
        self.dependency.clear();
        for family in [&self.dead_messages, &self.ledger_memory, &self.ledger_limit] {
            family.clear();
        }
    }
}
