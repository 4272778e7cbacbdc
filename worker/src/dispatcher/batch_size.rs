//! How many mini-batches a process is given at a time.
//!
//! Tiny ones go in frames of many, so that their overhead is shared; long ones go one by one, so that none waits
//! behind another while a process is idle. None gets more than there is room for the rows of.

use std::time::Duration;

/// Work a process should have at hand.
const AHEAD: Duration = Duration::from_millis(20);
/// A mini-batch at least this long is given only to a process that has nothing else.
const LONG: Duration = Duration::from_millis(50);
/// Mini-batches given at a time, at most.
const MOST: usize = 512;

/// What a mini-batch costs in a process, as far as the latest ones tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// How long it takes.
    pub(crate) time: Duration,
    /// Its rows, bytes.
    pub(crate) rows: usize,
}

impl Cost {
    /// What the last `count` tell, which took `time` and gave `rows` bytes together, and what was thought `before`.
    pub(crate) fn learn(before: Option<Self>, time: Duration, rows: usize, count: u32) -> Self {
        let count = count.max(1);
        let now = Self { time: time / count, rows: rows.div_ceil(count as usize) };
        // A sudden large one counts at once, a sudden small one little by little.
        before.map_or(now, |before| Self {
            time: if now.time < before.time { (before.time * 3 + now.time) / 4 } else { now.time },
            rows: if now.rows < before.rows { (before.rows * 3 + now.rows) / 4 } else { now.rows },
        })
    }
}

/// How many more mini-batches to give to a process.
///
/// `cost`: what a mini-batch costs in this process, where that is known; `at_hand`: how many it has; `pending`: how
/// many are waiting; `slots`: how many processes share them; `room`: bytes of rows that the node has room for.
pub(crate) fn more(cost: Option<Cost>, at_hand: usize, pending: usize, slots: usize, room: usize) -> usize {
    let first = usize::from(at_hand == 0 && pending > 0);
    // The first one tells.
    let Some(cost) = cost.filter(|cost| cost.time < LONG) else { return first };
    let target = (AHEAD.as_nanos() / cost.time.as_nanos().max(1)).clamp(2, MOST as u128 * 2) as usize;
    if at_hand > target / 2 {
        return 0;
    }
    // When little is left, everyone gets the same.
    let share = pending.div_ceil(slots.max(1));
    (target - at_hand).min(share).min(MOST).min(room / cost.rows.max(1)).max(first)
}

/// The same for a process that has up to `concurrency` mini-batches under way at once: so many, and as many more as end
/// while others are on their way.
pub(crate) fn more_at_once(
    cost: Option<Cost>,
    at_hand: usize,
    pending: usize,
    slots: usize,
    room: usize,
    concurrency: usize,
) -> usize {
    let first = usize::from(at_hand == 0 && pending > 0);
    let ahead = cost.map_or(0, |cost| {
        let end_meanwhile = AHEAD.as_nanos() * concurrency as u128 / cost.time.as_nanos().max(1);
        end_meanwhile.min(MOST as u128) as usize
    });
    let share = pending.div_ceil(slots.max(1));
    let fits = cost.map_or(usize::MAX, |cost| room / cost.rows.max(1));
    (concurrency + ahead).saturating_sub(at_hand).min(share).min(MOST).min(fits).max(first)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_ones_in_heaps_long_ones_one_by_one() {
        let us = |time| Some(Cost { time: Duration::from_micros(time), rows: 0 });
        let table = [
            // cost, at hand, pending, slots, expected
            (None, 0, 1000, 2, 1),
            (None, 1, 1000, 2, 0),
            (None, 0, 0, 2, 0),
            (us(5), 0, 10_000, 2, 512),
            (us(5), 512, 10_000, 2, 512),
            (us(5), 600, 10_000, 2, 0),
            (us(5), 0, 10, 2, 5),
            (us(1000), 0, 1000, 2, 20),
            (us(1000), 11, 1000, 2, 0),
            (us(1000), 10, 1000, 2, 10),
            (us(30_000), 1, 1000, 2, 1),
            (us(30_000), 2, 1000, 2, 0),
            (us(60_000), 0, 1000, 2, 1),
            (us(60_000), 1, 1000, 2, 0),
            (us(0), 0, 100_000, 1, 512),
        ];
        for (cost, at_hand, pending, slots, expected) in table {
            assert_eq!(
                more(cost, at_hand, pending, slots, 1 << 20),
                expected,
                "{cost:?} {at_hand} {pending}"
            );
        }
    }

    #[test]
    fn all_lanes_are_filled_and_what_ends_meanwhile_is_there() {
        let ms = |time| Some(Cost { time: Duration::from_millis(time), rows: 10 });
        let table = [
            // cost, at hand, pending, slots, room, expected
            (None, 0, 1000, 1, 1 << 20, 50),
            (None, 0, 30, 2, 1 << 20, 15),
            (None, 50, 1000, 1, 1 << 20, 0),
            (None, 0, 0, 1, 1 << 20, 0),
            (ms(500), 0, 1000, 1, 1 << 20, 52),
            (ms(500), 51, 1000, 1, 1 << 20, 1),
            (ms(500), 52, 1000, 1, 1 << 20, 0),
            (ms(60_000), 50, 1000, 1, 1 << 20, 0),
            (ms(0), 0, 10_000, 1, 1 << 20, 512),
            (ms(500), 0, 1000, 1, 99, 9),
            (ms(500), 0, 1000, 1, 0, 1),
        ];
        for (cost, at_hand, pending, slots, room, expected) in table {
            let more = more_at_once(cost, at_hand, pending, slots, room, 50);
            assert_eq!(more, expected, "{cost:?} {at_hand} {pending} {slots} {room}");
        }
    }

    #[test]
    fn no_more_than_there_is_room_for() {
        let table = [
            // rows, at hand, room, expected
            (1000, 0, 512_000, 512),
            (1000, 0, 100_999, 100),
            (1000, 0, 999, 1),
            (1000, 1, 999, 0),
            (1000, 1, 0, 0),
        ];
        for (rows, at_hand, room, expected) in table {
            let cost = Some(Cost { time: Duration::from_micros(5), rows });
            assert_eq!(more(cost, at_hand, 10_000, 2, room), expected, "{rows} {at_hand} {room}");
        }
        assert_eq!(more(Some(Cost { time: Duration::ZERO, rows: 1 }), 0, 0, 2, 0), 0);
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
    fn large_ones_are_learned_at_once() {
        let cost = |ms, rows| Cost { time: Duration::from_millis(ms), rows };
        let learn = |before, ms, rows, count| Cost::learn(before, Duration::from_millis(ms), rows, count);
        assert_eq!(learn(None, 10, 101, 5), cost(2, 21));
        assert_eq!(learn(Some(cost(1, 10)), 100, 1000, 1), cost(100, 1000));
        assert_eq!(learn(Some(cost(100, 1000)), 20, 200, 1), cost(80, 800));
    }
}
