//! A node: the service of one host for one job, from joining to leaving.
//!
//! Order at the end: stop taking, let or make the processes end, commit what is finished, give the rest back,
//! leave.

mod heartbeat;
mod preparing;
mod reach;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use prs_common::end_reason::EndReason;
use prs_common::failpoint;
use prs_common::layout;
use prs_common::ledger::{Heard, LedgerError, NodeReport, SeenError, Signal};
use prs_common::log_context;
use prs_common::log_file::LogFile;
use prs_common::timestamp::now_us;
use prs_orchestrator::JobContext;
use prs_orchestrator::job::reach::Server;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::commit::committer::{Backlog, Committer};
use crate::commit::outcome::InHand;
use crate::commit::traces::Choice;
use crate::dispatcher::copies::Standing;
use crate::dispatcher::suspects::Suspects;
use crate::dispatcher::{Commands, Dispatcher, Surroundings};
use crate::host::blocking::blocking;
use crate::host::unique::unique;
use crate::host::work_folder;
use crate::inputs::side::SideInputs;
use crate::inputs::{InputPlace, Localizer, model};
use crate::intake::copies::Copies;
use crate::intake::plan_end::PlanEnd;
use crate::intake::{Intake, IntakeEnd};
use crate::node::heartbeat::{ALONE, Heartbeat};
use crate::node::preparing::{Prepared, Preparing};
use crate::node_settings::{NodeEnd, NodeSettings, Prefetch, Unfit};
use crate::perf::Monitor;
use crate::perf::load::Meter;
use crate::perf::memory::Guard;
use crate::process::launch::Launch;

/// How long a node that leaves has for the commit of what it finished.
const LAST_COMMITS: Duration = Duration::from_secs(30);
/// Batches of mini-batches that wait between intake and dispatcher.
const INTAKE_AHEAD: usize = 4;

/// A node that has left its job.
#[derive(Debug, Clone, Default)]
pub struct LeftNode {
    /// The last that it said of itself.
    pub report: NodeReport,
    /// Whether it left because it does not reach a server that others reach.
    pub cut_off: bool,
}

/// Serves `job` until it needs no more nodes, or `end` says so. Whatever keeps the node from it is told to the job.
pub async fn run_node(
    job: JobContext,
    mut settings: NodeSettings,
    end: NodeEnd,
) -> Result<LeftNode, LedgerError> {
    let info = settings.info();
    let node_id = job.ledger.join(&info, None).await?;
    let _in_the_log = log_context::serving(&job.id, Some(node_id));
    failpoint::pass("joined");
    let service = unique();
    let folder = job.work.join(format!("node-{node_id}"));
    keep_former_logs(&job, node_id).await;
    let main_log = LogFile::new(job.logs.join(format!("sys/node/{node_id}/_main.txt")));
    main_log.line(format_args!(
        "node {node_id} ({} at {}) serves job {} with {} processes, {} GPUs{}{}",
        settings.worker,
        settings.host.ip,
        job.id,
        settings.slots,
        settings.host.gpus.count(),
        settings.host.gpus.origin(),
        if settings.python.as_os_str().is_empty() {
            String::new()
        } else {
            format!(", {}", settings.python.display())
        }
    ));
    if let Some(shortage) = settings.host.gpu_shortage(settings.slots) {
        main_log.line(&shortage);
    }
    let (report_tx, report_rx) = watch::channel(NodeReport::default());
    let (signal_tx, signal_rx) = watch::channel(Signal::Run);
    let (heard_tx, heard_rx) = watch::channel(ALONE);
    let in_hand = InHand::default();
    let stop_heartbeat = CancellationToken::new();
    let (cut_tx, cut_rx) = watch::channel(None);
    let heartbeat = Heartbeat {
        job: job.clone(),
        node_id,
        info,
        report_rx: report_rx.clone(),
        cut_rx: cut_rx.clone(),
        in_hand: in_hand.clone(),
        signal_tx,
        heard_tx,
        metrics: settings.metrics.clone(),
        meter: job.policy.has_others.then(|| Meter::start(!settings.host.gpus.is_empty())),
        asked: end.asked.clone(),
    };
    let beating = tokio::spawn(heartbeat.beat(stop_heartbeat.clone()));

    let writing = TaskTracker::new();
    let (metrics, worker) = (settings.metrics.clone(), settings.worker.clone());
    metrics.begins();
    let giving_way = async {
        cut_tx.send_replace(Some(reach::cut_off(&job, &worker, &metrics, &end).await));
        std::future::pending::<()>().await;
    };
    let working = async {
        let preparing = Preparing {
            job: &job,
            settings: &settings,
            node_id,
            service: &service,
            folder: &folder,
            writing: &writing,
            main_log: &main_log,
            report_tx: &report_tx,
        };
        let prepared = tokio::select! {
            prepared = preparing.prepare() => Some(prepared),
            () = end.drain.cancelled() => None,
            () = end.stop.cancelled() => None,
            () = unwanted(signal_rx.clone()) => None,
        };
        report_tx.send_modify(|report| report.preparing = None);
        match prepared {
            None => main_log.line("there is nothing to do here any more"),
            Some(Ok(Prepared { made, side_inputs })) => {
                if let Some(made) = &made {
                    main_log.line(format_args!("the interpreter is {}", made.python.display()));
                    settings.python.clone_from(&made.python);
                }
                let node = Service {
                    job: &job,
                    settings: &settings,
                    node_id,
                    name: &service,
                    folder: &folder,
                    main_log: &main_log,
                    in_hand,
                    side_inputs,
                };
                node.serve(report_tx, (signal_rx, heard_rx), end.clone()).await;
                // It may be removed from here on.
                drop(made);
            }
            Some(Err(Unfit { reason, is_of_host })) => {
                main_log.line(&reason);
                report_tx.send_modify(|report| {
                    report.fatal = Some(reason.to_string());
                    report.is_unfit = is_of_host;
                    // Without others the job ends with it at once, and says it all.
                    if is_of_host && job.policy.has_others {
                        report.errors.push(told(&settings, &reason));
                    }
                });
            }
        }
    };
    tokio::select! {
        () = working => {}
        () = giving_way => unreachable!("it waits for ever"),
    }
    let cut = *cut_rx.borrow();
    if let Some(server) = cut {
        main_log.line(format_args!("the node does not reach the {}, and others do", server.as_str()));
    }
    main_log.line(format_args!("node {node_id} leaves"));
    // Others wait for its seat.
    if cut != Some(Server::Storage)
        && let Some(shipper) = &job.log_shipper
        && let Err(error) = shipper.ship(true).await
    {
        tracing::warn!(%error, "the last logs of the node are not in storage");
    }
    stop_heartbeat.cancel();
    if let Err(panic) = beating.await {
        tracing::error!(%panic, "the heartbeat broke; the node will be missed");
    }
    // A node that ends while its code is unpacked would remove the folder under the files that still come.
    writing.close();
    writing.wait().await;
    // The job does not wait for the files of the inputs to go.
    if let Err(error) = tokio::task::spawn_blocking(move || work_folder::remove(&folder)).await {
        tracing::error!(%error, "a folder of the job is left behind");
    }
    let report = report_rx.borrow().clone();
    Ok(LeftNode { report, cut_off: cut.is_some() })
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
    tokio::time::sleep(LAST_COMMITS).await;
}

/// A node of a former start of the job had the same id: its logs are gone on with.
async fn keep_former_logs(job: &JobContext, node_id: u32) {
    let Some(shipper) = job.log_shipper.as_ref().filter(|_| job.incarnation > 1) else { return };
    let own = format!("/{node_id}/");
    // Lists of processes are many, and never gone on with.
    let is_own = |name: &str| name.contains(&own) && !name.contains("/os/");
    if let Err(error) = shipper.fetch(is_own).await {
        tracing::warn!(%error, "logs of the former start of the job are lost");
    }
}

/// Ends when the job wants no more nodes.
async fn unwanted(mut signal_rx: watch::Receiver<Signal>) {
    let _ =
        signal_rx.wait_for(|signal| !matches!(signal, Signal::Run | Signal::Rejoin | Signal::Leave)).await;
}

/// Makes the folder for the data that is fetched.
async fn localizer(job: &JobContext, settings: &NodeSettings, folder: &Path) -> io::Result<Localizer> {
    let (stores, spec, folder) = (job.inputs.clone(), Arc::clone(&job.spec), folder.to_owned());
    let (cache_bytes, memory_bytes) = (settings.cache_bytes, settings.memory_bytes);
    let metrics = settings.metrics.clone();
    let made = blocking(move || {
        let place = |tree: &Path| InputPlace::of(&spec, tree, &folder);
        let (spec, folder) = (Arc::clone(&spec), folder.join("inputs"));
        Localizer::new(stores, spec, &folder, cache_bytes, memory_bytes, place, metrics)
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
    /// Kept here as long as processes may use them.
    side_inputs: SideInputs,
}

impl Service<'_> {
    /// Runs mini-batches until the job wants no more.
    async fn serve(
        self,
        report_tx: watch::Sender<NodeReport>,
        (signal_rx, heard_rx): (watch::Receiver<Signal>, watch::Receiver<Heard>),
        end: NodeEnd,
    ) {
        let Self { job, settings, node_id, main_log, .. } = self;
        let localizer = match localizer(job, settings, self.folder).await {
            Ok(localizer) => self.side_inputs.show(&localizer).and_then(|paths| {
                model::place(&job.spec, &paths, self.folder)?;
                Ok((localizer, paths))
            }),
            Err(error) => Err(error),
        };
        let (localizer, side_paths) = match localizer {
            Ok(made) => made,
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
        let (retries_tx, retries_rx) = mpsc::unbounded_channel();
        let (idle_tx, idle_rx) = watch::channel(false);
        let (standing_tx, standing_rx) = watch::channel(Standing::default());
        let (copy_news_tx, copy_news_rx) = mpsc::unbounded_channel();
        let (fatal_tx, fatal_rx) = watch::channel(None);
        let backlog = Backlog::default();
        let metrics = &settings.metrics;
        let of_target = metrics.of_target(&job.spec.compute_target);
        let _slots = of_target.has_slots(settings.slots);
        let _at_work = {
            let (backlog, localizer) = (backlog.clone(), localizer.clone());
            metrics.at_work(move || backlog.bytes() as u64, move || localizer.cached())
        };
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
            metrics: metrics.clone(),
        });
        let worker = settings.worker.clone();
        tasks.spawn(Copies { intake: Arc::clone(&intake), worker, standing_rx, copy_news_tx }.run());
        tasks.spawn(intake.run());
        let suspects = Suspects {
            job: job.clone(),
            service: layout::writer(job.incarnation, node_id, self.name),
            heard_rx: heard_rx.clone(),
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
            report_tx: report_tx.clone(),
            fatal_tx,
            retries_tx,
            heard_rx: heard_rx.clone(),
            over: over.clone(),
            metrics: metrics.clone(),
            of_target: of_target.clone(),
            traced: Choice::default(),
        };
        let mut committing = tokio::spawn(committer.run(outcomes_rx, idle_rx));
        let launch = Launch {
            job,
            settings,
            node_id,
            service: self.name,
            folder: self.folder,
            mount: place.mount(),
            side_inputs: &side_paths,
        };
        let interval = Duration::from_secs(job.spec.resource_monitor_interval);
        let monitor = Monitor::start(&job.logs, node_id, launch.token_prefix(), interval);
        let (shortage_tx, shortage_rx) = mpsc::channel(1);
        let guard = Guard::start(shortage_tx);
        let surroundings = Surroundings {
            main_log,
            outcomes_tx,
            asks_tx,
            prefetch,
            idle_tx,
            backlog,
            report_tx,
            standing_tx,
            tasks: tasks.clone(),
            heard_rx,
            metrics: of_target,
        };
        let drain = end.drain.clone();
        let stop_intake = intake_end.stop.clone();
        let commands = Commands {
            ready_rx,
            cleared_rx,
            retries_rx,
            copy_news_rx,
            signal_rx,
            shortage_rx,
            fatal_rx,
            end,
            stop_intake,
        };
        Dispatcher::new(launch, surroundings).run(commands).await;
        drop((monitor, guard));
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
