//! What a worker counts of the jobs of one compute target.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prs_common::segment::{SegmentIndex, TryStatus};

use super::family::{Families, Item, Start, Target, Try};
use super::{CountedTries, StartReason};

/// What is counted of the jobs of one target, or nothing. Cheap to clone; clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct TargetMetrics(Option<Arc<OfTarget>>);

/// The metrics with the label of one target.
#[derive(Debug)]
pub(super) struct OfTarget {
    /// In the order of [`TryStatus::ALL`].
    pub(super) tries: [Counter; TryStatus::ALL.len()],
    pub(super) succeeded: Counter,
    pub(super) failed: Counter,
    pub(super) run: Histogram,
    pub(super) load: Histogram,
    init: Histogram,
    slots: Gauge,
    busy: Gauge,
    started: [(StartReason, Counter); StartReason::ALL.len()],
    serving: Gauge,
}

impl OfTarget {
    /// Those with the label `name`, from 0 on.
    pub(super) fn new(families: &Families, name: &str) -> Self {
        let label = Target { target: name.to_owned() };
        let target = || name.to_owned();
        let item = |result| families.items.get_or_create_owned(&Item { target: target(), result });
        Self {
            tries: TryStatus::ALL.map(|status| {
                families.tries.get_or_create_owned(&Try { target: target(), status: status.as_str() })
            }),
            succeeded: item("succeeded"),
            failed: item("failed"),
            run: families.run.get_or_create_owned(&label),
            load: families.load.get_or_create_owned(&label),
            init: families.init.get_or_create_owned(&label),
            slots: families.slots.get_or_create_owned(&label),
            busy: families.busy.get_or_create_owned(&label),
            started: StartReason::ALL.map(|reason| {
                let label = Start { target: target(), reason: reason.as_str() };
                (reason, families.started.get_or_create_owned(&label))
            }),
            serving: families.serving.get_or_create_owned(&label),
        }
    }
}

impl TargetMetrics {
    pub(super) fn new(metrics: OfTarget) -> Self {
        Self(Some(Arc::new(metrics)))
    }

    /// Counts the worker as one that serves a job, until the answer is dropped.
    pub(crate) fn serves(&self) -> Serving {
        if let Some(of) = &self.0 {
            of.serving.inc();
        }
        Serving(self.clone())
    }

    /// Notes how many processes a node may run, until the answer is dropped.
    pub(crate) fn has_slots(&self, slots: u32) -> Slots {
        if let Some(of) = &self.0 {
            of.slots.set(slots.into());
        }
        Slots(self.clone())
    }

    /// Notes how many of them have a mini-batch.
    pub(crate) fn busy(&self, slots: usize) {
        if let Some(of) = &self.0 {
            of.busy.set(slots as i64);
        }
    }

    /// Counts a process that was started.
    pub(crate) fn process_started(&self, reason: StartReason) {
        if let Some((_, counter)) = self.0.iter().flat_map(|of| &of.started).find(|(one, _)| *one == reason) {
            counter.inc();
        }
    }

    /// Counts a process that became ready after so many seconds.
    pub(crate) fn initialized(&self, seconds: f64) {
        if let Some(of) = &self.0 {
            of.init.observe(seconds);
        }
    }

    /// The tries of a segment, to be counted when it is committed.
    pub(crate) fn tries(&self, index: &SegmentIndex) -> Option<CountedTries> {
        self.0.as_ref().map(|of| CountedTries::new(Arc::clone(of), index))
    }
}

/// Counts a worker as one that serves a job.
#[derive(Debug)]
pub(crate) struct Serving(TargetMetrics);

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(of) = &self.0.0 {
            of.serving.dec();
        }
    }
}

/// The slots of a node.
#[derive(Debug)]
pub(crate) struct Slots(TargetMetrics);

impl Drop for Slots {
    fn drop(&mut self) {
        if let Some(of) = &self.0.0 {
            of.slots.set(0);
            of.busy.set(0);
        }
    }
}
