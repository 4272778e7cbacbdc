//! The notes of a start on its plan, written while the plan is published.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::layout;
use prs_common::storage::Storage;
use tokio::task::JoinSet;

use super::{PART, may_change, put_part};
use crate::JobContext;

/// How long a descriptor that is published may be without its note.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Notes what is published, beside the publishing. A note that cannot be written costs a later start no more than what it
/// would have told.
pub(crate) struct NotedPlan {
    storage: Arc<dyn Storage>,
    start: u32,
    part: u32,
    bodies: Vec<Bytes>,
    bytes: usize,
    written: Option<Instant>,
    writing: JoinSet<()>,
}

impl NotedPlan {
    /// The notes of `job` on its plan, unless that is stored already or its inputs stay.
    pub(crate) fn of(job: &JobContext) -> Option<Self> {
        (job.corrected.is_none() && may_change(&job.spec)).then(|| Self {
            storage: Arc::clone(&job.storage),
            start: job.incarnation,
            part: 0,
            bodies: Vec::new(),
            bytes: 0,
            written: None,
            writing: JoinSet::new(),
        })
    }

    /// Takes in descriptors that are about to be published.
    pub(crate) fn add(&mut self, bodies: &[Bytes]) {
        self.bodies.extend_from_slice(bodies);
        self.bytes += bodies.iter().map(Bytes::len).sum::<usize>();
        self.write_due();
    }

    /// Writes what has waited long enough, or is enough.
    pub(crate) fn write_due(&mut self) {
        let is_due = self.written.is_none_or(|written| written.elapsed() >= LONGEST_WAIT);
        if is_due || self.bytes >= PART {
            self.write();
        }
    }

    /// Writes what is left, and waits until all is written.
    pub(crate) async fn finish(&mut self) {
        self.write();
        while self.writing.join_next().await.is_some() {}
    }

    fn write(&mut self) {
        if self.bodies.is_empty() {
            return;
        }
        let (storage, key) = (Arc::clone(&self.storage), layout::noted_plan(self.start, self.part));
        let bodies = std::mem::take(&mut self.bodies);
        (self.bytes, self.written) = (0, Some(Instant::now()));
        self.part += 1;
        self.writing.spawn(async move {
            if let Err(error) = put_part(&*storage, key, bodies).await {
                tracing::warn!(%error, "a later start of the job will not know all of this plan");
            }
        });
    }
}
