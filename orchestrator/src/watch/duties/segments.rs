//! Committed segments that were not read yet.

use super::{Action, Situation};

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    // Fewer than before are too: the ledger has lost some.
    (situation.now.progress.segments != situation.memory.followed).then_some(Action::Follow)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Given;
    use super::*;

    #[test]
    fn segments_are_followed_until_all_are() {
        for (committed, followed, follows) in [(0, 0, false), (3, 0, true), (3, 3, false), (2, 3, true)] {
            let decided = Given::running().decides(decide, |given| {
                (given.now.progress.segments, given.memory.followed) = (committed, followed);
            });
            assert_eq!(decided.is_some(), follows, "{committed} {followed}");
        }
    }
}
