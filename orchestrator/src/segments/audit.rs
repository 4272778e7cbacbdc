//! The audit: compares what was run with what was planned, before a result is made of it (spec S15).
//!
//! A sum over the descriptors of all outcomes is compared with the sum that the scheduler kept. Where they differ, a
//! message was changed, forged, or another job's. The plan is then made once more and compared one by one, to find the
//! segments that hold such outcomes.

use std::collections::BTreeMap;

use prs_common::layout;
use prs_common::ledger::Checkpoint;
use prs_common::mini_batch::{checksum, id_of};
use tokio_util::sync::CancellationToken;

use crate::JobContext;
use crate::plan::PlanError;
use crate::plan::schedule::plan_aside;
use crate::segments::catalog::Catalog;
use crate::segments::damage::Damaged;

/// Whether the outcomes are those of the plan, as far as the sums tell.
pub(crate) fn agrees(catalog: &Catalog, plan: &Checkpoint) -> bool {
    catalog.outcomes == plan.scheduled
        && catalog.rows.len() as u64 <= plan.scheduled
        && catalog.descriptors == plan.descriptors
}

/// What has to run again because its outcome is not that of the plan; empty where every outcome is.
pub(crate) async fn find_foreign(job: &JobContext, catalog: &Catalog) -> Result<Vec<Damaged>, PlanError> {
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let (mut batches, planner) = plan_aside(job, &stop);
    let mut foreign = BTreeMap::new();
    let (mut missing, mut first_missing) = (0, None);
    let mut end = 0;
    while let Some(batch) = batches.recv().await {
        end = batch.first + batch.bodies.len() as u64;
        for (index, body) in batch.into_indexed() {
            match catalog.rows_of(index) {
                None => {
                    missing += 1;
                    first_missing.get_or_insert(index);
                }
                Some(rows) if rows.checksum != checksum(&body) => {
                    foreign.entry(rows.segment).or_insert(index);
                }
                Some(_) => {}
            }
        }
    }
    planner.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    // A corrected plan has no mini-batch at a position behind its end.
    for (index, rows) in (0..).zip(&catalog.rows).skip(end as usize) {
        if let Some(rows) = rows {
            foreign.entry(rows.segment).or_insert(index);
        }
    }
    let told = |(segment, index): (u32, u64)| Damaged {
        segment: catalog.segments[segment as usize].to_string(),
        reason: format!("its outcome of {} is not of the mini-batch that was planned", id_of(index)),
    };
    let mut found: Vec<_> = foreign.into_iter().map(told).collect();
    if found.is_empty()
        && let Some(first) = first_missing
    {
        let reason = format!("{missing} mini-batches have no outcome, {} is the first", id_of(first));
        found.push(Damaged { segment: layout::SEGMENTS.to_owned(), reason });
    }
    Ok(found)
}
