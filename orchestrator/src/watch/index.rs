//! What lists of jobs say of the job, while it is watched: a change of its state at once, its progress every few seconds. Nothing of
//! it fails the job or keeps it waiting for long.

use std::time::{Duration, Instant};

use prs_common::layout;
use prs_common::ledger::{JobState, Noted};

use super::Watch;
use crate::job::record::JobRecord;
use crate::report::summary::of_record;

/// Between two notes of the progress.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long a look at the job waits until one is in the ledger.
const PATIENCE: Duration = Duration::from_secs(2);

/// When the index was told what.
#[derive(Debug, Default)]
pub(super) struct ToldIndex {
    last: Option<(JobState, Instant)>,
}

impl ToldIndex {
    /// Whether it is time to tell, and that it is told then.
    fn is_due(&mut self, state: JobState, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|(told, at)| told != state || now >= at + INTERVAL);
        if is_due {
            self.last = Some((state, now));
        }
        is_due
    }
}

impl Watch<'_> {
    /// Takes over what people say of the job now: its record changes while it is watched.
    async fn heed_words(&mut self) {
        let storage = &*self.job.storage;
        let Ok(found) = storage.head(layout::JOB).await else { return };
        if self.words_of.as_ref().or(self.record.version.as_ref()) == Some(&found.version) {
            return;
        }
        if let Ok(found) = JobRecord::read(storage).await
            && found.incarnation == self.record.incarnation
        {
            self.words_of.clone_from(&found.version);
            self.record.take_over(&found);
        }
    }

    /// Notes in the index of jobs where the job stands, when that is due.
    pub(super) async fn tell_index(&mut self) {
        let state = self.memory.state;
        let is_listed = self.job.active.is_some() && self.record.parent.is_none();
        if !is_listed || !self.told_index.is_due(state, Instant::now()) {
            return;
        }
        let noted = async {
            self.heed_words().await;
            let live = self.live_now();
            let summary = of_record(&self.record, state, &self.status, live);
            summary.note(&*self.job.membership, Noted::Now).await
        };
        match tokio::time::timeout(PATIENCE, noted).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(job = self.job.id, %error, "lists show the job a little later"),
            Err(_) => tracing::debug!(job = self.job.id, "lists show the job a little later: no answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_told_at_once_and_progress_now_and_then() {
        let (mut told, start) = (ToldIndex::default(), Instant::now());
        for (second, state, expected) in [
            (0, JobState::Queued, true),
            (1, JobState::Queued, false),
            (1, JobState::Running, true),
            (5, JobState::Running, false),
            (6, JobState::Running, true),
            (7, JobState::Completed, true),
        ] {
            assert_eq!(told.is_due(state, start + Duration::from_secs(second)), expected, "{second}");
        }
    }
}
