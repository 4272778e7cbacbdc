//! Which tries of a segment are told as spans, and what their spans say. They are made when the segment is committed, of what the
//! segment says: tries that failed or took long, ten a second at most, and a share of the others.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use prs_common::segment::{SegmentIndex, TryRecord, TryStatus};
use prs_common::timestamp::now_us;
use prs_common::traces::{self, Attribute, Failure, Span, SpanId, TraceId, TraceParent};
use prs_orchestrator::JobContext;

/// Tries that failed or took long and are told, in a second.
const REMARKABLE: f64 = 10.0;
/// Tries before it is known what is long.
const KNOWN_FROM: u64 = 100;
/// Bins of durations: eight for each doubling of microseconds.
const BINS: usize = 64 * 8;

/// Chooses the tries of a node.
#[derive(Debug)]
pub(crate) struct Choice(Mutex<Chosen>);

#[derive(Debug)]
struct Chosen {
    /// How many tries took how long.
    durations: Vec<u64>,
    count: u64,
    /// Remarkable ones that may be told now.
    allowance: f64,
    since: Instant,
}

/// A try that is told once it is committed.
#[derive(Debug)]
pub(crate) struct ToldTry {
    trace: TraceId,
    id: SpanId,
    started_us: u64,
    load_us: u64,
    run_us: u64,
    attributes: Vec<(&'static str, Attribute)>,
    failure: Option<Failure>,
}

impl Default for Choice {
    fn default() -> Self {
        Self(Mutex::new(Chosen {
            durations: Vec::new(),
            count: 0,
            allowance: REMARKABLE,
            since: Instant::now(),
        }))
    }
}

impl Choice {
    /// Those of a segment that are told; none while no spans are sent.
    pub(crate) fn of(&self, job: &JobContext, index: &SegmentIndex) -> Vec<ToldTry> {
        if !traces::is_on() {
            return Vec::new();
        }
        let mut chosen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, ratio) = (Instant::now(), traces::ratio());
        let told = index.tries.iter().filter(|record| record.put_together().is_none()).filter_map(|record| {
            let trace = TraceId::of_mini_batch(&job.id, record.index);
            let failed = record.status != TryStatus::RunDone;
            chosen
                .wants(failed, record.elapsed_us, trace, ratio, now)
                .then(|| told(job, index, record, trace))
        });
        told.collect()
    }
}

impl Chosen {
    fn wants(&mut self, failed: bool, elapsed_us: u64, trace: TraceId, ratio: f64, now: Instant) -> bool {
        let is_remarkable = failed | self.is_slow(elapsed_us);
        if trace.place() < ratio {
            return true;
        }
        self.allowance += now.saturating_duration_since(self.since).as_secs_f64() * REMARKABLE;
        self.allowance = self.allowance.min(REMARKABLE);
        self.since = now;
        let may = is_remarkable && self.allowance >= 1.0;
        if may {
            self.allowance -= 1.0;
        }
        may
    }

    /// Whether 99 of 100 tries before took less; notes this one.
    fn is_slow(&mut self, elapsed_us: u64) -> bool {
        self.durations.resize(BINS, 0);
        let bin = bin(elapsed_us);
        let as_long: u64 = self.durations[bin..].iter().sum();
        let is_slow = self.count >= KNOWN_FROM && as_long * 100 < self.count;
        self.durations[bin] += 1;
        self.count += 1;
        is_slow
    }
}

fn bin(us: u64) -> usize {
    let us = us.max(8);
    let doublings = us.ilog2();
    (doublings as usize * 8 + (us >> (doublings - 3) & 7) as usize).min(BINS - 1)
}

fn told(job: &JobContext, index: &SegmentIndex, record: &TryRecord, trace: TraceId) -> ToldTry {
    let process = index.processes.get(record.process as usize);
    let attributes = vec![
        ("prs.job_id", job.id.as_str().into()),
        ("prs.mini_batch", record.index.into()),
        ("prs.try", record.number.into()),
        ("prs.node_id", index.node_id.into()),
        ("prs.process", process.map_or("", |process| &process.name).into()),
        ("prs.items", record.items.into()),
        ("prs.status", record.status.as_str().into()),
    ];
    let failure = (record.status != TryStatus::RunDone)
        .then(|| Failure { class: record.category.clone(), message: record.message.clone() });
    ToldTry {
        trace,
        id: SpanId::named(trace, &format!("{} {} {}", index.incarnation, record.number, record.started_us)),
        started_us: record.started_us,
        load_us: record.load_us,
        run_us: record.run_us,
        attributes,
        failure,
    }
}

/// Tells tries whose segment was stored from `stored_us` on and is committed now.
pub(crate) fn tell(job: &JobContext, tries: Vec<ToldTry>, stored_us: u64) {
    let (now, job) = (now_us(), TraceParent::of_job(&job.id, job.incarnation));
    for one in tries {
        let ToldTry { trace, id, started_us, load_us, run_us, attributes, failure } = one;
        let loaded_us = started_us.saturating_add(load_us);
        let parts = [
            ("load", (started_us, loaded_us), load_us),
            ("run", (loaded_us, loaded_us.saturating_add(run_us)), run_us),
            ("commit", (stored_us, now), 1),
        ];
        for (name, time_us, length) in parts {
            if length > 0 {
                traces::send(|| {
                    let span = Span::new(trace, name, time_us).within(id);
                    Span { id: SpanId::named(trace, &format!("{id} {name}")), ..span }
                });
            }
        }
        traces::send(|| Span {
            id,
            attributes,
            failure,
            link: Some(job),
            ..Span::new(trace, "mini_batch", (started_us, now))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn chosen() -> Chosen {
        let choice = Choice::default();
        choice.0.into_inner().unwrap()
    }

    #[test]
    fn a_share_is_told_and_ten_remarkable_ones_a_second() {
        let (mut chosen, now) = (chosen(), Instant::now());
        chosen.since = now;
        let trace = |index| TraceId::of_mini_batch("j", index);
        let count = |chosen: &mut Chosen, failed, ratio, now| {
            (0..1000).filter(|index| chosen.wants(failed, 1000, trace(*index), ratio, now)).count()
        };
        assert_eq!(count(&mut chosen, false, 0.0, now), 0);
        assert_eq!(count(&mut chosen, true, 0.0, now), 10);
        assert_eq!(count(&mut chosen, true, 0.0, now + Duration::from_millis(500)), 5);
        assert_eq!(count(&mut chosen, true, 0.0, now + Duration::from_mins(1)), 10);
        assert_eq!(count(&mut chosen, false, 1.0, now), 1000);
        let share = count(&mut chosen, false, 0.1, now);
        assert!((60..140).contains(&share), "{share}");
    }

    #[test]
    fn slow_is_what_one_of_a_hundred_is() {
        let mut chosen = chosen();
        for tries in 0..KNOWN_FROM {
            assert!(!chosen.is_slow(if tries == 50 { 9_000_000 } else { 1000 }), "{tries}");
        }
        for _ in 0..200 {
            assert!(!chosen.is_slow(1000));
        }
        assert!(chosen.is_slow(2_000_000));
        // When many are so, none is remarkable.
        assert!((0..100).filter(|_| chosen.is_slow(2_000_000)).count() < 5);
        for us in [0, 1, 7, 8, 9, 1_000, u64::MAX] {
            assert!(bin(us) < BINS);
        }
        assert!(bin(1000) < bin(1200) && bin(1200) < bin(2000));
    }
}
