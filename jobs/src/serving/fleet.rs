//! A fleet as a whole: what its compute targets want and have, and its workers. A machine without a fleet has neither.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use prs_common::ledger::{Ledger, LedgerError};
use prs_common::timestamp::now_us;
use prs_orchestrator::job::ServerError;
use prs_orchestrator::job::{targets as of_targets, workers as of_workers};

use crate::failure::Failure;
use crate::homes::Whereabouts;
use crate::homes::fleet::Reader;

pub use prs_common::ledger::{EndKind, HISTORY_STEP, HISTORY_STEPS, TargetCounts};
pub use prs_orchestrator::job::targets::TargetView;
pub use prs_orchestrator::job::workers::{WORKER_STATES, WorkerView};

/// The targets that jobs or workers name, with what each wants and has; by name.
///
/// # Errors
/// Storage or ledger does not answer: there is no figure then.
pub async fn targets(whereabouts: &Whereabouts) -> Result<Vec<TargetView>, Failure> {
    let Some((reader, ledger)) = servers(whereabouts).await? else { return Ok(Vec::new()) };
    let found = of_targets::targets(&**reader.storage(), &*ledger, now_us()).await;
    found.map_err(|error| match error {
        ServerError::Ledger(error) => of_ledger(error, &reader, whereabouts),
        error @ ServerError::Storage(_) => Failure::server(error),
    })
}

/// All workers, or those of one target; by host and name.
///
/// # Errors
/// The ledger does not answer.
pub async fn workers(whereabouts: &Whereabouts, target: Option<&str>) -> Result<Vec<WorkerView>, Failure> {
    let Some((reader, ledger)) = servers(whereabouts).await? else { return Ok(Vec::new()) };
    let found = of_workers::workers(&*ledger, target).await;
    found.map_err(|error| of_ledger(error, &reader, whereabouts))
}

/// What a target wanted and had over the last day: the steps of [`HISTORY_STEP`] that were noted, each with when it began,
/// microseconds since the Unix epoch.
///
/// # Errors
/// The ledger does not answer.
pub async fn history(whereabouts: &Whereabouts, target: &str) -> Result<Vec<(u64, TargetCounts)>, Failure> {
    let Some((reader, ledger)) = servers(whereabouts).await? else { return Ok(Vec::new()) };
    ledger.history(target).await.map_err(|error| of_ledger(error, &reader, whereabouts))
}

/// Notes what targets want and have now, for their history. The first note of a step counts, from any server.
///
/// # Errors
/// The ledger does not take it.
pub async fn note_history(whereabouts: &Whereabouts, targets: &[TargetView]) -> Result<(), Failure> {
    let Some((reader, ledger)) = servers(whereabouts).await? else { return Ok(()) };
    for target in targets {
        let counts = TargetCounts {
            wanted: target.wanted_nodes,
            live: target.live_nodes,
            idle: target.idle_workers,
            waiting: target.waiting_mini_batches,
        };
        let noted = ledger.note_history(&target.target, counts).await;
        noted.map_err(|error| of_ledger(error, &reader, whereabouts))?;
    }
    Ok(())
}

/// Notes that an autoscaler asks for a target now, for those who look at any server; nothing without a fleet.
///
/// # Errors
/// The ledger does not take it.
pub async fn note_ask(whereabouts: &Whereabouts, target: &str) -> Result<(), Failure> {
    let Some((reader, ledger)) = servers(whereabouts).await? else { return Ok(()) };
    ledger.note_ask(target).await.map_err(|error| of_ledger(error, &reader, whereabouts))
}

/// How long ago autoscalers asked for targets last, by their names.
///
/// # Errors
/// The ledger does not answer.
pub async fn asks(whereabouts: &Whereabouts) -> Result<HashMap<String, Duration>, Failure> {
    let Some((reader, ledger)) = servers(whereabouts).await? else { return Ok(HashMap::new()) };
    ledger.asks().await.map_err(|error| of_ledger(error, &reader, whereabouts))
}

/// Asks the worker of this name to leave: what it runs may end, the rest goes back. False where there is none.
///
/// # Errors
/// The ledger does not answer.
pub async fn drain(whereabouts: &Whereabouts, worker: &str, reason: &str) -> Result<bool, Failure> {
    let Some((reader, ledger)) = servers(whereabouts).await? else { return Ok(false) };
    let asked = of_workers::drain(&*ledger, worker, reason).await;
    asked.map_err(|error| of_ledger(error, &reader, whereabouts))
}

/// How many jobs of the fleet ended, by how, since its ledger was empty last; nothing without a fleet.
///
/// # Errors
/// The ledger does not answer.
pub async fn ended_jobs(whereabouts: &Whereabouts) -> Result<BTreeMap<EndKind, u64>, Failure> {
    let Some((reader, ledger)) = servers(whereabouts).await? else { return Ok(BTreeMap::new()) };
    ledger.ended_jobs().await.map_err(|error| of_ledger(error, &reader, whereabouts))
}

/// Storage and ledger of the fleet; nothing without one.
async fn servers(whereabouts: &Whereabouts) -> Result<Option<(Arc<Reader>, Arc<dyn Ledger>)>, Failure> {
    let Some(reader) = Reader::connect(whereabouts).await? else { return Ok(None) };
    let ledger = reader.ledger(&*whereabouts.caller).await?;
    let ledger = ledger.ok_or_else(|| Failure::server(anyhow::anyhow!("Redis does not answer")))?;
    Ok(Some((reader, ledger)))
}

fn of_ledger(error: LedgerError, reader: &Reader, whereabouts: &Whereabouts) -> Failure {
    let message = error.to_string();
    match reader.without_ledger(error, &*whereabouts.caller) {
        Ok(()) => Failure::server(anyhow::anyhow!("{message}")),
        Err(failure) => failure,
    }
}
