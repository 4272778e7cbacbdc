//! Failures beyond what the job allows (spec S7).

use super::{Action, Situation};
use crate::watch::thresholds::exceeded;

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    exceeded(situation.spec, &situation.now.progress).map(Action::Abort)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Given;
    use super::*;

    #[test]
    fn a_job_ends_with_the_failure_that_is_one_too_many() {
        for (failed, ends) in [(2, false), (3, true)] {
            let decided = Given::running().decides(decide, |given| {
                (given.spec.error_threshold, given.now.progress.items) = (2, failed);
            });
            assert_eq!(decided.is_some(), ends, "{failed}");
        }
    }
}
