//! The nodes of a job: what their tries add up to, what they say of themselves, and how far their clocks are.

use std::collections::BTreeMap;
use std::time::Duration;

use prs_common::ledger::{MOST_KILLED_FOR, MOST_LONGEST, MOST_PROCESSES, NodeView, ProcessExit, ProcessView};
use prs_common::segment::{TryRecord, TryStatus};
use prs_common::statistics::{
    Histogram, MOST_NODES, MOST_PROCESSES_OF_ALL, NodeRow, NodeState, Nodes, RunsHere, TryRow, cut, node_bin,
};

use super::errors::rmp_size;

/// A clock that is ahead or behind by less is right, microseconds.
const RIGHT: u64 = 2_000_000;
/// Clocks are told in whole seconds: a message takes its time.
const SECOND: i64 = 1_000_000;
/// Longest name of a worker, bytes.
const WORKER: usize = 48;
/// Longest name of a host, an address or a version, bytes.
const HOST: usize = 32;
/// Longest other text, bytes.
const TEXT: usize = 120;
/// Room that an encoded table takes beside its rows, bytes.
const MARGIN: usize = 64;

/// What is known of a node.
#[derive(Debug, Clone, Default)]
struct Node {
    /// What is of tries, and what the node said last.
    row: NodeRow,
    run: Histogram,
    bins: Vec<u64>,
}

impl Node {
    fn add(&mut self, row: &TryRow, record: &TryRecord) {
        let sums = &mut self.row;
        sums.tries += 1;
        sums.items += record.succeeded;
        sums.busy_us += row.elapsed_us;
        sums.run_us += row.run_us;
        sums.cpu_us += record.cpu_us;
        sums.load_us += row.load_us;
        let is_first = sums.first_us == 0 || row.started_us < sums.first_us;
        sums.first_us = if is_first { row.started_us } else { sums.first_us };
        if record.status == TryStatus::RunDone {
            self.run.add(row.run_us);
            let bin = node_bin(row.run_us);
            if bin >= self.bins.len() {
                self.bins.resize(bin + 1, 0);
            }
            self.bins[bin] += 1;
        } else {
            sums.failed_tries += 1;
        }
    }

    fn merge(&mut self, other: &Self) {
        let (sums, more) = (&mut self.row, &other.row);
        sums.tries += more.tries;
        sums.failed_tries += more.failed_tries;
        sums.items += more.items;
        sums.busy_us += more.busy_us;
        sums.run_us += more.run_us;
        sums.cpu_us += more.cpu_us;
        sums.load_us += more.load_us;
        sums.slots += more.slots;
        sums.processes += more.processes;
        sums.starting += more.starting;
        sums.in_hand += more.in_hand;
        sums.busy += more.busy;
        sums.init_failures += more.init_failures;
        sums.heard_us = sums.heard_us.max(more.heard_us);
        sums.of += more.of;
        self.run.merge(&other.run);
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        self.bins.iter_mut().zip(&other.bins).for_each(|(sum, more)| *sum += more);
    }

    /// Its row, with as many of its processes.
    fn published(&self, processes: usize) -> NodeRow {
        let quantile = |share| self.run.quantile_us(share).unwrap_or_default();
        NodeRow {
            median_us: quantile(0.5),
            p95_us: quantile(0.95),
            bins: self.bins.clone(),
            of: self.row.of.max(1),
            each_process: ProcessView::bounded(self.row.each_process.iter().cloned(), processes),
            ..self.row.clone()
        }
    }
}

/// The nodes.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    nodes: BTreeMap<u32, Node>,
    /// Those that came when there were too many.
    rest: Node,
    /// Clocks, by name of the worker as this node.
    clocks: BTreeMap<u32, (String, i64)>,
}

impl NodeTable {
    fn at(&mut self, node_id: u32) -> &mut Node {
        if self.nodes.len() >= MOST_NODES && !self.nodes.contains_key(&node_id) {
            return &mut self.rest;
        }
        let node = self.nodes.entry(node_id).or_default();
        node.row.node_id = node_id;
        node
    }

    /// Adds a try.
    pub(super) fn add(&mut self, row: &TryRow, record: &TryRecord) {
        self.at(row.node_id).add(row, record);
    }

    /// How far the clock of a node is ahead, microseconds.
    pub(super) fn clock_us(&self, node_id: u32) -> i64 {
        self.clocks.get(&node_id).map_or(0, |(_, clock_us)| *clock_us)
    }

    /// Goes on from how far the clock of a node was ahead when that was told last.
    pub(super) fn set_clock(&mut self, node_id: u32, worker: &str, clock_us: i64) {
        self.clocks.insert(node_id, (worker.to_owned(), clock_us));
    }

    /// Median of `run()` on a node, microseconds; 0 where it is not known.
    pub(super) fn median_us(&self, node_id: u32) -> u64 {
        self.nodes.get(&node_id).and_then(|node| node.run.quantile_us(0.5)).unwrap_or_default()
    }

    /// The slots of a node.
    pub(super) fn slots(&self, node_id: u32) -> u32 {
        self.nodes.get(&node_id).map_or(0, |node| node.row.slots)
    }

    /// Takes in what nodes say.
    pub(super) fn observe(&mut self, nodes: &[NodeView], now_us: u64) {
        for view in nodes {
            let NodeView { node_id, info, report, silent, left } = view;
            let heard_us = now_us.saturating_sub(micros(*silent));
            let worker = cut(&info.worker, WORKER);
            if report.now_us > 0 && self.clocks.get(node_id).is_none_or(|(known, _)| known != worker) {
                let ahead = ahead_us(report.now_us, heard_us);
                self.clocks.insert(*node_id, (worker.to_owned(), ahead));
            }
            let clock_us = self.clock_us(*node_id);
            if self.nodes.len() >= MOST_NODES && !self.nodes.contains_key(node_id) {
                continue;
            }
            let row = &mut self.at(*node_id).row;
            // Nodes that were not heard of are said to have left: those that say so themselves have nothing in hand.
            row.state = match (left, report.in_hand) {
                (false, _) => NodeState::Present,
                (true, 0) => NodeState::Left,
                (true, _) => NodeState::Lost,
            };
            row.slots = info.slots;
            row.busy = if *left { 0 } else { report.busy.min(info.slots) };
            row.gave_up = report.gave_up;
            let told = report.longest.iter().take(if *left { 0 } else { MOST_LONGEST });
            row.longest = told
                .map(|one| RunsHere {
                    index: one.index,
                    since_us: heard_us.saturating_sub(one.age_ms.saturating_mul(1_000)),
                    process: one.process,
                })
                .collect();
            row.each_process =
                report.each_process.iter().take(MOST_PROCESSES).map(|one| moved(one, clock_us)).collect();
            (row.processes, row.starting) = (report.processes, report.starting);
            (row.in_hand, row.init_failures) = (report.in_hand, report.init_failures);
            (row.heard_us, row.clock_us) = (heard_us, clock_us);
            set(&mut row.worker, worker);
            set(&mut row.instance, cut(&info.instance, WORKER));
            set(&mut row.host, cut(&info.host, HOST));
            set(&mut row.ip, cut(&info.ip, HOST));
            set(&mut row.version, cut(&info.version, HOST));
            set(&mut row.preparing, cut(report.preparing.as_deref().unwrap_or_default(), TEXT));
            set(&mut row.fatal, cut(report.fatal.as_deref().unwrap_or_default(), TEXT));
        }
    }

    /// The rows, as far as there is room; the least active nodes are one row then.
    pub(super) fn published(&self, written_us: u64, room: usize) -> Nodes {
        let mut rest = self.rest.clone();
        let processes = (MOST_PROCESSES_OF_ALL / self.nodes.len().max(1)).min(MOST_PROCESSES);
        let mut rows: Vec<_> = self.nodes.values().map(|node| (node.published(processes), node)).collect();
        let rest_size = rmp_size(&rest.published(0)) + MARGIN;
        let is_too_much = |rows: &[(NodeRow, &Node)]| {
            rows.iter().map(|(row, _)| rmp_size(row)).sum::<usize>() + rest_size > room
        };
        if is_too_much(&rows) {
            for (row, _) in &mut rows {
                row.each_process.clear();
            }
        }
        if is_too_much(&rows) {
            rows.sort_by_key(|(row, _)| (std::cmp::Reverse(row.tries), row.node_id));
            let mut used = 2 * MARGIN + rmp_size(&NodeRow::default());
            let fit = rows.iter().take_while(|(row, _)| {
                used += rmp_size(row);
                // The row of the others grows a little.
                used + 4 * MARGIN <= room
            });
            let fit = fit.count();
            rows.drain(fit..).for_each(|(row, node)| {
                rest.merge(node);
                rest.row.of += u64::from(row.of > 0 && node.row.of == 0);
            });
        }
        let mut rows: Vec<_> = rows.into_iter().map(|(row, _)| row).collect();
        rows.sort_by_key(|row| row.node_id);
        if rest.row.tries > 0 || rest.row.of > 0 {
            rows.push(NodeRow { node_id: u32::MAX, ..rest.published(0) });
        }
        Nodes { written_us, rows }
    }
}

/// A process with its times by the orchestrator's clock, where that of its node is so far ahead.
fn moved(process: &ProcessView, clock_us: i64) -> ProcessView {
    let at = |us: u64| us.saturating_add_signed(-clock_us);
    let exit = process.exit.as_ref().map(|exit| ProcessExit {
        at_us: at(exit.at_us),
        returncode: exit.returncode,
        killed_for: cut(&exit.killed_for, MOST_KILLED_FOR).to_owned(),
    });
    // What runs longest on the node stands beside its processes.
    ProcessView { started_us: at(process.started_us), exit, holds: None, ..process.clone() }
}

fn set(text: &mut String, to: &str) {
    if text != to {
        to.clone_into(text);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// How far a clock is ahead that showed `told_us` at `heard_us`; nothing where that may be the time of a message.
fn ahead_us(told_us: u64, heard_us: u64) -> i64 {
    if told_us.abs_diff(heard_us) < RIGHT {
        return 0;
    }
    let ahead = i64::try_from(i128::from(told_us) - i128::from(heard_us)).unwrap_or_default();
    ahead / SECOND * SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_a_little_off_are_right() {
        let hour = 3_600_000_000_u64;
        for (told, heard, ahead) in [
            (5_000_000, 5_000_000, 0),
            (6_900_000, 5_000_000, 0),
            (3_100_000, 5_000_000, 0),
            (hour + 5_400_000, 5_000_000, hour as i64),
            (5_000_000, hour + 5_400_000, -(hour as i64)),
            (u64::MAX, 0, 0),
        ] {
            assert_eq!(ahead_us(told, heard), ahead, "{told} {heard}");
        }
    }
}
