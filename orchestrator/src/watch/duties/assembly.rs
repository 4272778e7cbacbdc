//! The growth of the result (spec S9).

use prs_common::job::OutputAction;

use super::{Action, Situation};

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let has_rows = situation.spec.output_action == OutputAction::AppendRow && situation.memory.followed > 0;
    has_rows.then_some(Action::Grow)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Given;
    use super::*;

    #[test]
    fn a_result_grows_where_there_is_one() {
        use OutputAction::{AppendRow, SummaryOnly};
        for (action, followed, grows) in
            [(AppendRow, 1, true), (AppendRow, 0, false), (SummaryOnly, 1, false)]
        {
            let decided = Given::running().decides(decide, |given| {
                (given.spec.output_action, given.memory.followed) = (action, followed);
                given.now.progress.segments = followed;
            });
            assert_eq!(decided.is_some(), grows, "{action:?} {followed}");
        }
    }
}
