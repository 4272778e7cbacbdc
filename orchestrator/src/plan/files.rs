//! Mini-batches of a file dataset: so many files each, in listing order (spec D1).
//!
//! Each file of a folder stands in its mini-batch with its version, so that a process knows whether it is still the
//! same. The lines of a list are not looked at.

use std::sync::Arc;

use prs_common::dataset::listing::{EntryRef, Listing, ListingOptions};
use prs_common::file_version::{FileVersion, PackedVersions};
use prs_common::job::{Input, InputSource, ONE_ITEM};
use prs_common::mini_batch::Work;

use super::path_columns::{self, PathName};
use super::{PlanError, Sink};

/// Plans one input with `size` files a mini-batch; files of different base folders never share one.
pub(super) fn plan(input: &Input, position: u32, size: u64, sink: &mut Sink<'_>) -> Result<(), PlanError> {
    if input.source == InputSource::OneItem {
        let (base, paths, versions, names) = ("", vec![ONE_ITEM], &[][..], Vec::new());
        // The sink remembers that it was stopped.
        let _ = sink.push(position, Work::Files { base, paths, versions, names });
        return Ok(());
    }
    let failed = |source| PlanError::Listing { input: input.name.clone(), source };
    let versions = matches!(input.source, InputSource::Paths(_));
    let mut listing = Listing::of_input(input, ListingOptions { versions }).map_err(failed)?;
    let mut name = PathName::default();
    let mut group = Group { has_versions: versions, ..Group::default() };
    loop {
        let visited = listing
            .visit(1024, |entry| {
                sink.listed.push_entry(&entry);
                if let Some(format) = &input.partition_format {
                    name.of_local(entry.base, entry.relative);
                    if let Err(mismatch) = name.columns(format) {
                        path_columns::hand_over_bad(&name, &mismatch, position, sink);
                        return;
                    }
                }
                if group.starts_anew(entry.base, size as usize) {
                    group.hand_over(position, sink);
                    group.base = Some(Arc::clone(entry.base));
                }
                group.push(&entry);
            })
            .map_err(failed)?;
        if visited == 0 {
            sink.left_out.extend(&listing.left_out());
            break;
        }
        if sink.is_stopped() {
            return Ok(());
        }
    }
    group.hand_over(position, sink);
    Ok(())
}

/// Paths collected for the next mini-batch, in one buffer that is used again.
#[derive(Default)]
struct Group {
    base: Option<Arc<str>>,
    text: String,
    ends: Vec<usize>,
    has_versions: bool,
    versions: PackedVersions,
}

impl Group {
    fn starts_anew(&self, base: &Arc<str>, size: usize) -> bool {
        self.ends.len() >= size
            || !self.base.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, base) || mine == base)
    }

    fn push(&mut self, entry: &EntryRef<'_>) {
        self.text.push_str(entry.relative);
        self.ends.push(self.text.len());
        if self.has_versions {
            self.versions.push(&entry.version().unwrap_or(FileVersion::UNSEEN));
        }
    }

    fn hand_over(&mut self, position: u32, sink: &mut Sink<'_>) {
        if !self.ends.is_empty() && !sink.stopped {
            let mut start = 0;
            let paths = self.ends.iter().map(|&end| &self.text[std::mem::replace(&mut start, end)..end]);
            let base = self.base.as_deref().unwrap_or_default();
            let (paths, versions) = (paths.collect(), self.versions.as_bytes());
            // The sink remembers that it was stopped.
            let _ = sink.push(position, Work::Files { base, paths, versions, names: Vec::new() });
        }
        self.versions.clear();
        self.text.clear();
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::ControlFlow;
    use std::os::unix::fs::symlink;

    use tokio::runtime::Handle;

    use crate::fixtures::Fixture;
    use crate::plan::{PlanContext, plan};

    #[tokio::test]
    async fn the_first_mini_batches_are_handed_over_before_the_listing_ends() {
        let fixture = Fixture::new(4).await;
        let last = fixture.inputs().join("z");
        fs::create_dir(&last).unwrap();
        // A listing that gets there fails.
        symlink(&last, last.join("loop")).unwrap();
        let (stores, handle) = (&fixture.job.inputs, &Handle::current());
        let context = PlanContext { work: &fixture.job.work, stores, handle, is_shared: false };
        let mut sizes = Vec::new();
        let failed = plan(&fixture.job.spec, &context, &|| false, &mut |batch| {
            sizes.push(batch.bodies.len());
            ControlFlow::Continue(())
        });
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("z/loop is a symbolic link"), "{error}");
        assert_eq!(sizes, [1, 2], "small batches first, so that work begins at once");
    }
}
