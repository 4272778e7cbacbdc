//! Finds every segment of which storage does not have what was written.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::checksum::Crc32c;
use prs_common::segment::{OutputFile, READS, read_again_after};
use prs_common::storage::{GetOptions, Storage, StorageError, pieces};

use super::FinalizeError;
use super::rows::{Batch, CutRows, Position};
use crate::segments::catalog::{Catalog, RowRange};
use crate::segments::damage::Damaged;

/// Segments read side by side.
const SEGMENTS_AT_ONCE: usize = 4;
/// Files read side by side.
const CHECKED_AT_ONCE: usize = 16;
/// Bytes of a file read at a time: many are read side by side.
const FILE_PIECE: u64 = 1 << 20;

/// Every damaged segment of those in the catalog. Each row and each file is read once.
pub(crate) async fn find_damaged(
    storage: &Arc<dyn Storage>,
    catalog: &Catalog,
) -> Result<Vec<Damaged>, StorageError> {
    let mut ranges: Vec<RowRange> =
        catalog.rows.iter().flatten().filter(|range| range.length > 0).copied().collect();
    ranges.sort_unstable_by_key(|range| (range.segment, range.offset));
    let mut checks = Vec::new();
    for of_segment in ranges.chunk_by(|one, next| one.segment == next.segment) {
        let segment = &catalog.segments[of_segment[0].segment as usize];
        checks.push(what_is_wrong_with_rows(storage, segment, of_segment));
    }
    let checked = stream::iter(checks).buffered(SEGMENTS_AT_ONCE);
    let found = checked.try_filter_map(|damaged| std::future::ready(Ok(damaged)));
    let mut damaged: Vec<Damaged> = found.try_collect().await?;
    for found in damaged_files(&**storage, catalog).await? {
        if damaged.iter().all(|known| known.segment != found.segment) {
            damaged.push(found);
        }
    }
    Ok(damaged)
}

/// A damaged segment for each file that is not what its mini-batch wrote.
pub(crate) async fn damaged_files(
    storage: &dyn Storage,
    catalog: &Catalog,
) -> Result<Vec<Damaged>, StorageError> {
    let mut checks = Vec::with_capacity(catalog.files.len());
    for (index, file) in &catalog.files {
        checks.push(async move {
            let wrong = what_is_wrong(storage, file).await?;
            Ok(wrong.map(|reason| Damaged { segment: catalog.segment_of(*index).to_owned(), reason }))
        });
    }
    let checked = stream::iter(checks).buffer_unordered(CHECKED_AT_ONCE);
    checked.try_filter_map(|damaged| std::future::ready(Ok(damaged))).try_collect().await
}

/// Why rows of a segment, whose `ranges` these are in the order of their offsets, are not what was written; nothing where
/// they are.
pub(super) async fn what_is_wrong_with_rows(
    storage: &Arc<dyn Storage>,
    segment: &Arc<str>,
    ranges: &[RowRange],
) -> Result<Option<Damaged>, StorageError> {
    let (mut position, mut cut) = (Position::default(), CutRows::default());
    let segments = std::slice::from_ref(segment);
    while position.index < ranges.len() {
        let rest = ranges[position.index..].iter().map(|range| RowRange { segment: 0, ..*range });
        let fetched = Batch::take(segments, &mut position, rest).fetch(Arc::clone(storage)).await;
        match fetched.and_then(|fetched| fetched.rows(&mut cut)) {
            // Whether they fit a file is no question of damage.
            Ok(_) | Err(FinalizeError::Unfit(_)) => {}
            Err(FinalizeError::Damaged(damaged)) => return Ok(Some(damaged)),
            Err(FinalizeError::Storage(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// Why the object of `file` is not the file that a mini-batch wrote; nothing where it is.
async fn what_is_wrong(storage: &dyn Storage, file: &OutputFile) -> Result<Option<String>, StorageError> {
    let mut reads = 1;
    loop {
        let reason = match read_through(storage, file).await {
            Ok((size, crc)) if (size, crc) == (file.size, file.crc) => return Ok(None),
            Ok(_) => format!("{} is not what its mini-batch wrote: its checksum is another", file.key),
            Err(error) if error.is_damage() => error.to_string(),
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
    let mut object = pieces(storage, file.key.clone(), GetOptions::default(), FILE_PIECE);
    while let Some(piece) = object.try_next().await? {
        sum.update(&piece);
        size += piece.len() as u64;
    }
    Ok((size, sum.finish()))
}
