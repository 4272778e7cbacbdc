//! Pipelines that this worker drives, beside the job that it serves.
//!
//! A pipeline wants no nodes. A worker that looks at the offers while no program has the lease of it takes that, and keeps
//! it until the pipeline has ended or the worker leaves. Driving takes a look at the steps a second, so that a worker does it
//! beside a job: a fleet whose workers are all busy goes on with its pipelines.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prs_common::ledger::Offered;
use prs_orchestrator::Fleet;
use prs_orchestrator::job::membership;
use prs_orchestrator::pipeline::{Driven, drive};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{WorkerSettings, spread};

/// The pipelines that one worker drives.
#[derive(Debug, Clone, Default)]
pub(super) struct Pipelines {
    driven: Arc<Mutex<HashSet<String>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Between two looks of a worker that serves a job, on average.
const BUSY_LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Whether what is offered is a pipeline.
pub(super) fn is_pipeline(offered: &Offered) -> bool {
    offered.offer.nodes == 0
}

impl Pipelines {
    /// Drives an offered pipeline, unless some program does.
    pub(super) fn look_after(&self, fleet: &Fleet, (target, offered): &(String, Offered), owner: &str) {
        let is_driven = offered.known.is_some_and(|known| known.is_watched);
        if is_driven || offered.offer.prs_version != env!("CARGO_PKG_VERSION") {
            return;
        }
        let run = offered.offer.run.clone();
        if !self.driven.lock().unwrap_or_else(PoisonError::into_inner).insert(run.clone()) {
            return;
        }
        let (this, fleet, owner) = (self.clone(), fleet.clone(), owner.to_owned());
        let (target, job_id, start) =
            (target.clone(), offered.offer.job_id.clone(), offered.offer.incarnation);
        self.tasks.spawn(async move {
            match drive(&fleet, &job_id, Some(start), &owner, &this.stop).await {
                Driven::Ended(result) => {
                    tracing::info!(job = job_id, state = result.state.as_str(), "the pipeline has ended");
                }
                Driven::Gone => {
                    // What is left of it is the offer alone.
                    if let Err(error) = membership::forget(&fleet, &target, &job_id, start).await {
                        tracing::warn!(job = job_id, %error, "the offer of a pipeline that is gone is left");
                    }
                }
                Driven::Elsewhere | Driven::Superseded | Driven::Stopped => {}
            }
            this.driven.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
        });
    }

    /// Looks for pipelines while this worker serves a job, and so does not look for jobs. Never returns.
    pub(super) async fn look_while_busy(&self, fleet: &Fleet, settings: &WorkerSettings, owner: &str) {
        loop {
            tokio::time::sleep(spread(BUSY_LOOK_INTERVAL)).await;
            for target in &settings.targets {
                settings.metrics.turns();
                match membership::offers(fleet, target, None).await {
                    Ok(offers) => {
                        for offered in offers.offered.into_iter().filter(is_pipeline) {
                            self.look_after(fleet, &(target.clone(), offered), owner);
                        }
                    }
                    Err(error) => tracing::debug!(target, %error, "pipelines are looked for later"),
                }
            }
        }
    }

    /// Whether there are any.
    pub(super) fn are_any(&self) -> bool {
        !self.driven.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Gives up the leases of all of them.
    pub(super) async fn leave(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
