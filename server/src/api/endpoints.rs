//! Batch endpoints: list, one, change, delete; their deployments; and a call of one.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header::{HeaderName, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use prs_common::hexadecimal;
use prs_common::job::{Called, EndpointFile, Invocation};
use prs_common::registry;
use prs_common::timestamp::now_us;
use prs_jobs::blobs::Listed;
use prs_jobs::endpoints::{self, Expected, IfThere};
use prs_jobs::intake::{Call, DryRun, Staging};
use prs_jobs::records::{Endpoint, Versioned};
use prs_jobs::{Failure, FailureKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tracing::info;

use super::job_object::JobObject;
use super::once::{Once, end, key_in, to_the_end};
use super::received::{Form, escaped, json, refused, set_of};
use super::submit::Key;
use super::uploads;
use crate::app::App;
use crate::auth::{Known, May, MaySubmit, Principal, Role};
use crate::http::conditional;
use crate::http::expected::{Expects, changed_meanwhile, tag_of, with_tag};
use crate::http::page::slice;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// A day, microseconds.
const DAY_US: u64 = 86_400_000_000;

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What it means that a call about an endpoint failed.
pub(crate) fn problem(failure: &Failure) -> Problem {
    match failure.kind {
        FailureKind::NotFound => Problem::new(Kind::ENDPOINT_NOT_FOUND, failure),
        FailureKind::Usage if failure.job_file().is_none() => Problem::of(failure, Kind::REFUSED),
        _ => refused(failure, None),
    }
}

/// The same of a call that only reads: there is nothing under a name that nothing can have.
pub(crate) fn problem_of_reading(failure: &Failure) -> Problem {
    match failure.kind {
        FailureKind::Usage if failure.job_file().is_none() => Problem::new(Kind::ENDPOINT_NOT_FOUND, failure),
        _ => problem(failure),
    }
}

/// Refuses who may not call this endpoint, as if there were none: whose token does not name it does not hear whether it is there.
pub(crate) fn may_call(who: &Principal, endpoint: &str) -> Result<(), Problem> {
    let may = who.role.allows(Role::Submit) || (who.role == Role::Invoke && names(who, endpoint));
    let absent = format_args!("There is no endpoint {endpoint:?} for {}.", who.name);
    if may { Ok(()) } else { Err(Problem::new(Kind::ENDPOINT_NOT_FOUND, absent)) }
}

/// Whether the token of `who` names the endpoint.
pub(super) fn names(who: &Principal, endpoint: &str) -> bool {
    who.endpoints.iter().any(|one| one == "*" || one.eq_ignore_ascii_case(endpoint))
}

/// Refuses who may neither read nor call this endpoint.
fn may_see(who: &Principal, endpoint: &str) -> Result<(), Problem> {
    if who.role.allows(Role::Read) { Ok(()) } else { may_call(who, endpoint) }
}

/// An endpoint, and how it is used.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EndpointInUse"))]
pub(crate) struct Shown {
    #[serde(flatten)]
    record: Versioned<Endpoint>,
    /// Its calls of the last 24 hours, in lists and where one is asked for; null where the list of jobs cannot be had, and in the answer
    /// to a change.
    jobs_24h: Option<u64>,
}

/// Calls of the last 24 hours, by endpoint in small letters; nothing where the list of jobs cannot be had.
type Calls = Option<HashMap<String, u64>>;

async fn calls_of_a_day(app: &App) -> Calls {
    let snapshot = app.index.snapshot().await.ok()?;
    let since = now_us().saturating_sub(DAY_US);
    let mut calls = HashMap::new();
    let recent = snapshot.jobs.iter().filter(|job| job.submitted_us >= since);
    for (endpoint, _) in recent.filter_map(|job| job.deployed.as_ref()) {
        *calls.entry(endpoint.to_ascii_lowercase()).or_default() += 1;
    }
    Some(calls)
}

fn record(app: &App, endpoint: registry::Endpoint, calls: &Calls) -> Shown {
    let count = |calls: &HashMap<String, u64>| calls.get(&endpoint.name.to_ascii_lowercase()).copied();
    let jobs_24h = calls.as_ref().map(|calls| count(calls).unwrap_or(0));
    Shown { jobs_24h, record: Endpoint::new(endpoint, Some(&app.url)).into() }
}

/// `GET /endpoints`.
pub(crate) async fn list(
    Known(who): Known,
    State(app): State<App>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["limit", "cursor"])?;
    let all = endpoints::all(&app.whereabouts).await.map_err(|failure| problem(&failure))?;
    let is_seen = |one: &registry::Endpoint| may_see(&who, &one.name).is_ok();
    let calls = calls_of_a_day(&app).await;
    let all = all.into_iter().filter(is_seen).map(|one| record(&app, one, &calls)).collect();
    Ok(slice(all, "endpoints", &params)?.answer(&params))
}

/// `GET /endpoints/{endpoint}`.
pub(crate) async fn one(
    Known(who): Known,
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    may_see(&who, &name)?;
    let found = endpoints::versioned(&name, &app.whereabouts).await;
    let (endpoint, version) = found.map_err(|failure| problem_of_reading(&failure))?;
    let calls = calls_of_a_day(&app).await;
    Ok(conditional::answer(&headers, &tag_of(&version), Json(record(&app, endpoint, &calls))))
}

/// What a body says of an endpoint.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EndpointWords"))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Body {
    description: Option<String>,
    tags: BTreeMap<String, String>,
    properties: BTreeMap<String, String>,
    defaults: Defaults,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EndpointDefaults"))]
#[serde(default, deny_unknown_fields)]
struct Defaults {
    deployment_name: Option<String>,
}

impl From<Body> for EndpointFile {
    fn from(body: Body) -> Self {
        let Body { description, tags, properties, defaults } = body;
        let default_deployment = defaults.deployment_name;
        Self { description, tags, properties, default_deployment, ..Self::default() }
    }
}

/// `PUT /endpoints/{endpoint}`.
pub(crate) async fn put(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let expected = Expects::of(request.headers(), true)?;
    let (body, _): (Body, _) = json(request).await?;
    let check = |version: Option<&str>| is_expected(expected.as_ref(), version);
    let expects = Expected(&check);
    let made = endpoints::put(&name, &body.into(), IfThere::Overwrite, expects, &app.whereabouts).await;
    let (endpoint, version, is_new) =
        made.map_err(|failure| problem(&failure))?.ok_or_else(changed_meanwhile)?;
    info!(endpoint = endpoint.name, who = who.name, is_new, "an endpoint is replaced");
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(with_tag(&tag_of(&version), (status, Json(record(&app, endpoint, &None)))))
}

/// `PATCH /endpoints/{endpoint}`.
pub(crate) async fn patch(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let expects = Expects::of(request.headers(), true)?;
    let (body, _): (Body, _) = json(request).await?;
    if !body.properties.is_empty() {
        return Err(Problem::new(
            Kind::BAD_REQUEST,
            "Of an endpoint description, tags and defaults.deployment_name change; PUT replaces properties.",
        ));
    }
    let check = |version: Option<&str>| is_expected(expects.as_ref(), version);
    let changed = endpoints::update_expected(&name, &body.into(), Expected(&check), &app.whereabouts).await;
    let (endpoint, version) = changed.map_err(|failure| problem(&failure))?.ok_or_else(changed_meanwhile)?;
    info!(endpoint = endpoint.name, who = who.name, "an endpoint is changed");
    Ok(with_tag(&tag_of(&version), Json(record(&app, endpoint, &None))))
}

/// Whether the object of an endpoint is of a version that a request expects.
fn is_expected(expects: Option<&Expects>, version: Option<&str>) -> bool {
    expects.is_none_or(|expects| expects.holds(version.map(tag_of).as_deref()))
}

/// `DELETE /endpoints/{endpoint}`.
pub(crate) async fn delete(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<StatusCode, Problem> {
    params.check(&["yes"])?;
    let expects = Expects::of(&headers, true)?;
    if !params.flag("yes")? {
        return Err(Problem::new(
            Kind::REFUSED,
            "The deployments of the endpoint are deleted with it: say ?yes=true. Jobs and outputs stay.",
        ));
    }
    let check = |version: Option<&str>| is_expected(expects.as_ref(), version);
    let deleted = endpoints::delete_expected(&name, Expected(&check), &app.whereabouts).await;
    deleted.map_err(|failure| problem(&failure))?.ok_or_else(changed_meanwhile)?;
    info!(endpoint = name, who = who.name, "an endpoint is deleted");
    // Its code goes when nothing uses it any more.
    Ok(StatusCode::ACCEPTED)
}

/// A call as JSON.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EndpointCall"))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CallBody {
    inputs: Map<String, Value>,
    outputs: Map<String, Value>,
    deployment: Option<String>,
    set: Map<String, Value>,
    name: Option<String>,
    display_name: Option<String>,
    experiment_name: Option<String>,
    tags: BTreeMap<String, String>,
}

/// `POST /endpoints/{endpoint}/invoke`.
pub(crate) async fn invoke(
    Known(who): Known,
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    may_call(&who, &name)?;
    let key = Key::OfProgram(key_in(request.headers())?);
    let (body, _): (Value, _) = json(request).await?;
    let fingerprint = hexadecimal(&Sha256::digest(body.to_string()));
    let body: CallBody = serde_json::from_value(body)
        .map_err(|error| Problem::new(Kind::BAD_REQUEST, format_args!("The body is not a call: {error}.")))?;
    let (mut set, mut manifests) = (Vec::new(), BTreeMap::new());
    let (of_manifests, inputs): (Map<_, _>, Map<_, _>) =
        body.inputs.into_iter().partition(|(_, bound)| bound.get("manifest_sha256").is_some());
    for (name, bound) in of_manifests {
        let (files, kind) = manifest_of(&app, &name, bound).await?;
        set.push((format!("inputs.{name}.type"), kind));
        manifests.insert(name, files);
    }
    for (kind, bindings) in [("inputs", inputs), ("outputs", body.outputs)] {
        set.extend(bound(kind, bindings)?);
    }
    set.extend(set_of(body.set)?);
    let call = Call {
        endpoint: name,
        deployment: body.deployment,
        set,
        invocation: Invocation {
            job_name: body.name,
            experiment_name: body.experiment_name,
            ..Invocation::default()
        },
        called: Called { display_name: body.display_name, tags: body.tags, ..Called::default() },
        sent: manifests,
    };
    let (job_id, is_replayed) = call_once(&app, who, key, fingerprint, (call, None)).await?;
    let (_, seen) = app.seen(&job_id).await?;
    let at = format!("/api/v1/jobs/{job_id}");
    let mut response = (StatusCode::ACCEPTED, [(LOCATION, at)], JobObject::of(&seen)).into_response();
    if is_replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// The files of an input that was sent before, and its type.
async fn manifest_of(app: &App, name: &str, bound: Value) -> Result<(Vec<Listed>, String), Problem> {
    /// An input of a call that was sent before.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Bound {
        manifest_sha256: String,
        #[serde(rename = "type", default = "folder")]
        kind: String,
    }
    fn folder() -> String {
        "uri_folder".to_owned()
    }
    let Bound { manifest_sha256, kind } = serde_json::from_value(bound).map_err(|error| {
        Problem::new(Kind::BAD_REQUEST, format_args!("inputs.{name} is no manifest: {error}."))
    })?;
    let pointer = format!("#/inputs/{}/manifest_sha256", escaped(name));
    Ok((uploads::manifest(app, &manifest_sha256, &pointer).await?, kind))
}

/// What `bindings` say, as `--set` has it: a text is a value or a path, an object has `path` and `type`, or `value`.
fn bound(kind: &str, bindings: Map<String, Value>) -> Result<Vec<(String, String)>, Problem> {
    let mut set = Vec::new();
    let wrong = |name: &str| {
        Problem::new(
            Kind::BAD_REQUEST,
            format_args!("{kind}.{name} is neither a value nor an object with path and type, or with value."),
        )
    };
    for (name, bound) in bindings {
        let place = format!("{kind}.{name}");
        match bound {
            Value::Object(fields) => {
                for (field, value) in fields {
                    let known = ["path", "type", "mode", "value"].contains(&&*field);
                    let text = text_of(&value).filter(|_| known).ok_or_else(|| wrong(&name))?;
                    let place = if field == "value" { place.clone() } else { format!("{place}.{field}") };
                    set.push((place, text));
                }
            }
            value => set.push((place, text_of(&value).ok_or_else(|| wrong(&name))?)),
        }
    }
    Ok(set)
}

/// A value as a text.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// What would run of a call, with the inputs that came along.
pub(crate) async fn dry_run(
    app: &App,
    who: Principal,
    (mut call, came): (Call, Option<Staging>),
) -> Result<DryRun, Problem> {
    let app = app.clone();
    to_the_end(move || async move {
        call.called.submitted_by = Some(who.submitter());
        let planned = async {
            let submission = app.desk.call(call, came, Some(who.id().to_owned())).await?;
            app.desk.dry_run(submission).await
        };
        Box::pin(planned).await.map_err(|failure| problem_of_call(&failure))
    })
    .await
}

/// What it means that a call failed.
fn problem_of_call(failure: &Failure) -> Problem {
    match failure.kind {
        FailureKind::NotFound => Problem::new(Kind::ENDPOINT_NOT_FOUND, failure),
        _ => refused(failure, Some(Form::Spec)),
    }
}

/// Calls an endpoint for `who`, once for each key, with the inputs that came along. Gives the job, and whether the request came before.
pub(crate) async fn call_once(
    app: &App,
    who: Principal,
    key: Key,
    fingerprint: String,
    (call, came): (Call, Option<Staging>),
) -> Result<(String, bool), Problem> {
    let app = app.clone();
    to_the_end(move || async move {
        let route = format!("POST /api/v1/endpoints/{}/invoke", call.endpoint.to_ascii_lowercase());
        let mut held = match key.begin(&app, &who, &route, &fingerprint).await? {
            Once::Do(held) => held,
            Once::Done(job_id) => return Ok((job_id, true)),
        };
        let is_new = held.as_ref().is_none_or(|held| held.job_id().is_none());
        if let Some(name) = call.invocation.job_name.as_ref().filter(|_| is_new)
            && app.desk.has_job(name).await.map_err(|failure| problem(&failure))?
        {
            if let Some(held) = held {
                held.forget().await;
            }
            return Err(Problem::new(Kind::NAME_TAKEN, format_args!("There is a job {name:?} already.")));
        }
        let endpoint = call.endpoint.clone();
        let called_by = Some(who.id().to_owned());
        let mut call = call;
        call.called.submitted_by = Some(who.submitter());
        let done = async {
            let submission = app.desk.call(call, came, called_by).await?;
            Box::pin(app.desk.submit(submission, &mut held)).await
        };
        let done = Box::pin(done).await;
        end(held, done.as_deref()).await;
        let job_id = done.map_err(|failure| problem_of_call(&failure))?;
        info!(job_id, endpoint, who = who.name, "an endpoint is called");
        Ok((job_id, false))
    })
    .await
}
