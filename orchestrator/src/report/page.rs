//! `report.html`: a job on one page, for people, with pictures. `prs-portal` says what it looks like; here is put together
//! what is known of the job.

use std::path::Path;

use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::ledger::{Conclusion, JobState, SeenError};
use prs_common::segment::TryStatus;
use prs_common::statistics::{self, Errors, Part};
use prs_common::timestamp::now_us;
use prs_common::tree;
use prs_portal::view::{
    ErrorFact, ErrorPlace, ErrorTimes, ErrorTry, Facts, FailedList, OutputFact, Published, StartFact,
    StepFact,
};

use super::error_list::ErrorList;
use super::starts;
use super::statistics::group_id_of;
use crate::job::errors::{ErrorGroup, Example};
use crate::job::record::{JobRecord, JobResult, StartResult, StepResult};
use crate::job::words;

/// Its name among the logs.
pub const NAME: &str = "report.html";

/// Where a page is, which decides what it can link to.
#[derive(Debug, Clone, Copy)]
pub struct PageLocation<'a> {
    /// What commands call the job.
    pub called: &'a str,
    /// Whether it is among the logs of the job.
    pub is_among_logs: bool,
    /// Where the reports of steps are, seen from it: what is in front of the id of a step, and what is behind it.
    pub steps: Option<(&'a str, &'a str)>,
}

/// The page of a job, whose `result` is that of its end, or what there is of it so far.
pub fn html(
    record: &JobRecord,
    result: &JobResult,
    errors: &ErrorList,
    statistics: Published,
    place: PageLocation<'_>,
) -> String {
    prs_portal::view::report(&facts(record, result, errors, statistics, place))
}

/// What is known of a job, for a page.
pub fn facts(
    record: &JobRecord,
    result: &JobResult,
    errors: &ErrorList,
    statistics: Published,
    place: PageLocation<'_>,
) -> Facts {
    let (counts, items, findings) = (&result.mini_batches, &result.items, &result.findings);
    let lists_failed = result.state.is_final() && findings.mini_batches_missing > 0;
    Facts {
        job_id: result.job_id.clone(),
        called: place.called.to_owned(),
        types_differ: findings.types_differ.clone(),
        spec: record.spec.clone(),
        state: result.state,
        reason: result.reason.clone(),
        complete: findings.complete,
        reused: result.reused.clone(),
        submitted_us: record.submitted_us,
        started_us: record.started_us,
        ended_us: result.ended_us,
        seconds: result.seconds,
        mini_batches: (counts.scheduled, counts.succeeded, counts.failed),
        items: (items.total, items.succeeded, items.failed),
        mini_batches_missing: findings.mini_batches_missing.max(counts.failed),
        failed_tries: errors.failed_tries.max(findings.tries.failed),
        output: OutputFact {
            uri: result.output.uri.clone(),
            is_file: result.output.file().is_some(),
            rows: result.output.rows,
            bytes: result.output.bytes,
            sha256: result.output.sha256.clone(),
        },
        logs: result.logs.trim_end_matches('/').to_owned(),
        is_among_logs: place.is_among_logs,
        version: record.prs_version.clone(),
        starts: result.starts.iter().map(start).collect(),
        errors: errors.errors.iter().map(|group| error(group, statistics.errors.as_ref())).collect(),
        other_tries: errors.others,
        failed_list: lists_failed
            .then(|| FailedList { uri: format!("{}/{FAILED_MINI_BATCHES}", result.output.folder()) }),
        steps: result.steps.iter().map(|step| of_step(step, needs(record, step), place)).collect(),
        has_main_step: record.main_step().is_some(),
        fleet: None,
        ends: ends(record),
        seen_error: record.status.errors.first().map(seen_error).unwrap_or_default(),
        statistics,
        now_us: now_us(),
    }
}

/// How it is decided that the job ends, where that is no result, and not written down yet.
fn ends(record: &JobRecord) -> String {
    let end = record.status.progress.conclusion.as_ref().filter(|end| end.state != JobState::Completed);
    let Some(Conclusion { state, reason }) = end.filter(|_| !record.state.is_final()) else {
        return String::new();
    };
    format!("ends as {}: {}", state.as_str(), reason.lines().next().unwrap_or_default())
}

/// An error that a node told of, in one line.
fn seen_error(error: &SeenError) -> String {
    let line = format!("{}: {}", error.category, error.message);
    line.lines().next().unwrap_or_default().to_owned()
}

fn start(start: &StartResult) -> StartFact {
    StartFact {
        start: start.start,
        code: starts::short(&start.code).to_owned(),
        mini_batches: start.mini_batches,
        rows: start.rows,
    }
}

fn error(group: &ErrorGroup, statistics: Option<&Errors>) -> ErrorFact {
    let Example { mini_batch_id, detail, number, node_id, process, log, .. } = &group.example;
    let what = if mini_batch_id.is_empty() {
        group.place()
    } else {
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        format!("mini-batch {mini_batch_id}{detail}, try {number}, {process} of node {node_id}")
    };
    let id = group_id_of(&group.status, &group.category, group.frame.as_ref(), &group.message);
    let told = statistics.and_then(|told| told.groups.iter().find(|told| told.id == id));
    ErrorFact {
        group: if mini_batch_id.is_empty() { String::new() } else { id },
        status: group.status.clone(),
        // Who lacks items raised nothing.
        category: if group.category.is_empty() && group.status == TryStatus::RunDone.as_str() {
            "items are missing".to_owned()
        } else {
            group.category.clone()
        },
        message: group.message.clone(),
        pattern: told
            .map(statistics::ErrorGroup::pattern)
            .filter(|pattern| *pattern != group.message)
            .unwrap_or_default(),
        messages_differ: group.messages_differ,
        place: group.frame.as_ref().map(ToString::to_string).unwrap_or_default(),
        code: group.frame.as_ref().map(|frame| frame.text.clone()).unwrap_or_default(),
        cost: words::cost(group),
        tries: group.tries,
        lost: group.mini_batches_lost,
        nodes: group.nodes.iter().copied().collect(),
        times: told.map(times),
        example: ErrorPlace { what, log: log.clone() },
        traceback: group.traceback.clone(),
        around: Vec::new(),
        tried: told.iter().flat_map(|told| &told.examples).map(tried).collect(),
    }
}

fn tried(one: &statistics::ErrorExample) -> ErrorTry {
    ErrorTry {
        index: one.index,
        number: one.number,
        node_id: one.node_id,
        process: one.process.clone(),
        detail: one.detail.clone(),
        started_us: one.started_us,
        is_lost: one.is_lost,
    }
}

/// When tries were, as the statistics tell.
fn times(told: &statistics::ErrorGroup) -> ErrorTimes {
    ErrorTimes {
        first_and_last_us: (told.first_us, told.last_us),
        bins_from_us: (told.curve.origin_us(), told.curve.step_s()),
        bins: told.curve.bins().to_vec(),
        nodes: told.nodes.clone(),
        nodes_total: told.nodes_total,
    }
}

/// The steps that a step of a pipeline needs.
fn needs(record: &JobRecord, step: &StepResult) -> Vec<String> {
    let plan = record.pipeline.iter().flat_map(|plan| &plan.pipeline.steps);
    plan.filter(|planned| planned.name == step.name).flat_map(|planned| planned.needs.clone()).collect()
}

fn of_step(step: &StepResult, needs: Vec<String>, place: PageLocation<'_>) -> StepFact {
    let result = step.result.as_deref();
    let reason = result.and_then(|result| result.reason.as_deref()?.lines().next());
    StepFact {
        name: step.name.clone(),
        job_id: step.job_id.clone(),
        needs,
        state: result.map(|result| result.state),
        complete: result.is_some_and(|result| result.findings.complete),
        reason: reason.unwrap_or_default().to_owned(),
        seconds: result.map_or(0.0, |result| result.seconds),
        items: result.map_or((0, 0), |result| (result.items.total, result.items.failed)),
        report: place.steps.map(|(before, behind)| format!("{before}{}{behind}", step.job_id)),
    }
}

/// The statistics whose parts `read` finds by their names; what cannot be understood is left out, and told.
pub fn published<B: AsRef<[u8]>>(read: impl Fn(&str) -> Option<B>) -> Published {
    fn part<P: Part, B: AsRef<[u8]>>(
        read: &impl Fn(&str) -> Option<B>,
        lacking: &mut Vec<String>,
    ) -> Option<P> {
        let bytes = read(P::NAME)?;
        statistics::decode(bytes.as_ref()).map_err(|error| lacking.push(error.to_string())).ok()
    }
    let mut lacking = Vec::new();
    let (live, activity) = (part(&read, &mut lacking), part(&read, &mut lacking));
    let (summary, nodes) = (part(&read, &mut lacking), part(&read, &mut lacking));
    let errors = part(&read, &mut lacking);
    Published { live, activity, summary, nodes, errors, lacking: lacking.join("; ") }
}

/// The statistics in a folder of logs.
pub(crate) fn published_in(logs: &Path) -> Published {
    published(|name| tree::read(logs.join(statistics::FOLDER).join(name)).ok())
}
