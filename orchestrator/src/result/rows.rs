//! Rows of committed segments, many segments at a time, checked: nothing leaves here that is not what a try returned
//! (spec S15).
//!
//! Neighbours in plan order lie in the segments of several nodes, and in each segment in plan order too. A [`Batch`] is
//! the rows of consecutive mini-batches: of each segment that has some of them one range is read, all ranges side by
//! side, so that the distance to the store costs once for many megabytes. A mini-batch larger than that is cut over
//! several batches, so memory stays bounded whatever a mini-batch returned.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::checksum::{Crc32c, crc32c};
use prs_common::segment::{READS, read_again_after};
use prs_common::storage::{Storage, StorageExt};

use super::FinalizeError;
use crate::segments::catalog::RowRange;
use crate::segments::damage::Damaged;

/// Rows of a batch at most, bytes.
pub(crate) const BATCH: u64 = 8 << 20;
/// Pieces of a batch at most.
const MOST_PIECES: usize = 1 << 16;
/// Ranges of a batch that are read side by side.
const READ_AT_ONCE: usize = 32;
/// Bytes that nobody asked for are read along with others of their segment, up to so many in a row.
const GAP: u64 = 64 << 10;

/// Where the next batch begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The mini-batch.
    pub(crate) index: usize,
    /// Offset in its rows.
    offset: u64,
}

/// A range of a segment.
#[derive(Debug)]
struct Read {
    segment: Arc<str>,
    range: Range<u64>,
}

/// Rows of one mini-batch, or a part of them.
#[derive(Debug)]
struct Piece {
    /// The mini-batch.
    index: usize,
    /// Position in [`Batch::reads`].
    read: usize,
    /// Where they are in what was read.
    within: Range<usize>,
    /// The first and the last piece of a mini-batch; both for one that is whole.
    is_first: bool,
    is_last: bool,
    /// CRC32C of all rows of the mini-batch.
    crc: u32,
}

/// What is read together, and what of it are rows, in plan order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    reads: Vec<Read>,
    pieces: Vec<Piece>,
}

impl Batch {
    /// The rows from `position` on, as far as `ranges` tells them and a batch holds; `position` moves behind them.
    pub(crate) fn take(
        segments: &[Arc<str>],
        position: &mut Position,
        mut ranges: impl Iterator<Item = RowRange>,
    ) -> Self {
        let mut batch = Self::default();
        let mut last_reads: HashMap<u32, usize> = HashMap::new();
        let mut left = BATCH;
        while left > 0 && batch.pieces.len() < MOST_PIECES {
            let Some(rows_at) = ranges.next() else { break };
            let from = position.offset;
            let length = (rows_at.length - from).min(left);
            if length > 0 {
                let start = rows_at.offset + from;
                let read = last_reads.get(&rows_at.segment).copied();
                let read = read.filter(|read| batch.reads[*read].reaches(start)).unwrap_or_else(|| {
                    let segment = Arc::clone(&segments[rows_at.segment as usize]);
                    batch.reads.push(Read { segment, range: start..start });
                    batch.reads.len() - 1
                });
                last_reads.insert(rows_at.segment, read);
                let range = &mut batch.reads[read].range;
                range.end = start + length;
                let at = (start - range.start) as usize;
                batch.pieces.push(Piece {
                    index: position.index,
                    read,
                    within: at..at + length as usize,
                    is_first: from == 0,
                    is_last: from + length == rows_at.length,
                    crc: rows_at.crc,
                });
                left -= length;
            }
            if from + length < rows_at.length {
                position.offset += length;
                break;
            }
            *position = Position { index: position.index + 1, offset: 0 };
        }
        batch
    }

    /// Rows in it, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.within.len() as u64).sum()
    }

    /// Reads it. What is damaged is read some times, for it may have been damaged on the way.
    pub(crate) async fn fetch(self, storage: Arc<dyn Storage>) -> Result<Fetched, FinalizeError> {
        let mut of_read: Vec<Vec<&Piece>> = self.reads.iter().map(|_| Vec::new()).collect();
        for piece in &self.pieces {
            of_read[piece.read].push(piece);
        }
        let reads = self.reads.iter().zip(&of_read).map(|(read, pieces)| read.fetch(&*storage, pieces));
        // Boxed: the compiler does not see through the borrows of a stream of futures within a task.
        let bytes = stream::iter(reads.collect::<Vec<_>>()).buffered(READ_AT_ONCE).try_collect::<Vec<_>>();
        let bytes = Box::pin(bytes).await?;
        Ok(Fetched { batch: self, bytes })
    }
}

impl Read {
    /// Whether it reads what begins at `start` with little besides.
    fn reaches(&self, start: u64) -> bool {
        (self.range.end..=self.range.end + GAP).contains(&start)
    }

    async fn fetch(&self, storage: &dyn Storage, pieces: &[&Piece]) -> Result<Bytes, FinalizeError> {
        let mut reads = 1;
        loop {
            let reason = match storage.get_range(&self.segment, self.range.clone()).await {
                Ok(bytes) if (bytes.len() as u64) < self.range.end - self.range.start => {
                    "it is shorter than its index says".to_owned()
                }
                Ok(bytes) if pieces.iter().all(|piece| piece.agrees_if_whole(&bytes)) => return Ok(bytes),
                Ok(_) => OTHER_ROWS.to_owned(),
                Err(error) if error.is_damage() => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            if reads == READS {
                return Err(self.damaged(reason));
            }
            tokio::time::sleep(read_again_after(reads)).await;
            reads += 1;
        }
    }

    fn damaged(&self, reason: String) -> FinalizeError {
        FinalizeError::Damaged(Damaged { segment: self.segment.to_string(), reason })
    }
}

const OTHER_ROWS: &str = "rows in it have another checksum than when they were written";

impl Piece {
    fn agrees_if_whole(&self, read: &Bytes) -> bool {
        !(self.is_first && self.is_last) || crc32c(&read[self.within.clone()]) == self.crc
    }
}

/// A batch that was read.
#[derive(Debug)]
pub(crate) struct Fetched {
    batch: Batch,
    /// What was read, one for each read.
    bytes: Vec<Bytes>,
}

/// Rows of one mini-batch, or a part of them.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) index: usize,
    pub(super) rows: Bytes,
    /// Whether no more comes of the mini-batch.
    pub(super) is_last: bool,
}

/// Checks mini-batches that are cut over several batches.
#[derive(Debug, Default)]
pub(crate) struct CutRows(Crc32c);

impl Fetched {
    /// The rows in plan order, in as few slices as they lie in. The batch before it was given the same `cut`.
    pub(crate) fn rows(self, cut: &mut CutRows) -> Result<Vec<Bytes>, FinalizeError> {
        let mut rows = Vec::new();
        let mut run: Option<(usize, Range<usize>)> = None;
        for piece in &self.batch.pieces {
            if !(piece.is_first && piece.is_last) {
                self.check_cut(piece, cut)?;
            }
            match &mut run {
                Some((read, within)) if *read == piece.read && within.end == piece.within.start => {
                    within.end = piece.within.end;
                }
                _ => rows.extend(run.replace((piece.read, piece.within.clone())).map(|run| self.slice(run))),
            }
        }
        rows.extend(run.map(|run| self.slice(run)));
        Ok(rows)
    }

    /// The rows, mini-batch by mini-batch. The batch before it was given the same `cut`.
    pub(super) fn parts(self, cut: &mut CutRows) -> Result<Vec<Part>, FinalizeError> {
        let mut parts = Vec::with_capacity(self.batch.pieces.len());
        for piece in &self.batch.pieces {
            if !(piece.is_first && piece.is_last) {
                self.check_cut(piece, cut)?;
            }
            let rows = self.slice((piece.read, piece.within.clone()));
            parts.push(Part { index: piece.index, rows, is_last: piece.is_last });
        }
        Ok(parts)
    }

    fn slice(&self, (read, within): (usize, Range<usize>)) -> Bytes {
        self.bytes[read].slice(within)
    }

    fn check_cut(&self, piece: &Piece, cut: &mut CutRows) -> Result<(), FinalizeError> {
        if piece.is_first {
            *cut = CutRows::default();
        }
        cut.0.update(&self.bytes[piece.read][piece.within.clone()]);
        if piece.is_last && cut.0.finish() != piece.crc {
            return Err(self.batch.reads[piece.read].damaged(OTHER_ROWS.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prs_common::storage::{LocalStorage, PutMode};

    use super::*;

    /// Mini-batches of these lengths, dealt out to so many segments in turn; `gap` bytes between neighbours.
    struct Rows {
        storage: Arc<dyn Storage>,
        segments: Vec<Arc<str>>,
        ranges: Vec<RowRange>,
        expected: Vec<u8>,
        _folder: tempfile::TempDir,
    }

    impl Rows {
        async fn new(lengths: &[u64], segments: usize, gap: usize) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
            let mut bodies = vec![Vec::new(); segments];
            let (mut ranges, mut expected) = (Vec::new(), Vec::new());
            for (index, length) in lengths.iter().enumerate() {
                let mut rows = vec![index as u8; *length as usize];
                rows.iter_mut().step_by(1_000).zip(0u32..).for_each(|(byte, at)| *byte = at as u8);
                let segment = index % segments;
                let body: &mut Vec<u8> = &mut bodies[segment];
                ranges.push(RowRange {
                    segment: segment as u32,
                    offset: body.len() as u64,
                    length: *length,
                    crc: crc32c(&rows),
                    checksum: 0,
                    succeeded: true,
                });
                expected.extend(&rows);
                body.extend(rows);
                body.extend(vec![0; gap]);
            }
            let names: Vec<Arc<str>> = (0..segments).map(|number| format!("s{number}").into()).collect();
            for (name, body) in names.iter().zip(bodies) {
                storage.put(name, body.into(), PutMode::Overwrite).await.unwrap();
            }
            Self { storage, segments: names, ranges, expected, _folder: folder }
        }

        /// What comes out, and how many batches and reads it took.
        async fn read(&self) -> Result<(Vec<u8>, usize, usize), FinalizeError> {
            let (mut position, mut cut) = (Position::default(), CutRows::default());
            let (mut all, mut batches, mut reads) = (Vec::new(), 0, 0);
            while position.index < self.ranges.len() {
                let rest = self.ranges[position.index..].iter().copied();
                let batch = Batch::take(&self.segments, &mut position, rest);
                batches += 1;
                reads += batch.reads.len();
                let fetched = batch.fetch(Arc::clone(&self.storage)).await?;
                assert!(fetched.bytes.iter().map(Bytes::len).sum::<usize>() <= 2 * BATCH as usize);
                all.extend(fetched.rows(&mut cut)?.concat());
            }
            Ok((all, batches, reads))
        }
    }

    #[tokio::test]
    async fn rows_come_in_plan_order_with_few_reads() {
        let large = BATCH + 5;
        let table: [(&[u64], usize, usize, usize, usize); 7] = [
            (&[], 1, 0, 0, 0),
            (&[0, 0, 0], 1, 0, 1, 0),
            (&[3, 0, 5, 8, 1], 1, 0, 1, 1),
            (&[3, 0, 5, 8, 1, 9, 9, 9], 3, 0, 1, 3),
            (&[3, 5, 8, 1], 2, GAP as usize + 1, 1, 4),
            (&[3, large, 7], 1, 0, 2, 2),
            (&[BATCH, 2 * BATCH, 1], 2, 0, 4, 4),
        ];
        for (lengths, segments, gap, batches, reads) in table {
            let rows = Rows::new(lengths, segments, gap).await;
            let (all, seen_batches, seen_reads) = rows.read().await.unwrap();
            assert!(all == rows.expected, "{lengths:?}");
            assert_eq!((seen_batches, seen_reads), (batches, reads), "{lengths:?}");
        }
    }

    #[tokio::test]
    async fn many_small_rows_come_in_several_batches() {
        let rows = Rows::new(&vec![1; MOST_PIECES + 3], 5, 0).await;
        let (all, batches, reads) = rows.read().await.unwrap();
        assert!(all == rows.expected);
        assert_eq!((batches, reads), (2, 5 + 3));
    }

    #[tokio::test]
    async fn a_changed_bit_is_found_in_whole_and_in_cut_rows() {
        for (lengths, damaged) in [(vec![3, 5, 8], "s1"), (vec![1, BATCH + 9], "s1")] {
            let rows = Rows::new(&lengths, 2, 0).await;
            let mut body = rows.storage.get(damaged).await.unwrap().to_vec();
            *body.last_mut().unwrap() ^= 1;
            rows.storage.put(damaged, body.into(), PutMode::Overwrite).await.unwrap();
            match rows.read().await.unwrap_err() {
                FinalizeError::Damaged(found) => assert_eq!(found.segment, damaged),
                error => panic!("{error}"),
            }
            for (number, segment) in rows.segments.iter().enumerate() {
                let of_segment: Vec<_> = rows
                    .ranges
                    .iter()
                    .filter(|rows_at| rows_at.segment as usize == number)
                    .copied()
                    .collect();
                let wrong = super::super::check::what_is_wrong_with_rows(&rows.storage, segment, &of_segment)
                    .await
                    .unwrap();
                assert_eq!(wrong.is_some(), &**segment == damaged, "{wrong:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_segment_that_is_cut_or_gone_is_damaged() {
        for gone in [false, true] {
            let rows = Rows::new(&[3, 5, 8], 1, 0).await;
            let body = rows.storage.get("s0").await.unwrap();
            rows.storage.delete("s0").await.unwrap();
            if !gone {
                rows.storage.put("s0", body.slice(..15).into(), PutMode::Overwrite).await.unwrap();
            }
            assert!(matches!(rows.read().await, Err(FinalizeError::Damaged(_))), "{gone}");
        }
    }
}
