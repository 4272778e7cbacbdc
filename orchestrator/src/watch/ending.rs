//! The end of a job: its output, then the record that has the result, which is the end; then the last reports.
//!
//! Nothing before the record waits for a node to leave or for a log to arrive. What comes after it may be done by any
//! worker, and again: an orchestrator that dies over it loses nothing.

use std::time::{Duration, Instant};

use prs_common::failpoint;
use prs_common::job::OutputAction;
use prs_common::layout::LOGS;
use prs_common::ledger::{Conclusion, Duty, JobState, Progress};
use prs_common::storage::{PutOptions, StorageError, StorageErrorKind};
use prs_common::timestamp::now_us;

use super::{Decision, Watch, WatchError, mark_lost};
use crate::catalog::Catalog;
use crate::damage::{self, Damaged, FinalizeError};
use crate::finalize::{finalize, list_failures};
use crate::job_record::{JobRecord, JobRecordError, JobResult, Output};
use crate::orchestrate::remove_segments;
use crate::publish;
use crate::report::job_result;
use crate::report::progress_overview::describe;
use crate::{JobContext, audit};

/// First pause after the job could not be ended; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Watch<'_> {
    /// Ends the job as decided; on a fleet, as often as it takes while servers are away.
    pub(super) async fn until_ended(&mut self, mut decision: Decision) -> Result<JobResult, WatchError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.end(decision.clone()).await {
                Err(error) if error.is_retryable() && self.job.is_on_a_fleet() => {
                    self.journal.error(format_args!("the job cannot be ended yet: {error}; trying again"));
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    if let Ok(Some(conclusion)) = self.ended_early().await {
                        decision = Decision::Conclude(conclusion);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Ends the job as decided. May be repeated.
    async fn end(&mut self, decision: Decision) -> Result<JobResult, WatchError> {
        self.renew().await?;
        if let Some(result) = recorded(self.job).await? {
            return Ok(result);
        }
        let (end, output) = match decision {
            Decision::Finalize => {
                self.set_state(JobState::Finalizing).await?;
                self.output().await?
            }
            Decision::Conclude(conclusion) => (conclusion, nothing(self.job)),
        };
        if end.state != JobState::Completed {
            self.journal.decision(format_args!("the job ends early: {}", end.reason));
        }
        self.wait_for_nodes(self.job.timing.leave_before_end).await;
        let progress = self.job.ledger.progress(&self.job.run).await?;
        self.follow_what_is_whole(progress.segments).await?;
        self.status.progress = progress;
        if let Some(catalog) = &self.catalog {
            list_failures(self.job, catalog).await?;
        }
        self.close(&end, output).await
    }

    /// Writes the output, unless somebody cancels the job meanwhile.
    async fn finalize(&mut self) -> Result<(Conclusion, Output), WatchError> {
        let progress = self.job.ledger.progress(&self.job.run).await?;
        self.follow_all(progress.segments).await?;
        let catalog = self.catalog.as_deref().expect("nothing reads a segment now");
        tokio::select! {
            written = self.write_output(catalog, &progress) => written,
            conclusion = self.canceled() => Ok((conclusion?, nothing(self.job))),
        }
    }

    /// Compares what was run with what was planned, and writes the output.
    async fn write_output(
        &self,
        catalog: &Catalog,
        progress: &Progress,
    ) -> Result<(Conclusion, Output), WatchError> {
        if !audit::agrees(catalog, &progress.checkpoint) {
            self.journal
                .decision("the outcomes are not those of the plan, which is made again to find out where");
            let foreign = audit::find_foreign(self.job, catalog).await?;
            if !foreign.is_empty() {
                return Err(WatchError::Damaged(foreign));
            }
        }
        let failed = |reason: String| Ok((Conclusion { state: JobState::Failed, reason }, nothing(self.job)));
        if self.job.spec.output_action == OutputAction::AppendRow && catalog.returned == 0 {
            return failed(match catalog.errors.most_frequent() {
                Some(error) if progress.succeeded == 0 => {
                    format!(
                        "append_row: no row was returned, for every mini-batch failed; the most frequent error: {error}"
                    )
                }
                _ => "append_row: no row was returned in the whole job; return one element for \
                      each item, or use output_action summary_only"
                    .to_owned(),
            });
        }
        let output = match finalize(self.job, catalog).await {
            Ok(output) => output,
            Err(FinalizeError::Storage(error)) => return Err(error.into()),
            Err(FinalizeError::Damaged(first)) => {
                // The others are found at once: each round of running again is counted.
                let all = damage::find_damaged(&*self.job.storage, catalog).await?;
                return Err(WatchError::Damaged(if all.is_empty() { vec![first] } else { all }));
            }
        };
        self.journal.decision(format_args!("the output is written: {}", output.uri));
        Ok((Conclusion { state: JobState::Completed, reason: String::new() }, output))
    }

    /// Writes the output and decides how the job ends; what was decided before stands.
    async fn output(&mut self) -> Result<(Conclusion, Output), WatchError> {
        let job = self.job;
        failpoint::pass("finalizing");
        let (wanted, output) = self.finalize().await?;
        failpoint::pass("output_written");
        let end = job.ledger.conclude(&job.run, &wanted).await?;
        if end == wanted {
            return Ok((end, output));
        }
        if wanted.state == JobState::Completed && job.spec.output_action == OutputAction::AppendRow {
            // A job that did not complete has no result.
            publish::withdraw(job, &job.spec.append_row_file_name).await?;
        }
        Ok((end, nothing(job)))
    }

    /// Makes sure that nobody else watches over the job by now.
    pub(super) async fn renew(&self) -> Result<(), WatchError> {
        let job = self.job;
        // Before the call: that is when the time of the lease begins at the earliest.
        let until = Instant::now() + job.timing.lease;
        match job.ledger.lease(&job.run, Duty::Watch, self.owner, job.timing.lease).await? {
            Some(_) => {
                if let Some(shipper) = &job.log_shipper {
                    shipper.watches_until(until);
                }
                Ok(())
            }
            None => Err(WatchError::NotTheOrchestrator),
        }
    }

    /// Waits until somebody ends the job early, or takes it over. That it completed may have been decided before,
    /// by whoever did not come to write it down.
    async fn canceled(&self) -> Result<Conclusion, WatchError> {
        loop {
            tokio::time::sleep(self.job.timing.watch).await;
            match self.job.ledger.progress(&self.job.run).await {
                Ok(Progress { conclusion: Some(conclusion), .. })
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

    /// How the job ends early, where that is decided: somebody canceled it, or it has failed.
    pub(super) async fn ended_early(&self) -> Result<Option<Conclusion>, WatchError> {
        let progress = self.job.ledger.progress(&self.job.run).await?;
        Ok(progress.conclusion.filter(|conclusion| conclusion.state != JobState::Completed))
    }

    /// Sets damaged segments aside, so that their mini-batches run again. The error says that this was done, or why
    /// not.
    pub(super) async fn run_again(&mut self, damaged: Vec<Damaged>) -> WatchError {
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
        // Whoever lost the lease has lost the right to say how the job ended: the successor may have removed what
        // this one could not find any more.
        self.renew().await?;
        let _ = std::fs::remove_file(&self.reserve);
        let result = result(self.job, end, output, &self.status.progress, self.started.elapsed());
        self.state = end.state;
        self.status.seconds = result.seconds;
        self.status.eta_seconds = None;
        self.journal.summaries(self.catalog.as_deref());
        self.write_job_result(&result);
        if let Some(result) = recorded(self.job).await? {
            return Ok(result);
        }
        self.record.result = Some(result.clone());
        match self.write_record().await {
            Err(error) if self.job.is_on_a_fleet() => return Err(error.into()),
            written => self.is_recorded = written.is_ok(),
        }
        failpoint::pass("result_written");
        // The record has the last word: nothing that fails from here on changes it.
        if let Err(error) = self.job.ledger.set_state(&self.job.run, end.state).await {
            self.journal.error(format_args!("the ledger does not say how the job ended: {error}"));
        }
        self.publish_view();
        Ok(result)
    }

    /// Brings the reports of a job that has ended to their end, as far as that can be done: nobody waits for more.
    pub(super) async fn finish_reports(&mut self, result: &JobResult) {
        failpoint::pass("reports_finish");
        if let Err(error) = self.follow_the_last().await {
            self.journal.error(format_args!("the last reports lack something: {error}"));
        }
        self.journal.summaries(self.catalog.as_deref());
        self.deliver_logs().await;
        // On a fleet they go with the queue and the books.
        if !self.job.is_on_a_fleet()
            && self.is_recorded
            && self.record.is_done_with()
            && let Err(error) = remove_segments(&*self.job.storage).await
        {
            self.journal.error(format_args!("segments are left behind: {error}"));
        }
        tracing::debug!(job = result.job_id, "the reports are finished");
    }

    /// Follows what nodes commit until they have left: segments with the last failed tries may come after the end.
    async fn follow_the_last(&mut self) -> Result<(), WatchError> {
        self.wait_for_nodes(self.job.timing.leave).await;
        let tries = self.catalog.as_deref().map_or(0, Catalog::tries_of_failed);
        let progress = self.job.ledger.progress(&self.job.run).await?;
        self.follow_what_is_whole(progress.segments).await?;
        match self.catalog.as_deref() {
            Some(catalog) if catalog.tries_of_failed() != tries => {
                Ok(list_failures(self.job, catalog).await?)
            }
            _ => Ok(()),
        }
    }

    /// Waits until every node has left, but no longer than `patience`.
    pub(super) async fn wait_for_nodes(&self, patience: Duration) {
        if patience.is_zero() {
            return;
        }
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Ok(mut nodes) = self.job.ledger.nodes(&self.job.run).await {
                mark_lost(self.job, &mut nodes);
                if nodes.iter().all(|node| node.left) {
                    return;
                }
            }
            // Nobody else may take the job over meanwhile; who did says so at the next step.
            let _ = self.renew().await;
            tokio::time::sleep(self.job.timing.watch.min(Duration::from_millis(50))).await;
        }
        self.journal.decision("some nodes have not left in time; the reports end without them");
    }

    /// Writes `job_result.txt` and the last lines of the other logs.
    pub(super) fn write_job_result(&mut self, result: &JobResult) {
        let text = job_result::text(result, &self.job.spec, self.place);
        self.journal.progress(&describe(self.state, &self.status));
        self.journal.progress(text.lines().next().unwrap_or_default());
        self.journal.decision(text.lines().next().unwrap_or_default());
        let path = self.job.logs.join("job_result.txt");
        if let Err(source) = std::fs::write(&path, &text) {
            tracing::error!(path = %path.display(), error = %source, "job_result.txt is not written");
        }
    }

    /// Brings the logs to storage, where that can be done: a job ends without what the store never takes.
    async fn deliver_logs(&self) {
        let Some(shipper) = &self.job.log_shipper else { return };
        let mut pause = FIRST_PAUSE;
        while let Err(error) = shipper.ship(true).await {
            if !error.is_retryable() || pause > LONGEST_PAUSE {
                self.journal.error(format_args!("some logs of the job do not come to storage: {error}"));
                return;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

/// Puts `job_result.txt` into storage, where it is missing or that of a former start.
pub(crate) async fn restore_job_result(job: &JobContext, result: &JobResult) -> Result<(), StorageError> {
    let (key, text) = (format!("{LOGS}job_result.txt"), job_result::text(result, &job.spec, &job.id));
    let says_so = match job.storage.get(&key).await {
        Ok(stored) => job_result::say_the_same(&String::from_utf8_lossy(&stored), &text),
        Err(error) if error.kind == StorageErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if says_so {
        return Ok(());
    }
    job.storage.put(&key, text.into(), PutOptions::default()).await
}

/// How the job ended, where its record on a fleet says so: no other end may be written over that.
async fn recorded(job: &JobContext) -> Result<Option<JobResult>, WatchError> {
    if !job.is_on_a_fleet() {
        return Ok(None);
    }
    match JobRecord::read(&*job.storage).await {
        Ok(record) if record.incarnation == job.incarnation => Ok(record.result),
        Ok(_) | Err(JobRecordError::Absent { .. }) => Err(WatchError::Superseded),
        Err(error) => Err(error.into()),
    }
}

/// Ends a job that cannot even be watched over (its logs cannot be written, or the watching panics), and that nobody else
/// can.
pub(crate) async fn fail_at_once(
    job: &JobContext,
    mut record: JobRecord,
    error: WatchError,
) -> Result<JobResult, WatchError> {
    let wanted = Conclusion { state: JobState::Failed, reason: error.to_string() };
    let mut conclusion = job.ledger.conclude(&job.run, &wanted).await?;
    if conclusion.state == JobState::Completed {
        if !matches!(error, WatchError::Panicked { .. }) {
            return Err(error);
        }
        // What would tell of the result panics, so there is none.
        if job.spec.output_action == OutputAction::AppendRow {
            publish::withdraw(job, &job.spec.append_row_file_name).await?;
        }
        conclusion = wanted;
    }
    job.ledger.set_state(&job.run, conclusion.state).await?;
    let progress = job.ledger.progress(&job.run).await?;
    let took = Duration::from_micros(now_us().saturating_sub(record.started_us));
    let result = result(job, &conclusion, nothing(job), &progress, took);
    record.state = conclusion.state;
    record.result = Some(result.clone());
    match record.write(&*job.storage).await {
        Err(error) if job.is_on_a_fleet() => return Err(error.into()),
        Err(error) => tracing::error!(%error, "the job's record does not say how the job ended"),
        Ok(()) => {}
    }
    Ok(result)
}

/// The output of a job that has none.
pub(super) fn nothing(job: &JobContext) -> Output {
    Output { uri: job.output.uri(""), ..Output::default() }
}

fn result(
    job: &JobContext,
    end: &Conclusion,
    output: Output,
    progress: &Progress,
    took: Duration,
) -> JobResult {
    JobResult {
        job_id: job.id.clone(),
        name: job.spec.name.clone(),
        state: end.state,
        reason: (!end.reason.is_empty()).then(|| end.reason.clone()),
        output,
        logs: job.logs_uri.clone(),
        mini_batches: progress.into(),
        items: progress.into(),
        seconds: (took.as_secs_f64() * 1e3).round() / 1e3,
    }
}
