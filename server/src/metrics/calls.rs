//! How often storage and ledger are called, with what result, and how long that takes.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use prs_common::calls::{Called, Calls};

use super::families::histogram;

/// A call of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: &'static str,
    result: &'static str,
}

/// A call of the storage.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
    result: &'static str,
}

/// Calls with these labels.
#[derive(Debug)]
struct Counted<L: Clone + Eq + std::hash::Hash> {
    requests: Family<L, Counter>,
    durations: Family<L, Histogram, fn() -> Histogram>,
}

impl<L: Clone + Eq + std::hash::Hash> Default for Counted<L> {
    fn default() -> Self {
        Self { requests: Family::default(), durations: Family::new_with_constructor(histogram) }
    }
}

impl<L: Clone + Eq + std::hash::Hash> Counted<L> {
    fn count(&self, labels: &L, after: Duration) {
        self.requests.get_or_create(labels).inc();
        self.durations.get_or_create(labels).observe(after.as_secs_f64());
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct CallCounts {
    ledger: Counted<Verb>,
    storage: Counted<Operation>,
}

impl CallCounts {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "prs_ledger_requests",
            "Calls of the ledger of the fleet, by verb and result",
            self.ledger.requests.clone(),
        );
        registry.register_with_unit(
            "prs_ledger_request_duration",
            "Time until a call of the ledger had its answer",
            Unit::Seconds,
            self.ledger.durations.clone(),
        );
        registry.register(
            "prs_storage_requests",
            "Calls of the storage of the fleet, by operation and result",
            self.storage.requests.clone(),
        );
        registry.register_with_unit(
            "prs_storage_request_duration",
            "Time until a call of the storage had its answer",
            Unit::Seconds,
            self.storage.durations.clone(),
        );
    }
}

impl Calls for CallCounts {
    fn ended(&self, called: Called, operation: &'static str, result: &'static str, after: Duration) {
        match called {
            Called::Ledger => self.ledger.count(&Verb { verb: operation, result }, after),
            Called::Storage => self.storage.count(&Operation { operation, result }, after),
        }
    }
}
