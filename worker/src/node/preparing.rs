//! What a node brings to its host before the first process starts: the code of the job, prs's own Python, the
//! environment of the script, the side inputs and the model. Time limits of the script do not run meanwhile.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use prs_common::code::archive::{is_intact, unpack};
use prs_common::end_reason::EndReason;
use prs_common::job::Environment;
use prs_common::layout::checksum_of_code;
use prs_common::ledger::{NodeReport, PrintedLine};
use prs_common::log_file::LogFile;
use prs_common::segment::{READS, read_again_after};
use prs_common::storage::StorageExt;
use prs_common::timestamp::now_us;
use prs_orchestrator::JobContext;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::host::blocking::blocking;
use crate::host::environment::{MadeEnvironment, make_environment};
use crate::host::python_home;
use crate::inputs::side::{SideInputs, SideProgress, SideWork, store_of_job};
use crate::metrics::Metrics;
use crate::node_settings::{NodeSettings, Unfit};
use crate::process::seen_errors::cut;

/// Pause before the code is fetched again from a store that did not answer.
const CODE_PAUSE: Duration = Duration::from_secs(1);

/// What was brought, kept as long as processes may use it.
pub(super) struct Prepared {
    /// The environment, where the job brings packages.
    pub(super) made: Option<MadeEnvironment>,
    pub(super) side_inputs: SideInputs,
}

/// Brings it.
pub(super) struct Preparing<'a> {
    pub(super) job: &'a JobContext,
    pub(super) settings: &'a NodeSettings,
    pub(super) node_id: u32,
    /// Tells this service of the node from all others.
    pub(super) service: &'a str,
    /// The scratch folder of the node.
    pub(super) folder: &'a Path,
    /// Holds what is written there, which goes on when this is given up.
    pub(super) writing: &'a TaskTracker,
    pub(super) main_log: &'a LogFile,
    /// How the node is: this writes, the heartbeat reads.
    pub(super) report_tx: &'a watch::Sender<NodeReport>,
}

impl Preparing<'_> {
    /// Brings all of it, one after the other; says why this host cannot have it.
    pub(super) async fn prepare(&self) -> Result<Prepared, Unfit> {
        if let Some(unfit) = &self.settings.unfit {
            return Err(unfit.clone());
        }
        self.code().await?;
        Ok(Prepared { made: self.environment().await?, side_inputs: self.side_inputs().await? })
    }

    /// The code and prs's own Python, into the scratch folder.
    async fn code(&self) -> Result<(), EndReason> {
        let archive = fetch_code(self.job, &self.settings.metrics).await?;
        let (scratch, extension) = (self.folder.to_owned(), self.settings.extension.clone());
        let prepared = self.writing.spawn_blocking(move || {
            unpack(&archive, &scratch.join("code"))
                .map_err(|error| EndReason::CodeNotUnpacked { error: error.to_string() })?;
            let home = scratch.join("python");
            python_home::prepare(&home, &extension).map_err(|error| {
                let (folder, error) = (home.display().to_string(), error.to_string());
                EndReason::NotPrepared { folder, error }
            })
        });
        prepared.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    async fn environment(&self) -> Result<Option<MadeEnvironment>, Unfit> {
        let Self { job, settings, node_id, service, .. } = self;
        let Some(packages) = job.spec.environment.as_ref().and_then(Environment::packages) else {
            return Ok(None);
        };
        let log = LogFile::new(job.logs.join(format!("sys/node/{node_id}/environment.txt")));
        let token = format!("{}-{}-{node_id}-{service}-environment.", job.id, job.incarnation);
        let progress = |text: &str| {
            let text = cut(text);
            self.report_tx.send_modify(|report| report.preparing = Some(text));
        };
        let made = make_environment(packages, &token, &|text| log.line(text), &progress).await;
        self.report_tx.send_modify(|report| report.preparing = None);
        made.map(Some).map_err(|error| {
            let mut error = error.to_string();
            log.line(&error);
            if job.policy.has_others {
                let _ = write!(error, "\n  host         {} ({})", settings.host.name, settings.host.ip);
            }
            let _ = write!(error, "\n  log          logs/sys/node/{node_id}/environment.txt");
            // An index that this host does not reach, or a Python that it lacks, another host may have.
            of_host(EndReason::NoEnvironment { error })
        })
    }

    async fn side_inputs(&self) -> Result<SideInputs, Unfit> {
        let Self { job, settings, node_id, main_log, .. } = self;
        let store = settings.side_inputs.clone();
        let store = store.unwrap_or_else(|| store_of_job(self.folder, settings.cache_bytes));
        let told = |SideProgress { label, done, total, of_all, work }: SideProgress| {
            if work == SideWork::IsSettled {
                settings.metrics.fetched(total);
            }
            let awaited = match work {
                SideWork::Comes => None,
                SideWork::IsAwaited => Some("another worker of this host fetches it"),
                SideWork::IsSettled => Some("it is made ready"),
            };
            let preparing = awaited.map(|what| format!("{label}: {what}"));
            let is_waiting = preparing.is_some();
            self.report_tx.send_if_modified(|report| {
                let is_new = report.preparing != preparing;
                if is_new {
                    if let Some(text) = &preparing {
                        main_log.line(text);
                    }
                    report.preparing = preparing;
                }
                is_new
            });
            if is_waiting {
                return;
            }
            if done == 0 {
                let text = format!("{label}: {total} bytes are fetched, or shared with other jobs");
                main_log.line(text);
            } else if done == total {
                main_log.line(format_args!("{label} is here"));
            }
            let is_here = done == total;
            let line =
                if is_here { "it is here".to_owned() } else { format!("{done} of {total} bytes are here") };
            let printed = PrintedLine { at_us: now_us(), node_id: *node_id, process: label, line };
            self.report_tx.send_modify(|report| {
                report.fetched = of_all;
                report.printed = Some(printed);
            });
        };
        let brought = SideInputs::bring(&job.spec, &job.id, &job.inputs, &store, &told).await;
        self.report_tx.send_modify(|report| (report.printed, report.preparing) = (None, None));
        // Another host may have what this one lacks, or a way to it.
        brought.map_err(of_host)
    }
}

/// What keeps this host from the job and no other.
fn of_host(reason: EndReason) -> Unfit {
    Unfit { reason, is_of_host: true }
}

/// The code archive, as often as it takes. One that is not what its name says is read some times, for it may have been
/// damaged on the way.
async fn fetch_code(job: &JobContext, metrics: &Metrics) -> Result<Bytes, EndReason> {
    let mut damaged = 0;
    loop {
        let fetched = job.storage.get(&job.code).await;
        metrics.heard(&fetched);
        match fetched {
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
