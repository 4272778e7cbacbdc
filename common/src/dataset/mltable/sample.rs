//! `take_random_sample`: which records are drawn.
//!
//! That depends on the seed, the name of the file and the number of the record in it, and on nothing else: not on how a file
//! is cut into mini-batches, on which host one runs, or how often.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::split_mix::split_mix;

/// Bits of a number that is compared with the chance.
const BITS: u32 = 53;

/// A sample of the records of a table, or of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The chance of each record, in 2^-53.
    chance: u64,
    seed: i64,
    /// The folder of the table with a `/` behind it. A file below it has the same name wherever the folder is.
    folder: String,
}

impl Sample {
    /// Each record with this probability, from 0 to 1, of a table in `folder`.
    pub fn new(probability: f64, seed: i64, folder: &str) -> Self {
        let chance = (probability.clamp(0.0, 1.0) * (1u64 << BITS) as f64).round() as u64;
        Self { chance, seed, folder: format!("{}/", folder.trim_end_matches('/')) }
    }

    /// Whether the file that the user knows as `origin` is drawn, of a file dataset.
    pub fn has_file(&self, origin: &str) -> bool {
        self.draws(self.of_file(origin), 0)
    }

    /// For each of these records of the file `origin` whether it is drawn: 1, or 0.
    pub fn mask(&self, origin: &str, records: Range<u64>) -> Vec<u8> {
        let of_file = self.of_file(origin);
        records.map(|record| u8::from(self.draws(of_file, record))).collect()
    }

    fn draws(&self, of_file: u64, record: u64) -> bool {
        split_mix(of_file ^ split_mix(record)) >> (64 - BITS) < self.chance
    }

    fn of_file(&self, origin: &str) -> u64 {
        let name = origin.strip_prefix(&self.folder).unwrap_or(origin);
        let seeded = split_mix(self.seed.cast_unsigned());
        name.bytes().fold(seeded, |mixed, byte| split_mix(mixed ^ u64::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_about_the_share_that_is_asked_for() {
        for probability in [0.0, 0.01, 0.3, 0.5, 0.999, 1.0] {
            for seed in [-1, 0, 7] {
                let drawn = Sample::new(probability, seed, "/in").mask("/in/a.csv", 0..100_000);
                let share = drawn.iter().map(|&one| f64::from(one)).sum::<f64>() / 100_000.0;
                assert!((share - probability).abs() < 0.006, "{probability} {seed}: {share}");
                assert!(!matches!(probability, 0.0 | 1.0) || share.to_bits() == probability.to_bits());
            }
        }
    }

    #[test]
    fn it_depends_on_seed_name_and_number_alone() {
        let sample = Sample::new(0.5, 7, "/in/");
        let all = sample.mask("/in/deep/a.csv", 0..1_000);
        assert_eq!(
            [sample.mask("/in/deep/a.csv", 0..333), sample.mask("/in/deep/a.csv", 333..1_000)].concat(),
            all
        );
        // The folder may have moved.
        assert_eq!(Sample::new(0.5, 7, "/elsewhere").mask("/elsewhere/deep/a.csv", 0..1_000), all);
        for other in [
            sample.mask("/in/deep/b.csv", 0..1_000),
            sample.mask("/in/deep/a.csv", 1..1_001),
            Sample::new(0.5, 8, "/in/").mask("/in/deep/a.csv", 0..1_000),
        ] {
            let same = all.iter().zip(&other).filter(|(one, other)| one == other).count();
            assert!((400..600).contains(&same), "{same}");
        }
        // It is the same in every version: jobs are resumed.
        assert_eq!(all[..16], [0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0]);
        assert_eq!(
            (0..8).map(|file| sample.has_file(&format!("/in/{file}"))).collect::<Vec<_>>(),
            [true, true, false, false, true, true, false, true]
        );
    }
}
