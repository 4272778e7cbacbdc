//! What is new of a job from one look at its statistics to the next: its errors, mini-batches that failed, its nodes.
//!
//! The first look tells nothing: who begins to watch asks the lists once for what was before, and misses nothing. A part of the statistics that
//! is not there then is empty; one that is not there later says nothing.

use std::collections::{HashMap, HashSet};

use prs_common::segment::TryStatus;
use prs_common::statistics::{ErrorGroup, NodeState};
use prs_common::timestamp::format_us;
use prs_portal::view::Published;
use serde::Serialize;

use super::nodes::{NodeOrder, NodeRecord, nodes};
use super::parts::ListedTry;

/// An error that came, or had more tries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorNews {
    /// The id of its group.
    pub group: String,
    /// How its tries ended: `RUN_EXCEPTION`, ...
    pub status: String,
    /// Class of the exception, or what stands for it.
    pub category: String,
    /// The message of the first of them.
    pub message: String,
    /// The tries so far.
    pub tries: u64,
    /// Mini-batches whose items are missing because of it.
    pub mini_batches_lost: u64,
    /// Those items.
    pub items_lost: u64,
    /// When the first of the tries began: UTC, RFC 3339.
    pub first_at: String,
    /// When the last of them began.
    pub last_at: String,
}

impl ErrorNews {
    fn of(group: &ErrorGroup) -> Self {
        Self {
            group: group.id.clone(),
            status: group.status.clone(),
            category: group.category.clone(),
            message: group.message.clone(),
            tries: group.tries,
            mini_batches_lost: group.mini_batches_lost,
            items_lost: group.items_lost,
            first_at: format_us(group.first_us),
            last_at: format_us(group.last_us),
        }
    }
}

/// What was told; nothing of a list before the first look.
#[derive(Debug, Default)]
pub struct News {
    /// The tries of errors, by the ids of their groups, and the mini-batches that they cost.
    errors: Option<HashMap<String, (u64, u64)>>,
    /// The tries that cost mini-batches, among those that ended last: the mini-batch, which try, when it began.
    failed: Option<HashSet<(u64, u32, u64)>>,
    nodes: Option<HashMap<u32, (NodeState, String)>>,
}

impl News {
    /// Errors that are new, or cost more than they did.
    pub fn errors(&mut self, of: &Published) -> Vec<ErrorNews> {
        let Some(errors) = &of.errors else {
            self.errors.get_or_insert_default();
            return Vec::new();
        };
        let now = |group: &ErrorGroup| (group.tries, group.mini_batches_lost);
        let known = errors.groups.iter().map(|group| (group.id.clone(), now(group))).collect();
        let Some(before) = self.errors.replace(known) else { return Vec::new() };
        let is_new = |group: &&ErrorGroup| before.get(&group.id) != Some(&now(group));
        errors.groups.iter().filter(is_new).map(ErrorNews::of).collect()
    }

    /// The tries that cost a mini-batch, as far as they are among those that ended last.
    pub fn failed(&mut self, of: &Published) -> Vec<ListedTry> {
        let Some(live) = &of.live else {
            self.failed.get_or_insert_default();
            return Vec::new();
        };
        let cost =
            live.recent.iter().filter(|row| row.is_outcome && row.status() != Some(TryStatus::RunDone));
        let cost: Vec<_> = cost.map(|row| ((row.index, row.number, row.started_us), row)).collect();
        let known = cost.iter().map(|(key, _)| *key).collect();
        let Some(before) = self.failed.replace(known) else { return Vec::new() };
        cost.into_iter().filter(|(key, _)| !before.contains(key)).map(|(_, row)| ListedTry::of(row)).collect()
    }

    /// Nodes that came, left, were lost, or say that they cannot go on.
    pub fn nodes(&mut self, of: &Published) -> Vec<NodeRecord> {
        let Some(known) = &of.nodes else {
            self.nodes.get_or_insert_default();
            return Vec::new();
        };
        let now = known.rows.iter().filter(|row| row.of <= 1);
        let now = now.map(|row| (row.node_id, (row.state, row.fatal.clone()))).collect();
        let Some(before) = self.nodes.replace(now) else { return Vec::new() };
        let Some(now) = &self.nodes else { return Vec::new() };
        let mut rows = nodes(known, NodeOrder::default(), of.has_ended());
        rows.retain(|node| node.node_id.is_some_and(|id| before.get(&id) != now.get(&id)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use prs_common::statistics::{Errors, Live, NodeRow, Nodes, TryRow};

    use super::*;

    #[test]
    fn what_is_told_is_what_came_since_the_last_look() {
        let group = |id: &str, tries| ErrorGroup { id: id.to_owned(), tries, ..ErrorGroup::default() };
        let row = |index, status: TryStatus, is_outcome| TryRow {
            index,
            status: status as u8,
            is_outcome,
            ..TryRow::default()
        };
        let node = |node_id, state| NodeRow { node_id, state, of: 1, ..NodeRow::default() };
        let published = |groups: Vec<ErrorGroup>, recent: Vec<TryRow>, rows: Vec<NodeRow>| Published {
            errors: Some(Errors { groups, ..Errors::default() }),
            live: Some(Live { recent, ..Live::default() }),
            nodes: Some(Nodes { rows, ..Nodes::default() }),
            ..Published::default()
        };
        let news = std::cell::RefCell::new(News::default());
        let told = |of: &Published| {
            let mut news = news.borrow_mut();
            let errors: Vec<_> =
                news.errors(of).into_iter().map(|error| (error.group, error.tries)).collect();
            let failed: Vec<_> = news.failed(of).into_iter().map(|row| row.index).collect();
            let nodes: Vec<_> = news.nodes(of).into_iter().map(|node| (node.node_id, node.state)).collect();
            (errors, failed, nodes)
        };
        let own = |id: &str, tries| (id.to_owned(), tries);
        let first = published(
            vec![group("a", 1)],
            vec![row(1, TryStatus::RunException, true)],
            vec![node(0, NodeState::Present), node(1, NodeState::Present)],
        );
        assert_eq!(told(&first), (vec![], vec![], vec![]), "what was before");
        let second = published(
            vec![group("a", 3), group("b", 1)],
            vec![
                row(1, TryStatus::RunException, true),
                row(2, TryStatus::RunException, false),
                row(3, TryStatus::RunDone, true),
                row(4, TryStatus::NodeLost, true),
            ],
            vec![node(0, NodeState::Present), node(1, NodeState::Lost), node(2, NodeState::Present)],
        );
        let expected = (vec![own("a", 3), own("b", 1)], vec![4], vec![(Some(1), "lost"), (Some(2), "live")]);
        assert_eq!(told(&second), expected);
        assert_eq!(told(&second), (vec![], vec![], vec![]), "once");
        news.take();
        assert_eq!(told(&Published::default()), (vec![], vec![], vec![]), "nothing was published yet");
        assert_eq!(told(&first).0, [own("a", 1)]);
        assert_eq!(told(&Published::default()), (vec![], vec![], vec![]), "what cannot be seen is not gone");
        assert_eq!(told(&first), (vec![], vec![], vec![]));
    }
}
