//! Places of their own that outputs of steps have: whether there is room, before anything runs; and, on a fleet, those on this
//! machine, which the command that waits fills.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures_util::StreamExt;
use prs_common::job::pipeline::{OutputPlace, Pipeline, StepState, Target, step_id};
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::storage::{Reach, Storage, StorageErrorKind};
use prs_orchestrator::pipeline::{Delivery, deliver, look, open};
use prs_orchestrator::{Fleet, JobRecord};
use prs_worker::opener;

use crate::failure::Failure;
use crate::submit::output_place::{ask, may_write, unseen};

/// Refuses places where there is something: nothing has run yet.
pub(crate) async fn check(
    pipeline: &Pipeline,
    reach: Option<Arc<Reach>>,
    run: Option<&Path>,
) -> Result<(), Failure> {
    for place in &pipeline.places {
        check_one(place, reach.clone(), run).await?;
    }
    Ok(())
}

/// The same of those in buckets alone.
pub(crate) async fn check_buckets(pipeline: &Pipeline, reach: Option<Arc<Reach>>) -> Result<(), Failure> {
    for place in pipeline.places.iter().filter(|place| !place.is_local()) {
        check_one(place, reach.clone(), None).await?;
    }
    Ok(())
}

async fn check_one(
    place: &OutputPlace,
    reach: Option<Arc<Reach>>,
    run: Option<&Path>,
) -> Result<(), Failure> {
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
        Target::Bucket { .. } => is_taken_there(place, reach).await?,
    };
    if taken {
        let there = if place.is_file { "exists already" } else { "is not empty" };
        return Err(Failure::output_exists(format_args!(
            "{} {there}, and nothing there is overwritten: move it away, or give {} another path",
            place.to,
            named(place)
        )));
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

/// The same of a place in a bucket, which has to be one that a step can write to.
async fn is_taken_there(place: &OutputPlace, reach: Option<Arc<Reach>>) -> Result<bool, Failure> {
    let found = async {
        let (store, key) = open(place, &opener(), reach).await.map_err(unseen)?;
        let (below, file) = (format!("{key}/"), format!("{key}/{FAILED_MINI_BATCHES}"));
        let is_taken = async {
            if place.is_file {
                return match store.head(&key).await {
                    Ok(_) => Ok(true),
                    Err(error) if error.kind == StorageErrorKind::NotFound => Ok(false),
                    Err(error) => Err(unseen(error)),
                };
            }
            Ok(store.list(&below, "").next().await.transpose().map_err(unseen)?.is_some())
        };
        let written = may_write(&*store, if place.is_file { &key } else { &file });
        tokio::try_join!(is_taken, written)
    };
    ask((named(place), &place.to), found).await.map(|(is_taken, ())| is_taken)
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
    let delivery =
        Delivery { own: &*own, storage: &storage, open: &open, reach: record.spec.reach(), start: None };
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
