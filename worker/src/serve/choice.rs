//! Which of the offered jobs a worker serves, and as what: a pure function of what the ledger shows.

use prs_common::ledger::{JobState, Offer, Offered};
use tokio::time::Instant;

/// As what a worker serves a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Nobody watches over it, and it wants no nodes: the worker ends it, or tidies up behind it.
    Steward,
    /// It wants more nodes.
    Node,
    /// It wants nodes, has none, and nobody watches over it: a worker that is of no use as a node does, for it knows how the
    /// job ends where no other comes.
    Watcher,
}

/// What a worker leaves to others of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// All of it, until then.
    Until(Instant),
    /// To run mini-batches, for which it is of no use. It may watch over the job and end it, which nobody else may do.
    Nodes,
    /// All of it, for good.
    All,
}

/// Whether a worker takes the role in a job at `now`, where it left this of it to others, or nothing.
pub(super) fn takes(left: Option<Left>, role: Role, now: Instant) -> bool {
    match left {
        Some(Left::Nodes) => role != Role::Node,
        // A worker that may be of use is a node.
        _ if role == Role::Watcher => false,
        Some(Left::Until(until)) => until <= now,
        Some(Left::All) => false,
        None => true,
    }
}

/// A job to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) target: String,
    pub(super) offer: Offer,
    pub(super) role: Role,
}

/// What there is to do, the most urgent first: jobs that only have to be ended, then those that nobody serves, then those
/// that want more nodes, each the oldest first.
pub(super) fn choices(offered: impl IntoIterator<Item = (String, Offered)>) -> Vec<Choice> {
    let mut found: Vec<_> = offered
        .into_iter()
        .flat_map(|(target, offered)| {
            roles(&offered).into_iter().flatten().map(move |role| {
                let order = (role, offered.nodes > 0, offered.offer.started_us);
                (order, Choice { target: target.clone(), offer: offered.offer.clone(), role })
            })
        })
        .collect();
    found.sort_by(|(left, one), (right, other)| {
        left.cmp(right).then_with(|| one.offer.run.cmp(&other.offer.run))
    });
    found.into_iter().map(|(_, choice)| choice).collect()
}

/// The roles that a job has to give.
fn roles(offered: &Offered) -> [Option<Role>; 2] {
    let node = (offered.nodes < offered.offer.nodes).then_some(Role::Node);
    // The first node that joins enters the job again.
    let Some(known) = offered.known else { return [node, None] };
    let is_running = matches!(known.state, JobState::Queued | JobState::Scheduling | JobState::Running);
    if is_running && !known.is_concluded {
        // Its nodes take turns to watch.
        let is_left_alone = offered.nodes == 0 && !known.is_watched;
        return [node, is_left_alone.then_some(Role::Watcher)];
    }
    [(!known.is_watched).then_some(Role::Steward), None]
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::KnownJob;

    use super::*;

    fn offered(
        run: &str,
        started_us: u64,
        nodes: u32,
        known: impl Into<Option<KnownJob>>,
    ) -> (String, Offered) {
        let offer = Offer {
            job_id: run.to_owned(),
            incarnation: 1,
            run: run.to_owned(),
            prs_version: String::new(),
            nodes: 2,
            started_us,
        };
        ("default".to_owned(), Offered { offer, nodes, known: known.into(), unmoved: None })
    }

    fn known(state: JobState, is_concluded: bool, is_watched: bool) -> KnownJob {
        KnownJob { state, is_concluded, is_watched }
    }

    #[test]
    fn a_job_wants_nodes_or_a_watcher_or_a_steward_or_nobody() {
        use JobState::{Canceled, Completed, Finalizing, Queued, Running, Scheduling};
        let table: [(_, _, &[Role]); 15] = [
            (0, None, &[Role::Node]),
            (2, None, &[]),
            (0, Some(known(Queued, false, false)), &[Role::Node, Role::Watcher]),
            (0, Some(known(Running, false, false)), &[Role::Node, Role::Watcher]),
            (0, Some(known(Running, false, true)), &[Role::Node]),
            (1, Some(known(Scheduling, false, true)), &[Role::Node]),
            (1, Some(known(Running, false, true)), &[Role::Node]),
            // Its nodes take turns to watch.
            (1, Some(known(Running, false, false)), &[Role::Node]),
            (2, Some(known(Running, false, false)), &[]),
            (0, Some(known(Running, true, true)), &[]),
            (0, Some(known(Queued, true, false)), &[Role::Steward]),
            (1, Some(known(Finalizing, false, true)), &[]),
            (1, Some(known(Finalizing, false, false)), &[Role::Steward]),
            (0, Some(known(Completed, true, false)), &[Role::Steward]),
            (0, Some(known(Canceled, true, true)), &[]),
        ];
        for (nodes, known, expected) in table {
            let found: Vec<_> = roles(&offered("job", 0, nodes, known).1).into_iter().flatten().collect();
            assert_eq!(found, expected, "{nodes} {known:?}");
        }
    }

    #[test]
    fn a_job_that_a_worker_left_is_served_by_it_where_that_is_of_use() {
        let now = Instant::now();
        let later = now + std::time::Duration::from_secs(1);
        let table = [
            (None, Role::Node, true),
            (None, Role::Steward, true),
            (None, Role::Watcher, false),
            (Some(Left::Until(now)), Role::Node, true),
            (Some(Left::Until(now)), Role::Watcher, false),
            (Some(Left::Until(later)), Role::Node, false),
            (Some(Left::Until(later)), Role::Steward, false),
            (Some(Left::Nodes), Role::Node, false),
            (Some(Left::Nodes), Role::Steward, true),
            (Some(Left::Nodes), Role::Watcher, true),
            (Some(Left::All), Role::Steward, false),
            (Some(Left::All), Role::Watcher, false),
        ];
        for (left, role, expected) in table {
            assert_eq!(takes(left, role, now), expected, "{left:?} {role:?}");
        }
    }

    #[test]
    fn what_ends_soonest_comes_first_and_nobody_starves() {
        use Role::{Node, Steward, Watcher};
        let running = known(JobState::Running, false, true);
        let all = [
            offered("large", 1, 1, running),
            offered("late", 3, 0, known(JobState::Queued, false, false)),
            offered("full", 0, 2, running),
            offered("early", 2, 0, None),
            offered("ends", 9, 0, known(JobState::Finalizing, false, false)),
        ];
        let found: Vec<_> = choices(all).into_iter().map(|choice| (choice.offer.run, choice.role)).collect();
        let found: Vec<_> = found.iter().map(|(run, role)| (&**run, *role)).collect();
        let expected =
            [("ends", Steward), ("early", Node), ("late", Node), ("large", Node), ("late", Watcher)];
        assert_eq!(found, expected);
    }
}
