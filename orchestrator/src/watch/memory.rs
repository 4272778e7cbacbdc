//! What the orchestrator has to remember between two looks.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use prs_common::end_reason::EndReason;
use prs_common::ledger::JobState;
use prs_common::mini_batch::MiniBatchIndex;

use super::observe::{SeenQueue, Snapshot};
use super::scheduler::Publishing;
use crate::job::policy::Policy;
use crate::plan::schedule::Scheduled;

/// The memory of one watch.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    /// When the job began.
    pub(super) started: Instant,
    /// When this watch began.
    pub(super) watched_since: Instant,
    /// Where the job stands.
    pub(super) state: JobState,
    /// When something moved last: an outcome, a segment, the plan, or a side input on its way.
    pub(super) moved: Instant,
    mark: (u64, u64, u64, u64),
    /// When all nodes were last making the environment of the script, or the job began: what follows is timed from here.
    pub(super) prepared: Instant,
    /// When the last node joined.
    pub(super) joined: Instant,
    nodes: usize,
    /// When the last node told that its host lacks what the script needs.
    pub(super) lacked: Instant,
    unfit: usize,
    /// Seats that were taken at the look before, and at this one.
    pub(super) seats: (usize, usize),
    /// Since when nothing waits, nothing is in hand and nothing is published, while mini-batches have no outcome.
    pub(super) quiet_since: Option<Instant>,
    /// Committed segments that were followed.
    pub(super) followed: u64,
    /// Why no header, or no columns of a file, fit all rows that were followed, where the job asks for them.
    pub(super) columns_differ: Option<EndReason>,
    /// What 95 of 100 tries took at most, once enough are known.
    pub(super) usual: Option<Duration>,
    /// Mini-batches that this watch had started a second time.
    pub(super) copied: BTreeSet<MiniBatchIndex>,
    /// When it did last.
    pub(super) speculated: Option<Instant>,
    /// Whether nothing waited in the queue at the last look at it.
    pub(super) is_queue_empty: bool,
    /// Number of the job's queue that is used.
    pub(super) queue: u32,
    /// Whether what was published before is lost: all that has no outcome must be published again.
    pub(super) refill: bool,
    /// When the next look at what may get lost is due.
    pub(super) upkeep_at: Instant,
    /// When the next line of the overview is.
    pub(super) overview_at: Instant,
    /// When the record is to be written next.
    pub(super) record_at: Instant,
}

impl Memory {
    /// Of a watch that begins `now` over a job that began some time `ago`.
    pub(super) fn new(now: Instant, ago: Duration) -> Self {
        Self {
            started: now.checked_sub(ago).unwrap_or(now),
            watched_since: now,
            state: JobState::Queued,
            moved: now,
            mark: (0, 0, 0, 0),
            prepared: now.checked_sub(ago).unwrap_or(now),
            joined: now,
            nodes: 0,
            lacked: now,
            unfit: 0,
            seats: (0, 0),
            quiet_since: None,
            followed: 0,
            columns_differ: None,
            usual: None,
            copied: BTreeSet::new(),
            speculated: None,
            is_queue_empty: false,
            queue: 0,
            refill: false,
            upkeep_at: now,
            overview_at: now,
            record_at: now,
        }
    }

    /// Takes in that nobody watched for so long since the last look, for this program was stopped.
    pub(super) fn was_stopped(&mut self, long: Duration) {
        for at in
            [&mut self.watched_since, &mut self.moved, &mut self.prepared, &mut self.joined, &mut self.lacked]
        {
            *at += long;
        }
        self.quiet_since = self.quiet_since.map(|since| since + long);
    }

    /// Takes in a look.
    pub(super) fn advance(&mut self, seen: &Snapshot, policy: &Policy) {
        let progress = &seen.progress;
        self.state = seen.state;
        // A side input may be larger than a job is patient.
        let fetched = seen.nodes.iter().map(|node| node.report.fetched).sum();
        let mark = (progress.ended(), progress.segments, progress.checkpoint.scheduled, fetched);
        if mark != self.mark {
            (self.moved, self.mark) = (seen.at, mark);
        }
        if seen.nodes.len() != self.nodes {
            (self.joined, self.nodes) = (seen.at, seen.nodes.len());
        }
        let mut present = seen.present().peekable();
        if present.peek().is_some() && present.all(|node| node.report.preparing.is_some()) {
            // It takes as long as it takes: no time-out of the job counts it.
            (self.moved, self.joined, self.prepared) = (seen.at, seen.at, seen.at);
        }
        let unfit = seen.nodes.iter().filter(|node| node.report.is_unfit).count();
        if unfit != self.unfit {
            (self.lacked, self.unfit) = (seen.at, unfit);
        }
        self.seats = (self.seats.1, seen.seats_taken);
        if let Publishing::Ended { outcome, refills } = &seen.publishing {
            self.refill |= *refills && *outcome != Scheduled::Complete;
        }
        if let Some(upkeep) = &seen.upkeep {
            self.is_queue_empty = upkeep.queue == SeenQueue::Holds(0);
            self.upkeep_at = seen.at + policy.upkeep.unwrap_or_default();
            let is_quiet = self.is_queue_empty
                && seen.publishing != Publishing::UnderWay
                && progress.checkpoint.complete
                && !progress.is_complete()
                && seen.present().next().is_some()
                && seen.present().all(|node| node.report.in_hand == 0);
            self.quiet_since = is_quiet.then(|| self.quiet_since.unwrap_or(seen.at));
        }
    }
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::JobProgress;

    use super::super::duties::tests::{Given, at};
    use super::super::observe::Upkeep;
    use super::*;

    #[test]
    fn a_scheduler_that_refilled_and_did_not_end_well_leaves_the_rest_to_the_next() {
        let interrupted = || Scheduled::Interrupted { server: None, error: String::new() };
        let table = [
            (true, Scheduled::Complete, false),
            (true, interrupted(), true),
            (true, Scheduled::Stopped, true),
            (false, interrupted(), false),
        ];
        for (refills, outcome, expected) in table {
            let mut given = Given::running();
            given.now.publishing = Publishing::Ended { outcome: outcome.clone(), refills };
            given.memory.advance(&given.now, &given.policy);
            assert_eq!(given.memory.refill, expected, "{outcome:?}");
        }
    }

    #[test]
    fn movement_and_arrivals_are_noted_when_they_come() {
        let mut given = Given::running();
        for (second, ended, nodes, moved, joined) in
            [(1, 0, 1, 0, 0), (2, 0, 1, 0, 0), (3, 5, 1, 3, 0), (4, 5, 2, 3, 4), (5, 4, 2, 5, 4)]
        {
            given.now.at = at(second);
            given.now.progress.succeeded = ended;
            given.now.nodes = (0..nodes).map(|_| Given::node()).collect();
            given.memory.advance(&given.now, &given.policy);
            assert_eq!((given.memory.moved, given.memory.joined), (at(moved), at(joined)), "{second}");
        }
    }

    #[test]
    fn the_time_that_all_nodes_take_for_their_environment_counts_as_none() {
        let mut given = Given::running();
        given.now.nodes = vec![Given::node(), Given::node()];
        for (second, preparing, moved) in
            [(1, [true, true], 1), (5, [true, true], 5), (6, [true, false], 5), (7, [false, false], 5)]
        {
            given.now.at = at(second);
            for (node, preparing) in given.now.nodes.iter_mut().zip(preparing) {
                node.report.preparing = preparing.then(|| "making it".to_owned());
            }
            given.memory.advance(&given.now, &given.policy);
            assert_eq!((given.memory.moved, given.memory.prepared), (at(moved), at(moved)), "{second}");
        }
    }

    #[test]
    fn quiet_is_when_nothing_waits_and_nothing_is_in_hand() {
        let quiet = || {
            let mut given = Given::running();
            given.now.upkeep = Some(Upkeep { queue: SeenQueue::Holds(0), is_published_elsewhere: false });
            given
        };
        let is_quiet = |mut given: Given| {
            given.memory.advance(&given.now, &given.policy);
            given.memory.quiet_since.is_some()
        };
        assert!(is_quiet(quiet()));
        let table: [fn(&mut Given); 7] = [
            |given| given.now.upkeep.as_mut().unwrap().queue = SeenQueue::Holds(1),
            |given| given.now.upkeep.as_mut().unwrap().queue = SeenQueue::Unknown,
            |given| given.now.publishing = Publishing::UnderWay,
            |given| given.now.progress.checkpoint.complete = false,
            |given| given.now.progress.succeeded = given.now.progress.checkpoint.scheduled,
            |given| given.now.nodes.clear(),
            |given| given.now.nodes[0].report.in_hand = 1,
        ];
        for (number, change) in table.into_iter().enumerate() {
            let mut given = quiet();
            change(&mut given);
            assert!(!is_quiet(given), "{number}");
        }
        // The time of the first such look stays, and one that is not so ends it.
        let mut given = quiet();
        for second in [1, 2] {
            given.now.at = at(second);
            given.memory.advance(&given.now, &given.policy);
            assert_eq!(given.memory.quiet_since, Some(at(1)));
        }
        given.now.progress = JobProgress::default();
        given.memory.advance(&given.now, &given.policy);
        assert_eq!(given.memory.quiet_since, None);
    }
}
