//! A node: the service of one host for one job, from joining to leaving.
//!
//! Order at the end: stop taking, let or make the processes end, commit what is finished, give the rest back,
//! leave.

mod heartbeat;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use prs_common::code::archive::{is_intact, unpack};
use prs_common::end_reason::EndReason;
use prs_common::failpoint;
use prs_common::layout::checksum_of_code;
use prs_common::ledger::{LedgerError, NodeReport, SeenError, Signal};
use prs_common::log_file::LogFile;
use prs_common::segment::{READS, read_again_after};
use prs_common::storage::StorageExt;
use prs_common::timestamp::now_us;
use prs_orchestrator::JobContext;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::commit::committer::{Backlog, Committer};
use crate::commit::outcome::InHand;
use crate::dispatcher::suspects::Suspects;
use crate::dispatcher::{Commands, DRAIN_GRACE, Dispatcher, Surroundings};
use crate::host::blocking::blocking;
use crate::host::unique::unique;
use crate::host::{python_home, work_folder};
use crate::inputs::{InputPlace, Localizer};
use crate::intake::plan_end::PlanEnd;
use crate::intake::{Intake, IntakeEnd};
use crate::node::heartbeat::Heartbeat;
use crate::node_settings::{NodeEnd, NodeSettings, Prefetch, Unfit};
use crate::process::launch::Launch;

/// Pause before the code is fetched again from a store that did not answer.
const CODE_PAUSE: Duration = Duration::from_secs(1);
/// Batches of mini-batches that wait between intake and dispatcher.
const INTAKE_AHEAD: usize = 4;

/// Serves `job` until it needs no more nodes, or `end` says so. Whatever keeps the node from it is told to the job.
pub async fn run_node(
    job: JobContext,
    settings: NodeSettings,
    end: NodeEnd,
) -> Result<NodeReport, LedgerError> {
    let info = settings.info();
    let node_id = job.ledger.join(&info, None).await?;
    failpoint::pass("joined");
    let service = unique();
    let folder = job.work.join(format!("node-{node_id}"));
    keep_former_logs(&job, node_id).await;
    let main_log = LogFile::new(job.logs.join(format!("sys/node/{node_id}/_main.txt")));
    main_log.line(format_args!(
        "node {node_id} ({} at {}) serves job {} with {} processes, {} GPUs, {}",
        settings.worker,
        settings.host.ip,
        job.id,
        settings.slots,
        settings.host.gpus,
        settings.python.display()
    ));
    let (report_tx, report_rx) = watch::channel(NodeReport::default());
    let (signal_tx, signal_rx) = watch::channel(Signal::Run);
    let in_hand = InHand::default();
    let stop_heartbeat = CancellationToken::new();
    let heartbeat = Heartbeat {
        job: job.clone(),
        node_id,
        info,
        report_rx: report_rx.clone(),
        in_hand: in_hand.clone(),
        signal_tx,
    };
    let beating = tokio::spawn(heartbeat.beat(stop_heartbeat.clone()));

    let prepared = tokio::select! {
        prepared = prepare(&job, &settings, &folder) => Some(prepared),
        () = end.drain.cancelled() => None,
        () = end.stop.cancelled() => None,
        () = unwanted(signal_rx.clone()) => None,
    };
    match prepared {
        None => main_log.line("there is nothing to do here any more"),
        Some(Ok(())) => {
            let node = Service {
                job: &job,
                settings: &settings,
                node_id,
                name: &service,
                folder: &folder,
                main_log: &main_log,
                in_hand,
            };
            node.serve(report_tx, signal_rx, end).await;
        }
        Some(Err(Unfit { reason, is_of_host })) => {
            main_log.line(&reason);
            report_tx.send_modify(|report| {
                report.fatal = Some(reason.to_string());
                report.is_unfit = is_of_host;
                if is_of_host {
                    report.errors.push(told(&settings, &reason));
                }
            });
        }
    }
    main_log.line(format_args!("node {node_id} leaves"));
    if let Some(shipper) = &job.log_shipper
        && let Err(error) = shipper.ship(true).await
    {
        tracing::warn!(%error, "the last logs of the node are not in storage");
    }
    stop_heartbeat.cancel();
    if let Err(panic) = beating.await {
        tracing::error!(%panic, "the heartbeat broke; the node will be missed");
    }
    // The job does not wait for the files of the inputs to go.
    if let Err(error) = tokio::task::spawn_blocking(move || work_folder::remove(&folder)).await {
        tracing::error!(%error, "a folder of the job is left behind");
    }
    let last = report_rx.borrow().clone();
    Ok(last)
}

/// What people who wait for the job see of a host that cannot run it.
fn told(settings: &NodeSettings, reason: &EndReason) -> SeenError {
    let reason = reason.to_string();
    SeenError {
        at_us: now_us(),
        what: format!("{} ({}) cannot run the job", settings.host.name, settings.host.ip),
        category: String::new(),
        message: reason.lines().next().unwrap_or_default().to_owned(),
        line: None,
    }
}

/// Ends when a worker that leaves has had its time.
async fn drained(drain: &CancellationToken) {
    drain.cancelled().await;
    tokio::time::sleep(DRAIN_GRACE).await;
}

/// A node of a former start of the job had the same id: its logs are gone on with.
async fn keep_former_logs(job: &JobContext, node_id: u32) {
    let Some(shipper) = job.log_shipper.as_ref().filter(|_| job.incarnation > 1) else { return };
    let own = format!("/{node_id}/");
    if let Err(error) = shipper.fetch(|name| name.contains(&own)).await {
        tracing::warn!(%error, "logs of the former start of the job are lost");
    }
}

/// Ends when the job wants no more nodes.
async fn unwanted(mut signal_rx: watch::Receiver<Signal>) {
    let _ = signal_rx.wait_for(|signal| !matches!(signal, Signal::Run | Signal::Rejoin)).await;
}

/// The code archive, as often as it takes. One that is not what its name says is read some times, for it may have been
/// damaged on the way.
async fn fetch_code(job: &JobContext) -> Result<Bytes, EndReason> {
    let mut damaged = 0;
    loop {
        match job.storage.get(&job.code).await {
            Ok(body) => {
                let (archive, key) = (body.clone(), job.code.clone());
                if blocking(move || is_intact(&archive, checksum_of_code(&key))).await {
                    return Ok(body);
                }
                damaged += 1;
                if damaged == READS {
                    return Err(EndReason::CodeDamaged { key: job.storage.uri(&job.code) });
                }
                tokio::time::sleep(read_again_after(damaged)).await;
            }
            Err(error) if job.policy.waits_for_servers && error.is_retryable() => {
                tracing::warn!(job = job.id, %error, "the code of the job is not here yet; trying again");
                tokio::time::sleep(CODE_PAUSE).await;
            }
            Err(error) => return Err(EndReason::CodeNotFetched { error: error.to_string() }),
        }
    }
}

/// Brings the code and prs's own Python into the scratch folder.
async fn prepare(job: &JobContext, settings: &NodeSettings, folder: &Path) -> Result<(), Unfit> {
    if let Some(unfit) = &settings.unfit {
        return Err(unfit.clone());
    }
    let archive = fetch_code(job).await?;
    let (folder, extension) = (folder.to_owned(), settings.extension.clone());
    let prepared = blocking(move || {
        unpack(&archive, &folder.join("code"))
            .map_err(|error| EndReason::CodeNotUnpacked { error: error.to_string() })?;
        let home = folder.join("python");
        python_home::prepare(&home, &extension).map_err(|error| {
            let (folder, error) = (home.display().to_string(), error.to_string());
            EndReason::NotPrepared { folder, error }
        })
    });
    Ok(prepared.await?)
}

/// Makes the folder for the data that is fetched.
async fn localizer(job: &JobContext, settings: &NodeSettings, folder: &Path) -> io::Result<Localizer> {
    let (stores, spec, folder) = (job.inputs.clone(), Arc::clone(&job.spec), folder.to_owned());
    let (cache_bytes, memory_bytes) = (settings.cache_bytes, settings.memory_bytes);
    let made = blocking(move || {
        let place = |tree: &Path| InputPlace::of(&spec, tree, &folder);
        Localizer::new(stores, Arc::clone(&spec), &folder.join("inputs"), cache_bytes, memory_bytes, place)
    });
    made.await
}

/// What a node at work consists of.
struct Service<'a> {
    job: &'a JobContext,
    settings: &'a NodeSettings,
    node_id: u32,
    /// Tells this service of the node from all others.
    name: &'a str,
    /// Its scratch folder.
    folder: &'a Path,
    main_log: &'a LogFile,
    in_hand: InHand,
}

impl Service<'_> {
    /// Runs mini-batches until the job wants no more.
    async fn serve(
        self,
        report_tx: watch::Sender<NodeReport>,
        signal_rx: watch::Receiver<Signal>,
        end: NodeEnd,
    ) {
        let Self { job, settings, node_id, main_log, .. } = self;
        let localizer = match localizer(job, settings, self.folder).await {
            Ok(localizer) => localizer,
            Err(error) => {
                let (folder, error) = (self.folder.display().to_string(), error.to_string());
                let reason = EndReason::NoInputFolder { folder, error }.to_string();
                main_log.line(&reason);
                report_tx.send_modify(|report| report.fatal = Some(reason));
                return;
            }
        };
        // Processes see the files as long as this is kept.
        let held = localizer.clone();
        let place = held.place();
        if let Some(reason) = place.refused() {
            main_log.line(format_args!(
                "scripts see inputs below {}, a path of this node alone: {reason}",
                place.inputs().display()
            ));
        }
        let tasks = TaskTracker::new();
        let intake_end = IntakeEnd::default();
        let (ready_tx, ready_rx) = mpsc::channel(INTAKE_AHEAD);
        let (outcomes_tx, outcomes_rx) = mpsc::unbounded_channel();
        let (asks_tx, asks_rx) = mpsc::unbounded_channel();
        let (cleared_tx, cleared_rx) = mpsc::unbounded_channel();
        let (idle_tx, idle_rx) = watch::channel(false);
        let (fatal_tx, fatal_rx) = watch::channel(None);
        let backlog = Backlog::default();
        let over = end.stop.child_token();
        let prefetch = Arc::new(AtomicUsize::new(match settings.prefetch {
            Prefetch::Fixed(fixed) => fixed,
            Prefetch::UpTo(most) => (settings.slots as usize + 1).min(most),
        }));
        let intake = Arc::new(Intake {
            job: job.clone(),
            plan_end: PlanEnd::default(),
            prefetch: Arc::clone(&prefetch),
            in_hand: self.in_hand,
            ready_tx,
            end: intake_end.clone(),
            localizer,
            fatal_tx: fatal_tx.clone(),
            tasks: tasks.clone(),
        });
        tasks.spawn(intake.run());
        let suspects = Suspects {
            job: job.clone(),
            prefix: format!("{}-{node_id}-{}", job.incarnation, self.name),
            cleared_tx,
            outcomes_tx: outcomes_tx.clone(),
            stop: intake_end.stop.clone(),
        };
        tasks.spawn(suspects.run(asks_rx));
        let committer = Committer {
            job: job.clone(),
            node_id,
            service: self.name.to_owned(),
            ip: settings.host.ip.clone(),
            prefetch: Arc::clone(&prefetch),
            backlog: backlog.clone(),
            fatal_tx,
            over: over.clone(),
        };
        let mut committing = tokio::spawn(committer.run(outcomes_rx, idle_rx));
        let launch =
            Launch { job, settings, node_id, service: self.name, folder: self.folder, mount: place.mount() };
        let surroundings = Surroundings {
            main_log,
            outcomes_tx,
            asks_tx,
            prefetch,
            idle_tx,
            backlog,
            report_tx,
            tasks: tasks.clone(),
        };
        let drain = end.drain.clone();
        let stop_intake = intake_end.stop.clone();
        let commands = Commands { ready_rx, cleared_rx, signal_rx, fatal_rx, end, stop_intake };
        Dispatcher::new(launch, surroundings).run(commands).await;
        let ended = tokio::select! {
            ended = &mut committing => ended,
            // A worker that is asked to leave does not wait for a store that is away.
            () = drained(&drain) => {
                over.cancel();
                committing.await
            }
        };
        if let Err(panic) = ended {
            tracing::error!(%panic, "the committer broke; what it had not committed runs again");
        }
        intake_end.release.cancel();
        tasks.close();
        tasks.wait().await;
    }
}
