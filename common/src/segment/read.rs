//! Reading the table of contents of a segment, and finding out whether it is what was written.
//!
//! A read that brings something damaged is made again some times: most damage happens on the way. What stays damaged
//! is an error of its own, so that a caller can let the mini-batches run again.

use std::time::Duration;

use bytes::Bytes;

use super::{MAGIC, SegmentIndex};
use crate::checksum::crc32c;
use crate::message_pack;
use crate::storage::{ObjectMeta, Storage, StorageError, StorageExt};

/// Bytes after the index: its length, its checksum and [`MAGIC`].
const TRAILER: usize = 20;
/// Bytes of the index that the read of the trailer brings along.
const GUESS: u64 = 256 << 10;
/// How often something damaged is read before it counts as damaged in storage.
pub const READS: u32 = 4;

/// The pause after so many reads (from 1) that brought something damaged.
pub fn read_again_after(reads: u32) -> Duration {
    Duration::from_millis(50 << reads.min(5))
}

/// Why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The object is no segment, or not as it was written.
    #[error("{key} is damaged: {reason}")]
    Damaged {
        /// The object.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl SegmentError {
    /// Whether storage has lost what was written, for good: what is in there must run again.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Storage(error) => error.is_damage(),
        }
    }
}

/// The table of contents of a segment, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadIndex {
    /// What it says.
    pub index: SegmentIndex,
    /// How it says so.
    pub encoded: Bytes,
}

impl ReadIndex {
    /// Understands the table of contents of a segment of `size` bytes, and checks that it can be that.
    pub(super) fn new(key: &str, size: u64, encoded: Bytes) -> Result<Self, SegmentError> {
        let damaged = |reason: String| SegmentError::Damaged { key: key.to_owned(), reason };
        let rows = size.checked_sub((TRAILER + encoded.len()) as u64);
        let rows = rows.ok_or_else(|| damaged("its index is longer than itself".to_owned()))?;
        let index: SegmentIndex =
            message_pack::decode(&encoded).map_err(|error| damaged(error.to_string()))?;
        if index.key != key {
            return Err(damaged(format!("its content is that of {}", index.key)));
        }
        check(&index, rows).map_err(damaged)?;
        Ok(Self { index, encoded })
    }
}

/// Reads the table of contents of a segment. What is damaged, or not there, is read [`READS`] times: a gateway may say so
/// for a moment.
pub async fn read_index(storage: &dyn Storage, object: &ObjectMeta) -> Result<ReadIndex, SegmentError> {
    let mut reads = 1;
    loop {
        match read_once(storage, object).await {
            Err(error) if error.is_damage() && reads < READS => {
                tokio::time::sleep(read_again_after(reads)).await;
                reads += 1;
            }
            read => return read,
        }
    }
}

async fn read_once(storage: &dyn Storage, object: &ObjectMeta) -> Result<ReadIndex, SegmentError> {
    let damaged = |reason: String| SegmentError::Damaged { key: object.key.clone(), reason };
    let said = |reason: &str| damaged(reason.to_owned());
    let trailer_at = object.size.checked_sub(TRAILER as u64).ok_or_else(|| said("it is too short"))?;
    // One read usually brings trailer and index.
    let guess = trailer_at.saturating_sub(GUESS);
    let tail = storage.get_range(&object.key, guess..object.size).await?;
    if tail.len() as u64 != object.size - guess {
        return Err(said("it is shorter than the listing says"));
    }
    let (rest, trailer) = tail.split_at(tail.len() - TRAILER);
    let (length, sum, magic) = (&trailer[..8], &trailer[8..12], &trailer[12..]);
    if magic != MAGIC {
        return Err(said("it does not end as a segment of this version of prs does"));
    }
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
    let sum = u32::from_le_bytes(sum.try_into().expect("four bytes"));
    let start = trailer_at.checked_sub(length).ok_or_else(|| said("its index is longer than itself"))?;
    let encoded = if start >= guess {
        tail.slice((start - guess) as usize..rest.len())
    } else {
        storage.get_range(&object.key, start..trailer_at).await?
    };
    if crc32c(&encoded) != sum {
        return Err(said("its index has another checksum"));
    }
    ReadIndex::new(&object.key, object.size, encoded)
}

/// What is wrong with an index of a segment that has `rows` bytes of rows.
fn check(index: &SegmentIndex, rows: u64) -> Result<(), String> {
    let mut last = None;
    for record in &index.tries {
        let number = record.index;
        if u32::try_from(number).is_err() {
            return Err(format!("it names mini-batch {number}, and no job has so many"));
        }
        if record.process as usize >= index.processes.len() {
            return Err(format!("mini-batch {number} ran in a process that it does not name"));
        }
        if record.offset.checked_add(record.length).is_none_or(|end| end > rows) {
            return Err(format!("the rows of mini-batch {number} end behind its own"));
        }
        if record.succeeded > record.items {
            return Err(format!("more items of mini-batch {number} succeeded than it has"));
        }
        if record.error.is_some_and(|error| error as usize >= index.errors.len()) {
            return Err(format!("mini-batch {number} has an error that it does not name"));
        }
        if record.last && last.replace(number) == Some(number) {
            return Err(format!("it has two outcomes of mini-batch {number}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{ErrorDetail, LARGE, ProcessRef, SegmentBuilder, TryRecord, TryStatus};
    use super::*;
    use crate::storage::{LocalStorage, PutMode};

    const KEY: &str = "segments/a";

    fn record(index: u64) -> TryRecord {
        TryRecord { last: true, detail: "x".repeat(100), ..TryRecord::new(index, b"", TryStatus::RunDone) }
    }

    fn build(rows: &[(u64, Bytes)]) -> (Vec<Bytes>, SegmentIndex) {
        let mut builder = SegmentBuilder::default();
        for (index, rows) in rows {
            let process = ProcessRef { name: format!("process{:03}", index % 2), pid: 1 };
            builder.add(record(*index), &process, rows.clone());
        }
        builder.seal(KEY, 1, 0, "127.0.0.1")
    }

    async fn read(bytes: impl Into<Bytes>) -> Result<SegmentIndex, SegmentError> {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let bytes = bytes.into();
        let object = ObjectMeta { key: KEY.to_owned(), size: bytes.len() as u64, ..ObjectMeta::default() };
        storage.put(KEY, bytes.into(), PutMode::Overwrite).await.unwrap();
        read_once(&storage, &object).await.map(|read| read.index)
    }

    async fn round_trip(rows: Vec<(u64, Bytes)>) {
        let (parts, index) = build(&rows);
        let whole = parts.concat();
        assert_eq!(read(whole.clone()).await.unwrap(), index);
        for (wanted, expected) in rows {
            let found = index.tries.iter().find(|record| record.index == wanted).unwrap();
            let seen = &whole[found.offset as usize..(found.offset + found.length) as usize];
            assert_eq!(seen, expected);
            assert_eq!(found.crc, crc32c(seen));
        }
        assert!(index.tries.is_sorted_by_key(|record| record.index));
    }

    #[tokio::test]
    async fn rows_are_found_by_the_index_in_plan_order() {
        round_trip(vec![(2, "two\n".into()), (0, "zero\n".into()), (1, Bytes::new())]).await;
    }

    #[tokio::test]
    async fn large_rows_and_long_indices_are_read_back() {
        let large = Bytes::from(vec![b'x'; LARGE + 1]);
        round_trip(vec![(1, large), (0, "small\n".into()), (2, "last\n".into())]).await;
        round_trip((0..5000).rev().map(|index| (index, format!("{index}\n").into())).collect()).await;
    }

    /// Every bit of the index and of the trailer matters; those of the rows have checksums in the index.
    #[tokio::test]
    async fn no_bit_of_an_index_can_change() {
        let (parts, index) = build(&[(0, "zero\n".into()), (1, "one\n".into())]);
        let whole = parts.concat();
        for bit in 0..whole.len() * 8 {
            let mut other = whole.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            match read(other).await {
                Ok(read) => assert!(bit / 8 < 9 && read == index, "bit {bit}"),
                Err(error) => assert!(bit / 8 >= 9 && error.is_damage(), "bit {bit}: {error}"),
            }
        }
    }

    #[tokio::test]
    async fn what_is_no_segment_is_told_apart() {
        let (parts, _) = build(&[(0, "zero\n".into())]);
        let whole = parts.concat();
        let other_key = SegmentBuilder::default().seal("segments/b", 1, 0, "").0.concat();
        let table = [
            (b"x".to_vec(), "too short"),
            (b"0123456789abcdef0123456789".to_vec(), "does not end"),
            (whole[..whole.len() - 1].to_vec(), "does not end"),
            (other_key, "that of segments/b"),
        ];
        for (bytes, told) in table {
            let error = read(bytes).await.unwrap_err();
            assert!(error.is_damage() && error.to_string().contains(told), "{error}");
            assert!(error.to_string().contains(KEY), "{error}");
        }
    }

    #[test]
    fn an_index_names_only_what_is_there() {
        let process = ProcessRef::default();
        let index = |tries: Vec<TryRecord>| SegmentIndex {
            key: KEY.to_owned(),
            incarnation: 1,
            node_id: 0,
            ip: String::new(),
            processes: vec![process.clone()],
            tries,
            errors: vec![ErrorDetail::default()],
        };
        let table = [
            (index(vec![TryRecord { offset: 3, length: 7, ..record(0) }]), ""),
            (index(vec![TryRecord { last: false, ..record(0) }, record(0)]), ""),
            (index(vec![record(1 << 32)]), "no job has so many"),
            (index(vec![TryRecord { process: 1, ..record(0) }]), "a process that"),
            (index(vec![TryRecord { offset: 3, length: 8, ..record(0) }]), "end behind"),
            (index(vec![TryRecord { offset: 1, length: u64::MAX, ..record(0) }]), "end behind"),
            (index(vec![record(0), record(0)]), "two outcomes"),
            (index(vec![TryRecord { items: 1, succeeded: 2, ..record(0) }]), "than it has"),
            (index(vec![TryRecord { error: Some(0), ..record(0) }]), ""),
            (index(vec![TryRecord { error: Some(1), ..record(0) }]), "an error that"),
        ];
        for (index, told) in table {
            let checked = check(&index, 10).err().unwrap_or_default();
            assert!(checked.contains(told) && checked.is_empty() == told.is_empty(), "{checked:?} {told:?}");
        }
    }
}
