//! The duties of an orchestrator, one file each: pure decisions over what one look showed.
//!
//! After each look every duty is asked in the order of [`ALL`], which puts what ends the job before what keeps it going.
//! None of them waits, calls a server or keeps a state of its own.

mod assembly;
mod columns;
mod completion;
mod conclusion;
mod init;
mod offer;
mod overview;
mod patience;
mod queue;
mod record;
mod scheduling;
mod seats;
mod segments;
mod speculation;
mod stalled;
mod states;
mod thresholds;

use prs_common::end_reason::EndReason;
use prs_common::job::JobSpec;
use prs_common::ledger::{Conclusion, JobState};

pub(super) use self::speculation::Straggler;
use super::Decision;
use super::memory::Memory;
use super::observe::Snapshot;
use crate::job::policy::Policy;

/// What decisions are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation<'a> {
    /// What this look showed.
    pub(super) now: &'a Snapshot,
    /// What looks before it did, and what was done since.
    pub(super) memory: &'a Memory,
    /// What depends on where the job runs.
    pub(super) policy: &'a Policy,
    /// The settings of the job.
    pub(super) spec: &'a JobSpec,
}

/// What is to be done. Each may be done twice.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Note where the job stands.
    SetState(JobState),
    /// Let idle workers look for a seat at once.
    Ring,
    /// Decide that the job ends so, unless it is decided already.
    Conclude(Conclusion),
    /// Let the job fail for too many failures, unless it is decided how it ends; its most frequent error is a part of the
    /// reason.
    Abort(EndReason),
    /// End the job as it is decided.
    End(Decision),
    /// Read what was committed.
    Follow,
    /// Let the result take in what was read.
    Grow,
    /// Write a line of the overview, and the summaries.
    WriteOverview,
    /// Bring the record up to date.
    WriteRecord,
    /// Offer the job to workers.
    Offer,
    /// Use the queue with this number.
    FollowQueue(u32),
    /// Make the job's queue anew, and publish again what it held.
    RemakeQueue,
    /// Let the scheduler end: what it has published is lost.
    DiscardScheduler,
    /// Publish the plan; again from the beginning where what was published is lost.
    Schedule {
        /// Whether it is.
        again: bool,
    },
    /// Leave the job to another host: this one cannot make the plan.
    LeavePlan {
        /// Why.
        reason: String,
    },
    /// Find out what became of mini-batches that are nowhere.
    Restore,
    /// Let nodes start these a second time.
    StartAgain(Vec<Straggler>),
}

/// A duty: what it decides in a situation.
type Decide = fn(&Situation) -> Option<Action>;

/// Every duty, with its name.
pub(super) const ALL: &[(&str, Decide)] = &[
    ("states", states::decide),
    ("seats", seats::decide),
    ("conclusion", conclusion::decide),
    ("thresholds", thresholds::decide),
    ("init", init::decide),
    ("patience", patience::decide),
    ("segments", segments::decide),
    ("columns", columns::decide),
    ("completion", completion::decide),
    ("assembly", assembly::decide),
    ("overview", overview::decide),
    ("record", record::decide),
    ("offer", offer::decide),
    ("queue", queue::decide),
    ("scheduling", scheduling::decide),
    ("stalled", stalled::decide),
    ("speculation", speculation::decide),
];

/// The action that lets the job fail.
fn fail(reason: &EndReason) -> Action {
    Action::Conclude(Conclusion::failed(reason))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use prs_common::ledger::{Checkpoint, JobProgress, NodeInfo, NodeReport, NodeView};

    use super::super::scheduler::Publishing;
    use super::*;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// So many seconds after the beginning.
    pub(crate) fn at(second: u64) -> Instant {
        *START + Duration::from_secs(second)
    }

    /// A situation, to be changed.
    #[derive(Clone)]
    pub(crate) struct Given {
        pub(crate) now: Snapshot,
        pub(crate) memory: Memory,
        pub(crate) policy: Policy,
        pub(crate) spec: JobSpec,
    }

    impl Given {
        /// A job on a fleet in its tenth second: 100 mini-batches are planned and none has ended; one node serves it, and
        /// nothing of note happened.
        pub(crate) fn running() -> Self {
            let checkpoint =
                Checkpoint { scheduled: 100, items: 100, complete: true, ..Checkpoint::default() };
            let now = Snapshot {
                at: at(10),
                state: JobState::Running,
                progress: JobProgress { checkpoint, ..JobProgress::default() },
                nodes: vec![Self::node()],
                seats_taken: 1,
                publishing: Publishing::Idle,
                untried_workers: 0,
                upkeep: None,
            };
            let policy = Policy::fleet();
            let mut memory = Memory::new(at(0), Duration::ZERO);
            memory.advance(&Snapshot { at: at(0), ..now.clone() }, &policy);
            memory.advance(&Snapshot { at: at(0), ..now.clone() }, &policy);
            (memory.overview_at, memory.record_at) = (at(1_000), at(1_000));
            let spec = JobSpec::new("job", "/", "x.py", Vec::new());
            Self { now, memory, policy, spec }
        }

        /// A node that serves the job.
        pub(crate) fn node() -> NodeView {
            NodeView {
                node_id: 0,
                info: NodeInfo { worker: "w".to_owned(), slots: 2, ..NodeInfo::default() },
                report: NodeReport { processes: 2, ever_ready: true, ..NodeReport::default() },
                silent: Duration::ZERO,
                left: false,
            }
        }

        /// What `duty` decides in it, once `change` is made.
        pub(crate) fn decides(
            mut self,
            duty: fn(&Situation) -> Option<Action>,
            change: impl FnOnce(&mut Self),
        ) -> Option<Action> {
            change(&mut self);
            let Self { now, memory, policy, spec } = &self;
            duty(&Situation { now, memory, policy, spec })
        }
    }

    #[test]
    fn nothing_is_to_be_done_while_all_goes_well() {
        let done: Vec<_> =
            ALL.iter().filter_map(|(_, duty)| Given::running().decides(*duty, |_| {})).collect();
        assert_eq!(done, []);
    }
}
