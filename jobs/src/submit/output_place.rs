//! The folder in a bucket that a job has its output delivered to: whether there is room, before anything runs; and what a job gets
//! there that is given the output of a former one.

use futures_util::StreamExt;
use prs_common::job::JobSpec;
use prs_common::layout;
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind};
use prs_orchestrator::publish::former::{FormerError, FormerOutput};
use prs_orchestrator::publish::{Notes, checksum_of, open_folder};
use prs_orchestrator::{JobRecord, JobResult};
use prs_worker::opener;

use super::output_folder::own_files;
use super::reuse::result_name;
use crate::failure::Failure;

/// Refuses a place that cannot be looked at, and one with what the job would write and did not bring itself: by the notes in `own`,
/// its storage.
pub(crate) async fn check(spec: &JobSpec, own: &dyn Storage) -> Result<(), Failure> {
    let Some(place) = &spec.deliver_to else { return Ok(()) };
    let looked = async {
        let there = open_folder(place, &opener(), spec.reach()).await?;
        // A bucket that is not there has no files either.
        there.list("", "").next().await.transpose()?;
        let notes = Notes::read(own).await?;
        for name in own_files(spec) {
            match there.head(name).await {
                Err(error) if error.kind == StorageErrorKind::NotFound => continue,
                found => found?,
            };
            let found = if notes.has(name) { checksum_of(&*there, name).await? } else { None };
            if found.is_none_or(|sha256| notes.brought(name, &sha256).is_none()) {
                return Ok(Some(there.uri(name)));
            }
        }
        Ok(None)
    };
    let found = looked.await.map_err(|error: StorageError| {
        let is_away = error.is_retryable();
        let error = anyhow::Error::from(error).context(format!(
            "output: cannot look at {place}, where the result is to go; give another output, or leave it out"
        ));
        if is_away { Failure::server(error) } else { Failure::usage(error) }
    })?;
    match found {
        Some(uri) => Err(Failure::output_exists(format_args!(
            "output: the path already exists: {uri}, and it is not overwritten; move it away, or give another output"
        ))),
        None => Ok(()),
    }
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
