//! Columns from the paths of an input's files (`partition_format`, spec D3), as the plan needs them.
//!
//! A file whose path is not made as the format says becomes a mini-batch of its own that fails with the reason; the others
//! are not touched by it. Where no path is, the job fails before its first mini-batch.

use prs_common::dataset::partition_format::Mismatch;
use prs_common::job::Input;
use prs_common::mini_batch::Work;

use super::{PlanContext, PlanError, Sink, manifest};
pub(super) use crate::inputs::path_names::PathName;
use crate::inputs::path_names::{Search, search_listing};

/// Plans the mini-batch of a file whose path has no columns.
pub(super) fn hand_over_bad(name: &PathName, mismatch: &Mismatch, position: u32, sink: &mut Sink<'_>) {
    if !sink.stopped {
        let work = Work::Unreadable { origin: &name.text, offset: 0, reason: &reason(mismatch) };
        // The sink remembers that it was stopped.
        let _ = sink.push(position, work);
    }
}

/// What to say of it.
pub(super) fn reason(mismatch: &Mismatch) -> String {
    format!("{mismatch}: rename the file, or leave it out of the input")
}

/// Fails where the input has a format and no path is made as it says. It looks at paths up to the first one that is.
pub(super) fn refuse_if_none_matches(input: &Input, context: &PlanContext<'_>) -> Result<(), PlanError> {
    let Some(format) = &input.partition_format else { return Ok(()) };
    let failed = |source| PlanError::NoneMatches { input: input.name.clone(), source };
    let Some(mut manifest) = manifest(input, context)? else {
        let searched = search_listing(format, input)
            .map_err(|source| PlanError::Listing { input: input.name.clone(), source })?;
        return searched.map_err(failed);
    };
    let mut search = Search::new(format);
    let unread = |source| PlanError::Manifest { input: input.name.clone(), source };
    while let Some(files) = manifest.next_block().map_err(unread)? {
        for file in files {
            search.name.of_object(&manifest.sources()[file.source as usize], &file);
            search.look();
            if search.found {
                return Ok(());
            }
        }
    }
    search.end().map_err(failed)
}
