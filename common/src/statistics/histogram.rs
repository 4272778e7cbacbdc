//! How long tries take: counts in classes, four to each power of two, from a microsecond to 71 minutes and more.

use serde::{Deserialize, Serialize};

use super::varints::Varints;

/// Classes.
pub const BINS: usize = 128;

/// Durations, as far as quantiles need them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Packed", try_from = "Packed")]
pub struct Histogram {
    counts: Box<[u64; BINS]>,
    count: u64,
    sum_us: u64,
    min_us: u64,
    max_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BINS]), count: 0, sum_us: 0, min_us: u64::MAX, max_us: 0 }
    }
}

impl Histogram {
    /// The class of a duration: the first one has a microsecond and less, the last one all that is longer.
    pub fn bin(micros: u64) -> usize {
        let micros = micros.max(1);
        let octave = micros.ilog2();
        if octave >= 32 {
            return BINS - 1;
        }
        (octave << 2) as usize + (((micros << 2) >> octave) & 3) as usize
    }

    /// The shortest duration of a class, microseconds. It need not be a whole number.
    pub fn lower_us(bin: usize) -> f64 {
        let (octave, quarter) = (bin >> 2, bin & 3);
        (1_u64 << octave.min(62)) as f64 * (4 + quarter) as f64 / 4.0
    }

    /// Adds one duration.
    pub fn add(&mut self, micros: u64) {
        self.counts[Self::bin(micros)] += 1;
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(micros);
        self.min_us = self.min_us.min(micros);
        self.max_us = self.max_us.max(micros);
    }

    /// Adds all durations of another one.
    pub fn merge(&mut self, other: &Self) {
        self.counts
            .iter_mut()
            .zip(other.counts.iter())
            .for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        self.count = self.count.saturating_add(other.count);
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.min_us = self.min_us.min(other.min_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// How many there are in each class.
    pub fn counts(&self) -> &[u64; BINS] {
        &self.counts
    }

    /// The shortest, microseconds; nothing where there is none.
    pub fn min_us(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_us)
    }

    /// The longest, microseconds; nothing where there is none.
    pub fn max_us(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_us)
    }

    /// What this share (0 to 1) of the durations takes at most, microseconds, within one class; nothing where there is none.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count);
        let mut below = 0;
        let bin = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        let end = if bin + 1 == BINS { self.max_us } else { Self::lower_us(bin + 1).ceil() as u64 - 1 };
        Some(end.clamp(self.min_us, self.max_us))
    }
}

crate::record::record! {
    /// How a histogram is encoded.
    struct Packed {
        /// Counts by class, without the zeros at the end.
        counts: Varints,
        /// Sum.
        sum_us: u64,
        /// The shortest.
        min_us: u64,
        /// The longest.
        max_us: u64,
    }
}

impl From<Histogram> for Packed {
    fn from(of: Histogram) -> Self {
        let counts = Varints::trimmed(&*of.counts);
        let min_us = if of.count == 0 { 0 } else { of.min_us };
        Self { counts, sum_us: of.sum_us, min_us, max_us: of.max_us }
    }
}

impl TryFrom<Packed> for Histogram {
    type Error = &'static str;

    fn try_from(packed: Packed) -> Result<Self, Self::Error> {
        let numbers = &packed.counts.0;
        let mut histogram = Self::default();
        let counts = histogram.counts.get_mut(..numbers.len()).ok_or("a histogram of too many classes")?;
        counts.copy_from_slice(numbers);
        histogram.count = numbers
            .iter()
            .try_fold(0_u64, |sum, count| sum.checked_add(*count))
            .ok_or("a histogram of more than can be counted")?;
        if histogram.count > 0 {
            super::ensure(
                packed.min_us <= packed.max_us,
                "a histogram whose longest is shorter than its shortest",
            )?;
            (histogram.min_us, histogram.max_us) = (packed.min_us, packed.max_us);
            histogram.sum_us = packed.sum_us;
        }
        Ok(histogram)
    }
}
