//! The next start of a job whose rows are put together in steps (`partition_keys` over columns of the data): settings and code
//! are chosen as for any job, and its steps get them.

use std::path::Path;

use prs_common::job::JobSpec;
use prs_common::job::prepared;
use prs_common::storage::Storage;
use prs_orchestrator::JobRecord;

use crate::failure::Failure;
use crate::submit::code_choice::{Changes, next_start};
use crate::submit::local::Python;

/// Gives the job of `record` what its next start has; nothing of it is written but new code, to `main`, where the code is.
/// `own` are folders of the job itself, and `runs_here` says whether its interpreter is looked for on this machine.
pub(crate) async fn change(
    changes: &Changes<'_>,
    record: &mut JobRecord,
    main: &dyn Storage,
    own: &[&Path],
    runs_here: bool,
) -> Result<(), Failure> {
    let mut given = record.as_given();
    if let Ok(step) = JobRecord::read(main).await {
        // How far the script came.
        given.status = step.status;
    }
    let mut next = next_start(changes, &given, main, own).await?;
    let python = if runs_here { Some(Python::find(&next.spec)?) } else { None };
    next.store(&given, main).await?;
    next.begin(&mut given, python.as_ref().map(|python| &*python.interpreter));
    let Some(plan) = &mut record.pipeline else { return Ok(()) };
    plan.pipeline = prepared::with_settings(&plan.pipeline, given.spec.clone());
    if let Some(main) = &plan.pipeline.main {
        plan.codes.insert(main.clone(), given.code);
    }
    record.spec = JobSpec { node_count: record.spec.node_count, ..prepared::outer(&given.spec) };
    record.recipe = given.recipe;
    Ok(())
}
