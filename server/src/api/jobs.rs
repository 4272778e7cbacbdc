//! Jobs: list, one, cancel.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, Path, Request, State};
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use prs_common::ledger::JobState;
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::endpoints;
use prs_jobs::index::summary;
use prs_jobs::records::Versioned;
use prs_jobs::{homes, report as reports, show};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::endpoints::{names, problem_of_reading};
use super::job_object::{JobObject, JobSummary, cancel_asked_us};
use super::received::json_or_nothing;
use crate::app::App;
use crate::auth::{May, MayRead, MaySubmit, OwnOnly, Principal};
use crate::http::cursor;
pub(crate) use crate::http::page::Page;
use crate::http::page::with_next;
use crate::http::params::{Params, bad};
use crate::index::{Snapshot, Summary};
use crate::problem::{Kind, Problem};

/// How long who waits for a change is kept waiting, at most and by default, seconds.
const PATIENCE: (u64, u64) = (60, 30);
/// Longest reason why a job is canceled, characters.
const MOST_REASON: usize = 200;
/// States that stand for several.
pub(super) const GROUPS: [&str; 3] = ["active", "ended", "incomplete"];
const STATES: [&str; 7] =
    ["queued", "scheduling", "running", "finalizing", "completed", "failed", "canceled"];
pub(super) const SORTS: [&str; 5] = ["submitted_at", "ended_at", "seconds", "state", "name"];
/// The parameters of a list.
pub(crate) const KNOWN: [&str; 14] = [
    "state",
    "name",
    "q",
    "target",
    "endpoint",
    "deployment",
    "submitted_by",
    "parent",
    "tag",
    "since",
    "until",
    "sort",
    "limit",
    "cursor",
];

/// A page of jobs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "JobsPage"))]
pub(crate) struct JobsPage<'a> {
    #[serde(flatten)]
    page: Page<JobSummary<'a>>,
    /// How many there are in each state, with the other filters.
    counts: BTreeMap<&'static str, u64>,
    /// How far the list is filled from storage; nothing where it is whole.
    partial: Option<Partial>,
}

/// A list that is being filled.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Partial {
    /// Jobs found so far.
    found: u64,
    /// Jobs there are to find.
    total: u64,
}

/// Which jobs are asked for, in which order.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) states: Vec<String>,
    names: Vec<String>,
    queries: Vec<String>,
    targets: Vec<String>,
    endpoints: Vec<String>,
    deployments: Vec<String>,
    submitters: Vec<String>,
    /// Calls of endpoints by them alone.
    pub(crate) called_by: Option<String>,
    /// The pipeline whose steps are asked for, in place of all other jobs.
    pub(crate) parent: Option<String>,
    tags: Vec<(String, String)>,
    since_us: u64,
    until_us: Option<u64>,
    sort: &'static str,
    is_reversed: bool,
    /// The filters and the order, which a cursor belongs to.
    of: String,
}

impl Wanted {
    /// As the parameters say.
    pub(crate) fn parse(params: &Params) -> Result<Self, Problem> {
        let states: Vec<String> = params.all("state").into_iter().map(str::to_owned).collect();
        for state in &states {
            if !STATES.contains(&state.as_str()) && !GROUPS.contains(&state.as_str()) {
                let known = [&STATES[..], &GROUPS[..]].concat().join(", ");
                return Err(bad("state", format_args!("{state:?} is none of {known}")));
            }
        }
        let tag = |text: &str| {
            text.split_once(':')
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .ok_or_else(|| bad("tag", format_args!("{text:?} is not key:value")))
        };
        let sort = params.one("sort")?.unwrap_or("-submitted_at");
        let is_reversed = sort.starts_with('-');
        let named = sort.trim_start_matches('-');
        let sort = SORTS.into_iter().find(|known| *known == named).ok_or_else(|| {
            bad("sort", format_args!("{sort:?} is none of {}, with or without - before it", SORTS.join(", ")))
        })?;
        let now = now_us();
        Ok(Self {
            states,
            names: params.texts("name"),
            queries: params.all("q").into_iter().map(str::to_lowercase).collect(),
            targets: params.texts("target"),
            endpoints: params.texts("endpoint"),
            deployments: params.texts("deployment"),
            submitters: params.texts("submitted_by"),
            called_by: None,
            parent: params.one("parent")?.map(str::to_owned),
            tags: params.all("tag").into_iter().map(tag).collect::<Result<_, _>>()?,
            since_us: params.moment("since", now)?.unwrap_or(0),
            until_us: params.moment("until", now)?,
            sort,
            is_reversed,
            of: params.without(&["limit", "cursor"]),
        })
    }

    /// The jobs that fit all but the states.
    fn fits(&self, job: &Summary) -> bool {
        let contains = |text: &str| {
            let text = text.to_lowercase();
            any(&self.queries, |query| text.contains(query))
        };
        let is_tagged = |key: &String| {
            let mut wanted = self.tags.iter().filter(|(each, _)| each == key);
            job.tags.get(key).is_some_and(|value| wanted.any(|(_, each)| each == value))
        };
        any(&self.names, |name| job.name.starts_with(name))
            && any(&self.targets, |target| job.target == target)
            && self.is_called(job)
            && any(&self.submitters, |by| is_by(by, job.submitted_by.as_deref()))
            && self.tags.iter().all(|(key, _)| is_tagged(key))
            && self.called_by.as_ref().is_none_or(|by| job.called_by.as_ref() == Some(by))
            && job.submitted_us >= self.since_us
            && self.until_us.is_none_or(|until| job.submitted_us <= until)
            && (contains(&job.job_id)
                || contains(&job.name)
                || job.display_name.as_deref().is_some_and(contains)
                || job.reason.as_deref().is_some_and(contains)
                || job.attention.as_ref().is_some_and(|one| contains(&one.text)))
    }

    /// Whether it answers a call that is asked for.
    fn is_called(&self, job: &Summary) -> bool {
        let of = |name: fn(&(String, String)) -> &String| job.deployed.as_ref().map(name);
        let fits = |wanted: &[String], name: Option<&String>| {
            any(wanted, |wanted| name.is_some_and(|name| name.eq_ignore_ascii_case(wanted)))
        };
        fits(&self.endpoints, of(|it| &it.0)) && fits(&self.deployments, of(|it| &it.1))
    }

    /// Whether it is in one of the states.
    fn has_state(&self, job: &Summary) -> bool {
        let fits = |state: &String| match state.as_str() {
            "active" => !job.state.is_final(),
            "ended" => job.state.is_final(),
            "incomplete" => job.is_incomplete(),
            state => job.state.as_str() == state,
        };
        self.states.is_empty() || self.states.iter().any(fits)
    }

    /// Which of two stands first in the list.
    fn order(&self, one: &Position, other: &Position) -> Ordering {
        let order = one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1));
        let order = if self.is_reversed { order.reverse() } else { order };
        // Of equals the newest, whatever the order.
        order.then_with(|| other.2.cmp(&one.2)).then_with(|| one.3.cmp(&other.3))
    }

    /// Where it stands in the list.
    fn position(&self, job: &Summary) -> Position {
        let (number, text) = match self.sort {
            "ended_at" => (job.ended_us.map_or(f64::INFINITY, |us| us as f64), String::new()),
            "seconds" => (job.seconds, String::new()),
            "state" => (0.0, job.state.as_str().to_owned()),
            "name" => (0.0, job.name.clone()),
            _ => (job.submitted_us as f64, String::new()),
        };
        (number, text, job.submitted_us, job.job_id.clone())
    }

    /// The page of the list behind a cursor, the cursor of the next page, how many there are, and how many in each state.
    pub(crate) fn page(
        &self,
        snapshot: &Snapshot,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Found, Problem> {
        let mut counts = BTreeMap::new();
        let mut found = Vec::new();
        for job in snapshot.jobs.iter().filter(|job| self.fits(job)) {
            *counts.entry(job.state.as_str()).or_insert(0) += 1;
            if job.is_incomplete() {
                *counts.entry("incomplete").or_insert(0) += 1;
            }
            if self.has_state(job) {
                found.push((self.position(job), job));
            }
        }
        found.sort_by(|(one, _), (other, _)| self.order(one, other));
        let total = found.len() as u64;
        let mut begin = 0;
        if let Some(cursor) = cursor {
            let after: Position = cursor::read(&self.of, cursor)?;
            begin = found.partition_point(|(at, _)| self.order(at, &after) != Ordering::Greater);
        }
        let page = found.get(begin..).unwrap_or_default();
        let next = page.get(limit - 1).filter(|_| page.len() > limit);
        let next = next.map(|(at, _)| cursor::write(&self.of, at));
        let jobs = page.iter().take(limit).map(|(_, job)| Arc::clone(job)).collect();
        Ok(Found { jobs, next, total, counts })
    }
}

/// Whether one of the values fits, or none is wanted.
fn any(values: &[String], fits: impl Fn(&str) -> bool) -> bool {
    values.is_empty() || values.iter().any(|value| fits(value))
}

/// Whether a job was handed in by who is called `wanted`: a name, or of `ana@lab` what stands before the `@`.
fn is_by(wanted: &str, by: Option<&str>) -> bool {
    by.is_some_and(|by| by == wanted || by.split('@').next() == Some(wanted))
}

/// The jobs that a list is taken from: all, or the steps of one pipeline.
pub(crate) async fn snapshot(app: &App, wanted: &Wanted) -> Result<Arc<Snapshot>, Problem> {
    let refused = |failure| Problem::of(&failure, Kind::REFUSED);
    let Some(parent) = &wanted.parent else {
        return app.index.snapshot().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL));
    };
    let (home, seen) = app.seen(parent).await?;
    let mut jobs = Vec::new();
    if seen.record.pipeline.is_some() {
        let steps = homes::steps_of(&home.called(), &app.whereabouts).await.map_err(refused)?;
        let seen = homes::look_at_all(steps, &*app.whereabouts.caller).await.map_err(refused)?;
        jobs = seen.iter().map(|seen| Arc::new(summary(seen))).collect();
    }
    Ok(Arc::new(Snapshot { jobs, partial: None, made_us: now_us() }))
}

/// The number or the text that a list is sorted by, when the job was submitted, its id.
type Position = (f64, String, u64, String);

/// A page of the list.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) jobs: Vec<Arc<Summary>>,
    pub(crate) next: Option<String>,
    pub(crate) total: u64,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

/// `GET /jobs`.
pub(crate) async fn list(
    May(who): MayRead,
    State(app): State<App>,
    own: Option<Extension<OwnOnly>>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&KNOWN)?;
    let mut wanted = Wanted::parse(&params)?;
    wanted.called_by = own.map(|_| who.id().to_owned());
    page_of(&app, &wanted, &params).await
}

/// `GET /endpoints/{endpoint}/jobs`.
pub(crate) async fn of_endpoint(
    May(who): MayRead,
    State(app): State<App>,
    Path(endpoint): Path<String>,
    own: Option<Extension<OwnOnly>>,
    params: Params,
) -> Result<Response, Problem> {
    calls(&app, &who, own.is_some(), (endpoint, None), &params).await
}

/// `GET /endpoints/{endpoint}/deployments/{deployment}/jobs`.
pub(crate) async fn of_deployment(
    May(who): MayRead,
    State(app): State<App>,
    Path((endpoint, deployment)): Path<(String, String)>,
    own: Option<Extension<OwnOnly>>,
    params: Params,
) -> Result<Response, Problem> {
    calls(&app, &who, own.is_some(), (endpoint, Some(deployment)), &params).await
}

/// The calls of an endpoint, or those that one deployment of it answered; of one that is deleted, too.
async fn calls(
    app: &App,
    who: &Principal,
    is_own: bool,
    (endpoint, deployment): (String, Option<String>),
    params: &Params,
) -> Result<Response, Problem> {
    if is_own && !names(who, &endpoint) {
        return Err(Problem::new(
            Kind::ENDPOINT_NOT_FOUND,
            format_args!("There is no endpoint {endpoint:?}."),
        ));
    }
    let known = KNOWN.into_iter().filter(|name| !["endpoint", "deployment", "parent"].contains(name));
    params.check(&known.collect::<Vec<_>>())?;
    let mut wanted = Wanted::parse(params)?;
    wanted.of = format!("{} {}", params.path(), wanted.of);
    wanted.called_by = is_own.then(|| who.id().to_owned());
    wanted.endpoints = vec![endpoint.clone()];
    wanted.deployments = deployment.clone().into_iter().collect();
    let snapshot = app.index.snapshot().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    if !snapshot.jobs.iter().any(|job| wanted.is_called(job)) {
        // It may have no call yet; a name that is misspelt has none either.
        let found = endpoints::endpoint(&endpoint, &app.whereabouts).await;
        let found = found.map_err(|failure| problem_of_reading(&failure))?;
        if let Some(deployment) = &deployment {
            found.deployment(deployment).map_err(|error| Problem::new(Kind::ENDPOINT_NOT_FOUND, error))?;
        }
    }
    page_of(app, &wanted, params).await
}

async fn page_of(app: &App, wanted: &Wanted, params: &Params) -> Result<Response, Problem> {
    let snapshot = Box::pin(snapshot(app, wanted)).await?;
    let found = wanted.page(&snapshot, params.limit()?, params.one("cursor")?)?;
    let page = Page {
        value: found.jobs.iter().map(|job| JobSummary::from(&**job)).collect(),
        next_cursor: found.next.clone(),
        total: Some(found.total),
        as_of: format_us(snapshot.made_us),
    };
    let partial = snapshot.partial.map(|(found, total)| Partial { found, total });
    Ok(with_next(params, found.next.as_deref(), Json(JobsPage { page, counts: found.counts, partial })))
}

/// `GET /jobs/{job}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["wait_for", "timeout", "fields"])?;
    let timeout = params.number("timeout", (0, PATIENCE.0))?.unwrap_or(PATIENCE.1);
    let wait_for = params.one("wait_for")?;
    if let Some(other) = wait_for.filter(|for_what| !["ended", "changed"].contains(for_what)) {
        return Err(bad("wait_for", format_args!("{other:?} is neither ended nor changed")));
    }
    let told = app.told(&id).await?;
    let (seen, live) = &*told;
    let mut object = JobObject::with(seen, live.as_ref());
    if let Some(for_what) = wait_for.filter(|_| !seen.result.state.is_final()) {
        let before = object.steady();
        let mut ticks = app.watches.follow(&id);
        let waits = async {
            while ticks.changed().await.is_ok() {
                let tick = Arc::clone(&ticks.borrow_and_update());
                let Some(seen) = tick.seen.as_deref() else { continue };
                let now = JobObject::with(seen, tick.statistics.live.as_ref());
                let is_so = seen.result.state.is_final() || (for_what == "changed" && now.steady() != before);
                if is_so {
                    return Some(now);
                }
            }
            None
        };
        let waited = tokio::select! {
            waited = tokio::time::timeout(Duration::from_secs(timeout), waits) => waited.ok().flatten(),
            () = app.stop.cancelled() => None,
        };
        object = if let Some(now) = waited {
            now
        } else {
            let (seen, live) = &*app.told(&id).await?;
            JobObject::with(seen, live.as_ref())
        };
    }
    object.answer(&headers, params.one("fields")?)
}

/// What the body of a wish to cancel may say.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Cancel {
    /// Why, for people.
    #[cfg_attr(test, schemars(length(max = MOST_REASON)))]
    reason: Option<String>,
}

/// Begins to cancel the job with this id, which goes on when the request has its answer. False where that was asked before.
pub(crate) async fn begin_to_cancel(app: &App, id: &str, who: &str, why: &str) -> Result<bool, Problem> {
    let (home, seen) = app.seen(id).await?;
    match seen.result.state {
        JobState::Canceled => return Ok(false),
        state if state.is_final() => {
            let detail = format_args!("The job has ended: {}.", state.as_str());
            return Err(Problem::new(Kind::JOB_HAS_ENDED, detail));
        }
        _ if cancel_asked_us(&seen).is_some() => return Ok(false),
        _ => {}
    }
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let (id, who) = (id.to_owned(), format!("{who} at prs serve{why}"));
    tokio::spawn(async move {
        match home.cancel(&who).await {
            Ok(_) => info!(job_id = id, who, "canceled"),
            Err(failure) => warn!(job_id = id, %failure, "cannot cancel"),
        }
    });
    Ok(true)
}

/// `POST /jobs/{job}/cancel`.
pub(crate) async fn cancel(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let Cancel { reason } = json_or_nothing(request).await?;
    let reason = reason.unwrap_or_default();
    if reason.chars().count() > MOST_REASON || reason.contains(char::is_control) {
        let detail = format_args!("The reason is one line of {MOST_REASON} characters at most.");
        return Err(Problem::new(Kind::BAD_REQUEST, detail));
    }
    let is_new = begin_to_cancel(&app, &id, &who.name, reason.trim()).await?;
    let (_, seen) = app.seen(&id).await?;
    let mut job = JobObject::of(&seen);
    // What is asked stands in its record a moment later.
    job.cancel_requested_at.get_or_insert_with(|| format_us(now_us()));
    let status = if is_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    let at = format!("/api/v1/jobs/{id}");
    Ok((status, [(LOCATION, at)], job).into_response())
}

/// `GET /jobs/{job}/spec`.
pub(crate) async fn spec(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let home = app.home(&id).await?;
    let file = show::show(&home.called(), &app.whereabouts).await;
    let file = file.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?.without_secrets();
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("yaml") {
        return Ok(([(CONTENT_TYPE, "application/yaml")], file.text()).into_response());
    }
    Ok(Json(Versioned::from(file.record())).into_response())
}

/// `GET /jobs/{job}/report.html`, also among the pages.
pub(crate) async fn report(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let home = app.home(&id).await?;
    let page = reports::page(&*home, &app.whereabouts, false).await;
    let page = page.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    // It has its styles in itself, and no script.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";
    Ok(([(CONTENT_SECURITY_POLICY, policy)], Html(page.html)).into_response())
}
