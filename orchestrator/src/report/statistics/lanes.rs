//! Lanes while they grow: how busy each process and each node was in each column, and where tries failed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use prs_common::segment::TryStatus;
use prs_common::statistics::{
    Activity, COLUMNS, Cells, Lane, LaneKind, MOST_LANES, MOST_NAMED_LANES, MOST_NODES, Marks, Pieces,
    RunningOn, TryRow,
};

use super::nodes::NodeTable;

/// A second, microseconds.
const SECOND: u64 = 1_000_000;

/// The columns of one lane.
#[derive(Debug, Clone, PartialEq)]
struct Columns {
    step_s: u32,
    cells: Vec<(u64, Marks)>,
    failed: u64,
}

impl Default for Columns {
    fn default() -> Self {
        Self { step_s: 1, cells: Vec::new(), failed: 0 }
    }
}

impl Columns {
    /// Makes room for a time since the beginning.
    fn reach(&mut self, since_us: u64) {
        while since_us / (u64::from(self.step_s) * SECOND) >= COLUMNS as u64 && self.double() {}
        let last = (since_us / (u64::from(self.step_s) * SECOND)).min(COLUMNS as u64 - 1) as usize;
        if last >= self.cells.len() {
            self.cells.resize(last + 1, (0, Marks::NONE));
        }
    }

    fn add(&mut self, origin_us: u64, from_us: u64, long_us: u64, marks: Marks) {
        let ended_us = from_us.saturating_add(long_us);
        let since_us = ended_us.saturating_sub(origin_us);
        self.reach(since_us);
        let step_us = u64::from(self.step_s) * SECOND;
        let pieces = Pieces::new(origin_us, step_us, COLUMNS, from_us, long_us);
        for (at, (before, after)) in pieces.clone() {
            self.cells[at].0 += pieces.share(long_us, after) - pieces.share(long_us, before);
        }
        if marks != Marks::NONE {
            let at = (since_us / step_us).min(COLUMNS as u64 - 1) as usize;
            self.cells[at].1 = self.cells[at].1 | marks;
            self.failed += 1;
        }
    }

    fn double(&mut self) -> bool {
        let Some(step) = self.step_s.checked_mul(2) else { return false };
        self.step_s = step;
        let merged = self.cells.chunks(2).map(|pair| {
            let more = pair.get(1).copied().unwrap_or((0, Marks::NONE));
            (pair[0].0 + more.0, pair[0].1 | more.1)
        });
        self.cells = merged.collect();
        true
    }

    /// Adds those of another lane.
    fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.step_s < other.step_s && self.double() {}
        while other.step_s < self.step_s && other.double() {}
        if self.cells.len() < other.cells.len() {
            self.cells.resize(other.cells.len(), (0, Marks::NONE));
        }
        for (cell, more) in self.cells.iter_mut().zip(&other.cells) {
            *cell = (cell.0 + more.0, cell.1 | more.1);
        }
        self.failed += other.failed;
    }
}

/// The lanes of a job.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    origin_us: u64,
    nodes: BTreeMap<u32, Columns>,
    /// The processes, while each has a lane of its own.
    processes: BTreeMap<(u32, u32), Columns>,
    are_too_many: bool,
}

impl Lanes {
    pub(super) fn new(origin_us: u64) -> Self {
        Self { origin_us, ..Self::default() }
    }

    /// Adds a try.
    pub(super) fn add(&mut self, row: &TryRow) {
        let marks = match row.status() {
            Some(TryStatus::RunDone) => Marks::NONE,
            Some(TryStatus::NodeLost) => Marks::FAILED | Marks::LOST,
            _ => Marks::FAILED,
        };
        let (origin_us, from_us, long_us) = (self.origin_us, row.started_us, row.elapsed_us);
        if self.nodes.len() < MOST_NODES || self.nodes.contains_key(&row.node_id) {
            self.nodes.entry(row.node_id).or_default().add(origin_us, from_us, long_us, marks);
        }
        if self.are_too_many {
            return;
        }
        self.processes.entry((row.node_id, row.process)).or_default().add(origin_us, from_us, long_us, marks);
        if self.processes.len() > MOST_LANES {
            self.are_too_many = true;
            self.processes.clear();
        }
    }

    /// The picture at a time, with what runs at that moment.
    pub(super) fn published(&self, table: &NodeTable, running: &[RunningOn], now_us: u64) -> Activity {
        let mut nodes = self.nodes.clone();
        for one in running {
            let long_us = now_us.saturating_sub(one.since_us);
            nodes.entry(one.node_id).or_default().add(self.origin_us, one.since_us, long_us, Marks::NONE);
        }
        let lane = |kind, (first_node, last_node), slots, columns: Columns, process| {
            let median_us = if first_node == last_node { table.median_us(first_node) } else { 0 };
            let lane = Lane {
                kind,
                process,
                first_node,
                last_node,
                slots,
                failed_tries: columns.failed,
                median_us,
                ..Lane::default()
            };
            (lane, columns)
        };
        let ids: BTreeSet<u32> = nodes.keys().copied().collect();
        let of = |id: u32| nodes.get(&id).cloned().unwrap_or_default();
        let mut lanes = Vec::new();
        if !self.are_too_many && ids.len() <= MOST_LANES && !self.processes.is_empty() {
            for ((node, process), columns) in &self.processes {
                let name = format!("process{process:03}");
                lanes.push(lane(LaneKind::Process, (*node, *node), 1, columns.clone(), name));
            }
        } else {
            let size = ids.len().div_ceil(MOST_LANES).max(1);
            let kind = if size == 1 { LaneKind::Node } else { LaneKind::Group };
            for group in ids.iter().copied().collect::<Vec<_>>().chunks(size) {
                let mut columns = Columns::default();
                for id in group {
                    columns.merge(&of(*id));
                }
                let slots = group.iter().map(|id| table.slots(*id)).sum();
                let ends = (group[0], group[group.len() - 1]);
                lanes.push(lane(kind, ends, slots, columns, String::new()));
            }
        }
        let mut named = Vec::new();
        if ids.len() > MOST_LANES / 4 {
            let half = MOST_NAMED_LANES / 2;
            let mut slow: Vec<_> = ids.iter().map(|id| (Reverse(table.median_us(*id)), *id)).collect();
            slow.sort_unstable();
            for (_, id) in slow.iter().take(half).filter(|(median, _)| median.0 > 0) {
                named.push(lane(LaneKind::Slow, (*id, *id), table.slots(*id), of(*id), String::new()));
            }
            let mut failing: Vec<_> = ids.iter().map(|id| (Reverse(of(*id).failed), *id)).collect();
            failing.sort_unstable();
            for (_, id) in failing.iter().take(half).filter(|(failed, _)| failed.0 > 0) {
                named.push(lane(LaneKind::Failing, (*id, *id), table.slots(*id), of(*id), String::new()));
            }
        }
        self.picture(lanes, named, now_us)
    }

    /// Brings all lanes to the same columns.
    fn picture(&self, lanes: Vec<(Lane, Columns)>, named: Vec<(Lane, Columns)>, now_us: u64) -> Activity {
        let mut all = Columns::default();
        lanes.iter().chain(&named).for_each(|(_, columns)| all.merge(columns));
        if !lanes.is_empty() {
            all.reach(now_us.saturating_sub(self.origin_us));
        }
        let (step_s, count) = (all.step_s, all.cells.len());
        let filled = |(mut lane, mut columns): (Lane, Columns)| {
            while columns.step_s < step_s && columns.double() {}
            columns.cells.resize(count, (0, Marks::NONE));
            let all_us = u64::from(step_s) * SECOND * u64::from(lane.slots.max(1));
            let mut cells = Cells::default();
            columns.cells.iter().for_each(|(busy_us, marks)| cells.push(*busy_us, all_us, *marks));
            lane.cells = cells;
            lane
        };
        Activity {
            written_us: now_us,
            origin_us: self.origin_us,
            step_s,
            columns: count as u32,
            lanes: lanes.into_iter().map(filled).collect(),
            named: named.into_iter().map(filled).collect(),
        }
    }
}
