//! What each start of a job brought to its result: a job that was resumed may have run several codes.
//!
//! The segments say which start wrote them, the record which code each start ran.

use std::collections::BTreeMap;

use prs_common::layout::checksum_of_code;

use crate::job::record::{JobRecord, StartResult};
use crate::segments::catalog::Catalog;

/// Groups of mini-batches that are listed for each start; a job may have a hundred thousand.
const MOST_RANGES: usize = 1_000;

/// One entry for each start of the job, the first one first.
pub(crate) fn results(record: &JobRecord, catalog: &Catalog) -> Vec<StartResult> {
    let mut brought = by_start(catalog.rows_by_index().map(|rows| {
        let rows = rows.filter(|rows| rows.succeeded)?;
        catalog.written_by.get(rows.segment as usize).copied()
    }));
    let former = record.former_starts.iter().map(|start| (start.incarnation, &start.code));
    let all = former.chain([(record.incarnation, &record.code)]);
    let results = all.map(|(start, code)| StartResult {
        start,
        code: checksum_of_code(code).to_owned(),
        rows: catalog.returned_by.get(&start).copied().unwrap_or_default(),
        ..brought.remove(&start).unwrap_or_default()
    });
    results.collect()
}

/// Mini-batches by the start that brought them: `starts` says it for each of them, from the first on.
fn by_start(starts: impl Iterator<Item = Option<u32>>) -> BTreeMap<u32, StartResult> {
    let mut brought: BTreeMap<u32, StartResult> = BTreeMap::new();
    let mut before = None;
    for (index, start) in starts.enumerate() {
        let index = index as u64;
        if let Some(start) = start {
            let of_start = brought.entry(start).or_default();
            of_start.mini_batches += 1;
            let goes_on = before == Some(start);
            if !goes_on && of_start.ranges.len() >= MOST_RANGES {
                of_start.ranges_left_out += 1;
            } else if !goes_on {
                of_start.ranges.push((index, index));
            } else if of_start.ranges_left_out == 0
                && let Some((_, last)) = of_start.ranges.last_mut()
            {
                *last = index;
            }
        }
        before = start;
    }
    brought
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mini_batches_are_grouped_by_the_start_that_brought_them() {
        // Start, mini-batches, ranges.
        type Brought = (u32, u64, &'static [(u64, u64)]);
        let table: [(&[u32], &[Brought]); 4] = [
            (&[], &[]),
            (&[1, 1, 1], &[(1, 3, &[(0, 2)])]),
            // 0 stands for a mini-batch without rows.
            (&[1, 2, 1, 0, 1, 1, 2], &[(1, 4, &[(0, 0), (2, 2), (4, 5)]), (2, 2, &[(1, 1), (6, 6)])]),
            (&[0, 0, 3], &[(3, 1, &[(2, 2)])]),
        ];
        for (starts, expected) in table {
            let brought = by_start(starts.iter().map(|&start| (start > 0).then_some(start)));
            let found: Vec<_> =
                brought.iter().map(|(start, of)| (*start, of.mini_batches, of.ranges.as_slice())).collect();
            assert_eq!(found, expected, "{starts:?}");
        }
    }

    #[test]
    fn a_job_of_very_many_groups_lists_some() {
        let count = 2 * (MOST_RANGES as u32 + 7);
        let brought = by_start((0..count).map(|index| Some(1 + index % 2)));
        for of in brought.values() {
            assert_eq!((of.ranges.len(), of.ranges_left_out), (MOST_RANGES, 7));
        }
        let long = by_start((0..count).map(|index| Some(1 + index % 2)).chain([Some(1), Some(1)]));
        assert_eq!((long[&1].mini_batches, long[&1].ranges_left_out), (u64::from(count / 2) + 2, 8));
    }
}
