//! Puts neighbouring row groups together to slices of about the wanted size (spec D2).
//!
//! A row group is whole in one slice, because its parts can only be read from its beginning on. It is split only
//! where the job asks for that, into parts of equally many rows.

use std::ops::{ControlFlow, Range};

use super::{Footer, FooterError, RowGroup, RowGroups};
use crate::Slice;

/// Bytes between two columns that are read along, for the sake of one request instead of two.
const GAP: u64 = 1 << 20;

/// Parts that a row group may have in any case. One with more bytes in the file may have as many as those: what a footer says
/// of the size of its data may be anything.
const MOST_PARTS: u64 = 1 << 20;

/// Row groups that become a slice.
#[derive(Debug, Default)]
struct Growing {
    groups: Range<u32>,
    together: RowGroup,
}

/// Which rows of a file are wanted: `most` of them behind the first `skip`. What was found of both is taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Rows that are left out at the beginning.
    pub skip: u64,
    /// Rows that are wanted behind them at most.
    pub most: u64,
}

impl Rows {
    /// All of them.
    pub const ALL: Self = Self { skip: 0, most: u64::MAX };

    /// Those of the next row group, which has so many.
    fn of_group(&mut self, rows: u64) -> Range<u64> {
        let first = self.skip.min(rows);
        let end = rows.min(first.saturating_add(self.most));
        self.skip -= first;
        self.most -= end - first;
        first..end
    }
}

/// Hands over the slices of a file, in the order of its rows, of at most `size` bytes each where whole row groups make that
/// possible; where `splits_row_groups`, in parts of those that are larger.
pub fn split(
    footer: &Footer<'_>,
    size: u64,
    splits_row_groups: bool,
    wanted: &mut Rows,
    mut take: impl FnMut(Slice, RowGroups) -> ControlFlow<()>,
) -> Result<(), FooterError> {
    let slice = |groups: Range<u32>, records: u64, rows: Option<Range<u64>>, chunks: Vec<Range<u64>>| {
        let data = coalesced(chunks);
        let start = data.first().map_or(0, |first| first.start);
        let end = data.last().map_or(0, |last| last.end);
        let columns = footer.columns().map(<[String]>::to_vec);
        let slice = Slice { start, end, records, checksum: footer.checksum };
        let footer = footer.place.clone();
        let row_groups = RowGroups { groups, rows, columns, data, footer, ..RowGroups::default() };
        (slice, row_groups)
    };
    let mut growing = Growing::default();
    let mut damage = None;
    for (number, group) in (0..).zip(footer.row_groups()) {
        let group = match group {
            Ok(group) => group,
            // Those before it are whole.
            Err(error) => {
                damage = Some(error);
                break;
            }
        };
        if wanted.most == 0 {
            break;
        }
        let rows = wanted.of_group(group.rows);
        let is_whole = rows == (0..group.rows);
        if rows.is_empty() && !is_whole {
            continue;
        }
        let is_full = growing.together.bytes.saturating_add(group.bytes) > size;
        if growing.together.rows > 0 && (is_full || !is_whole) {
            let Growing { groups, together } = std::mem::take(&mut growing);
            let (slice, reader) = slice(groups, together.rows, None, together.chunks);
            if take(slice, reader).is_break() {
                return Ok(());
            }
        }
        let parts = group.bytes.div_ceil(size.max(1)).min(group.rows);
        let splits = splits_row_groups && parts > 1;
        let stored = group
            .chunks
            .iter()
            .map(|chunk| chunk.end.saturating_sub(chunk.start))
            .fold(0, u64::saturating_add);
        if splits && parts > MOST_PARTS.max(stored) {
            damage = Some(FooterError::TooManyParts { group: number, bytes: group.bytes, stored, parts });
            break;
        }
        if splits || !is_whole {
            let of_part = if splits { group.rows.div_ceil(parts) } else { group.rows };
            for first in rows.clone().step_by(usize::try_from(of_part).unwrap_or(usize::MAX)) {
                let part = first..rows.end.min(first.saturating_add(of_part));
                let records = part.end - part.start;
                let (slice, reader) = slice(number..number + 1, records, Some(part), group.chunks.clone());
                if take(slice, reader).is_break() {
                    return Ok(());
                }
            }
            continue;
        }
        if growing.together.rows == 0 {
            growing = Growing { groups: number..number, ..Growing::default() };
        }
        growing.groups.end = number + 1;
        growing.together.rows = growing.together.rows.saturating_add(group.rows);
        growing.together.bytes = growing.together.bytes.saturating_add(group.bytes);
        growing.together.chunks.extend(group.chunks);
    }
    if growing.together.rows > 0 {
        let (slice, reader) = slice(growing.groups, growing.together.rows, None, growing.together.chunks);
        if take(slice, reader).is_break() {
            return Ok(());
        }
    }
    damage.map_or(Ok(()), Err)
}

/// Ranges in their order, without those that another one has, and those close to one another as one.
pub(super) fn coalesced(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut whole: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match whole.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP) => last.end = last.end.max(range.end),
            _ => whole.push(range),
        }
    }
    whole
}
