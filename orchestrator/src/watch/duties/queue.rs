//! The queue of the job: one that is gone is made anew, one that was left is left.

use super::{Action, Situation};
use crate::watch::observe::SeenQueue;

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    match situation.now.upkeep.as_ref()?.queue {
        SeenQueue::Lost => Some(Action::RemakeQueue),
        SeenQueue::Left(next) => Some(Action::FollowQueue(next)),
        // What the broker does not tell may come back: nothing of it may be removed.
        SeenQueue::Holds(_) | SeenQueue::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Given;
    use super::*;
    use crate::watch::observe::Upkeep;

    #[test]
    fn only_a_queue_that_is_gone_is_made_anew() {
        let table = [
            (SeenQueue::Lost, Some(Action::RemakeQueue)),
            (SeenQueue::Left(2), Some(Action::FollowQueue(2))),
            (SeenQueue::Holds(0), None),
            (SeenQueue::Unknown, None),
        ];
        for (queue, expected) in table {
            let decided = Given::running().decides(decide, |given| {
                given.now.upkeep = Some(Upkeep { queue: queue.clone(), is_published_elsewhere: false });
            });
            assert_eq!(decided, expected, "{queue:?}");
        }
    }
}
