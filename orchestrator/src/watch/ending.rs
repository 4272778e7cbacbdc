//! The end of a job: its output, then the record that has the result, which is the end.
//!
//! Nothing before the record waits for a node to leave or for a log to arrive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prs_common::backoff::Backoff;
use prs_common::end_reason::EndReason;
use prs_common::failpoint;
use prs_common::file_content::ContentSum;
use prs_common::job::shuffle::ShuffleStage;
use prs_common::job::{JobSpec, OutputAction, OutputFormat};
use prs_common::layout;
use prs_common::ledger::{Conclusion, JobProgress, JobState};
use prs_common::message_pack;
use prs_common::storage::{StorageError, StorageErrorKind, StorageExt};
use prs_common::timestamp::now_us;
use prs_common::tree;

use super::findings::findings;
use super::{Decision, FIRST_PAUSE, LONGEST_PAUSE, Watch, WatchError, lease};
use crate::JobContext;
use crate::inputs::listed::Listed;
use crate::inputs::side;
use crate::job::errors::ErrorGroup;
use crate::job::record::{JobRecord, JobRecordError, JobResult, Output};
use crate::job::{reuse, traces};
use crate::plan::PlanNotes;
use crate::publish;
use crate::result::check::find_damaged;
use crate::result::{FinalizeError, Growth, finalize};
use crate::segments::catalog::Catalog;
use crate::segments::damage::Damaged;
use crate::segments::headers::Headers;
use crate::segments::{audit, damage, failed_mini_batches, starts};

/// How long a bucket that is away is waited for, once a job has a result to deliver.
const PATIENCE: Duration = Duration::from_mins(10);
/// The same where a person waits.
const PATIENCE_OF_ONE: Duration = Duration::from_secs(30);

impl Watch<'_> {
    /// Ends the job as decided. May be repeated.
    pub(super) async fn end(&mut self, decision: &Decision) -> Result<JobResult, WatchError> {
        self.renew().await?;
        if let Some(result) = recorded(self.job).await? {
            return Ok(result);
        }
        let (end, mut output) = match decision {
            Decision::Finalize => {
                self.set_state(JobState::Finalizing).await?;
                self.job.nodes_end.notify_one();
                self.output().await?
            }
            Decision::Conclude(conclusion) => {
                self.job.nodes_end.notify_one();
                (conclusion.clone(), nothing(self.job))
            }
        };
        if end.state != JobState::Completed {
            self.journal.decision(format_args!("the job ends early: {}", end.reason));
        }
        self.wait_for_nodes(self.job.policy.leave_before_end).await;
        let progress = self.job.ledger.progress().await?;
        self.follow_what_is_whole(progress.segments).await?;
        self.status.progress = progress;
        let has_result = end.state == JobState::Completed || EndReason::is_not_delivered(&end.reason);
        // What a former start completed stands where this one has nothing: its list of failures, too.
        if let Some(catalog) =
            self.catalog.as_deref().filter(|_| has_result || self.record.former_end.is_none())
        {
            failed_mini_batches::list(self.job, catalog).await?;
            if end.state == JobState::Completed {
                if let Some(there) = publish::there(self.job).await? {
                    failed_mini_batches::list(&there, catalog).await?;
                }
            } else if EndReason::is_not_delivered(&end.reason) && output.sha256.is_none() {
                output = kept(self.job, catalog.returned).await?;
            }
        }
        self.close(&end, output).await
    }

    /// Writes the output, unless a user cancels the job meanwhile.
    async fn finalize(&mut self) -> Result<(Conclusion, Output), WatchError> {
        let progress = self.job.ledger.progress().await?;
        self.follow_all(progress.segments).await?;
        let catalog = self.catalog.as_deref().expect("nothing reads a segment now");
        let mut growth = std::mem::take(&mut self.growth);
        tokio::select! {
            written = self.write_output(catalog, &progress, &mut growth) => written,
            conclusion = self.canceled() => Ok((conclusion?, nothing(self.job))),
        }
    }

    /// Compares what was run with what was planned, and writes the output.
    async fn write_output(
        &self,
        catalog: &Catalog,
        progress: &JobProgress,
        growth: &mut Growth,
    ) -> Result<(Conclusion, Output), WatchError> {
        if !audit::agrees(catalog, &progress.checkpoint) {
            self.journal
                .decision("the outcomes are not those of the plan, which is made again to find out where");
            let foreign = audit::find_foreign(self.job, catalog).await?;
            if !foreign.is_empty() {
                return Err(WatchError::Damaged(foreign));
            }
        }
        let spec = &self.job.spec;
        let foreign = of_foreign_columns(spec, catalog);
        if !foreign.is_empty() {
            return Err(WatchError::Damaged(foreign));
        }
        if let Some(reason) =
            returned_nothing(spec.output_action, catalog, progress).or_else(|| columns_differ(spec, catalog))
        {
            return Ok((Conclusion::failed(&reason), nothing(self.job)));
        }
        // Rows would be of what it was and of what it is.
        if let Err(reason) = side_inputs_stayed(spec).await {
            return Ok((Conclusion::failed(&reason), nothing(self.job)));
        }
        let mut output = match finalize(self.job, catalog, growth).await {
            Ok(output) => output,
            Err(FinalizeError::Storage(error)) => return Err(error.into()),
            Err(FinalizeError::Unfit(reason)) => {
                return Ok((Conclusion::failed(&named(reason, catalog)), nothing(self.job)));
            }
            Err(FinalizeError::Damaged(first)) => {
                // The others are found at once: each round of running again is counted.
                let all = find_damaged(&self.job.storage, catalog).await?;
                return Err(WatchError::Damaged(if all.is_empty() { vec![first] } else { all }));
            }
        };
        self.journal.decision(format_args!("the output is written: {}", output.uri));
        match self.deliver(catalog, &output).await? {
            Ok(None) => {}
            Ok(Some(uri)) => {
                self.journal.decision(format_args!("the output is delivered: {uri}"));
                output.uri = uri;
            }
            Err(reason) => return Ok((Conclusion::failed(&reason), output)),
        }
        Ok((Conclusion { state: JobState::Completed, reason: String::new() }, output))
    }

    /// Delivers the output to the place that the job names, and says where the result is then. A store that is away is waited for;
    /// anything else, or that it stays away, is the reason why the job fails.
    async fn deliver(
        &self,
        catalog: &Catalog,
        output: &Output,
    ) -> Result<Result<Option<String>, EndReason>, StorageError> {
        let job = self.job;
        let (began, mut backoff) = (Instant::now(), Backoff::new(FIRST_PAUSE, LONGEST_PAUSE));
        let patience = if job.policy.waits_for_servers { PATIENCE } else { PATIENCE_OF_ONE };
        let brought = (&*catalog.files, catalog.failures.listed().next().is_some());
        let mut is_clear = false;
        loop {
            let delivered = async {
                // Once: an upload that begins later is somebody else's.
                if !is_clear {
                    publish::take_back_unfinished(job, brought.0).await?;
                    is_clear = true;
                }
                publish::deliver(job, brought, output).await
            };
            let error = match delivered.await {
                Ok(uri) => return Ok(Ok(uri)),
                Err(error) => error,
            };
            // Where the storage of the job is away, too, nothing is known of the place; another host may reach both.
            match job.storage.head(layout::JOB).await {
                Err(error) if error.is_retryable() => return Err(error),
                _ => {}
            }
            if error.is_retryable() && began.elapsed() < patience {
                self.journal.error(format_args!("the output cannot be delivered yet: {error}; trying again"));
                // Who waits for the job sees what it waits for.
                let (job, patience_s) = (&job.id, patience.as_secs());
                tracing::warn!(job, %error, patience_s, "the output cannot be delivered yet; trying again");
                backoff.wait().await;
                continue;
            }
            let place = job.spec.deliver_to.clone().unwrap_or_default();
            return Ok(Err(EndReason::JobNotDelivered { place, error: error.to_string() }));
        }
    }

    /// Writes the output and decides how the job ends; what was decided before stands.
    async fn output(&mut self) -> Result<(Conclusion, Output), WatchError> {
        let job = self.job;
        failpoint::pass("finalizing");
        let began = now_us();
        traces::step(job, "assemble", (self.record.started_us, began));
        let (wanted, output) = self.finalize().await?;
        traces::step(job, "finalize", (began, now_us()));
        failpoint::pass("output_written");
        let end = job.ledger.conclude(&wanted).await?;
        failpoint::pass("concluded");
        if end == wanted {
            return Ok((end, output));
        }
        if end.state == JobState::Completed {
            // Somebody took it away since it was delivered.
            return Ok((end, output));
        }
        if wanted.state == JobState::Completed && job.spec.output_action == OutputAction::AppendRow {
            // A job that did not complete has no result.
            publish::withdraw(job, &job.spec.append_row_file_name).await?;
            publish::withdraw_delivered(job, &job.spec.append_row_file_name).await?;
        }
        // It was replaced before that.
        self.record.former_end = None;
        Ok((end, nothing(job)))
    }

    /// Waits until the job is ended early, or another orchestrator takes it over. That it completed may have been decided
    /// before, by an orchestrator that died before it wrote that down.
    async fn canceled(&self) -> Result<Conclusion, WatchError> {
        loop {
            tokio::time::sleep(self.job.policy.watch).await;
            match self.job.ledger.progress().await {
                Ok(JobProgress { conclusion: Some(conclusion), .. })
                    if conclusion.state != JobState::Completed =>
                {
                    return Ok(conclusion);
                }
                Err(error) if !error.is_retryable() => return Err(error.into()),
                _ => {}
            }
            match self.renew().await {
                Err(error) if !error.is_retryable() => return Err(error),
                _ => {}
            }
        }
    }

    /// How the job ends early, where that is decided: a user canceled it, or it has failed.
    pub(super) async fn ended_early(&self) -> Result<Option<Conclusion>, WatchError> {
        let progress = self.job.ledger.progress().await?;
        Ok(progress.conclusion.filter(|conclusion| conclusion.state != JobState::Completed))
    }

    /// Sets the segments aside that an error calls damaged, so that their mini-batches run again. The error that comes back
    /// says that this was done, or why not.
    pub(super) async fn run_again(&mut self, error: WatchError) -> WatchError {
        let WatchError::Damaged(damaged) = error else { return error };
        let (job, reason) = (self.job, damage::describe(&damaged));
        let set_aside = async {
            // A successor may have ended the job and removed the segments.
            self.renew().await?;
            if recorded(job).await?.is_some() {
                return Err(WatchError::NotTheOrchestrator);
            }
            Ok(damage::set_aside(&*job.storage, job.incarnation, &damaged).await?)
        };
        match set_aside.await {
            Ok(true) => {
                self.journal.decision(format_args!("{reason}; set aside, and their mini-batches run again"));
                WatchError::RunAgain { reason }
            }
            Ok(false) => WatchError::Damaged(damaged),
            Err(error) => error,
        }
    }

    /// Writes down how the job ended: the end of it.
    pub(super) async fn close(&mut self, end: &Conclusion, output: Output) -> Result<JobResult, WatchError> {
        // An orchestrator without the lease may not say how the job ended: its successor may have removed what this one
        // could not find any more.
        self.renew().await?;
        let _ = tree::remove_file(&self.reserve);
        let took = (self.memory.started.elapsed(), self.status.waited_seconds);
        let known = (self.catalog.as_deref(), self.journal.init_errors());
        let mut result = result(self.job, &self.record, end, output, &self.status.progress, took, known);
        let PlanNotes { left_out, types_differ } = plan_notes(self.job).await;
        (result.findings.left_out, result.findings.types_differ) = (left_out, types_differ);
        result.findings.gpu_shortage = self.journal.gpu_shortage();
        self.memory.state = end.state;
        self.status.seconds = result.seconds;
        (self.status.eta_seconds, self.status.at_work) = (None, Box::default());
        self.record.status = self.status.clone();
        // Their files here come with the last reports: on a full disk this room is the record's.
        self.record.statistics = self.put_statistics(&end.reason).await;
        self.record.end_with(result);
        let Some(result) = self.record.result.clone() else { return Err(WatchError::Superseded) };
        (self.memory.state, self.status) = (self.record.state, self.record.status.clone());
        self.write_summaries();
        self.write_job_result(&result);
        let contents = self.catalog.as_deref().map(|catalog| catalog.contents);
        self.record.listed = listed(self.job, &self.record, contents.unwrap_or_default()).await.map(Box::new);
        let brought = self.catalog.as_deref().is_none_or(|catalog| !catalog.files.is_empty());
        if result.has_result() && result.findings.last_start.is_none() && brought {
            self.record.brought = publish::former::list_of(self.job).await?;
        }
        match self.write_record().await {
            Ok(Some(standing)) => return result_of(self.job, standing),
            Err(JobRecordError::Absent { .. }) => return Err(WatchError::Superseded),
            Err(error) if self.job.policy.ends_by_record => return Err(error.into()),
            written => self.is_recorded = written.is_ok(),
        }
        self.journal.decision(format_args!("the job is {}", end.state.as_str()));
        traces::whole(&self.record);
        failpoint::pass("result_written");
        // The record has the last word: nothing that fails from here on changes it.
        if let Err(error) = self.job.ledger.set_state(end.state, self.fence).await {
            self.journal.error(format_args!("the ledger does not say how the job ended: {error}"));
        }
        self.publish_view();
        Box::pin(self.tell_index()).await;
        Ok(result)
    }
}

/// Why a job fails that ran to its end and has nothing to show for it (spec E10).
fn returned_nothing(action: OutputAction, catalog: &Catalog, progress: &JobProgress) -> Option<EndReason> {
    if progress.succeeded == 0 && progress.failed > 0 {
        let reason = match action {
            OutputAction::AppendRow => EndReason::NoRowAsAllFailed,
            OutputAction::SummaryOnly => EndReason::AllFailed,
        };
        return Some(reason.with_most_frequent(catalog.errors.most_frequent()));
    }
    (action == OutputAction::AppendRow && catalog.returned == 0).then_some(EndReason::NoRow)
}

/// Why a job that asks for a header, or for a file with columns, fails because none fits all its rows.
fn columns_differ(spec: &JobSpec, catalog: &Catalog) -> Option<EndReason> {
    let reason = match &catalog.schemas {
        Some(schemas) => schemas.differ(),
        None => headers(spec, catalog).and_then(Headers::differ),
    };
    reason.map(|reason| named(reason, catalog))
}

/// A reason that names mini-batches by their places in input order, with their indexes instead.
fn named(reason: EndReason, catalog: &Catalog) -> EndReason {
    let index = |place: u64| catalog.index_at(place as usize);
    match reason {
        EndReason::ColumnsDiffer { first, columns, later, others } => {
            EndReason::ColumnsDiffer { first: index(first), columns, later: index(later), others }
        }
        EndReason::StartsDiffer { start, columns, later, others } => {
            EndReason::StartsDiffer { start, columns, later: index(later), others }
        }
        EndReason::TypesDiffer { column, first, kind, later, other } => {
            EndReason::TypesDiffer { column, first: index(first), kind, later: index(later), other }
        }
        EndReason::NotInParquet { index: place, error } => {
            EndReason::NotInParquet { index: index(place), error }
        }
        other => other,
    }
}

/// The headers that were returned, where the result has one.
fn headers<'a>(spec: &JobSpec, catalog: &'a Catalog) -> Option<&'a Headers> {
    let is_asked = spec.output_format.is_some_and(OutputFormat::has_header) && catalog.schemas.is_none();
    is_asked.then_some(&catalog.headers)
}

/// Segments of former starts of the job that returned other columns than the first one did: code that was mended since
/// runs their mini-batches again.
pub(super) fn of_foreign_columns(spec: &JobSpec, catalog: &Catalog) -> Vec<Damaged> {
    let present = catalog.incarnation;
    let foreign = headers(spec, catalog).map(|headers| headers.foreign_starts(present)).unwrap_or_default();
    if foreign.is_empty() {
        return Vec::new();
    }
    let written = catalog.segments.iter().zip(&catalog.written_by);
    let of_them = written.filter(|(_, start)| foreign.contains(start));
    let damaged = of_them.map(|(key, start)| Damaged {
        segment: key.to_string(),
        reason: format!("start {start} returned other columns than the first"),
    });
    damaged.collect()
}

/// The same while mini-batches run, where no outcome that is still to come changes it.
pub(super) fn columns_differ_for_good(spec: &JobSpec, catalog: &Catalog) -> Option<EndReason> {
    match &catalog.schemas {
        Some(schemas) => schemas.differ_for_good(catalog.prefix.end).map(|reason| named(reason, catalog)),
        // A header of other names stays one.
        None => columns_differ(spec, catalog),
    }
}

/// Looks once more at side inputs and a model that stay where they are, on this host.
async fn side_inputs_stayed(spec: &Arc<JobSpec>) -> Result<(), EndReason> {
    if spec.with_model().all(|side_input| side_input.seen.is_none()) {
        return Ok(());
    }
    let spec = Arc::clone(spec);
    let checked = tokio::task::spawn_blocking(move || spec.with_model().try_for_each(side::check)).await;
    checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// What was listed of the local files of a job that can give its output to others; processes noted `contents`.
async fn listed(job: &JobContext, record: &JobRecord, contents: ContentSum) -> Option<Listed> {
    // The step of a shuffle that lists the files does so for the job that it is a step of.
    let is_compared = record.recipe.is_some() || record.spec.shuffle == Some(ShuffleStage::Split);
    if !reuse::has_local_files(&job.spec) || !is_compared || !record.is_done_with() {
        return None;
    }
    let note = job.storage.get(&layout::listed(job.incarnation)).await.ok()?;
    let mut listed: Listed = message_pack::decode(&note).ok()?;
    listed.contents += contents;
    Some(listed)
}

/// What there is to say of the inputs of the job, as the last start found it that planned it.
async fn plan_notes(job: &JobContext) -> PlanNotes {
    for incarnation in (1..=job.incarnation).rev() {
        if let Ok(note) = job.storage.get(&layout::plan_notes(incarnation)).await {
            return message_pack::decode(&note).unwrap_or_default();
        }
    }
    PlanNotes::default()
}

/// How the job ended, where its record says so: no other end may be written over that.
async fn recorded(job: &JobContext) -> Result<Option<JobResult>, WatchError> {
    match JobRecord::read(&*job.storage).await {
        Ok(record) if record.incarnation == job.incarnation => Ok(record.result),
        // A run in one program has its folder for itself: who removed the record meant no end of the job.
        Err(JobRecordError::Absent { .. }) if !job.policy.ends_by_record => Ok(None),
        Ok(_) | Err(JobRecordError::Absent { .. }) => Err(WatchError::Superseded),
        Err(error) => Err(error.into()),
    }
}

/// How this start of the job ended by a record that stands.
fn result_of(job: &JobContext, standing: JobRecord) -> Result<JobResult, WatchError> {
    let result = standing.result.filter(|_| standing.incarnation == job.incarnation);
    result.ok_or(WatchError::Superseded)
}

/// Ends a job that cannot even be watched over (its logs cannot be written, or the watching panics), and that nobody else
/// can.
pub(crate) async fn fail_at_once(
    job: &JobContext,
    owner: &str,
    mut record: JobRecord,
    error: WatchError,
) -> Result<JobResult, WatchError> {
    let fence = lease(job, owner).await?;
    let wanted = Conclusion::failed(&(&error).into());
    let mut conclusion = job.ledger.conclude(&wanted).await?;
    if conclusion.state == JobState::Completed {
        if !matches!(error, WatchError::Panicked { .. } | WatchError::Stuck { .. }) {
            return Err(error);
        }
        // What would tell of the result fails, so there is none.
        if job.spec.output_action == OutputAction::AppendRow {
            publish::withdraw(job, &job.spec.append_row_file_name).await?;
        }
        record.former_end = None;
        conclusion = wanted;
    }
    job.ledger.set_state(conclusion.state, fence).await?;
    let progress = job.ledger.progress().await?;
    let took = Duration::from_micros(now_us().saturating_sub(record.started_us));
    let known = (None, Vec::new());
    let result = result(job, &record, &conclusion, nothing(job), &progress, (took, 0.0), known);
    record.end_with(result.clone());
    let result = record.result.clone().unwrap_or(result);
    match record.write_unless_ended(&*job.storage).await {
        Ok(Some(standing)) => return result_of(job, standing),
        Err(JobRecordError::Absent { .. }) => return Err(WatchError::Superseded),
        Err(error) if job.policy.ends_by_record => return Err(error.into()),
        Err(error) => tracing::error!(%error, "the job's record does not say how the job ended"),
        Ok(None) => {}
    }
    traces::whole(&record);
    Ok(result)
}

/// The output of a job that could not deliver it, as an orchestrator finds it that was not there.
async fn kept(job: &JobContext, rows: u64) -> Result<Output, StorageError> {
    let name = &job.spec.append_row_file_name;
    let output = Output { rows, ..nothing(job) };
    if job.spec.output_action != OutputAction::AppendRow {
        return Ok(output);
    }
    match job.output.head(name).await {
        Ok(there) => {
            let (uri, sha256) = (job.output.uri(name), publish::checksum_of(&*job.output, name).await?);
            Ok(Output { uri, bytes: there.size, sha256, ..output })
        }
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(output),
        Err(error) => Err(error),
    }
}

/// Seconds without what is less than a millisecond.
fn in_millis(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// The output of a job that has none.
pub(super) fn nothing(job: &JobContext) -> Output {
    Output { uri: job.output.uri(""), ..Output::default() }
}

fn result(
    job: &JobContext,
    record: &JobRecord,
    end: &Conclusion,
    output: Output,
    progress: &JobProgress,
    (since_asked, waited): (Duration, f64),
    (catalog, init_errors): (Option<&Catalog>, Vec<ErrorGroup>),
) -> JobResult {
    let ended_us = now_us();
    let keep_us = job.spec.keep.map(|seconds| seconds.saturating_mul(1_000_000));
    JobResult {
        job_id: job.id.clone(),
        name: job.spec.name.clone(),
        submitted_us: record.submitted_us,
        ended_us: Some(ended_us),
        kept_until_us: keep_us.map(|keep| ended_us.saturating_add(keep)),
        state: end.state,
        reason: (!end.reason.is_empty()).then(|| end.reason.clone()),
        reused: None,
        output,
        logs: job.logs_uri.clone(),
        mini_batches: progress.into(),
        items: progress.into(),
        seconds: in_millis((since_asked.as_secs_f64() - waited).max(0.0)),
        waited_seconds: in_millis(waited),
        starts: catalog.map(|catalog| starts::results(record, catalog)).unwrap_or_default(),
        findings: findings(&job.spec, end.state, progress, catalog, init_errors),
        steps: Vec::new(),
    }
}
