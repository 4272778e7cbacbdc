//! Which process of the node gets the next try of a mini-batch that failed before.
//!
//! A process that a mini-batch failed in may be broken by it, or by one before it, for good: a CUDA assert, a poisoned
//! global. So the next try goes to another one that is free or will be, and where a process is alone on its node, to a
//! fresh one in its slot. No try waits for ever: a process that is busy for long is no longer waited for, one that hangs
//! in `init()` never.

use std::time::Duration;

/// How long a try waits for a process that is busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// How far a process is with what it has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Availability {
    /// It can run the try now.
    Free,
    /// It has something to do.
    Busy,
    /// It is about to begin, or ends and makes room for another one.
    Coming,
}

/// A slot that a process is in or will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Where among the slots of the node.
    pub(super) position: usize,
    /// Number of the process; nothing of one that has run nothing yet.
    pub(super) number: Option<u32>,
    pub(super) availability: Availability,
}

/// A try that looks for a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Homeless<'a> {
    /// Numbers of the processes that the mini-batch failed in, the last one at the end.
    pub(super) failed_in: &'a [u32],
    /// How long it has waited.
    pub(super) waited: Duration,
    /// Whether a process may be replaced for it.
    pub(super) may_replace: bool,
}

/// What becomes of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The process in this slot runs it.
    Give(usize),
    /// It waits.
    Wait,
    /// It waits for another process, which is started in place of the one in this slot.
    Replace(usize),
}

impl Homeless<'_> {
    /// When it failed in the process, counted from the first failure; nothing where it did not.
    fn failed_at(&self, candidate: &Candidate) -> Option<usize> {
        let number = candidate.number?;
        self.failed_in.iter().rposition(|failed| *failed == number)
    }

    /// Decides among the slots that can be expected to run something.
    pub(super) fn place(&self, candidates: &[Candidate]) -> Place {
        let is_free = |one: &&Candidate| one.availability == Availability::Free;
        let is_awaited = |one: &&Candidate| match one.availability {
            Availability::Free => false,
            Availability::Busy => self.waited < PATIENCE,
            Availability::Coming => true,
        };
        let untouched = || candidates.iter().filter(|one| self.failed_at(one).is_none());
        if let Some(one) = untouched().find(is_free) {
            return Place::Give(one.position);
        }
        if untouched().any(|one| is_awaited(&one)) {
            return Place::Wait;
        }
        // The longest ago that it failed in one, the less it says of it.
        let Some(one) = candidates.iter().filter(is_free).min_by_key(|one| self.failed_at(one)) else {
            return Place::Wait;
        };
        let is_last = self.failed_in.last() == one.number.as_ref();
        if !is_last {
            return Place::Give(one.position);
        }
        match candidates {
            [_] if self.may_replace => Place::Replace(one.position),
            [_] => Place::Give(one.position),
            _ if candidates.iter().any(|one| is_awaited(&one)) => Place::Wait,
            _ => Place::Give(one.position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Availability::{Busy, Coming, Free};
    use super::Place::{Give, Replace, Wait};
    use super::*;

    /// Failed in, seconds that it waited, whether a process may be replaced; slots; expected.
    type Row<'a> = (&'a [u32], u64, bool, &'a [(Option<u32>, Availability)], Place);

    #[test]
    fn a_try_goes_where_none_before_it_failed() {
        let (zero, one, two) = (Some(0), Some(1), Some(2));
        let table: [Row<'_>; 20] = [
            (&[], 0, true, &[(zero, Free)], Give(0)),
            (&[], 0, true, &[(zero, Busy)], Wait),
            (&[0], 0, true, &[(zero, Free), (one, Free)], Give(1)),
            (&[0], 0, true, &[(zero, Free), (one, Busy)], Wait),
            // It will be there.
            (&[0], 999, true, &[(zero, Free), (None, Coming)], Wait),
            (&[0], 9, true, &[(zero, Free), (one, Busy)], Wait),
            // It is not waited for any longer.
            (&[0], 10, true, &[(zero, Free), (one, Busy)], Give(0)),
            (&[0], 10, true, &[(zero, Busy), (one, Busy)], Wait),
            // A process that is alone is replaced.
            (&[0], 0, true, &[(zero, Free)], Replace(0)),
            (&[0], 0, false, &[(zero, Free)], Give(0)),
            (&[0], 99, true, &[(zero, Busy)], Wait),
            (&[0], 0, true, &[(None, Coming)], Wait),
            (&[0], 0, true, &[(one, Free)], Give(0)),
            // It failed in all of them: in the one that it failed in first it runs again.
            (&[0, 1], 0, true, &[(zero, Free), (one, Free)], Give(0)),
            (&[1, 0], 0, true, &[(zero, Free), (one, Free)], Give(1)),
            (&[1, 0], 0, true, &[(zero, Free), (one, Busy)], Wait),
            (&[1, 0], 10, true, &[(zero, Free), (one, Busy)], Give(0)),
            (&[0, 1, 0], 0, true, &[(zero, Free), (one, Free)], Give(1)),
            (&[0, 1], 0, true, &[(two, Free), (one, Free)], Give(0)),
            (&[0], 0, true, &[], Wait),
        ];
        for (failed_in, waited, may_replace, slots, expected) in table {
            let slots = slots.iter().enumerate();
            let candidates: Vec<_> = slots
                .map(|(position, &(number, availability))| Candidate { position, number, availability })
                .collect();
            let waited = Duration::from_secs(waited);
            let found = Homeless { failed_in, waited, may_replace }.place(&candidates);
            assert_eq!(found, expected, "{failed_in:?} {waited:?} {may_replace} {candidates:?}");
        }
    }
}
