//! The statistics of a job: aggregates of bounded size over all its tries and all its nodes (see
//! [`prs_common::statistics`]), and how they become the parts that are published.
//!
//! Two streams fill them. [`Statistics::add`] takes in the tries of committed segments, each once and in the order of their
//! commits, with the catalog: who takes a job over follows the same segments and has the same sums. [`Statistics::observe`]
//! takes in what nodes say; that is in no segment, so a successor begins with what was [published](restore) last. Neither
//! asks a server, waits, or can fail a job.

mod errors;
mod files;
mod lanes;
mod nodes;
mod parts;
mod published;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use prs_common::layout;
use prs_common::ledger::{MOST_DETAIL, NodeView};
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::{SegmentIndex, TryRecord, TryStatus};
use prs_common::statistics::{
    FormerStart, Histogram, MOST_RECENT, MOST_SLOWEST, PlanMap, RunningOn, Timeline, TryRow, cut,
};

use self::errors::ErrorGroups;
use self::lanes::Lanes;
use self::nodes::NodeTable;

pub use self::errors::group_id_of;
pub(crate) use self::files::{Pace, StatisticsFiles};
pub(crate) use self::parts::Standing;
pub(crate) use self::published::PublishedParts;
pub use self::published::read;

/// Mini-batches with a failed try and no outcome that are told apart.
const MOST_OPEN: usize = 100_000;
/// Starts before the present one that are told apart; older ones are in the totals.
const MOST_FORMER: usize = 1_000;
/// Between two counts that rates are made of, microseconds.
const COUNTED: u64 = 1_000_000;
/// Counts that are kept: ten minutes of them, and one.
const COUNTS: usize = 601;
/// A longer pause between two looks says nothing of what nodes did in it, microseconds.
const LONGEST_LOOK: u64 = 30_000_000;

/// Tries, as totals of all starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// By how they ended, in the order of [`TryStatus::ALL`].
    pub(crate) by_status: [u64; TryStatus::ALL.len()],
    /// Elements that outcomes returned.
    pub(crate) rows: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
    /// Mini-batches of the present start whose first try failed.
    pub(crate) retried: u64,
}

impl Totals {
    /// All tries.
    pub(crate) fn tries(&self) -> u64 {
        self.by_status.iter().sum()
    }

    /// Tries that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.tries() - self.by_status[TryStatus::RunDone as usize]
    }
}

/// The counts at an instant.
#[derive(Debug, Clone, Copy)]
struct Count {
    at_us: u64,
    ended: u64,
    items: u64,
}

/// Limits of a job: of failed items, of failed mini-batches, and of their share.
const LIMITS: usize = 3;

/// The aggregates.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    incarnation: u32,
    totals: Totals,
    timeline: Timeline,
    run: Histogram,
    load: Histogram,
    whole: Histogram,
    plan: PlanMap,
    /// By duration and place, the shortest first.
    slowest: BTreeSet<Slow>,
    recent: VecDeque<TryRow>,
    former: BTreeMap<u32, FormerStart>,
    errors: ErrorGroups,
    lanes: Lanes,
    nodes: NodeTable,
    /// Mini-batches with a failed try, and without an outcome.
    open: HashSet<MiniBatchIndex>,
    followed: u64,
    last_outcome_us: u64,
    running: Vec<RunningOn>,
    counts: VecDeque<Count>,
    looked_us: Option<u64>,
    /// Since when each limit of the job is nearly reached; 0 where it is not.
    near_us: [u64; LIMITS],
}

/// A slow try: those that take as long are told apart by their place in the job, so that the order in which they come does not
/// matter.
#[derive(Debug, Clone, PartialEq)]
struct Slow(TryRow);

impl Slow {
    fn key(&self) -> (u64, u64, u64, u32, u32) {
        let TryRow { elapsed_us, started_us, index, number, node_id, .. } = self.0;
        (elapsed_us, u64::MAX - started_us, u64::MAX - index, number, node_id)
    }
}

impl Eq for Slow {}

impl Ord for Slow {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Slow {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The number of a process on its node: `processNNN`.
fn process_number(name: &str) -> u32 {
    let digits = name.trim_start_matches(|each: char| !each.is_ascii_digit());
    digits.parse().unwrap_or_default()
}

impl Statistics {
    /// Of this start of a job, which began at a time.
    pub(crate) fn new(incarnation: u32, started_us: u64) -> Self {
        Self {
            incarnation,
            timeline: Timeline::new(started_us),
            errors: ErrorGroups::new(started_us),
            lanes: Lanes::new(started_us),
            ..Self::default()
        }
    }

    /// Takes in the tries of a segment; `is_outcome` says of each whether it is the outcome of its mini-batch.
    pub(crate) fn add(&mut self, index: &SegmentIndex, is_outcome: impl Fn(&TryRecord) -> bool) {
        self.followed += 1;
        let clock_us = self.nodes.clock_us(index.node_id);
        let numbers: Vec<u32> = index.processes.iter().map(|process| process_number(&process.name)).collect();
        let is_present = index.incarnation == self.incarnation;
        let is_carried = layout::is_carried(&index.key);
        for record in &index.tries {
            let started_us = record.started_us.saturating_add_signed(-clock_us);
            let is_outcome = is_outcome(record);
            if !is_carried && record.put_together().is_none() {
                self.totals.by_status[record.status as usize] += 1;
            }
            self.count(record, is_outcome);
            if record.status != TryStatus::RunDone || (is_outcome && !record.is_whole()) {
                self.errors.add(index, record, started_us, is_outcome);
            }
            if is_carried {
                // The try counted with its own start; here it is an outcome and nothing else.
            } else if is_present {
                let process = numbers.get(record.process as usize).copied().unwrap_or_default();
                self.add_present(record, is_outcome, (index.node_id, process), started_us);
            } else {
                self.add_former(index.incarnation, record, is_outcome, started_us);
            }
        }
    }

    /// What of an outcome counts whatever the start it is of.
    fn count(&mut self, record: &TryRecord, is_outcome: bool) {
        if !is_outcome {
            return;
        }
        let cell = self.plan.at(record.index);
        if record.status == TryStatus::RunDone {
            cell.succeeded += 1;
            self.totals.rows += record.returned;
            self.totals.bytes += record.length;
        } else {
            cell.failed += 1;
        }
    }

    fn add_present(
        &mut self,
        record: &TryRecord,
        is_outcome: bool,
        (node_id, process): (u32, u32),
        started_us: u64,
    ) {
        let TryRecord { elapsed_us, cpu_us, run_us, load_us, .. } = *record;
        let succeeded = record.status == TryStatus::RunDone;
        let has_run = record.put_together().is_none();
        let ended_us = started_us.saturating_add(elapsed_us);
        let other_us = elapsed_us.saturating_sub(run_us).saturating_sub(load_us);
        let amounts = [run_us, cpu_us, load_us, other_us];
        self.timeline.spread(started_us, elapsed_us, amounts, |bucket, [run, cpu, load, other]| {
            bucket.run_us += run;
            bucket.cpu_us += cpu;
            bucket.load_us += load;
            bucket.other_us += other;
        });
        let bucket = self.timeline.at(ended_us);
        if succeeded && has_run {
            self.run.add(run_us);
            self.load.add(load_us);
            self.whole.add(elapsed_us);
        } else if !succeeded {
            bucket.failed_tries += 1;
            bucket.node_losses += u64::from(record.status == TryStatus::NodeLost);
            if record.number == 1 && !record.last {
                self.totals.retried += 1;
                self.plan.at(record.index).retried += 1;
            }
        }
        if is_outcome {
            bucket.succeeded += u64::from(succeeded);
            bucket.failed += u64::from(!succeeded);
            bucket.items += record.items;
            bucket.rows += record.returned;
            bucket.bytes += record.length;
            self.last_outcome_us = self.last_outcome_us.max(ended_us);
            if !self.open.is_empty() {
                self.open.remove(&record.index);
            }
        } else if !succeeded && self.open.len() < MOST_OPEN {
            self.open.insert(record.index);
        }
        if !has_run {
            return;
        }
        let row = TryRow {
            index: record.index,
            number: record.number,
            status: record.status as u8,
            node_id,
            process,
            started_us,
            elapsed_us,
            run_us,
            load_us,
            is_outcome,
        };
        self.lanes.add(&row);
        self.nodes.add(&row, record);
        self.add_slow(&row);
        if self.recent.len() == MOST_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(row);
    }

    fn add_slow(&mut self, row: &TryRow) {
        let is_full = self.slowest.len() >= MOST_SLOWEST;
        if is_full && self.slowest.first().is_some_and(|least| row.elapsed_us < least.0.elapsed_us) {
            return;
        }
        self.slowest.insert(Slow(row.clone()));
        if self.slowest.len() > MOST_SLOWEST {
            self.slowest.pop_first();
        }
    }

    fn add_former(&mut self, incarnation: u32, record: &TryRecord, is_outcome: bool, started_us: u64) {
        if !self.former.contains_key(&incarnation) && self.former.len() >= MOST_FORMER {
            return;
        }
        let new = || FormerStart { incarnation, first_us: started_us, ..FormerStart::default() };
        let former = self.former.entry(incarnation).or_insert_with(new);
        former.tries += 1;
        former.failed_tries += u64::from(record.status != TryStatus::RunDone);
        former.succeeded += u64::from(is_outcome);
        former.first_us = former.first_us.min(started_us);
        former.last_us = former.last_us.max(started_us.saturating_add(record.elapsed_us));
        former.run_us += record.run_us;
    }

    /// A segment that is damaged was followed; nothing in it counts.
    pub(crate) fn skip(&mut self) {
        self.followed += 1;
    }

    /// Takes in what nodes say at a look, and how many mini-batches, and items of them, have their outcome.
    pub(crate) fn observe(&mut self, nodes: &[NodeView], seen: Seen, now_us: u64) {
        self.nodes.observe(nodes, now_us);
        let present = nodes.iter().filter(|node| !node.left);
        let sum = |of: fn(&NodeView) -> u64| present.clone().map(of).sum::<u64>();
        let slots = sum(|node| u64::from(node.info.slots));
        let busy = sum(|node| u64::from(node.report.busy.min(node.info.slots)));
        let init = sum(|node| u64::from(node.report.starting.min(node.info.slots)));
        let in_hand = sum(|node| node.report.in_hand);
        let since_us = self.looked_us.replace(now_us).unwrap_or(now_us);
        let long_us = now_us.saturating_sub(since_us);
        if (1..=LONGEST_LOOK).contains(&long_us) {
            // A node that finds out twice that a process is busy does not have it twice.
            let amounts = [slots, busy.min(slots), init.min(slots.saturating_sub(busy))];
            let amounts = amounts.map(|count| count.saturating_mul(long_us));
            self.timeline.spread(since_us, long_us, amounts, |bucket, [slots, busy, init]| {
                bucket.slots_us += slots;
                bucket.busy_us += busy;
                bucket.init_us += init;
            });
        }
        let open = seen.scheduled.saturating_sub(seen.ended);
        let bucket = self.timeline.at(now_us);
        bucket.looks += 1;
        bucket.in_flight = in_hand.min(open);
        bucket.waiting = open.saturating_sub(in_hand);
        bucket.nodes = present.clone().count() as u64;
        bucket.processes = sum(|node| u64::from(node.report.processes));
        self.running = longest(nodes, now_us);
        let is_due = self.counts.back().is_none_or(|last| now_us.saturating_sub(last.at_us) >= COUNTED);
        if is_due {
            if self.counts.len() == COUNTS {
                self.counts.pop_front();
            }
            self.counts.push_back(Count { at_us: now_us, ended: seen.ended, items: seen.items });
        }
    }
}

/// The counts of the ledger, at a look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Mini-batches that are planned.
    pub(crate) scheduled: u64,
    /// Those with an outcome.
    pub(crate) ended: u64,
    /// Items of those.
    pub(crate) items: u64,
}

/// What runs longest on nodes that are there, the longest first.
fn longest(nodes: &[NodeView], now_us: u64) -> Vec<RunningOn> {
    let of = |node: &NodeView| {
        let node_id = node.node_id;
        let told_us = now_us.saturating_sub(node.silent.as_micros() as u64);
        let since = move |age_ms: u64| told_us.saturating_sub(age_ms.saturating_mul(1_000));
        let tries = node.report.longest.clone();
        tries.into_iter().map(move |one| RunningOn {
            index: one.index,
            node_id,
            since_us: since(one.age_ms),
            number: one.number,
            process: one.process,
            detail: cut(&one.detail, MOST_DETAIL).to_owned(),
            printed_from: one.printed_from,
        })
    };
    let mut running: Vec<_> = nodes.iter().filter(|node| !node.left).flat_map(of).collect();
    running.sort_by_key(|one| (one.since_us, one.index));
    running.truncate(prs_common::statistics::MOST_RUNNING);
    running
}
