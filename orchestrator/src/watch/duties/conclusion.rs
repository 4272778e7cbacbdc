//! An end that is decided already: by who cancels, by the scheduler, or by an orchestrator before this one.

use super::{Action, Situation};
use crate::watch::Decision;

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let conclusion = situation.now.progress.conclusion.clone()?;
    Some(Action::End(Decision::of(conclusion)))
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::{Conclusion, JobState};

    use super::super::tests::Given;
    use super::*;

    #[test]
    fn what_is_decided_stands() {
        for (state, finalizes) in
            [(JobState::Canceled, false), (JobState::Failed, false), (JobState::Completed, true)]
        {
            let conclusion = Conclusion { state, reason: "why".to_owned() };
            let decided = Given::running().decides(decide, |given| {
                given.now.progress.conclusion = Some(conclusion.clone());
            });
            // A job that completed has a result; the orchestrator that decided so may have died before it wrote that.
            let expected = if finalizes { Decision::Finalize } else { Decision::Conclude(conclusion) };
            assert_eq!(decided, Some(Action::End(expected)));
        }
    }
}
