//! Cuts a corrected text around the slices of it that have rows: finds where their bytes are now, and cuts what is between.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use prs_common::checksum::{Crc32c, part_of};
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatchIndex, SliceRef};
use prs_tabular::{Cutting, LinesPart, Slice, Splitter, TableReader, split_lines};

use super::changes::Change;
use super::matching::{Recut, Uncut};

/// Records of a file that is cut anew, at most: sixteen bytes each are held of them.
const MOST_RECORDS: usize = 1 << 26;
/// Places at which the bytes of a slice are looked for, beyond the likely ones. Each finds other bytes once in 2^32.
const MOST_PLACES: usize = 1 << 16;
/// Bytes read at a time.
const BLOCK: usize = 256 << 10;

/// Cuts the file of `like` into slices of about `size` bytes, but for those in `done`, which are as they were and have rows;
/// they are in the order of it. Its former slices ended at `former_end`.
pub(super) fn recut(
    like: &SliceRef<'_>,
    done: &[(MiniBatchIndex, SliceRef<'_>)],
    (size, former_end): (u64, u64),
) -> Result<Vec<Recut>, Uncut> {
    let all = || done.iter().map(|(index, _)| *index).collect();
    let records = Records::of(Path::new(like.key), like).map_err(|error| (Change::Unread(error), all()))?;
    let moved_at_end = records.end().wrapping_sub(former_end);
    let (mut at, mut moved) = (0, 0_u64);
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    for (index, slice) in done {
        let likely = [moved, moved_at_end].map(|moved| slice.start.wrapping_add(moved));
        let likely = likely.into_iter().filter_map(|place| records.begins.binary_search(&place).ok());
        let near = (at..records.len()).take(MOST_PLACES);
        let found = likely.filter(|first| *first >= at).chain(near).find(|first| records.has(*first, slice));
        let Some(first) = found else {
            missing.push(*index);
            continue;
        };
        records.cut(at..first, size, &mut parts);
        let last = first + slice.records as usize;
        parts.push((records.slice(first..last), first as u64, Some(*index)));
        moved = records.begins[first].wrapping_sub(slice.start);
        at = last;
    }
    records.cut(at..records.len(), size, &mut parts);
    if missing.is_empty() { Ok(parts) } else { Err((Change::Content(None), missing)) }
}

/// The records of a file.
struct Records {
    /// Where each begins, and last where the last one ends.
    begins: Vec<u64>,
    /// CRC32C of what is between the first record and each of these places.
    sums: Vec<u32>,
}

impl Records {
    fn of(path: &Path, like: &SliceRef<'_>) -> Result<Self, String> {
        let mut begins = Vec::new();
        let mut end = 0;
        let mut take = |slice: Slice| {
            begins.push(slice.start);
            end = slice.end;
            if begins.len() < MOST_RECORDS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let reader = message_pack::decode(like.reader);
        if let Ok(TableReader::Delimited(dialect, _) | TableReader::DelimitedOf(dialect, ..)) = reader {
            let cutting = Cutting::new(path, Splitter::new(dialect, 1));
            let mut cutting = cutting.map_err(|error| error.to_string())?;
            cutting.go_on(take).map_err(|error| error.to_string())?;
        } else {
            let mut has_gap = false;
            let split = split_lines(path, 1, false, |part| {
                if let LinesPart::Slice(slice) = part {
                    return take(slice);
                }
                has_gap = true;
                ControlFlow::Break(())
            });
            split.map_err(|error| error.to_string())?;
            if has_gap {
                return Err("it has a line that is too long".to_owned());
            }
        }
        if begins.len() >= MOST_RECORDS {
            return Err(format!("it has more than {MOST_RECORDS} records"));
        }
        begins.push(end);
        let sums = sums(path, &begins).map_err(|error| error.to_string())?;
        Ok(Self { begins, sums })
    }

    fn len(&self) -> usize {
        self.begins.len() - 1
    }

    fn end(&self) -> u64 {
        self.begins[self.len()]
    }

    fn slice(&self, records: std::ops::Range<usize>) -> Slice {
        let (start, end) = (self.begins[records.start], self.begins[records.end]);
        let checksum = part_of(self.sums[records.start], self.sums[records.end], end - start);
        Slice { start, end, records: records.len() as u64, checksum }
    }

    /// Whether the bytes of `slice` are those from the record `first` on.
    fn has(&self, first: usize, slice: &SliceRef<'_>) -> bool {
        let last = first.saturating_add(slice.records as usize);
        if last > self.len() || self.begins[last] - self.begins[first] != slice.end - slice.start {
            return false;
        }
        self.slice(first..last).checksum == slice.checksum
    }

    /// Cuts `records` into slices of about `size` bytes.
    fn cut(&self, records: std::ops::Range<usize>, size: u64, parts: &mut Vec<Recut>) {
        let mut first = records.start;
        for next in records.start + 1..=records.end {
            if next == records.end || self.begins[next] - self.begins[first] >= size {
                parts.push((self.slice(first..next), first as u64, None));
                first = next;
            }
        }
    }
}

/// CRC32C of what is between the first of these places in a file and each of them.
fn sums(path: &Path, places: &[u64]) -> io::Result<Vec<u32>> {
    let mut file = BufReader::with_capacity(BLOCK, File::open(path)?);
    let first = places.first().copied().unwrap_or_default();
    io::copy(&mut file.by_ref().take(first), &mut io::sink())?;
    let (mut sum, mut sums, mut at) = (Crc32c::new(), Vec::with_capacity(places.len()), first);
    let mut bytes = Vec::new();
    for place in places {
        bytes.clear();
        let length = place - at;
        if file.by_ref().take(length).read_to_end(&mut bytes)? as u64 != length {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        sum.update(&bytes);
        sums.push(sum.finish());
        at = *place;
    }
    Ok(sums)
}
