//! The file `MLTable` in the output of another step, read when the step starts that gets it.
//!
//! What it says is judged by `common/src/job/mltable`. Here it is fetched, from a folder or a bucket alike.

use prs_common::job::{Input, InputSource, JobSpec, StepOutput, read_of_step};
use prs_common::storage::{Storage, StorageError, StorageErrorKind, StorageExt};

/// Bytes that such a file may have.
const LARGEST: u64 = 4 << 20;

/// The inputs of `spec` whose tables are not read yet, by their positions, and the outputs that have these.
pub(super) fn unread(spec: &JobSpec) -> Vec<(usize, StepOutput)> {
    let unread = spec.inputs.iter().enumerate().filter_map(|(at, input)| match &input.source {
        InputSource::Output(output) if input.mltable.as_ref()?.is_unread => Some((at, output.clone())),
        _ => None,
    });
    unread.collect()
}

/// Gives `input` what the table says that is below `key` of `storage`; or tells what is wrong with it.
pub(super) async fn read(
    input: &mut Input,
    storage: &dyn Storage,
    key: &str,
) -> Result<Result<(), String>, StorageError> {
    let (folder, file) = (storage.uri(key), format!("{key}/MLTable"));
    let size = match storage.head(&file).await {
        Ok(found) => found.size,
        Err(error) if error.kind == StorageErrorKind::NotFound => {
            return Ok(Err(format!(
                "there is no file MLTable in {folder}: have the step write one there, or bind the output with type: uri_folder"
            )));
        }
        Err(error) => return Err(error),
    };
    if size > LARGEST {
        return Ok(Err(format!(
            "{folder}/MLTable has {size} bytes, more than {LARGEST}: have the step write a table"
        )));
    }
    let text = String::from_utf8(storage.get(&file).await?.to_vec());
    let Ok(text) = text else {
        return Ok(Err(format!("{folder}/MLTable is not UTF-8 text: have the step write it in UTF-8")));
    };
    let mut read = input.clone();
    // What it names on a disk is looked up there.
    let judged = tokio::task::spawn_blocking(move || read_of_step(&mut read, &folder, text).map(|()| read));
    let judged = judged.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    Ok(judged.map(|read| *input = read))
}
