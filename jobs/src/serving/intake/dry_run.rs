//! What would run: mini-batches and items of a job that is not stored.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use prs_common::job::{JobSpec, Loaded, prepared};
use prs_common::storage::{LocalStorage, Storage};
use prs_common::tree;
use prs_orchestrator::inputs::{Audience, InputStores, Where, resolve};
use prs_orchestrator::plan::{PlanContext, plan};
use prs_worker::opener;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::submit::check_unrun;
use crate::submit::pipeline::code::pack_code;

/// How long it may take to plan.
const PATIENCE: Duration = Duration::from_secs(10);

/// What would run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DryRun {
    /// The name of the job.
    pub name: String,
    /// Mini-batches; nothing where they are not known.
    pub mini_batches: Option<u64>,
    /// Items; nothing where they are not known.
    pub items: Option<u64>,
    /// Whether it was planned: not where that takes more than 10 s, and not where rows are put together or steps run first.
    pub planned: bool,
    /// What the author of the job should know.
    pub notes: Vec<String>,
    /// Bytes of the packed code.
    pub code_bytes: u64,
}

impl DryRun {
    /// That of a job which was read. `folder` is for what it needs meanwhile.
    pub(super) async fn of(loaded: Loaded, folder: PathBuf) -> Result<Self, Failure> {
        check_unrun(&loaded).await?;
        let (spec, is_planned) = match loaded {
            Loaded::Job(spec) => (*spec, true),
            Loaded::Pipeline(loaded) => {
                (prepared::as_given(&loaded.pipeline).unwrap_or_else(|| loaded.spec.clone()), false)
            }
        };
        let (name, notes) = (spec.name.clone(), spec.notes.clone());
        // A pipeline has no code itself.
        let has_code = !spec.source_directory.as_os_str().is_empty();
        let code_bytes = if has_code { pack_code(&spec)?.body.len() as u64 } else { 0 };
        let counted = if is_planned && !spec.inputs.is_empty() {
            let stop = CancellationToken::new();
            let counting = count(spec, folder, stop.clone());
            let counted = tokio::time::timeout(PATIENCE, counting).await;
            stop.cancel();
            counted.ok().transpose()?
        } else {
            None
        };
        Ok(Self {
            name,
            mini_batches: counted.map(|(mini_batches, _)| mini_batches),
            items: counted.map(|(_, items)| items),
            planned: counted.is_some(),
            notes,
            code_bytes,
        })
    }
}

/// Mini-batches and items of the job.
async fn count(spec: JobSpec, folder: PathBuf, stop: CancellationToken) -> Result<(u64, u64), Failure> {
    let work = folder.join("plan");
    tree::make_folders(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let here: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.join("listings")));
    let stores = InputStores::new(Arc::clone(&here), here, opener()).within(spec.reach());
    let spec = resolve(spec, &stores, Where::Embedded, Audience::NONE).await.map_err(Failure::usage)?;
    let handle = Handle::current();
    let counting = tokio::task::spawn_blocking(move || {
        let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared: false };
        let (mut mini_batches, mut items) = (0, 0);
        let is_late = || stop.is_cancelled();
        let outcome = plan(&spec, &context, &is_late, &mut |batch| {
            mini_batches += batch.bodies.len() as u64;
            items += batch.items;
            if stop.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        outcome.map(|_| (mini_batches, items))
    });
    let outcome = counting.await.context("the plan was not made")?;
    outcome.map_err(Failure::usage)
}
