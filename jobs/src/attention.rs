//! What needs a person about a job, from what a look at it tells, and from what its orchestrator said last: the same sentences for its page, for
//! programs and for lists.

use prs_common::statistics::Live;
use prs_common::timestamp::now_us;
use prs_orchestrator::report::error_list::{self, ErrorList};
use prs_orchestrator::report::page::{self, PageLocation};
use prs_portal::attention::{Attention, Workers, attention as sentences};
use prs_portal::view::{FleetFact, Published, signals};

use crate::homes::Seen;

/// Sentences about a job as it was seen, the worst first; `called` is what commands call it.
pub fn attention(seen: &Seen, live: Option<&Live>, called: &str) -> Vec<Attention> {
    let Seen { record, result, .. } = seen;
    let errors = ErrorList {
        schema: error_list::SCHEMA,
        errors: result.findings.errors.clone(),
        ..ErrorList::default()
    };
    let statistics = Published { live: live.cloned(), ..Published::default() };
    let place = PageLocation { called, is_among_logs: false, steps: None };
    let mut facts = page::facts(record, result, &errors, statistics, place);
    facts.fleet = fleet(seen);
    sentences(&signals(&facts))
}

/// What a fleet does for the job as it was seen; nothing of a job of this machine, of one that has ended, and of a pipeline, which no node serves.
pub(crate) fn fleet(seen: &Seen) -> Option<FleetFact> {
    let Seen { record, result, standing } = seen;
    if standing.target.is_empty() || result.state.is_final() || record.pipeline.is_some() {
        return None;
    }
    let away = standing.waits_for.as_ref().map(|away| {
        let since = away.seconds.map(|seconds| now_us().saturating_sub((seconds * 1e6) as u64));
        (away.server.to_owned(), since)
    });
    let workers = standing.workers.as_ref().map(|found| Workers {
        idle: found.idle.max(u64::from(found.watches)),
        busy: found.busy,
        elsewhere: found.elsewhere.iter().map(|one| (one.target.clone(), one.workers)).collect(),
    });
    // While the ledger is away nobody knows whether nodes serve it.
    let nodes =
        if away.is_some() { u64::from(record.status.nodes).max(1) } else { record.status.nodes.into() };
    Some(FleetFact { nodes, workers, away })
}
