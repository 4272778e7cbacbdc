//! The table of tries ([`prs_common::try_table`]), being written: parts and their directory, files below the logs of the job. On a
//! fleet the log shipper brings them to storage, a part that is full once.
//!
//! It is filled with the catalog, in the order of the segments, so a worker that takes the job over writes the same parts. What cannot be
//! written is told once, in the log and in the directory, and the job goes on.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use prs_common::checksum::Crc32c;
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::{SegmentIndex, TryRecord, TryStatus};
use prs_common::timestamp::now_us;
use prs_common::tree;
use prs_common::try_table::{Block, DIRECTORY, Directory, Extent, FOLDER, Row, Which};

use super::items::named;
use super::processed_mini_batches::NOT_FIRST;
use super::statistics::group_id_of;
use super::write_whole;

/// Errors of a part that have their tracebacks in it.
const MOST_EXPLAINED: usize = 64;

/// The table, being written.
#[derive(Debug, Default)]
pub(crate) struct TryTable {
    folder: PathBuf,
    directory: Directory,
    all: Part,
    troubled: Part,
    /// What the directory of a former orchestrator of the same start covers: until as much is followed, that one stands.
    former: u64,
    /// Segments that the directory covers as it was written last.
    written: Option<u64>,
}

/// The part that rows are appended to.
#[derive(Debug, Default)]
struct Part {
    file: Option<File>,
    crc: Crc32c,
    explained: HashSet<String>,
}

/// What the catalog knows of a try.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    /// Whether it is the outcome of its mini-batch.
    pub(crate) is_outcome: bool,
    /// Whether the mini-batch had failed before.
    pub(crate) had_failed: bool,
    /// Whether another outcome of the mini-batch was first.
    pub(crate) is_duplicate: bool,
}

impl TryTable {
    /// Begins the table below a folder of logs anew.
    pub(crate) fn create(logs: &Path, incarnation: u32) -> io::Result<Self> {
        let folder = logs.join(FOLDER);
        let before = tree::read(folder.join(DIRECTORY)).ok();
        let before = before.and_then(|bytes| Directory::decode(&bytes).ok());
        let former =
            before.filter(|before| before.incarnation == incarnation).map_or(0, |before| before.followed);
        tree::remove_tree(&folder)?;
        tree::make_folders(&folder)?;
        let directory = Directory { incarnation, ..Directory::default() };
        Ok(Self { folder, directory, former, ..Self::default() })
    }

    /// Takes in the tries of a segment; `known` says of each what the catalog knows.
    pub(crate) fn add(&mut self, index: &SegmentIndex, known: impl Fn(&TryRecord) -> Known) {
        self.directory.followed += 1;
        let rows: Vec<(Row, bool)> = index
            .tries
            .iter()
            .map(|record| {
                let known = known(record);
                let row = row_of(index, record, known);
                let is_troubled =
                    row.has_failed() || (known.is_outcome && (!record.is_whole() || known.had_failed));
                (row, is_troubled)
            })
            .collect();
        let described = |(row, record): (&(Row, bool), &TryRecord)| {
            let failed = record.failed.as_deref().filter(|_| row.0.is_outcome);
            let named = failed.map(|body| named(body, record.failed_items())).unwrap_or_default();
            row.1.then(|| Row { named: named.into(), ..row.0.clone() })
        };
        let troubled: Vec<Row> = rows.iter().zip(&index.tries).filter_map(described).collect();
        let all = rows.into_iter().map(|(row, _)| row).collect();
        for (which, rows) in [(Which::All, all), (Which::Troubled, troubled)] {
            if let Err(error) = self.append(which, index, rows)
                && !std::mem::replace(&mut self.directory.lacks_rows, true)
            {
                tracing::warn!(%error, "the table of tries lacks rows; the job goes on");
            }
        }
    }

    /// A segment that is damaged was followed; nothing in it counts.
    pub(crate) fn skip(&mut self) {
        self.directory.followed += 1;
    }

    fn append(&mut self, which: Which, index: &SegmentIndex, mut rows: Vec<Row>) -> io::Result<()> {
        let (part, extents) = match which {
            Which::All => (&mut self.all, &mut self.directory.all),
            Which::Troubled => (&mut self.troubled, &mut self.directory.troubled),
        };
        let mut bytes = Vec::new();
        while !rows.is_empty() {
            let is_full = |extent: &Extent, part: usize| {
                let (most_rows, most_bytes) = which.full(part);
                extent.rows >= most_rows || extent.bytes >= most_bytes
            };
            let last = extents.len().saturating_sub(1);
            if extents.last().is_none_or(|extent| is_full(extent, last)) {
                extents.push(Extent::default());
                *part = Part::default();
            }
            let number = extents.len() - 1;
            let Some(extent) = extents.last_mut() else { return Ok(()) };
            let (most_rows, most_bytes) = which.full(number);
            let room = (most_rows - extent.rows, most_bytes - extent.bytes);
            let rest = rows.split_off(fitting(&rows, room));
            let errors = if which == Which::Troubled { part.explain(index, &rows) } else { Vec::new() };
            let block = Block {
                incarnation: index.incarnation,
                node_id: index.node_id,
                ip: index.ip.clone(),
                processes: index.processes.clone(),
                rows: std::mem::replace(&mut rows, rest),
                errors,
            };
            bytes.clear();
            block.append_to(&mut bytes);
            part.write(&self.folder.join(which.name(number)), extent.bytes, &bytes)?;
            block.rows.iter().for_each(|row| extent.add(index.node_id, row));
            extent.bytes += bytes.len() as u64;
            part.crc.update(&bytes);
            extent.crc = part.crc.finish();
        }
        Ok(())
    }

    /// Writes the directory. While fewer segments were followed than a former orchestrator of this start had followed, its
    /// directory stands, but at the end.
    pub(crate) fn write_directory(&mut self, work: &Path, is_last: bool) {
        let followed = self.directory.followed;
        if !is_last && (followed < self.former || self.written == Some(followed)) {
            return;
        }
        self.directory.written_us = now_us();
        match write_whole(work, &self.folder.join(DIRECTORY), self.directory.encode()) {
            Ok(()) => self.written = Some(followed),
            Err(error) => tracing::warn!(%error, "the directory of tries is not up to date; the job goes on"),
        }
    }
}

impl Part {
    /// Appends to the file, which has so many bytes.
    fn write(&mut self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = if let Some(file) = self.file.take() {
            file
        } else {
            let file = tree::append(path)?;
            // What a write left that failed.
            file.set_len(at)?;
            file
        };
        file.write_all(bytes)?;
        self.file = Some(file);
        Ok(())
    }

    /// What is known of the errors of these tries that the part does not have yet.
    fn explain(
        &mut self,
        index: &SegmentIndex,
        rows: &[Row],
    ) -> Vec<(String, prs_common::segment::ErrorDetail)> {
        let mut found = Vec::new();
        for row in rows.iter().filter(|row| !row.group.is_empty()) {
            if self.explained.len() >= MOST_EXPLAINED || self.explained.contains(&row.group) {
                continue;
            }
            let record = index.tries.iter().find(|one| one.index == row.index && one.number == row.number);
            if let Some(detail) = record.and_then(|record| index.error_of(record)) {
                self.explained.insert(row.group.clone());
                found.push((row.group.clone(), detail.clone()));
            }
        }
        found
    }
}

/// How many of the rows fit into so much room, rows and bytes; at least one.
fn fitting(rows: &[Row], (room_rows, room_bytes): (u64, u64)) -> usize {
    let mut bytes = 0;
    let longer = |row: &Row| {
        bytes += (64 + row.message.len() + row.detail.len() + row.named.len()) as u64;
        bytes > room_bytes
    };
    let by_bytes = rows.iter().position(longer).unwrap_or(rows.len());
    by_bytes.min(usize::try_from(room_rows).unwrap_or(usize::MAX)).max(1)
}

fn row_of(index: &SegmentIndex, record: &TryRecord, known: Known) -> Row {
    let lacks_items = known.is_outcome && !record.is_whole();
    let group = if record.status != TryStatus::RunDone || lacks_items {
        let frame = index.error_of(record).and_then(|detail| detail.frame.as_ref());
        group_id_of(record.error_status().as_str(), &record.category, frame, &record.message)
    } else {
        String::new()
    };
    let (category, message) =
        if known.is_duplicate { NOT_FIRST } else { (&*record.category, &*record.message) };
    Row {
        index: record.index,
        number: record.number,
        status: record.status as u8,
        is_outcome: known.is_outcome,
        process: record.process,
        started_us: record.started_us,
        elapsed_us: record.elapsed_us,
        cpu_us: record.cpu_us,
        run_us: record.run_us,
        load_us: record.load_us,
        items: record.items,
        succeeded: record.succeeded,
        returned: record.returned,
        category: category.to_owned(),
        message: message.to_owned(),
        detail: record.detail.clone(),
        group,
        printed: record.printed,
        ..Row::default()
    }
}

/// Whether the mini-batch of a try had failed before: an earlier try of it, or one that the catalog knows.
pub(crate) fn had_failed(record: &TryRecord, is_known: impl Fn(MiniBatchIndex) -> bool) -> bool {
    record.number > 1 || is_known(record.index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prs_common::checksum::crc32c;
    use prs_common::mini_batch::{MiniBatch, Work};
    use prs_common::segment::{ErrorDetail, ProcessRef};
    use prs_common::try_table::blocks;

    use super::*;

    fn descriptor(index: u64) -> Vec<u8> {
        let work = Work::Files { base: "", paths: vec!["/d/a"], versions: &[], names: Vec::new() };
        MiniBatch::new(index, 0, work).encode()
    }

    /// A segment with these tries: mini-batch, number of the try, whether it succeeded.
    fn segment(node_id: u32, tries: &[(u64, u32, bool)]) -> SegmentIndex {
        let record = |(index, number, succeeded): &(u64, u32, bool)| TryRecord {
            index: *index,
            number: *number,
            status: if *succeeded { TryStatus::RunDone } else { TryStatus::RunException },
            last: *succeeded || *number == 3,
            items: 1,
            succeeded: u64::from(*succeeded),
            category: if *succeeded { String::new() } else { "ValueError".to_owned() },
            error: (!*succeeded).then_some(0),
            failed: (!*succeeded).then(|| descriptor(*index)),
            detail: "x".repeat(*index as usize % 50),
            ..TryRecord::default()
        };
        SegmentIndex {
            key: String::new(),
            incarnation: 1,
            node_id,
            ip: "127.0.0.1".to_owned(),
            processes: vec![ProcessRef { name: "process000".to_owned(), pid: 7 }],
            tries: tries.iter().map(record).collect(),
            errors: vec![ErrorDetail::new("ValueError", None, "Traceback: a")],
        }
    }

    fn add(table: &mut TryTable, segment: &SegmentIndex) {
        table.add(segment, |record| Known {
            is_outcome: record.last,
            had_failed: had_failed(record, |_| false),
            is_duplicate: false,
        });
    }

    /// The rows of a table as the directory tells them, and the parts.
    fn read(table: &TryTable, which: Which) -> Vec<Block> {
        let mut found = Vec::new();
        for (number, extent) in table.directory.extents(which).iter().enumerate() {
            let bytes = std::fs::read(table.folder.join(which.name(number))).unwrap();
            assert_eq!((bytes.len() as u64, crc32c(&bytes)), (extent.bytes, extent.crc));
            let read = blocks(&bytes).unwrap();
            let rows: Vec<&Row> = read.iter().flat_map(|block| &block.rows).collect();
            assert_eq!(rows.len() as u64, extent.rows);
            assert!(rows.iter().all(|row| (extent.least_index..=extent.most_index).contains(&row.index)));
            assert!(extent.rows <= which.full(number).0);
            found.extend(read);
        }
        found
    }

    #[test]
    fn parts_are_full_and_what_is_troubled_stands_twice() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = TryTable::create(folder.path(), 1).unwrap();
        let many: Vec<_> = (0..10_000).map(|index| (index, 1, true)).collect();
        add(&mut table, &segment(3, &many));
        add(&mut table, &segment(4, &[(5, 1, false), (5, 2, true), (6, 3, false)]));
        assert_eq!(table.directory.all.iter().map(|extent| extent.rows).collect::<Vec<_>>(), [8192, 1811]);
        let all: Vec<Row> = read(&table, Which::All).into_iter().flat_map(|block| block.rows).collect();
        assert!(all[..10_000].iter().map(|row| row.index).eq(0..10_000));
        let troubled = read(&table, Which::Troubled);
        let rows: Vec<_> =
            troubled[0].rows.iter().map(|row| (row.index, row.number, row.is_outcome)).collect();
        assert_eq!(rows, [(5, 1, false), (5, 2, true), (6, 3, true)]);
        let named: Vec<_> =
            troubled[0].rows.iter().map(|row| String::from_utf8(row.named.to_vec()).unwrap()).collect();
        assert_eq!(named, ["", "", "[0,[\"/d/a\"]]"], "what lacks items for good says which");
        let last = read(&table, Which::All).pop().unwrap().rows.pop().unwrap();
        assert_eq!((last.index, last.named.len()), (6, 0));
        assert_eq!(troubled[0].errors.len(), 1, "one error is explained once");
        assert_eq!(troubled[0].errors[0].0, troubled[0].rows[0].group);
    }

    #[test]
    fn long_rows_fill_a_part_by_their_bytes() {
        let mut rows = vec![Row { message: "m".repeat(1_000), ..Row::default() }; 10];
        assert_eq!(fitting(&rows, (100, 5_400)), 5);
        assert_eq!(fitting(&rows, (3, 5_400)), 3);
        assert_eq!(fitting(&rows, (3, 0)), 1, "one row goes into an empty part");
        rows.clear();
        assert_eq!(fitting(&rows, (3, 0)), 1);
    }

    #[test]
    fn the_directory_of_a_former_orchestrator_stands_until_as_much_is_followed() {
        let (folder, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join(FOLDER).join(DIRECTORY);
        let mut first = TryTable::create(folder.path(), 1).unwrap();
        (0..3).for_each(|index| add(&mut first, &segment(0, &[(index, 1, true)])));
        first.write_directory(work.path(), false);
        let written = std::fs::read(&path).unwrap();

        let mut next = TryTable::create(folder.path(), 1).unwrap();
        add(&mut next, &segment(0, &[(0, 1, true)]));
        next.write_directory(work.path(), false);
        assert!(!path.exists(), "what it wrote stands in storage");
        (1..3).for_each(|index| add(&mut next, &segment(0, &[(index, 1, true)])));
        next.write_directory(work.path(), false);
        let (one, other) = (
            Directory::decode(&written).unwrap(),
            Directory::decode(&std::fs::read(&path).unwrap()).unwrap(),
        );
        assert_eq!((one.all, one.troubled, one.followed), (other.all, other.troubled, other.followed));

        let another = TryTable::create(folder.path(), 2).unwrap();
        assert_eq!(another.former, 0, "another start of the job begins anew");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever the segments are, the rows are theirs in their order, and a successor writes the same parts.
        #[test]
        fn who_follows_the_same_segments_writes_the_same(
            segments in prop::collection::vec(prop::collection::vec((0_u64..100_000, 1_u32..4, any::<bool>()), 0..3_000), 0..8)
        ) {
            let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let mut first = TryTable::create(one.path(), 1).unwrap();
            let mut next = TryTable::create(other.path(), 1).unwrap();
            for (node_id, tries) in segments.iter().enumerate() {
                add(&mut first, &segment(node_id as u32, tries));
            }
            for (node_id, tries) in segments.iter().enumerate() {
                add(&mut next, &segment(node_id as u32, tries));
            }
            prop_assert_eq!(&first.directory, &next.directory);
            let rows = |which| read(&first, which).into_iter().flat_map(|block| block.rows).map(|row| (row.index, row.number, !row.has_failed())).collect::<Vec<_>>();
            let expected: Vec<_> = segments.iter().flatten().copied().collect();
            prop_assert_eq!(rows(Which::All), expected.clone());
            let troubled: Vec<_> = expected.into_iter().filter(|(_, number, succeeded)| !succeeded || *number > 1).collect();
            prop_assert_eq!(rows(Which::Troubled), troubled);
        }
    }
}
