//! Which deliveries of a channel are open, so that one frame can acknowledge many.
//!
//! AMQP can acknowledge "all up to this tag". That is right only where nothing below is open any more.

use std::collections::BTreeSet;

/// Tags of the deliveries on one channel, which the broker gives from 1 on.
#[derive(Debug, Default)]
pub(super) struct OpenTags {
    /// The highest that was acknowledged.
    seen: u64,
    /// Those below that are not acknowledged: fewer than the prefetch.
    open: BTreeSet<u64>,
}

impl OpenTags {
    /// Notes that `tag` is acknowledged by a frame of its own.
    pub(super) fn remove(&mut self, tag: u64) {
        self.open.extend(self.seen + 1..=tag);
        self.seen = self.seen.max(tag);
        self.open.remove(&tag);
    }

    /// Notes that `tags` are done and says which frames tell it: the tag up to which all are, and single ones.
    pub(super) fn ack(&mut self, mut tags: Vec<u64>) -> (Option<u64>, Vec<u64>) {
        tags.sort_unstable();
        for &tag in &tags {
            self.remove(tag);
        }
        let first_open = self.open.first().copied().unwrap_or(u64::MAX);
        let single = tags.split_off(tags.partition_point(|&tag| tag < first_open));
        (tags.pop(), single)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_frame_acknowledges_what_has_nothing_open_below() {
        let mut tags = OpenTags::default();
        assert_eq!(tags.ack(vec![2, 1, 3]), (Some(3), vec![]));
        assert_eq!(tags.ack(vec![6, 5]), (None, vec![5, 6]));
        tags.remove(8);
        assert_eq!(tags.ack(vec![4, 9]), (Some(4), vec![9]));
        assert_eq!(tags.ack(vec![7]), (Some(7), vec![]));
        assert_eq!((tags.seen, tags.open.len()), (9, 0));
        assert_eq!(tags.ack(vec![]), (None, vec![]));
    }

    proptest! {
        #[test]
        fn every_delivery_is_acknowledged_once_and_no_open_one_with_it(
            order in Just((1..=60u64).collect::<Vec<_>>()).prop_shuffle(),
            sizes in proptest::collection::vec(1..9usize, 60),
            rejected in proptest::collection::btree_set(1..=60u64, 0..20),
        ) {
            let mut tags = OpenTags::default();
            // What the broker has open.
            let mut open: BTreeSet<u64> = (1..=60).collect();
            let mut left = &order[..];
            for size in sizes {
                let (batch, rest) = left.split_at(size.min(left.len()));
                left = rest;
                let (no, yes): (Vec<u64>, Vec<u64>) = batch.iter().partition(|number| rejected.contains(number));
                for number in no {
                    tags.remove(number);
                    prop_assert!(open.remove(&number));
                }
                let (up_to, single) = tags.ack(yes.clone());
                if let Some(up_to) = up_to {
                    prop_assert!(open.contains(&up_to));
                    open.retain(|&number| number > up_to || !yes.contains(&number));
                    prop_assert!(open.range(..=up_to).next().is_none(), "an open delivery was acknowledged");
                }
                for number in single {
                    prop_assert!(open.remove(&number), "acknowledged twice");
                }
                prop_assert!(yes.iter().all(|number| !open.contains(number)));
            }
        }
    }
}
