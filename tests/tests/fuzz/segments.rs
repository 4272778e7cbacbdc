//! Segments as storage gives them back.

use std::collections::HashSet;

use bytes::Bytes;
use prs_common::checksum::crc32c;
use prs_common::segment::{
    MAGIC, OutputFile, ProcessRef, SegmentBuilder, SegmentIndex, TryRecord, TryStatus, read_index,
};
use prs_common::storage::{LocalStorage, ObjectMeta, PutMode, Storage};
use prs_tests::fuzz::{Target, kind_of};
use prs_tests::harness::Random;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const KEY: &str = "segments/0001-00000-5f-00000000.seg";
/// Length and checksum of the index, and [`MAGIC`].
const TRAILER: usize = 8 + 4 + MAGIC.len();

/// An object with the key of a segment.
pub(crate) struct Segments {
    runtime: Runtime,
    storage: LocalStorage,
    _folder: TempDir,
}

impl Default for Segments {
    fn default() -> Self {
        let folder = tempfile::Builder::new().prefix("prs-fuzz-").tempdir_in(memory()).unwrap();
        // What is damaged is read again some times later; nobody waits for that here.
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        Self { runtime, storage: LocalStorage::new(folder.path()), _folder: folder }
    }
}

/// A folder in memory, where there is one: an input is a file there for a moment.
pub(crate) fn memory() -> std::path::PathBuf {
    let shared = std::path::PathBuf::from("/dev/shm");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}

impl Segments {
    fn read(&self, bytes: &[u8]) -> Result<SegmentIndex, prs_common::segment::SegmentError> {
        self.runtime.block_on(async {
            self.storage.put(KEY, Bytes::copy_from_slice(bytes).into(), PutMode::Overwrite).await.unwrap();
            let object =
                ObjectMeta { key: KEY.to_owned(), size: bytes.len() as u64, ..ObjectMeta::default() };
            read_index(&self.storage, &object).await.map(|read| read.index)
        })
    }
}

impl Target for Segments {
    const WORDS: &'static [&'static [u8]] =
        &[MAGIC, KEY.as_bytes(), b"RUN_DONE", b"PROCESS_DIED", b"\xcf", b"\xdd", b"\xc0"];

    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        let mut builder = SegmentBuilder::default();
        let mut rows = Vec::new();
        for index in 0..random.below(6) {
            let text = Bytes::from(format!("row {index}\n").repeat(random.below(4) as usize));
            let process = ProcessRef { name: format!("process{:03}", random.below(3)), pid: 7 };
            builder.add(record(random, index), &process, text.clone());
            rows.push(text);
        }
        let (parts, index) = builder.seal(KEY, 1, 0, "127.0.0.1");
        let whole = parts.concat();
        assert_eq!(self.read(&whole).unwrap(), index);
        for (record, rows) in index.tries.iter().zip(rows) {
            let seen = &whole[record.offset as usize..(record.offset + record.length) as usize];
            assert_eq!((seen, record.crc), (&rows[..], crc32c(&rows)));
        }
        whole
    }

    /// Length and checksum of an index that is another now.
    fn mend(&mut self, input: &mut Vec<u8>, random: &mut Random) {
        if input.len() < TRAILER || random.below(8) == 0 {
            return;
        }
        let end = input.len() - TRAILER;
        let told = u64::from_le_bytes(input[end..end + 8].try_into().unwrap());
        let length = if told <= end as u64 { told as usize } else { random.below(end as u64 + 1) as usize };
        let mut trailer = (length as u64).to_le_bytes().to_vec();
        trailer.extend_from_slice(&crc32c(&input[end - length..end]).to_le_bytes());
        trailer.extend_from_slice(MAGIC);
        input.splice(end.., trailer);
    }

    fn check(&mut self, input: &[u8]) -> String {
        let index = match self.read(input) {
            Ok(index) => index,
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                assert!(error.to_string().contains(KEY), "{error}");
                return kind_of(error);
            }
        };
        let mut ended = HashSet::new();
        for record in &index.tries {
            assert!(u32::try_from(record.index).is_ok(), "no plan has it");
            assert!((record.process as usize) < index.processes.len());
            assert!(record.offset.checked_add(record.length).unwrap() <= (input.len() - TRAILER) as u64);
            assert!(record.succeeded <= record.items);
            assert!(record.error.is_none() || index.error_of(record).is_some());
            assert!(!record.last || ended.insert(record.index), "one outcome each");
        }
        assert_eq!(index.key, KEY);
        format!("{} tries, {} processes", index.tries.len().min(3), index.processes.len().min(2))
    }
}

fn record(random: &mut Random, index: u64) -> TryRecord {
    let statuses = [TryStatus::RunDone, TryStatus::RunException, TryStatus::ProcessDied, TryStatus::NodeLost];
    let mut record = TryRecord::new(index, b"", statuses[random.below(4) as usize]);
    record.last = random.below(2) == 0;
    record.items = random.below(100);
    record.succeeded = record.items / 2;
    record.message = "x".repeat(random.below(300) as usize);
    record.header = (random.below(4) == 0).then(|| "a b\n".to_owned());
    record.failed = (random.below(4) == 0).then(|| vec![1, 2, 3]);
    if random.below(3) == 0 {
        record.files.push(OutputFile { path: "a/b".into(), key: "files/1/a/b".into(), size: 3, crc: 9 });
    }
    record
}
