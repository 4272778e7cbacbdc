//! Rows of committed segments, checked: nothing leaves here that is not what a try returned (spec S15).
//!
//! Segments are read a window at a time. Mini-batches that are asked for in plan order lie one behind the other in
//! each segment, so a window serves many of them and memory stays bounded whatever the size of the result.

use std::collections::HashMap;

use bytes::Bytes;
use prs_common::checksum::{Crc32c, crc32c};
use prs_common::segment::{OutputFile, READS, read_again_after};
use prs_common::storage::{Storage, StorageError, StorageErrorKind};

use crate::catalog::Place;
use crate::damage::{Damaged, FinalizeError};

/// Bytes read from a segment at a time.
const WINDOW: u64 = 1 << 20;
/// Segments read side by side at most; more cost another read, not memory.
const MOST_WINDOWS: usize = 64;
/// Bytes of a file read at a time.
const PIECE: u64 = 4 << 20;

/// The parts of segments that are in memory.
pub(crate) struct SegmentRows<'a> {
    storage: &'a dyn Storage,
    /// Keys, by position.
    segments: &'a [String],
    open: HashMap<u32, Window>,
    clock: u64,
}

struct Window {
    start: u64,
    bytes: Bytes,
    used: u64,
}

impl Window {
    /// The rows of `place`, where all of them are in the window.
    fn rows(&self, place: &Place) -> Option<Bytes> {
        let from = place.offset.checked_sub(self.start)?;
        (from + place.length <= self.bytes.len() as u64)
            .then(|| self.bytes.slice(from as usize..(from + place.length) as usize))
    }
}

impl<'a> SegmentRows<'a> {
    /// Reads the segments with these keys.
    pub(crate) fn new(storage: &'a dyn Storage, segments: &'a [String]) -> Self {
        Self { storage, segments, open: HashMap::new(), clock: 0 }
    }

    /// The rows of one mini-batch. What is damaged is read some times, for it may have been damaged on the way.
    pub(crate) async fn rows(&mut self, place: &Place) -> Result<Bytes, FinalizeError> {
        self.clock += 1;
        if let Some(window) = self.open.get_mut(&place.segment)
            && let Some(rows) = window.rows(place)
            && crc32c(&rows) == place.crc
        {
            window.used = self.clock;
            return Ok(rows);
        }
        let mut reads = 1;
        loop {
            let reason = match self.read(place).await {
                Ok(rows) if crc32c(&rows) == place.crc => return Ok(rows),
                Ok(_) => "rows in it have another checksum than when they were written".to_owned(),
                Err(error) if is_damage(&error) => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            self.open.remove(&place.segment);
            if reads == READS {
                let segment = self.segments[place.segment as usize].clone();
                return Err(FinalizeError::Damaged(Damaged { segment, reason }));
            }
            tokio::time::sleep(read_again_after(reads)).await;
            reads += 1;
        }
    }

    async fn read(&mut self, place: &Place) -> Result<Bytes, StorageError> {
        let end = place.offset + place.length.max(WINDOW);
        let key = &self.segments[place.segment as usize];
        let bytes = self.storage.get_range(key, place.offset..end).await?;
        let window = Window { start: place.offset, bytes, used: self.clock };
        let rows = window.rows(place).ok_or_else(|| StorageError {
            kind: StorageErrorKind::Damaged,
            place: self.storage.to_string(),
            key: key.clone(),
            message: "the segment is shorter than its index says".to_owned(),
        })?;
        // A large mini-batch fills its window: nothing in it is needed again.
        if place.length >= WINDOW {
            self.open.remove(&place.segment);
            return Ok(rows);
        }
        self.open.insert(place.segment, window);
        if self.open.len() > MOST_WINDOWS {
            let oldest = self.open.iter().min_by_key(|(_, window)| window.used).map(|(&segment, _)| segment);
            if let Some(oldest) = oldest {
                self.open.remove(&oldest);
            }
        }
        Ok(rows)
    }
}

/// Whether storage has lost, or changed, what it was given.
fn is_damage(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::Damaged | StorageErrorKind::NotFound)
}

/// Why the object of `file` is not the file that a mini-batch wrote; nothing where it is.
pub(crate) async fn what_is_wrong(
    storage: &dyn Storage,
    file: &OutputFile,
) -> Result<Option<String>, StorageError> {
    let mut reads = 1;
    loop {
        let reason = match read_through(storage, file).await {
            Ok((size, crc)) if (size, crc) == (file.size, file.crc) => return Ok(None),
            Ok(_) => format!("{} is not what its mini-batch wrote: its checksum is another", file.key),
            Err(error) if is_damage(&error) => error.to_string(),
            Err(error) => return Err(error),
        };
        if reads == READS {
            return Ok(Some(reason));
        }
        tokio::time::sleep(read_again_after(reads)).await;
        reads += 1;
    }
}

async fn read_through(storage: &dyn Storage, file: &OutputFile) -> Result<(u64, u32), StorageError> {
    let (mut size, mut sum) = (0, Crc32c::new());
    loop {
        let piece = storage.get_range(&file.key, size..size + PIECE).await?;
        sum.update(&piece);
        size += piece.len() as u64;
        if (piece.len() as u64) < PIECE {
            return Ok((size, sum.finish()));
        }
    }
}
