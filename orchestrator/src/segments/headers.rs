//! The header of the result: the names of the columns, once, whatever order mini-batches end in.
//!
//! It is that of the first mini-batch in input order whose DataFrame has rows; where none has, that of the first with
//! columns. A mini-batch whose rows have other columns is noted: under a header of other names they would be misread.

use prs_common::end_reason::EndReason;
use prs_common::mini_batch::MiniBatchIndex;

/// Characters of a header that a message shows.
const SHOWN: usize = 80;

/// The headers of the outcomes so far.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    /// The first one of a DataFrame with rows.
    of_rows: Option<(MiniBatchIndex, String)>,
    /// The first one of a DataFrame without rows.
    of_none: Option<(MiniBatchIndex, String)>,
    /// One of a DataFrame with rows that differs from the others.
    other: Option<(MiniBatchIndex, String)>,
}

impl Headers {
    /// Takes in the header of a mini-batch.
    pub(crate) fn add(&mut self, index: MiniBatchIndex, header: String, has_rows: bool) {
        let first = if has_rows { &mut self.of_rows } else { &mut self.of_none };
        let Some(known) = first else {
            *first = Some((index, header));
            return;
        };
        let differs = known.1 != header;
        let mut later = (index, header);
        if later.0 < known.0 {
            std::mem::swap(known, &mut later);
        }
        if differs && has_rows && self.other.as_ref().is_none_or(|(_, other)| *other == known.1) {
            self.other = Some(later);
        }
    }

    /// The header of the result, and the mini-batch that it is of.
    pub(crate) fn first(&self) -> Option<&(MiniBatchIndex, String)> {
        self.of_rows.as_ref().or(self.of_none.as_ref())
    }

    /// Why no header fits all rows; nothing where one does.
    pub(crate) fn differ(&self) -> Option<EndReason> {
        let ((first, header), (later, other)) = (self.of_rows.as_ref()?, self.other.as_ref()?);
        let (columns, others) = (shown(header), shown(other));
        Some(EndReason::ColumnsDiffer { first: *first, columns, later: *later, others })
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
                all.add(*index, (*header).to_owned(), *has_rows);
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
}
