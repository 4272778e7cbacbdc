//! All jobs, in memory: a summary of each, looked at again where something may have changed, once a second at most and only while
//! somebody asks. Filters, orders and pages of lists cost no read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use prs_common::job::NamedAsset;
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::registry::Use;
use prs_common::timestamp::now_us;
use prs_jobs::attention::attention;
use prs_jobs::homes::{self, Home, Seen};
use prs_jobs::phase::phase;
use prs_jobs::{Failure, Whereabouts};
use prs_orchestrator::job::record::{ItemCounts, MiniBatchCounts};
use prs_portal::attention::Attention;
use tokio::sync::Mutex;

/// How old the list may be: of a folder, and of a fleet, where a look costs requests.
const AGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(2));

/// What a list says of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary {
    pub(crate) job_id: String,
    pub(crate) name: String,
    pub(crate) display_name: Option<String>,
    pub(crate) state: JobState,
    /// Whether it completed with every item; nothing before its end.
    pub(crate) complete: Option<bool>,
    pub(crate) reason: Option<String>,
    pub(crate) target: String,
    pub(crate) submitted_us: u64,
    pub(crate) ended_us: Option<u64>,
    pub(crate) tags: BTreeMap<String, String>,
    /// The endpoint that was called, and the deployment that answered.
    pub(crate) deployed: Option<(String, String)>,
    pub(crate) mini_batches: MiniBatchCounts,
    pub(crate) items: ItemCounts,
    pub(crate) seconds: f64,
    /// Mini-batches a second; 0 where it does not run.
    pub(crate) per_second: f64,
    pub(crate) eta_seconds: Option<f64>,
    /// What needs a person, the worst of it; nothing where all is well.
    pub(crate) attention: Option<Attention>,
    /// What it does at the moment; nothing once it has ended.
    pub(crate) phase: Option<String>,
    /// When its last start was asked for, microseconds since the Unix epoch.
    pub(crate) started_us: u64,
    /// Who handed it in.
    pub(crate) submitted_by: Option<String>,
    /// The pipeline that it is a step of.
    pub(crate) parent: Option<String>,
    /// Which start of the job it is, from 1.
    pub(crate) start: u32,
    /// What is registered and it uses.
    pub(crate) uses: Vec<Use>,
}

/// All jobs at one moment, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) jobs: Vec<Arc<Summary>>,
    /// When it was made, microseconds since the Unix epoch.
    pub(crate) made_us: u64,
}

/// The list of jobs, kept between requests.
#[derive(Debug)]
pub(crate) struct Index {
    whereabouts: Whereabouts,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    known: HashMap<String, Known>,
    snapshot: Arc<Snapshot>,
    made: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Known {
    /// When the record was written, where the home tells that without reading it.
    written: Option<SystemTime>,
    summary: Arc<Summary>,
}

impl Index {
    /// The list of the jobs there.
    pub(crate) fn new(whereabouts: Whereabouts) -> Self {
        Self { whereabouts, kept: Mutex::default() }
    }

    /// All jobs, as they are now or were a moment ago.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        // Who comes meanwhile waits for the one look.
        let mut kept = self.kept.lock().await;
        let age = if self.whereabouts.urls.is_some() { AGE.1 } else { AGE.0 };
        if kept.made.is_some_and(|made| made.elapsed() < age) {
            return Ok(Arc::clone(&kept.snapshot));
        }
        let known = self.look(&kept.known).await?;
        let mut jobs: Vec<_> = known.values().map(|known| Arc::clone(&known.summary)).collect();
        jobs.sort_by(|one, other| (other.submitted_us, &other.job_id).cmp(&(one.submitted_us, &one.job_id)));
        let snapshot = Arc::new(Snapshot { jobs, made_us: now_us() });
        *kept = Kept { known, snapshot: Arc::clone(&snapshot), made: Some(Instant::now()) };
        Ok(snapshot)
    }

    /// Looks at the job that is called so again, whatever was seen of it.
    pub(crate) async fn forget(&self, called: &str) {
        let mut kept = self.kept.lock().await;
        kept.known.remove(called);
        kept.made = None;
    }

    /// Looks at the jobs that may have changed.
    async fn look(&self, before: &HashMap<String, Known>) -> Result<HashMap<String, Known>, Failure> {
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
                known.insert(called, Known { written, summary: Arc::new(Summary::of(&seen)) });
            }
        }
        Ok(known)
    }
}

/// When the record of a job of this machine was written last.
fn written(home: &Home) -> Option<SystemTime> {
    std::fs::metadata(home.run_folder()?.join(layout::JOB)).ok()?.modified().ok()
}

impl Summary {
    /// What a list says of a job as it was seen.
    pub(crate) fn of(seen: &Seen) -> Self {
        let Seen { record, result, .. } = seen;
        let shown = seen.shown().honest();
        let runs = !result.state.is_final();
        let deployed = record.spec.deployed.as_ref();
        Self {
            job_id: result.job_id.clone(),
            name: result.name.clone(),
            display_name: record.spec.display_name.clone(),
            state: result.state,
            complete: (!runs).then_some(result.findings.complete),
            reason: result.reason.clone(),
            target: record.spec.compute_target.clone(),
            submitted_us: record.submitted_us,
            ended_us: result.ended_us,
            tags: record.spec.tags.clone(),
            deployed: deployed.map(|it| (it.endpoint.clone(), it.deployment.clone())),
            mini_batches: result.mini_batches,
            items: result.items,
            seconds: result.seconds,
            per_second: if runs { shown.status.per_second } else { 0.0 },
            eta_seconds: shown.status.eta_seconds.filter(|_| runs),
            attention: attention(seen, None, &result.job_id).into_iter().next(),
            phase: phase(seen, None),
            started_us: record.started_us,
            submitted_by: record.spec.submitted_by.as_ref().map(|by| by.name.clone()),
            parent: record.parent.as_ref().map(|parent| parent.job_id.clone()),
            start: record.incarnation,
            uses: uses(seen),
        }
    }

    /// Whether it completed and items are missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.state == JobState::Completed && self.complete == Some(false)
    }
}

/// What is registered and the job uses, its steps too.
fn uses(seen: &Seen) -> Vec<Use> {
    let record = &seen.record;
    let steps = record.pipeline.iter().flat_map(|plan| &plan.pipeline.steps).map(|step| &step.spec);
    let named = steps.chain([&record.spec]).flat_map(|spec| &spec.named_data);
    let of = |named: &NamedAsset| Use {
        kind: named.kind,
        name: named.name.clone(),
        version: named.version.clone(),
    };
    let mut uses: Vec<Use> = named.map(of).collect();
    uses.sort_unstable();
    uses.dedup();
    uses
}
