//! A new job whose rows are put together in steps (`partition_keys` over columns of the data), before it runs in this process:
//! its inputs are looked at, and a former job with the same code, settings and inputs gives its output (`allow_reuse`).

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use prs_common::job::pipeline::step_id;
use prs_common::job::prepared;
use prs_common::layout;
use prs_common::storage::{LocalStorage, PutMode, Storage, StorageExt};
use prs_common::tree::remove_tree;
use prs_orchestrator::inputs::{Audience, InputStores, Where, resolve};
use prs_orchestrator::job::reuse::recipe;
use prs_orchestrator::{JobRecord, JobResult};
use prs_worker::opener;

use super::code::StepCodes;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::run_folder::{self, STEPS};
use crate::submit::fleet::copy_listings;
use crate::submit::local::Python;
use crate::submit::output_folder::claim_for_new;
use crate::submit::reuse;

/// Puts what is known of the inputs of the job of `record`, which is to run in `folder`, into its steps. Where a former job in
/// `runs` gives its output, the job has ended with it, and has no steps. `listings` are where those of the inputs lie already.
pub(crate) async fn begin(
    record: &mut JobRecord,
    (codes, listings): (&StepCodes, &[Arc<dyn Storage>]),
    folder: &Path,
    runs: &Path,
    caller: &dyn Caller,
) -> Result<Option<JobResult>, Failure> {
    let mut given = record.as_given();
    let python = Python::find(&given.spec)?;
    let Some(plan) = record.pipeline.as_deref_mut() else { return Ok(None) };
    let mut steps: Vec<Arc<dyn Storage>> = Vec::new();
    for step in &plan.pipeline.steps {
        let folder = run_folder::make(&folder.join(STEPS).join(step_id(&record.job_id, &step.name)))?;
        steps.push(Arc::new(LocalStorage::new(folder)));
    }
    let first = steps.first().context("the job has no steps")?;
    copy_listings(&given.spec, listings, &**first).await?;
    let stores = InputStores::new(Arc::clone(first), Arc::clone(first), opener());
    let stores = stores.within(given.spec.reach());
    let resolved = resolve(given.spec, &stores, Where::Embedded, Audience::NONE).await;
    given.spec = resolved.map_err(Failure::usage)?;
    plan.pipeline = prepared::with_settings(&plan.pipeline, given.spec.clone());
    for (step, storage) in plan.pipeline.steps.iter().zip(&steps).skip(1) {
        copy_listings(&step.spec, std::slice::from_ref(first), &**storage).await?;
    }
    given.recipe = recipe(&given.spec, &given.code, Some(&python.interpreter));
    record.recipe.clone_from(&given.recipe);
    if !given.spec.allow_reuse || !listings.is_empty() {
        return Ok(None);
    }
    let main = plan.pipeline.main.as_deref().unwrap_or_default();
    let Some((key, archive)) = codes.of(main) else { return Ok(None) };
    let _claim = claim_for_new(&run_folder::output(folder, &given), &given.spec, &given.job_id)?;
    let storage = LocalStorage::new(folder);
    storage.put(key, archive.clone().into(), PutMode::Overwrite).await.context("cannot store the code")?;
    copy_listings(&given.spec, std::slice::from_ref(first), &storage).await?;
    let result = reuse::from_folder(&mut given, folder, runs, caller).await?;
    let left = match &result {
        // It has no steps.
        Some(_) => remove_tree(folder.join(STEPS)).context("cannot remove the steps"),
        None => async {
            storage.delete(key).await?;
            storage.delete_below(layout::INPUTS, None).await?;
            anyhow::Ok(())
        }
        .await
        .context("cannot tidy the run folder"),
    };
    left?;
    Ok(result)
}
