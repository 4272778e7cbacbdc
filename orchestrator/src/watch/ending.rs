//! The end of a job: output, last reports, final state.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prs_common::job::OutputAction;
use prs_common::layout;
use prs_common::ledger::{Conclusion, JobState, Progress};
use prs_common::storage::StorageError;

use super::{Decision, Watch, WatchError};
use crate::JobContext;
use crate::finalize::{finalize, list_failures};
use crate::job_record::{JobRecord, JobResult, Output};
use crate::report::job_result;
use crate::report::progress_overview::describe;

impl Watch<'_> {
    /// Ends the job as decided.
    pub(super) async fn end(&mut self, decision: Decision) -> Result<JobResult, WatchError> {
        let (end, output) = match decision {
            Decision::Finalize => {
                self.set_state(JobState::Finalizing).await?;
                self.finalize().await?
            }
            Decision::Conclude(conclusion) => (conclusion, nothing(self.job)),
        };
        if end.state != JobState::Completed {
            self.journal.decision(format_args!("the job ends early: {}", end.reason));
        }
        self.wait_for_nodes().await;
        // Segments with the last failed tries may come after the last outcome.
        let progress = self.job.ledger.progress(&self.job.id).await?;
        self.follow(progress.segments).await?;
        self.status.progress = progress;
        if let Some(catalog) = &self.catalog {
            list_failures(self.job, catalog).await?;
        }
        self.close(&end, output).await
    }

    /// Writes the output, unless somebody cancels the job meanwhile.
    async fn finalize(&mut self) -> Result<(Conclusion, Output), WatchError> {
        let progress = self.job.ledger.progress(&self.job.id).await?;
        self.follow(progress.segments).await?;
        let catalog = self.catalog.as_deref().expect("nothing reads a segment now");
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
        tokio::select! {
            output = finalize(self.job, catalog) => {
                let output = output?;
                self.journal.decision(format_args!("the output is written: {}", output.uri));
                Ok((Conclusion { state: JobState::Completed, reason: String::new() }, output))
            }
            conclusion = self.canceled() => Ok((conclusion, nothing(self.job))),
        }
    }

    /// Waits until somebody ends the job.
    async fn canceled(&self) -> Conclusion {
        loop {
            tokio::time::sleep(self.job.timing.watch).await;
            if let Ok(Progress { conclusion: Some(conclusion), .. }) =
                self.job.ledger.progress(&self.job.id).await
            {
                return conclusion;
            }
        }
    }

    /// Waits until every node has left, for as long as that may take.
    pub(super) async fn wait_for_nodes(&self) {
        let deadline = Instant::now() + self.job.timing.leave;
        while Instant::now() < deadline {
            match self.job.ledger.nodes(&self.job.id).await {
                Ok(nodes) if nodes.iter().all(|node| node.left) => return,
                _ => tokio::time::sleep(self.job.timing.watch.min(Duration::from_millis(50))).await,
            }
        }
        self.journal.decision("some nodes have not left in time; the job ends without them");
    }

    /// Writes the last words of the job: reports, record, final state.
    pub(super) async fn close(&mut self, end: &Conclusion, output: Output) -> Result<JobResult, WatchError> {
        let _ = std::fs::remove_file(&self.reserve);
        if let Ok(progress) = self.job.ledger.progress(&self.job.id).await {
            self.status.progress = progress;
        }
        let result = result(self.job, end, output, &self.status.progress, self.started.elapsed());
        self.state = end.state;
        self.status.seconds = result.seconds;
        self.status.eta_seconds = None;
        self.journal.summaries(self.catalog.as_deref());
        let text = job_result::text(&result, &self.job.spec, self.place);
        self.journal.progress(&describe(self.state, &self.status));
        self.journal.progress(text.lines().next().unwrap_or_default());
        self.journal.decision(text.lines().next().unwrap_or_default());
        let path = self.job.logs.join("job_result.txt");
        if let Err(source) = std::fs::write(&path, &text) {
            tracing::error!(path = %path.display(), error = %source, "job_result.txt is not written");
        }
        self.record.result = Some(result.clone());
        let written = self.write_record().await;
        if written && end.state == JobState::Completed && result.mini_batches.failed == 0 {
            self.remove_segments().await;
        }
        self.job.ledger.set_state(&self.job.id, end.state).await?;
        self.publish_view();
        Ok(result)
    }

    /// The rows are in the result and nothing is left to resume: the segments only take room.
    async fn remove_segments(&self) {
        let storage = Arc::clone(&self.job.storage);
        let removed = async {
            for object in storage.list(layout::SEGMENTS).await? {
                storage.delete(&object.key).await?;
            }
            Ok::<_, StorageError>(())
        };
        if let Err(error) = removed.await {
            self.journal.error(format_args!("segments are left behind: {error}"));
        }
    }
}

/// Ends a job that cannot even be watched over (its logs cannot be written).
pub(super) async fn fail_at_once(
    job: &JobContext,
    mut record: JobRecord,
    error: &WatchError,
) -> Result<JobResult, WatchError> {
    let conclusion = Conclusion { state: JobState::Failed, reason: error.to_string() };
    let conclusion = job.ledger.conclude(&job.id, &conclusion).await?;
    job.ledger.set_state(&job.id, conclusion.state).await?;
    let result = result(job, &conclusion, nothing(job), &Progress::default(), Duration::ZERO);
    record.state = conclusion.state;
    record.result = Some(result.clone());
    if let Err(error) = record.write(&*job.storage).await {
        tracing::error!(%error, "the job's record does not say how the job ended");
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
        logs: job.logs.display().to_string(),
        mini_batches: progress.into(),
        items: progress.into(),
        seconds: (took.as_secs_f64() * 1e3).round() / 1e3,
    }
}
