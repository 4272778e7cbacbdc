//! What comes after the end of a job: its last reports and logs. Any worker may do it, and again: an orchestrator that
//! dies over it loses nothing.

use std::time::{Duration, Instant};

use prs_common::backoff::Backoff;
use prs_common::failpoint;
use prs_common::layout::LOGS;
use prs_common::storage::{PutMode, StorageError, StorageErrorKind, StorageExt};
use prs_common::tree;

use super::{FIRST_PAUSE, LONGEST_PAUSE, View, Watch, WatchError, lease, mark_lost};
use crate::JobContext;
use crate::job::record::{JobRecord, JobResult};
use crate::report::error_list::ErrorList;
use crate::report::job_result;
use crate::report::page::{self, PageLocation};
use crate::report::progress_overview::describe;
use crate::report::write_whole;
use crate::segments;
use crate::segments::catalog::Catalog;
use crate::segments::failed_mini_batches;

/// Attempts to bring the last logs to storage: some seconds of them.
const DELIVERIES: u32 = 7;

/// Finishes the reports of a job that has ended, in place of an orchestrator that ended it and died.
pub(crate) async fn finish_reports(
    job: &JobContext,
    owner: &str,
    record: JobRecord,
    result: &JobResult,
) -> Result<(), WatchError> {
    let (view, _seen) = tokio::sync::watch::channel(View::default());
    let id = record.job_id.clone();
    let fence = lease(job, owner).await?;
    let order = job.order().await?;
    let mut watch = Watch::start(job, (owner, fence), (record, order), &id, &view)?;
    watch.renew().await?;
    watch.memory.state = result.state;
    watch.status.progress = job.ledger.progress().await?;
    (watch.status.seconds, watch.status.eta_seconds) = (result.seconds, None);
    let _ = tree::remove_file(&watch.reserve);
    watch.write_job_result(result);
    watch.finish_reports(result).await;
    Ok(())
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
    job.storage.put(&key, text.into(), PutMode::Overwrite).await.map(drop)
}

impl Watch<'_> {
    /// Brings the reports of a job that has ended to their end, as far as that can be done: nobody waits for more.
    pub(super) async fn finish_reports(&mut self, result: &JobResult) {
        failpoint::pass("reports_finish");
        if let Err(error) = self.follow_the_last().await {
            self.journal.error(format_args!("the last reports lack something: {error}"));
        }
        self.write_summaries();
        self.write_last_statistics(result.reason.as_deref().unwrap_or_default());
        self.write_page(result);
        self.deliver_logs().await;
        if self.job.policy.removes_segments
            && self.is_recorded
            && self.record.is_done_with()
            && let Err(error) = segments::remove_of(&self.job.spec, &*self.job.storage).await
        {
            self.journal.error(format_args!("segments are left behind: {error}"));
        }
        tracing::debug!(job = result.job_id, "the reports are finished");
    }

    /// Follows what nodes commit until they have left: segments with the last failed tries may come after the end.
    async fn follow_the_last(&mut self) -> Result<(), WatchError> {
        self.wait_for_nodes(self.job.policy.leave).await;
        let tries = self.catalog.as_deref().map_or(0, Catalog::tries_of_failed);
        let progress = self.job.ledger.progress().await?;
        self.follow_what_is_whole(progress.segments).await?;
        match self.catalog.as_deref() {
            Some(catalog) if catalog.tries_of_failed() != tries => {
                Ok(failed_mini_batches::list(self.job, catalog).await?)
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
            if let Ok(mut nodes) = self.job.ledger.nodes().await {
                mark_lost(self.job, &mut nodes);
                if nodes.iter().all(|node| node.left) {
                    return;
                }
            }
            // Nobody else may take the job over meanwhile; who did says so at the next step.
            let _ = self.renew().await;
            tokio::time::sleep(self.job.policy.watch.min(Duration::from_millis(50))).await;
        }
        self.journal.decision("some nodes have not left in time; the reports end without them");
    }

    /// Writes the summaries of errors, processes and nodes anew.
    pub(super) fn write_summaries(&self) {
        if let Some(catalog) = self.catalog.as_deref() {
            self.journal.summaries(&self.job.work, &catalog.errors, &catalog.summaries);
        }
    }

    /// Writes `job_result.txt` and the last lines of the other logs.
    pub(super) fn write_job_result(&mut self, result: &JobResult) {
        let text = job_result::text(result, &self.job.spec, self.place);
        self.journal.progress(&describe(self.memory.state, &self.status));
        self.journal.progress(text.lines().next().unwrap_or_default());
        self.journal.decision(text.lines().next().unwrap_or_default());
        let path = self.job.logs.join("job_result.txt");
        if let Err(source) = write_whole(&self.job.work, &path, &text) {
            tracing::error!(path = %path.display(), error = %source, "job_result.txt is not written");
        }
    }

    /// Writes `report.html`. The job has ended: what goes wrong here is told, and nothing else.
    fn write_page(&self, result: &JobResult) {
        let errors = self
            .catalog
            .as_deref()
            .map(|catalog| ErrorList::new(&catalog.errors, self.journal.errors_of_nodes()));
        let place = PageLocation { called: self.place, is_among_logs: true, steps: None };
        let statistics = page::published_in(&self.job.logs);
        let html = page::html(&self.record, result, &errors.unwrap_or_default(), statistics, place);
        if let Err(error) = write_whole(&self.job.work, &self.job.logs.join(page::NAME), html) {
            self.journal.error(format_args!("{} is not written: {error}", page::NAME));
        }
    }

    /// Brings the logs to storage, where that can be done: a job ends without what the store never takes.
    async fn deliver_logs(&self) {
        let Some(shipper) = &self.job.log_shipper else { return };
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut attempts = 1;
        while let Err(error) = shipper.ship(true).await {
            if !error.is_retryable() || attempts == DELIVERIES {
                self.journal.error(format_args!("some logs of the job are not in storage: {error}"));
                return;
            }
            backoff.wait().await;
            attempts += 1;
        }
    }
}
