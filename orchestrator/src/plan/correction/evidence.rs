//! Contents that mini-batches with rows noted of local files, beside the files as they are now.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use prs_common::file_content::FileContent;
use prs_common::file_version::{FileVersion, unpack};
use prs_common::host_id;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, SliceRef, StoreRef, Work};

use super::WithRows;
use super::changes::{Change, Changes};
use super::matching::{is_parquet, named};

/// What is known of the files of mini-batches with rows.
pub(super) struct Evidence {
    known: Arc<WithRows>,
    host: u64,
    /// The mini-batch looked at last: whether this host ran it, and its files.
    last: RefCell<(Option<MiniBatchIndex>, bool, Vec<FileContent>)>,
    /// The file compared last, and what came of it: slices of one file follow one another.
    compared: RefCell<Option<(Compared, Option<Change>)>>,
}

/// A file, how it was, and whether this host saw that.
type Compared = (String, FileContent, FileVersion, bool);

impl Evidence {
    pub(super) fn new(known: Arc<WithRows>) -> Self {
        Self { known, host: host_id(), last: RefCell::default(), compared: RefCell::default() }
    }

    /// How the content of a file is another than it was: the file at `path`, which is the one at position `at` of the mini-batch
    /// `index`, and has had the versions `then` and `now`. May read it.
    pub(super) fn change(
        &self,
        (index, at): (MiniBatchIndex, usize),
        path: &str,
        (then, now): (Option<FileVersion>, Option<FileVersion>),
    ) -> Option<Change> {
        let (Some((content, of_this_host)), Some(version)) = (self.noted(index, at), then) else {
            return (then != now).then(|| Change::content(then.zip(now)));
        };
        let asked = (path.to_owned(), content, version, of_this_host);
        if let Some((compared, change)) = &*self.compared.borrow()
            && *compared == asked
        {
            return change.clone();
        }
        let change = match content.difference(version, of_this_host, Path::new(path)) {
            Ok(None) => None,
            Ok(difference) => Some(Change::Content(difference)),
            Err(error) if error.kind() == ErrorKind::NotFound => Some(Change::Gone),
            Err(error) => Some(Change::Unread(error.to_string())),
        };
        self.compared.replace(Some((asked, change.clone())));
        change
    }

    /// The same of the slice of a file of Parquet, whose checksum is that of its footer alone.
    pub(super) fn change_of_slice(
        &self,
        place: (MiniBatchIndex, usize),
        was: &SliceRef<'_>,
        is: &SliceRef<'_>,
    ) -> Option<Change> {
        if is.store != StoreRef::Local {
            return (was.version != is.version).then_some(Change::Content(None));
        }
        self.change(place, is.origin, (was.version.parse().ok(), is.version.parse().ok()))
    }

    /// Looks at all files of mini-batches with rows whose descriptors are as they were.
    pub(super) fn changes<'a>(&self, bodies: impl IntoIterator<Item = &'a Bytes>) -> Changes {
        let mut changes = Changes::default();
        for body in bodies {
            let Ok(MiniBatch { index, work, .. }) = MiniBatch::decode(body) else { continue };
            match work {
                Work::Files { base, paths, versions, .. } => {
                    for ((at, path), then) in paths.iter().enumerate().zip(unpack(versions)) {
                        let path = named(base, path);
                        if let Some(change) = self.change((index, at), &path, (Some(then), Some(then))) {
                            changes.add(&path, index, change);
                        }
                    }
                }
                work => {
                    for (at, slice) in work.slices().iter().enumerate().filter(|(_, slice)| is_parquet(slice))
                    {
                        if let Some(change) = self.change_of_slice((index, at), slice, slice) {
                            changes.add(slice.origin, index, change);
                        }
                    }
                }
            }
        }
        changes
    }

    /// What was noted of a file, and whether by this host.
    fn noted(&self, index: MiniBatchIndex, at: usize) -> Option<(FileContent, bool)> {
        let mut last = self.last.borrow_mut();
        if last.0 != Some(index) {
            let contents = self.known.contents.get(&index)?;
            *last = (Some(index), contents.host == self.host, contents.iter().collect());
        }
        last.2.get(at).map(|content| (*content, last.1))
    }
}
