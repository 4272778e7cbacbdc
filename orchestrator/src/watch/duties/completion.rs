//! The end of the work: every mini-batch has its outcome, and each was read.

use super::{Action, Situation};
use crate::watch::Decision;

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let progress = &situation.now.progress;
    let is_complete = progress.is_complete() && situation.memory.followed >= progress.segments;
    is_complete.then_some(Action::End(Decision::Finalize))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Given;
    use super::*;

    #[test]
    fn a_job_is_finalized_when_all_of_its_plan_has_ended_and_was_read() {
        for (planned, ended, committed, followed, ends) in [
            (true, 100, 7, 7, true),
            (true, 100, 7, 6, false),
            (true, 99, 7, 7, false),
            (false, 100, 7, 7, false),
        ] {
            let decided = Given::running().decides(decide, |given| {
                let progress = &mut given.now.progress;
                (progress.checkpoint.complete, progress.succeeded, progress.segments) =
                    (planned, ended, committed);
                given.memory.followed = followed;
            });
            assert_eq!(decided.is_some(), ends, "{planned} {ended} {committed} {followed}");
        }
    }
}
