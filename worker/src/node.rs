//! A node: the service of one host for one job, from joining to leaving.
//!
//! Order at the end: stop taking, let or make the processes end, commit what is finished, give the rest back,
//! leave.

use std::io;
use std::path::PathBuf;

use prs_common::code_archive::{CodeArchiveError, unpack};
use prs_common::ledger::{LedgerError, NodeInfo, NodeReport, Signal};
use prs_common::log_file::LogFile;
use prs_common::storage::StorageError;
use prs_orchestrator::JobContext;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::committer::{Backlog, Committer};
use crate::dispatcher::{Dispatcher, Surroundings};
use crate::intake::IntakeEnd;
use crate::node_settings::NodeSettings;
use crate::{heartbeat, intake, python_home};

/// Batches of mini-batches that wait between intake and dispatcher.
const INTAKE_AHEAD: usize = 4;

/// Why a node could not serve a job.
#[derive(Debug, thiserror::Error)]
enum NodeError {
    #[error("the code of the job cannot be fetched: {0}")]
    Code(#[from] StorageError),
    #[error("the code of the job cannot be unpacked: {0}")]
    Unpack(#[from] CodeArchiveError),
    #[error("cannot prepare {}: {source}", path.display())]
    Prepare { path: PathBuf, source: io::Error },
}

/// Serves `job` until it needs no more nodes. Whatever keeps the node from it is told to the job.
pub async fn run_node(job: JobContext, settings: NodeSettings) -> Result<(), LedgerError> {
    let info =
        NodeInfo { worker: settings.worker.clone(), ip: settings.host.ip.clone(), slots: settings.slots };
    let node_id = job.ledger.join(&job.id, &info, None).await?;
    let folder = job.work.join(format!("node-{node_id}"));
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
    let (report, reported) = watch::channel(NodeReport::default());
    let (signal, wanted) = watch::channel(Signal::Run);
    let stop_heartbeat = CancellationToken::new();
    let tasks = TaskTracker::new();
    tasks.spawn(heartbeat::beat(
        job.clone(),
        node_id,
        settings.worker.clone(),
        reported,
        signal,
        stop_heartbeat.clone(),
    ));

    match prepare(&job, &settings, &folder).await {
        Ok(()) => serve(&job, &settings, node_id, folder.clone(), &main_log, report, wanted).await,
        Err(error) => {
            main_log.line(&error);
            report.send_modify(|report| report.fatal = Some(error.to_string()));
        }
    }
    if let Err(error) = tokio::fs::remove_dir_all(&folder).await
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %folder.display(), %error, "the scratch folder of the node is left behind");
    }
    main_log.line(format_args!("node {node_id} leaves"));
    stop_heartbeat.cancel();
    tasks.close();
    tasks.wait().await;
    job.ledger.leave(&job.id, node_id).await
}

/// Brings the code and prs's own Python into the scratch folder.
async fn prepare(
    job: &JobContext,
    settings: &NodeSettings,
    folder: &std::path::Path,
) -> Result<(), NodeError> {
    let archive = job.storage.get(&job.code).await?;
    let (folder, extension) = (folder.to_owned(), settings.extension.clone());
    let prepared = tokio::task::spawn_blocking(move || {
        unpack(&archive, &folder.join("code"))?;
        let home = folder.join("python");
        python_home::prepare(&home, &extension).map_err(|source| NodeError::Prepare { path: home, source })
    });
    prepared.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Runs mini-batches until the job wants no more.
async fn serve(
    job: &JobContext,
    settings: &NodeSettings,
    node_id: u32,
    folder: PathBuf,
    main_log: &LogFile,
    report: watch::Sender<NodeReport>,
    wanted: watch::Receiver<Signal>,
) {
    let tasks = TaskTracker::new();
    let end = IntakeEnd::default();
    let (ready, intake) = mpsc::channel(INTAKE_AHEAD);
    let (settle, settlements) = mpsc::unbounded_channel();
    let (idle, is_idle) = watch::channel(false);
    let (fatal, is_fatal) = watch::channel(None);
    let backlog = Backlog::default();
    tasks.spawn(intake::take_in(job.clone(), node_id, settings.prefetch, ready, settle.clone(), end.clone()));
    let committer = Committer {
        job: job.clone(),
        node_id,
        ip: settings.host.ip.clone(),
        many: (settings.prefetch / 2).max(1),
        backlog: backlog.clone(),
        fatal,
    };
    let committing = tokio::spawn(committer.run(settlements, is_idle));
    let dispatcher = Dispatcher::new(Surroundings {
        job,
        settings,
        node_id,
        folder,
        main_log,
        settle,
        idle,
        backlog,
        report,
        tasks: tasks.clone(),
    });
    dispatcher.run(intake, wanted, is_fatal, end.stop.clone()).await;
    if let Err(panic) = committing.await {
        tracing::error!(%panic, "the committer broke; what it had not committed runs again");
    }
    end.release.cancel();
    tasks.close();
    tasks.wait().await;
}
