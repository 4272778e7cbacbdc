//! What happened when: a fixed number of time buckets over the whole life of a start of a job.
//!
//! The step begins at a second and doubles when the buckets are used up, so the whole job is always in view. Sums of two
//! buckets that become one are added; of gauges the later one stands. All that is spread over time is cut at whole
//! microseconds so that buckets made of finer ones are the same as those that were filled as they are: the sums, and the
//! buckets, depend on no order.

use serde::{Deserialize, Serialize};

use super::varints::Varints;

/// Most buckets.
pub const MOST_BUCKETS: usize = 512;
/// A second, microseconds.
const SECOND: u64 = 1_000_000;

macro_rules! bucket {
    (sums { $($(#[$of:meta])* $sum:ident,)+ } gauges { $($(#[$what:meta])* $gauge:ident,)+ }) => {
        /// What happened within one step.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Bucket {
            $($(#[$of])* pub $sum: u64,)+
            $($(#[$what])* pub $gauge: u64,)+
        }

        impl Bucket {
            /// Takes in the bucket that follows in time, as one with it.
            pub fn merge(&mut self, later: &Self) {
                if later.looks > 0 {
                    $(self.$gauge = later.$gauge;)+
                }
                $(self.$sum = self.$sum.saturating_add(later.$sum);)+
            }

            /// Its numbers, in the order of their encoding.
            const FIELDS: usize = [$(stringify!($sum),)+ $(stringify!($gauge),)+].len();

            fn numbers(&self) -> [u64; Self::FIELDS] {
                [$(self.$sum,)+ $(self.$gauge,)+]
            }

            fn numbers_mut(&mut self) -> [&mut u64; Self::FIELDS] {
                [$(&mut self.$sum,)+ $(&mut self.$gauge,)+]
            }
        }
    };
}

bucket! {
    sums {
        /// Mini-batches that succeeded, by the end of their try.
        succeeded,
        /// Mini-batches that failed for good.
        failed,
        /// Tries that failed.
        failed_tries,
        /// Tries that were lost with their node.
        node_losses,
        /// Input items of the mini-batches with an outcome.
        items,
        /// Elements that they returned.
        rows,
        /// Bytes of their rows.
        bytes,
        /// Time within `run()`, microseconds, spread over the time of each try as the following three are.
        run_us,
        /// CPU time of tries, microseconds.
        cpu_us,
        /// Time that tries took to make the argument of `run()`, microseconds.
        load_us,
        /// The rest of the time of tries: what is not `run()` and not load, microseconds.
        other_us,
        /// Time of all slots, by what nodes told, microseconds.
        slots_us,
        /// Time of slots with a mini-batch under way, microseconds. It is right also while long tries run.
        busy_us,
        /// Time of slots whose process imported the script or was in `init()`, microseconds.
        init_us,
        /// How often the orchestrator looked.
        looks,
    }
    gauges {
        /// Mini-batches that waited, when the orchestrator looked last.
        waiting,
        /// Mini-batches that nodes had in hand.
        in_flight,
        /// Nodes that served the job.
        nodes,
        /// Their processes.
        processes,
    }
}

impl Bucket {
    /// Slot time without a mini-batch and without `init()`, microseconds.
    pub fn idle_us(&self) -> u64 {
        self.slots_us.saturating_sub(self.busy_us).saturating_sub(self.init_us)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What nodes told, without what tries did: all that segments do not have.
    #[must_use]
    pub fn observed(&self) -> Self {
        let Self { slots_us, busy_us, init_us, looks, waiting, in_flight, nodes, processes, .. } = *self;
        Self { slots_us, busy_us, init_us, looks, waiting, in_flight, nodes, processes, ..Self::default() }
    }
}

/// The buckets of one start of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Packed", try_from = "Packed")]
pub struct Timeline {
    origin_us: u64,
    step_s: u32,
    buckets: Vec<Bucket>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Timeline {
    /// An empty one that begins at this time.
    pub fn new(origin_us: u64) -> Self {
        Self { origin_us, step_s: 1, buckets: Vec::new() }
    }

    /// When the first bucket begins.
    pub fn origin_us(&self) -> u64 {
        self.origin_us
    }

    /// How long a bucket is, seconds: a power of two.
    pub fn step_s(&self) -> u32 {
        self.step_s
    }

    /// How long a bucket is, microseconds.
    pub fn step_us(&self) -> u64 {
        u64::from(self.step_s) * SECOND
    }

    /// The buckets from the first on; behind the last one nothing happened yet.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// When a bucket begins.
    pub fn start_us(&self, bucket: usize) -> u64 {
        self.origin_us.saturating_add((bucket as u64).saturating_mul(self.step_us()))
    }

    /// All buckets as one.
    pub fn total(&self) -> Bucket {
        self.buckets.iter().fold(Bucket::default(), |mut sum, bucket| {
            sum.merge(bucket);
            sum
        })
    }

    /// The bucket of a time; that of a time before the first one is the first one.
    pub fn at(&mut self, time_us: u64) -> &mut Bucket {
        let since = time_us.saturating_sub(self.origin_us);
        let mut at = since / self.step_us();
        while at >= MOST_BUCKETS as u64 && self.double() {
            at = since / self.step_us();
        }
        let at = (at as usize).min(MOST_BUCKETS - 1);
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, Bucket::default());
        }
        &mut self.buckets[at]
    }

    /// Spreads amounts over the buckets from a time on, in equal parts of time: `add` is given a bucket and what falls into
    /// it. The parts add up to the amounts.
    pub fn spread<const N: usize>(
        &mut self,
        from_us: u64,
        long_us: u64,
        amounts: [u64; N],
        add: impl Fn(&mut Bucket, [u64; N]),
    ) {
        // The last one first: the step does not change after it.
        self.at(from_us.saturating_add(long_us));
        let pieces = Pieces::new(self.origin_us, self.step_us(), MOST_BUCKETS, from_us, long_us);
        for (at, (before, after)) in pieces.clone() {
            let part = amounts.map(|amount| pieces.share(amount, after) - pieces.share(amount, before));
            add(&mut self.buckets[at], part);
        }
    }

    /// Adds what is in another one with the same beginning.
    pub fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.step_s < other.step_s && self.double() {}
        while other.step_s < self.step_s && other.double() {}
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), Bucket::default());
        }
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            bucket.merge(more);
        }
    }

    /// Doubles the step; false where it cannot be.
    fn double(&mut self) -> bool {
        let Some(step) = self.step_s.checked_mul(2) else { return false };
        self.step_s = step;
        let merged = self.buckets.chunks(2).map(|pair| {
            let mut bucket = pair[0];
            pair.get(1).into_iter().for_each(|later| bucket.merge(later));
            bucket
        });
        self.buckets = merged.collect();
        true
    }
}

/// A stretch of time cut at the bounds of cells of equal length, from an origin on. Each piece is its cell, and the times
/// from the beginning of the stretch to those of its ends, microseconds.
#[derive(Debug, Clone)]
pub struct Pieces {
    origin_us: u64,
    step_us: u64,
    cells: usize,
    from_us: u64,
    long_us: u64,
    done_us: u64,
    is_done: bool,
}

impl Pieces {
    /// The stretch of so many microseconds from a time on. What is before the first cell falls into it, what is behind the
    /// last one into that.
    pub fn new(origin_us: u64, step_us: u64, cells: usize, from_us: u64, long_us: u64) -> Self {
        // Also what takes no time is somewhere.
        let long_us = long_us.min(u64::MAX - from_us).max(1);
        Self { origin_us, step_us: step_us.max(1), cells, from_us, long_us, done_us: 0, is_done: false }
    }

    /// What of an amount over the whole stretch falls into its first `until_us`.
    pub fn share(&self, amount: u64, until_us: u64) -> u64 {
        if until_us >= self.long_us {
            return amount;
        }
        (u128::from(amount) * u128::from(until_us) / u128::from(self.long_us)) as u64
    }
}

impl Iterator for Pieces {
    type Item = (usize, (u64, u64));

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let at_us = self.from_us + self.done_us;
        let last = self.cells.saturating_sub(1) as u64;
        let cell = (at_us.saturating_sub(self.origin_us) / self.step_us).min(last);
        let end_us = self.origin_us.saturating_add((cell + 1).saturating_mul(self.step_us));
        let until = if cell == last { self.long_us } else { end_us.saturating_sub(self.from_us) };
        let until = until.max(self.done_us + 1).min(self.long_us);
        let piece = (cell as usize, (self.done_us, until));
        self.done_us = until;
        self.is_done = until >= self.long_us;
        Some(piece)
    }
}

crate::record::record! {
    /// How a timeline is encoded.
    struct Packed {
        /// When it begins.
        origin_us: u64,
        /// Seconds of a bucket.
        step_s: u32,
        /// How many buckets there are.
        buckets: u32,
        /// Numbers of a bucket.
        fields: u32,
        /// The first number of all buckets, the second of all, ...
        columns: Varints,
    }
}

impl From<Timeline> for Packed {
    fn from(of: Timeline) -> Self {
        let rows: Vec<_> = of.buckets.iter().map(Bucket::numbers).collect();
        let columns = (0..Bucket::FIELDS).flat_map(|field| rows.iter().map(move |row| row[field])).collect();
        Self {
            origin_us: of.origin_us,
            step_s: of.step_s,
            buckets: rows.len() as u32,
            fields: Bucket::FIELDS as u32,
            columns: Varints(columns),
        }
    }
}

impl TryFrom<Packed> for Timeline {
    type Error = &'static str;

    fn try_from(packed: Packed) -> Result<Self, Self::Error> {
        let (count, numbers) = (packed.buckets as usize, &packed.columns.0);
        super::ensure(count <= MOST_BUCKETS, "a timeline of too many buckets")?;
        super::ensure(packed.step_s.is_power_of_two(), "a timeline whose step is no power of two")?;
        let all = count.checked_mul(packed.fields as usize).ok_or("a timeline of too many numbers")?;
        super::ensure(all == numbers.len(), "a timeline whose buckets lack numbers")?;
        let mut buckets = vec![Bucket::default(); count];
        for (at, bucket) in buckets.iter_mut().enumerate() {
            for (field, number) in bucket.numbers_mut().into_iter().enumerate() {
                *number = numbers.get(field * count + at).copied().unwrap_or_default();
            }
        }
        Ok(Self { origin_us: packed.origin_us, step_s: packed.step_s, buckets })
    }
}
