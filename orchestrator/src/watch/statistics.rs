//! The statistics of the job: what a look showed goes in, and what is due is written. Nothing of it fails the job, or keeps
//! its end waiting for long.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use prs_common::layout::LOGS;
use prs_common::statistics::{FOLDER, Live, NAMES, Part};
use prs_common::storage::PutMode;
use prs_common::timestamp::now_us;

use super::Watch;
use super::observe::Snapshot;
use crate::caught::caught;
use crate::report::statistics::{Seen, Standing};

/// How long the end of a job waits for its statistics to be in storage: the logs bring them once more.
const AT_THE_END: Duration = Duration::from_secs(2);
/// How long a look at the job waits until they are in the ledger.
const PUBLISHING: Duration = Duration::from_secs(2);

impl Watch<'_> {
    /// Takes in what a look showed.
    pub(super) fn observe_statistics(&mut self, seen: &Snapshot) {
        let progress = &seen.progress;
        let counts =
            Seen { scheduled: progress.checkpoint.scheduled, ended: progress.ended(), items: progress.items };
        if let Some(catalog) = &mut self.catalog {
            catalog.statistics.observe(&seen.nodes, counts, now_us());
        }
        self.nodes.clone_from(&seen.nodes);
    }

    /// Writes what is due.
    pub(super) fn write_due_statistics(&mut self) {
        let Some(mut catalog) = self.catalog.take() else { return };
        catalog.statistics.note_limits(&self.standing(""));
        let mut files = std::mem::take(&mut self.statistics);
        let written = files.write_due(&catalog.statistics, &self.standing(""), Instant::now());
        // With `live`, so that both cover about the same segments.
        if let Some(tries) = catalog.tries.as_mut().filter(|_| written.contains(&Live::NAME)) {
            tries.write_directory(&self.job.work, false);
        }
        (self.statistics, self.catalog) = (files, Some(catalog));
    }

    /// Publishes in the ledger the parts that are due, while they have a reader (`is_read`).
    pub(super) async fn publish_due_statistics(&mut self, is_read: bool) {
        let due = self.published.due(is_read, Instant::now());
        let Some(catalog) = self.catalog.as_deref() else { return };
        let standing = self.standing("");
        let part = |name| Some((name, Bytes::from(catalog.statistics.part(name, &standing)?)));
        let parts: Vec<_> = due.into_iter().filter_map(part).collect();
        if parts.is_empty() {
            return;
        }
        let published = self.job.ledger.publish_statistics(&parts, self.fence);
        let failed = match tokio::time::timeout(PUBLISHING, published).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", PUBLISHING.as_secs()),
        };
        if !std::mem::replace(&mut self.is_publishing_refused, true) {
            self.journal.error(format_args!("statistics are not published in the ledger: {failed}"));
        }
    }

    /// What of the statistics tells where the job stands now.
    pub(super) fn live_now(&self) -> Option<Live> {
        Some(self.catalog.as_deref()?.statistics.standing(&self.standing("")))
    }

    /// Writes all of it, with the reason why the job ended where it did not complete.
    pub(super) fn write_last_statistics(&mut self, reason: &str) {
        let Some(mut catalog) = self.catalog.take() else { return };
        let mut files = std::mem::take(&mut self.statistics);
        if let Some(tries) = &mut catalog.tries {
            tries.write_directory(&self.job.work, true);
        }
        files.write_all(&catalog.statistics, &self.standing(reason));
        (self.statistics, self.catalog) = (files, Some(catalog));
    }

    /// Puts all of it into storage, where that is another place, before the record names it; returns where it is.
    pub(super) async fn put_statistics(&self, reason: &str) -> Option<String> {
        let catalog = self.catalog.as_deref()?;
        let place = format!("{LOGS}{FOLDER}");
        if self.job.log_shipper.is_none() {
            return Some(place);
        }
        let standing = self.standing(reason);
        let puts = NAMES.into_iter().filter_map(|name| {
            let part = catalog.statistics.part(name, &standing)?;
            let key = format!("{place}{name}");
            Some(async move { self.job.storage.put(&key, part.into(), PutMode::Overwrite).await })
        });
        match tokio::time::timeout(AT_THE_END, caught(async { join_all(puts).await })).await {
            Ok(Ok(put)) => {
                for error in put.into_iter().filter_map(Result::err) {
                    self.journal.error(format_args!("statistics are not in storage yet: {error}"));
                }
            }
            Ok(Err(panic)) => self.journal.error(format_args!("statistics are not in storage: {panic}")),
            Err(_) => self.journal.error("the statistics are not in storage yet: that takes too long"),
        }
        Some(place)
    }

    fn standing<'a>(&'a self, reason: &'a str) -> Standing<'a> {
        Standing {
            spec: &self.job.spec,
            state: self.memory.state,
            reason,
            status: &self.status,
            nodes: &self.nodes,
            started_us: self.record.started_us,
            now_us: now_us(),
        }
    }
}
