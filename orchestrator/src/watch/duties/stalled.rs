//! Mini-batches that are nowhere: they have no outcome, do not wait and are in no node's hands.

use super::{Action, Situation};

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let Situation { now, memory, policy, .. } = *situation;
    let since = memory.quiet_since?.max(memory.moved);
    (now.upkeep.is_some() && now.at - since > policy.stalled).then_some(Action::Restore)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Given, at};
    use super::*;
    use crate::watch::observe::{SeenQueue, Upkeep};

    #[test]
    fn what_is_nowhere_for_long_is_looked_for() {
        let table = [
            (None, 0, false),
            (Some(1), 0, true),
            (Some(1), 8, false),
            (Some(8), 0, false),
            (Some(7), 0, false),
            (Some(6), 0, true),
        ];
        for (quiet_since, moved, looks) in table {
            let decided = Given::running().decides(decide, |given| {
                given.now.upkeep = Some(Upkeep { queue: SeenQueue::Holds(0), is_published_elsewhere: false });
                (given.memory.quiet_since, given.memory.moved) = (quiet_since.map(at), at(moved));
            });
            assert_eq!(decided.is_some(), looks, "{quiet_since:?} {moved}");
        }
    }
}
