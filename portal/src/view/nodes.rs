//! The nodes of a job: dots for the picture, and a table with the slowest and the failing first.

use prs_common::statistics::{NodeRow, NodeState, Nodes};

use super::header::Chip;
use crate::attention::{SlowNode, slow_nodes};
use crate::chart::{Cell, NodeDot, NodeShape, Table};
use crate::text::times::duration_us;
use crate::text::{count, cut, percent};

/// A node that was not heard of for longer is silent, microseconds.
const SILENT: u64 = 15_000_000;

/// Where a node is, of statistics that were written then: `live`, `silent`, `left`, `lost` or `gave_up`.
pub fn node_state(row: &NodeRow, written_us: u64, has_ended: bool) -> &'static str {
    match row.state {
        NodeState::Lost => "lost",
        _ if row.gave_up => "gave_up",
        NodeState::Present if !has_ended && written_us.saturating_sub(row.heard_us) > SILENT => "silent",
        NodeState::Present if !has_ended => "live",
        NodeState::Present | NodeState::Left => "left",
    }
}

/// The chip of a node in such a state.
pub(crate) fn chip(state: &str) -> Chip {
    match state {
        "lost" => Chip { family: "bad", word: "lost" },
        "gave_up" => Chip { family: "bad", word: "gave up" },
        "silent" => Chip { family: "warn", word: "silent" },
        "live" => Chip { family: "active", word: "serves" },
        _ => Chip { family: "neutral", word: "left" },
    }
}

/// What a node is called.
pub(crate) fn name(row: &NodeRow) -> String {
    if row.of > 1 { format!("{} other nodes", count(row.of)) } else { format!("node {}", row.node_id) }
}

/// The nodes that are far slower than the others.
pub(crate) fn slow(nodes: &Nodes) -> Vec<SlowNode> {
    let single = nodes.rows.iter().filter(|row| row.of <= 1);
    let known: Vec<_> = single
        .map(|row| (row.node_id, row.median_us as f64 / 1e6, row.tries.saturating_sub(row.failed_tries)))
        .collect();
    slow_nodes(&known)
}

/// The dots of those whose median is known.
pub(crate) fn dots(nodes: &Nodes, slow: &[SlowNode]) -> Vec<NodeDot> {
    let known = nodes.rows.iter().filter(|row| row.of <= 1 && row.median_us > 0);
    known
        .map(|row| NodeDot {
            is_slow: slow.iter().any(|slow| slow.node_id == row.node_id),
            name: name(row),
            median: row.median_us as f64 / 1e6,
            shape: match row.state {
                NodeState::Present => NodeShape::Serving,
                NodeState::Left => NodeShape::Left,
                NodeState::Lost => NodeShape::Lost,
            },
        })
        .collect()
}

/// What a table of nodes can be sorted by: the word of an address, and the column. In the usual order those come first that stand out.
pub(crate) const ORDERS: [(&str, &str); 4] = [
    ("node_id", "Node"),
    ("-tries", "Tries"),
    ("-failed_tries", "Failed"),
    ("-median_seconds", "Median run()"),
];

/// The table: lost and slow nodes first, then those with failed tries, then by id, or in one of [`ORDERS`]; from a row on, and of so many
/// at most. On a page of a server nodes, and what runs longest on each, lead to their pages below that of the job with an id.
pub(crate) fn table(
    nodes: &Nodes,
    slow: &[SlowNode],
    has_ended: bool,
    order: Option<&str>,
    (from, most): (usize, usize),
    job_id: Option<&str>,
) -> Table {
    let mut table = Table::new(
        "Nodes",
        &[
            "Node",
            "Worker",
            "State",
            "#Slots busy",
            "#Tries",
            "#Failed",
            "#Median run()",
            "#95 %",
            "#CPU",
            "#Factor",
            "#Runs longest",
        ],
    );
    let factor = |row: &NodeRow| {
        slow.iter().find(|slow| row.of <= 1 && slow.node_id == row.node_id).map(|slow| slow.factor)
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
    if let Some(order) = order {
        rows.sort_by_key(|(row, _)| {
            let most = match order {
                "-tries" => row.tries,
                "-failed_tries" => row.failed_tries,
                "-median_seconds" => row.median_us,
                _ => 0,
            };
            // The row of all others stands last.
            (row.of > 1, u64::MAX - most, row.node_id)
        });
    }
    let all = rows.len();
    table.rows = rows
        .into_iter()
        .skip(from)
        .take(most)
        .map(|(row, factor)| {
            let number = |value: u64| Cell::Text(count(value));
            let time = |us: u64| Cell::Text(if us == 0 { "\u{2013}".to_owned() } else { duration_us(us) });
            let link = |text: String, below: String| match job_id {
                Some(id) => Cell::Link(text, format!("/jobs/{id}/{below}")),
                None => Cell::Text(text),
            };
            let node = match row.of {
                0 | 1 => link(name(row), format!("nodes/{}", row.node_id)),
                _ => name(row).into(),
            };
            let runs = row.longest.first().filter(|_| !has_ended).map(|one| {
                let long = duration_us(nodes.written_us.saturating_sub(one.since_us));
                link(long, format!("mini-batches/{}", one.index))
            });
            let chip = chip(node_state(row, nodes.written_us, has_ended));
            vec![
                node,
                Cell::Text(cut(if row.worker.is_empty() { &row.host } else { &row.worker }, 32)),
                match chip.family {
                    "bad" | "warn" => Cell::Bad(chip.word.to_owned()),
                    _ => Cell::Text(chip.word.to_owned()),
                },
                if has_ended {
                    number(u64::from(row.slots))
                } else {
                    format!("{} of {}", count(u64::from(row.busy)), count(u64::from(row.slots))).into()
                },
                number(row.tries),
                if row.failed_tries > 0 { Cell::Bad(count(row.failed_tries)) } else { number(0) },
                time(row.median_us),
                time(row.p95_us),
                Cell::Text(percent(row.cpu_us.min(row.run_us), row.run_us)),
                match factor {
                    Some(factor) => Cell::Bad(format!("{factor:.1}\u{d7}")),
                    None => Cell::Text("\u{2013}".to_owned()),
                },
                runs.unwrap_or_else(|| "\u{2013}".to_owned().into()),
            ]
        })
        .collect();
    if from > 0 || all > table.rows.len() {
        let last = from + table.rows.len();
        let shown = format!("{} to {}", count(from as u64 + 1), count(last as u64));
        let shown = if from == 0 { count(last as u64) } else { shown };
        table.rest = format!("{shown} of {} nodes, the slow and the failing first.", count(all as u64));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_where_it_says_or_where_nobody_heard_of_it() {
        let row = |state, heard_us, gave_up| NodeRow { state, heard_us, gave_up, ..NodeRow::default() };
        let second = 1_000_000;
        for (row, has_ended, expected) in [
            (row(NodeState::Present, 90 * second, false), false, "live"),
            (row(NodeState::Present, 84 * second, false), false, "silent"),
            (row(NodeState::Present, 84 * second, false), true, "left"),
            (row(NodeState::Left, 0, false), false, "left"),
            (row(NodeState::Lost, 0, true), false, "lost"),
            (row(NodeState::Left, 0, true), false, "gave_up"),
            (row(NodeState::Present, 90 * second, true), false, "gave_up"),
        ] {
            assert_eq!(node_state(&row, 100 * second, has_ended), expected, "{row:?}");
        }
    }

    #[test]
    fn the_table_is_sorted_by_what_its_heads_name() {
        let row = |node_id, tries, failed_tries, median_us| NodeRow {
            node_id,
            of: 1,
            tries,
            failed_tries,
            median_us,
            ..NodeRow::default()
        };
        let others = NodeRow { node_id: 9, of: 7, tries: 99, ..NodeRow::default() };
        let rows = vec![row(0, 5, 0, 30), row(1, 8, 2, 10), others, row(2, 8, 1, 20)];
        let nodes = Nodes { rows, written_us: 0 };
        for (order, expected) in [
            (None, [1, 2, 0]),
            (Some("node_id"), [0, 1, 2]),
            (Some("-tries"), [1, 2, 0]),
            (Some("-failed_tries"), [1, 2, 0]),
            (Some("-median_seconds"), [0, 2, 1]),
        ] {
            let table = table(&nodes, &[], false, order, (0, 9), Some("j"));
            let expected = expected.map(|node| format!("/jobs/j/nodes/{node}"));
            let found = table.rows.iter().filter_map(|row| match &row[0] {
                Cell::Link(_, to) => Some(to.clone()),
                _ => None,
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{order:?}");
            assert!(
                order.is_none() || matches!(&table.rows[3][0], Cell::Text(_)),
                "{order:?}: the others are last"
            );
            assert!(ORDERS.iter().all(|(_, name)| table.columns.iter().any(|column| column.name == *name)));
        }
    }

    #[test]
    fn pages_of_the_table_say_which_nodes_they_have() {
        let longest = vec![prs_common::statistics::RunsHere { index: 7, since_us: 1_000_000, process: None }];
        let row = |node_id| NodeRow { node_id, of: 1, longest: longest.clone(), ..NodeRow::default() };
        let nodes = Nodes { rows: (0..5).map(row).collect(), written_us: 4_000_000 };
        let of = |page| table(&nodes, &[], false, None, page, Some("j")).to_string();
        let first = of((0, 2));
        assert!(first.contains("/jobs/j/nodes/1\"") && !first.contains("/jobs/j/nodes/2\""), "{first}");
        assert!(first.contains("2 of 5 nodes") && first.contains("/jobs/j/mini-batches/7\""), "{first}");
        assert!(of((4, 2)).contains("5 to 5 of 5 nodes"));
        assert!(!of((0, 5)).contains("of 5 nodes"));
    }
}
