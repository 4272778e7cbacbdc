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
}

/// What a worker leaves to others of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// All of it, until then.
    Until(Instant),
    /// To run mini-batches, for which it is of no use. It may end the job, which nobody else may do.
    Nodes,
    /// All of it, for good.
    All,
}

impl Left {
    /// Whether a worker that leaves this of a job takes the role in it at `now`.
    pub(super) fn permits(self, role: Role, now: Instant) -> bool {
        match self {
            Self::Until(until) => until <= now,
            Self::Nodes => role == Role::Steward,
            Self::All => false,
        }
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
        .filter_map(|(target, offered)| {
            let role = role(&offered)?;
            let order = (role, offered.nodes > 0, offered.offer.started_us);
            Some((order, Choice { target, offer: offered.offer, role }))
        })
        .collect();
    found.sort_by(|(left, one), (right, other)| {
        left.cmp(right).then_with(|| one.offer.run.cmp(&other.offer.run))
    });
    found.into_iter().map(|(_, choice)| choice).collect()
}

fn role(offered: &Offered) -> Option<Role> {
    let has_seats = offered.nodes < offered.offer.nodes;
    // The first node that joins enters the job again.
    let Some(known) = offered.known else { return has_seats.then_some(Role::Node) };
    let is_running = matches!(known.state, JobState::Queued | JobState::Scheduling | JobState::Running);
    if is_running && !known.is_concluded {
        return has_seats.then_some(Role::Node);
    }
    (!known.is_watched).then_some(Role::Steward)
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
    fn a_job_wants_nodes_or_a_steward_or_nobody() {
        use JobState::{Canceled, Completed, Finalizing, Queued, Running, Scheduling};
        let table = [
            (0, None, Some(Role::Node)),
            (2, None, None),
            (0, Some(known(Queued, false, false)), Some(Role::Node)),
            (1, Some(known(Scheduling, false, true)), Some(Role::Node)),
            (1, Some(known(Running, false, true)), Some(Role::Node)),
            (2, Some(known(Running, false, true)), None),
            // Its nodes take turns to watch.
            (2, Some(known(Running, false, false)), None),
            (0, Some(known(Running, true, true)), None),
            (0, Some(known(Queued, true, false)), Some(Role::Steward)),
            (1, Some(known(Finalizing, false, true)), None),
            (1, Some(known(Finalizing, false, false)), Some(Role::Steward)),
            (0, Some(known(Completed, true, false)), Some(Role::Steward)),
            (0, Some(known(Canceled, true, true)), None),
        ];
        for (nodes, known, expected) in table {
            assert_eq!(role(&offered("job", 0, nodes, known).1), expected, "{nodes} {known:?}");
        }
    }

    #[test]
    fn a_job_that_a_worker_left_is_served_by_it_where_that_is_of_use() {
        let now = Instant::now();
        let later = now + std::time::Duration::from_secs(1);
        let table = [
            (Left::Until(now), Role::Node, true),
            (Left::Until(later), Role::Node, false),
            (Left::Until(later), Role::Steward, false),
            (Left::Nodes, Role::Node, false),
            (Left::Nodes, Role::Steward, true),
            (Left::All, Role::Steward, false),
        ];
        for (left, role, expected) in table {
            assert_eq!(left.permits(role, now), expected, "{left:?} {role:?}");
        }
    }

    #[test]
    fn what_ends_soonest_comes_first_and_nobody_starves() {
        let running = known(JobState::Running, false, true);
        let all = [
            offered("large", 1, 1, running),
            offered("late", 3, 0, known(JobState::Queued, false, false)),
            offered("full", 0, 2, running),
            offered("early", 2, 0, None),
            offered("ends", 9, 0, known(JobState::Finalizing, false, false)),
        ];
        let runs: Vec<_> = choices(all).into_iter().map(|choice| choice.offer.run).collect();
        assert_eq!(runs, ["ends", "early", "late", "large"]);
    }
}
