//! Whether workers serve a job, and whether more could: what a user hears who submits one.

use prs_common::ledger::{JobState, Ledger};
use prs_orchestrator::job::membership::{self, Workers, untried_workers};
use prs_orchestrator::{JobRecord, run_name};

use super::follow::ask;
use crate::caller::Caller;
use crate::standing::{Shown, Standing};

/// Who could serve a job that no node serves; nothing where that is not known.
pub(crate) async fn workers(ledger: &dyn Ledger, record: &JobRecord) -> Option<Workers> {
    let run = run_name(&record.job_id, record.incarnation);
    membership::workers(ledger, &record.spec.compute_target, &run).await.ok()
}

/// Says of a job that is left to the fleet that nobody serves it, or that more could, where that is so.
pub(crate) async fn note_who_serves(ledger: &dyn Ledger, record: &JobRecord, caller: &dyn Caller) {
    // What is not known now `status` tells later.
    let Ok((state, status, _)) = ask(ledger, record, &[]).await else { return };
    if status.nodes > 0 {
        return note_unused(ledger, record, caller).await;
    }
    let Some(workers) = workers(ledger, record).await else { return };
    let (idle, node_count) = (workers.idle, record.spec.node_count);
    if idle == 0 {
        let target = record.spec.compute_target.clone();
        let standing = Standing { workers: Some(workers), target, ..Standing::default() };
        let shown = Shown { state: Some(state), status, standing };
        if let Some(told) = shown.served() {
            caller.note(&told);
        }
    }
    if let Some(told) = unused(u64::from(node_count).min(idle), idle, node_count) {
        caller.note(&told);
    }
}

/// Says that workers are free which the job takes no seats for, where that is so.
pub(crate) async fn note_unused(ledger: &dyn Ledger, record: &JobRecord, caller: &dyn Caller) {
    let job = ledger.job(&run_name(&record.job_id, record.incarnation));
    let asked = async {
        let nodes = job.nodes().await?;
        let idle = untried_workers(ledger, &record.spec.compute_target, &nodes).await?;
        let serving = nodes.iter().filter(|node| !node.left).count() as u64;
        Ok::<_, prs_common::ledger::LedgerError>((serving, idle))
    };
    if let Ok((serving, idle)) = asked.await
        && let Some(told) = unused(serving, serving + idle, record.spec.node_count)
    {
        caller.note(&told);
    }
}

/// Whether a job in this state can make use of more nodes.
pub(crate) fn wants_more(state: JobState) -> bool {
    matches!(state, JobState::Scheduling | JobState::Running)
}

/// That `used` of all free workers are used, where the job takes no more.
fn unused(used: u64, free: u64, node_count: u32) -> Option<String> {
    (used >= u64::from(node_count) && free > used).then(|| {
        let (is, workers) = (if used == 1 { "is" } else { "are" }, if free == 1 { "worker" } else { "workers" });
        format!(
            "note: {used} of {free} free {workers} {is} used (node_count {node_count}); --set node_count={free} uses all"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_workers_that_are_not_used_are_noted() {
        let table = [
            (1, 3, 1, Some("note: 1 of 3 free workers is used (node_count 1); --set node_count=3 uses all")),
            (2, 5, 2, Some("note: 2 of 5 free workers are used (node_count 2); --set node_count=5 uses all")),
            (1, 1, 1, None),
            (1, 3, 2, None),
            (0, 0, 1, None),
        ];
        for (used, free, node_count, expected) in table {
            assert_eq!(unused(used, free, node_count).as_deref(), expected, "{used} {free} {node_count}");
        }
    }
}
