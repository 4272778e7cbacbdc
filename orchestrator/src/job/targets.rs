//! What compute targets want and have: how many nodes their jobs can use now, and who is there. An autoscaler starts workers by it.
//!
//! Which jobs there are, storage says: its list is complete also where the ledger was lost, and where no worker ever was that would
//! have filled it. What they have done, the ledger says. Where one of the two does not answer there is no figure, for a figure
//! that is too low would let an autoscaler end what is needed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use prs_common::ledger::{JobProgress, JobState, Ledger, LedgerError, LedgerErrorKind, NodeView, Offered};
use prs_common::storage::Storage;
use serde::Serialize;

use super::ServerError;
use super::active::active_starts;
use super::fleet::job_storage;
use super::membership::LOOKS_WITHIN;
use super::policy::Policy;
use super::record::{JobRecord, JobRecordError, run_name};
use super::workers::{SILENT_IS_SHOWN, WorkerView, of_one_target};

/// What a compute target wants and has.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TargetView {
    /// The target.
    pub target: String,
    /// Nodes that its jobs can use now, those at work among them.
    pub wanted_nodes: u64,
    /// Nodes that its jobs ask for altogether; unlike the number above it stays to their end.
    pub asked_nodes: u64,
    /// Nodes that serve its jobs.
    pub live_nodes: u64,
    /// Workers without a job that look for one of this target, and were not asked to leave.
    pub idle_workers: u64,
    /// Workers that serve its jobs, and were not asked to leave.
    pub serving_workers: u64,
    /// Workers that were asked to leave.
    pub draining_workers: u64,
    /// Workers of which nothing was heard for ten seconds, in the last minute.
    pub silent_workers: u64,
    /// Workers that are missing: `wanted_nodes` without `live_nodes` and `idle_workers`.
    pub workers_needed: u64,
    /// Mini-batches that are planned, and that no node has.
    pub waiting_mini_batches: u64,
    /// Mini-batches that a node has.
    pub in_flight_mini_batches: u64,
    /// Jobs that have not ended.
    pub jobs: u64,
    /// Of these, by their state.
    pub jobs_by_state: BTreeMap<&'static str, u64>,
    /// Jobs that nobody watches over.
    pub unwatched_jobs: u64,
    /// How long the job that waits longest for a node has been waiting, seconds; 0 where none does.
    pub oldest_wait_seconds: f64,
    /// How long ago the job with nodes that waits longest for an outcome had its last one, or its first node, seconds; 0 where none waits.
    pub progress_age_seconds: f64,
}

impl TargetView {
    /// A target that nobody ever named, or that of a machine without a fleet.
    pub fn none(target: &str) -> Self {
        view(target, &[], WorkerCounts::default(), 0)
    }
}

/// A job that has not ended, as far as its nodes go.
#[derive(Debug, Clone, Default, PartialEq)]
struct Wanting {
    /// Nodes that it asks for.
    asked: u32,
    /// When this start of it was asked for, microseconds since the Unix epoch.
    started_us: u64,
    state: Option<JobState>,
    is_watched: bool,
    /// Its counts; nothing where the ledger knows none.
    progress: Option<JobProgress>,
    /// Nodes that serve it.
    nodes: u64,
    /// Mini-batches that these have.
    in_hand: u64,
    /// How long ago an outcome came last, or a node where there was none.
    unmoved: Option<Duration>,
}

/// Returns how many nodes a job can use now that asks for `asked`. Without its counts it can use all of these.
pub fn wanted_nodes(asked: u32, progress: Option<&JobProgress>) -> u64 {
    let asked = u64::from(asked).max(1);
    match progress {
        // One has to end it, whatever is left.
        Some(progress) if progress.conclusion.is_some() => 1,
        Some(progress) if progress.checkpoint.complete => left(progress).clamp(1, asked),
        // How much there is to do is not known yet.
        _ => asked,
    }
}

/// Returns how many mini-batches are planned and without an outcome.
fn left(progress: &JobProgress) -> u64 {
    progress.checkpoint.scheduled.saturating_sub(progress.ended())
}

impl Wanting {
    /// Mini-batches that are planned and without an outcome.
    fn left(&self) -> u64 {
        self.progress.as_ref().map_or(0, left)
    }

    /// Nodes that it can use now.
    fn wanted(&self) -> u64 {
        wanted_nodes(self.asked, self.progress.as_ref())
    }
}

/// Workers of a target, by what they are at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct WorkerCounts {
    idle: u64,
    serving: u64,
    draining: u64,
    silent: u64,
}

impl WorkerCounts {
    /// The counts of these workers. Idle are those that looked for a job a moment ago: a later one may have ended without a word.
    fn of(workers: &[WorkerView]) -> Self {
        let count = |state: &'static str| workers.iter().filter(move |worker| worker.state == state);
        let looks = |worker: &&WorkerView| worker.last_seen_seconds <= LOOKS_WITHIN.as_secs_f64();
        Self {
            idle: count("idle").filter(looks).count() as u64,
            serving: count("serving").count() as u64,
            draining: count("draining").count() as u64,
            silent: count("silent").count() as u64,
        }
    }
}

/// What a target wants and has, of its `jobs` and its workers, at `now_us`.
fn view(target: &str, jobs: &[Wanting], workers: WorkerCounts, now_us: u64) -> TargetView {
    let sum = |of: fn(&Wanting) -> u64| jobs.iter().map(of).sum::<u64>();
    let (wanted, live) = (sum(Wanting::wanted), sum(|job| job.nodes));
    let in_flight = sum(|job| job.in_hand.min(job.left()));
    let mut by_state = BTreeMap::from(STATES.map(|state| (state.as_str(), 0)));
    for job in jobs {
        *by_state.entry(job.state.unwrap_or(JobState::Queued).as_str()).or_default() += 1;
    }
    let waits = jobs.iter().filter(|job| job.nodes == 0).map(|job| now_us.saturating_sub(job.started_us));
    let unmoved = jobs.iter().filter(|job| job.nodes > 0).filter_map(|job| job.unmoved);
    TargetView {
        target: target.to_owned(),
        wanted_nodes: wanted,
        asked_nodes: sum(|job| u64::from(job.asked)),
        live_nodes: live,
        idle_workers: workers.idle,
        serving_workers: workers.serving,
        draining_workers: workers.draining,
        silent_workers: workers.silent,
        workers_needed: wanted.saturating_sub(live + workers.idle),
        waiting_mini_batches: sum(Wanting::left) - in_flight,
        in_flight_mini_batches: in_flight,
        jobs: jobs.len() as u64,
        jobs_by_state: by_state,
        unwatched_jobs: jobs.iter().filter(|job| !job.is_watched).count() as u64,
        oldest_wait_seconds: waits.max().unwrap_or(0) as f64 / 1e6,
        progress_age_seconds: unmoved.max().unwrap_or_default().as_secs_f64(),
    }
}

/// The states of jobs that have not ended.
const STATES: [JobState; 4] =
    [JobState::Queued, JobState::Scheduling, JobState::Running, JobState::Finalizing];

/// The targets that jobs or workers name, with what each wants and has; by name.
///
/// # Errors
/// Storage or ledger does not say.
pub async fn targets(
    storage: &dyn Storage,
    ledger: &dyn Ledger,
    now_us: u64,
) -> Result<Vec<TargetView>, ServerError> {
    let active = active_starts(storage).await?;
    let draining = ledger.draining().await?;
    let mut names: BTreeSet<String> = ledger.targets().await?.into_iter().collect();
    names.extend(active.keys().cloned());
    let mut found = Vec::new();
    for name in names {
        let starts = active.get(&name).map(Vec::as_slice).unwrap_or_default();
        found.push(of_target(storage, ledger, (&name, starts), &draining, now_us).await?);
    }
    Ok(found)
}

/// What one target wants and has; zeros where nobody ever named it.
///
/// # Errors
/// Storage or ledger does not say.
pub async fn target(
    storage: &dyn Storage,
    ledger: &dyn Ledger,
    name: &str,
    now_us: u64,
) -> Result<TargetView, ServerError> {
    let active = active_starts(storage).await?;
    let starts = active.get(name).map(Vec::as_slice).unwrap_or_default();
    let draining = ledger.draining().await?;
    of_target(storage, ledger, (name, starts), &draining, now_us).await
}

async fn of_target(
    storage: &dyn Storage,
    ledger: &dyn Ledger,
    (name, starts): (&str, &[(String, u32)]),
    draining: &HashMap<String, String>,
    now_us: u64,
) -> Result<TargetView, ServerError> {
    let policy = Policy::fleet();
    let offers = ledger.offers(name, None, policy.lost).await?;
    let idle = ledger.idle_workers(name, SILENT_IS_SHOWN).await?;
    let (mut jobs, mut at_work) = (Vec::new(), Vec::new());
    for (job_id, start) in starts {
        let run = run_name(job_id, *start);
        let offered = offers.offered.iter().find(|offered| offered.offer.run == run);
        if let Some((job, nodes)) = wanting(storage, ledger, (job_id, &run), offered, &policy).await? {
            jobs.push(job);
            at_work.extend(nodes.into_iter().map(|node| (job_id.as_str(), node)));
        }
    }
    let workers = WorkerCounts::of(&of_one_target(name, idle, at_work, draining));
    Ok(view(name, &jobs, workers, now_us))
}

/// What a start of a job wants, and its nodes; nothing where there is none that could be served.
async fn wanting(
    storage: &dyn Storage,
    ledger: &dyn Ledger,
    (job_id, run): (&str, &str),
    offered: Option<&Offered>,
    policy: &Policy,
) -> Result<Option<(Wanting, Vec<NodeView>)>, ServerError> {
    let (asked, started_us) = match offered {
        Some(Offered { offer, .. }) => (offer.nodes, offer.started_us),
        // The ledger has lost it, or has yet to hear of it.
        None => match JobRecord::read(&*job_storage(storage, job_id)).await {
            Ok(record) => (record.spec.node_count, record.started_us),
            Err(JobRecordError::Storage(error)) => return Err(error.into()),
            Err(error) => {
                tracing::debug!(job = job_id, %error, "no worker is wanted for it");
                return Ok(None);
            }
        },
    };
    let job = ledger.job(run);
    let nodes = known(job.nodes().await)?.unwrap_or_default();
    let present: Vec<&NodeView> = nodes.iter().filter(|node| policy.is_present(node)).collect();
    let of_ledger = offered.and_then(|offered| offered.known);
    let wanting = Wanting {
        asked,
        started_us,
        state: of_ledger.map(|known| known.state),
        is_watched: of_ledger.is_some_and(|known| known.is_watched),
        progress: known(job.progress().await)?,
        nodes: present.len() as u64,
        in_hand: present.iter().map(|node| node.report.in_hand).sum(),
        unmoved: offered.and_then(|offered| offered.unmoved),
    };
    Ok(Some((wanting, nodes)))
}

/// What the ledger says of a job; nothing where it does not know it.
fn known<T>(said: Result<T, LedgerError>) -> Result<Option<T>, LedgerError> {
    match said {
        Ok(said) => Ok(Some(said)),
        Err(error) if error.kind == LedgerErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::{Checkpoint, Conclusion};

    use super::*;

    fn progress(complete: bool, scheduled: u64, ended: u64) -> JobProgress {
        let checkpoint = Checkpoint { scheduled, complete, ..Checkpoint::default() };
        JobProgress { checkpoint, succeeded: ended, ..JobProgress::default() }
    }

    #[test]
    fn a_job_wants_as_many_nodes_as_it_can_use() {
        let concluded = |progress: JobProgress| {
            let end = Conclusion { state: JobState::Canceled, reason: "asked".to_owned() };
            JobProgress { conclusion: Some(end), ..progress }
        };
        for (asked, progress, expected) in [
            (4, None, 4),
            (0, None, 1),
            // Not all is planned.
            (4, Some(progress(false, 0, 0)), 4),
            (4, Some(progress(false, 100, 99)), 4),
            // All is planned.
            (4, Some(progress(true, 100, 0)), 4),
            (4, Some(progress(true, 100, 96)), 4),
            (4, Some(progress(true, 100, 97)), 3),
            (4, Some(progress(true, 100, 99)), 1),
            // The record has to be written.
            (4, Some(progress(true, 100, 100)), 1),
            (4, Some(progress(true, 0, 0)), 1),
            (4, Some(progress(true, 100, 101)), 1),
            // It ends early.
            (4, Some(concluded(progress(false, 100, 3))), 1),
            (4, Some(concluded(progress(true, 100, 3))), 1),
        ] {
            let job = Wanting { asked, progress: progress.clone(), ..Wanting::default() };
            assert_eq!(job.wanted(), expected, "{asked} {progress:?}");
        }
    }

    #[test]
    fn a_target_wants_what_its_jobs_want_together() {
        let jobs = [
            Wanting {
                asked: 4,
                started_us: 1_000_000,
                state: Some(JobState::Running),
                is_watched: true,
                progress: Some(progress(true, 100, 40)),
                nodes: 2,
                in_hand: 10,
                unmoved: Some(Duration::from_secs(7)),
            },
            // Its last mini-batches: nobody is asked to end.
            Wanting {
                asked: 8,
                state: Some(JobState::Running),
                is_watched: true,
                progress: Some(progress(true, 50, 48)),
                nodes: 2,
                in_hand: 5,
                unmoved: Some(Duration::from_millis(2_500)),
                ..Wanting::default()
            },
            // Its nodes have gone: nothing can come.
            Wanting {
                asked: 3,
                started_us: 2_500_000,
                unmoved: Some(Duration::from_hours(1)),
                ..Wanting::default()
            },
        ];
        let workers = WorkerCounts { idle: 1, serving: 3, draining: 1, silent: 2 };
        let found = view("default", &jobs, workers, 4_000_000);
        assert_eq!((found.serving_workers, found.draining_workers, found.silent_workers), (3, 1, 2));
        assert_eq!(
            (found.wanted_nodes, found.asked_nodes, found.live_nodes, found.workers_needed),
            (4 + 2 + 3, 15, 4, 4)
        );
        assert_eq!((found.waiting_mini_batches, found.in_flight_mini_batches), (50, 12));
        assert_eq!((found.jobs, found.jobs_by_state["running"], found.jobs_by_state["queued"]), (3, 2, 1));
        let ages = (found.oldest_wait_seconds, found.progress_age_seconds);
        assert_eq!((found.unwatched_jobs, ages), (1, (1.5, 7.0)));
        let idle = WorkerCounts { idle: 3, ..WorkerCounts::default() };
        let none = view("gpu", &[], idle, 4_000_000);
        assert_eq!((none.wanted_nodes, none.workers_needed, none.idle_workers), (0, 0, 3));
        assert_eq!(none.jobs_by_state.len(), 4, "each state has its zero");
    }
}
