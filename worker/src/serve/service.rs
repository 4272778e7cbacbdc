//! The service of one job by one worker: a node that runs mini-batches, and a candidate for its orchestrator.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prs_common::end_reason::EndReason;
use prs_common::job::{Environment, check_file_name};
use prs_common::ledger::{Duty, JobState, LedgerErrorKind};
use prs_common::log_context;
use prs_common::tree;
use prs_orchestrator::job::init_failures::is_useless;
use prs_orchestrator::job::membership;
use prs_orchestrator::job::record::JobRecordError;
use prs_orchestrator::orchestrate::{OrchestratorEnd, WatchEnd, orchestrate};
use prs_orchestrator::pipeline::{Driven, drive};
use prs_orchestrator::{Fleet, JobContext, JobRecord, LocalFolders};
use tokio_util::sync::CancellationToken;

use super::WorkerSettings;
use super::choice::{Choice, Role};
use super::watcher;
use crate::host::blocking::blocking;
use crate::host::unique::unique;
use crate::host::work_folder;
use crate::{NodeEnd, NodeSettings, Prefetch, Unfit, find_interpreter, run_node};

/// Mini-batches a node of a fleet takes before they are settled, at most. Half of them fill a segment while the other half
/// is stored and committed: at 20,000 a second that may take a tenth of a second, as with a store 30 ms away.
const MOST_TAKEN: usize = 4_000;

/// Pause before a job is joined again.
const JOIN_PAUSE: Duration = Duration::from_millis(500);

/// How the service of a job by a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeOutcome {
    /// The job completed.
    Completed,
    /// It failed.
    Failed,
    /// It was canceled.
    Canceled,
    /// Another worker ends the job.
    EndsElsewhere,
    /// There is no such job.
    Unknown,
    /// The job needs a worker of another version.
    OtherVersion,
    /// The worker leaves while the job goes on; another one may take its place.
    Left,
    /// The worker is of no use to the job (`init()` fails here, no room on the disk); another one may not be either.
    Useless,
    /// The worker does not reach a server that others reach, and leaves the job to them.
    CutOff,
    /// The job wants nodes again, and this worker may be one of them.
    Again,
    /// The job cannot be served from here for now.
    NotHere,
    /// No worker can watch over the job for now, so that serving it leads nowhere.
    NotWatched,
    /// The record of the job cannot be read.
    Unread,
    /// The job has enough nodes, or another worker ends it.
    Full,
}

impl fmt::Display for ServeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Completed => "it completed",
            Self::Failed => "it failed",
            Self::Canceled => "it was canceled",
            Self::EndsElsewhere => "another worker ends it",
            Self::Unknown => "there is no such job",
            Self::OtherVersion => "it needs a worker of another version",
            Self::Left => "this worker leaves, and the job goes on",
            Self::Useless => "this worker is of no use to it",
            Self::CutOff => "this worker does not reach a server that others reach",
            Self::Again => "its service begins anew",
            Self::NotHere => "it cannot be served from here for now",
            Self::NotWatched => "no worker can watch over it for now",
            Self::Unread => "its record cannot be read",
            Self::Full => "it has enough nodes",
        })
    }
}

/// Serves one job.
pub(super) struct Service<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) settings: &'a WorkerSettings,
    pub(super) end: &'a NodeEnd,
    /// Name of this program, the same for all jobs that it serves.
    pub(super) instance: &'a str,
}

impl Service<'_> {
    /// Serves an offered job, as far as it still wants a worker, until it is over or the worker is asked to end.
    pub(super) async fn serve_offer(&self, choice: Choice) -> ServeOutcome {
        let Choice { target, offer, role } = choice;
        if offer.prs_version != env!("CARGO_PKG_VERSION") {
            return other_version(&offer.job_id, &offer.prs_version);
        }
        let record = match self.read(&offer.job_id).await {
            Ok(record) => record,
            Err(ServeOutcome::Unknown) => {
                // What is left of it is the offer alone.
                let forgotten =
                    membership::forget(self.fleet, &target, &offer.job_id, offer.incarnation).await;
                return forgotten.map_or(ServeOutcome::NotHere, |()| ServeOutcome::Unknown);
            }
            Err(ServeOutcome::Unread) => {
                // Where that lasts, the job ends with it.
                let unread = JobRecord::unread(&offer.job_id, offer.incarnation, &target);
                self.serve_as(&unread, Some(Role::Steward)).await;
                return ServeOutcome::Unread;
            }
            Err(outcome) => return outcome,
        };
        if record.incarnation < offer.incarnation {
            tracing::warn!(job = offer.job_id, "storage gives back a record from before the job was resumed");
            return ServeOutcome::NotHere;
        }
        if record.incarnation > offer.incarnation {
            // A start that was superseded is tidied up.
            let former = JobRecord { incarnation: offer.incarnation, ..record };
            return self.serve_as(&former, Some(Role::Steward)).await;
        }
        let role = if end_of(&record).is_some() { Role::Steward } else { role };
        self.serve_as(&record, Some(role)).await
    }

    /// Serves a job, whether or not it wants more nodes, until it is over or the worker is asked to end.
    pub(super) async fn serve(&self, job_id: &str) -> ServeOutcome {
        let record = match self.read(job_id).await {
            Ok(record) => record,
            Err(outcome) => return outcome,
        };
        if record.pipeline.is_some() {
            return match drive(self.fleet, job_id, None, self.instance, &self.end.drain).await {
                Driven::Ended(result) => end_in(result.state).unwrap_or(ServeOutcome::EndsElsewhere),
                Driven::Elsewhere => ServeOutcome::EndsElsewhere,
                Driven::Stopped => ServeOutcome::Left,
                Driven::Gone | Driven::Superseded => ServeOutcome::Unknown,
            };
        }
        let Some(end) = end_of(&record) else { return self.serve_as(&record, None).await };
        // There may be no other worker to tidy up behind it.
        self.serve_as(&record, Some(Role::Steward)).await;
        end
    }

    async fn read(&self, job_id: &str) -> Result<JobRecord, ServeOutcome> {
        match JobRecord::read(&*self.fleet.job_storage(job_id)).await {
            Ok(record) if record.prs_version != env!("CARGO_PKG_VERSION") => {
                Err(other_version(job_id, &record.prs_version))
            }
            Ok(record) => Ok(record),
            Err(JobRecordError::Absent { place, .. }) => {
                tracing::error!(job = job_id, place, "there is no such job; nobody is to serve it any more");
                Err(ServeOutcome::Unknown)
            }
            Err(JobRecordError::OtherVersion { version, .. }) => Err(other_version(job_id, &version)),
            Err(error) if error.is_for_good() => {
                tracing::error!(job = job_id, %error, "the job cannot be served");
                Err(ServeOutcome::Unread)
            }
            Err(error) => {
                tracing::warn!(job = job_id, %error, "the job cannot be read here; others may");
                Err(ServeOutcome::NotHere)
            }
        }
    }

    /// Serves a job in a role, where that is still to be taken; in any case without one.
    async fn serve_as(&self, record: &JobRecord, role: Option<Role>) -> ServeOutcome {
        let job_id = &record.job_id;
        let worker = format!("{}-{}-{}", self.settings.name, std::process::id(), unique());
        let folder = match self.settings.work_folder.folder(&format!("{job_id}-{worker}")) {
            Ok(folder) => folder.path().to_owned(),
            Err(error) => {
                tracing::error!(%error, "this worker cannot serve jobs: it has no folder");
                return ServeOutcome::NotHere;
            }
        };
        let folders = LocalFolders { logs: folder.join("logs"), work: folder.join("work") };
        let metrics = self.settings.metrics.orchestrator();
        let job = JobContext { metrics, ..JobContext::on(self.fleet, record, folders) };
        let outcome = match role {
            Some(role @ (Role::Steward | Role::Watcher)) => self.watch_alone(&job, &worker, role).await,
            Some(Role::Node) if !self.takes_seat(&job, &worker).await => ServeOutcome::Full,
            _ => {
                tracing::info!(job = job_id, worker, "serving the job");
                let settings = self.node_settings(&job, &worker);
                self.work(&job, &worker, Part::Node(Box::new(settings))).await
            }
        };
        if let Err(error) = tokio::task::spawn_blocking(move || work_folder::remove(&folder)).await {
            tracing::error!(%error, "a folder of the job is left behind");
        }
        match outcome {
            // Another worker may have ended it.
            ServeOutcome::EndsElsewhere => {
                let record = JobRecord::read(&*self.fleet.job_storage(job_id)).await;
                return record.ok().as_ref().and_then(end_of).unwrap_or(outcome);
            }
            ServeOutcome::Left | ServeOutcome::Useless | ServeOutcome::CutOff => membership::ring(&job).await,
            _ => {}
        }
        outcome
    }

    /// Takes one of the seats for nodes; false when none is free.
    async fn takes_seat(&self, job: &JobContext, worker: &str) -> bool {
        let info = self.node_settings(job, worker).info();
        match job.ledger.take_seat(&info, membership::seats(job)).await {
            Ok(seat) => seat.is_some(),
            // The ledger lost the job: the first node enters it again.
            Err(error) => error.kind == LedgerErrorKind::NotFound,
        }
    }

    /// Watches over a job without being a node of it, unless another worker does: to its end where it wants no more nodes, else
    /// until nodes come.
    async fn watch_alone(&self, job: &JobContext, worker: &str, role: Role) -> ServeOutcome {
        match job.ledger.lease(Duty::Watch, worker, job.policy.lease).await {
            Ok(Some(_)) => {}
            Ok(None) => return ServeOutcome::Full,
            Err(error) if error.kind == LedgerErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(job = job.id, %error, "the job cannot be watched over from here for now");
                return ServeOutcome::NotHere;
            }
        }
        if role == Role::Steward {
            tracing::info!(job = job.id, worker, "nobody ends the job; this worker does");
            return self.work(job, worker, Part::Steward).await;
        }
        tracing::info!(
            job = job.id,
            worker,
            "nobody watches over the job; this worker does until nodes come"
        );
        let stop = CancellationToken::new();
        let mut watching = std::pin::pin!(self.work(job, worker, Part::Watcher(stop.clone())));
        let why = tokio::select! {
            outcome = &mut watching => return outcome,
            why = watcher::until_not_needed(job) => why,
        };
        stop.cancel();
        match watching.await {
            // What it is of no use for is forgotten with the ledger: it has to say so again.
            ServeOutcome::Useless if why == watcher::Need::Unknown => ServeOutcome::Again,
            outcome => outcome,
        }
    }

    /// Runs node and orchestrator side by side, until both have come to their ends; of a part without a node the orchestrator
    /// alone.
    async fn work(&self, job: &JobContext, worker: &str, part: Part) -> ServeOutcome {
        for folder in [&job.logs, &job.work] {
            let path = folder.clone();
            if let Err(error) = blocking(move || tree::make_folders(path)).await {
                tracing::error!(path = %folder.display(), %error, "this worker cannot serve jobs: it has no folder");
                return ServeOutcome::NotHere;
            }
        }
        let _in_the_log = log_context::serving(&job.id, None);
        let _serving = self.settings.metrics.of_target(&job.spec.compute_target).serves();
        let (node_end, mut watch_end) = (NodeEnd::default(), OrchestratorEnd::default());
        let is_steward = matches!(part, Part::Steward);
        match &part {
            Part::Steward => watch_end.alone.cancel(),
            Part::Watcher(stop) => watch_end.stop = stop.clone(),
            Part::Node(_) => {}
        }
        let stop_shipping = CancellationToken::new();
        let shipping = tokio::spawn(ship_logs(job.clone(), stop_shipping.clone()));
        let mut node = tokio::spawn(run_when_known(job.clone(), part, node_end.clone()));
        let mut watching = {
            let (job, owner, end) = (job.clone(), worker.to_owned(), watch_end.clone());
            tokio::spawn(async move { orchestrate(&job, &owner, &end).await })
        };
        let (mut node_exit, mut place) = (None, None);
        while node_exit.is_none() || place.is_none() {
            tokio::select! {
                ended = &mut node, if node_exit.is_none() => {
                    let ended = ended.unwrap_or_else(|panic| {
                        tracing::error!(%panic, "the node broke");
                        NodeExit::Useless
                    });
                    node_exit = Some(ended);
                    // The orchestrator that writes the result may die over it: a worker that knows of the job must be there then.
                    match ended {
                        NodeExit::Unwanted => watch_end.alone.cancel(),
                        NodeExit::CutOff => watch_end.stop.cancel(),
                        NodeExit::Leaving | NodeExit::Useless => watch_end.retire.cancel(),
                    }
                }
                ended = &mut watching, if place.is_none() => {
                    let ended = ended.unwrap_or_else(|panic| {
                        tracing::error!(%panic, "the orchestrator broke; another node takes over");
                        WatchEnd::Stopped
                    });
                    match ended {
                        WatchEnd::Ended(_) | WatchEnd::Over => node_end.stop.cancel(),
                        // It is of no use to the job, which must not hold this worker: others may be.
                        WatchEnd::GaveUp => node_end.drain.cancel(),
                        WatchEnd::Stopped if !watch_end.stop.is_cancelled() && !watch_end.retire.is_cancelled() => {
                            node_end.drain.cancel();
                        }
                        WatchEnd::Stopped | WatchEnd::Again => {}
                    }
                    place = Some(ended);
                }
                () = node_end.asked.cancelled(), if !self.end.drain.is_cancelled() => {
                    tracing::info!(job = job.id, "an administrator asked this worker to leave");
                    self.end.drain.cancel();
                }
                () = self.end.drain.cancelled(), if !node_end.drain.is_cancelled() => {
                    tracing::info!(job = job.id, "asked to end: what runs may end, the rest goes back");
                    watch_end.stop.cancel();
                    node_end.drain.cancel();
                }
                () = self.end.stop.cancelled(), if !node_end.stop.is_cancelled() => {
                    tracing::info!(job = job.id, "asked again to end: what runs is stopped");
                    node_end.stop.cancel();
                }
            }
        }
        stop_shipping.cancel();
        let _ = shipping.await;
        match (place, node_exit) {
            (Some(WatchEnd::Ended(_) | WatchEnd::Over), _) => ServeOutcome::EndsElsewhere,
            (Some(WatchEnd::Again), _) => ServeOutcome::Again,
            (Some(WatchEnd::GaveUp), _) if is_steward => ServeOutcome::NotHere,
            (Some(WatchEnd::GaveUp), _) => ServeOutcome::NotWatched,
            (_, Some(NodeExit::Useless)) => ServeOutcome::Useless,
            (_, Some(NodeExit::CutOff)) => ServeOutcome::CutOff,
            _ if is_steward => ServeOutcome::NotHere,
            // Also when the job wants no more nodes: this worker may be the one that writes its result, and leaves.
            _ => ServeOutcome::Left,
        }
    }

    fn node_settings(&self, job: &JobContext, worker: &str) -> NodeSettings {
        let settings = self.settings;
        // An environment is made when the node has joined: that takes time.
        let python = match &job.spec.environment {
            Some(Environment::Packages(_)) => Ok(PathBuf::new()),
            Some(Environment::Interpreter(named)) => find_interpreter(Some(named)),
            None => find_interpreter(None),
        };
        let lacks = python.as_ref().err().map(|error| {
            let error = format!("{error}\n  host         {} ({})", settings.host.name, settings.host.ip);
            Unfit { reason: EndReason::NoInterpreter { error }, is_of_host: true }
        });
        // No job file brings such a name.
        let misnamed = check_file_name(&job.spec.append_row_file_name).err();
        let misnamed = misnamed.map(|error| Unfit::from(EndReason::BadFileName { error }));
        NodeSettings {
            unfit: misnamed.or(lacks),
            instance: self.instance.to_owned(),
            python: python.unwrap_or_default(),
            extension: settings.extension.clone(),
            worker: worker.to_owned(),
            host: settings.host.clone(),
            slots: self.slots(job),
            prefetch: Prefetch::UpTo(MOST_TAKEN),
            cache_bytes: settings.cache_bytes,
            memory_bytes: settings.memory_bytes,
            side_inputs: Some(Arc::clone(&settings.side_inputs)),
            drain: settings.drain,
            metrics: settings.metrics.clone(),
        }
    }

    /// Processes that the node runs.
    fn slots(&self, job: &JobContext) -> u32 {
        match (job.spec.process_count_per_node, self.settings.slots) {
            (Some(wanted), Some(most)) => wanted.min(most),
            (Some(slots), None) | (None, Some(slots)) => slots,
            (None, None) => self.settings.host.default_slots(),
        }
    }
}

/// The part of a worker in a job, beside that it may watch over it.
enum Part {
    /// A node of it.
    Node(Box<NodeSettings>),
    /// Nothing else: the job wants no nodes.
    Steward,
    /// Nothing else: the worker is of no use as a node. It watches until this is cancelled.
    Watcher(CancellationToken),
}

/// How a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeExit {
    /// The job wants no more nodes.
    Unwanted,
    /// It was asked to leave.
    Leaving,
    /// It cannot be of use.
    Useless,
    /// It does not reach a server that others reach.
    CutOff,
}

/// Runs the node, if there is to be one, once the ledger can be reached.
async fn run_when_known(job: JobContext, part: Part, end: NodeEnd) -> NodeExit {
    let settings = match part {
        Part::Node(settings) => settings,
        Part::Steward => return NodeExit::Unwanted,
        Part::Watcher(_) => return NodeExit::Useless,
    };
    loop {
        match run_node(job.clone(), (*settings).clone(), end.clone()).await {
            Ok(left) if is_useless(&left.report) => return NodeExit::Useless,
            Ok(left) if left.cut_off => return NodeExit::CutOff,
            Ok(_) if end.drain.is_cancelled() || end.stop.is_cancelled() => return NodeExit::Leaving,
            Ok(_) => return NodeExit::Unwanted,
            Err(error) => tracing::warn!(job = job.id, %error, "the job cannot be joined yet; trying again"),
        }
        tokio::select! {
            () = tokio::time::sleep(JOIN_PAUSE) => {}
            () = end.drain.cancelled() => return NodeExit::Leaving,
            () = end.stop.cancelled() => return NodeExit::Leaving,
        }
    }
}

fn other_version(job_id: &str, submitted_with: &str) -> ServeOutcome {
    tracing::error!(
        job = job_id,
        submitted_with,
        worker = env!("CARGO_PKG_VERSION"),
        "the job is of another version of prs and is left to a worker of that version; update one of the two"
    );
    ServeOutcome::OtherVersion
}

/// Brings the logs to storage while they grow, and all of them at the end.
async fn ship_logs(job: JobContext, stop: CancellationToken) {
    let Some(shipper) = &job.log_shipper else { return };
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(job.policy.logs) => false,
            () = stop.cancelled() => true,
        };
        if let Err(error) = shipper.ship(last).await {
            tracing::warn!(job = job.id, %error, "the logs in storage are not up to date");
        }
        if last {
            return;
        }
    }
}

/// How a job ended, if it has.
fn end_of(record: &JobRecord) -> Option<ServeOutcome> {
    end_in(record.state)
}

/// What came of a job that ended in this state.
fn end_in(state: JobState) -> Option<ServeOutcome> {
    match state {
        JobState::Completed => Some(ServeOutcome::Completed),
        JobState::Failed => Some(ServeOutcome::Failed),
        JobState::Canceled => Some(ServeOutcome::Canceled),
        _ => None,
    }
}
