//! The sum of a listing of local files: their names, sizes and times of change, in order.
//!
//! Summed up while a job is planned, and once more when a later submission compares.

use prs_common::dataset::listing::{Listing, ListingError, ListingOptions};
use prs_common::file_version::{FileVersion, certain_before};
use prs_common::hexadecimal;
use prs_common::job::{InputSource, JobSpec};
use sha2::{Digest, Sha256};

/// Files visited at a time.
const VISITED_AT_ONCE: usize = 1_024;

/// The running sum of a listing.
#[derive(Debug, Clone)]
pub struct ListingSum {
    hasher: Sha256,
    /// A file that was changed then or later, seconds since the Unix epoch, is not known for certain.
    certain_before: i64,
    files: u64,
    is_certain: bool,
}

impl ListingSum {
    /// The sum of what a job is about to run on.
    pub fn to_run() -> Self {
        Self::certain_before(certain_before())
    }

    /// The sum of what is compared with the one of a former job.
    fn to_compare() -> Self {
        Self::certain_before(i64::MAX)
    }

    fn certain_before(certain_before: i64) -> Self {
        Self { hasher: Sha256::new(), certain_before, files: 0, is_certain: true }
    }

    /// The files that follow are of the input at this position.
    pub fn begin(&mut self, position: u32) {
        // No file has so long a name.
        self.hasher.update(u32::MAX.to_le_bytes());
        self.hasher.update(position.to_le_bytes());
    }

    /// Adds a file; `version` is nothing where nobody knows.
    pub fn push(&mut self, name: &str, version: Option<FileVersion>) {
        self.files += 1;
        match version.filter(|version| *version != FileVersion::UNSEEN) {
            Some(FileVersion { size, seconds, nanoseconds }) if seconds < self.certain_before => {
                self.hasher.update((name.len() as u32).to_le_bytes());
                self.hasher.update(name);
                self.hasher.update(size.to_le_bytes());
                self.hasher.update(seconds.to_le_bytes());
                self.hasher.update(nanoseconds.to_le_bytes());
            }
            _ => self.is_certain = false,
        }
    }

    /// The sum (SHA-256, in hexadecimal); nothing where there was no file, or one that is not known for certain.
    pub fn finish(self) -> Option<String> {
        (self.is_certain && self.files > 0).then(|| hexadecimal(&self.hasher.finalize()))
    }
}

/// Lists the local files of a job, and sums them up; nothing where there are none. May block for long.
pub fn list(spec: &JobSpec, stop: &dyn Fn() -> bool) -> Result<Option<String>, ListingError> {
    let mut sum = ListingSum::to_compare();
    for (position, input) in spec.inputs.iter().enumerate() {
        if !matches!(input.source, InputSource::Paths(_)) {
            continue;
        }
        sum.begin(position as u32);
        let mut listing = Listing::of_input(input, ListingOptions { versions: true })?;
        while listing.visit(VISITED_AT_ONCE, |entry| sum.push(entry.relative, entry.version))? > 0 {
            if stop() {
                return Ok(None);
            }
        }
    }
    Ok(sum.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file, with its size and time of change.
    type File = (&'static str, Option<FileVersion>);

    fn file(name: &'static str, size: u64, seconds: i64, nanoseconds: u32) -> File {
        (name, Some(FileVersion { size, seconds, nanoseconds }))
    }

    fn sum(files: &[File]) -> Option<String> {
        let mut sum = ListingSum::certain_before(1_000);
        sum.begin(0);
        for (name, version) in files {
            sum.push(name, *version);
        }
        sum.finish()
    }

    #[test]
    fn whatever_changes_in_a_listing_changes_its_sum() {
        let one = sum(&[file("a", 1, 5, 0), file("b", 2, 5, 0)]);
        assert!(one.is_some());
        assert_eq!(sum(&[file("a", 1, 5, 0), file("b", 2, 5, 0)]), one);
        for other in [
            &[file("a", 1, 5, 0)][..],
            &[file("b", 2, 5, 0), file("a", 1, 5, 0)],
            &[file("a", 1, 5, 0), file("c", 2, 5, 0)],
            &[file("a", 1, 5, 0), file("b", 3, 5, 0)],
            &[file("a", 1, 5, 0), file("b", 2, 6, 0)],
            &[file("a", 1, 5, 1), file("b", 2, 5, 0)],
            &[file("a", 1, 5, 0), file("b", 2, 5, 0), file("c", 0, 5, 0)],
        ] {
            assert_ne!(sum(other), one, "{other:?}");
        }
        let mut second = ListingSum::certain_before(1_000);
        second.begin(1);
        second.push("a", file("a", 1, 5, 0).1);
        assert_ne!(second.finish(), sum(&[file("a", 1, 5, 0)]));
    }

    #[test]
    fn what_is_not_known_for_certain_has_no_sum() {
        for uncertain in [None, Some(FileVersion::UNSEEN), file("b", 1, 1_000, 0).1, file("b", 1, 2_000, 0).1]
        {
            assert_eq!(sum(&[file("a", 1, 5, 0), ("b", uncertain)]), None, "{uncertain:?}");
        }
        assert_eq!(sum(&[]), None);
    }
}
