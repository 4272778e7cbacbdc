//! Servers that do not answer an orchestrator, and since when: one that others reach is their duty, and the lease goes to
//! them.

use std::time::{Duration, Instant};

use prs_common::ledger::ObstacleKind;

use super::scheduler::Publishing;
use crate::job::reach::Server;
use crate::plan::schedule::Scheduled;

/// A server that does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) server: Server,
    /// What it says, or does not say.
    pub(super) error: String,
    /// When the first call began that failed.
    since: Instant,
}

impl Trouble {
    fn go_on(this: &mut Option<Self>, server: Server, error: String, began: Instant) {
        let since = this.take().filter(|known| known.server == server).map_or(began, |known| known.since);
        *this = Some(Self { server, error, since });
    }
}

/// What does not go on, by whose calls fail.
#[derive(Debug, Clone, Default)]
pub(super) struct Troubles {
    /// The look at the queue.
    queue: Option<Trouble>,
    /// The publishing of the plan.
    plan: Option<Trouble>,
    /// What duties do, and the end of the job.
    duties: Option<Trouble>,
    /// How far the plan was published at the look before.
    scheduled: u64,
}

impl Troubles {
    /// Takes in a look at the queue that began at this time.
    pub(super) fn looked_at_queue(&mut self, answer: Result<(), String>, began: Instant) {
        match answer {
            Ok(()) => self.queue = None,
            Err(error) => Trouble::go_on(&mut self.queue, Server::Broker, error, began),
        }
    }

    /// Takes in what the scheduler of this orchestrator does at a look, and how far the plan was published.
    pub(super) fn publishes(&mut self, publishing: &Publishing, scheduled: u64, at: Instant) {
        let moves = std::mem::replace(&mut self.scheduled, scheduled) != scheduled;
        match publishing {
            Publishing::Ended { outcome: Scheduled::Interrupted { server: Some(server), error }, .. } => {
                Trouble::go_on(&mut self.plan, *server, error.clone(), at);
            }
            Publishing::Ended { .. } => self.plan = None,
            _ if moves => self.plan = None,
            // It begins anew, and meets the same or does not.
            Publishing::UnderWay | Publishing::Idle => {}
        }
    }

    /// Takes in that a duty, or the end of the job, met a server that does not answer.
    pub(super) fn fails(&mut self, server: Server, error: String, began: Instant) {
        Trouble::go_on(&mut self.duties, server, error, began);
    }

    /// Takes in that all duties of a look were done.
    pub(super) fn all_is_done(&mut self) {
        self.duties = None;
    }

    /// What has lasted longest at `now`, where that is at least `least`.
    pub(super) fn lasting(&self, now: Instant, least: Duration) -> Option<&Trouble> {
        let all = [&self.queue, &self.plan, &self.duties].into_iter().flatten();
        let longest = all.min_by_key(|trouble| trouble.since)?;
        (now.saturating_duration_since(longest.since) >= least).then_some(longest)
    }
}

/// What the ledger is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObstacleNote<'a> {
    /// What the job waits for, and why.
    Waits(ObstacleKind, &'a str),
    /// That it goes on.
    GoesOn,
}

/// What the ledger is told of what a job waits for, if anything. An obstacle that keeps
/// workers from watching stands until one of them has watched for a while: the next one may meet it again.
pub(super) fn obstacle_to_tell(
    met: Option<(ObstacleKind, &str)>,
    known: Option<ObstacleKind>,
    is_well: bool,
) -> Option<ObstacleNote<'_>> {
    let stands = known == Some(ObstacleKind::Watch) && !is_well;
    let is_told = met.map(|(kind, _)| kind) == known;
    let note = met.map_or(ObstacleNote::GoesOn, |(kind, reason)| ObstacleNote::Waits(kind, reason));
    (!stands && !is_told).then_some(note)
}

#[cfg(test)]
mod tests {
    use super::super::duties::tests::at;
    use super::*;

    fn ended(outcome: Scheduled) -> Publishing {
        Publishing::Ended { outcome, refills: false }
    }

    fn interrupted(server: Option<Server>) -> Publishing {
        ended(Scheduled::Interrupted { server, error: "no answer".to_owned() })
    }

    #[test]
    fn the_ledger_is_told_what_a_job_waits_for_and_when_it_goes_on() {
        use ObstacleKind::{Broker, Storage, Watch};
        let (broker, waits) = (Some((Broker, "no answer")), Some(ObstacleNote::Waits(Broker, "no answer")));
        let goes_on = Some(ObstacleNote::GoesOn);
        let table = [
            (None, None, true, None),
            (broker, None, false, waits),
            (broker, Some(Broker), true, None),
            (broker, Some(Storage), true, waits),
            (None, Some(Broker), false, goes_on),
            (None, Some(Watch), false, None),
            (broker, Some(Watch), false, None),
            (None, Some(Watch), true, goes_on),
            (broker, Some(Watch), true, waits),
        ];
        for (met, known, is_well, expected) in table {
            assert_eq!(obstacle_to_tell(met, known, is_well), expected, "{met:?} {known:?} {is_well}");
        }
    }

    #[test]
    fn a_trouble_lasts_from_its_first_failure_to_the_first_success() {
        type Step = fn(&mut Troubles, Instant);
        let queue_fails: Step = |troubles, at| troubles.looked_at_queue(Err("no answer".to_owned()), at);
        let queue_answers: Step = |troubles, at| troubles.looked_at_queue(Ok(()), at);
        let plan_fails: Step = |troubles, at| troubles.publishes(&interrupted(Some(Server::Broker)), 0, at);
        let plan_begins: Step = |troubles, at| troubles.publishes(&Publishing::UnderWay, 0, at);
        let plan_moves: Step = |troubles, at| troubles.publishes(&Publishing::UnderWay, 7, at);
        let plan_ends: Step = |troubles, at| troubles.publishes(&ended(Scheduled::Complete), 0, at);
        let job_lost: Step = |troubles, at| troubles.publishes(&interrupted(None), 0, at);
        let duty_fails: Step = |troubles, at| troubles.fails(Server::Storage, "no answer".to_owned(), at);
        let all_done: Step = |troubles, _| troubles.all_is_done();
        // What happens in seconds 1, 2, ..., and what has lasted ten seconds at second 12.
        let table: [(&[Step], Option<Server>); 11] = [
            (&[], None),
            (&[queue_fails], Some(Server::Broker)),
            (&[plan_begins, plan_begins, queue_fails], None),
            (&[queue_fails, queue_fails, queue_fails], Some(Server::Broker)),
            (&[queue_fails, queue_answers, queue_fails], None),
            (&[queue_fails, all_done, plan_ends], Some(Server::Broker)),
            (&[plan_fails, plan_begins, plan_fails, queue_answers], Some(Server::Broker)),
            (&[plan_fails, plan_moves, plan_begins], None),
            (&[plan_fails, job_lost], None),
            (&[duty_fails, duty_fails, queue_answers], Some(Server::Storage)),
            (&[duty_fails, all_done, duty_fails], None),
        ];
        for (number, (steps, expected)) in table.into_iter().enumerate() {
            let mut troubles = Troubles::default();
            for (second, step) in (1..).zip(steps) {
                step(&mut troubles, at(second));
            }
            let lasting = troubles.lasting(at(12), Duration::from_secs(10));
            assert_eq!(lasting.map(|trouble| trouble.server), expected, "{number}");
        }
    }
}
