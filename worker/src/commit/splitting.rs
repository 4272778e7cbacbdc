//! A mini-batch that is split after its last try failed (`split_failed`), so that a bad item costs itself alone.
//!
//! Its halves run one after the other, then the halves of those that failed, down to single items: n items of which b are
//! bad take at most 2 b (log2(n / b) + 2) tries of parts. A part is judged by one try, in a process that is not in doubt:
//! most processes go on after a failure, and a fresh one may cost minutes, so the first parts find out. One that fails in
//! a process that failed the try before runs once more, in another process; after [`MOST_REPEATED`] of these, or one that
//! succeeded there, parts go to such processes no more. The rows of the parts wait here until all have ended: then they
//! are one outcome, in input order. A node that is lost takes them with it, and another one begins anew.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prs_common::job::JobSpec;
use prs_common::segment::{ErrorDetail, ProcessRef, PutTogether, TryRecord, TryStatus};

/// Items of a mini-batch, counted from 0.
type Items = Range<u64>;

/// Parts of a mini-batch that run once more.
const MOST_REPEATED: usize = 2;

/// A mini-batch that is being split.
#[derive(Debug)]
pub(crate) struct Splitting {
    /// The last try of the whole.
    whole: EndedTry,
    waiting: VecDeque<Part>,
    /// The part that runs.
    present: Part,
    /// Whether it runs in a process that failed the try before, and is not known to go on after failures.
    is_in_doubt: bool,
    /// Parts that ran once more.
    repeated: usize,
    /// Whether such a part succeeded then: items break processes.
    is_breaking: bool,
    /// Tries of parts that have ended, in their order.
    tries: Vec<EndedTry>,
    /// Parts that are not split any further, by their first items.
    leaves: BTreeMap<u64, Leaf>,
}

/// A part that is to run.
#[derive(Debug, Clone)]
struct Part {
    items: Items,
    /// Number of the process that failed it, or what it was split from.
    failed_in: u32,
    /// Whether it runs once more.
    is_again: bool,
}

/// A try without its rows.
#[derive(Debug)]
pub(crate) struct EndedTry {
    pub(crate) record: TryRecord,
    pub(crate) process: Arc<ProcessRef>,
    pub(crate) error: Option<Box<ErrorDetail>>,
}

/// A part that is not split any further.
#[derive(Debug)]
struct Leaf {
    /// Position of its try.
    at: usize,
    items: Items,
    rows: Bytes,
}

/// The end of a mini-batch that was split.
#[derive(Debug)]
pub(crate) struct Split {
    /// Tries that are not the outcome.
    pub(crate) tries: Vec<EndedTry>,
    /// The outcome, and its rows.
    pub(crate) outcome: (EndedTry, Bytes),
}

impl Splitting {
    /// Whether anything can be gained by splitting what failed so: its data was read, and is more than one item.
    pub(crate) fn is_of_use(record: &TryRecord) -> bool {
        may_be_split(record.status) && record.items > 1
    }

    /// Begins with the last try of a mini-batch, which failed in the process `failed_in` of the node.
    pub(crate) fn of(whole: EndedTry, failed_in: u32) -> Self {
        let all = Part { items: 0..whole.record.items, failed_in, is_again: false };
        let mut splitting = Self {
            whole,
            waiting: VecDeque::new(),
            present: all,
            is_in_doubt: false,
            repeated: 0,
            is_breaking: false,
            tries: Vec::new(),
            leaves: BTreeMap::new(),
        };
        splitting.halve_present(failed_in);
        splitting
    }

    /// The items that the present try has.
    pub(crate) fn present(&self) -> Items {
        self.present.items.clone()
    }

    /// Whether the present part is for a process that is not in doubt.
    pub(crate) fn is_careful(&self) -> bool {
        self.present.is_again || self.is_breaking || self.repeated >= MOST_REPEATED
    }

    /// Notes that the present part begins, and whether the process is in doubt.
    pub(crate) fn begin_part(&mut self, is_in_doubt: bool) {
        self.is_in_doubt = is_in_doubt;
    }

    /// Takes up the next part; gives the number of the process that failed it, or what it was split from. `None` where all
    /// have ended.
    pub(crate) fn next(&mut self) -> Option<u32> {
        self.present = self.waiting.pop_front()?;
        self.is_in_doubt = false;
        Some(self.present.failed_in)
    }

    /// Takes in how the present part ended, in the process with the number `process` of the node.
    pub(crate) fn end_part(&mut self, mut ended: EndedTry, rows: Bytes, process: u32) {
        let (items, record) = (self.present(), &mut ended.record);
        record.number = self.whole.record.number + self.tries.len() as u32 + 1;
        let at = self.tries.len();
        let is_splittable = may_be_split(record.status) && items.end - items.start > 1;
        let tries_left = JobSpec::MOST_TRIES_OF_PARTS.saturating_sub(at + 1 + self.waiting.len());
        self.is_breaking |= self.present.is_again && record.status == TryStatus::RunDone;
        if may_be_split(record.status) && self.is_in_doubt && !self.is_careful() && tries_left >= 1 {
            self.repeated += 1;
            self.waiting.push_front(Part { items, failed_in: process, is_again: true });
        } else if is_splittable && tries_left >= 2 {
            self.halve_present(process);
        } else {
            if is_splittable {
                let most = JobSpec::MOST_TRIES_OF_PARTS;
                let _ = write!(
                    record.message,
                    "; these items are not split further: {most} tries are the most for the parts of a mini-batch"
                );
            }
            self.leaves.insert(items.start, Leaf { at, items, rows });
        }
        self.tries.push(ended);
    }

    /// Has the halves of the present part run, which failed in this process.
    fn halve_present(&mut self, failed_in: u32) {
        let Items { start, end } = self.present();
        let middle = start + (end - start) / 2;
        for items in [start..middle, middle..end] {
            self.waiting.push_back(Part { items, failed_in, is_again: false });
        }
    }

    /// Makes one outcome of all parts: a success where one of them succeeded.
    pub(crate) fn end(self) -> Split {
        let Self { whole, mut tries, leaves, .. } = self;
        if !leaves.values().any(|leaf| tries[leaf.at].record.status == TryStatus::RunDone) {
            return Split { tries, outcome: (whole, Bytes::new()) };
        }
        let mut record = TryRecord {
            index: whole.record.index,
            checksum: whole.record.checksum,
            number: whole.record.number + tries.len() as u32 + 1,
            detail: whole.record.detail.clone(),
            ..TryRecord::default()
        };
        let (mut rows, mut together) = (BytesMut::new(), PutTogether::default());
        let (mut headers, mut header_without_rows) = (Vec::new(), None);
        let (mut process, mut error, mut is_whole) = (Arc::default(), None, true);
        for leaf in leaves.into_values() {
            let part = &mut tries[leaf.at];
            rows.extend_from_slice(&leaf.rows);
            let of = &mut part.record;
            record.items += of.items;
            record.succeeded += of.succeeded;
            record.returned += of.returned;
            record.started_us = record.started_us.max(of.started_us + of.elapsed_us);
            record.files.append(&mut of.files);
            record.contents = record.contents.take().or_else(|| of.contents.take());
            match of.header.take() {
                Some(header) if of.returned == 0 => header_without_rows = Some(header),
                Some(header) if !headers.contains(&header) => headers.push(header),
                _ => {}
            }
            if of.status != TryStatus::RunDone {
                together.failed_items.push(leaf.items);
            }
            if is_whole {
                // Of the first part that lacks items, where one does.
                is_whole = of.is_whole();
                (record.category, record.message) = (of.category.clone(), of.message.clone());
                (together.failed_as, together.failed_try) = (of.status, of.number);
                (process, error) = (Arc::clone(&part.process), part.error.clone());
                if !is_whole {
                    record.detail.clone_from(&of.detail);
                }
            }
        }
        let mut headers = headers.into_iter();
        record.header = headers.next().or(header_without_rows);
        together.other_headers = headers.collect();
        record.together = Some(Box::new(together));
        tries.push(whole);
        Split { tries, outcome: (EndedTry { record, process, error }, rows.freeze()) }
    }
}

/// Whether smaller parts may succeed where this is how all of them failed together.
fn may_be_split(status: TryStatus) -> bool {
    match status {
        TryStatus::RunException | TryStatus::RunTimeout | TryStatus::ProcessDied => true,
        TryStatus::RunDone | TryStatus::LoadException | TryStatus::LoadTimeout | TryStatus::NodeLost => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(items: impl Iterator<Item = u64>) -> String {
        items.flat_map(|item| [item.to_string(), "\n".to_owned()]).collect()
    }

    /// Splits a mini-batch of `count` items that fails where it has one of `bad`, in processes of which one that failed is
    /// in doubt until it succeeds; gives its end, and how many parts ran. An item `breaks` a process, or does not.
    fn split_in(count: u64, bad: &[u64], breaks: bool) -> (Split, usize) {
        let ended = |items: &Items, has_failed: bool| {
            let status = if has_failed { TryStatus::RunException } else { TryStatus::RunDone };
            let category = if has_failed { "ValueError" } else { "" }.to_owned();
            let items = items.end - items.start;
            let succeeded = if has_failed { 0 } else { items };
            let of = TryRecord {
                items,
                succeeded,
                returned: succeeded,
                category,
                ..TryRecord::new(7, b"", status)
            };
            EndedTry { record: of, process: Arc::default(), error: None }
        };
        let mut whole = ended(&(0..count), true);
        whole.record.number = 3;
        assert!(Splitting::is_of_use(&whole.record));
        let mut splitting = Splitting::of(whole, 5);
        let (mut ran, mut is_broken, mut is_in_doubt, mut is_borne) = (0, breaks, true, false);
        while splitting.next().is_some() {
            ran += 1;
            if splitting.is_careful() && is_in_doubt && !is_borne {
                (is_broken, is_in_doubt) = (false, false);
            }
            splitting.begin_part(is_in_doubt && !is_borne);
            let items = splitting.present();
            let has_bad = bad.iter().any(|bad| items.contains(bad));
            let has_failed = has_bad || is_broken;
            is_borne |= is_in_doubt && !has_failed;
            (is_broken, is_in_doubt) = (is_broken || breaks && has_bad, has_failed);
            let rows = rows_of(items.clone());
            let rows = if has_failed { Bytes::new() } else { rows.into() };
            splitting.end_part(ended(&items, has_failed), rows, ran as u32);
        }
        (splitting.end(), ran)
    }

    fn split(count: u64, bad: &[u64]) -> (Split, usize) {
        split_in(count, bad, false)
    }

    #[test]
    fn a_bad_item_costs_itself_alone() {
        let table: [(u64, &[u64]); 11] = [
            (129, &[64]),
            (129, &[128]),
            (2, &[0]),
            (2, &[1]),
            (3, &[1]),
            (7, &[0, 6]),
            (200, &[117]),
            (200, &[3, 4, 5, 199]),
            (1_000, &[]),
            (1_000, &[0, 1, 500, 999]),
            (4_096, &[17]),
        ];
        let both = table.iter().flat_map(|row| [(row, false), (row, true)]);
        for (&(count, bad), breaks) in both {
            let (Split { tries, outcome: (outcome, rows) }, ran) = split_in(count, bad, breaks);
            let record = &outcome.record;
            let lost = bad.len() as u64;
            assert_eq!(
                (record.status, record.items, record.succeeded),
                (TryStatus::RunDone, count, count - lost)
            );
            assert_eq!(record.is_whole(), bad.is_empty());
            let expected = rows_of((0..count).filter(|item| !bad.contains(item)));
            assert_eq!(rows, expected, "{count} {bad:?} {breaks}");
            let failed: Vec<u64> = record.failed_items().unwrap().iter().map(|items| items.start).collect();
            assert_eq!(failed, bad);
            let numbers: Vec<u32> = tries.iter().map(|one| one.record.number).collect();
            assert_eq!(numbers, (4..4 + ran as u32).chain([3]).collect::<Vec<_>>());
            assert_eq!(record.number, 4 + ran as u32, "it is behind all tries");
            // One whose items are all good may fail as a whole, and then its process is in doubt.
            let bad_ones = bad.len().max(1) as f64;
            let most = 2.0 * bad_ones * ((count as f64 / bad_ones).log2() + 2.0);
            assert!(ran as f64 <= most, "{count} {bad:?} {breaks}: {ran} of {most}");
        }
    }

    #[test]
    fn a_mini_batch_of_bad_items_fails_as_its_last_try() {
        let (Split { tries, outcome: (outcome, rows) }, ran) = split(2, &[0, 1]);
        assert_eq!((outcome.record.status, outcome.record.number), (TryStatus::RunException, 3));
        assert_eq!((rows.len(), ran, tries.len()), (0, 4, 4));
    }

    #[test]
    fn parts_beyond_the_most_tries_fail_as_they_are() {
        let odd: Vec<u64> = (0..2_000).step_by(2).collect();
        let (Split { tries, outcome }, ran) = split(2_000, &odd);
        assert_eq!(ran, JobSpec::MOST_TRIES_OF_PARTS);
        assert_eq!(outcome.0.record.status, TryStatus::RunException, "no part is small enough");
        assert!(tries.last().unwrap().record.message.contains("not split further"));
        // Each item is in one part that was not split.
        let (Split { outcome: (outcome, rows), .. }, ran) = split(2_000, &odd[..200]);
        assert!(ran <= JobSpec::MOST_TRIES_OF_PARTS);
        let failed: u64 =
            outcome.record.failed_items().unwrap().iter().map(|items| items.end - items.start).sum();
        assert_eq!((outcome.record.items, outcome.record.succeeded + failed), (2_000, 2_000));
        assert_eq!(std::str::from_utf8(&rows).unwrap().lines().count() as u64, outcome.record.succeeded);
    }

    #[test]
    fn only_more_than_one_item_whose_data_was_read_is_split() {
        for status in TryStatus::ALL {
            for (items, is_more) in [(0, false), (1, false), (2, true)] {
                let record = TryRecord { items, ..TryRecord::new(0, b"", status) };
                let is_run = matches!(
                    status,
                    TryStatus::RunException | TryStatus::RunTimeout | TryStatus::ProcessDied
                );
                assert_eq!(Splitting::is_of_use(&record), is_run && is_more, "{status:?} {items}");
            }
        }
    }

    #[test]
    fn headers_of_parts_are_told_once_each() {
        let ended = |status, header: &str, returned| {
            let header = Some(header.to_owned()).filter(|header| !header.is_empty());
            let record =
                TryRecord { items: 1, succeeded: 1, returned, header, ..TryRecord::new(0, b"", status) };
            EndedTry { record, process: Arc::default(), error: None }
        };
        let headers = |parts: [(&str, u64); 2]| {
            let mut whole = ended(TryStatus::RunException, "", 0);
            whole.record.items = 2;
            let mut splitting = Splitting::of(whole, 0);
            for (header, returned) in parts {
                splitting.next();
                splitting.end_part(ended(TryStatus::RunDone, header, returned), Bytes::new(), 0);
            }
            splitting.end().outcome.0.record.headers().cloned().collect::<Vec<_>>()
        };
        assert_eq!(headers([("a", 1), ("a", 1)]), ["a"]);
        assert_eq!(headers([("a", 1), ("b", 1)]), ["a", "b"]);
        assert_eq!(headers([("a", 0), ("b", 1)]), ["b"]);
        assert_eq!(headers([("a", 0), ("", 1)]), ["a"]);
    }
}
