//! A page of tries, or of mini-batches, which are their outcomes.
//!
//! A call reads a few parts, sorts what is wanted of them, and gives a page of it; the cursor says which parts these were. Where
//! all parts that can have what is wanted are read at once, the order is exact; else it is exact within those that are read
//! together, and these come in the order of the least that they can have.

use std::collections::HashSet;

use prs_common::try_table::{Extent, Row};
use prs_orchestrator::JobRecord;
use serde::{Deserialize, Serialize};

use super::found::FoundTry;
use super::parts;
use super::wanted::{State, Wanted};
use crate::failure::Failure;
use crate::homes::JobHome;

/// Parts that a call reads, and bytes of them, at most; one part is read whatever its size.
const MOST_READ: (usize, u64) = (4, 6 << 20);

/// Where a page begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The parts before the first that is read: their least key and their number.
    after: Option<(u64, usize)>,
    /// The last of those that are read together, likewise, so that others that come meanwhile do not move the page.
    until: Option<(u64, usize)>,
    /// Rows of them that earlier pages had.
    skip: usize,
}

/// A page of mini-batches that failed or lack items.
#[derive(Debug, Default)]
pub struct LostPage {
    /// The outcomes, and where the next page begins.
    pub page: TryPage,
    /// The other tries of them that stand in the parts that were read.
    pub before: Vec<FoundTry>,
}

/// A page.
#[derive(Debug, Clone, Default)]
pub struct TryPage {
    /// The tries.
    pub tries: Vec<FoundTry>,
    /// Where the next page begins; nothing where there is none.
    pub next: Option<Cursor>,
    /// Parts that were read, and those that can have what is wanted.
    pub parts: (usize, usize),
    /// Whether the order is that of all, and not within parts alone.
    pub order_is_exact: bool,
    /// Whether the tables have all tries up to `as_of_us`, and all parts could be read.
    pub complete: bool,
    /// When the directory was written, microseconds since the Unix epoch; nothing where there is none.
    pub as_of_us: Option<u64>,
}

/// The page of what is `wanted` that begins at a cursor.
pub async fn list(
    home: &dyn JobHome,
    record: &JobRecord,
    wanted: &Wanted,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<TryPage, Failure> {
    Ok(found(home, record, wanted, cursor, (limit, false)).await?.page)
}

/// The page of the mini-batches that are wanted, which failed or lack items, with their tries before the last as far as they stand in what is
/// read for it anyhow.
pub async fn lost(
    home: &dyn JobHome,
    record: &JobRecord,
    wanted: &Wanted,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<LostPage, Failure> {
    let wanted = Wanted { states: vec![State::Lacking], ..wanted.clone() };
    found(home, record, &wanted, cursor, (limit, true)).await
}

async fn found(
    home: &dyn JobHome,
    record: &JobRecord,
    wanted: &Wanted,
    cursor: Option<Cursor>,
    (limit, with_others): (usize, bool),
) -> Result<LostPage, Failure> {
    let Some(directory) = parts::directory(home, record).await? else { return Ok(LostPage::default()) };
    let which = wanted.which();
    let extents = directory.extents(which).iter().enumerate();
    let mut fitting: Vec<((u64, usize), &Extent)> = extents
        .filter(|(_, extent)| wanted.may_be_in(extent))
        .map(|(number, extent)| ((wanted.order.least(extent), number), extent))
        .collect();
    fitting.sort_by_key(|(place, _)| *place);
    let cursor = cursor.unwrap_or_default();
    let (begin, end) = chosen(&fitting, &cursor);
    let numbered: Vec<(usize, &Extent)> =
        fitting[begin..end].iter().map(|((_, number), extent)| (*number, *extent)).collect();
    let read = parts::read(home, record, which, &numbered).await?;
    let complete = !directory.lacks_rows && read.iter().all(Option::is_some);
    let (mut rows, mut others): (Vec<(_, FoundTry)>, Vec<FoundTry>) = (Vec::new(), Vec::new());
    for mut block in read.into_iter().flatten().flatten() {
        let all: Vec<Row> = std::mem::take(&mut block.rows);
        for row in all {
            if wanted.has(&block, &row) {
                rows.push((wanted.order.key(&row), FoundTry::new(&block, row)));
            } else if with_others && !row.is_outcome && row.has_failed() {
                others.push(FoundTry::new(&block, row));
            }
        }
    }
    rows.sort_by_key(|(key, _)| *key);
    let place = |at: usize| fitting.get(at).map(|(place, _)| *place);
    let last = end.checked_sub(1).and_then(place);
    let next = if rows.len() > cursor.skip + limit {
        Some(Cursor { after: cursor.after, until: last, skip: cursor.skip + limit })
    } else if end < fitting.len() {
        Some(Cursor { after: last, until: None, skip: 0 })
    } else {
        None
    };
    let tries: Vec<_> = rows.into_iter().skip(cursor.skip).take(limit).map(|(_, found)| found).collect();
    let of_page: HashSet<u64> = tries.iter().map(|one| one.index).collect();
    others.retain(|one| of_page.contains(&one.index));
    let page = TryPage {
        tries,
        next,
        parts: (numbered.len(), fitting.len()),
        order_is_exact: begin == 0 && end == fitting.len(),
        complete,
        as_of_us: Some(directory.written_us),
    };
    Ok(LostPage { page, before: others })
}

/// The parts that are read together for a page: from one to before another.
fn chosen(fitting: &[((u64, usize), &Extent)], cursor: &Cursor) -> (usize, usize) {
    let begin = cursor.after.map_or(0, |after| fitting.partition_point(|(place, _)| *place <= after));
    let rest = &fitting[begin..];
    let mut bytes = 0;
    let within = |(number, (_, extent)): &(usize, &((u64, usize), &Extent))| {
        bytes += extent.bytes;
        *number < MOST_READ.0 && (*number == 0 || bytes <= MOST_READ.1)
    };
    let most = rest.iter().enumerate().take_while(within).count();
    let until = cursor.until.map_or(most, |until| rest.partition_point(|(place, _)| *place <= until));
    (begin, begin + until.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_over_all_parts_once() {
        let extents: Vec<Extent> = [1 << 20, 5 << 20, 9 << 20, 1, 1, 1, 1, 1]
            .into_iter()
            .map(|bytes| Extent { bytes, ..Extent::default() })
            .collect();
        let fitting: Vec<_> = extents
            .iter()
            .enumerate()
            .map(|(number, extent)| ((number as u64 / 2, number), extent))
            .collect();
        let mut cursor = Cursor::default();
        let mut seen = Vec::new();
        loop {
            let (begin, end) = chosen(&fitting, &cursor);
            seen.push((begin, end));
            if end == fitting.len() {
                break;
            }
            cursor = Cursor { after: Some(fitting[end - 1].0), ..Cursor::default() };
        }
        assert_eq!(seen, [(0, 2), (2, 3), (3, 7), (7, 8)]);
        // What came meanwhile does not move a page that has begun.
        let held = Cursor { after: Some(fitting[2].0), until: Some(fitting[4].0), skip: 50 };
        assert_eq!(chosen(&fitting, &held), (3, 5));
        assert_eq!(chosen(&[], &Cursor::default()), (0, 0));
    }
}
