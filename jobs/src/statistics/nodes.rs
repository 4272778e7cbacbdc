//! The nodes of a job, for programs and for pages.

use prs_common::statistics::{NodeRow, Nodes};
use prs_common::timestamp::format_us;
use prs_portal::view::node_state;
use serde::Serialize;

/// What of the nodes comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NodeOrder {
    /// The first one.
    #[default]
    Id,
    /// The one whose `run()` takes longest.
    Median,
    /// The one with most failed tries.
    Failed,
    /// The one with most tries.
    Tries,
    /// The one whose slots were idle for the most of its time.
    Idle,
}

impl NodeOrder {
    /// The orders, by the word that a parameter has for each.
    pub const ALL: [(&'static str, Self); 5] = [
        ("node_id", Self::Id),
        ("-median_seconds", Self::Median),
        ("-failed_tries", Self::Failed),
        ("-tries", Self::Tries),
        ("-idle_share", Self::Idle),
    ];
}

/// A node of a job. What is of tries is of the present start of the job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeRecord {
    /// Its id in the job; null for the row that stands for the least active ones of more than 4,096 nodes.
    pub node_id: Option<u32>,
    /// Nodes that the row stands for.
    pub nodes: u64,
    /// Name of its worker.
    pub worker: String,
    /// Name of its host.
    pub host: String,
    /// Its address.
    pub ip: String,
    /// Version of prs.
    pub version: String,
    /// `live`, `silent` (nothing was heard of it for 15 s), `left`, `lost`, or `gave_up` (`init()` failed too often in a row).
    pub state: &'static str,
    /// Its slots.
    pub slots: u32,
    /// Processes that are up.
    pub processes: u32,
    /// Of these, those that have a mini-batch under way.
    pub busy: u32,
    /// Which part of the time of its slots no try took, 0 to 1, since its first one began; null where none ended.
    pub idle_share: Option<f64>,
    /// What runs longest on it, the longest first, three at most.
    pub longest_running: Vec<RunsOnNode>,
    /// Mini-batches that it has in hand.
    pub in_hand: u64,
    /// Tries that ended.
    pub tries: u64,
    /// Of these, those that failed.
    pub failed_tries: u64,
    /// Failures to import the script and of `init()`.
    pub init_failures: u32,
    /// Items that succeeded.
    pub items: u64,
    /// Time of its tries, seconds.
    pub busy_seconds: f64,
    /// Within `run()`, seconds.
    pub run_seconds: f64,
    /// CPU time, seconds.
    pub cpu_seconds: f64,
    /// Making the argument of `run()`, seconds.
    pub load_seconds: f64,
    /// Median of `run()`, seconds; null where nothing succeeded.
    pub median_seconds: Option<f64>,
    /// What 95 of 100 calls of `run()` took at most, seconds.
    pub p95_seconds: Option<f64>,
    /// Its median by the median of the medians of all nodes; null where one of them is not known.
    pub slow_factor: Option<f64>,
    /// How far its clock is ahead, seconds.
    pub clock_seconds: f64,
    /// When its first try began.
    pub first_at: Option<String>,
    /// When it was heard of last.
    pub heard_at: Option<String>,
    /// What it does before it runs anything; empty afterwards.
    pub preparing: String,
    /// Why it cannot go on; empty where it can.
    pub fatal: String,
}

/// A mini-batch that runs on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunsOnNode {
    /// Which one.
    pub index: u64,
    /// Since when.
    pub since: String,
    /// The process; null where the node does not tell it.
    pub process: Option<String>,
}

/// Which part of the time of its slots no try took, since the first one began.
fn idle_share(row: &NodeRow) -> Option<f64> {
    let there_us = row.heard_us.saturating_sub(row.first_us).saturating_mul(u64::from(row.slots));
    let is_known = row.first_us > 0 && there_us > 0;
    is_known.then(|| (1.0 - row.busy_us as f64 / there_us as f64).clamp(0.0, 1.0))
}

/// The nodes of a job that has ended or not, in an order.
pub fn nodes(of: &Nodes, order: NodeOrder, has_ended: bool) -> Vec<NodeRecord> {
    let middle = median(of.rows.iter().filter(|row| row.of <= 1).map(|row| row.median_us).collect());
    let mut rows: Vec<&NodeRow> = of.rows.iter().collect();
    // The row of all others stands last.
    rows.sort_by_key(|row| {
        let most = match order {
            NodeOrder::Id => 0,
            NodeOrder::Median => row.median_us,
            NodeOrder::Failed => row.failed_tries,
            NodeOrder::Tries => row.tries,
            NodeOrder::Idle => (idle_share(row).unwrap_or_default() * 1e6) as u64,
        };
        (row.of > 1, u64::MAX - most, row.node_id)
    });
    rows.into_iter().map(|row| record(row, middle, node_state(row, of.written_us, has_ended))).collect()
}

/// The middle one of those that are known.
fn median(mut medians: Vec<u64>) -> Option<u64> {
    medians.retain(|median| *median > 0);
    medians.sort_unstable();
    medians.get(medians.len() / 2).copied()
}

fn record(row: &NodeRow, middle: Option<u64>, state: &'static str) -> NodeRecord {
    let seconds = |us: u64| us as f64 / 1e6;
    let known = |us: u64| (us > 0).then(|| seconds(us));
    let at = |us: u64| (us > 0).then(|| format_us(us));
    NodeRecord {
        node_id: (row.of <= 1).then_some(row.node_id),
        nodes: row.of.max(1),
        worker: row.worker.clone(),
        host: row.host.clone(),
        ip: row.ip.clone(),
        version: row.version.clone(),
        state,
        slots: row.slots,
        processes: row.processes,
        busy: row.busy,
        idle_share: idle_share(row),
        longest_running: row
            .longest
            .iter()
            .map(|one| RunsOnNode {
                index: one.index,
                since: format_us(one.since_us),
                process: one.process.map(|number| format!("process{number:03}")),
            })
            .collect(),
        in_hand: row.in_hand,
        tries: row.tries,
        failed_tries: row.failed_tries,
        init_failures: row.init_failures,
        items: row.items,
        busy_seconds: seconds(row.busy_us),
        run_seconds: seconds(row.run_us),
        cpu_seconds: seconds(row.cpu_us),
        load_seconds: seconds(row.load_us),
        median_seconds: known(row.median_us),
        p95_seconds: known(row.p95_us),
        slow_factor: middle.filter(|_| row.median_us > 0).map(|middle| row.median_us as f64 / middle as f64),
        clock_seconds: row.clock_us as f64 / 1e6,
        first_at: at(row.first_us),
        heard_at: at(row.heard_us),
        preparing: row.preparing.clone(),
        fatal: row.fatal.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_in_the_order_that_is_asked_for() {
        let row = |node_id, median_us, failed_tries, of| NodeRow {
            node_id,
            median_us,
            failed_tries,
            of,
            ..NodeRow::default()
        };
        let of = Nodes {
            rows: vec![row(0, 10, 3, 1), row(1, 30, 0, 1), row(2, 10, 5, 1), row(0, 99, 99, 7)],
            written_us: 0,
        };
        for (order, expected) in [
            (NodeOrder::Id, [Some(0), Some(1), Some(2), None]),
            (NodeOrder::Median, [Some(1), Some(0), Some(2), None]),
            (NodeOrder::Failed, [Some(2), Some(0), Some(1), None]),
        ] {
            let found: Vec<_> = nodes(&of, order, false).into_iter().map(|node| node.node_id).collect();
            assert_eq!(found, expected, "{order:?}");
        }
        assert_eq!(nodes(&of, NodeOrder::Median, false)[0].slow_factor, Some(3.0));
    }

    #[test]
    fn the_idlest_comes_first() {
        let row = |node_id, busy_us| NodeRow {
            node_id,
            busy_us,
            slots: 2,
            first_us: 100,
            heard_us: 200,
            of: 1,
            ..NodeRow::default()
        };
        let of = Nodes { rows: vec![row(0, 200), row(1, 50), row(2, 150)], written_us: 200 };
        let found: Vec<_> =
            nodes(&of, NodeOrder::Idle, false).iter().map(|node| (node.node_id, node.idle_share)).collect();
        assert_eq!(found, [(Some(1), Some(0.75)), (Some(2), Some(0.25)), (Some(0), Some(0.0))]);
    }
}
