//! Which process of the node gets the next try of a mini-batch that failed before.
//!
//! A process that a mini-batch failed in may be broken by it, or by one before it, for good: a CUDA assert, a poisoned
//! global. So the next try goes to another one that is free or will be, and where a process is alone on its node, to a
//! fresh one in its slot. A process whose last try failed is in doubt: others come first, and a last try does not depend on
//! it. No try waits for ever: a process that is busy for long is no longer waited for, one that hangs
//! in `init()` never.

use std::time::Duration;

/// A process that has been busy with one mini-batch for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How far a process is with what it has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Availability {
    /// It can run the try now.
    Free,
    /// It has something to do, which has been under way for so long.
    Busy(Duration),
    /// It is about to begin, or ends and makes room for another one.
    Coming,
}

/// A slot that a process is in or will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Index of the slot on the node.
    pub(super) position: usize,
    /// Number of the process; `None` before it can have run anything.
    pub(super) number: Option<u32>,
    pub(super) availability: Availability,
    /// Whether its last try failed.
    pub(super) is_doubtful: bool,
}

/// A try that looks for a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingTry<'a> {
    /// Numbers of the processes that the mini-batch failed in, the last one at the end.
    pub(super) failed_in: &'a [u32],
    /// Whether a process may be replaced for it that it failed in.
    pub(super) may_replace: bool,
    /// Whether it is the last one, and a process may be replaced for it that is one of several, or in doubt.
    pub(super) may_renew: bool,
}

/// The decision about a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The process in this slot runs it.
    Give(usize),
    /// It waits.
    Wait,
    /// It waits for another process, which is started in place of the only one, in this slot.
    Replace(usize),
    /// It waits for another process, which is started in place of one that is in doubt, or in which it failed as in all others.
    Renew(usize),
}

impl WaitingTry<'_> {
    /// Position of the last failure in this process among those of the mini-batch; `None` if it did not fail there.
    fn failed_at(&self, candidate: &Candidate) -> Option<usize> {
        let number = candidate.number?;
        self.failed_in.iter().rposition(|failed| *failed == number)
    }

    /// Decides among the slots that can be expected to run something.
    pub(super) fn place(&self, candidates: &[Candidate]) -> Place {
        let is_free = |one: &&Candidate| one.availability == Availability::Free;
        let is_awaited = |one: &&Candidate| match one.availability {
            Availability::Free => false,
            Availability::Busy(long) => long < PATIENCE,
            Availability::Coming => true,
        };
        let untouched = || candidates.iter().filter(|one| self.failed_at(one).is_none());
        let sound = || untouched().filter(|one| !one.is_doubtful);
        if let Some(one) = sound().find(is_free) {
            return Place::Give(one.position);
        }
        if sound().any(|one| is_awaited(&one)) {
            return Place::Wait;
        }
        match untouched().find(is_free) {
            Some(one) if self.may_renew => return Place::Renew(one.position),
            Some(one) => return Place::Give(one.position),
            None if untouched().any(|one| is_awaited(&one)) => return Place::Wait,
            None => {}
        }
        // The longest ago that it failed in one, the less it says of it.
        let Some(one) = candidates.iter().filter(is_free).min_by_key(|one| self.failed_at(one)) else {
            return Place::Wait;
        };
        let is_last = self.failed_in.last() == one.number.as_ref();
        match candidates {
            [_] if is_last && self.may_replace => Place::Replace(one.position),
            [_] => Place::Give(one.position),
            _ if self.may_renew => Place::Renew(one.position),
            _ if is_last && candidates.iter().any(|one| is_awaited(&one)) => Place::Wait,
            _ => Place::Give(one.position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Availability::{Busy, Coming, Free};
    use super::Place::{Give, Renew, Replace, Wait};
    use super::*;

    const SHORT: Availability = Busy(Duration::from_secs(9));
    const LONG: Availability = Busy(Duration::from_secs(10));

    /// Failed in, whether a process may be replaced; slots; expected.
    type Row<'a> = (&'a [u32], bool, &'a [(Option<u32>, Availability)], Place);

    #[test]
    fn a_try_goes_where_none_before_it_failed() {
        let (zero, one, two) = (Some(0), Some(1), Some(2));
        let table: [Row<'_>; 19] = [
            (&[], true, &[(zero, Free)], Give(0)),
            (&[], true, &[(zero, SHORT)], Wait),
            (&[0], true, &[(zero, Free), (one, Free)], Give(1)),
            // It will be there.
            (&[0], true, &[(zero, Free), (one, SHORT)], Wait),
            (&[0], true, &[(zero, Free), (None, Coming)], Wait),
            (&[0], true, &[(zero, Free), (one, LONG)], Give(0)),
            (&[0], true, &[(zero, Free), (one, LONG), (two, SHORT)], Wait),
            (&[0], true, &[(zero, LONG), (one, LONG)], Wait),
            // A process that is alone is replaced.
            (&[0], true, &[(zero, Free)], Replace(0)),
            (&[0], false, &[(zero, Free)], Give(0)),
            (&[0], true, &[(zero, LONG)], Wait),
            (&[0], true, &[(None, Coming)], Wait),
            (&[0], true, &[(one, Free)], Give(0)),
            // It failed in all of them: in the one that it failed in first it runs again.
            (&[0, 1], true, &[(zero, Free), (one, Free)], Give(0)),
            (&[1, 0], true, &[(zero, Free), (one, Free)], Give(1)),
            (&[1, 0], true, &[(zero, Free), (one, SHORT)], Wait),
            (&[1, 0], true, &[(zero, Free), (one, LONG)], Give(0)),
            (&[0, 1, 0], true, &[(zero, Free), (one, Free)], Give(1)),
            (&[0], true, &[], Wait),
        ];
        for (failed_in, may_replace, slots, expected) in table {
            let candidate = |(position, &(number, availability))| Candidate {
                position,
                number,
                availability,
                is_doubtful: false,
            };
            let candidates: Vec<_> = slots.iter().enumerate().map(candidate).collect();
            let waiting = WaitingTry { failed_in, may_replace, may_renew: false };
            let found = waiting.place(&candidates);
            assert_eq!(found, expected, "{failed_in:?} {may_replace} {candidates:?}");
        }
    }

    #[test]
    fn processes_in_doubt_come_last() {
        let (sound, doubt) = (false, true);
        let table = [
            // Failed in, whether a process in doubt may be replaced; slots; expected.
            (&[9][..], true, &[(Free, doubt), (Free, sound)][..], Give(1)),
            (&[9], true, &[(Free, doubt), (SHORT, sound)], Wait),
            (&[9], true, &[(Free, doubt), (LONG, sound)], Renew(0)),
            (&[9], true, &[(Free, doubt), (Coming, sound)], Wait),
            (&[9], false, &[(Free, doubt), (SHORT, doubt)], Give(0)),
            (&[9], true, &[(Free, doubt), (SHORT, doubt)], Renew(0)),
            (&[9], true, &[(SHORT, doubt), (LONG, doubt)], Wait),
            (&[0], true, &[(Free, doubt), (Free, doubt)], Renew(1)),
            (&[0], false, &[(Free, doubt), (Free, doubt)], Give(1)),
            (&[0], true, &[(Free, doubt), (SHORT, doubt)], Wait),
            (&[0], true, &[(Free, doubt), (LONG, doubt)], Renew(0)),
            (&[0, 1], true, &[(Free, doubt), (Free, sound)], Renew(0)),
            (&[0, 1], false, &[(Free, doubt), (Free, sound)], Give(0)),
            (&[0], true, &[(Free, doubt)], Replace(0)),
            (&[9], true, &[(Free, doubt)], Renew(0)),
        ];
        for (failed_in, may_renew, slots, expected) in table {
            let candidate = |(position, &(availability, is_doubtful))| Candidate {
                position,
                number: Some(position as u32).filter(|_| availability != Coming),
                availability,
                is_doubtful,
            };
            let candidates: Vec<_> = slots.iter().enumerate().map(candidate).collect();
            let waiting = WaitingTry { failed_in, may_replace: true, may_renew };
            let found = waiting.place(&candidates);
            assert_eq!(found, expected, "{failed_in:?} {may_renew} {candidates:?}");
        }
    }
}
