//! The orchestrator: watches over a job from its first mini-batch to its result.
//!
//! It holds the job's lease and starts no work itself; the nodes learn from the ledger what the job wants. Each look is
//! three steps: it observes, the duties decide, and what they decided is done.
//!
//! | file | duty |
//! |---|---|
//! | `observe` | asks ledger, queue and scheduler; the answer is a `Snapshot`, plain data of one instant |
//! | `memory` | what has to be remembered between two looks |
//! | `duties/` | one file a duty: a pure function of snapshot, memory, policy and settings that says what to do |
//! | `act` | does it |
//! | `error` | the one table of what becomes of an error: it is tried again, handed over, or fails the job |
//! | `troubles` | which servers do not answer this host, and since when |
//! | `following`, `scheduler` | reading what was committed; publishing the plan where nobody does |
//! | `index` | what lists of jobs say of the job |
//! | `statistics` | what is published of the job while it runs |
//! | `ending`, `reports` | the end of a job up to its record; what comes after it |

mod act;
mod duties;
mod ending;
mod error;
mod findings;
mod following;
mod index;
mod memory;
mod observe;
mod reports;
mod scheduler;
mod statistics;
#[cfg(test)]
mod tests;
mod thresholds;
mod troubles;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prs_common::backoff::Backoff;
use prs_common::end_reason::EndReason;
use prs_common::ledger::{Conclusion, Duty, JobState, NodeView, Obstacle};
use prs_common::process_page::monotonic_ns;
use prs_common::stops::stopped_since;
use prs_common::storage::Version;
use prs_common::timestamp::now_us;
use prs_common::tree;
use tokio::sync::watch::Sender;

use self::duties::Situation;
use self::ending::nothing;
use self::error::{Disposition, When, disposition};
use self::index::ToldIndex;
use self::memory::Memory;
use self::observe::Snapshot;
use self::scheduler::Scheduler;
use self::troubles::{ObstacleNote, Troubles, obstacle_to_tell};
use crate::JobContext;
use crate::job::corrected_plan::PlanOrder;
use crate::job::init_failures;
use crate::job::membership;
use crate::job::reach::others_reach;
use crate::job::record::{JobRecord, JobRecordError, JobResult, Rates, Status};
use crate::metrics::Watching;
use crate::report::journal::Journal;
use crate::report::processed_mini_batches::ProcessedMiniBatches;
use crate::report::statistics::{Pace, PublishedParts, StatisticsFiles};
use crate::report::try_table::TryTable;
use crate::result::Growth;
use crate::segments::bundles::Bundles;
use crate::segments::catalog::Catalog;

pub(crate) use self::ending::fail_at_once;
pub use self::error::WatchError;
pub(crate) use self::reports::{finish_reports, restore_job_result};

/// Room that is kept free for the last words of a job on a full disk, bytes.
const RESERVE: usize = 256 << 10;
/// Between two looks at a job that is nearly done: its last outcomes are not kept waiting.
const NEARLY_DONE: Duration = Duration::from_millis(50);
/// A server that has not answered for so long is told as what the job waits for.
const TOLD_AFTER: Duration = Duration::from_secs(3);
/// An orchestrator that has watched for so long is one that can.
const WELL_AFTER: Duration = Duration::from_secs(30);
/// First pause after the job could not be ended; they grow.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The names of all duties of an orchestrator.
pub fn duty_names() -> impl Iterator<Item = &'static str> {
    duties::ALL.iter().map(|(name, _)| *name)
}

/// Where a job stands, for the other parts of this process.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The state.
    pub state: Option<JobState>,
    /// The counts.
    pub status: Status,
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
    let fence = lease(job, owner).await?;
    let order = job.order().await?;
    let mut watch = match Watch::start(job, (owner, fence), (record.clone(), order), place, view) {
        Ok(watch) => watch,
        Err(error) if others_may_serve(job, owner).await => return Err(error),
        Err(error) => return Box::pin(fail_at_once(job, owner, record, error)).await,
    };
    let result = Box::pin(watch.run()).await?;
    Box::pin(watch.finish_reports(&result)).await;
    Ok(result)
}

/// Takes or renews the lease to watch over a job; returns its number.
async fn lease(job: &JobContext, owner: &str) -> Result<u64, WatchError> {
    let lease = job.ledger.lease(Duty::Watch, owner, job.policy.lease).await?;
    lease.ok_or(WatchError::NotTheOrchestrator)
}

/// Whether another node may do for `job` what this host cannot: one that serves it, or an idle worker that finds a seat.
async fn others_may_serve(job: &JobContext, owner: &str) -> bool {
    if !job.policy.has_others {
        return false;
    }
    let others = async {
        let mut nodes = job.ledger.nodes().await.ok()?;
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
        node.left = !job.policy.is_present(node);
    }
}

/// What the watching led to.
#[derive(Debug, Clone, PartialEq)]
enum Decision {
    Finalize,
    Conclude(Conclusion),
}

impl Decision {
    /// A job that completed has a result; the orchestrator that decided so may have died before it said that.
    fn of(conclusion: Conclusion) -> Self {
        if conclusion.state == JobState::Completed { Self::Finalize } else { Self::Conclude(conclusion) }
    }
}

struct Watch<'a> {
    job: &'a JobContext,
    owner: &'a str,
    /// Number of its lease: what only the orchestrator may write carries it.
    fence: u64,
    place: &'a str,
    record: JobRecord,
    view: &'a Sender<View>,
    /// Counts it as watched over.
    watching: Watching,
    memory: Memory,
    /// When it looked last, by the monotonic clock.
    looked_ns: u64,
    /// Absent only while it reads a segment.
    catalog: Option<Box<Catalog>>,
    bundles: Bundles,
    /// Key of the last segment that was followed.
    last_followed: Option<Arc<str>>,
    /// The result, as far as it has grown.
    growth: Growth,
    scheduler: Scheduler,
    troubles: Troubles,
    status: Status,
    rates: Rates,
    journal: Journal,
    /// Where the statistics are written.
    statistics: StatisticsFiles,
    /// Those that are published in the ledger.
    published: PublishedParts,
    /// Whether the journal says already that the ledger did not take them.
    is_publishing_refused: bool,
    /// When the index of jobs was told what.
    told_index: ToldIndex,
    /// The version of the record that has the words which are known, where that is not the one that was read or written.
    words_of: Option<Version>,
    /// The nodes of the last look.
    nodes: Vec<NodeView>,
    reserve: PathBuf,
    /// Whether the record says how the job ended.
    is_recorded: bool,
}

impl<'a> Watch<'a> {
    fn start(
        job: &'a JobContext,
        (owner, fence): (&'a str, u64),
        (record, order): (JobRecord, Option<Arc<PlanOrder>>),
        place: &'a str,
        view: &'a Sender<View>,
    ) -> Result<Self, WatchError> {
        let logs = &job.logs;
        let failed = |source| WatchError::Logs { path: logs.clone(), source };
        let report = ProcessedMiniBatches::create(&logs.join("sys/job_report/processed_mini-batches.csv"))
            .map_err(failed)?;
        let journal = Journal::begin(logs).map_err(failed)?;
        tree::make_folders(&job.work).map_err(failed)?;
        let reserve = job.work.join("reserve");
        tree::write(&reserve, vec![1; RESERVE]).map_err(failed)?;
        journal.decision(format_args!(
            "{owner} watches over job {} (start {}), {} inputs, run_max_try {}, run_invocation_timeout {} s",
            job.id,
            job.incarnation,
            job.spec.inputs.len(),
            job.spec.run_max_try,
            job.spec.run_invocation_timeout
        ));
        let tries = TryTable::create(logs, job.incarnation).inspect_err(|error| {
            tracing::warn!(%error, "there is no table of tries; the job goes on");
        });
        let mut catalog = Box::new(Catalog::new(job, record.started_us, (report, tries.ok())));
        catalog.put_in_order(order);
        catalog.statistics.restore(logs);
        let unwatched = Pace::unwatched(job.policy.statistics, job.policy.statistics_lists);
        let statistics = StatisticsFiles::new(logs, &job.work, unwatched, job.metrics.clone());
        let age = Duration::from_micros(now_us().saturating_sub(record.started_us));
        Ok(Self {
            job,
            owner,
            fence,
            place,
            record,
            view,
            watching: job.metrics.watching(&job.run),
            memory: Memory::new(Instant::now(), age),
            looked_ns: monotonic_ns(),
            catalog: Some(catalog),
            bundles: Bundles::new(job),
            last_followed: None,
            growth: Growth::default(),
            scheduler: Scheduler::new(job, owner),
            troubles: Troubles::default(),
            status: Status::default(),
            rates: Rates::default(),
            journal,
            statistics,
            published: PublishedParts::default(),
            is_publishing_refused: false,
            told_index: ToldIndex::default(),
            words_of: None,
            nodes: Vec::new(),
            reserve,
            is_recorded: false,
        })
    }

    /// Watches until the job has ended.
    async fn run(&mut self) -> Result<JobResult, WatchError> {
        let mut decided = self.until_decided().await;
        self.scheduler.end().await;
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let not_watched: fn(&WatchError) -> EndReason = |error| error.into();
        let not_written: fn(&WatchError) -> EndReason =
            |error| EndReason::ResultNotWritten { error: error.to_string() };
        loop {
            let began = Instant::now();
            let (mut error, reason, decision) = match decided {
                Ok(decision) => match self.end(&decision).await {
                    Ok(result) => return Ok(result),
                    Err(error) => (error, not_written, decision),
                },
                Err(error) => (error, not_watched, Decision::Finalize),
            };
            let mut disposition = self.disposition(&error, When::Ending).await;
            if disposition == Disposition::RunAgain {
                if let Some(end) = self.ended_early().await? {
                    // Nothing is to run any more.
                    decided = Ok(Decision::Conclude(end));
                    continue;
                }
                error = self.run_again(error).await;
                disposition = self.disposition(&error, When::Ending).await;
            }
            match disposition {
                Disposition::Retry => {
                    self.journal.error(format_args!("the job cannot be ended yet: {error}; trying again"));
                    self.note_trouble(&error, began);
                    self.tell_obstacle(None).await;
                    self.unless_alone(When::Ending).await?;
                    backoff.wait().await;
                    let ended_early = self.ended_early().await.ok().flatten();
                    decided = Ok(ended_early.map_or(decision, Decision::Conclude));
                }
                Disposition::HandOver => {
                    self.journal.decision(format_args!("{} watches no longer: {error}", self.owner));
                    return Err(error);
                }
                // Setting segments aside does not help any more.
                Disposition::RunAgain | Disposition::Fail => return self.fail(error, reason).await,
            }
        }
    }

    /// Looks at the job again and again until it is decided how it ends.
    async fn until_decided(&mut self) -> Result<Decision, WatchError> {
        loop {
            let began = Instant::now();
            match self.look().await {
                Ok(Some(decision)) => return Ok(decision),
                Ok(None) => {}
                Err(error) => self.unless_retried(error, began).await?,
            }
            self.unless_alone(When::Looking).await?;
            let pause = if self.status.is_nearly_done() { NEARLY_DONE } else { self.job.policy.watch };
            tokio::time::sleep(pause.min(self.job.policy.watch).saturating_sub(began.elapsed())).await;
        }
    }

    /// One look at the job: observe, decide, act.
    async fn look(&mut self) -> Result<Option<Decision>, WatchError> {
        let (policy, spec) = (self.job.policy, Arc::clone(&self.job.spec));
        let seen = self.observe().await?;
        self.memory.was_stopped(stopped_since(std::mem::replace(&mut self.looked_ns, monotonic_ns())));
        self.watching.looks(seen.state == JobState::Queued);
        self.memory.advance(&seen, &policy);
        self.tell(&seen);
        let mut is_all_done = true;
        for (duty, decide) in duties::ALL {
            let situation = Situation { now: &seen, memory: &self.memory, policy: &policy, spec: &spec };
            let Some(action) = decide(&situation) else { continue };
            self.job.metrics.acts(duty);
            let began = Instant::now();
            match self.act(action, &seen).await {
                Ok(None) => {}
                Ok(decision) => return Ok(decision),
                // The other duties do not wait for it.
                Err(error) => {
                    is_all_done = false;
                    self.unless_retried(error, began).await?;
                }
            }
        }
        if is_all_done {
            self.troubles.all_is_done();
        }
        self.tell_obstacle(seen.progress.obstacle.as_ref()).await;
        self.watching.lags(seen.progress.segments.saturating_sub(self.memory.followed));
        self.write_due_statistics();
        Box::pin(self.publish_due_statistics(seen.progress.is_read)).await;
        Box::pin(self.tell_index()).await;
        Ok(None)
    }

    async fn disposition(&self, error: &WatchError, when: When) -> Disposition {
        let others = error.is_of_this_host() && others_may_serve(self.job, self.owner).await;
        disposition(error, when, &self.job.policy, others)
    }

    async fn unless_retried(&mut self, error: WatchError, began: Instant) -> Result<(), WatchError> {
        if self.disposition(&error, When::Looking).await != Disposition::Retry {
            return Err(error);
        }
        self.journal.error(format_args!("{error}; trying again"));
        self.note_trouble(&error, began);
        Ok(())
    }

    /// Notes the server that a call met, which began at this time.
    fn note_trouble(&mut self, error: &WatchError, began: Instant) {
        if let Some(server) = error.server() {
            self.troubles.fails(server, error.to_string(), began);
        }
    }

    /// Tells the ledger what the job waits for, or that it goes on; `known` is what the ledger says.
    async fn tell_obstacle(&mut self, known: Option<&Obstacle>) {
        let now = Instant::now();
        let trouble =
            self.troubles.lasting(now, TOLD_AFTER).map(|trouble| (trouble.server.into(), &*trouble.error));
        let is_well = now.saturating_duration_since(self.memory.watched_since) >= WELL_AFTER;
        let Some(note) = obstacle_to_tell(trouble, known.map(|known| known.kind), is_well) else { return };
        let note = match note {
            ObstacleNote::Waits(kind, reason) => Some((kind, reason)),
            ObstacleNote::GoesOn => None,
        };
        if let Err(error) = self.job.ledger.note_obstacle(note).await {
            tracing::debug!(job = self.job.id, %error, "the ledger does not know what the job waits for");
        }
    }

    /// Leaves the job to others where these reach a server that has not answered this host for long. One that nobody reaches
    /// is waited for here.
    async fn unless_alone(&self, when: When) -> Result<(), WatchError> {
        let (job, now) = (self.job, Instant::now());
        let Some(trouble) = self.troubles.lasting(now, job.policy.gives_way) else { return Ok(()) };
        let others = others_reach(job, self.owner, trouble.server).await.unwrap_or_default();
        if others.may_watch(when == When::Ending) {
            return Err(WatchError::Alone { server: trouble.server, error: trouble.error.clone() });
        }
        Ok(())
    }

    /// Whatever broke, the job gets an end that says so.
    async fn fail(
        &mut self,
        error: WatchError,
        reason: fn(&WatchError) -> EndReason,
    ) -> Result<JobResult, WatchError> {
        let conclusion = Conclusion::failed(&reason(&error));
        // It may be decided already that the job ends for another reason.
        self.journal.error(format_args!("{}", conclusion.reason));
        let conclusion = self.job.ledger.conclude(&conclusion).await?;
        if conclusion.state == JobState::Completed {
            // There is a result, and who watches next says so.
            return Err(error);
        }
        self.wait_for_nodes(self.job.policy.leave_before_end).await;
        if let Ok(progress) = self.job.ledger.progress().await {
            self.status.progress = progress;
        }
        self.close(&conclusion, nothing(self.job)).await
    }

    /// Tells the journal and who looks on what this look showed.
    fn tell(&mut self, seen: &Snapshot) {
        self.journal.nodes(&seen.nodes);
        let (job, took) = (self.job, seen.at - self.memory.started);
        self.status = Status::now(seen.progress.clone(), &seen.nodes, &job.policy, took);
        self.rates.apply(&mut self.status);
        self.observe_statistics(seen);
        self.publish_view();
    }

    fn publish_view(&self) {
        self.view.send_replace(View { state: Some(self.memory.state), status: self.status.clone() });
    }

    /// Makes sure that nobody else watches over the job by now, or has in between.
    async fn renew(&self) -> Result<(), WatchError> {
        // Before the call: that is when the time of the lease begins at the earliest.
        let until = Instant::now() + self.job.policy.lease;
        if lease(self.job, self.owner).await? != self.fence {
            return Err(WatchError::NotTheOrchestrator);
        }
        if let Some(shipper) = &self.job.log_shipper {
            shipper.watches_until(until);
        }
        Ok(())
    }

    /// Brings `job.json` up to date, unless there is one that stands, which is given back.
    async fn write_record(&mut self) -> Result<Option<JobRecord>, JobRecordError> {
        self.record.state = self.memory.state;
        self.record.status = self.status.clone();
        let mut written = self.record.write_unless_ended(&*self.job.storage).await;
        if matches!(written, Err(JobRecordError::Absent { .. })) && !self.job.policy.ends_by_record {
            // A run in this program has its folder for itself: a user who removed the record meant no end of the job.
            self.record.version = None;
            written = self.record.write_unless_ended(&*self.job.storage).await;
        }
        if let Err(error) = &written {
            self.journal.error(format_args!("the job's record is not up to date: {error}"));
        }
        written
    }

    async fn set_state(&mut self, state: JobState) -> Result<(), WatchError> {
        self.job.ledger.set_state(state, self.fence).await?;
        self.memory.state = state;
        self.journal.decision(format_args!("the job is {}", state.as_str()));
        self.publish_view();
        Box::pin(self.tell_index()).await;
        Ok(())
    }
}
