//! Which deliveries of a channel are settled, so that one frame can acknowledge many.
//!
//! AMQP can acknowledge "all up to this number". That is right only where everything below was settled as well, so
//! the numbers are remembered: a line below which nothing is open, and ranges above it. There are never more
//! ranges than deliveries that are still open.

use std::collections::BTreeMap;

/// Numbers of deliveries on one channel, 1 and up.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// All up to here are settled.
    line: u64,
    /// Settled ranges above the line, first to last; they neither touch nor overlap.
    above: BTreeMap<u64, u64>,
}

/// Frames that acknowledge.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Acks {
    /// Everything up to this number.
    pub(super) up_to: Option<u64>,
    /// These, one by one.
    pub(super) single: Vec<u64>,
}

impl Settled {
    /// Notes that `number` is settled by a frame of its own.
    pub(super) fn insert(&mut self, number: u64) {
        let (mut first, mut last) = (number, number);
        if let Some((&start, &end)) = self.above.range(..number).next_back()
            && end + 1 == number
        {
            self.above.remove(&start);
            first = start;
        }
        if let Some(end) = self.above.remove(&(number + 1)) {
            last = end;
        }
        if first == self.line + 1 {
            self.line = last;
        } else {
            self.above.insert(first, last);
        }
    }

    /// Notes that `numbers` are acknowledged and says with which frames.
    pub(super) fn acknowledge(&mut self, mut numbers: Vec<u64>) -> Acks {
        numbers.sort_unstable();
        for &number in &numbers {
            self.insert(number);
        }
        let below = numbers.partition_point(|&number| number <= self.line);
        let single = numbers.split_off(below);
        Acks { up_to: numbers.pop(), single }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_frame_acknowledges_what_has_nothing_open_below() {
        let mut settled = Settled::default();
        assert_eq!(settled.acknowledge(vec![2, 1, 3]), Acks { up_to: Some(3), single: vec![] });
        assert_eq!(settled.acknowledge(vec![6, 5]), Acks { up_to: None, single: vec![5, 6] });
        settled.insert(8);
        assert_eq!(settled.acknowledge(vec![4, 9]), Acks { up_to: Some(4), single: vec![9] });
        assert_eq!(settled.acknowledge(vec![7]), Acks { up_to: Some(7), single: vec![] });
        assert_eq!((settled.line, settled.above.len()), (9, 0));
        assert_eq!(settled.acknowledge(vec![]), Acks { up_to: None, single: vec![] });
    }

    proptest! {
        #[test]
        fn every_delivery_is_acknowledged_once_and_no_open_one_with_it(
            order in Just((1..=60u64).collect::<Vec<_>>()).prop_shuffle(),
            sizes in proptest::collection::vec(1..9usize, 60),
            rejected in proptest::collection::btree_set(1..=60u64, 0..20),
        ) {
            let mut settled = Settled::default();
            // What the broker has open.
            let mut open: std::collections::BTreeSet<u64> = (1..=60).collect();
            let mut left = &order[..];
            for size in sizes {
                let (batch, rest) = left.split_at(size.min(left.len()));
                left = rest;
                let (no, yes): (Vec<u64>, Vec<u64>) = batch.iter().partition(|number| rejected.contains(number));
                for number in no {
                    settled.insert(number);
                    prop_assert!(open.remove(&number));
                }
                let acks = settled.acknowledge(yes.clone());
                if let Some(up_to) = acks.up_to {
                    prop_assert!(open.contains(&up_to));
                    open.retain(|&number| number > up_to || !yes.contains(&number));
                    prop_assert!(open.range(..=up_to).next().is_none(), "an open delivery was acknowledged");
                }
                for number in acks.single {
                    prop_assert!(open.remove(&number), "acknowledged twice");
                }
                prop_assert!(yes.iter().all(|number| !open.contains(number)));
            }
        }
    }
}
