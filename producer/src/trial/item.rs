//! The item that the command line names: a file, or a row of a table as `FILE:ROW`.
//!
//! Mini-batches say how many rows of a table they have, and not how many are before them. So they are looked at in the
//! order of the plan, and the rows are counted from the first one of the table.

use std::ops::ControlFlow;
use std::path::Path;

use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatch, SliceRef, Work};
use prs_tabular::TableReader;
use prs_tabular::parquet::RowGroups;

use crate::failure::Failure;

/// How a search ends: the place of a wanted row in its mini-batch, from 0, none for a file; or why nothing has the item.
pub(super) type Found = Result<Option<u64>, Failure>;

/// The search for an item.
#[derive(Debug, Clone)]
pub(crate) struct ItemSearch {
    item: String,
    /// The last part of the table that was found, and how many rows are up to its end.
    last: Option<(Part, u64)>,
    /// What to give instead, where only something like the item was found.
    hint: Option<String>,
}

/// A part of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) table: Table,
    /// Changes with the content of the table; empty where that is not known.
    version: String,
    /// Where it begins in the table: a byte, or a row group and a row of it.
    start: (u64, u64),
    /// None where the rest of the table cannot be read.
    rows: Option<u64>,
}

/// A table of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    input: u32,
    /// As the user names it.
    pub(super) origin: String,
}

impl Part {
    /// What a mini-batch has of a table; none of files.
    pub(super) fn of(mini_batch: &MiniBatch<'_>) -> Option<Self> {
        let (origin, version, start, rows) = match mini_batch.work {
            Work::Slice(slice) => (slice.origin, slice.version, start_of(&slice), Some(slice.records)),
            Work::Unreadable { origin, offset, .. } => (origin, "", (offset, 0), None),
            _ => return None,
        };
        let table = Table { input: mini_batch.input, origin: origin.to_owned() };
        Some(Self { table, version: version.to_owned(), start, rows })
    }

    /// Whether both are of one table with other content.
    pub(super) fn is_of_another_version(&self, other: &Self) -> bool {
        let are_known = !self.version.is_empty() && !other.version.is_empty();
        self.table == other.table && are_known && self.version != other.version
    }

    /// Whether both are of one table, which an input may name twice, and this is the later one.
    fn follows(&self, other: &Self) -> bool {
        self.table == other.table && self.start > other.start
    }
}

/// Where a slice begins in its table.
fn start_of(slice: &SliceRef<'_>) -> (u64, u64) {
    match message_pack::decode(slice.reader) {
        // Parts of one row group have the same bytes.
        Ok(TableReader::Parquet(RowGroups { groups, rows, .. })) => {
            (groups.start.into(), rows.map_or(0, |rows| rows.start))
        }
        _ => (slice.start, 0),
    }
}

impl ItemSearch {
    pub(super) fn new(item: &str) -> Self {
        Self { item: item.to_owned(), last: None, hint: None }
    }

    /// Whether the next mini-batch of the plan has the item.
    pub(super) fn look_at(&mut self, mini_batch: &MiniBatch<'_>) -> ControlFlow<Found> {
        let Work::Slices(slices) = &mini_batch.work else { return self.look_at_one(mini_batch) };
        let mut before = 0;
        for slice in slices {
            match self.look_at_one(&MiniBatch { work: Work::Slice(*slice), ..*mini_batch }) {
                ControlFlow::Break(Ok(Some(row))) => return ControlFlow::Break(Ok(Some(before + row))),
                ControlFlow::Continue(()) => before += slice.records,
                found @ ControlFlow::Break(_) => return found,
            }
        }
        ControlFlow::Continue(())
    }

    /// The same of one whose rows are of one table.
    fn look_at_one(&mut self, mini_batch: &MiniBatch<'_>) -> ControlFlow<Found> {
        let part = Part::of(mini_batch);
        if let Some((last, rows)) = &self.last
            && part.as_ref().is_none_or(|part| !part.follows(last))
        {
            return ControlFlow::Break(Err(beyond(&last.table, *rows)));
        }
        match part {
            Some(part) => self.look_at_part(part),
            None => self.look_at_files(mini_batch),
        }
    }

    fn look_at_part(&mut self, part: Part) -> ControlFlow<Found> {
        let (named, origin) = (file_and_row(&self.item), &part.table.origin);
        if is_named(origin, &self.item) {
            if part.rows.is_none() && part.start == (0, 0) {
                // Nothing of it can be read: all of it is this mini-batch, a table or not.
                return ControlFlow::Break(Ok(None));
            }
            let hint = format!(
                "{0} is a table, and its items are rows: give --item {0}:ROW with a row from 0, or --mini-batch N",
                self.item
            );
            if named.is_none() {
                return ControlFlow::Break(Err(Failure::wrong(hint)));
            }
            self.hint.get_or_insert(hint);
        }
        let Some((file, row)) = named else { return ControlFlow::Continue(()) };
        if self.last.is_none() && !is_named(origin, file) {
            return ControlFlow::Continue(());
        }
        let before = self.last.as_ref().map_or(0, |(_, rows)| *rows);
        match part.rows {
            None => ControlFlow::Break(Ok(None)),
            Some(rows) if row - before < rows => ControlFlow::Break(Ok(Some(row - before))),
            Some(rows) => {
                self.last = Some((part, before + rows));
                ControlFlow::Continue(())
            }
        }
    }

    fn look_at_files(&mut self, mini_batch: &MiniBatch<'_>) -> ControlFlow<Found> {
        let names = mini_batch.file_names();
        let has = |item: &str| names.iter().any(|name| is_named(name, item));
        if has(&self.item) {
            return ControlFlow::Break(Ok(None));
        }
        if let Some((file, _)) = file_and_row(&self.item)
            && has(file)
        {
            self.hint = Some(format!("{file} is one item, not a table with rows: give --item {file}"));
        }
        ControlFlow::Continue(())
    }

    /// Why the whole plan has no such item.
    pub(super) fn absent(self) -> Failure {
        if let Some((last, rows)) = &self.last {
            return beyond(&last.table, *rows);
        }
        Failure::wrong(self.hint.unwrap_or_else(|| {
            format!(
                "no mini-batch has the item {}: give the path of a file of the inputs, as the inputs name it; of a table, \
                 with a row from 0, as in data/a.csv:7",
                self.item
            )
        }))
    }

    /// What to give instead, where only something like the item was found.
    pub(super) fn hint(self) -> Option<String> {
        self.hint
    }
}

fn beyond(table: &Table, rows: u64) -> Failure {
    let (origin, last) = (&table.origin, rows.saturating_sub(1));
    Failure::wrong(format!("{origin} has {rows} rows: give a row from 0 to {last}"))
}

/// `FILE:ROW` in its parts; none where the item does not end in a number.
fn file_and_row(item: &str) -> Option<(&str, u64)> {
    let (file, row) = item.rsplit_once(':')?;
    let is_number = row.bytes().all(|byte| byte.is_ascii_digit());
    Some((file, row.parse().ok().filter(|_| is_number)?))
}

/// Whether `item`, a path or URL as the user gives it, is the file `name`.
fn is_named(name: &str, item: &str) -> bool {
    name == item
        || std::path::absolute(item).is_ok_and(|absolute| absolute == Path::new(name))
        || name.ends_with(&format!("/{}", item.trim_start_matches("./")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&'static str]) -> Work<'static> {
        Work::Files { base: "/data", paths: paths.to_vec(), versions: &[], names: Vec::new() }
    }

    fn slice(origin: &'static str, start: u64, records: u64) -> Work<'static> {
        Work::Slice(SliceRef { key: origin, origin, start, end: start + 9, records, ..SliceRef::EMPTY })
    }

    /// Index of the mini-batch and place of the row in it, or the message.
    fn search(item: &str, plan: &[Work<'static>]) -> Result<(usize, Option<u64>), String> {
        let mut search = ItemSearch::new(item);
        for (index, work) in plan.iter().enumerate() {
            let mini_batch = MiniBatch::new(index as u64, 0, work.clone());
            if let ControlFlow::Break(found) = search.look_at(&mini_batch) {
                return found.map(|row| (index, row)).map_err(|failure| failure.to_string());
            }
        }
        Err(search.absent().to_string())
    }

    #[test]
    fn a_file_is_found_by_any_of_its_names() {
        let plan = [files(&["a/0001.png", "b.png", "c:3"])];
        for (item, is) in [
            ("/data/a/0001.png", true),
            ("a/0001.png", true),
            ("./a/0001.png", true),
            ("0001.png", true),
            ("b.png", true),
            ("c:3", true),
            ("nothing.png", false),
            ("1.png", false),
            ("/a/0001.png", false),
            ("c.png", false),
        ] {
            assert_eq!(search(item, &plan).is_ok(), is, "{item}");
        }
        let here = std::env::current_dir().unwrap().join("x.csv").display().to_string();
        assert!(is_named(&here, "x.csv") && is_named(&here, &here) && !is_named(&here, "y.csv"));
        let hint = search("b.png:7", &plan).unwrap_err();
        assert_eq!(hint, "b.png is one item, not a table with rows: give --item b.png");
    }

    #[test]
    fn rows_are_counted_over_the_slices_of_their_table() {
        let cut = Work::Unreadable { origin: "/in/b.csv", offset: 90, reason: "cut" };
        let lost = Work::Unreadable { origin: "/in/lost.csv", offset: 0, reason: "gone" };
        let part = |origin, start, records| match slice(origin, start, records) {
            Work::Slice(slice) => slice,
            _ => unreachable!(),
        };
        let group = Work::Slices(vec![
            part("/in/g.csv", 0, 3),
            part("/in/h.csv", 0, 2),
            part("/in/h.csv", 9, 2),
            part("/in/i.csv", 0, 2),
        ]);
        let plan = [
            slice("/in/a.csv", 8, 3),
            slice("/in/a.csv", 17, 2),
            slice("/in/a.csv", 8, 3),
            slice("/in/b.csv", 8, 4),
            cut,
            slice("/in/12:30", 8, 1),
            slice("/in/z.csv", 8, 2),
            lost,
            group,
        ];
        for (item, found) in [
            ("a.csv:0", (0, Some(0))),
            ("a.csv:2", (0, Some(2))),
            ("in/a.csv:1", (0, Some(1))),
            ("./in/a.csv:4", (1, Some(1))),
            ("/in/a.csv:3", (1, Some(0))),
            ("a.csv:04", (1, Some(1))),
            ("b.csv:3", (3, Some(3))),
            ("b.csv:4", (4, None)),
            ("12:30:0", (5, Some(0))),
            ("z.csv:1", (6, Some(1))),
            ("g.csv:2", (8, Some(2))),
            ("h.csv:0", (8, Some(3))),
            ("h.csv:3", (8, Some(6))),
            ("i.csv:1", (8, Some(8))),
            ("lost.csv", (7, None)),
            ("lost.csv:3", (7, None)),
        ] {
            assert_eq!(search(item, &plan), Ok(found), "{item}");
        }
        for (item, message) in [
            ("a.csv:5", "/in/a.csv has 5 rows: give a row from 0 to 4"),
            ("h.csv:4", "/in/h.csv has 4 rows: give a row from 0 to 3"),
            ("z.csv:2", "/in/z.csv has 2 rows: give a row from 0 to 1"),
            ("a.csv", "a.csv is a table, and its items are rows: give --item a.csv:ROW with a row from 0"),
            ("12:30", "12:30 is a table, and its items are rows: give --item 12:30:ROW with a row from 0"),
            ("c.csv:1", "no mini-batch has the item c.csv:1: give"),
            ("a.csv:-1", "no mini-batch has the item a.csv:-1: give"),
            ("a.csv:+1", "no mini-batch has the item a.csv:+1: give"),
            ("a.csv:", "no mini-batch has the item a.csv:: give"),
        ] {
            let said = search(item, &plan).unwrap_err();
            assert!(said.starts_with(message), "{item}: {said}");
        }
    }
}
