//! The nodes of a job: dots for the picture, and a table with the slowest and the failing first.

use prs_common::statistics::{NodeRow, NodeState, Nodes};

use crate::attention::{SlowNode, slow_nodes};
use crate::chart::{Cell, NodeDot, NodeShape, Table};
use crate::text::times::duration_us;
use crate::text::{count, cut, percent};

/// What a node is called.
pub(crate) fn name(row: &NodeRow) -> String {
    if row.of > 1 { format!("{} other nodes", count(row.of)) } else { format!("node {}", row.node_id) }
}

/// The nodes that are far slower than the others.
pub(crate) fn slow(nodes: &Nodes) -> Vec<SlowNode> {
    let single = nodes.rows.iter().filter(|row| row.of <= 1);
    let known: Vec<_> = single
        .map(|row| (name(row), row.median_us as f64 / 1e6, row.tries.saturating_sub(row.failed_tries)))
        .collect();
    slow_nodes(&known)
}

/// The dots of those whose median is known.
pub(crate) fn dots(nodes: &Nodes, slow: &[SlowNode]) -> Vec<NodeDot> {
    let known = nodes.rows.iter().filter(|row| row.of <= 1 && row.median_us > 0);
    known
        .map(|row| {
            let name = name(row);
            NodeDot {
                is_slow: slow.iter().any(|slow| slow.name == name),
                name,
                median: row.median_us as f64 / 1e6,
                shape: match row.state {
                    NodeState::Present => NodeShape::Serving,
                    NodeState::Left => NodeShape::Left,
                    NodeState::Lost => NodeShape::Lost,
                },
            }
        })
        .collect()
}

/// The table, of so many rows at most: lost and slow nodes first, then those with failed tries, then by id.
pub(crate) fn table(nodes: &Nodes, slow: &[SlowNode], has_ended: bool, most: usize) -> Table {
    let mut table = Table::new(
        "Nodes",
        &[
            "Node",
            "Worker",
            "State",
            "#Slots",
            "#Tries",
            "#Failed",
            "#Median run()",
            "#95 %",
            "#CPU",
            "#Factor",
        ],
    );
    let factor = |row: &NodeRow| {
        let name = name(row);
        slow.iter().find(|slow| slow.name == name).map(|slow| slow.factor)
    };
    let mut rows: Vec<(&NodeRow, Option<f64>)> = nodes.rows.iter().map(|row| (row, factor(row))).collect();
    rows.sort_by(|(one, one_factor), (other, other_factor)| {
        let rank = |row: &NodeRow| (row.state == NodeState::Lost, row.failed_tries);
        let lost = rank(other).0.cmp(&rank(one).0);
        let by_factor = other_factor.unwrap_or(0.0).total_cmp(&one_factor.unwrap_or(0.0));
        let by_failures = other.failed_tries.cmp(&one.failed_tries);
        lost.then(by_factor)
            .then(by_failures)
            .then(one.of.cmp(&other.of))
            .then(one.node_id.cmp(&other.node_id))
    });
    table.rows = rows
        .into_iter()
        .map(|(row, factor)| {
            let number = |value: u64| Cell::Text(count(value));
            let time = |us: u64| Cell::Text(if us == 0 { "\u{2013}".to_owned() } else { duration_us(us) });
            vec![
                name(row).into(),
                Cell::Text(cut(if row.worker.is_empty() { &row.host } else { &row.worker }, 32)),
                match row.state {
                    NodeState::Lost => Cell::Bad("lost".to_owned()),
                    NodeState::Present if !has_ended => Cell::Text("serves".to_owned()),
                    NodeState::Present | NodeState::Left => Cell::Text("left".to_owned()),
                },
                number(u64::from(row.slots)),
                number(row.tries),
                if row.failed_tries > 0 { Cell::Bad(count(row.failed_tries)) } else { number(0) },
                time(row.median_us),
                time(row.p95_us),
                Cell::Text(percent(row.cpu_us.min(row.run_us), row.run_us)),
                match factor {
                    Some(factor) => Cell::Bad(format!("{factor:.1}\u{d7}")),
                    None => Cell::Text("\u{2013}".to_owned()),
                },
            ]
        })
        .collect();
    table.cut(most, "nodes, the slow and the failing first")
}
