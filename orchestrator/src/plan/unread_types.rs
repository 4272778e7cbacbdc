//! Types of files that the model of a job cannot be given: the plan fails before its first mini-batch.

use prs_common::job::{Input, JobSpec};

use super::{PlanContext, PlanError, manifest};
use crate::inputs::unread_types::{Look, in_listing};

/// Fails where a model of `MLflow` without a scoring script has files that it cannot read. It looks at all of them.
pub(super) fn refuse(
    spec: &JobSpec,
    context: &PlanContext<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<(), PlanError> {
    if !spec.scores_mlflow() {
        return Ok(());
    }
    spec.inputs.iter().try_for_each(|input| of_input(input, context, stop))
}

fn of_input(input: &Input, context: &PlanContext<'_>, stop: &dyn Fn() -> bool) -> Result<(), PlanError> {
    let name = || input.name.clone();
    let unread = |source| PlanError::UnreadFiles { input: name(), source };
    let Some(mut manifest) = manifest(input, context)? else {
        let looked = in_listing(input, stop);
        return looked.map_err(|source| PlanError::Listing { input: name(), source })?.map_err(unread);
    };
    let failed = |source| PlanError::Manifest { input: name(), source };
    let mut look = Look::default();
    while let Some(files) = manifest.next_block().map_err(failed)? {
        for file in files {
            look.name.of_object(&manifest.sources()[file.source as usize], &file);
            look.look();
        }
        if stop() {
            return Ok(());
        }
    }
    look.end().map_err(unread)
}
