//! How long tries take: counts in classes of about 6 % width, a fixed size whatever the number of tries, and the same
//! whatever the order they are met in.

use std::time::Duration;

/// Classes to each power of two.
const FINE: u32 = 4;
/// Classes: all numbers of microseconds.
const CLASSES: usize = (65 - FINE as usize) << FINE;

/// The class of a number: its largest bit, and the [`FINE`] bits behind that.
fn class(micros: u64) -> usize {
    let shift = (u64::BITS - micros.leading_zeros()).saturating_sub(FINE + 1);
    ((shift as usize) << FINE) + (micros >> shift) as usize
}

/// The largest number of a class.
fn largest(class: usize) -> u64 {
    let shift = (class >> FINE).saturating_sub(1);
    let first = (class - (shift << FINE)) as u64;
    (first << shift) | ((1 << shift) - 1)
}

/// Durations of tries, as far as quantiles need them.
#[derive(Debug)]
pub(crate) struct Durations {
    counts: Box<[u64; CLASSES]>,
    total: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { counts: Box::new([0; CLASSES]), total: 0 }
    }
}

impl Durations {
    /// Adds a try of so many microseconds.
    pub(crate) fn add(&mut self, micros: u64) {
        self.counts[class(micros)] += 1;
        self.total += 1;
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    /// What so many of a hundred took at most, as exactly as the classes are; nothing where none is known.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.total * percent).div_ceil(100).max(1);
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        found.map(|class| Duration::from_micros(largest(class)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other_without_gaps() {
        for known in [0, 1, 15, 16, 17, 31, 32, 33, 1_000, 123_456_789, u64::MAX / 3, u64::MAX] {
            let class = class(known);
            assert!(class < CLASSES, "{known}");
            assert!(largest(class) >= known, "{known}");
            assert!(class == 0 || largest(class - 1) < known, "{known}");
            assert!(largest(class) - known <= known / 16, "{known}");
        }
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn percentiles_are_near_the_exact_ones_in_any_order() {
        let mut forward = Durations::default();
        let mut backward = Durations::default();
        assert_eq!(forward.percentile(95), None);
        for number in 1..=1_000 {
            forward.add(number * 1_000);
            backward.add((1_001 - number) * 1_000);
        }
        assert_eq!(forward.count(), 1_000);
        for percent in [1, 50, 95, 100] {
            let (exact, found) = (percent * 10_000, forward.percentile(percent).unwrap().as_micros() as u64);
            assert!((exact..=exact + exact / 16).contains(&found), "{percent}: {found}");
            assert_eq!(backward.percentile(percent), forward.percentile(percent));
        }
        let mut one = Durations::default();
        one.add(0);
        assert_eq!(one.percentile(95), Some(Duration::ZERO));
    }
}
