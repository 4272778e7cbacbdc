//! How a pipeline ends: its outputs are put together, its report is written, and its record says it.
//!
//! All of it may be done twice: the outputs are those of steps that have ended, and the record takes one result.

use std::collections::HashSet;
use std::sync::Arc;

use prs_common::end_reason::EndReason;
use prs_common::failpoint;
use prs_common::job::JobSpec;
use prs_common::job::counting::Counting;
use prs_common::job::pipeline::{End, Pipeline, StepState, step_id};
use prs_common::job::shuffle::ShuffleStage;
use prs_common::layout;
use prs_common::ledger::{JobProgress, JobState};
use prs_common::storage::{IfExists, PutMode, Storage, StorageError, StorageErrorKind, StorageExt};
use prs_common::timestamp::now_us;
use prs_portal::view::Published;

use super::look::StepView;
use super::report;
use crate::job::findings::Findings;
use crate::job::record::{
    ItemCounts, JobRecord, JobRecordError, JobResult, MiniBatchCounts, Output, StepResult,
};
use crate::report::error_list::ErrorList;
use crate::report::page::{self, PageLocation};

/// How a pipeline ended, and where it is.
#[derive(Debug)]
pub struct Ended<'a> {
    /// How its steps stand.
    pub views: &'a [StepView],
    /// How it ends.
    pub end: End,
    /// Why it was canceled, where it was.
    pub canceled: Option<String>,
    /// Its own prefix.
    pub storage: &'a Arc<dyn Storage>,
    /// Where the prefixes of its steps are, in a store that has them and its own: that of `steps`, and its own.
    pub around: (&'a Arc<dyn Storage>, String),
    /// What the keys of a step begin with there, behind which its id stands.
    pub steps: String,
    /// What commands call it.
    pub place: &'a str,
}

/// Ends the pipeline of `record`, which gives the result; one that stands already is given back.
pub async fn conclude(record: &mut JobRecord, ended: Ended<'_>) -> Result<JobResult, JobRecordError> {
    let Some(plan) = record.pipeline.clone() else {
        unreachable!("only the record of a pipeline is concluded as one")
    };
    // Who slept since it looked changes nothing of what stands now.
    if let Some(standing) = record.standing(&**ended.storage).await? {
        return Ok(standing.result.unwrap_or_else(|| result(record, &ended)));
    }
    // What a former start completed stands where this one has nothing.
    if record.former_end.is_none() || result(record, &ended).has_result() {
        if record.former_end.take().is_some()
            && let Some(standing) = record.write_unless_ended(&**ended.storage).await?
        {
            return Ok(standing.result.unwrap_or_else(|| result(record, &ended)));
        }
        failpoint::pass("pipeline_publishes");
        publish(&record.job_id, &plan.pipeline, &ended).await.map_err(JobRecordError::Storage)?;
    }
    copy_logs(&ended).await.map_err(JobRecordError::Storage)?;
    if ended.end == End::Completed {
        remove_parts(&ended).await.map_err(JobRecordError::Storage)?;
    }
    let result = result(record, &ended);
    record.end_with(result.clone());
    let result = record.result.clone().unwrap_or(result);
    let preparation = plan.pipeline.preparation();
    write_report(record, &result, &ended, preparation).await?;
    // What was listed of local files decides whether a later job may have the output.
    let steps = ended.views.iter().filter_map(|view| view.record.as_ref());
    let lists_all = |spec: &JobSpec| {
        spec.shuffle == Some(ShuffleStage::Split) || matches!(spec.counting, Some(Counting::Run(_)))
    };
    let lister = steps.filter(|_| preparation.is_some()).find(|step| lists_all(&step.spec));
    record.listed = lister.and_then(|step| step.listed.clone());
    match record.write_unless_ended(&**ended.storage).await? {
        Some(JobRecord { result: Some(standing), .. }) => {
            // The report is that of the result, no matter which driver wrote it last.
            write_report(record, &standing, &ended, preparation).await?;
            Ok(standing)
        }
        _ => Ok(result),
    }
}

async fn write_report(
    record: &JobRecord,
    result: &JobResult,
    ended: &Ended<'_>,
    preparation: Option<&str>,
) -> Result<(), JobRecordError> {
    let (around, own) = (&ended.steps, &ended.around.1);
    let steps = way(&format!("{own}{}", layout::LOGS), around);
    let behind = format!("/{}{}", layout::LOGS, page::NAME);
    let place = PageLocation { called: ended.place, is_among_logs: true, steps: Some((&steps, &behind)) };
    let html = page::html(record, result, &ErrorList::default(), Published::default(), place);
    let text = report::text(result, ended.place, preparation);
    put_logs(&**ended.storage, [("job_result.txt", text), (page::NAME, html)]).await
}

/// Puts files among the logs of the job in `storage`.
async fn put_logs<const N: usize>(
    storage: &dyn Storage,
    files: [(&str, String); N],
) -> Result<(), JobRecordError> {
    for (name, text) in files {
        let put = storage.put(&format!("{}{name}", layout::LOGS), text.into(), PutMode::Overwrite).await;
        put.map_err(JobRecordError::Storage)?;
    }
    Ok(())
}

/// The way from one folder to another of the same store, as a link has it. Both end in `/`, or are the root.
fn way(from: &str, to: &str) -> String {
    let folders = |path: &str| -> Vec<String> { path.split_terminator('/').map(str::to_owned).collect() };
    let (from, to) = (folders(from), folders(to));
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = "../".repeat(from.len() - common);
    to[common..].iter().fold(up, |way, folder| way + folder + "/")
}

/// Copies what steps brought to the outputs of the pipeline that they are bound to.
async fn publish(job_id: &str, pipeline: &Pipeline, ended: &Ended<'_>) -> Result<(), StorageError> {
    let (around, own) = &ended.around;
    for output in &pipeline.outputs {
        let completed =
            ended.views.iter().any(|view| view.name == output.step && view.state == StepState::Completed);
        let path = pipeline.step(&output.step).and_then(|step| step.outputs.get(&output.output));
        let Some(path) = path.filter(|_| completed) else { continue };
        let from = format!("{}{}/{}{path}", ended.steps, step_id(job_id, &output.step), layout::OUTPUT);
        let to = format!("{own}{}{}", layout::OUTPUT, output.name);
        copy(&***around, from.trim_end_matches('/'), &to).await?;
    }
    Ok(())
}

/// Copies the logs of steps that ask for it below those of the pipeline.
async fn copy_logs(ended: &Ended<'_>) -> Result<(), StorageError> {
    let (around, own) = &ended.around;
    let asks = |view: &&StepView| view.record.as_ref().is_some_and(|record| record.spec.copy_logs_to_parent);
    for view in ended.views.iter().filter(asks) {
        let from = format!("{}{}/{}", ended.steps, view.id, layout::LOGS);
        let to = format!("{own}{}{}", layout::LOGS, view.name);
        copy(&***around, from.trim_end_matches('/'), &to).await?;
    }
    Ok(())
}

/// Removes the rows that a shuffle split and has put together since. The groups stay: with them a mini-batch can be tried.
async fn remove_parts(ended: &Ended<'_>) -> Result<(), StorageError> {
    let splits = |view: &&StepView| {
        view.record.as_ref().is_some_and(|record| record.spec.shuffle == Some(ShuffleStage::Split))
    };
    for view in ended.views.iter().filter(splits) {
        let parts = format!("{}{}/{}", ended.steps, view.id, layout::OUTPUT);
        let keys = ended.around.0.list_all(&parts).await?.into_iter().map(|object| object.key);
        ended.around.0.delete_all(&keys.collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Copies the object, or all objects in the folder, `from`.
async fn copy(storage: &dyn Storage, from: &str, to: &str) -> Result<(), StorageError> {
    match storage.copy(from, to, IfExists::Overwrite).await {
        Err(error) if error.kind == StorageErrorKind::NotFound => {}
        copied => return copied,
    }
    let folder = format!("{from}/");
    for object in storage.list_all(&folder).await? {
        let below = object.key.strip_prefix(&folder).unwrap_or_default();
        storage.copy(&object.key, &format!("{to}/{below}"), IfExists::Overwrite).await?;
    }
    Ok(())
}

fn result(record: &JobRecord, ended: &Ended<'_>) -> JobResult {
    let steps: Vec<StepResult> = ended
        .views
        .iter()
        .map(|view| StepResult {
            name: view.name.clone(),
            job_id: view.id.clone(),
            result: view
                .record
                .as_ref()
                .filter(|_| view.state != StepState::Waiting)
                .and_then(|record| record.result.clone())
                .map(Box::new),
        })
        .collect();
    let (mut mini_batches, mut items) = (MiniBatchCounts::default(), ItemCounts::default());
    let mut findings =
        Findings { complete: ended.end == End::Completed, failures_allowed: true, ..Findings::default() };
    for view in ended.views {
        let Some(record) = view.record.as_ref().filter(|_| view.state != StepState::Waiting) else {
            continue;
        };
        let Some(result) = record.result.as_ref().filter(|_| !record.spec.is_built_in()) else { continue };
        mini_batches.scheduled += result.mini_batches.scheduled;
        mini_batches.succeeded += result.mini_batches.succeeded;
        mini_batches.failed += result.mini_batches.failed;
        items.total += result.items.total;
        items.succeeded += result.items.succeeded;
        items.failed += result.items.failed;
        findings.complete &= result.findings.complete;
        // Where every step that lacks something was allowed to.
        findings.failures_allowed &= !result.findings.lacks_unexpectedly();
    }
    let (state, reason) = match ended.end {
        End::Completed => (JobState::Completed, None),
        End::Canceled => {
            (JobState::Canceled, Some(ended.canceled.clone().unwrap_or_else(|| "canceled".to_owned())))
        }
        End::Failed => (JobState::Failed, Some(why(ended.views))),
    };
    // A job to the user, whose rows are put together in steps.
    let is_one_job = record.main_step().is_some();
    let reason =
        reason.map(|reason| if is_one_job { reason.replacen(" of the pipeline", "", 1) } else { reason });
    let ended_us = now_us();
    let waited_seconds = waited(record, ended.views);
    let seconds = ended_us.saturating_sub(record.started_us) as f64 / 1e6 - waited_seconds;
    let seconds = (seconds.max(0.0) * 1e3).round() / 1e3;
    if let Some(main) = main_result(record, ended) {
        // What is in front of the main step only put its data together.
        return JobResult {
            job_id: record.job_id.clone(),
            submitted_us: record.submitted_us,
            ended_us: Some(ended_us),
            state,
            reason: main.last_end().1.map(str::to_owned).or(reason),
            seconds,
            waited_seconds,
            steps,
            findings: Findings { last_start: None, ..main.findings },
            ..main
        };
    }
    let keep_us = record.spec.keep.map(|seconds| seconds.saturating_mul(1_000_000));
    JobResult {
        job_id: record.job_id.clone(),
        name: record.spec.name.clone(),
        submitted_us: record.submitted_us,
        ended_us: Some(ended_us),
        kept_until_us: keep_us.map(|keep| ended_us.saturating_add(keep)),
        state,
        reason,
        reused: None,
        output: output(record, ended),
        logs: ended.storage.uri(layout::LOGS),
        mini_batches,
        items,
        seconds,
        waited_seconds,
        starts: Vec::new(),
        findings,
        steps,
    }
}

/// How long this start of a pipeline waited for a worker: as long as the step did that began first.
fn waited(record: &JobRecord, views: &[StepView]) -> f64 {
    let of_start = views.iter().filter_map(|view| view.record.as_ref());
    let first =
        of_start.filter(|step| step.started_us >= record.started_us).min_by_key(|step| step.started_us);
    first.and_then(|step| step.result.as_ref()).map_or(0.0, |result| result.waited_seconds)
}

/// The output of a pipeline: the rows and bytes of the result files that are in it.
fn output(record: &JobRecord, ended: &Ended<'_>) -> Output {
    let mut output = Output { uri: ended.storage.uri(layout::OUTPUT), ..Output::default() };
    let Some(plan) = &record.pipeline else { return output };
    let mut counted = HashSet::new();
    for bound in &plan.pipeline.outputs {
        let view = ended.views.iter().find(|view| view.name == bound.step);
        let view = view.filter(|view| view.state == StepState::Completed);
        let path = plan.pipeline.step(&bound.step).and_then(|step| step.outputs.get(&bound.output));
        let result = view.and_then(|view| view.record.as_ref()?.result.as_ref());
        let Some((result, path)) = result.zip(path) else { continue };
        if is_in(&result.output, path) && counted.insert(&bound.step) {
            output.rows += result.output.rows;
            output.bytes += result.output.bytes;
        }
    }
    output
}

/// Whether the result file of a step is what lies under `path` in its output folder, or within that.
fn is_in(output: &Output, path: &str) -> bool {
    let name = output.file().and_then(|file| file.rsplit_once('/')).map(|(_, name)| name);
    name.is_some_and(|name| {
        let path = path.trim_matches('/');
        path.is_empty() || path == name
    })
}

/// How the step ended that the pipeline is in the eyes of the user; nothing where it did not run, or there is none.
fn main_result(record: &JobRecord, ended: &Ended<'_>) -> Option<JobResult> {
    let main = record.pipeline.as_ref()?.pipeline.main.as_ref()?;
    let view = ended.views.iter().find(|view| view.name == *main && view.state != StepState::Waiting)?;
    view.record.as_ref()?.result.clone()
}

/// Why a pipeline failed: the steps that did, and the reason of the first.
fn why(views: &[StepView]) -> String {
    let failed = |view: &&StepView| matches!(view.state, StepState::Failed | StepState::Canceled);
    let failed: Vec<&StepView> = views.iter().filter(failed).collect();
    let names: Vec<&str> = failed.iter().map(|view| &*view.name).collect();
    let reason = |view: &&StepView| view.record.as_ref()?.result.as_ref()?.last_end().1.map(str::to_owned);
    let reason = failed.iter().find_map(reason);
    let steps = if names.len() == 1 { "step" } else { "steps" };
    let names = format!("{steps} {}", names.join(", "));
    match reason {
        Some(reason) => EndReason::StepsFailed { steps: names, reason }.to_string(),
        None => EndReason::StepsFailed { steps: names, reason: "for no known reason".to_owned() }.to_string(),
    }
}

/// Ends a step that cannot even be started. Gives the reason as the result of its job.
pub async fn fail_step(
    record: &mut JobRecord,
    storage: &dyn Storage,
    reason: &EndReason,
) -> Result<(), JobRecordError> {
    end_unrun(record, storage, JobState::Failed, reason).await
}

/// Ends a job that nothing was run of, in this state.
pub async fn end_unrun(
    record: &mut JobRecord,
    storage: &dyn Storage,
    state: JobState,
    reason: &EndReason,
) -> Result<(), JobRecordError> {
    let nothing = JobProgress::default();
    let result = JobResult {
        job_id: record.job_id.clone(),
        name: record.spec.name.clone(),
        submitted_us: record.submitted_us,
        ended_us: Some(now_us()),
        kept_until_us: None,
        state,
        reason: Some(reason.to_string()),
        reused: None,
        output: Output { uri: storage.uri(layout::OUTPUT), ..Output::default() },
        logs: storage.uri(layout::LOGS),
        mini_batches: (&nothing).into(),
        items: (&nothing).into(),
        seconds: 0.0,
        waited_seconds: 0.0,
        starts: Vec::new(),
        findings: Findings { failures_allowed: record.spec.failures_allowed, ..Findings::default() },
        steps: Vec::new(),
    };
    record.end_with(result.clone());
    let result = record.result.clone().unwrap_or(result);
    let text = report::unrun(&result);
    let place = PageLocation { called: &record.job_id, is_among_logs: true, steps: None };
    let html = page::html(record, &result, &ErrorList::default(), Published::default(), place);
    put_logs(storage, [("job_result.txt", text), (page::NAME, html)]).await?;
    record.write_unless_ended(storage).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::{Output, is_in, way};

    #[test]
    fn rows_are_in_the_output_of_a_pipeline_that_has_the_result_file_or_its_folder() {
        let file =
            Output { uri: "/r/output/rows.txt".into(), sha256: Some(String::new()), ..Output::default() };
        let folder = Output { uri: "/r/output/".into(), ..Output::default() };
        let table = [
            (&file, "", true),
            (&file, "rows.txt", true),
            (&file, "sum.txt", false),
            (&file, "parts/", false),
            (&folder, "", false),
        ];
        for (output, path, expected) in table {
            assert_eq!(is_in(output, path), expected, "{path}");
        }
    }

    #[test]
    fn a_way_goes_up_and_down_again() {
        for (from, to, expected) in [
            ("logs/", "steps/", "../steps/"),
            ("jobs/a-1/logs/", "jobs/", "../../"),
            ("runs/a/logs/", "runs/a/steps/", "../steps/"),
            ("logs/", "", "../"),
        ] {
            assert_eq!(way(from, to), expected, "{from} {to}");
        }
    }
}
