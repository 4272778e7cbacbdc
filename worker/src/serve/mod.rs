//! A worker: looks for jobs of its targets that want nodes, and serves them, one after the other.
//!
//! An idle worker needs the ledger and storage alone, and has no connection to the broker. It is a steward too: it fills
//! a ledger that was lost, ends a job that nobody ends, and tidies up behind one that has ended; where it is of no use as a
//! node of a job, it watches over that while nobody else does. It never ends because a
//! server went away: every wait is repeated. How it ends is said by its [`NodeEnd`], by `idle_limit`, or by the one job it was started for.

mod choice;
mod listener;
mod pipelines;
mod service;
mod watcher;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prs_common::ledger::{LedgerError, NodeInfo};
use prs_orchestrator::Fleet;
use prs_orchestrator::job::membership;
use tokio::time::Instant;

use crate::host::unique::unique;
use crate::inputs::side::SideInputStore;
use crate::metrics::Metrics;
use crate::{Host, NodeEnd, WorkFolder, find_interpreter};
use choice::{Choice, Left, choices, takes};
pub use listener::{Listener, NotServed};
use pipelines::{Pipelines, is_pipeline};
pub use service::ServeOutcome;
use service::Service;

/// Between two looks of an idle worker, on average: when its bell does not ring.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Least time between two looks: a job that cannot be served may be offered again at once.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// A job that could not be served is left to others for so long.
const LEFT_FOR: Duration = Duration::from_secs(5);
/// The same of a job whose servers others reach, and this worker does not: they have to take its seat first. A job that no
/// worker can watch over is tried as seldom.
const LEFT_TO_OTHERS_FOR: Duration = Duration::from_secs(30);
/// The same of a job whose record cannot be read: a read of what storage damaged takes seconds.
const LEFT_UNREAD_FOR: Duration = Duration::from_mins(2);
/// How long the last answers to the broker may take.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// How long a worker that ends waits until the ledger has forgotten it.
const RETIRING: Duration = Duration::from_secs(2);
/// Pause before the one job of a worker is looked at again.
const USELESS_PAUSE: Duration = Duration::from_secs(1);

/// What a worker is run with.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Name of the worker, for people; it need not be unique.
    pub name: String,
    /// Compute targets it works for.
    pub targets: Vec<String>,
    /// Most processes it runs at a time.
    pub slots: Option<u32>,
    /// Folder for what need not outlive a job.
    pub work_folder: Arc<WorkFolder>,
    /// The extension that processes load.
    pub extension: PathBuf,
    /// The host.
    pub host: Host,
    /// Most bytes of inputs that are kept here at a time.
    pub cache_bytes: u64,
    /// Of these, most bytes that lie in memory.
    pub memory_bytes: u64,
    /// Side inputs, which it shares with other workers of the host.
    pub side_inputs: Arc<SideInputStore>,
    /// How long what runs has to end when the worker is asked to leave.
    pub drain: Duration,
    /// How long to wait for a job before the worker ends.
    pub idle_limit: Option<Duration>,
    /// What is counted.
    pub metrics: Metrics,
}

/// Serves jobs until it is asked to end, or had nothing to do for `idle_limit`.
pub async fn serve_jobs(fleet: &Fleet, settings: &WorkerSettings, end: &NodeEnd) {
    let (pipelines, info) = (Pipelines::default(), idle_info(settings));
    search_and_serve(fleet, settings, end, &pipelines, &info).await;
    pipelines.leave().await;
    retire(fleet, settings, &info).await;
}

/// Lets the ledger forget a worker that ends, which is not seen any more at once. Nobody waits for it.
async fn retire(fleet: &Fleet, settings: &WorkerSettings, info: &NodeInfo) {
    let retired = async {
        for target in &settings.targets {
            fleet.ledger.retire(target, info).await?;
        }
        Ok::<_, LedgerError>(())
    };
    match tokio::time::timeout(RETIRING, retired).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the worker is seen a little longer"),
        Err(_) => tracing::debug!("the worker is seen a little longer: no answer"),
    }
}

async fn search_and_serve(
    fleet: &Fleet,
    settings: &WorkerSettings,
    end: &NodeEnd,
    pipelines: &Pipelines,
    info: &NodeInfo,
) {
    let mut search = Search { fleet, settings, info: info.clone(), left: HashMap::new(), pipelines };
    let mut bell = None;
    let mut idle_since = Instant::now();
    loop {
        let found = tokio::select! {
            biased;
            () = end.drain.cancelled() => return,
            found = search.look(end) => found,
        };
        let pause = if search.serve_one_of(found, end).await {
            // Rings that nobody hears would pile up.
            bell = None;
            idle_since = Instant::now();
            LEAST_PAUSE
        } else {
            let_go_of_broker(fleet).await;
            spread(LOOK_INTERVAL)
        };
        if pipelines.are_any() {
            // Who drives one is not idle: nobody may be there to go on with it.
            idle_since = Instant::now();
        }
        let idle_left = settings.idle_limit.map(|limit| limit.saturating_sub(idle_since.elapsed()));
        if idle_left.is_some_and(|left| left.is_zero()) {
            tracing::info!("there was nothing to do for as long as the worker waits; it ends");
            return;
        }
        let bell = bell.get_or_insert_with(|| fleet.ledger.bell(&settings.targets));
        tokio::select! {
            biased;
            () = end.drain.cancelled() => return,
            () = tokio::time::sleep(pause.min(idle_left.unwrap_or(pause))) => {}
            // Several rings that come together are one look.
            () = bell.rings() => tokio::time::sleep(LEAST_PAUSE / 10).await,
        }
    }
}

/// What a worker says of itself while it has no job.
fn idle_info(settings: &WorkerSettings) -> NodeInfo {
    let instance = instance(settings);
    let slots = settings.slots.unwrap_or_else(|| settings.host.default_slots());
    let python = find_interpreter(None).map(|python| python.display().to_string()).unwrap_or_default();
    NodeInfo { python, ..settings.host.node_info(&instance, &instance, slots) }
}

/// A name for this program that no other has.
fn instance(settings: &WorkerSettings) -> String {
    format!("{}-{}-{}", settings.name, std::process::id(), unique())
}

/// Sends the last answers to the broker, for without them some messages would come again, and closes the connections to it.
/// Their buffers are three quarters of what an idle worker has in memory; the next job opens others.
pub async fn let_go_of_broker(fleet: &Fleet) {
    if tokio::time::timeout(LAST_ANSWERS, fleet.queue.close()).await.is_err() {
        tracing::warn!(broker = %fleet.queue, "the broker does not answer; messages in its hands may come again");
    }
}

/// `mean`, up to a quarter more or less, so that not all workers look at the same moment.
fn spread(mean: Duration) -> Duration {
    let share = u32::from_str_radix(&unique(), 16).unwrap_or_default();
    mean.mul_f64(0.75 + f64::from(share) / f64::from(u32::MAX) / 2.0)
}

/// The search of an idle worker for something to do.
struct Search<'a> {
    fleet: &'a Fleet,
    settings: &'a WorkerSettings,
    /// What it says of itself while it has no job.
    info: NodeInfo,
    /// What it leaves to others of which runs.
    left: HashMap<String, Left>,
    /// The pipelines that it drives.
    pipelines: &'a Pipelines,
}

impl Search<'_> {
    /// What there is to do, the most urgent first.
    async fn look(&mut self, end: &NodeEnd) -> Vec<Choice> {
        let mut offered = Vec::new();
        let mut are_all = true;
        let metrics = &self.settings.metrics;
        for target in &self.settings.targets {
            metrics.turns();
            let offers = membership::offers(self.fleet, target, Some(&self.info)).await;
            metrics.heard(&offers);
            match offers {
                Ok(offers) if offers.leaves => {
                    tracing::info!("an administrator asked this worker to leave");
                    end.drain.cancel();
                    return Vec::new();
                }
                Ok(offers) => offered.extend(offers.offered.into_iter().map(|one| (target.clone(), one))),
                Err(error) => {
                    tracing::warn!(target, %error, "whether there is a job is not known; looking again");
                    are_all = false;
                }
            }
        }
        for pipeline in offered.extract_if(.., |(_, one)| is_pipeline(one)) {
            self.pipelines.look_after(self.fleet, &pipeline, &self.info.instance);
        }
        let now = Instant::now();
        let is_offered = |run: &String| offered.iter().any(|(_, one)| one.offer.run == *run);
        self.left.retain(|run, left| match left {
            Left::Until(until) => *until > now,
            Left::Nodes | Left::All => !are_all || is_offered(run),
        });
        let mut found = choices(offered);
        found.retain(|choice| takes(self.left.get(&choice.offer.run).copied(), choice.role, now));
        found
    }

    /// Serves the first of `found` that can be; false when none can.
    async fn serve_one_of(&mut self, found: Vec<Choice>, end: &NodeEnd) -> bool {
        let service =
            Service { fleet: self.fleet, settings: self.settings, end, instance: &self.info.instance };
        for choice in found {
            if end.drain.is_cancelled() {
                return false;
            }
            let run = choice.offer.run.clone();
            let looking = self.pipelines.look_while_busy(self.fleet, self.settings, &self.info.instance);
            let outcome = tokio::select! {
                outcome = service.serve_offer(choice) => outcome,
                () = looking => unreachable!("it looks for ever"),
            };
            if !matches!(outcome, ServeOutcome::Full | ServeOutcome::OtherVersion) {
                tracing::info!(run, "this worker stops serving the job: {outcome}");
            }
            let left = match outcome {
                ServeOutcome::Full => continue,
                ServeOutcome::NotHere => Left::Until(Instant::now() + LEFT_FOR),
                ServeOutcome::CutOff | ServeOutcome::NotWatched => {
                    Left::Until(Instant::now() + LEFT_TO_OTHERS_FOR)
                }
                ServeOutcome::Unread => Left::Until(Instant::now() + LEFT_UNREAD_FOR),
                ServeOutcome::OtherVersion => Left::All,
                ServeOutcome::Useless => Left::Nodes,
                ServeOutcome::Again => {
                    self.left.remove(&run);
                    return true;
                }
                _ => return true,
            };
            self.left.insert(run, left);
            if matches!(outcome, ServeOutcome::Useless | ServeOutcome::CutOff | ServeOutcome::NotWatched) {
                return true;
            }
        }
        false
    }
}

/// Serves one job, whether or not it wants more nodes, until it is over or the worker is asked to end.
pub async fn serve_job(
    fleet: &Fleet,
    settings: &WorkerSettings,
    job_id: &str,
    end: &NodeEnd,
) -> ServeOutcome {
    let instance = instance(settings);
    loop {
        let service = Service { fleet, settings, end, instance: &instance };
        let outcome = tokio::select! {
            outcome = service.serve(job_id) => outcome,
            () = settings.metrics.turns_meanwhile() => unreachable!("it turns for ever"),
        };
        match outcome {
            // Its result is being written by another node: how it ends shows then.
            ServeOutcome::EndsElsewhere
            | ServeOutcome::Again
            | ServeOutcome::NotHere
            | ServeOutcome::CutOff
            | ServeOutcome::NotWatched
            | ServeOutcome::Unread
            | ServeOutcome::Full => {}
            ServeOutcome::Useless => return ServeOutcome::Left,
            outcome => return outcome,
        }
        if end.drain.run_until_cancelled(tokio::time::sleep(USELESS_PAUSE)).await.is_none() {
            return ServeOutcome::Left;
        }
    }
}
