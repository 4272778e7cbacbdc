//! Which mini-batches are to blame for the end of their process, where it had several under way.
//!
//! A process with one mini-batch at a time has one to blame. Of several, one killed it, and nobody says which. So nobody is
//! blamed: they run again apart from all others, in two halves, and the halves of that one that dies again, until a single
//! one dies alone. Where the process said who had its main thread, that one is apart from the beginning. A neighbour of one
//! that kills its process so runs again a few times (the binary logarithm of `max_concurrency`), and no try of it is spent.
//!
//! Who takes too long is known, as each has its own clock: only where the main thread of the process does not go round,
//! all others wait for its holder.

use std::time::Duration;

use prs_common::process_page::{InFlight, Phase};

/// How long a task that was cancelled has to end, and a main thread that does not go round counts as one that does.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// What the end of a process means for those that it had under way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Blame {
    /// Their tries have failed.
    pub(super) blamed: Vec<u32>,
    /// They run again, each group apart from all others. One of them may have killed the process.
    pub(super) groups: Vec<Vec<u32>>,
}

/// Who is to blame for the death of a process.
///
/// `in_flight`: what it had under way, by `seq`; `step`: which of them had its main thread; `were_apart`: whether they are
/// the rest of such a death already.
pub(super) fn of_death(in_flight: &[u32], step: Option<u32>, were_apart: bool) -> Blame {
    if let [_] = in_flight {
        return Blame { blamed: in_flight.to_vec(), groups: Vec::new() };
    }
    let step = step.filter(|step| !were_apart && in_flight.contains(step));
    let groups = match step {
        Some(step) => {
            let rest = in_flight.iter().copied().filter(|seq| *seq != step).collect();
            vec![vec![step], rest]
        }
        None => in_flight.chunks(in_flight.len().div_ceil(2).max(1)).map(<[u32]>::to_vec).collect(),
    };
    Blame { blamed: Vec::new(), groups }
}

/// Why a process with several mini-batches under way is to be killed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TooLong {
    /// These are late, and do not end by themselves.
    Run(Vec<u32>),
    /// Reading the data of this one takes too long.
    Load(u32),
    /// Some are late because the main thread is held, by nobody knows whom.
    Held,
}

/// What is known of a process at one moment of its clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) in_flight: &'a [InFlight],
    /// Who has its main thread, and since when.
    pub(super) step: Option<(u32, u64)>,
    /// When the main thread last went round.
    pub(super) sign_of_life_ns: u64,
    pub(super) now_ns: u64,
}

impl Look<'_> {
    fn since(&self, ns: u64) -> Duration {
        Duration::from_nanos(self.now_ns.saturating_sub(ns))
    }

    /// Whether it must be killed.
    pub(super) fn too_long(&self, run_limit: Duration, load_limit: Duration) -> Option<TooLong> {
        let of = |phase| self.in_flight.iter().filter(move |one| one.phase == phase);
        if let Some(one) = of(Phase::Loading).find(|one| self.since(one.since_ns) > load_limit) {
            return Some(TooLong::Load(one.seq));
        }
        let is_late = |one: &&InFlight| self.since(one.since_ns) > run_limit + GRACE;
        let late: Vec<u32> = of(Phase::Running).filter(is_late).map(|one| one.seq).collect();
        if late.is_empty() {
            return None;
        }
        match self.step.filter(|&(_, since_ns)| self.since(since_ns) > GRACE) {
            // The others can do nothing while it has the thread.
            Some((seq, _)) if late.contains(&seq) => Some(TooLong::Run(vec![seq])),
            Some((seq, _)) if of(Phase::Running).any(|one| one.seq == seq) => None,
            _ if self.since(self.sign_of_life_ns) > GRACE => Some(TooLong::Held),
            _ => Some(TooLong::Run(late)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In flight, step, were apart; blamed, groups.
    type Death<'a> = (&'a [u32], Option<u32>, bool, &'a [u32], &'a [&'a [u32]]);
    /// In flight, step and its seconds, seconds since the sign of life; expected.
    type Moment<'a> = (&'a [InFlight], Option<(u32, u64)>, u64, Option<TooLong>);

    #[test]
    fn one_is_blamed_and_several_are_parted() {
        let table: [Death<'_>; 9] = [
            (&[7], None, false, &[7], &[]),
            (&[7], Some(7), true, &[7], &[]),
            (&[7, 8], None, false, &[], &[&[7], &[8]]),
            (&[1, 2, 3, 4, 5], None, false, &[], &[&[1, 2, 3], &[4, 5]]),
            (&[1, 2, 3], Some(2), false, &[], &[&[2], &[1, 3]]),
            (&[1, 2, 3], Some(9), false, &[], &[&[1, 2], &[3]]),
            // The step may be that of an innocent one; halves end in any case.
            (&[1, 2, 3], Some(1), true, &[], &[&[1, 2], &[3]]),
            (&[], None, false, &[], &[]),
            (&[], Some(3), false, &[], &[]),
        ];
        for (in_flight, step, were_apart, blamed, groups) in table {
            let blame = of_death(in_flight, step, were_apart);
            let groups = groups.iter().map(|group| group.to_vec()).collect::<Vec<_>>();
            let expected = Blame { blamed: blamed.to_vec(), groups };
            assert_eq!(blame, expected, "{in_flight:?} {step:?} {were_apart}");
        }
    }

    #[test]
    fn groups_end_with_one_that_is_blamed() {
        for killer in 1..=1000 {
            let (mut group, mut deaths) = ((1..=1000).collect::<Vec<u32>>(), 0);
            let blamed = loop {
                deaths += 1;
                let blame = of_death(&group, None, deaths > 1);
                if !blame.blamed.is_empty() {
                    break blame.blamed;
                }
                group = blame.groups.into_iter().find(|group| group.contains(&killer)).unwrap();
            };
            assert_eq!(blamed, [killer]);
            assert!(deaths <= 11, "{deaths}");
        }
    }

    #[test]
    fn who_hangs_is_late_and_who_waits_is_not() {
        let (second, now) = (1_000_000_000, 1_000_000_000_000);
        let running =
            |seq, long| InFlight { seq, phase: Phase::Running, since_ns: now - long * second, items: 1 };
        let loading = |seq, long| InFlight { phase: Phase::Loading, ..running(seq, long) };
        let (a, b, c, d) = (running(1, 5), running(2, 13), running(3, 20), loading(4, 31));
        let table: [Moment<'_>; 10] = [
            (&[a], None, 0, None),
            // A moment of grace, for its task was cancelled at the limit.
            (&[running(2, 12)], None, 0, None),
            (&[a, b], None, 0, Some(TooLong::Run(vec![2]))),
            (&[a, b, c], Some((1, 1)), 1, Some(TooLong::Run(vec![2, 3]))),
            (&[a, b, c], Some((3, 19)), 19, Some(TooLong::Run(vec![3]))),
            (&[a, b, c], Some((1, 4)), 4, None),
            (&[a, b], None, 9, Some(TooLong::Held)),
            (&[b], None, 9, Some(TooLong::Held)),
            (&[a, d], None, 0, Some(TooLong::Load(4))),
            (&[a, loading(4, 29)], None, 0, None),
        ];
        for (in_flight, step, life, expected) in table {
            let look = Look {
                in_flight,
                step: step.map(|(seq, long)| (seq, now - long * second)),
                sign_of_life_ns: now - life * second,
                now_ns: now,
            };
            let found = look.too_long(Duration::from_secs(10), Duration::from_secs(30));
            assert_eq!(found, expected, "{in_flight:?} {step:?} {life}");
        }
    }
}
