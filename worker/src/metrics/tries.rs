//! The tries of one segment, between its sealing and its commit: what is needed to count them, and no more.

use std::collections::HashSet;
use std::sync::Arc;

use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::{SegmentIndex, TryRecord, TryStatus};

use super::target::OfTarget;

/// Tries that are counted once their segment is committed.
#[derive(Debug)]
pub(crate) struct CountedTries {
    of: Arc<OfTarget>,
    tries: Vec<CountedTry>,
}

#[derive(Debug)]
struct CountedTry {
    index: MiniBatchIndex,
    /// Absent where no process ran it.
    status: Option<TryStatus>,
    /// Whether it is the outcome of its mini-batch.
    last: bool,
    items: u64,
    succeeded: u64,
    run_us: u64,
    load_us: u64,
}

impl CountedTry {
    fn of(record: &TryRecord) -> Self {
        let &TryRecord { index, last, items, succeeded, run_us, load_us, .. } = record;
        let status = record.put_together().is_none().then_some(record.status);
        Self { index, status, last, items, succeeded, run_us, load_us }
    }

    /// Whether it came to `run()`.
    fn ran(&self) -> bool {
        match self.status {
            Some(TryStatus::RunDone | TryStatus::RunException | TryStatus::RunTimeout) => true,
            Some(TryStatus::ProcessDied) => self.run_us > 0,
            Some(TryStatus::LoadException | TryStatus::LoadTimeout | TryStatus::NodeLost) | None => false,
        }
    }
}

impl CountedTries {
    pub(super) fn new(of: Arc<OfTarget>, index: &SegmentIndex) -> Self {
        Self { of, tries: index.tries.iter().map(CountedTry::of).collect() }
    }

    /// Counts them; the items of `duplicates`, mini-batches that had their outcome already, count where that came from.
    pub(crate) fn count(self, duplicates: &[MiniBatchIndex]) {
        let of = &*self.of;
        let duplicates: HashSet<_> = duplicates.iter().collect();
        for one in &self.tries {
            let at = TryStatus::ALL.iter().position(|status| Some(*status) == one.status);
            if let Some(counter) = at.and_then(|at| of.tries.get(at)) {
                counter.inc();
            }
            if one.ran() {
                of.run.observe(one.run_us as f64 / 1e6);
            }
            // The process that could tell is gone with its node.
            if one.status.is_some_and(|status| status != TryStatus::NodeLost) {
                of.load.observe(one.load_us as f64 / 1e6);
            }
            if one.last && !duplicates.contains(&one.index) {
                of.succeeded.inc_by(one.succeeded);
                of.failed.inc_by(one.items.saturating_sub(one.succeeded));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prs_common::segment::{ProcessRef, SegmentBuilder};

    use super::super::Metrics;
    use super::*;

    fn record(index: MiniBatchIndex, status: TryStatus, last: bool) -> TryRecord {
        let succeeded = if status == TryStatus::RunDone { 3 } else { 0 };
        TryRecord {
            index,
            status,
            last,
            items: 4,
            succeeded,
            run_us: 2_000,
            load_us: 500,
            ..Default::default()
        }
    }

    #[test]
    fn tries_count_by_status_and_items_by_their_outcome() {
        let metrics = Metrics::counted(&["default".to_owned()]);
        let mut builder = SegmentBuilder::default();
        for record in [
            record(0, TryStatus::RunException, false),
            record(0, TryStatus::RunDone, true),
            record(1, TryStatus::LoadException, true),
            record(2, TryStatus::RunDone, true),
            record(3, TryStatus::NodeLost, true),
        ] {
            builder.add(record, &ProcessRef::default(), Bytes::new());
        }
        let (_, index) = builder.seal("key", 1, 0, "ip");
        metrics.of_target("default").tries(&index).unwrap().count(&[2]);
        let text = metrics.text();
        for line in [
            "prs_worker_tries_total{target=\"default\",status=\"RUN_DONE\"} 2",
            "prs_worker_tries_total{target=\"default\",status=\"RUN_EXCEPTION\"} 1",
            "prs_worker_tries_total{target=\"default\",status=\"LOAD_EXCEPTION\"} 1",
            "prs_worker_tries_total{target=\"default\",status=\"NODE_LOST\"} 1",
            "prs_worker_items_total{target=\"default\",result=\"succeeded\"} 3",
            "prs_worker_items_total{target=\"default\",result=\"failed\"} 9",
            "prs_worker_run_duration_seconds_count{target=\"default\"} 3",
            "prs_worker_load_duration_seconds_count{target=\"default\"} 4",
            "prs_worker_run_duration_seconds_bucket{le=\"0.001\",target=\"default\"} 0",
            "prs_worker_run_duration_seconds_bucket{le=\"0.003\",target=\"default\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing:\n{text}");
        }
    }
}
