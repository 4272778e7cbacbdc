//! Which tries are asked for, and in which order.

use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::TryStatus;
use prs_common::try_table::{Block, Extent, Row, Which};

/// Nodes that a part of the table tells apart.
const TOLD_APART: u32 = 512;

/// The states of mini-batches that a list can be of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    /// Those that failed for good.
    #[default]
    Failed,
    /// Those that succeeded after a try that failed.
    Retried,
    /// Those that succeeded and lack items.
    Short,
    /// Those that succeeded.
    Succeeded,
    /// Those that failed for good or lack items.
    Lacking,
    /// All with an outcome.
    All,
}

impl State {
    /// The states, by the word that a parameter has for each.
    pub const ALL: [(&'static str, Self); 5] = [
        ("failed", Self::Failed),
        ("retried", Self::Retried),
        ("short", Self::Short),
        ("succeeded", Self::Succeeded),
        ("all", Self::All),
    ];
}

/// What comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// The first in the input.
    #[default]
    Index,
    /// The one that took longest.
    Longest,
    /// The one that began first.
    Oldest,
    /// The one that began last.
    Newest,
}

impl Order {
    /// The orders, by the word that a parameter has for each.
    pub const ALL: [(&'static str, Self); 4] = [
        ("index", Self::Index),
        ("-seconds", Self::Longest),
        ("started_at", Self::Oldest),
        ("-started_at", Self::Newest),
    ];

    /// By what rows are sorted: the least comes first.
    pub(super) fn key(self, row: &Row) -> (u64, u64, u32) {
        let first = match self {
            Self::Index => row.index,
            Self::Longest => u64::MAX - row.elapsed_us,
            Self::Oldest => row.started_us,
            Self::Newest => u64::MAX - row.started_us,
        };
        (first, row.index, row.number)
    }

    /// By what parts are sorted: the least key that one of their rows can have.
    pub(super) fn least(self, extent: &Extent) -> u64 {
        match self {
            Self::Index => extent.least_index,
            Self::Longest => u64::MAX - extent.most_us,
            Self::Oldest => extent.first_us,
            Self::Newest => u64::MAX - extent.last_us,
        }
    }
}

/// Which tries are asked for. What is not set fits all.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The mini-batches of one of these states, each by the try that is its outcome; without any all tries.
    pub states: Vec<State>,
    /// The tries that ended in one of these ways.
    pub statuses: Vec<TryStatus>,
    /// Those of mini-batches from one to another, both included.
    pub index: Option<(MiniBatchIndex, MiniBatchIndex)>,
    /// Those of the nodes from one to another, both included; of any of these ranges, and of all nodes where there is none.
    pub nodes: Vec<(u32, u32)>,
    /// Those of processes of one of these names.
    pub processes: Vec<String>,
    /// Those of one of these error groups.
    pub groups: Vec<String>,
    /// Those that ran since then, microseconds since the Unix epoch.
    pub from_us: Option<u64>,
    /// Those that began until then.
    pub to_us: Option<u64>,
    /// Those that took so long at least, microseconds.
    pub least_us: Option<u64>,
    /// What comes first.
    pub order: Order,
}

/// Whether a part can have tries of nodes of a range; it tells no more than so many of them apart.
fn may_have_some(extent: &Extent, (from, to): (u32, u32)) -> bool {
    to - from >= TOLD_APART || (from..=to).any(|node| extent.may_have_node(node))
}

impl Wanted {
    /// Whether tries of this node are asked for.
    pub(super) fn is_of_node(&self, node_id: u32) -> bool {
        any(&self.nodes, |(from, to)| (*from..=*to).contains(&node_id))
    }

    /// The table that has all of them: that of troubled ones is short, whatever the job's size.
    pub(super) fn which(&self) -> Which {
        let is_troubled =
            |state: &State| matches!(state, State::Failed | State::Retried | State::Short | State::Lacking);
        let by_state = !self.states.is_empty() && self.states.iter().all(is_troubled);
        let by_status = !self.statuses.is_empty() && !self.statuses.contains(&TryStatus::RunDone);
        if by_state || by_status || !self.groups.is_empty() { Which::Troubled } else { Which::All }
    }

    /// Whether a part can have some.
    pub(super) fn may_be_in(&self, extent: &Extent) -> bool {
        // What began earlier than the part may have run on.
        let ran_until = extent.last_us.saturating_add(extent.most_us);
        let failed = extent.rows - extent.tries(TryStatus::RunDone).min(extent.rows);
        extent.rows > 0
            && self.index.is_none_or(|(from, to)| extent.least_index <= to && from <= extent.most_index)
            && any(&self.nodes, |range| may_have_some(extent, *range))
            && any(&self.groups, |group| extent.may_have_group(group))
            && self.from_us.is_none_or(|from| ran_until >= from)
            && self.to_us.is_none_or(|to| extent.first_us <= to)
            && self.least_us.is_none_or(|least| extent.most_us >= least)
            && any(&self.statuses, |status| extent.tries(*status) > 0)
            && any(&self.states, |state| extent.outcomes > 0 && (*state != State::Failed || failed > 0))
    }

    /// Whether a try is one of them. `which` is the table that it stands in, all of whose successes had failed before or lack
    /// items where it is that of troubled ones.
    pub(super) fn has(&self, block: &Block, row: &Row) -> bool {
        let process = || block.processes.get(row.process as usize).map_or("", |process| &process.name);
        let is_short = !row.has_failed() && row.succeeded < row.items;
        let is_in = |state: &State| match state {
            State::Failed => row.has_failed(),
            State::Short => is_short,
            State::Lacking => row.has_failed() || is_short,
            // In the table of troubled ones, a success that lacks nothing had failed before; that of all is looked into where all that
            // succeeded are wanted, too.
            State::Retried => !row.has_failed() && (!is_short || row.number > 1),
            State::Succeeded => !row.has_failed(),
            State::All => true,
        };
        any(&self.states, |state| row.is_outcome && is_in(state))
            && self.index.is_none_or(|(from, to)| (from..=to).contains(&row.index))
            && self.is_of_node(block.node_id)
            && any(&self.processes, |wanted| wanted == process())
            && any(&self.groups, |group| *group == row.group)
            && self.from_us.is_none_or(|from| row.started_us.saturating_add(row.elapsed_us) >= from)
            && self.to_us.is_none_or(|to| row.started_us <= to)
            && self.least_us.is_none_or(|least| row.elapsed_us >= least)
            && (self.statuses.is_empty()
                || row.status().is_some_and(|status| self.statuses.contains(&status)))
    }
}

/// Whether one of the values fits, or none is wanted.
pub(super) fn any<T>(values: &[T], fits: impl FnMut(&T) -> bool) -> bool {
    values.is_empty() || values.iter().any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(change: impl FnOnce(&mut Wanted)) -> Wanted {
        let mut wanted = Wanted::default();
        change(&mut wanted);
        wanted
    }

    #[test]
    fn what_failed_is_looked_for_in_the_short_table() {
        for (wanted, expected) in [
            (wanted(|_| {}), Which::All),
            (wanted(|of| of.states = vec![State::All]), Which::All),
            (wanted(|of| of.states = vec![State::Failed]), Which::Troubled),
            (wanted(|of| of.states = vec![State::Failed, State::Short]), Which::Troubled),
            (wanted(|of| of.states = vec![State::Failed, State::Succeeded]), Which::All),
            (wanted(|of| of.states = vec![State::Retried]), Which::Troubled),
            (wanted(|of| of.states = vec![State::Lacking]), Which::Troubled),
            (wanted(|of| of.groups = vec!["abc".to_owned()]), Which::Troubled),
            (wanted(|of| of.statuses = vec![TryStatus::RunTimeout]), Which::Troubled),
            (wanted(|of| of.statuses = vec![TryStatus::RunTimeout, TryStatus::RunDone]), Which::All),
        ] {
            assert_eq!(wanted.which(), expected, "{wanted:?}");
        }
    }

    #[test]
    fn a_part_is_left_out_where_no_row_of_it_is_wanted() {
        let row = |index, status| Row {
            index,
            number: 2,
            status,
            is_outcome: true,
            started_us: 1_000 + index,
            elapsed_us: 10 * index,
            group: if status == 0 { String::new() } else { "abc".to_owned() },
            ..Row::default()
        };
        let rows = [row(3, 0), row(9, 1)];
        let block = Block {
            node_id: 7,
            processes: vec![prs_common::segment::ProcessRef::default()],
            ..Block::default()
        };
        let mut extent = Extent::default();
        for row in &rows {
            extent.add(7, row);
        }
        for (wanted, expected) in [
            (wanted(|_| {}), 2),
            (wanted(|of| of.index = Some((4, 8))), 0),
            (wanted(|of| of.index = Some((4, 9))), 1),
            (wanted(|of| of.index = Some((10, 20))), 0),
            (wanted(|of| of.nodes = vec![(8, 8)]), 0),
            (wanted(|of| of.nodes = vec![(8, 15), (0, 3)]), 0),
            (wanted(|of| of.nodes = vec![(7, 7)]), 2),
            (wanted(|of| of.nodes = vec![(0, 2), (6, 7)]), 2),
            (wanted(|of| of.nodes = vec![(0, u32::MAX)]), 2),
            (wanted(|of| of.groups = vec!["abc".to_owned()]), 1),
            (wanted(|of| of.groups = vec!["abd".to_owned()]), 0),
            (wanted(|of| of.least_us = Some(90)), 1),
            (wanted(|of| of.least_us = Some(91)), 0),
            (wanted(|of| of.from_us = Some(1_099)), 1),
            (wanted(|of| of.from_us = Some(1_100)), 0),
            (wanted(|of| of.to_us = Some(1_003)), 1),
            (wanted(|of| of.to_us = Some(1_002)), 0),
            (wanted(|of| of.states = vec![State::Failed]), 1),
            (wanted(|of| of.states = vec![State::Retried]), 1),
            (wanted(|of| of.states = vec![State::Failed, State::Retried]), 2),
            (wanted(|of| of.statuses = vec![TryStatus::NodeLost]), 0),
        ] {
            let found = rows.iter().filter(|row| wanted.has(&block, row)).count();
            assert_eq!(found, expected, "{wanted:?}");
            assert!(found == 0 || wanted.may_be_in(&extent), "{wanted:?}");
        }
        assert!(!wanted(|of| of.index = Some((10, 20))).may_be_in(&extent));
        assert!(!wanted(|of| of.nodes = vec![(8, 12)]).may_be_in(&extent));
        assert!(!wanted(|of| of.statuses = vec![TryStatus::NodeLost]).may_be_in(&extent));
    }
}
