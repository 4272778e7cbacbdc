//! Which rows of each slice are wanted where a table counts them behind a filter (`skip` and `take` of an MLTable).
//!
//! A job in front of this one (`common/src/job/counting.rs`) had the same slices, and has said in the order of the plan how
//! many rows of each were left: a line each, `INPUT ROWS CHECKSUM`. The plan reads a line for each slice that it cuts, so
//! any number of slices costs no memory. The checksum is that of the slice: a line that is of another one says that the
//! data changed in between, and no row is given twice or left out over that.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};

use prs_common::dataset::mltable::Window;
use prs_common::dataset::remote::RemotePath;
use prs_common::job::counting::Counting;
use prs_common::job::{InputSource, JobSpec};
use prs_common::mini_batch::StoreRef;
use prs_common::storage::{DiskError, StorageExt, TransferError};
use prs_common::tree;

use super::{PlanContext, PlanError};

/// What was counted, from the beginning.
pub(super) struct Counts {
    lines: BufReader<File>,
    path: PathBuf,
    /// The line that is next.
    line: String,
    /// A copy, which is removed in the end.
    copy: Option<PathBuf>,
}

impl Drop for Counts {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            let _ = tree::remove_file(copy);
        }
    }
}

impl Counts {
    /// What the job in front of `spec` counted; nothing where there is none.
    pub(super) fn of(spec: &JobSpec, context: &PlanContext<'_>) -> Result<Option<Self>, PlanError> {
        let elsewhere = || PlanError::Elsewhere { input: "counts".to_owned() };
        let (path, copy) = match &spec.counting {
            None | Some(Counting::Count) => return Ok(None),
            Some(Counting::Run(InputSource::Paths(paths))) => {
                (PathBuf::from(paths.first().ok_or_else(elsewhere)?), None)
            }
            Some(Counting::Run(InputSource::Remote(urls))) => {
                let url = urls.first().and_then(|url| RemotePath::parse(url).ok()).ok_or_else(elsewhere)?;
                let copy = brought(&url, context).map_err(|error| PlanError::of_transfer("counts", error))?;
                (copy.clone(), Some(copy))
            }
            Some(Counting::Run(_)) => return Err(elsewhere()),
        };
        let opened = File::open(&path).map_err(DiskError::about(&path)).map_err(PlanError::Scratch)?;
        let lines = BufReader::with_capacity(64 << 10, opened);
        let mut counts = Self { lines, path, line: String::new(), copy };
        counts.step()?;
        Ok(Some(counts))
    }

    /// Reads the next line; it is empty behind the last.
    fn step(&mut self) -> Result<(), PlanError> {
        self.line.clear();
        let read = self.lines.read_line(&mut self.line).map_err(DiskError::about(&self.path));
        read.map(drop).map_err(PlanError::Scratch)
    }

    /// Input, rows and checksum of the next line; nothing behind the last.
    fn peek(&self) -> Result<Option<(&str, u64, u32)>, PlanError> {
        if self.line.is_empty() {
            return Ok(None);
        }
        let mut words = self.line.split_ascii_whitespace();
        let parsed = (|| Some((words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?)))();
        let damaged = || PlanError::Groups(format!("{}: {:?}", self.path.display(), self.line.trim_end()));
        parsed.map(Some).ok_or_else(damaged)
    }

    /// What was counted of `input`, of whose rows this window is taken.
    pub(super) fn of_input<'a>(
        &'a mut self,
        input: &'a str,
        window: Window,
    ) -> Result<Counted<'a>, PlanError> {
        while let Some((other, ..)) = self.peek()? {
            if other == input {
                break;
            }
            // A former input whose wanted rows were all found.
            self.step()?;
        }
        Ok(Counted { counts: self, input, window })
    }
}

/// Brings the lines from a bucket to the scratch folder.
fn brought(url: &RemotePath, context: &PlanContext<'_>) -> Result<PathBuf, TransferError> {
    let folder: &Path = context.work;
    tree::make_folders(folder).map_err(DiskError::about(folder))?;
    let copy = folder.join("counts");
    context.handle.block_on(async {
        let store = context.stores.get(StoreRef::Url(&url.bucket)).await?;
        store.download(&url.key, &copy, None).await
    })?;
    Ok(copy)
}

/// The slices of one input, as they come.
pub(super) struct Counted<'a> {
    counts: &'a mut Counts,
    input: &'a str,
    /// What is wanted of the rows that are still to come.
    window: Window,
}

impl Counted<'_> {
    /// Whether no more rows are wanted.
    pub(super) fn is_over(&self) -> bool {
        self.window.take == Some(0)
    }

    /// Which rows are taken of the next slice, which has this checksum: nothing for all that it has.
    pub(super) fn next(&mut self, checksum: u32) -> Result<Option<Range<u64>>, PlanError> {
        let changed = || PlanError::Changed { input: self.input.to_owned() };
        let (input, rows, counted) = self.counts.peek()?.ok_or_else(changed)?;
        if input != self.input || counted != checksum {
            return Err(changed());
        }
        self.counts.step()?;
        let taken = self.window.takes(rows);
        Ok((taken != (0..rows) || rows == 0).then_some(taken))
    }

    /// Nothing may be left behind the last slice of the input, unless nobody wants it.
    pub(super) fn finish(&self) -> Result<(), PlanError> {
        match self.counts.peek()? {
            Some((input, ..)) if input == self.input && !self.is_over() => {
                Err(PlanError::Changed { input: self.input.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn counts(text: &str) -> (tempfile::NamedTempFile, Counts) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let lines = BufReader::new(File::open(file.path()).unwrap());
        let mut counts = Counts { lines, path: file.path().to_owned(), line: String::new(), copy: None };
        counts.step().unwrap();
        (file, counts)
    }

    #[test]
    fn a_window_is_laid_over_the_rows_that_are_left() {
        let (_file, mut counts) = counts("a 3 11\na 0 12\na 4 13\na 9 14\nb 2 21\nb 1 22\n");
        let mut of_a = counts.of_input("a", Window { skip: 2, take: Some(4) }).unwrap();
        assert_eq!(of_a.next(11).unwrap(), Some(2..3));
        assert_eq!(of_a.next(12).unwrap(), Some(0..0));
        assert!(!of_a.is_over());
        assert_eq!(of_a.next(13).unwrap(), Some(0..3));
        assert!(of_a.is_over() && of_a.finish().is_ok());
        let mut of_b = counts.of_input("b", Window { skip: 0, take: Some(9) }).unwrap();
        assert_eq!(of_b.next(21).unwrap(), None);
        assert!(matches!(of_b.finish(), Err(PlanError::Changed { .. })));
        assert_eq!(of_b.next(22).unwrap(), None);
        assert!(of_b.finish().is_ok());
        // More slices than were counted.
        assert!(matches!(of_b.next(23), Err(PlanError::Changed { .. })));
    }

    #[test]
    fn every_window_takes_the_rows_that_it_names() {
        // What a filter leaves of slices of 250, 3, 200 and 147 rows, and of smaller ones.
        for left in [&[83, 1, 67, 49][..], &[0, 3, 0, 0, 9, 2], &[7], &[0, 0]] {
            let lines = left.iter().enumerate().map(|(at, rows)| format!("a {rows} {at}\n"));
            let text = lines.collect::<Vec<_>>().concat();
            let all = left.iter().sum::<u64>();
            for (skip, take) in [
                (10, Some(100)),
                (0, Some(3)),
                (0, Some(300)),
                (60, Some(30)),
                (1, None),
                (85, Some(9_000)),
                (1, Some(8)),
            ] {
                let (_file, mut counts) = counts(&text);
                let mut counted = counts.of_input("a", Window { skip, take }).unwrap();
                let (mut found, mut before) = (Vec::new(), 0);
                for (at, rows) in (0..).zip(left) {
                    if !counted.is_over() {
                        let taken = counted.next(at).unwrap().unwrap_or(0..*rows);
                        found.extend(taken.map(|row| before + row));
                    }
                    before += rows;
                }
                counted.finish().unwrap();
                let end = take.map_or(all, |take| all.min(skip + take));
                assert_eq!(found, (skip..end).collect::<Vec<_>>(), "{left:?} {skip} {take:?}");
            }
        }
    }

    #[test]
    fn other_slices_than_were_counted_are_refused() {
        for text in ["a 3 12\n", "b 3 11\n", ""] {
            let (_file, mut counts) = counts(text);
            let mut counted = counts.of_input("a", Window { skip: 0, take: Some(1) }).unwrap();
            let error = counted.next(11).unwrap_err();
            assert!(error.to_string().contains("input a: its data changed"), "{text:?}: {error}");
        }
        for text in ["a\n", "a x 11\n", "a 3 -1\n"] {
            let (_file, mut counts) = counts(text);
            let error = counts.of_input("a", Window::default()).err().unwrap();
            assert!(matches!(error, PlanError::Groups(_)), "{text:?}: {error}");
        }
    }
}
