//! The paths of an input's files, as `partition_format` reads them (spec D3), wherever the files are.

use prs_common::dataset::listing::{Listing, ListingError, ListingOptions};
use prs_common::dataset::names::without_detours;
use prs_common::dataset::partition_format::{Mismatch, PartitionFormat};
use prs_common::job::Input;
use prs_common::mini_batch::PathColumn;

use super::manifest::{File, Source};

/// Files that are looked at in one go.
const AT_ONCE: usize = 1024;

/// The name of a file as the user knows it, in a buffer that is used again.
#[derive(Debug, Default)]
pub(crate) struct PathName {
    pub(crate) text: String,
    below: usize,
}

impl PathName {
    /// A file below the folder `base`; without one, a line of a list.
    pub(crate) fn of_local(&mut self, base: &str, relative: &str) {
        let slash = if base.is_empty() || base.ends_with('/') { "" } else { "/" };
        self.join(&[base, slash], relative, base.is_empty());
    }

    /// A file of a manifest.
    pub(crate) fn of_object(&mut self, source: &Source, file: &File) {
        self.join(&[&source.origin], &file.relative, source.mixes);
    }

    fn join(&mut self, above: &[&str], relative: &str, is_listed: bool) {
        self.text.clear();
        self.text.extend(above.iter().copied());
        self.below = if is_listed { 0 } else { self.text.len() };
        self.text.push_str(relative);
        if is_listed && self.text.starts_with('/') {
            // The same name on a fleet, where lines of a list lose their detours.
            let named = without_detours(&self.text).into_owned();
            self.text = named;
        }
    }

    /// What the format makes of it.
    pub(crate) fn columns<'a>(
        &'a self,
        format: &'a PartitionFormat,
    ) -> Result<Vec<PathColumn<'a>>, Mismatch> {
        format.columns(&self.text, self.below)
    }
}

/// No path of an input is made as its format says.
#[derive(Debug, thiserror::Error)]
#[error(
    "none of its files has a path as partition_format {format} says, the first one is {first}: correct the format, or the \
     paths that the input names"
)]
pub struct NoneMatches {
    format: String,
    first: String,
}

/// Looks for a path that is made as a format says.
pub(crate) struct Search<'a> {
    format: &'a PartitionFormat,
    pub(crate) name: PathName,
    /// The first path that was looked at.
    first: Option<String>,
    pub(crate) found: bool,
}

impl<'a> Search<'a> {
    pub(crate) fn new(format: &'a PartitionFormat) -> Self {
        Self { format, name: PathName::default(), first: None, found: false }
    }

    /// Looks at the path in `name`.
    pub(crate) fn look(&mut self) {
        self.first.get_or_insert_with(|| self.name.text.clone());
        self.found = self.found || self.name.columns(self.format).is_ok();
    }

    pub(crate) fn end(self) -> Result<(), NoneMatches> {
        if self.found {
            return Ok(());
        }
        Err(NoneMatches { format: self.format.to_string(), first: self.first.unwrap_or_default() })
    }
}

/// Whether a path of the local files of an input is made as the format says. It looks at paths up to the first one that is.
pub(crate) fn search_listing(
    format: &PartitionFormat,
    input: &Input,
) -> Result<Result<(), NoneMatches>, ListingError> {
    let mut listing = Listing::of_input(input, ListingOptions::default())?;
    let mut search = Search::new(format);
    loop {
        let visited = listing.visit(AT_ONCE, |entry| {
            if !search.found {
                search.name.of_local(entry.base, entry.relative);
                search.look();
            }
        })?;
        if visited == 0 || search.found {
            return Ok(search.end());
        }
    }
}
