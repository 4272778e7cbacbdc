//! Summary: how long tries took, where the time went, the plan in cells, the slowest tries.

use super::live::TryRow;
use super::{Histogram, Part, PlanMap, ensure};
use crate::segment::TryStatus;

/// Most of the slowest tries.
pub const MOST_SLOWEST: usize = 200;

crate::record::record! {
    /// Where the time of slots went, microseconds. `idle` is what is left of `slots` without `busy` and `init`; the four of
    /// tries are of those that ended, and their proportions those of `busy`.
    pub struct Shares {
        /// Within `run()`.
        pub run_us: u64,
        /// CPU time.
        pub cpu_us: u64,
        /// Making the argument of `run()`.
        pub load_us: u64,
        /// The rest of the tries.
        pub other_us: u64,
        /// All slots.
        pub slots_us: u64,
        /// Slots with a mini-batch under way.
        pub busy_us: u64,
        /// Slots whose process was in `init()`.
        pub init_us: u64,
    }
}

crate::record::record! {
    /// The summary. What it says of time is of the present start of the job.
    pub struct Summary {
        /// When this was written.
        pub written_us: u64,
        /// Durations of `run()`, of tries that succeeded.
        pub run: Histogram,
        /// How long these took to make its argument.
        pub load: Histogram,
        /// All of these tries.
        pub whole: Histogram,
        /// Where the time went.
        pub shares: Shares,
        /// The plan.
        pub plan: PlanMap,
        /// The tries that took longest, the longest first.
        pub slowest: Vec<TryRow>,
        /// Tries by status, in the order of [`TryStatus::ALL`].
        pub by_status: Vec<u64>,
    }
}

impl Summary {
    /// How many tries ended so.
    pub fn tries(&self, status: TryStatus) -> u64 {
        let at = TryStatus::ALL.iter().position(|one| *one == status);
        at.and_then(|at| self.by_status.get(at)).copied().unwrap_or_default()
    }
}

impl Part for Summary {
    const NAME: &'static str = "summary";
    const MOST_BYTES: usize = 64 << 10;

    fn check(&self) -> Result<(), &'static str> {
        ensure(self.slowest.len() <= MOST_SLOWEST, "too many slowest tries")?;
        ensure(self.by_status.len() <= 64, "tries of too many kinds")
    }
}
