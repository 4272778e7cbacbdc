//! Where the job stands, as far as the plan decides it.

use prs_common::ledger::JobState;

use super::{Action, Situation};

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let (now, is_planned) = (situation.now.state, situation.now.progress.checkpoint.complete);
    match now {
        JobState::Queued | JobState::Scheduling if is_planned => Some(Action::SetState(JobState::Running)),
        JobState::Queued => Some(Action::SetState(JobState::Scheduling)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Given;
    use super::*;

    #[test]
    fn a_job_goes_from_queued_by_scheduling_to_running() {
        use JobState::{Finalizing, Queued, Running, Scheduling};
        let table = [
            (Queued, false, Some(Scheduling)),
            (Queued, true, Some(Running)),
            (Scheduling, false, None),
            (Scheduling, true, Some(Running)),
            (Running, true, None),
            (Finalizing, true, None),
        ];
        for (state, complete, expected) in table {
            let decided = Given::running().decides(decide, |given| {
                (given.now.state, given.now.progress.checkpoint.complete) = (state, complete);
            });
            assert_eq!(decided, expected.map(Action::SetState), "{state:?} {complete}");
        }
    }
}
