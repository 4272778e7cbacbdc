//! How a job is written: the record of `prs status -o json`, and what else a server knows.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use prs_common::ledger::JobState;
use prs_common::statistics::{Live, Threshold};
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::attention::attention;
use prs_jobs::homes::Seen;
use prs_jobs::phase::phase;
use prs_jobs::records::{Job, Versioned};
use prs_portal::attention::{Attention, Severity};
use serde::Serialize;
use serde_json::Value;

use crate::http::conditional::{self, short_checksum};
use crate::index::Summary;
use crate::problem::{Kind, Problem};

/// Keys that change of a job that runs though nothing happens: how long it has run, and what follows from that.
const OF_TIME: [&str; 6] =
    ["seconds", "waited_seconds", "eta_seconds", "per_second", "items_per_second", "at_work"];

/// Addresses about a job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Links {
    #[serde(rename = "self")]
    this: String,
    portal: String,
    events: String,
    errors: String,
    logs: String,
    outputs: String,
    result: String,
}

impl Links {
    fn of(job_id: &str) -> Self {
        let below = |what: &str| format!("/api/v1/jobs/{job_id}{what}");
        Self {
            this: below(""),
            portal: format!("/jobs/{job_id}"),
            events: below("/events"),
            errors: below("/errors"),
            logs: below("/logs"),
            outputs: below("/outputs"),
            result: below("/result"),
        }
    }
}

/// The address of a job. The others follow from its id, and a list stays small without them.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OwnLink {
    #[serde(rename = "self")]
    this: String,
}

/// What needs a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AttentionLine {
    /// What it is about.
    code: &'static str,
    /// `note`, `warning` or `error`.
    severity: &'static str,
    /// When that began; null where nobody knows.
    since: Option<String>,
    /// What is the matter.
    text: String,
    /// The page that has more.
    link: String,
    /// A command that helps; null where none does.
    command: Option<String>,
}

impl AttentionLine {
    fn of(one: &Attention, job_id: &str) -> Self {
        Self {
            code: one.code,
            severity: match one.severity {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Error => "error",
            },
            since: one.since_us.map(format_us),
            text: one.text.clone(),
            link: one.link(job_id),
            command: Some(one.command.clone()).filter(|command| !command.is_empty()),
        }
    }
}

/// A job as a list has it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "JobSummary"))]
pub(crate) struct JobSummary<'a> {
    schema: u32,
    job_id: &'a str,
    name: &'a str,
    display_name: Option<&'a str>,
    state: &'static str,
    /// What it does at the moment; null once it has ended.
    phase: Option<&'a str>,
    complete: Option<bool>,
    reason: Option<&'a str>,
    canceled_by: Option<&'a str>,
    target: &'a str,
    submitted_at: String,
    /// When its last start was asked for.
    started_at: String,
    ended_at: Option<String>,
    submitted_by: Option<&'a str>,
    tags: &'a BTreeMap<String, String>,
    endpoint: Option<&'a str>,
    deployment: Option<&'a str>,
    parent: Option<&'a str>,
    mini_batches: prs_orchestrator::job::record::MiniBatchCounts,
    items: prs_orchestrator::job::record::ItemCounts,
    seconds: f64,
    per_second: f64,
    eta_seconds: Option<f64>,
    /// The worst of what needs a person; null where nothing does.
    attention: Option<AttentionLine>,
    incarnation: u32,
    links: OwnLink,
}

impl<'a> From<&'a Summary> for JobSummary<'a> {
    fn from(of: &'a Summary) -> Self {
        Self {
            schema: prs_jobs::records::SCHEMA,
            job_id: &of.job_id,
            name: &of.name,
            display_name: of.display_name.as_deref(),
            state: of.state.as_str(),
            phase: of.phase.as_deref(),
            complete: of.complete,
            reason: of.reason.as_deref(),
            canceled_by: canceled_by(of.state, of.reason.as_deref()),
            target: &of.target,
            submitted_at: format_us(of.submitted_us),
            started_at: format_us(of.started_us),
            ended_at: of.ended_us.map(format_us),
            submitted_by: of.submitted_by.as_deref(),
            tags: &of.tags,
            endpoint: of.deployed.as_ref().map(|(endpoint, _)| endpoint.as_str()),
            deployment: of.deployed.as_ref().map(|(_, deployment)| deployment.as_str()),
            parent: of.parent.as_deref(),
            mini_batches: of.mini_batches,
            items: of.items,
            seconds: of.seconds,
            per_second: of.per_second,
            eta_seconds: of.eta_seconds,
            attention: of.attention.as_ref().map(|one| AttentionLine::of(one, &of.job_id)),
            incarnation: of.start,
            links: OwnLink { this: Links::of(&of.job_id).this },
        }
    }
}

/// Who canceled a job that ended so, as its reason says.
fn canceled_by(state: JobState, reason: Option<&str>) -> Option<&str> {
    let first = reason?.lines().next()?;
    // Why stands behind it.
    let first = first.split(": ").next()?;
    first.strip_prefix("canceled by ").filter(|_| state == JobState::Canceled)
}

/// When the job was asked to end; nothing where it was not, or an older prs kept no moment.
pub(crate) fn cancel_asked_us(seen: &Seen) -> Option<u64> {
    let progress = &seen.record.status.progress;
    let is_canceled = progress.conclusion.as_ref().is_some_and(|end| end.state == JobState::Canceled);
    progress.concluded_us.filter(|_| is_canceled).or(seen.standing.cancel_asked_us)
}

/// Whether the job was asked to end, and has not.
pub(crate) fn is_canceling(seen: &Seen) -> bool {
    let end = seen.record.status.progress.conclusion.as_ref();
    let is_decided = end.is_some_and(|end| end.state == JobState::Canceled);
    !seen.result.state.is_final() && (is_decided || seen.standing.cancel_asked_us.is_some())
}

/// A limit of a job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ThresholdLine {
    /// Its key in the job file.
    name: String,
    limit: i64,
    /// What counts so far.
    used: u64,
}

/// Counts of tries, of all starts as far as they were published.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TryCounts {
    /// All that ended; null where nothing was published.
    total: Option<u64>,
    failed: u64,
    /// Those of which a later try succeeded; null while the job runs.
    made_good: Option<u64>,
    /// Those that were lost with their nodes; null where nothing was published.
    node_losses: Option<u64>,
}

/// A job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct JobObject {
    #[serde(flatten)]
    record: Versioned<Job>,
    display_name: Option<String>,
    description: Option<String>,
    experiment_name: Option<String>,
    tags: BTreeMap<String, String>,
    target: String,
    phase: Option<String>,
    canceled_by: Option<String>,
    /// When it was asked to end, as a canceled job was, and one that is about to be; null for others.
    pub(crate) cancel_requested_at: Option<String>,
    started_at: String,
    submitted_by: Option<String>,
    endpoint: Option<String>,
    deployment: Option<String>,
    parent: Option<String>,
    incarnation: u32,
    resubmitted_from: Option<String>,
    /// Whether all mini-batches are planned.
    planned: bool,
    /// Mini-batches that wait, that nodes have in hand, and of which a try failed; null where nothing was published.
    waiting: Option<u64>,
    in_flight: Option<u64>,
    retried: Option<u64>,
    rows: u64,
    items_per_second: f64,
    thresholds: Vec<ThresholdLine>,
    /// What its author should know of the job file.
    notes: Vec<String>,
    attention: Vec<AttentionLine>,
    links: Links,
    /// In the place of those of the record, which knows less.
    tries: TryCounts,
    /// When what is said here was so, microseconds since the Unix epoch.
    #[serde(skip)]
    as_of_us: u64,
    #[serde(skip)]
    has_ended: bool,
}

impl JobObject {
    /// The job as it was seen.
    pub(crate) fn of(seen: &Seen) -> Self {
        Self::with(seen, None)
    }

    /// The job as it was seen, with what its orchestrator said last.
    pub(crate) fn with(seen: &Seen, live: Option<&Live>) -> Self {
        let Seen { record, result, .. } = seen;
        let (spec, has_ended) = (&record.spec, result.state.is_final());
        let status = &record.status;
        let progress = &status.progress;
        let runs = |count: u64| if has_ended { 0 } else { count };
        let failed = if has_ended { result.findings.tries.failed } else { status.failed_tries };
        Self {
            display_name: spec.display_name.clone(),
            description: spec.description.clone(),
            experiment_name: spec.experiment_name.clone(),
            tags: spec.tags.clone(),
            target: spec.compute_target.clone(),
            phase: phase(seen, live),
            canceled_by: canceled_by(result.state, result.reason.as_deref()).map(str::to_owned),
            cancel_requested_at: cancel_asked_us(seen).map(format_us),
            started_at: format_us(record.started_us),
            submitted_by: spec.submitted_by.as_ref().map(|by| by.name.clone()),
            endpoint: spec.deployed.as_ref().map(|it| it.endpoint.clone()),
            deployment: spec.deployed.as_ref().map(|it| it.deployment.clone()),
            parent: record.parent.as_ref().map(|parent| parent.job_id.clone()),
            incarnation: record.incarnation,
            resubmitted_from: spec.resubmitted_from.clone(),
            planned: progress.checkpoint.complete || live.is_some_and(|live| live.is_planned),
            waiting: live.map(|live| runs(live.waiting)),
            in_flight: live.map(|live| runs(live.in_flight)),
            retried: live.map(|live| live.retried),
            rows: if has_ended { result.output.rows } else { live.map_or(0, |live| live.rows) },
            items_per_second: if has_ended { 0.0 } else { status.items_per_second },
            thresholds: live
                .into_iter()
                .flat_map(|live| &live.thresholds)
                .filter(|one| one.limit >= 0)
                .map(threshold)
                .collect(),
            notes: spec.notes.clone(),
            attention: attention(seen, live, &record.job_id)
                .iter()
                .map(|one| AttentionLine::of(one, &record.job_id))
                .collect(),
            links: Links::of(&record.job_id),
            tries: TryCounts {
                total: live.map(|live| live.tries),
                failed,
                made_good: has_ended.then_some(result.findings.tries.made_good),
                node_losses: live.map(|live| live.node_losses),
            },
            as_of_us: status.updated_us.max(record.submitted_us),
            has_ended,
            record: Job::seen(seen).into(),
        }
    }

    /// All keys but those that say how old it is.
    pub(crate) fn lasting(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// What of that does not change by itself as time goes by while nothing happens to the job.
    pub(crate) fn steady(&self) -> Value {
        let mut steady = self.lasting();
        if let Some(object) = steady.as_object_mut().filter(|_| !self.has_ended) {
            object.retain(|name, _| !OF_TIME.contains(&name.as_str()));
        }
        steady
    }

    /// All keys.
    pub(crate) fn whole(&self) -> Value {
        let mut whole = self.lasting();
        let age = now_us().saturating_sub(self.as_of_us) as f64 / 1e6;
        whole["as_of"] = format_us(self.as_of_us).into();
        whole["stale_seconds"] = if self.has_ended { 0.0 } else { (age * 10.0).round() / 10.0 }.into();
        whole
    }

    /// The same with the keys alone that are named; all where none is.
    pub(crate) fn with_fields(&self, fields: Option<&str>) -> Result<Value, Problem> {
        let mut whole = self.whole();
        let (Some(fields), Some(object)) = (fields, whole.as_object_mut()) else { return Ok(whole) };
        let wanted: Vec<&str> = fields.split(',').map(str::trim).collect();
        if let Some(unknown) = wanted.iter().find(|name| !object.contains_key(**name)) {
            return Err(Problem::new(Kind::BAD_PARAMETER, format_args!("A job has no key {unknown:?}.")));
        }
        object.retain(|name, _| wanted.contains(&name.as_str()));
        Ok(whole)
    }

    /// An answer with it, for who may have it already.
    pub(crate) fn answer(&self, headers: &HeaderMap, fields: Option<&str>) -> Result<Response, Problem> {
        let body = self.with_fields(fields)?;
        // What only grows older is the same still.
        let steady = self.steady().to_string();
        let tag = format!(
            "W/\"{}.{}\"",
            self.incarnation,
            short_checksum([steady.as_bytes(), fields.unwrap_or_default().as_bytes()].concat().as_slice())
        );
        Ok(conditional::answer(headers, &tag, Json(body)))
    }
}

fn threshold(one: &Threshold) -> ThresholdLine {
    ThresholdLine { name: one.name.clone(), limit: one.limit, used: one.used }
}

/// A job as JSON, all of it.
impl IntoResponse for JobObject {
    fn into_response(self) -> Response {
        Json(self.whole()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Bytes of a job in a list: 500 of them are read at once by those who poll.
    const MOST: usize = 700;

    #[test]
    fn a_job_in_a_list_is_small() {
        let kept = json!({
            "job_id": "score-20261121-120000-1a2b", "name": "score", "display_name": "nightly scoring", "state": "running", "phase": "processing",
            "target": "default", "submitted_us": 1_795_262_400_123_456_u64, "started_us": 1_795_262_400_123_456_u64, "submitted_by": "alice",
            "tags": { "team": "vision" }, "mini_batches": { "scheduled": 1_000_000, "succeeded": 412_003, "failed": 4 },
            "items": { "total": 10_000_000, "succeeded": 4_120_010, "failed": 20 }, "seconds": 508.2, "per_second": 813.0, "eta_seconds": 722.0,
            "start": 1, "as_of_us": 1_795_262_400_123_456_u64,
        });
        let kept = Summary::read(kept.to_string().as_bytes()).unwrap();
        let written = serde_json::to_string(&JobSummary::from(&kept)).unwrap();
        assert!(written.len() <= MOST, "{} bytes: {written}", written.len());
        assert!(
            written.contains(r#""links":{"self":"/api/v1/jobs/score-20261121-120000-1a2b"}"#),
            "{written}"
        );
    }
}
