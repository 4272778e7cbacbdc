//! Places of their own that outputs of steps have: whether there is room, before anything runs; and, on a fleet, those on this
//! machine, which the command that waits fills.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures_util::StreamExt;
use prs_common::job::pipeline::{OutputPlace, Pipeline, StepState, Target, step_id};
use prs_common::storage::{Reach, Storage, StorageErrorKind};
use prs_orchestrator::pipeline::{Delivery, deliver, look, open};
use prs_orchestrator::{Fleet, JobRecord};
use prs_worker::opener;

use crate::failure::Failure;

/// Refuses places where there is something: nothing has run yet.
pub(crate) async fn check(
    pipeline: &Pipeline,
    reach: Option<Arc<Reach>>,
    run: Option<&Path>,
) -> Result<(), Failure> {
    for place in &pipeline.places {
        let taken = match place.target() {
            Target::Local(path) => {
                if run.is_some_and(|run| std::path::absolute(run).is_ok_and(|run| path.starts_with(run))) {
                    return Err(Failure::wrong(format!(
                        "{} is within the run folder, where the pipeline keeps what it needs itself: give {} another path",
                        place.to,
                        named(place)
                    )));
                }
                is_taken_here(&path, place.is_file).map_err(Failure::usage)?
            }
            Target::Bucket { .. } => is_taken_there(place, reach.clone()).await?,
        };
        if taken {
            let there = if place.is_file { "exists already" } else { "is not empty" };
            return Err(Failure::output_exists(format_args!(
                "{} {there}, and nothing there is overwritten: move it away, or give {} another path",
                place.to,
                named(place)
            )));
        }
    }
    Ok(())
}

/// An output, as people know it.
fn named(place: &OutputPlace) -> String {
    format!("output {} of step {}", place.output, place.step)
}

/// Whether something has the name of a file, also a link to nothing, or is in a folder.
fn is_taken_here(path: &Path, is_file: bool) -> anyhow::Result<bool> {
    let Ok(found) = path.symlink_metadata() else { return Ok(false) };
    if is_file || !(found.is_dir() || path.is_dir()) {
        return Ok(true);
    }
    let mut entries = path.read_dir().with_context(|| format!("cannot read {}", path.display()))?;
    Ok(entries.next().is_some())
}

async fn is_taken_there(place: &OutputPlace, reach: Option<Arc<Reach>>) -> Result<bool, Failure> {
    let found = async {
        let (store, key) = open(place, &opener(), reach).await?;
        if place.is_file {
            return match store.head(&key).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind == StorageErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            };
        }
        let mut listed = store.list(&format!("{key}/"), "");
        Ok(listed.next().await.transpose()?.is_some())
    };
    let failure =
        |error| Failure::server(anyhow::Error::from(error).context(format!("cannot look at {}", place.to)));
    found.await.map_err(failure)
}

/// Brings what completed steps of a pipeline of a fleet brought to the places on this machine.
pub(crate) async fn fill(fleet: &Fleet, record: &JobRecord) -> Result<(), Failure> {
    let Some(plan) =
        record.pipeline.as_ref().filter(|plan| plan.pipeline.places.iter().any(OutputPlace::is_local))
    else {
        return Ok(());
    };
    let storage = |id: &str| -> Arc<dyn Storage> { fleet.job_storage(id) };
    let mut views = look(record, &storage).await.map_err(anyhow::Error::from)?;
    let completed: Vec<bool> = views.iter().map(|view| view.state == StepState::Completed).collect();
    let (own, open) = (fleet.job_storage(&record.job_id), opener());
    let delivery = Delivery { own: &*own, storage: &storage, open: &open, reach: record.spec.reach() };
    let places = plan.pipeline.places.iter().filter(|place| place.is_local());
    deliver(&plan.pipeline, places, &mut views, &delivery)
        .await
        .context("cannot read the output of a step")
        .map_err(Failure::server)?;
    let refused = views.iter().zip(completed).find(|(view, was)| *was && view.state != StepState::Completed);
    let reason = refused.and_then(|(view, _)| view.record.as_ref()?.result.as_ref()?.reason.clone());
    match (refused, reason) {
        (Some((view, _)), Some(reason)) => Err(Failure::wrong(format!("step {}: {reason}", view.name))),
        _ => Ok(()),
    }
}

/// What to say of each place on this machine that this command does not fill.
pub(crate) fn unfilled(record: &JobRecord) -> Vec<String> {
    let places = record.pipeline.iter().flat_map(|plan| &plan.pipeline.places);
    let of_here = places.filter(|place| place.is_local()).map(|place| {
        format!(
            "{} is not filled; once step {} has completed, prs result {} --output-path DIR fetches its output",
            place.to,
            place.step,
            step_id(&record.job_id, &place.step)
        )
    });
    of_here.collect()
}
