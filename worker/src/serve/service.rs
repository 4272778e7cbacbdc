//! The service of one job by one worker: a node that runs mini-batches, and a candidate for its orchestrator.

use std::fmt;
use std::time::Duration;

use prs_common::end_reason::EndReason;
use prs_common::job::check_file_name;
use prs_common::ledger::{Duty, JobState, LedgerErrorKind};
use prs_orchestrator::job::membership;
use prs_orchestrator::job::record::JobRecordError;
use prs_orchestrator::orchestrate::{OrchestratorEnd, WatchEnd, orchestrate};
use prs_orchestrator::{Fleet, JobContext, JobRecord, LocalFolders};
use tokio_util::sync::CancellationToken;

use super::WorkerSettings;
use super::choice::{Choice, Role};
use crate::host::unique::unique;
use crate::host::work_folder;
use crate::{NodeEnd, NodeSettings, Prefetch, Unfit, find_interpreter, run_node};

/// Mini-batches a node of a fleet takes before they are settled, at most. Half of them fill a segment while the other half
/// is stored and committed: at 20,000 a second that may take a tenth of a second, as with a store 30 ms away.
const MOST_TAKEN: usize = 4_000;

/// Pause before a job is joined again.
const JOIN_PAUSE: Duration = Duration::from_millis(500);

/// How a worker and the one job it was started for part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// The job completed.
    Completed,
    /// It failed.
    Failed,
    /// It was canceled.
    Canceled,
    /// It goes on without this worker.
    JobGoesOn,
    /// There is no such job.
    Unknown,
    /// It needs a worker of another version.
    OtherVersion,
}

/// What a service came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// The job is over.
    Over(Parting),
    /// The worker leaves while the job goes on; somebody else may take its place.
    Left,
    /// The worker is of no use to the job (`init()` fails here, no room on the disk); another one may not be either.
    Useless,
    /// The job wants nodes again, and this worker may be one of them.
    Again,
    /// The job cannot be served from here for now.
    NotHere,
    /// The job has enough nodes, or another worker ends it.
    Full,
    /// The job needs a worker of another version.
    OtherVersion,
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Over(Parting::Completed) => "it completed",
            Self::Over(Parting::Failed) => "it failed",
            Self::Over(Parting::Canceled) => "it was canceled",
            Self::Over(Parting::JobGoesOn) => "another worker ends it",
            Self::Over(Parting::Unknown) => "there is no such job",
            Self::Over(Parting::OtherVersion) | Self::OtherVersion => "it needs a worker of another version",
            Self::Left => "this worker leaves, and the job goes on",
            Self::Useless => "this worker is of no use to it",
            Self::Again => "its service begins anew",
            Self::NotHere => "it cannot be served from here for now",
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
    pub(super) async fn serve_offer(&self, choice: Choice) -> Served {
        let Choice { target, offer, role } = choice;
        if offer.prs_version != env!("CARGO_PKG_VERSION") {
            return other_version(&offer.job_id, &offer.prs_version);
        }
        let record = match self.read(&offer.job_id).await {
            Ok(record) => record,
            Err(Served::Over(parting)) => {
                // What is left of it is the offer alone.
                let forgotten =
                    membership::forget(self.fleet, &target, &offer.job_id, offer.incarnation).await;
                return forgotten.map_or(Served::NotHere, |()| Served::Over(parting));
            }
            Err(served) => return served,
        };
        if record.incarnation < offer.incarnation {
            tracing::warn!(job = offer.job_id, "storage gives back a record from before the job was resumed");
            return Served::NotHere;
        }
        if record.incarnation > offer.incarnation {
            // A start that was superseded is tidied up.
            let former = JobRecord { incarnation: offer.incarnation, ..record };
            return self.serve_as(&former, Some(Role::Steward)).await;
        }
        let role = if parting(&record).is_some() { Role::Steward } else { role };
        self.serve_as(&record, Some(role)).await
    }

    /// Serves a job, whether or not it wants more nodes, until it is over or the worker is asked to end.
    pub(super) async fn serve(&self, job_id: &str) -> Served {
        let record = match self.read(job_id).await {
            Ok(record) => record,
            Err(served) => return served,
        };
        let Some(parting) = parting(&record) else { return self.serve_as(&record, None).await };
        // There may be no other worker to tidy up behind it.
        self.serve_as(&record, Some(Role::Steward)).await;
        Served::Over(parting)
    }

    async fn read(&self, job_id: &str) -> Result<JobRecord, Served> {
        match JobRecord::read(&*self.fleet.job_storage(job_id)).await {
            Ok(record) if record.prs_version != env!("CARGO_PKG_VERSION") => {
                Err(other_version(job_id, &record.prs_version))
            }
            Ok(record) => Ok(record),
            Err(JobRecordError::Absent { place, .. }) => {
                tracing::error!(job = job_id, place, "there is no such job; nobody is to serve it any more");
                Err(Served::Over(Parting::Unknown))
            }
            Err(error) => {
                tracing::warn!(job = job_id, %error, "the job cannot be read here; others may");
                Err(Served::NotHere)
            }
        }
    }

    /// Serves a job in a role, where that is still to be taken; in any case without one.
    async fn serve_as(&self, record: &JobRecord, role: Option<Role>) -> Served {
        let job_id = &record.job_id;
        let worker = format!("{}-{}-{}", self.settings.name, std::process::id(), unique());
        let folder = match self.settings.work_folder.folder(&format!("{job_id}-{worker}")) {
            Ok(folder) => folder.path().to_owned(),
            Err(error) => {
                tracing::error!(%error, "this worker cannot serve jobs: it has no folder");
                return Served::NotHere;
            }
        };
        let folders = LocalFolders { logs: folder.join("logs"), work: folder.join("work") };
        let job = JobContext::on(&self.fleet, record, folders);
        let served = match role {
            Some(Role::Steward) => self.end_it(&job, &worker).await,
            Some(Role::Node) if !self.takes_seat(&job, &worker).await => Served::Full,
            _ => {
                tracing::info!(job = job_id, worker, "serving the job");
                self.work(&job, &worker).await
            }
        };
        if let Err(panic) = tokio::task::spawn_blocking(move || work_folder::remove(&folder)).await {
            tracing::error!(%panic, "the folder of the job is left behind");
        }
        if matches!(served, Served::Left | Served::Useless) {
            membership::ring(&job).await;
        }
        match served {
            // Another worker may have ended it.
            Served::Over(_) => Served::Over(self.ended(job_id).await),
            served => served,
        }
    }

    /// Takes one of the seats for nodes; false when none is free.
    async fn takes_seat(&self, job: &JobContext, worker: &str) -> bool {
        let info = self.node_settings(job, worker).info();
        match job.ledger.take_seat(&info, membership::seats(job)).await {
            Ok(seat) => seat.is_some(),
            // The books are lost: the first node opens them again.
            Err(error) => error.kind == LedgerErrorKind::NotFound,
        }
    }

    /// Watches over a job that wants no more nodes to its end, unless another worker does.
    async fn end_it(&self, job: &JobContext, worker: &str) -> Served {
        match job.ledger.lease(Duty::Watch, worker, job.policy.lease).await {
            Ok(Some(_)) => {}
            Ok(None) => return Served::Full,
            Err(error) if error.kind == LedgerErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(job = job.id, %error, "the job cannot be ended from here for now");
                return Served::NotHere;
            }
        }
        if let Err(served) = make_folders(job).await {
            return served;
        }
        tracing::info!(job = job.id, worker, "nobody ends the job; this worker does");
        let watch_end = OrchestratorEnd { stop: self.end.drain.child_token(), ..OrchestratorEnd::default() };
        watch_end.alone.cancel();
        let stop_shipping = CancellationToken::new();
        let shipping = tokio::spawn(ship_logs(job.clone(), stop_shipping.clone()));
        let watching = {
            let (job, owner) = (job.clone(), worker.to_owned());
            tokio::spawn(async move { orchestrate(&job, &owner, &watch_end).await })
        };
        let place = watching.await.unwrap_or_else(|panic| {
            tracing::error!(%panic, "the orchestrator broke; another worker takes over");
            WatchEnd::Stopped
        });
        stop_shipping.cancel();
        let _ = shipping.await;
        match place {
            WatchEnd::Ended(_) | WatchEnd::Over => Served::Over(Parting::JobGoesOn),
            WatchEnd::Again => Served::Again,
            WatchEnd::Stopped => Served::NotHere,
        }
    }

    /// Runs node and orchestrator side by side, until both have come to their ends.
    async fn work(&self, job: &JobContext, worker: &str) -> Served {
        if let Err(served) = make_folders(job).await {
            return served;
        }
        let node_end = NodeEnd::default();
        let watch_end = OrchestratorEnd::default();
        let stop_shipping = CancellationToken::new();
        let shipping = tokio::spawn(ship_logs(job.clone(), stop_shipping.clone()));
        let node = run_when_known(job.clone(), self.node_settings(job, worker), node_end.clone());
        let mut node = tokio::spawn(node);
        let owner = worker.to_owned();
        let mut watching = {
            let (job, end) = (job.clone(), watch_end.clone());
            tokio::spawn(async move { orchestrate(&job, &owner, &end).await })
        };
        let (mut node_came_to, mut place) = (None, None);
        while node_came_to.is_none() || place.is_none() {
            tokio::select! {
                ended = &mut node, if node_came_to.is_none() => {
                    let ended = ended.unwrap_or_else(|panic| {
                        tracing::error!(%panic, "the node broke");
                        NodeCameTo::Useless
                    });
                    node_came_to = Some(ended);
                    // Whoever writes the result may die over it: somebody who still knows of the job must be there then.
                    if ended == NodeCameTo::End {
                        watch_end.alone.cancel();
                    } else {
                        watch_end.retire.cancel();
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
                        WatchEnd::Stopped if !watch_end.stop.is_cancelled() && !watch_end.retire.is_cancelled() => {
                            node_end.drain.cancel();
                        }
                        WatchEnd::Stopped | WatchEnd::Again => {}
                    }
                    place = Some(ended);
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
        match (place, node_came_to) {
            (Some(WatchEnd::Ended(_) | WatchEnd::Over), _) => Served::Over(Parting::JobGoesOn),
            (Some(WatchEnd::Again), _) => Served::Again,
            (_, Some(NodeCameTo::Useless)) => Served::Useless,
            // Also when the job wants no more nodes: whoever writes its result may be this worker, which leaves.
            _ => Served::Left,
        }
    }

    fn node_settings(&self, job: &JobContext, worker: &str) -> NodeSettings {
        let settings = self.settings;
        let python = find_interpreter(job.spec.environment.as_deref());
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

    /// How the job ended, as its record says.
    async fn ended(&self, job_id: &str) -> Parting {
        match JobRecord::read(&*self.fleet.job_storage(job_id)).await {
            Ok(record) => parting(&record).unwrap_or(Parting::JobGoesOn),
            Err(_) => Parting::JobGoesOn,
        }
    }
}

/// How a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeCameTo {
    /// The job wants no more nodes.
    End,
    /// It was asked to leave.
    Leaving,
    /// It cannot be of use.
    Useless,
}

/// Runs the node, once the ledger can be reached.
async fn run_when_known(job: JobContext, settings: NodeSettings, end: NodeEnd) -> NodeCameTo {
    loop {
        match run_node(job.clone(), settings.clone(), end.clone()).await {
            Ok(report) if report.gave_up || report.fatal.is_some() => return NodeCameTo::Useless,
            Ok(_) if end.drain.is_cancelled() || end.stop.is_cancelled() => return NodeCameTo::Leaving,
            Ok(_) => return NodeCameTo::End,
            Err(error) => tracing::warn!(job = job.id, %error, "the job cannot be joined yet; trying again"),
        }
        tokio::select! {
            () = tokio::time::sleep(JOIN_PAUSE) => {}
            () = end.drain.cancelled() => return NodeCameTo::Leaving,
            () = end.stop.cancelled() => return NodeCameTo::Leaving,
        }
    }
}

fn other_version(job_id: &str, submitted_with: &str) -> Served {
    tracing::error!(
        job = job_id,
        submitted_with,
        worker = env!("CARGO_PKG_VERSION"),
        "the job is of another version of prs and is left to a worker of that version; update one of the two"
    );
    Served::OtherVersion
}

async fn make_folders(job: &JobContext) -> Result<(), Served> {
    for folder in [&job.logs, &job.work] {
        if let Err(error) = tokio::fs::create_dir_all(folder).await {
            tracing::error!(path = %folder.display(), %error, "this worker cannot serve jobs: it has no folder");
            return Err(Served::NotHere);
        }
    }
    Ok(())
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

/// How a job that has ended did.
fn parting(record: &JobRecord) -> Option<Parting> {
    match record.state {
        JobState::Completed => Some(Parting::Completed),
        JobState::Failed => Some(Parting::Failed),
        JobState::Canceled => Some(Parting::Canceled),
        _ => None,
    }
}
