//! The failures of a job whose mini-batches fail by the million: of each a few bytes are in memory, and what it said is in a local file.
//!
//! The file has no name and goes with the orchestrator; another one that takes the job over reads the segments again. Entries of a
//! mini-batch form a chain, the newest first. Where the file cannot be written, memory has the rest.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::{SegmentIndex, TryRecord, TryStatus};
use prs_common::tree;
use serde::{Deserialize, Serialize};

use super::failures::{Failures, TryFailure};

/// What is in memory of a mini-batch.
#[derive(Debug, Default, Clone, Copy)]
struct Kept {
    /// Where its newest entry is.
    newest: u64,
    tries: u16,
    /// Those that failed; others lack items.
    failed_tries: u16,
    /// Whether it has failed for good, or lacks items: it is in the list.
    is_listed: bool,
    /// Whether items are missing.
    lacks_items: bool,
}

/// An entry of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// Where the entry before is of the same mini-batch; nothing for its first.
    before: Option<u64>,
    /// The start of the job that it is of.
    incarnation: u32,
    says: Says,
}

#[derive(Debug, Serialize, Deserialize)]
enum Says {
    Try(TryFailure),
    /// Items, those that are missing, the descriptor, and the positions of those that failed.
    End((u64, u64), Option<Vec<u8>>, Option<Vec<Range<u64>>>),
}

/// The mini-batches that had failed tries, or that lack items.
#[derive(Debug, Default)]
pub(crate) struct KeptFailures {
    kept: BTreeMap<MiniBatchIndex, Kept>,
    entries: Entries,
}

impl KeptFailures {
    /// Nothing yet; the file is made in `folder`.
    pub(crate) fn new(folder: &Path) -> Self {
        let file = unnamed(folder)
            .inspect_err(|error| {
                tracing::warn!(%error, folder = %folder.display(), "failures are kept in memory: there can be no file for them");
            })
            .ok();
        Self { kept: BTreeMap::new(), entries: Entries { file, ..Entries::default() } }
    }

    /// Takes in a try, of the segment with this `index`.
    pub(crate) fn add(&mut self, index: &SegmentIndex, record: &TryRecord) {
        let kept = self.say(record.index, index.incarnation, Says::Try(TryFailure::of(index, record)));
        kept.tries = kept.tries.saturating_add(1);
        kept.failed_tries = kept.failed_tries.saturating_add((record.status != TryStatus::RunDone).into());
    }

    /// Takes in the outcome, of this `start` of the job.
    pub(crate) fn end(&mut self, start: u32, record: &TryRecord) {
        let missing = record.items - record.succeeded;
        let failed_items = record.failed_items().map(<[_]>::to_vec);
        let says = Says::End((record.items, missing), record.failed.clone(), failed_items);
        let kept = self.say(record.index, start, says);
        kept.is_listed = record.failed.is_some();
        kept.lacks_items = missing > 0;
    }

    fn say(&mut self, index: MiniBatchIndex, incarnation: u32, says: Says) -> &mut Kept {
        let before = self.kept.get(&index).map(|kept| kept.newest);
        let entry = Entry { before, incarnation, says };
        let bytes = rmp_serde::to_vec(&entry).expect("an entry holds only integers and strings");
        let newest = self.entries.append(&bytes);
        let kept = self.kept.entry(index).or_default();
        kept.newest = newest;
        kept
    }

    /// Forgets a mini-batch, which has all of its items now.
    pub(crate) fn remove(&mut self, index: MiniBatchIndex) {
        self.kept.remove(&index);
    }

    /// Whether anything is known of a mini-batch.
    pub(crate) fn contains(&self, index: MiniBatchIndex) -> bool {
        self.kept.contains_key(&index)
    }

    /// Mini-batches that failed for good, or lack items, in their order.
    pub(crate) fn listed(&self) -> impl Iterator<Item = MiniBatchIndex> {
        self.kept.iter().filter(|(_, kept)| kept.is_listed).map(|(index, _)| *index)
    }

    /// Their tries.
    pub(crate) fn tries_of_listed(&self) -> usize {
        self.kept.values().filter(|kept| kept.is_listed).map(|kept| usize::from(kept.tries)).sum()
    }

    /// Failed tries of each mini-batch, and whether it lacks items.
    pub(crate) fn failed_tries(&self) -> impl Iterator<Item = (MiniBatchIndex, u16, bool)> {
        self.kept.iter().map(|(index, kept)| (*index, kept.failed_tries, kept.lacks_items))
    }

    /// All that is known of a mini-batch.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(&self, index: MiniBatchIndex) -> io::Result<Failures> {
        let mut found = Failures::default();
        let mut ended = false;
        let mut at = self.kept.get(&index).map(|kept| kept.newest);
        while let Some(place) = at {
            let entry: Entry = rmp_serde::from_slice(&self.entries.read(place)?).map_err(io::Error::other)?;
            at = entry.before;
            match entry.says {
                Says::Try(mut told) => {
                    told.incarnation = entry.incarnation;
                    found.tries.push(told);
                }
                Says::End(items, body, failed_items) if !ended => {
                    ended = true;
                    (found.items, found.body, found.start) = (items, body, entry.incarnation);
                    found.failed_items = failed_items;
                }
                Says::End(..) => {}
            }
        }
        found.tries.reverse();
        Ok(found)
    }
}

/// Texts one after the other, each behind its length.
#[derive(Debug, Default)]
struct Entries {
    file: Option<File>,
    /// Bytes in the file.
    written: u64,
    /// What comes behind them.
    rest: Vec<u8>,
}

/// Bytes of a length.
const LENGTH: usize = size_of::<u32>();

impl Entries {
    /// Where it is.
    fn append(&mut self, text: &[u8]) -> u64 {
        let entry = [&(text.len() as u32).to_le_bytes(), text].concat();
        if self.rest.is_empty()
            && let Some(file) = &self.file
        {
            let at = self.written;
            match file.write_all_at(&entry, at) {
                Ok(()) => {
                    self.written += entry.len() as u64;
                    return at;
                }
                Err(error) => {
                    tracing::warn!(%error, "failures are kept in memory from here on: their file cannot be written");
                }
            }
        }
        let at = self.written + self.rest.len() as u64;
        self.rest.extend(entry);
        at
    }

    fn read(&self, at: u64) -> io::Result<Vec<u8>> {
        let mut length = [0; LENGTH];
        self.read_exact(at, &mut length)?;
        let mut text = vec![0; u32::from_le_bytes(length) as usize];
        self.read_exact(at + LENGTH as u64, &mut text)?;
        Ok(text)
    }

    fn read_exact(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        if let Some(in_memory) = at.checked_sub(self.written) {
            let from = in_memory as usize;
            into.copy_from_slice(&self.rest[from..from + into.len()]);
            return Ok(());
        }
        self.file.as_ref().map_or(Ok(()), |file| file.read_exact_at(into, at))
    }
}

/// An empty file that nobody finds.
fn unnamed(folder: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    tree::make_folders(folder)?;
    let path =
        folder.join(format!("failures-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let file = tree::create_private(&path)?;
    tree::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(incarnation: u32) -> SegmentIndex {
        SegmentIndex {
            key: String::new(),
            incarnation,
            node_id: 7,
            ip: String::new(),
            processes: Vec::new(),
            tries: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn record(index: u64, number: u32, message: &str) -> TryRecord {
        let message = message.to_owned();
        TryRecord { number, message, items: 2, ..TryRecord::new(index, b"", TryStatus::RunException) }
    }

    fn fill(kept: &mut KeptFailures) {
        for index in 0..100 {
            for number in 1..=3 {
                kept.add(&segment(1), &record(index, number, &format!("{index} of try {number}")));
            }
            kept.end(1, &TryRecord { failed: Some(vec![index as u8]), ..record(index, 3, "") });
        }
        // What a later start says counts.
        kept.add(&segment(2), &record(5, 1, "again"));
        kept.end(2, &TryRecord { succeeded: 1, failed: Some(vec![9]), ..record(5, 1, "") });
        kept.end(2, &TryRecord { failed: None, succeeded: 2, ..record(6, 1, "") });
        kept.remove(7);
    }

    #[test]
    fn what_was_said_comes_back_from_the_file_and_from_memory() {
        let folder = tempfile::tempdir().unwrap();
        let mut in_file = KeptFailures::new(folder.path());
        let mut in_memory = KeptFailures::new(Path::new("/dev/null/none"));
        // A disk that gets full.
        let mut in_both = KeptFailures::new(folder.path());
        in_both.add(&segment(1), &record(0, 0, "before"));
        let written = in_both.entries.written;
        in_both.entries.file = File::open("/dev/null").ok();
        in_both.add(&segment(1), &record(200, 1, "after"));
        assert_eq!((in_both.entries.written, in_both.entries.rest.is_empty()), (written, false));
        for kept in [&mut in_file, &mut in_memory] {
            fill(kept);
            let found = kept.read(50).unwrap();
            let told: Vec<_> = found.tries.iter().map(|one| (one.order(), one.message())).collect();
            let expected = [((1, 1), "50 of try 1"), ((1, 2), "50 of try 2"), ((1, 3), "50 of try 3")];
            assert_eq!(told, expected);
            assert_eq!((found.items, found.body, found.start), ((2, 2), Some(vec![50]), 1));
            let found = kept.read(5).unwrap();
            assert_eq!(
                (found.tries.len(), found.items, found.body, found.start),
                (4, (2, 1), Some(vec![9]), 2)
            );
            assert!(!kept.contains(7) && kept.contains(8));
            assert_eq!(kept.listed().count(), 98);
            assert_eq!(kept.tries_of_listed(), 98 * 3 + 1);
            assert_eq!(kept.failed_tries().filter(|(_, tries, lacks)| *tries == 3 && *lacks).count(), 97);
        }
        assert!(in_file.entries.rest.is_empty() && in_memory.entries.written == 0);
        assert_eq!(in_both.read(200).unwrap().tries[0].message(), "after");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nobody has to remove it");
        assert_eq!(size_of::<Kept>(), 16, "of a million failures");
    }
}
