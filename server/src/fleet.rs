//! The targets of the fleet, in memory for some seconds: autoscalers, scrapers and pages ask for the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prs_common::timestamp::now_us;
use prs_jobs::fleet::{TargetView, targets};
use prs_jobs::{Failure, Whereabouts};
use tokio::sync::Mutex;

/// How old the figures may be.
const AGE: Duration = Duration::from_secs(2);

/// The targets at one moment, by name.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    pub(crate) all: Vec<TargetView>,
    /// When they were read, microseconds since the Unix epoch.
    pub(crate) read_us: u64,
}

impl Targets {
    /// One of them; zeros where nobody named it.
    pub(crate) fn named(&self, name: &str) -> TargetView {
        let found = self.all.iter().find(|target| target.target == name);
        found.cloned().unwrap_or_else(|| TargetView::none(name))
    }
}

/// The targets, kept between requests.
#[derive(Debug)]
pub(crate) struct FleetView {
    whereabouts: Whereabouts,
    kept: Mutex<Option<(Instant, Arc<Targets>)>>,
}

impl FleetView {
    pub(crate) fn new(whereabouts: Whereabouts) -> Self {
        Self { whereabouts, kept: Mutex::default() }
    }

    /// The targets as they are now, or were a moment ago. Figures that cannot be had are never replaced by older ones.
    pub(crate) async fn targets(&self) -> Result<Arc<Targets>, Failure> {
        // Who comes meanwhile waits for the one look.
        let mut kept = self.kept.lock().await;
        if let Some((_, targets)) = kept.as_ref().filter(|(read, _)| read.elapsed() < AGE) {
            return Ok(Arc::clone(targets));
        }
        *kept = None;
        let (at, read_us) = (Instant::now(), now_us());
        let targets = Arc::new(Targets { all: targets(&self.whereabouts).await?, read_us });
        *kept = Some((at, Arc::clone(&targets)));
        Ok(targets)
    }
}
