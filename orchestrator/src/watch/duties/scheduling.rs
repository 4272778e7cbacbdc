//! The publishing of the plan, where nobody does it, or where what was published is lost.

use super::{Action, Situation};
use crate::plan::schedule::Scheduled;
use crate::watch::observe::SeenQueue;
use crate::watch::scheduler::Publishing;

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let Situation { now, memory, .. } = *situation;
    match &now.publishing {
        Publishing::UnderWay => return memory.refill.then_some(Action::DiscardScheduler),
        Publishing::Ended { outcome: Scheduled::Unable { reason }, .. } => {
            return Some(Action::LeavePlan { reason: reason.clone() });
        }
        Publishing::Ended { .. } | Publishing::Idle => {}
    }
    let upkeep = now.upkeep.as_ref()?;
    let is_published = now.progress.checkpoint.complete && !memory.refill;
    // What is done already tells whether the inputs are what they were.
    let is_followed = memory.followed >= now.progress.segments;
    let waits = upkeep.is_published_elsewhere || upkeep.queue == SeenQueue::Unknown || !is_followed;
    (!is_published && !waits).then_some(Action::Schedule { again: memory.refill })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Given;
    use super::*;
    use crate::watch::observe::Upkeep;

    fn unplanned() -> Given {
        let mut given = Given::running();
        given.now.progress.checkpoint.complete = false;
        given.now.upkeep = Some(Upkeep { queue: SeenQueue::Holds(3), is_published_elsewhere: false });
        given
    }

    #[test]
    fn a_plan_that_nobody_publishes_is() {
        assert_eq!(unplanned().decides(decide, |_| {}), Some(Action::Schedule { again: false }));
        let lost = unplanned().decides(decide, |given| given.memory.refill = true);
        assert_eq!(lost, Some(Action::Schedule { again: true }));
        let table: [fn(&mut Given); 6] = [
            |given| given.now.progress.checkpoint.complete = true,
            |given| given.now.upkeep = None,
            |given| given.now.upkeep.as_mut().unwrap().is_published_elsewhere = true,
            |given| given.now.upkeep.as_mut().unwrap().queue = SeenQueue::Unknown,
            |given| given.now.progress.segments = 1,
            |given| given.now.publishing = Publishing::UnderWay,
        ];
        for (number, change) in table.into_iter().enumerate() {
            assert_eq!(unplanned().decides(decide, change), None, "{number}");
        }
        let lost_when_complete = unplanned().decides(decide, |given| {
            (given.now.progress.checkpoint.complete, given.memory.refill) = (true, true);
        });
        assert_eq!(lost_when_complete, Some(Action::Schedule { again: true }));
    }

    #[test]
    fn a_scheduler_is_told_what_its_end_means() {
        let ended = |outcome| {
            unplanned().decides(decide, |given| {
                given.now.publishing = Publishing::Ended { outcome, refills: false };
            })
        };
        assert_eq!(
            ended(Scheduled::Interrupted { server: None, error: String::new() }),
            Some(Action::Schedule { again: false })
        );
        let reason = "no such folder here".to_owned();
        assert_eq!(ended(Scheduled::Unable { reason: reason.clone() }), Some(Action::LeavePlan { reason }));
        let lost = unplanned().decides(decide, |given| {
            (given.now.publishing, given.memory.refill) = (Publishing::UnderWay, true);
        });
        assert_eq!(lost, Some(Action::DiscardScheduler));
    }
}
