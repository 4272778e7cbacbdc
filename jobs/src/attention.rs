//! What needs a person about a job, from what a look at it tells, and from what its orchestrator said last.

use prs_common::statistics::Live;
use prs_common::timestamp::now_us;
use prs_orchestrator::report::error_list::{self, ErrorList};
use prs_orchestrator::report::page::{self, PageLocation};
use prs_portal::attention::{Attention, Severity, attention as sentences};
use prs_portal::view::{Published, signals};

use crate::homes::Seen;

/// Sentences about a job as it was seen, the worst first; `called` is what commands call it.
pub fn attention(seen: &Seen, live: Option<&Live>, called: &str) -> Vec<Attention> {
    let Seen { record, result, standing } = seen;
    let errors = ErrorList {
        schema: error_list::SCHEMA,
        errors: result.findings.errors.clone(),
        ..ErrorList::default()
    };
    let statistics = Published { live: live.cloned(), ..Published::default() };
    let place = PageLocation { called, is_among_logs: false, steps: None };
    let mut signals = signals(&page::facts(record, result, &errors, statistics, place));
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    if signals.top_error.is_empty()
        && let Some(error) = record.status.errors.first()
    {
        signals.top_error = first(&format!("{}: {}", error.category, error.message));
    }
    if signals.has_ended || live.is_none() {
        // Nobody watches over what has ended, and of what was never published nothing is late.
        signals.stale_for = 0.0;
    }
    signals.away = standing.waits_for.iter().map(|away| away.server.to_owned()).collect();
    let away_for = standing.waits_for.as_ref().and_then(|away| away.seconds);
    let away_since = away_for.map(|seconds| now_us().saturating_sub((seconds * 1e6) as u64));
    signals.began.extend(away_since.map(|us| ("server-away", us)));
    let mut said = sentences(&signals);
    if !result.state.is_final()
        && let Some(remark) = seen.shown().remark_in_short()
        && !said.iter().any(|one| ["no-worker", "server-away"].contains(&one.code))
    {
        let (code, command) = match standing.waits() {
            Some(_) => ("no-worker", format!("prs worker --target {}", standing.target)),
            None => ("note", format!("prs status {called}")),
        };
        let since_us = signals.began.iter().find(|(of, _)| *of == code).map(|(_, us)| *us);
        said.push(Attention { code, severity: Severity::Warning, text: remark, command, part: "", since_us });
        said.sort_by_key(|one| std::cmp::Reverse(one.severity));
    }
    said
}
