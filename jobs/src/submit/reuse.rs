//! `allow_reuse` (spec P3): a submission that has the code, settings and inputs of a job that completed is given the output
//! of that job, and nothing runs.
//!
//! This file says so to people, and does it on this machine; `fleet/reuse.rs` does it on a fleet. What goes wrong is told,
//! and the job runs.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use prs_common::failpoint;
use prs_common::job::{JobSpec, OutputAction};
use prs_common::layout;
use prs_common::private_folder::PrivateFolder;
use prs_common::storage::{LocalStorage, PutMode, Storage, StorageError, StorageExt};
use prs_common::tree;
use prs_orchestrator::inputs::listed::{self, Listed};
use prs_orchestrator::job::reuse;
use prs_orchestrator::publish::former::{FormerError, FormerOutput};
use prs_orchestrator::report::error_list::ErrorList;
use prs_orchestrator::report::page::{self, PageLocation};
use prs_orchestrator::report::{job_result, journal};
use prs_orchestrator::{JobRecord, JobResult};
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes;
use crate::homes::run_folder;
use crate::paths::shown;
use crate::submit::output_place::deliver_given;

/// Says which job gives its output.
pub(crate) fn note_given(result: &JobResult, caller: &dyn Caller) {
    if let Some(former) = &result.reused {
        caller.note(&format_args!(
            "note: job {former} had the same code, settings and inputs: its output is given (allow_reuse); \
             --set allow_reuse=false runs it anew"
        ));
    }
}

/// Says why a job that has the same recipe and listing does not give its output.
pub(crate) fn note_refused(former: &JobRecord, error: &FormerError, caller: &dyn Caller) {
    match error {
        // Such a job never gives anything; nobody needs to hear of it each time.
        FormerError::Nothing => {}
        error => caller.note(&format_args!(
            "note: job {} had the same code, settings and inputs, but its output cannot be given: {error}; the job runs",
            former.job_id
        )),
    }
}

/// Takes those of the `formers` of a job away that had other local files than it has; returns what was listed of these.
pub(crate) async fn keep_those_with_files_of<T>(
    spec: &JobSpec,
    formers: &mut Vec<T>,
    record: impl Fn(&T) -> &JobRecord,
) -> Option<Listed> {
    if !reuse::has_local_files(spec) || formers.is_empty() {
        return None;
    }
    // The run says better what is wrong with its inputs.
    let now = aside(spec, |spec, stop| listed::list(spec, stop)).await.and_then(Result::ok).flatten();
    let Some(now) = now else {
        formers.clear();
        return None;
    };
    let listed = |former: &T| record(former).listed.clone();
    let is_same = |former: &T| listed(former).is_some_and(|listed| listed.is_same(&now));
    if formers.iter().any(is_same) {
        formers.retain(is_same);
        return Some(now);
    }
    formers.retain(|former| listed(former).is_some_and(|listed| listed.asks_for_contents(&now)));
    if !formers.is_empty() {
        let read = aside(spec, |spec, stop| listed::contents(spec, stop)).await;
        let contents = read.and_then(Result::ok).flatten();
        formers.retain(|former| listed(former).is_some_and(|listed| Some(listed.contents) == contents));
    }
    Some(now)
}

/// Does `work` on a thread that may wait for long, until nobody asks any more.
async fn aside<T: Send + 'static>(
    spec: &JobSpec,
    work: impl FnOnce(&JobSpec, &dyn Fn() -> bool) -> T + Send + 'static,
) -> Option<T> {
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let spec = spec.clone();
    tokio::task::spawn_blocking(move || work(&spec, &|| stop.is_cancelled())).await.ok()
}

/// The name of the result in the output; nothing for a job that appends no rows.
pub(crate) fn result_name(spec: &JobSpec) -> &str {
    match spec.output_action {
        OutputAction::AppendRow => &spec.append_row_file_name,
        OutputAction::SummaryOnly => "",
    }
}

/// Writes the logs that a job has which never ran.
pub(crate) async fn write_logs(
    storage: &dyn Storage,
    result: &JobResult,
    spec: &JobSpec,
    place: &str,
) -> Result<(), StorageError> {
    let report = job_result::text(result, spec, place);
    let fresh = JobRecord::new(result.job_id.clone(), String::new(), spec.clone());
    let record = JobRecord { submitted_us: result.submitted_us, ..fresh };
    let at = PageLocation { called: place, is_among_logs: true, steps: None };
    let html = page::html(&record, result, &ErrorList::default(), page::published(|_| None::<Bytes>), at);
    let readme = journal::README.to_owned();
    for (name, text) in [("readme.txt", readme), ("job_result.txt", report), (page::NAME, html)] {
        storage.put(&format!("{}{name}", layout::LOGS), text.into(), PutMode::Overwrite).await?;
    }
    Ok(())
}

/// Gives the job of `record`, which is stored in `folder` and has not begun, the output of a job in the folder `runs`;
/// nothing where none has what it needs.
pub(crate) async fn from_folder(
    record: &mut JobRecord,
    folder: &Path,
    runs: &Path,
    caller: &dyn Caller,
) -> Result<Option<JobResult>, Failure> {
    let Some(recipe) = record.recipe.clone() else { return Ok(None) };
    let mut formers = with_recipe(folder, runs, &recipe).await;
    formers.retain(|former| reuse::fits(&former.record, &recipe));
    formers.sort_by_key(|former| reuse::rank(&former.record));
    let listed = keep_those_with_files_of(&record.spec, &mut formers, |former| &former.record).await;
    let (storage, target) = (LocalStorage::new(folder), run_folder::output(folder, record));
    let target = LocalStorage::new(&target);
    for FormerJob { folder: former_folder, record: former } in &formers {
        let former_output = LocalStorage::new(run_folder::output(former_folder, former));
        let copied = async {
            let main = former.main_step().map(|main| former_folder.join(run_folder::STEPS).join(main));
            let storage_of_former = LocalStorage::new(main.as_deref().unwrap_or(former_folder));
            let files = FormerOutput::of(former, &storage_of_former).await?;
            if let Some(sha256) = former.result.as_ref().and_then(|result| result.output.sha256.as_ref()) {
                // What is found there after an interruption is this job's own.
                let note = layout::published(record.incarnation, sha256, result_name(&record.spec));
                storage.put(&note, "".into(), PutMode::Overwrite).await?;
            }
            let delivered =
                deliver_given(record, &storage, (&files, &former_output), former.result.as_ref()).await?;
            files.copy(&former_output, &target).await?;
            let brought = files.note(&storage, record.incarnation).await?;
            Ok::<_, FormerError>((delivered, brought))
        };
        let (delivered, brought) = match copied.await {
            Ok(copied) => copied,
            Err(error) => {
                note_refused(former, &error, caller);
                continue;
            }
        };
        failpoint::pass("output_given");
        let uri = delivered.unwrap_or_else(|| target.uri(result_name(&record.spec)));
        let logs = folder.join("logs").display().to_string();
        let Some(result) = reuse::end_with(record, former, listed.as_ref(), uri, logs) else { continue };
        record.brought = brought;
        let written = async {
            write_logs(&storage, &result, &record.spec, &shown(folder)).await?;
            record.write(&storage).await?;
            storage.delete_below(layout::NOTES, None).await?;
            for store in [&storage, &target] {
                store.sweep().await?;
            }
            Ok::<_, StorageError>(())
        };
        written.await.context("cannot store the job")?;
        return Ok(Some(result));
    }
    Ok(None)
}

/// Former jobs of this machine that are looked at for an output.
const LOOKED_AT: usize = 1_000;

/// A former job of this machine.
struct FormerJob {
    folder: PathBuf,
    record: JobRecord,
}

/// The jobs in the folder `runs` that have this recipe, but for the one in `own`: of the [`LOOKED_AT`] whose records were
/// written last. So many are read at each submission, whatever number there is.
async fn with_recipe(own: &Path, runs: &Path, recipe: &str) -> Vec<FormerJob> {
    let mut formers = Vec::new();
    let own = own.canonicalize().ok();
    for folder in newest(homes::folders_of_jobs(runs).unwrap_or_default(), LOOKED_AT) {
        let (Ok(folder), Ok(text)) = (folder.canonicalize(), tree::read(folder.join(layout::JOB))) else {
            continue;
        };
        // Reading a record whole costs more than that.
        if own.as_ref() == Some(&folder) || !contains(&text, recipe.as_bytes()) {
            continue;
        }
        // What others can change would give this user whatever they like.
        if PrivateFolder::open(&folder).is_err() {
            continue;
        }
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&folder));
        if let Ok(record) = JobRecord::read(&*storage).await
            && record.is_done_with()
            && record.recipe.as_deref() == Some(recipe)
        {
            formers.push(FormerJob { folder, record });
        }
    }
    formers
}

/// Those `most` of the folders whose records were written last; a job writes its record when it ends.
fn newest(folders: Vec<PathBuf>, most: usize) -> Vec<PathBuf> {
    if folders.len() <= most {
        return folders;
    }
    let written =
        |folder: &Path| std::fs::metadata(folder.join(layout::JOB)).and_then(|meta| meta.modified()).ok();
    let mut dated: Vec<_> = folders.into_iter().map(|folder| (Reverse(written(&folder)), folder)).collect();
    dated.select_nth_unstable(most);
    dated.truncate(most);
    dated.into_iter().map(|(_, folder)| folder).collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_jobs_that_ended_last_are_looked_at() {
        let runs = tempfile::tempdir().unwrap();
        // In no order of their names.
        let folder = |number: u64| runs.path().join(format!("{}", number * 7 % 10));
        for number in 0..10 {
            std::fs::create_dir(folder(number)).unwrap();
            let record = std::fs::File::create(folder(number).join(layout::JOB)).unwrap();
            record.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + number)).unwrap();
        }
        let all: Vec<PathBuf> = (0..10).map(folder).collect();
        for most in [1, 3, 9, 10, 11] {
            let mut found = newest(all.clone(), most);
            found.sort();
            let mut expected = all[10_usize.saturating_sub(most)..].to_vec();
            expected.sort();
            assert_eq!(found, expected, "{most}");
        }
    }
}
