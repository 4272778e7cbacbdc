//! The process that tries inputs: each is noted before it is tried, so that the parent knows what it died of.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::Target;
use super::mutate::mutate;
use crate::harness::Random;

/// Memory that a process may use, bytes. What a target makes of an input of some kilobytes needs far less.
const MEMORY: u64 = 768 << 20;
/// Inputs that are kept for mutations.
const MOST_KEPT: usize = 2_000;

/// What is being tried.
pub(super) struct Note {
    /// How many inputs were tried before.
    pub(super) tried: u64,
    /// The input.
    pub(super) input: Vec<u8>,
}

impl Note {
    /// Reads what a child noted last.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let (tried, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let input = rest.get(..u64::from_le_bytes(*length) as usize)?.to_owned();
        Some(Self { tried: u64::from_le_bytes(*tried), input })
    }

    fn write(file: &File, tried: u64, input: &[u8]) {
        file.write_all_at(input, 16).unwrap();
        let head = [tried.to_le_bytes(), (input.len() as u64).to_le_bytes()].concat();
        file.write_all_at(&head, 0).unwrap();
    }
}

/// Lets the process fail where it wants too much memory, and leave no image of itself.
pub(super) fn limit_memory() {
    let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Data, limit(MEMORY)).unwrap();
    setrlimit(Resource::Core, limit(0)).unwrap();
}

/// Tries inputs for so long; says how many.
pub(super) fn try_inputs<T: Target>(
    target: &mut T,
    random: &mut Random,
    long: Duration,
    note: &Path,
) -> String {
    limit_memory();
    let file = File::create(note).unwrap();
    let start = Instant::now();
    let (mut kept, mut kinds, mut tried): (Vec<Vec<u8>>, _, _) = (Vec::new(), HashSet::new(), 0);
    while start.elapsed() < long || tried == 0 {
        let mut input = if kept.is_empty() || random.below(4) == 0 {
            target.seed(random)
        } else {
            let pick = |random: &mut Random| random.below(kept.len() as u64) as usize;
            let (one, other) = (pick(random), pick(random));
            mutate(random, &kept[one], &kept[other], T::WORDS)
        };
        target.mend(&mut input, random);
        input.truncate(T::LONGEST);
        Note::write(&file, tried, &input);
        if kinds.insert(target.check(&input)) && kept.len() < MOST_KEPT {
            kept.push(input);
        }
        tried += 1;
    }
    format!("{tried} inputs, {} kinds of outcomes", kinds.len())
}
