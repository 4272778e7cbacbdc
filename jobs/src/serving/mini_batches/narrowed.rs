//! The mini-batches that statistics list: those that run, those that took longest, those that wait. There are few of them, so a list
//! is one page, and what is asked for is picked from it.

use prs_common::statistics::{Live, Nodes, Part, RunningOn, Summary};
use prs_portal::view::Published;

use super::wanted::{Order, Wanted, any};
use crate::statistics::{OpenRange, waiting};

/// What of a job the statistics list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The mini-batches that run, the 200 longest that nodes tell of: three each.
    Running,
    /// The 200 tries that took longest.
    Slow,
    /// The mini-batches without an outcome, as ranges.
    Waiting,
}

impl Told {
    /// Them all, by the word that a parameter has for each.
    pub const ALL: [(&'static str, Self); 3] =
        [("running", Self::Running), ("slow", Self::Slow), ("waiting", Self::Waiting)];
    /// The parts of the statistics that have them.
    pub const PARTS: [&'static str; 3] = [Live::NAME, Summary::NAME, Nodes::NAME];
    /// Those of them that not every page of a job reads anyhow.
    pub const MORE: [&'static str; 1] = [Summary::NAME];

    /// What it is called in an address.
    pub fn word(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, told)| *told == self).map_or("", |(word, _)| word)
    }

    /// What comes first where nothing else is asked for.
    pub fn usual_order(self) -> Order {
        if self == Self::Waiting { Order::Index } else { Order::Longest }
    }

    /// The first filter that is set and that the rows of the list know nothing of, by the name that a parameter has for it.
    pub fn unknown_filter(self, wanted: &Wanted) -> Option<&'static str> {
        let of_tries = self == Self::Slow;
        let of_nodes = self != Self::Waiting;
        let set = [
            ("node", !wanted.nodes.is_empty() && !of_nodes),
            ("process", !wanted.processes.is_empty() && !of_nodes),
            ("group", !wanted.groups.is_empty()),
            ("from", wanted.from_us.is_some() && !of_tries),
            ("to", wanted.to_us.is_some() && !of_tries),
            ("min_seconds", wanted.least_us.is_some() && !of_nodes),
            ("status", !wanted.statuses.is_empty() && !of_tries),
            ("sort", wanted.order != Order::Index && !of_nodes),
        ];
        set.into_iter().find(|(_, is_unknown)| *is_unknown).map(|(name, _)| name)
    }
}

/// Mini-batches that run, at most.
const MOST_UNDER_WAY: usize = 200;

/// The mini-batches that run, as far as nodes tell, the longest first. What they consist of is known of those alone that have run longest.
pub fn under_way(published: &Published) -> Vec<RunningOn> {
    let mut found = published.live.as_ref().map(|live| live.running.clone()).unwrap_or_default();
    let known: std::collections::HashSet<(u64, u32)> =
        found.iter().map(|one| (one.index, one.node_id)).collect();
    let single = published.nodes.iter().flat_map(|nodes| &nodes.rows).filter(|row| row.of <= 1);
    let more = single.flat_map(|row| row.longest.iter().map(|one| (row.node_id, one)));
    found.extend(more.filter(|(node_id, one)| !known.contains(&(one.index, *node_id))).map(
        |(node_id, one)| RunningOn {
            index: one.index,
            node_id,
            since_us: one.since_us,
            process: one.process,
            ..RunningOn::default()
        },
    ));
    found.sort_by_key(|one| (one.since_us, one.index));
    found
}

/// What is published of a job, and of mini-batches that run and of tries that took long what is `wanted` alone, in its order.
#[must_use]
pub fn narrowed(mut published: Published, wanted: &Wanted) -> Published {
    let fits = |index: u64, node_id: u32, took_us: u64| {
        wanted.index.is_none_or(|(from, to)| (from..=to).contains(&index))
            && wanted.is_of_node(node_id)
            && wanted.least_us.is_none_or(|least| took_us >= least)
    };
    let is_of_process = |number: Option<u32>| {
        let name = number.map(|number| format!("process{number:03}")).unwrap_or_default();
        any(&wanted.processes, |wanted| *wanted == name)
    };
    let under_way = under_way(&published);
    if let Some(live) = &mut published.live {
        let now = live.written_us;
        live.running = under_way;
        live.running.retain(|one| {
            fits(one.index, one.node_id, now.saturating_sub(one.since_us)) && is_of_process(one.process)
        });
        live.running.truncate(MOST_UNDER_WAY);
        live.running.sort_by_key(|one| {
            key(wanted.order, one.index, (one.since_us, now.saturating_sub(one.since_us)))
        });
    }
    if let Some(summary) = &mut published.summary {
        summary.slowest.retain(|row| {
            fits(row.index, row.node_id, row.elapsed_us)
                && is_of_process(Some(row.process))
                && wanted.from_us.is_none_or(|from| row.started_us.saturating_add(row.elapsed_us) >= from)
                && wanted.to_us.is_none_or(|to| row.started_us <= to)
                && (wanted.statuses.is_empty()
                    || row.status().is_some_and(|status| wanted.statuses.contains(&status)))
        });
        summary.slowest.sort_by_key(|row| key(wanted.order, row.index, (row.started_us, row.elapsed_us)));
    }
    published
}

/// By what rows are sorted: the least comes first.
fn key(order: Order, index: u64, (began_us, took_us): (u64, u64)) -> (u64, u64) {
    let first = match order {
        Order::Index => index,
        Order::Longest => u64::MAX - took_us,
        Order::Oldest => began_us,
        Order::Newest => u64::MAX - began_us,
    };
    (first, index)
}

/// Where mini-batches that are `wanted` have no outcome yet; see [`waiting`].
pub fn open_ranges(published: &Published, wanted: &Wanted) -> Vec<OpenRange> {
    let mut ranges = waiting(published);
    ranges.retain(|range| wanted.index.is_none_or(|(from, to)| range.from <= to && from <= range.to));
    ranges
}

#[cfg(test)]
mod tests {
    use prs_common::segment::TryStatus;
    use prs_common::statistics::{NodeRow, RunsHere, TryRow};

    use super::*;

    fn published() -> Published {
        let runs = |index, node_id, since_us| RunningOn {
            index,
            node_id,
            since_us,
            process: Some(1),
            ..RunningOn::default()
        };
        let took = |index, node_id, elapsed_us| TryRow {
            index,
            node_id,
            elapsed_us,
            started_us: 100 + index,
            ..TryRow::default()
        };
        let live = Live {
            written_us: 10_000_000,
            scheduled: 9,
            running: vec![runs(7, 1, 1_000_000), runs(3, 0, 2_000_000), runs(5, 1, 8_000_000)],
            ..Live::default()
        };
        let summary = Summary {
            slowest: vec![took(2, 1, 9_000_000), took(4, 0, 5_000_000), took(1, 1, 3_000_000)],
            ..Summary::default()
        };
        Published { live: Some(live), summary: Some(summary), ..Published::default() }
    }

    fn listed(change: impl FnOnce(&mut Wanted)) -> (Vec<u64>, Vec<u64>) {
        let mut wanted = Wanted { order: Order::Longest, ..Wanted::default() };
        change(&mut wanted);
        let found = narrowed(published(), &wanted);
        let running = found.live.unwrap().running.into_iter().map(|one| one.index).collect();
        (running, found.summary.unwrap().slowest.into_iter().map(|row| row.index).collect())
    }

    #[test]
    fn what_is_asked_for_is_picked_in_its_order() {
        assert_eq!(listed(|_| ()), (vec![7, 3, 5], vec![2, 4, 1]));
        assert_eq!(listed(|of| of.order = Order::Index), (vec![3, 5, 7], vec![1, 2, 4]));
        assert_eq!(listed(|of| of.order = Order::Newest), (vec![5, 3, 7], vec![4, 2, 1]));
        assert_eq!(listed(|of| of.nodes = vec![(1, 3)]), (vec![7, 5], vec![2, 1]));
        assert_eq!(listed(|of| of.index = Some((3, 4))), (vec![3], vec![4]));
        assert_eq!(listed(|of| of.least_us = Some(5_000_000)), (vec![7, 3], vec![2, 4]));
        let of_process = |name: &str| listed(|of| of.processes = vec![name.to_owned()]);
        assert_eq!(of_process("process000"), (vec![], vec![2, 4, 1]));
        assert_eq!(of_process("process001"), (vec![7, 3, 5], vec![]));
    }

    #[test]
    fn more_of_what_runs_is_known_of_the_nodes() {
        let mut published = published();
        let here = |index, since_us| RunsHere { index, since_us, process: Some(2) };
        let row = |node_id, longest| NodeRow { node_id, longest, of: 1, ..NodeRow::default() };
        let rows = vec![row(1, vec![here(7, 1_000_000), here(8, 500_000)]), row(2, vec![here(7, 9_000_000)])];
        published.nodes = Some(Nodes { rows, ..Nodes::default() });
        let found: Vec<_> = under_way(&published).into_iter().map(|one| (one.index, one.node_id)).collect();
        assert_eq!(found, [(8, 1), (7, 1), (3, 0), (5, 1), (7, 2)]);
        let many = (0..300).map(|node_id| row(node_id, vec![here(9 + u64::from(node_id), 1)])).collect();
        published.nodes = Some(Nodes { rows: many, ..Nodes::default() });
        let listed = narrowed(published, &Wanted::default()).live.unwrap().running;
        assert_eq!(listed.len(), MOST_UNDER_WAY);
    }

    #[test]
    fn a_filter_that_a_list_cannot_have_is_named() {
        let of = |told: Told, change: fn(&mut Wanted)| {
            let mut wanted = Wanted { order: told.usual_order(), ..Wanted::default() };
            change(&mut wanted);
            told.unknown_filter(&wanted)
        };
        for (_, told) in Told::ALL {
            assert_eq!(of(told, |_| ()), None);
            assert_eq!(of(told, |of| of.index = Some((0, 1))), None);
            assert_eq!(of(told, |of| of.groups = vec!["a".to_owned()]), Some("group"));
        }
        assert_eq!(of(Told::Running, |of| of.nodes = vec![(1, 1)]), None);
        assert_eq!(of(Told::Running, |of| of.processes = vec!["a".to_owned()]), None);
        assert_eq!(of(Told::Running, |of| of.statuses = vec![TryStatus::RunDone]), Some("status"));
        assert_eq!(of(Told::Slow, |of| of.statuses = vec![TryStatus::RunDone]), None);
        assert_eq!(of(Told::Waiting, |of| of.nodes = vec![(1, 1)]), Some("node"));
        assert_eq!(of(Told::Waiting, |of| of.order = Order::Newest), Some("sort"));
    }

    #[test]
    fn ranges_that_meet_what_is_asked_for_are_told() {
        let of = |index| open_ranges(&published(), &Wanted { index, ..Wanted::default() }).len();
        assert_eq!((of(None), of(Some((8, 20))), of(Some((9, 20)))), (1, 1, 0));
    }
}
