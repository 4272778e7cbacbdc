//! How many mini-batches a process is given at a time.
//!
//! Tiny ones go in frames of many, so that their overhead is shared; long ones go one by one, so that none waits
//! behind another while a process is idle.

use std::time::Duration;

/// Work a process should have at hand.
const AHEAD: Duration = Duration::from_millis(20);
/// A mini-batch at least this long is given only to a process that has nothing else.
const LONG: Duration = Duration::from_millis(50);
/// Mini-batches given at a time, at most.
const MOST: usize = 512;

/// How many more mini-batches to give to a process.
///
/// `cost`: what a mini-batch takes this process, where it is known; `at_hand`: how many it has; `pending`: how
/// many are waiting; `slots`: how many processes share them.
pub(crate) fn more(cost: Option<Duration>, at_hand: usize, pending: usize, slots: usize) -> usize {
    let Some(cost) = cost else {
        // The first one tells.
        return usize::from(at_hand == 0 && pending > 0);
    };
    if cost >= LONG {
        return usize::from(at_hand == 0 && pending > 0);
    }
    let target = (AHEAD.as_nanos() / cost.as_nanos().max(1)).clamp(2, MOST as u128 * 2) as usize;
    if at_hand > target / 2 {
        return 0;
    }
    // When little is left, everyone gets the same.
    let share = pending.div_ceil(slots.max(1));
    (target - at_hand).min(share).min(MOST)
}

/// Work that a node takes from the queue, for each slot.
const TAKEN: Duration = Duration::from_secs(1);

/// How many mini-batches a node may have unsettled when one takes `cost`.
pub(crate) fn prefetch(cost: Duration, slots: usize, most: usize) -> usize {
    let a_second = TAKEN.as_nanos() / cost.as_nanos().max(1) * slots as u128;
    (a_second.min(most as u128) as usize).max(slots + 1).min(most.max(1))
}

/// How long the cost of mini-batches is looked at before a node takes fewer of them. What goes back is a suspect
/// wherever it is delivered next, so one that was slow by chance must not send hundreds there.
pub(crate) const LOOKED_AT: Duration = Duration::from_millis(500);

/// Whether a node that takes `present` mini-batches should take `wanted` from now on, when their cost was looked at
/// for so long: more at once, fewer once that is sure.
pub(crate) fn should_change(present: usize, wanted: usize, looked_at: Duration) -> bool {
    wanted >= present * 2 || (wanted <= present / 2 && looked_at >= LOOKED_AT)
}

/// What a mini-batch takes, from what the last `count` took together and what was thought before.
pub(crate) fn learn(before: Option<Duration>, took: Duration, count: u32) -> Duration {
    let now = took / count.max(1);
    match before {
        // A sudden long one counts at once, a sudden short one little by little.
        Some(before) if now < before => (before * 3 + now) / 4,
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_ones_in_heaps_long_ones_one_by_one() {
        let us = Duration::from_micros;
        let table = [
            // cost, at hand, pending, slots, expected
            (None, 0, 1000, 2, 1),
            (None, 1, 1000, 2, 0),
            (None, 0, 0, 2, 0),
            (Some(us(5)), 0, 10_000, 2, 512),
            (Some(us(5)), 512, 10_000, 2, 512),
            (Some(us(5)), 600, 10_000, 2, 0),
            (Some(us(5)), 0, 10, 2, 5),
            (Some(us(1000)), 0, 1000, 2, 20),
            (Some(us(1000)), 11, 1000, 2, 0),
            (Some(us(1000)), 10, 1000, 2, 10),
            (Some(us(30_000)), 1, 1000, 2, 1),
            (Some(us(30_000)), 2, 1000, 2, 0),
            (Some(us(60_000)), 0, 1000, 2, 1),
            (Some(us(60_000)), 1, 1000, 2, 0),
            (Some(us(0)), 0, 100_000, 1, 512),
        ];
        for (cost, at_hand, pending, slots, expected) in table {
            assert_eq!(more(cost, at_hand, pending, slots), expected, "{cost:?} {at_hand} {pending}");
        }
    }

    #[test]
    fn a_node_takes_a_second_of_work() {
        let ms = Duration::from_millis;
        let table =
            [(ms(0), 4, 2000), (ms(1), 1, 1000), (ms(1), 4, 2000), (ms(100), 4, 40), (ms(5000), 4, 5)];
        for (cost, slots, expected) in table {
            assert_eq!(prefetch(cost, slots, 2000), expected, "{cost:?} {slots}");
        }
        assert_eq!(prefetch(ms(5000), 8, 4), 4);
    }

    #[test]
    fn a_node_takes_more_at_once_and_fewer_when_that_is_sure() {
        let table = [
            // present, wanted, milliseconds, expected
            (3, 6, 0, true),
            (3, 5, 5_000, false),
            (2000, 1000, 499, false),
            (2000, 1000, 500, true),
            (2000, 1001, 500, false),
        ];
        for (present, wanted, ms, expected) in table {
            let changes = should_change(present, wanted, Duration::from_millis(ms));
            assert_eq!(changes, expected, "{present} {wanted} {ms}");
        }
    }

    #[test]
    fn long_ones_are_learned_at_once() {
        let ms = Duration::from_millis;
        assert_eq!(learn(None, ms(10), 5), ms(2));
        assert_eq!(learn(Some(ms(1)), ms(100), 1), ms(100));
        assert_eq!(learn(Some(ms(100)), ms(20), 1), ms(80));
    }
}
