//! Places of outputs: what a step brought is copied there once the step has completed, checked, and over nothing that is there.
//!
//! A note in the storage of the pipeline says what was delivered, so that it is once. A program that dies before the note does
//! it again: what is there and is the same counts as delivered. Where something else is there the step counts as failed in the
//! eyes of the pipeline, and nothing that is done runs again when the pipeline is resumed.

use std::path::Path;
use std::sync::Arc;

use prs_common::end_reason::EndReason;
use prs_common::job::pipeline::{OutputPlace, Pipeline, StepState, Target};
use prs_common::layout;
use prs_common::storage::{LocalStorage, PutMode, Reach, Storage, StorageError, StorageErrorKind};

use super::intact::{Compared, Given, fail};
use super::look::StepView;
use crate::inputs::Opener;
use crate::publish::former::{FormerError, FormerOutput};
use crate::publish::intact::Depth;

/// What is needed to deliver.
pub struct Delivery<'a> {
    /// The storage of the pipeline itself.
    pub own: &'a dyn Storage,
    /// Gives the prefix of a job.
    pub storage: &'a (dyn Fn(&str) -> Arc<dyn Storage> + Sync),
    /// Opens buckets.
    pub open: &'a Opener,
    /// What the pipeline may use of them.
    pub reach: Option<Arc<Reach>>,
    /// The start of the pipeline while it runs. Once it has ended no step runs again.
    pub start: Option<u32>,
}

impl std::fmt::Debug for Delivery<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("own", &self.own).finish_non_exhaustive()
    }
}

/// Delivers what the steps that completed brought for `places`, where that was not done before. A step with an output that
/// finds no room, or was damaged, is made one that failed, in `views` alone; one that is to run again is made one that waits,
/// and what to say of it is returned.
///
/// # Errors
/// A store that may do it later.
pub async fn deliver(
    pipeline: &Pipeline,
    places: impl Iterator<Item = &OutputPlace>,
    views: &mut [StepView],
    delivery: &Delivery<'_>,
) -> Result<Vec<String>, StorageError> {
    let compared = Compared { pipeline, start: delivery.start, storage: delivery.storage };
    let mut told = Vec::new();
    for place in places {
        let Some(at) = views.iter().position(|view| view.name == place.step) else { continue };
        if views[at].state != StepState::Completed {
            continue;
        }
        let path = pipeline.step(&place.step).and_then(|step| step.outputs.get(&place.output));
        let Some(path) = path else { continue };
        let error = match deliver_one(place, path, &views[at], delivery).await {
            Ok(()) => continue,
            Err(FormerError::Storage(error)) if error.is_retryable() => return Err(error),
            Err(error) => error,
        };
        let given = match error {
            FormerError::Gone(_) | FormerError::Changed(_) | FormerError::List(_) => {
                compared.output(&place.step, &place.output, views, Depth::Bytes).await?
            }
            _ => Given::Whole,
        };
        match given {
            Given::Whole => fail(&mut views[at], &not_delivered(place, &error)),
            Given::Changed(reason) => fail(&mut views[at], &reason),
            Given::RunsAgain(at, words) => {
                views[at].state = StepState::Waiting;
                told.push(words);
            }
            Given::Waits => {}
        }
    }
    Ok(told)
}

async fn deliver_one(
    place: &OutputPlace,
    path: &str,
    view: &StepView,
    delivery: &Delivery<'_>,
) -> Result<(), FormerError> {
    let note = layout::delivered(&place.step, &place.output);
    match delivery.own.head(&note).await {
        Ok(_) => return Ok(()),
        Err(error) if error.kind == StorageErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let storage = (delivery.storage)(&view.id);
    let Some(record) = &view.record else { return Ok(()) };
    let files = match FormerOutput::of(record, &*storage).await {
        Ok(files) => files,
        // A step may bring nothing.
        Err(FormerError::Nothing) => return Ok(()),
        Err(error) => return Err(error),
    };
    let (to, key) = open(place, delivery.open, delivery.reach.clone()).await?;
    let from = storage.below(layout::OUTPUT.trim_end_matches('/'));
    let delivered = files.deliver(&*from, path, (&*to, &key)).await;
    if place.is_local() {
        // What a program that was killed left half written.
        let _ = to.sweep().await;
    }
    delivered?;
    let put = delivery.own.put(&note, place.to.clone().into_bytes().into(), PutMode::Overwrite).await;
    Ok(put.map(drop)?)
}

/// The store that a place is in, and the key of the file or of the folder there.
pub async fn open(
    place: &OutputPlace,
    opener: &Opener,
    reach: Option<Arc<Reach>>,
) -> Result<(Arc<dyn Storage>, String), StorageError> {
    match place.target() {
        Target::Bucket { bucket, key } => Ok((opener(bucket, reach).await?, key)),
        Target::Local(path) if place.is_file => {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let folder = path.parent().unwrap_or(Path::new("/"));
            Ok((Arc::new(LocalStorage::new(folder)), name.unwrap_or_default()))
        }
        Target::Local(path) => Ok((Arc::new(LocalStorage::new(path)), String::new())),
    }
}

/// Why a step counts as failed that has an output without room.
fn not_delivered(place: &OutputPlace, error: &FormerError) -> EndReason {
    EndReason::NotDelivered {
        output: place.output.clone(),
        place: place.to.clone(),
        error: error.to_string(),
    }
}
