//! The header of the result: the names of the columns, once, whatever order mini-batches end in.
//!
//! It is that of the first mini-batch in input order whose DataFrame has rows; where none has, that of the first with
//! columns. A mini-batch whose rows have other columns is noted: under a header of other names they would be misread. Another
//! start of a job may run other code: the columns are those of the first start, and what a former one returned with
//! others does not count, so that code that returns the right ones can still bring the job to its end.

use std::collections::BTreeMap;

use prs_common::end_reason::EndReason;
use prs_common::mini_batch::MiniBatchIndex;

/// Characters of a header that a message shows.
const SHOWN: usize = 80;

/// The headers of the outcomes so far.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    /// Headers of DataFrames with rows, by the start of the job that returned them.
    of_rows: BTreeMap<u32, StartHeaders>,
    /// The first one of a DataFrame without rows.
    of_none: Option<(MiniBatchIndex, String)>,
}

/// The headers of DataFrames with rows that one start of the job returned.
#[derive(Debug)]
struct StartHeaders {
    first: (MiniBatchIndex, String),
    /// One that differs from it.
    other: Option<(MiniBatchIndex, String)>,
}

impl Headers {
    /// Takes in the header of a mini-batch that the start `start` of the job ran.
    pub(crate) fn add(&mut self, start: u32, index: MiniBatchIndex, header: String, has_rows: bool) {
        let mut later = (index, header);
        if !has_rows {
            if self.of_none.as_ref().is_none_or(|(known, _)| index < *known) {
                self.of_none = Some(later);
            }
            return;
        }
        let Some(StartHeaders { first, other }) = self.of_rows.get_mut(&start) else {
            self.of_rows.insert(start, StartHeaders { first: later, other: None });
            return;
        };
        let differs = first.1 != later.1;
        if later.0 < first.0 {
            std::mem::swap(first, &mut later);
        }
        if differs && other.as_ref().is_none_or(|(_, other)| *other == first.1) {
            *other = Some(later);
        }
    }

    /// The header of the result, and the mini-batch that it is of.
    pub(crate) fn first(&self) -> Option<&(MiniBatchIndex, String)> {
        let of_rows = self.of_rows.values().map(|start| &start.first);
        of_rows.min_by_key(|(index, _)| *index).or(self.of_none.as_ref())
    }

    /// Why no header fits all rows; nothing where one does.
    pub(crate) fn differ(&self) -> Option<EndReason> {
        let (start, StartHeaders { first: known, .. }) = self.of_rows.first_key_value()?;
        for StartHeaders { first, other } in self.of_rows.values() {
            if first.1 != known.1 {
                let (columns, others) = (shown(&known.1), shown(&first.1));
                return Some(EndReason::StartsDiffer { start: *start, columns, later: first.0, others });
            }
            if let Some((later, other)) = other {
                let (columns, others) = (shown(&first.1), shown(other));
                return Some(EndReason::ColumnsDiffer { first: first.0, columns, later: *later, others });
            }
        }
        None
    }

    /// The starts before `present` whose columns are not those of the first one.
    pub(crate) fn foreign_starts(&self, present: u32) -> Vec<u32> {
        let mut starts = self.of_rows.iter();
        let Some((_, StartHeaders { first: known, other: None })) = starts.next() else { return Vec::new() };
        let is_foreign = |of: &StartHeaders| of.first.1 != known.1 || of.other.is_some();
        let foreign = starts.filter(|(start, of)| **start < present && is_foreign(of));
        foreign.map(|(start, _)| *start).collect()
    }
}

fn shown(header: &str) -> String {
    let header = header.trim_end_matches('\n');
    match header.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?} …", &header[..end]),
        None => format!("{header:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_that_of_the_first_rows_whatever_order_they_come_in() {
        let of = |headers: &[(u64, &str, bool)]| {
            let mut all = Headers::default();
            for (index, header, has_rows) in headers {
                all.add(1, *index, (*header).to_owned(), *has_rows);
            }
            (all.first().cloned().map(|(index, header)| format!("{index} {header}")), all.differ())
        };
        let first = |index: u64, header: &str| Some(format!("{index} {header}"));
        assert_eq!(of(&[]), (None, None));
        assert_eq!(of(&[(3, "a", true), (1, "a", true), (2, "a", true)]), (first(1, "a"), None));
        assert_eq!(of(&[(0, "x", false), (3, "a", true), (1, "y", false)]), (first(3, "a"), None));
        assert_eq!(of(&[(4, "x", false), (2, "y", false)]), (first(2, "y"), None));
        let turned = of(&[(5, "a,b\n", true), (7, "b,a\n", true), (1, "b,a\n", true)]).1.unwrap().to_string();
        assert!(
            turned.contains(r#"mini-batch 1 returned the columns "b,a" and mini-batch 5 "a,b","#),
            "{turned}"
        );
        for order in [[(5, "a,b\n", true), (7, "b,a\n", true)], [(7, "b,a\n", true), (5, "a,b\n", true)]] {
            let (header, differ) = of(&order);
            assert_eq!(header, first(5, "a,b\n"));
            let differ = differ.unwrap().to_string();
            assert!(
                differ.contains(r#"mini-batch 5 returned the columns "a,b" and mini-batch 7 "b,a","#),
                "{differ}"
            );
        }
        let long = "é".repeat(200);
        assert!(
            of(&[(0, &long, true), (1, "a", true)])
                .1
                .unwrap()
                .to_string()
                .contains(&format!("{:?} …", "é".repeat(80)))
        );
    }

    #[test]
    fn columns_are_those_of_the_first_start() {
        let of = |headers: &[(u32, u64, &str)]| {
            let mut all = Headers::default();
            for (start, index, header) in headers {
                all.add(*start, *index, (*header).to_owned(), true);
            }
            all
        };
        let alike = of(&[(2, 0, "a"), (1, 4, "a")]);
        assert_eq!((alike.differ(), alike.first().unwrap().0, alike.foreign_starts(3)), (None, 0, vec![]));
        for order in [[(2, 0, "b"), (1, 4, "a")], [(1, 4, "a"), (2, 0, "b")]] {
            let other = of(&order);
            let told = other.differ().unwrap().to_string();
            assert!(
                told.contains(r#"start 1 of the job returned the columns "a", and its code now "b""#),
                "{told}"
            );
            assert_eq!((other.foreign_starts(2), other.foreign_starts(3)), (vec![], vec![2]));
        }
        // A later start may have had other columns in some of its mini-batches alone.
        let some = of(&[(1, 0, "a"), (2, 1, "a"), (2, 2, "b"), (4, 3, "c")]);
        assert_eq!(some.foreign_starts(5), vec![2, 4]);
        // Where those of the first one differ, no start helps.
        assert_eq!(of(&[(1, 0, "a"), (1, 1, "b"), (2, 2, "c")]).foreign_starts(3), Vec::<u32>::new());
    }
}
