//! How long the logs are that the process prints to: what a try printed is between two lengths of each.
//!
//! A look costs two system calls, one for each stream, and is taken once a try, when it has ended: where the next one begins is known
//! then.

use std::io;
use std::os::fd::AsFd;

use prs_common::process_page::ProcessPage;
use prs_common::segment::{LONG, Printed};
use prs_common::wire::Outcome;
use rustix::fs::{FileType, fstat};

/// A file: its device and its number there.
type Identity = (u64, u64);

/// The standard output and the standard error of this process, as they were at the last look.
#[derive(Debug)]
pub(crate) struct Streams {
    files: [Option<Identity>; 2],
    lengths: (u64, u64),
}

impl Streams {
    /// As they are now; the page says so, for an agent whose process dies.
    pub(crate) fn look_first(page: &ProcessPage) -> Self {
        let [stdout, stderr] = [look(io::stdout()), look(io::stderr())];
        let files = [stdout, stderr].map(|seen| seen.map(|(file, _)| file));
        let length = |seen: Option<(Identity, u64)>| seen.map_or(0, |(_, length)| length);
        let lengths = (length(stdout), length(stderr));
        page.set_printed(lengths);
        Self { files, lengths }
    }

    /// Notes in the outcome of a try where what it printed is, where it failed or took long.
    pub(crate) fn note(&mut self, page: &ProcessPage, outcome: &mut Outcome) {
        let before = self.look_again();
        if self.lengths != before {
            page.set_printed(self.lengths);
        }
        if outcome.error.is_some() || u128::from(outcome.elapsed_us) >= LONG.as_micros() {
            outcome.printed = Printed::between(before, self.lengths);
        }
    }

    /// Takes a look; returns the lengths of the one before.
    fn look_again(&mut self) -> (u64, u64) {
        // A script may have put another file in the place of one.
        let length = |seen: Option<(Identity, u64)>, file: Option<Identity>, before: u64| {
            seen.filter(|(now, _)| file == Some(*now)).map_or(before, |(_, length)| length)
        };
        let before = self.lengths;
        self.lengths = (
            length(look(io::stdout()), self.files[0], before.0),
            length(look(io::stderr()), self.files[1], before.1),
        );
        before
    }

    /// The lengths at the last look.
    pub(crate) fn lengths(&self) -> (u64, u64) {
        self.lengths
    }

    /// The same for a try among others: what all of them printed since a look when it began.
    pub(crate) fn note_since(&mut self, page: &ProcessPage, began: (u64, u64), outcome: &mut Outcome) {
        self.note(page, outcome);
        if outcome.error.is_some() || u128::from(outcome.elapsed_us) >= LONG.as_micros() {
            outcome.printed = Printed::between(began, self.lengths);
        }
    }
}

/// Which file a stream is, and how long; nothing for what is no file, such as a terminal.
fn look(stream: impl AsFd) -> Option<(Identity, u64)> {
    let seen = fstat(stream).ok()?;
    let is_file = FileType::from_raw_mode(seen.st_mode) == FileType::RegularFile;
    is_file.then_some(((seen.st_dev, seen.st_ino), seen.st_size as u64))
}
