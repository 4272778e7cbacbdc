//! How a job is written: the record of `prs status -o json`, and what else a server knows.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use axum::response::Response;
use prs_common::timestamp::format_us;
use prs_jobs::homes::Seen;
use prs_jobs::records::{Job, Versioned};
use serde::Serialize;
use serde_json::Value;

use crate::http::conditional::{self, short_checksum};
use crate::index::Summary;
use crate::problem::{Kind, Problem};

/// Addresses about a job.
#[derive(Debug, Serialize)]
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

/// A job as a list has it.
#[derive(Debug, Serialize)]
pub(crate) struct JobSummary<'a> {
    schema: u32,
    job_id: &'a str,
    name: &'a str,
    display_name: Option<&'a str>,
    state: &'static str,
    complete: Option<bool>,
    reason: Option<&'a str>,
    target: &'a str,
    submitted_at: String,
    ended_at: Option<String>,
    tags: &'a BTreeMap<String, String>,
    endpoint: Option<&'a str>,
    deployment: Option<&'a str>,
    mini_batches: prs_orchestrator::job::record::MiniBatchCounts,
    items: prs_orchestrator::job::record::ItemCounts,
    seconds: f64,
    per_second: f64,
    eta_seconds: Option<f64>,
    attention: Option<&'a str>,
    incarnation: u32,
    links: Links,
}

impl<'a> From<&'a Summary> for JobSummary<'a> {
    fn from(of: &'a Summary) -> Self {
        Self {
            schema: prs_jobs::records::SCHEMA,
            job_id: &of.job_id,
            name: &of.name,
            display_name: of.display_name.as_deref(),
            state: of.state.as_str(),
            complete: of.complete,
            reason: of.reason.as_deref(),
            target: &of.target,
            submitted_at: format_us(of.submitted_us),
            ended_at: of.ended_us.map(format_us),
            tags: &of.tags,
            endpoint: of.deployed.as_ref().map(|(endpoint, _)| endpoint.as_str()),
            deployment: of.deployed.as_ref().map(|(_, deployment)| deployment.as_str()),
            mini_batches: of.mini_batches,
            items: of.items,
            seconds: of.seconds,
            per_second: of.per_second,
            eta_seconds: of.eta_seconds,
            attention: of.attention.as_deref(),
            incarnation: of.start,
            links: Links::of(&of.job_id),
        }
    }
}

/// A job.
#[derive(Debug, Serialize)]
pub(crate) struct JobObject {
    #[serde(flatten)]
    record: Versioned<Job>,
    display_name: Option<String>,
    description: Option<String>,
    experiment_name: Option<String>,
    tags: BTreeMap<String, String>,
    target: String,
    endpoint: Option<String>,
    deployment: Option<String>,
    parent: Option<String>,
    incarnation: u32,
    attention: Option<String>,
    links: Links,
}

impl JobObject {
    /// The job as it was seen.
    pub(crate) fn of(seen: &Seen) -> Self {
        let record = &seen.record;
        Self {
            display_name: record.spec.display_name.clone(),
            description: record.spec.description.clone(),
            experiment_name: record.spec.experiment_name.clone(),
            tags: record.spec.tags.clone(),
            target: record.spec.compute_target.clone(),
            endpoint: record.spec.deployed.as_ref().map(|it| it.endpoint.clone()),
            deployment: record.spec.deployed.as_ref().map(|it| it.deployment.clone()),
            parent: record.parent.as_ref().map(|parent| parent.job_id.clone()),
            incarnation: record.incarnation,
            attention: prs_jobs::index::attention(seen),
            links: Links::of(&record.job_id),
            record: Job::seen(seen).into(),
        }
    }

    /// The same with the keys alone that are named; all where none is.
    pub(crate) fn with_fields(&self, fields: Option<&str>) -> Result<Value, Problem> {
        let mut whole = serde_json::to_value(self).unwrap_or_default();
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
        let tag = format!("W/\"{}.{}\"", self.incarnation, short_checksum(body.to_string().as_bytes()));
        Ok(conditional::answer(headers, &tag, axum::Json(body)))
    }
}
