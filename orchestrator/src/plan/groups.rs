//! Records in groups: the groups in the order of their first record, and the records of each in the order they came.
//!
//! It holds a bounded number of bytes. What goes beyond is sorted and written to the scratch folder as a run, and the runs
//! are merged at the end; records that fit touch no disk. Of each group it keeps a digest.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use prs_common::storage::DiskError;
use prs_common::tree;
use sha2::{Digest, Sha256};

/// Bytes of records that are held.
const HELD: usize = 32 << 20;
/// Longest record, bytes.
const LONGEST: usize = 64 << 20;

/// Takes records.
#[derive(Debug)]
pub(super) struct Grouper {
    folder: RunFolder,
    held: usize,
    numbers: HashMap<[u8; 16], u32>,
    next: u32,
    run: Memory,
    runs: usize,
}

/// The folder of the runs, removed in the end.
#[derive(Debug)]
struct RunFolder(PathBuf);

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = tree::remove_tree(&self.0);
    }
}

/// Records in memory: of each its group, and where it begins and ends.
#[derive(Debug, Default)]
struct Memory {
    bytes: Vec<u8>,
    places: Vec<(u32, usize, usize)>,
    /// The next one that is given.
    at: usize,
}

impl Memory {
    fn len(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<(u32, usize, usize)>()
    }
}

impl Grouper {
    /// Runs are written to `folder`, which is made when the first one is.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self::holding(HELD, folder)
    }

    fn holding(held: usize, folder: PathBuf) -> Self {
        let folder = RunFolder(folder);
        Self { folder, held, numbers: HashMap::new(), next: 0, run: Memory::default(), runs: 0 }
    }

    /// The number of the group with this key.
    pub(super) fn group(&mut self, key: &[u8]) -> u32 {
        let digest = Sha256::digest(key);
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        if let Some(number) = self.numbers.get(&short) {
            return *number;
        }
        let number = self.own_group();
        self.numbers.insert(short, number);
        number
    }

    /// The number of a group of its own.
    pub(super) fn own_group(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Takes a record of a group.
    pub(super) fn push(&mut self, group: u32, record: &[u8]) -> Result<(), DiskError> {
        if self.run.len() + record.len() > self.held && !self.run.places.is_empty() {
            self.write_run()?;
        }
        let start = self.run.bytes.len();
        self.run.bytes.extend_from_slice(record);
        self.run.places.push((group, start, self.run.bytes.len()));
        Ok(())
    }

    fn write_run(&mut self) -> Result<(), DiskError> {
        let path = run_path(&self.folder.0, self.runs);
        self.runs += 1;
        self.run.places.sort_unstable();
        let write = || {
            tree::make_folders(&self.folder.0)?;
            let mut file = BufWriter::with_capacity(1 << 20, tree::create(&path)?);
            for &(group, start, end) in &self.run.places {
                file.write_all(&group.to_le_bytes())?;
                file.write_all(&((end - start) as u32).to_le_bytes())?;
                file.write_all(&self.run.bytes[start..end])?;
            }
            file.flush()
        };
        write().map_err(|source| DiskError { path: path.clone(), source })?;
        self.run.bytes.clear();
        self.run.places.clear();
        Ok(())
    }

    /// The records in their groups.
    pub(super) fn finish(mut self) -> Result<Grouped, DiskError> {
        self.run.places.sort_unstable();
        let mut runs = Vec::with_capacity(self.runs + 1);
        for number in 0..self.runs {
            let path = run_path(&self.folder.0, number);
            let file = File::open(&path).map_err(|source| DiskError { path: path.clone(), source })?;
            runs.push(Run::File(path, BufReader::with_capacity(64 << 10, file)));
        }
        runs.push(Run::Memory(self.run));
        let pending = vec![Vec::new(); runs.len()];
        let mut grouped =
            Grouped { _folder: self.folder, runs, pending, first: BinaryHeap::new(), record: Vec::new() };
        for run in 0..grouped.runs.len() {
            grouped.refill(run)?;
        }
        Ok(grouped)
    }
}

fn run_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(number.to_string())
}

/// Sorted records.
#[derive(Debug)]
enum Run {
    Memory(Memory),
    File(PathBuf, BufReader<File>),
}

impl Run {
    /// Puts the next record into `record` and gives its group.
    fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<u32>, DiskError> {
        record.clear();
        match self {
            Self::Memory(memory) => {
                let Some(&(group, start, end)) = memory.places.get(memory.at) else { return Ok(None) };
                memory.at += 1;
                record.extend_from_slice(&memory.bytes[start..end]);
                Ok(Some(group))
            }
            Self::File(path, file) => {
                read_record(file, record).map_err(|source| DiskError { path: path.clone(), source })
            }
        }
    }
}

fn read_record(file: &mut BufReader<File>, record: &mut Vec<u8>) -> io::Result<Option<u32>> {
    let mut head = [0; 8];
    // A run ends where a record does.
    if file.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    file.read_exact(&mut head[1..])?;
    let [group, length] =
        [0, 4].map(|at| head[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four)));
    let length = length as usize;
    if length > LONGEST {
        return Err(io::Error::other("it is damaged: a record is longer than any that was written"));
    }
    record.resize(length, 0);
    file.read_exact(record)?;
    Ok(Some(group))
}

/// Records, one group after the other.
#[derive(Debug)]
pub(super) struct Grouped {
    _folder: RunFolder,
    runs: Vec<Run>,
    /// The next record of each run.
    pending: Vec<Vec<u8>>,
    /// Group and run of each of these. Of two records of a group, that of the earlier run came first.
    first: BinaryHeap<Reverse<(u32, usize)>>,
    record: Vec<u8>,
}

impl Grouped {
    /// The next record, and the number of its group.
    pub(super) fn next(&mut self) -> Result<Option<(u32, &[u8])>, DiskError> {
        let Some(Reverse((group, run))) = self.first.pop() else { return Ok(None) };
        std::mem::swap(&mut self.record, &mut self.pending[run]);
        self.refill(run)?;
        Ok(Some((group, &self.record)))
    }

    fn refill(&mut self, run: usize) -> Result<(), DiskError> {
        if let Some(group) = self.runs[run].next(&mut self.pending[run])? {
            self.first.push(Reverse((group, run)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The records of each group, by what a grouper that holds so many bytes gives.
    fn grouped(held: usize, records: &[(u8, String)]) -> (Vec<Vec<String>>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let mut grouper = Grouper::holding(held, runs.clone());
        for (key, record) in records {
            let group = if *key == 0 { grouper.own_group() } else { grouper.group(&[*key]) };
            grouper.push(group, record.as_bytes()).unwrap();
        }
        let written = grouper.runs;
        let mut sorted = grouper.finish().unwrap();
        let mut groups: Vec<(u32, Vec<String>)> = Vec::new();
        while let Some((group, record)) = sorted.next().unwrap() {
            let record = String::from_utf8(record.to_vec()).unwrap();
            match groups.last_mut().filter(|(last, _)| *last == group) {
                Some((_, records)) => records.push(record),
                None => groups.push((group, vec![record])),
            }
        }
        drop(sorted);
        assert!(!runs.exists());
        assert!(groups.is_sorted_by(|one, next| one.0 < next.0));
        (groups.into_iter().map(|(_, records)| records).collect(), written)
    }

    proptest! {
        #[test]
        fn groups_come_in_the_order_of_their_first_record(
            records in prop::collection::vec((0_u8..6, "[a-z]{0,9}"), 0..200),
            held in 0_usize..3_000,
        ) {
            let mut expected: Vec<(u8, Vec<String>)> = Vec::new();
            for (key, record) in &records {
                match expected.iter_mut().find(|(known, _)| known == key && *key != 0) {
                    Some((_, records)) => records.push(record.clone()),
                    None => expected.push((*key, vec![record.clone()])),
                }
            }
            let expected: Vec<_> = expected.into_iter().map(|(_, records)| records).collect();
            prop_assert_eq!(grouped(held, &records).0, expected);
        }
    }

    #[test]
    fn few_records_touch_no_disk_and_many_do() {
        let records: Vec<_> = (0..100).map(|number| (number % 7, "x".repeat(100))).collect();
        assert_eq!(grouped(HELD, &records).1, 0);
        assert!(grouped(2_000, &records).1 > 5);
    }
}
