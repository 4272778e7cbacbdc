//! The lines of the progress overview, and the summaries (spec section 5).

use super::{Action, Situation};

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    (situation.now.at >= situation.memory.overview_at).then_some(Action::WriteOverview)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Given, at};
    use super::*;

    #[test]
    fn a_line_is_written_when_it_is_time() {
        for (second, writes) in [(4, false), (5, true), (6, true)] {
            let decided = Given::running().decides(decide, |given| {
                (given.now.at, given.memory.overview_at) = (at(second), at(5));
            });
            assert_eq!(decided.is_some(), writes, "{second}");
        }
    }
}
