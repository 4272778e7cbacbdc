//! All jobs, in memory. Filters, orders and pages of lists cost no read.
//!
//! Of a fleet it is a copy of the index in the ledger, which asks what changed, once a second. While the ledger is away, and for the
//! jobs of a folder, a summary of each is made here, and jobs are looked at again where something may have changed.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use prs_common::layout;
use prs_common::timestamp::now_us;
use prs_jobs::homes::{self, Home, Seen};
use prs_jobs::index::{self, IndexCopy, Keeper};
use prs_jobs::{Failure, Whereabouts};
use tokio::sync::Mutex;

pub(crate) use prs_jobs::index::JobSummary as Summary;

/// How old the list may be.
const AGE: Duration = Duration::from_secs(1);
/// The same where each look reads storage, for the ledger is away.
const AGE_WITHOUT_LEDGER: Duration = Duration::from_secs(2);

/// All jobs at one moment, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) jobs: Vec<Arc<Summary>>,
    /// Jobs found so far, and jobs there are, while the index of the fleet is filled from storage.
    pub(crate) partial: Option<(u64, u64)>,
    /// When it was made, microseconds since the Unix epoch.
    pub(crate) made_us: u64,
}

/// The list of jobs, kept between requests.
#[derive(Debug)]
pub(crate) struct Index {
    whereabouts: Whereabouts,
    kept: Mutex<Kept>,
    /// How many jobs the list had last, and when that was.
    standing: std::sync::Mutex<(usize, Instant)>,
    keeper: Mutex<Keeper>,
    owner: String,
}

#[derive(Debug, Default)]
struct Kept {
    /// What the ledger's index has.
    copy: IndexCopy,
    /// What was looked at here.
    known: HashMap<String, Known>,
    snapshot: Arc<Snapshot>,
    /// When it was made, and until when it does.
    made: Option<(Instant, Duration)>,
    /// The folder of the runs of this machine, when jobs were seen in it last.
    folder: Option<Place>,
}

/// Tells a folder from whatever else has its name before or later.
type Place = (u64, u64);

#[derive(Debug, Clone)]
struct Known {
    /// When the record was written, where the home tells that without reading it.
    written: Option<SystemTime>,
    summary: Arc<Summary>,
}

impl Index {
    /// The list of the jobs there. `owner` is a name that no other program has.
    pub(crate) fn new(whereabouts: Whereabouts, owner: String) -> Self {
        let (kept, standing) = (Mutex::default(), std::sync::Mutex::new((0, Instant::now())));
        let keeper = Mutex::new(Keeper::new(owner.clone()));
        Self { whereabouts, kept, standing, keeper, owner }
    }

    /// The name with which this server keeps the index.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// All jobs, as they are now or were a moment ago.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        // Who comes meanwhile waits for the one look.
        let mut kept = self.kept.lock().await;
        if kept.made.is_some_and(|(made, age)| made.elapsed() < age) {
            return Ok(Arc::clone(&kept.snapshot));
        }
        let began = Instant::now();
        self.look(&mut kept).await?;
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = (kept.snapshot.jobs.len(), began);
        Ok(Arc::clone(&kept.snapshot))
    }

    /// How many jobs the list has, and how long ago it was brought up to date, or the server started.
    pub(crate) fn standing(&self) -> (usize, Duration) {
        let (jobs, at) = *self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        (jobs, at.elapsed())
    }

    /// Keeps the copy up to date, and the index of the fleet true, for ever; ends at once where there is no fleet.
    pub(crate) async fn keep(&self) {
        if self.whereabouts.urls.is_none() {
            return;
        }
        let mut keeper = self.keeper.lock().await;
        loop {
            tokio::time::sleep(AGE).await;
            let tended = async {
                self.snapshot().await?;
                let copy = {
                    let kept = self.kept.lock().await;
                    keeper.is_due(&kept.copy).then(|| kept.copy.clone())
                };
                match copy {
                    Some(copy) => keeper.tend(&self.whereabouts, &copy).await,
                    None => Ok(()),
                }
            };
            if let Err(failure) = Box::pin(tended).await {
                tracing::debug!(%failure, "the index of jobs is brought up to date later");
            }
        }
    }

    /// Brings the list up to date.
    async fn look(&self, kept: &mut Kept) -> Result<(), Failure> {
        let made = Instant::now();
        if index::refresh(&self.whereabouts, &mut kept.copy).await?.is_some() {
            kept.known.clear();
            let (jobs, partial) = (kept.copy.jobs().to_vec(), kept.copy.partial());
            kept.snapshot = Arc::new(Snapshot { jobs, partial, made_us: now_us() });
            kept.made = Some((made, AGE));
            return Ok(());
        }
        if kept.known.is_empty() {
            let of = |job: &Arc<Summary>| Known { written: None, summary: Arc::clone(job) };
            let known = kept.copy.jobs().iter().map(|job| (job.job_id.clone(), of(job)));
            kept.known = known.collect();
        }
        let known = self.look_at_homes(&kept.known).await?;
        if self.whereabouts.urls.is_none() {
            let place = place_of(&self.whereabouts.runs);
            if known.is_empty() && !kept.known.is_empty() && place != kept.folder {
                return Err(Failure::server(OtherFolder(self.whereabouts.runs.clone())));
            }
            kept.folder = place;
        }
        kept.known = known;
        let mut jobs: Vec<_> = kept.known.values().map(|known| Arc::clone(&known.summary)).collect();
        jobs.sort_by(|one, other| (other.submitted_us, &other.job_id).cmp(&(one.submitted_us, &one.job_id)));
        kept.snapshot = Arc::new(Snapshot { jobs, partial: None, made_us: now_us() });
        let age = if self.whereabouts.urls.is_some() { AGE_WITHOUT_LEDGER } else { AGE };
        kept.made = Some((Instant::now(), age));
        Ok(())
    }

    /// Has all servers list a job as it was seen, which was just changed.
    pub(crate) async fn note(&self, seen: &Seen) {
        index::note(&self.whereabouts, seen).await;
    }

    /// Looks at the job that is called so again, whatever was seen of it.
    pub(crate) async fn forget(&self, called: &str) {
        let mut kept = self.kept.lock().await;
        kept.known.remove(called);
        kept.made = None;
    }

    /// Looks at the jobs that may have changed.
    async fn look_at_homes(
        &self,
        before: &HashMap<String, Known>,
    ) -> Result<HashMap<String, Known>, Failure> {
        let whereabouts = &self.whereabouts;
        let active = homes::active_ids(whereabouts).await?;
        let (mut known, mut to_look_at) = (HashMap::new(), Vec::new());
        for home in homes::all(whereabouts).await? {
            let (called, written) = (home.called(), written(&home));
            let unchanged = before.get(&called).filter(|known| {
                known.summary.state.is_final() && known.written == written && !active.contains(&called)
            });
            match unchanged {
                Some(unchanged) => drop(known.insert(called, unchanged.clone())),
                None => to_look_at.push((called, written, home)),
            }
        }
        let (marks, to_look_at): (Vec<_>, Vec<_>) =
            to_look_at.into_iter().map(|(called, written, home)| ((called, written), home)).unzip();
        let seen = homes::look_at_each(to_look_at, &*whereabouts.caller).await?;
        for ((called, written), seen) in marks.into_iter().zip(seen) {
            if let Some(seen) = seen {
                known.insert(called, Known { written, summary: Arc::new(index::summary(&seen)) });
            }
        }
        Ok(known)
    }
}

/// Why no job is shown: nobody removed them.
#[derive(Debug, thiserror::Error)]
#[error("{} is another folder than before, and has no job: mount the one that had them, or start the server again", .0.display())]
struct OtherFolder(PathBuf);

fn place_of(folder: &Path) -> Option<Place> {
    std::fs::metadata(folder).ok().map(|folder| (folder.dev(), folder.ino()))
}

/// When the record of a job of this machine was written last.
fn written(home: &Home) -> Option<SystemTime> {
    std::fs::metadata(home.run_folder()?.join(layout::JOB)).ok()?.modified().ok()
}
