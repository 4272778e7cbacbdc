//! The orchestrator: watches over a job from its first mini-batch to its result.
//!
//! It holds the job's lease, follows what is committed, keeps the reports, decides when failures end the job,
//! and finalizes it. It starts no work itself; the nodes learn from the ledger what the job wants.

mod ending;
mod following;
#[cfg(test)]
mod tests;
mod upkeep;

use std::time::{Duration, Instant};

use prs_common::ledger::{Conclusion, Duty, JobState, LedgerError, LedgerErrorKind, NodeView, Progress};
use prs_common::segment::SegmentError;
use prs_common::storage::StorageError;
use prs_common::timestamp::now_us;
use tokio::sync::watch::Sender;

use crate::catalog::Catalog;
use crate::damage::{self, Damaged};
use crate::job_record::{JobRecord, JobRecordError, JobResult, Rates, Status};
use crate::journal::Journal;
use crate::plan::PlanError;
use crate::report::processed_mini_batches::ProcessedMiniBatches;
use crate::report::progress_overview::describe;
use crate::{JobContext, init_failures, membership, thresholds};
use ending::nothing;
pub(crate) use ending::{fail_at_once, restore_job_result};
use upkeep::Upkeep;

/// Between two writes of `job.json` while the job runs.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);
/// Least time without progress that ends a job.
const LEAST_PATIENCE: u64 = 780;
/// Room that is kept free for the last words of a job on a full disk, bytes.
const RESERVE: usize = 256 << 10;

/// Where a job stands, for whoever looks at it in this process.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The state.
    pub state: Option<JobState>,
    /// The counts.
    pub status: Status,
}

/// Why an orchestrator cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A committed segment cannot be read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The plan cannot be compared with what was run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Committed segments are not what was written, or not of this job.
    #[error("{}", damage::describe(.0))]
    Damaged(Vec<Damaged>),
    /// Damaged segments were set aside: the ledger must be filled anew, and what has no outcome runs again.
    #[error("mini-batches run again: {reason}")]
    RunAgain {
        /// Which segments, and why.
        reason: String,
    },
    /// The logs cannot be written.
    #[error("cannot write the logs in {}: {source}", path.display())]
    Logs {
        /// The folder.
        path: std::path::PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// This host cannot make the plan.
    #[error("the plan cannot be made on this host: {reason}")]
    NoPlan {
        /// Why.
        reason: String,
    },
    /// Another node watches over the job.
    #[error("the lease of the job is held by another node")]
    NotTheOrchestrator,
    /// The ledger lost what it had: the watching must begin anew.
    #[error("the ledger lost what it knew of the job")]
    LedgerLost,
    /// The watching panicked.
    #[error("a fault of prs ended the job: {text}")]
    Panicked {
        /// The panic's words.
        text: String,
    },
    /// There is no such start of the job any more.
    #[error("the job was started anew, or removed")]
    Superseded,
    /// The job's record cannot be understood.
    #[error(transparent)]
    Record(JobRecordError),
}

impl From<JobRecordError> for WatchError {
    fn from(error: JobRecordError) -> Self {
        match error {
            JobRecordError::Storage(error) => Self::Storage(error),
            error => Self::Record(error),
        }
    }
}

impl WatchError {
    /// Whether the same may succeed later without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Ledger(error) => error.is_retryable(),
            Self::Storage(error) | Self::Segment(SegmentError::Storage(error)) => error.is_retryable(),
            Self::Plan(error) => error.is_retryable(),
            Self::Segment(_)
            | Self::Damaged(_)
            | Self::RunAgain { .. }
            | Self::Logs { .. }
            | Self::NoPlan { .. }
            | Self::NotTheOrchestrator
            | Self::LedgerLost
            | Self::Panicked { .. }
            | Self::Superseded
            | Self::Record(_) => false,
        }
    }

    /// Whether it is a fault of this host, which another one may not have.
    fn is_of_this_host(&self) -> bool {
        match self {
            Self::Logs { .. } | Self::NoPlan { .. } => true,
            Self::Plan(error) => error.is_of_this_host(),
            _ => false,
        }
    }

    /// Whether the job itself is not to blame: somebody else watches over it, everyone begins anew, or nobody knows
    /// what it is.
    fn ends_the_watch_alone(&self) -> bool {
        match self {
            Self::NotTheOrchestrator
            | Self::LedgerLost
            | Self::RunAgain { .. }
            | Self::Superseded
            | Self::Record(_) => true,
            Self::Ledger(error) => error.kind == LedgerErrorKind::NotFound,
            _ => false,
        }
    }
}

/// Watches over `job` until it has ended and returns how. `record` is the job's record as it was submitted;
/// `place` is what commands call the job.
pub async fn watch(
    job: &JobContext,
    owner: &str,
    record: JobRecord,
    place: &str,
    view: &Sender<View>,
) -> Result<JobResult, WatchError> {
    if job.ledger.lease(&job.run, Duty::Watch, owner, job.timing.lease).await?.is_none() {
        return Err(WatchError::NotTheOrchestrator);
    }
    let mut watch = match Watch::start(job, owner, record.clone(), place, view) {
        Ok(watch) => watch,
        Err(error) if others_may_serve(job, owner).await => return Err(error),
        Err(error) => return fail_at_once(job, record, error).await,
    };
    let decided = watch.until_decided().await;
    watch.upkeep.stop().await;
    let outcome = match decided {
        Ok(decision) => {
            watch.until_ended(decision).await.map_err(|error| (error, "the result cannot be written"))
        }
        Err(error) => Err((error, "the job cannot be watched over")),
    };
    let outcome = match outcome {
        Err((WatchError::Damaged(damaged), what)) => match watch.ended_early().await {
            Ok(None) => Err((watch.run_again(damaged).await, what)),
            // Nothing is to run any more.
            Ok(Some(end)) => watch.until_ended(Decision::Conclude(end)).await.map_err(|error| (error, what)),
            Err(error) => Err((error, what)),
        },
        outcome => outcome,
    };
    match outcome {
        Ok(result) => {
            watch.finish_reports(&result).await;
            Ok(result)
        }
        Err((error, _))
            if error.ends_the_watch_alone()
                || (error.is_retryable() && job.is_on_a_fleet())
                || (error.is_of_this_host() && others_may_serve(job, owner).await) =>
        {
            watch.journal.decision(format_args!("{owner} watches no longer: {error}"));
            Err(error)
        }
        // Whatever broke, the job gets an end that says so.
        Err((error, what)) => {
            let conclusion = Conclusion { state: JobState::Failed, reason: format!("{what}: {error}") };
            // It may be decided already that the job ends for another reason.
            watch.journal.error(format_args!("{}", conclusion.reason));
            let conclusion = job.ledger.conclude(&job.run, &conclusion).await?;
            if conclusion.state == JobState::Completed {
                // There is a result, and whoever watches next says so.
                return Err(error);
            }
            watch.wait_for_nodes(job.timing.leave_before_end).await;
            if let Ok(progress) = job.ledger.progress(&job.run).await {
                watch.status.progress = progress;
            }
            let result = watch.close(&conclusion, nothing(job)).await?;
            watch.finish_reports(&result).await;
            Ok(result)
        }
    }
}

/// Finishes the reports of a job that has ended, in place of an orchestrator that ended it and died.
pub(crate) async fn finish_reports(
    job: &JobContext,
    owner: &str,
    record: JobRecord,
    result: &JobResult,
) -> Result<(), WatchError> {
    let (view, _seen) = tokio::sync::watch::channel(View::default());
    let id = record.job_id.clone();
    let mut watch = Watch::start(job, owner, record, &id, &view)?;
    watch.renew().await?;
    watch.state = result.state;
    watch.status.progress = job.ledger.progress(&job.run).await?;
    let _ = std::fs::remove_file(&watch.reserve);
    watch.write_job_result(result);
    watch.finish_reports(result).await;
    Ok(())
}

/// Whether another node may do for `job` what this host cannot: one that serves it, or an idle worker that finds a seat.
async fn others_may_serve(job: &JobContext, owner: &str) -> bool {
    if !job.is_on_a_fleet() {
        return false;
    }
    let others = async {
        let mut nodes = job.ledger.nodes(&job.run).await.ok()?;
        mark_lost(job, &mut nodes);
        let is_useless = |node: &NodeView| init_failures::is_useless(&node.report);
        if nodes.iter().any(|node| !node.left && !is_useless(node) && node.info.worker != owner) {
            return Some(true);
        }
        let seats = nodes.iter().filter(|node| !node.left).count() < job.spec.node_count as usize;
        let tried = nodes.iter().filter(|node| is_useless(node)).count() as u64;
        Some(seats && membership::are_workers_idle(job, tried).await.ok()?)
    };
    // What is not known is left open.
    others.await.unwrap_or(true)
}

/// Notes nodes that were not heard of for too long as gone.
fn mark_lost(job: &JobContext, nodes: &mut [NodeView]) {
    for node in nodes {
        node.left = !job.timing.is_present(node);
    }
}

/// When a job began, on this host's clock for spans of time.
fn began(started_us: u64, now: Instant) -> Instant {
    now.checked_sub(Duration::from_micros(now_us().saturating_sub(started_us))).unwrap_or(now)
}

/// What the watching led to.
#[derive(Clone)]
enum Decision {
    Finalize,
    Conclude(Conclusion),
}

impl Decision {
    /// A job that completed has a result; whoever decided that may not have come to tell of it.
    fn of(conclusion: Conclusion) -> Self {
        if conclusion.state == JobState::Completed { Self::Finalize } else { Self::Conclude(conclusion) }
    }
}

struct Watch<'a> {
    job: &'a JobContext,
    owner: &'a str,
    place: &'a str,
    record: JobRecord,
    view: &'a Sender<View>,
    /// Absent only while it reads a segment.
    catalog: Option<Box<Catalog>>,
    followed: u64,
    /// Key of the last segment that was followed.
    last_followed: Option<String>,
    upkeep: Upkeep,
    started: Instant,
    watched_since: Instant,
    state: JobState,
    status: Status,
    rates: Rates,
    moved: (Instant, (u64, u64, u64)),
    /// How many seats were taken at the last look.
    seats_taken: usize,
    /// When the last node joined, and how many there were with it.
    joined: (Instant, usize),
    journal: Journal,
    overview_at: Instant,
    record_at: Instant,
    reserve: std::path::PathBuf,
    /// Whether the record says how the job ended.
    is_recorded: bool,
}

impl<'a> Watch<'a> {
    fn start(
        job: &'a JobContext,
        owner: &'a str,
        record: JobRecord,
        place: &'a str,
        view: &'a Sender<View>,
    ) -> Result<Self, WatchError> {
        let logs = &job.logs;
        let failed = |source| WatchError::Logs { path: logs.clone(), source };
        let report = ProcessedMiniBatches::create(&logs.join("sys/job_report/processed_mini-batches.csv"))
            .map_err(failed)?;
        let journal = Journal::begin(logs).map_err(failed)?;
        std::fs::create_dir_all(&job.work).map_err(failed)?;
        let reserve = job.work.join("reserve");
        std::fs::write(&reserve, vec![1; RESERVE]).map_err(failed)?;
        let now = Instant::now();
        let record_started = record.started_us;
        journal.decision(format_args!(
            "{owner} watches over job {} (start {}), {} inputs, run_max_try {}, run_invocation_timeout {} s",
            job.id,
            job.incarnation,
            job.spec.inputs.len(),
            job.spec.run_max_try,
            job.spec.run_invocation_timeout
        ));
        Ok(Self {
            job,
            owner,
            place,
            record,
            view,
            catalog: Some(Box::new(Catalog::new(job.incarnation, report))),
            followed: 0,
            last_followed: None,
            upkeep: Upkeep::new(job, owner),
            started: if job.is_on_a_fleet() { began(record_started, now) } else { now },
            watched_since: now,
            state: JobState::Queued,
            status: Status::default(),
            rates: Rates::default(),
            moved: (now, (0, 0, 0)),
            seats_taken: 0,
            joined: (now, 0),
            journal,
            overview_at: now,
            record_at: now,
            reserve,
            is_recorded: false,
        })
    }

    /// Looks at the job again and again until it is done, or must end.
    async fn until_decided(&mut self) -> Result<Decision, WatchError> {
        let mut ticks = tokio::time::interval(self.job.timing.watch);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.look().await {
                Ok(Some(decision)) => return Ok(decision),
                Ok(None) => {}
                Err(error) if error.is_retryable() => {
                    self.journal.error(format_args!("{error}; trying again"));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One look at the job.
    async fn look(&mut self) -> Result<Option<Decision>, WatchError> {
        let (job, run) = (self.job, &self.job.run);
        if let Err(error) = self.renew().await {
            if matches!(error, WatchError::NotTheOrchestrator) {
                self.journal.decision("another node has taken over");
            }
            return Err(error);
        }
        if self.state == JobState::Queued {
            // Another orchestrator may have come further.
            self.state = job.ledger.state(run).await?;
            if self.state == JobState::Queued {
                self.set_state(JobState::Scheduling).await?;
            }
        }
        let mut nodes = job.ledger.nodes(run).await?;
        self.ring_for_free_seats(&nodes).await;
        mark_lost(job, &mut nodes);
        let progress = job.ledger.progress(run).await?;
        self.journal.nodes(&nodes);
        if progress.checkpoint.complete && self.state == JobState::Scheduling {
            let scheduled = progress.checkpoint.scheduled;
            self.journal.decision(format_args!("scheduling is complete: {scheduled} mini-batches"));
            self.set_state(JobState::Running).await?;
        }
        self.update(&nodes, progress);
        let progress = &self.status.progress;
        if let Some(conclusion) = &progress.conclusion {
            let conclusion = conclusion.clone();
            return Ok(Some(Decision::of(conclusion)));
        }
        if let Some(reason) = self.reason_to_fail(&nodes) {
            let conclusion = Conclusion { state: JobState::Failed, reason };
            return Ok(Some(Decision::of(job.ledger.conclude(run, &conclusion).await?)));
        }
        let segments = progress.segments;
        self.follow(segments).await?;
        self.write_progress().await;
        self.keep_up(&nodes).await?;
        let is_complete = self.status.progress.is_complete() && self.followed >= segments;
        Ok(is_complete.then_some(Decision::Finalize))
    }

    /// Lets idle workers look at once where a node has lost its seat since the last look.
    async fn ring_for_free_seats(&mut self, nodes: &[NodeView]) {
        let seats = membership::seats(self.job);
        let taken = nodes.iter().filter(|node| !node.left && node.silent < seats.quiet).count();
        let before = std::mem::replace(&mut self.seats_taken, taken);
        if taken < before && taken < seats.count as usize {
            membership::ring(self.job).await;
        }
    }

    fn reason_to_fail(&self, nodes: &[NodeView]) -> Option<String> {
        let (spec, progress) = (&self.job.spec, &self.status.progress);
        let age = self.started.elapsed();
        if let Some(reason) = thresholds::exceeded(spec, progress) {
            return Some(reason);
        }
        if progress.is_complete() {
            return None;
        }
        let tries = u64::from(spec.run_max_try) * (spec.run_invocation_timeout + spec.task_overhead_timeout);
        let patience = spec.progress_update_timeout.unwrap_or((tries + 60).max(LEAST_PATIENCE));
        // Who takes the other seats may do what those who came first cannot (spec S8), but not for ever.
        let others_come = self.job.is_on_a_fleet() && self.joined.0.elapsed().as_secs() <= patience;
        let awaited = if others_come { spec.node_count } else { 1 };
        if let Some(reason) = init_failures::job_fails(spec, nodes, awaited, age) {
            return Some(reason);
        }
        // A job may have waited for its first worker.
        let watched = self.watched_since.elapsed().min(age);
        if progress.checkpoint.scheduled == 0 && watched.as_secs() > spec.first_task_creation_timeout {
            return Some(format!(
                "no mini-batch was scheduled within first_task_creation_timeout ({} s)",
                spec.first_task_creation_timeout
            ));
        }
        let still = self.moved.0.elapsed();
        (still.as_secs() > patience && nodes.iter().any(|node| !node.left)).then(|| {
            format!(
                "no mini-batch ended for {} s, more than progress_update_timeout ({patience} s) allows",
                still.as_secs()
            )
        })
    }

    fn update(&mut self, nodes: &[NodeView], progress: Progress) {
        let now = Instant::now();
        let mark = (progress.ended(), progress.segments, progress.checkpoint.scheduled);
        if mark != self.moved.1 {
            self.moved = (now, mark);
        }
        if nodes.len() != self.joined.1 {
            self.joined = (now, nodes.len());
        }
        self.status = Status::now(progress, nodes, &self.job.timing, self.started.elapsed());
        self.rates.apply(&mut self.status);
        self.publish_view();
    }

    fn publish_view(&self) {
        self.view.send_replace(View { state: Some(self.state), status: self.status.clone() });
    }

    async fn write_progress(&mut self) {
        let now = Instant::now();
        if now >= self.overview_at {
            self.overview_at = now + self.job.timing.overview;
            self.journal.progress(&describe(self.state, &self.status));
            self.journal.summaries(self.catalog.as_deref());
        }
        // On a fleet the ledger says where a job stands: an orchestrator that lost its lease must not write over
        // what its successor wrote.
        if now >= self.record_at && !self.job.is_on_a_fleet() {
            self.record_at = now + RECORD_INTERVAL;
            let _ = self.write_record().await;
        }
    }

    /// Brings `job.json` up to date.
    async fn write_record(&mut self) -> Result<(), StorageError> {
        self.record.state = self.state;
        self.record.status = self.status.clone();
        let written = self.record.write(&*self.job.storage).await;
        if let Err(error) = &written {
            self.journal.error(format_args!("the job's record is not up to date: {error}"));
        }
        written
    }

    async fn set_state(&mut self, state: JobState) -> Result<(), WatchError> {
        self.job.ledger.set_state(&self.job.run, state).await?;
        self.state = state;
        self.journal.decision(format_args!("the job is {}", state.as_str()));
        self.publish_view();
        Ok(())
    }
}
