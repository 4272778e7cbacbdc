//! The nodes of a job, for programs and for pages.

use prs_common::statistics::{NodeRow, NodeState, Nodes};
use prs_common::timestamp::format_us;
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
}

impl NodeOrder {
    /// The orders, by the word that a parameter has for each.
    pub const ALL: [(&'static str, Self); 4] = [
        ("node_id", Self::Id),
        ("-median_seconds", Self::Median),
        ("-failed_tries", Self::Failed),
        ("-tries", Self::Tries),
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
    /// `live`, `left` or `lost`.
    pub state: &'static str,
    /// Its slots.
    pub slots: u32,
    /// Processes that are up.
    pub processes: u32,
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

/// The nodes, in an order.
pub fn nodes(of: &Nodes, order: NodeOrder) -> Vec<NodeRecord> {
    let middle = median(of.rows.iter().filter(|row| row.of <= 1).map(|row| row.median_us).collect());
    let mut rows: Vec<&NodeRow> = of.rows.iter().collect();
    // The row of all others stands last.
    rows.sort_by_key(|row| {
        let most = match order {
            NodeOrder::Id => 0,
            NodeOrder::Median => row.median_us,
            NodeOrder::Failed => row.failed_tries,
            NodeOrder::Tries => row.tries,
        };
        (row.of > 1, u64::MAX - most, row.node_id)
    });
    rows.into_iter().map(|row| record(row, middle)).collect()
}

/// The middle one of those that are known.
fn median(mut medians: Vec<u64>) -> Option<u64> {
    medians.retain(|median| *median > 0);
    medians.sort_unstable();
    medians.get(medians.len() / 2).copied()
}

fn record(row: &NodeRow, middle: Option<u64>) -> NodeRecord {
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
        state: match row.state {
            NodeState::Present => "live",
            NodeState::Left => "left",
            NodeState::Lost => "lost",
        },
        slots: row.slots,
        processes: row.processes,
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
            let found: Vec<_> = nodes(&of, order).into_iter().map(|node| node.node_id).collect();
            assert_eq!(found, expected, "{order:?}");
        }
        assert_eq!(nodes(&of, NodeOrder::Median)[0].slow_factor, Some(3.0));
    }
}
