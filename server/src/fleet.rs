//! The targets of the fleet, its workers and what targets had, in memory for some seconds: autoscalers, scrapers and pages ask for the same.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use prs_common::timestamp::now_us;
use prs_jobs::fleet::{
    HISTORY_STEP, TargetCounts, TargetView, WorkerView, asks, history, note_ask, note_history, targets,
    workers,
};
use prs_jobs::index::Keeper;
use prs_jobs::{Failure, Whereabouts};
use tokio::sync::Mutex;

/// Between two looks whether a step of the history has begun, or a target has come.
const BETWEEN_NOTES: Duration = Duration::from_secs(5);
/// How old the figures may be.
const AGE: Duration = Duration::from_secs(2);
/// How old the last day of a target may be, of which a step lasts minutes.
const HISTORY_AGE: Duration = Duration::from_secs(10);
/// Looks that are kept of each kind.
const MOST_KEPT: usize = 64;

/// Between two notes that autoscalers ask for a target, which may ask each second.
const BETWEEN_ASKS: Duration = Duration::from_secs(5);
/// Longest name of a target that is noted, bytes: a token may name what is none.
const MOST_NAME: usize = 200;

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
    /// When it was noted last that autoscalers ask this server for targets, by name.
    noted_asks: std::sync::Mutex<HashMap<String, Instant>>,
    /// How long before the look autoscalers asked for targets, whichever server.
    asks: Shared<(), HashMap<String, Duration>>,
    workers: Shared<Option<String>, Vec<WorkerView>>,
    histories: Shared<String, Vec<(u64, TargetCounts)>>,
}

/// Looks that all who come within their age share, by what is looked at.
#[derive(Debug)]
struct Shared<K, T>(Mutex<HashMap<K, (Instant, Arc<T>)>>);

impl<K: Hash + Eq, T> Shared<K, T> {
    fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// What `read` reads of `key`, or was read of it within `age`.
    async fn look(
        &self,
        key: K,
        age: Duration,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Arc<T>, Failure> {
        // Who comes meanwhile waits for the one look.
        let mut kept = self.0.lock().await;
        if let Some((_, found)) = kept.get(&key).filter(|(at, _)| at.elapsed() < age) {
            return Ok(Arc::clone(found));
        }
        let at = Instant::now();
        let found = Arc::new(read.await?);
        if kept.len() >= MOST_KEPT {
            kept.retain(|_, (at, _)| at.elapsed() < age);
        }
        kept.insert(key, (at, Arc::clone(&found)));
        Ok(found)
    }
}

impl FleetView {
    pub(crate) fn new(whereabouts: Whereabouts) -> Self {
        Self {
            whereabouts,
            kept: Mutex::default(),
            noted_asks: std::sync::Mutex::default(),
            asks: Shared::new(),
            workers: Shared::new(),
            histories: Shared::new(),
        }
    }

    /// The workers of all targets or of one, as they are now, or were a moment ago.
    pub(crate) async fn workers(&self, target: Option<&str>) -> Result<Arc<Vec<WorkerView>>, Failure> {
        let read = Box::pin(workers(&self.whereabouts, target));
        self.workers.look(target.map(str::to_owned), AGE, read).await
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

    /// Whether it is to be noted that an autoscaler asks for a target.
    fn notes_ask(&self, target: &str) -> bool {
        let mut noted = self.noted_asks.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|_, at| at.elapsed() < BETWEEN_ASKS);
        target.len() <= MOST_NAME && noted.insert(target.to_owned(), Instant::now()).is_none()
    }

    /// Notes that an autoscaler asks for a target. Its answer does not hang on that.
    pub(crate) async fn is_asked(&self, target: &str) {
        if self.notes_ask(target)
            && let Err(failure) = note_ask(&self.whereabouts, target).await
        {
            tracing::debug!(%failure, target, "pages do not tell that an autoscaler asked");
        }
    }

    /// How long ago autoscalers asked for targets last, any server, by their names: a few seconds more or less.
    pub(crate) async fn asks(&self) -> Result<Arc<HashMap<String, Duration>>, Failure> {
        let read = Box::pin(asks(&self.whereabouts));
        self.asks.look((), AGE, read).await
    }

    /// What a target wanted and had over the last day.
    pub(crate) async fn history(&self, target: &str) -> Result<Arc<Vec<(u64, TargetCounts)>>, Failure> {
        let read = Box::pin(history(&self.whereabouts, target));
        self.histories.look(target.to_owned(), HISTORY_AGE, read).await
    }

    /// Notes the history of the targets, for ever, while this server is the one that keeps the index of jobs as `owner`; ends at once
    /// where there is no fleet.
    pub(crate) async fn keep_history(&self, owner: &str) {
        if self.whereabouts.urls.is_none() {
            return;
        }
        // The step that was noted last, and the targets that were there by then: another may come while it lasts.
        let (mut noted, mut known) = (0, HashSet::new());
        loop {
            let step = now_us() / HISTORY_STEP.as_micros() as u64;
            if noted != step {
                (noted, known) = (step, HashSet::new());
            }
            if let Err(failure) = self.note(owner, &mut known).await {
                tracing::debug!(%failure, "the history of the targets has a gap");
            }
            tokio::time::sleep(BETWEEN_NOTES).await;
        }
    }

    /// Notes the targets that are not `known`, which then are.
    async fn note(&self, owner: &str, known: &mut HashSet<String>) -> Result<(), Failure> {
        if !Keeper::is_keeper(owner, &self.whereabouts).await? {
            return Ok(());
        }
        let targets = self.targets().await?;
        let is_new = |target: &&TargetView| !known.contains(&target.target);
        let new: Vec<TargetView> = targets.all.iter().filter(is_new).cloned().collect();
        note_history(&self.whereabouts, &new).await?;
        known.extend(new.into_iter().map(|target| target.target));
        Ok(())
    }
}
