//! The folder in a bucket that a job has its output delivered to: whether there is room, before anything runs; and what a job gets
//! there that is given the output of a former one.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use prs_common::job::{JobSpec, Loaded};
use prs_common::layout;
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind};
use prs_orchestrator::publish::former::{FormerError, FormerOutput};
use prs_orchestrator::publish::{Notes, checksum_of, open_folder};
use prs_orchestrator::{JobRecord, JobResult};
use prs_worker::opener;

use super::output_folder::own_files;
use super::pipeline::places;
use super::reuse::result_name;
use super::run::new_id;
use crate::failure::Failure;

/// How long a bucket may take to say whether a job can deliver there.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was asked of a place, and how that failed.
type Refused = (&'static str, StorageError);

/// Says that a place cannot be looked at.
pub(crate) fn unseen(error: StorageError) -> Refused {
    ("look at", error)
}

/// Fails where a job could not write the object `key`.
pub(crate) async fn may_write(there: &dyn Storage, key: &str) -> Result<(), Refused> {
    there.may_write(key).await.map_err(|error| ("write to", error))
}

/// What `answer` tells of `place`, which is to get `output`, within [`PATIENCE`].
pub(crate) async fn ask<T>(
    (output, place): (impl Display, &str),
    answer: impl Future<Output = Result<T, Refused>>,
) -> Result<T, Failure> {
    let later = "submit again once it does, or give another output";
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err((verb, error))) if error.is_retryable() => Err(Failure::output_away(format_args!(
            "{output}: cannot {verb} {place}, for the store does not answer as it should: {error}; {later}"
        ))),
        Ok(Err((verb, error))) => Err(Failure::usage(anyhow::Error::from(error).context(format!(
            "{output}: cannot {verb} {place}, where the result is to go; give another output, or leave it out"
        )))),
        Err(_) => Err(Failure::output_away(format_args!(
            "{output}: {place}, where the result is to go, does not answer within {} s; {later}",
            PATIENCE.as_secs()
        ))),
    }
}

/// The place of a job, which could be written, and what of the job's own names is there.
async fn look(spec: &JobSpec) -> Result<Option<(Arc<dyn Storage>, Vec<&str>)>, Failure> {
    let Some(place) = &spec.deliver_to else { return Ok(None) };
    let looked = async {
        let there = open_folder(place, &opener(), spec.reach()).await.map_err(unseen)?;
        // A bucket that is not there has no files either.
        let listed = async { there.list("", "").next().await.transpose().map_err(unseen) };
        let names = own_files(spec);
        let written = may_write(&*there, names.clone().next().unwrap_or_default());
        let found = async {
            let mut found = Vec::new();
            for name in names {
                match there.head(name).await {
                    Err(error) if error.kind == StorageErrorKind::NotFound => {}
                    is_there => is_there.map(|_| found.push(name)).map_err(unseen)?,
                }
            }
            Ok(found)
        };
        let (_, found, ()) = tokio::try_join!(listed, found, written)?;
        Ok((there, found))
    };
    ask(("output", place), looked).await.map(Some)
}

fn exists(uri: &str) -> Failure {
    Failure::output_exists(format_args!(
        "output: the path already exists: {uri}, and it is not overwritten; move it away, or give another output"
    ))
}

/// Refuses a place that cannot be looked at or written, and one with what the job would write and did not bring itself: by the notes in
/// `own`, its storage.
pub(crate) async fn check(spec: &JobSpec, own: &dyn Storage) -> Result<(), Failure> {
    let Some((there, found)) = look(spec).await?.filter(|(_, found)| !found.is_empty()) else {
        return Ok(());
    };
    let notes = Notes::read(own).await.map_err(Failure::server)?;
    for name in found {
        // As long as it takes: it is read whole.
        let sha256 =
            if notes.has(name) { checksum_of(&*there, name).await.map_err(Failure::server)? } else { None };
        if sha256.is_none_or(|sha256| notes.brought(name, &sha256).is_none()) {
            return Err(exists(&there.uri(name)));
        }
    }
    Ok(())
}

/// Refuses places in buckets of a job that was only read, as its submission would, and of steps of it.
///
/// # Errors
/// It could not deliver there, or a bucket does not answer.
pub async fn check_unrun(loaded: &Loaded) -> Result<(), Failure> {
    let (mut spec, mut steps) = match loaded {
        Loaded::Job(spec) => (spec.clone(), None),
        Loaded::Pipeline(loaded) => (Box::new(loaded.spec.clone()), Some(loaded.clone())),
    };
    let id = new_id(&spec.name);
    spec.put_job_id(&id);
    if let Some((there, found)) = look(&spec).await?
        && let Some(name) = found.first()
    {
        return Err(exists(&there.uri(name)));
    }
    if let Some(loaded) = &mut steps {
        loaded.put_job_ids(&id);
        places::check_buckets(&loaded.pipeline, loaded.spec.reach()).await?;
    }
    Ok(())
}

/// Delivers what the job of `record` is about to be given of `former`'s output, before it has it itself; says where the result is then,
/// where the job names a place. `own` is its storage.
pub(crate) async fn deliver_given(
    record: &JobRecord,
    own: &dyn Storage,
    (files, output): (&FormerOutput, &dyn Storage),
    result: Option<&JobResult>,
) -> Result<Option<String>, FormerError> {
    let Some(place) = &record.spec.deliver_to else { return Ok(None) };
    let name = result_name(&record.spec);
    if let Some(sha256) = result.and_then(|result| result.output.sha256.as_ref()) {
        // What is found there after an interruption is this job's own.
        let note = layout::published(record.incarnation, sha256, name);
        own.put(&note, "".into(), PutMode::Overwrite).await?;
    }
    let there = open_folder(place, &opener(), record.spec.reach()).await?;
    files.deliver(output, "", (&*there, "")).await?;
    Ok(Some(there.uri(name)))
}

/// Has a job that nobody waits for say that nobody fills the folder of this machine which it names.
pub(crate) fn note_unfilled(spec: &mut JobSpec, id: &str) {
    if spec.output.is_some() {
        spec.notes.push(format!(
            "output: no folder of a machine is filled by a job that a fleet runs and nobody waits for; once it has completed, prs \
             result {id} --output-path DIR fetches the result; an output in a bucket (s3://) is filled"
        ));
    }
}
