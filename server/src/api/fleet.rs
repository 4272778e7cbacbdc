//! What the targets of the fleet want and have, for autoscalers; and its workers.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use prs_common::timestamp::format_us;
use prs_jobs::fleet::{TargetView, WORKER_STATES, WorkerView, drain as ask_to_leave, workers as of_fleet};
use prs_jobs::tokens::Role;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;

use super::jobs::Page;
use super::received::json_or_nothing;
use crate::app::App;
use crate::auth::{Known, May, MayAdmin, MayRead};
use crate::http::conditional::{self, short_checksum};
use crate::http::cursor;
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// A target, and when that was so.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Target {
    #[serde(flatten)]
    view: TargetView,
    as_of: String,
}

/// `GET /targets`.
pub(crate) async fn targets(_: Known, State(app): State<App>, params: Params) -> Result<Response, Problem> {
    params.check(&[])?;
    let targets = app.fleet.targets().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    let as_of = format_us(targets.read_us);
    let of = |view: &TargetView| Target { view: view.clone(), as_of: as_of.clone() };
    let value: Vec<Target> = targets.all.iter().map(of).collect();
    let total = value.len() as u64;
    Ok(Page { value, next_cursor: None, total: Some(total), as_of }.answer(&params))
}

/// `GET /targets/{target}`.
pub(crate) async fn target(
    Known(who): Known,
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let targets = app.fleet.targets().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    if who.role == Role::Metrics {
        app.fleet.is_asked(&name).await;
    }
    let view = targets.named(&name);
    // The same figures are the same, whenever they were read.
    let tag = format!("W/\"{}\"", short_checksum(json!(view).to_string().as_bytes()));
    let as_of = format_us(targets.read_us);
    Ok(conditional::answer_lazily(&headers, &tag, || Json(Target { view, as_of })))
}

/// `GET /workers`.
pub(crate) async fn workers(_: MayRead, State(app): State<App>, params: Params) -> Result<Response, Problem> {
    params.check(&["target", "state", "job", "q", "limit", "cursor"])?;
    let (limit, targets, jobs) = (params.limit()?, params.all("target"), params.texts("job"));
    let states = params.all("state");
    if let Some(state) = states.iter().find(|state| !WORKER_STATES.contains(state)) {
        let known = WORKER_STATES.join(", ");
        return Err(bad("state", format_args!("{state:?} is none of {known}")));
    }
    let query = params.one("q")?.map(str::to_lowercase);
    let of = format!("workers?{}", params.without(&["limit", "cursor"]));
    let after: Option<(String, String)> =
        params.one("cursor")?.map(|cursor| cursor::read(&of, cursor)).transpose()?;
    let only = targets.first().copied().filter(|_| targets.len() == 1);
    let found = of_fleet(&app.whereabouts, only).await;
    let mut found = found.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    found.retain(|worker| {
        (states.is_empty() || states.contains(&worker.state))
            && (targets.is_empty() || worker.targets.iter().any(|one| targets.contains(&one.as_str())))
            && query.as_deref().is_none_or(|query| contains(worker, query))
            && (jobs.is_empty() || worker.job_id.as_ref().is_some_and(|job| jobs.contains(job)))
    });
    let total = found.len() as u64;
    let is_behind = |worker: &WorkerView| {
        after.as_ref().is_none_or(|(host, name)| (&worker.host, &worker.worker) > (host, name))
    };
    let mut rest = found.into_iter().filter(is_behind);
    let value: Vec<WorkerView> = rest.by_ref().take(limit).collect();
    let last = value.last().filter(|_| rest.next().is_some());
    let next_cursor = last.map(|last| cursor::write(&of, &(&last.host, &last.worker)));
    Ok(Page::now(value, next_cursor, Some(total)).answer(&params))
}

/// Whether name, host, address, job or version of a worker contain the text, which is in small letters.
pub(crate) fn contains(worker: &WorkerView, query: &str) -> bool {
    let WorkerView { worker: name, host, ip, job_id, version, .. } = worker;
    [name, host, ip, version].into_iter().chain(job_id).any(|text| text.to_lowercase().contains(query))
}

/// What the body of a wish to leave may say.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Drain {
    /// Why, for people.
    reason: String,
}

/// That a worker is asked to leave.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Draining {
    worker: String,
    /// `draining`.
    state: &'static str,
}

/// Longest reason why a worker is to leave, characters.
const MOST_REASON: usize = 200;

/// Asks the worker of this name to leave.
pub(crate) async fn drain_worker(app: &App, worker: &str, reason: &str, who: &str) -> Result<(), Problem> {
    if reason.chars().count() > MOST_REASON {
        let title = format_args!("The reason has more than {MOST_REASON} characters.");
        return Err(Problem::new(Kind::BAD_REQUEST, title));
    }
    let reason = if reason.is_empty() { format!("asked by {who}") } else { format!("{reason} ({who})") };
    let asked = ask_to_leave(&app.whereabouts, worker, &reason).await;
    if asked.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))? {
        info!(worker, who, reason, "a worker is asked to leave");
        return Ok(());
    }
    let title =
        format_args!("There is no worker {worker:?}: it has ended, or nothing was heard of it for a minute.");
    Err(Problem::new(Kind::NOT_FOUND, title))
}

/// `POST /workers/{worker}/drain`.
pub(crate) async fn drain(
    May(who): MayAdmin,
    State(app): State<App>,
    Path(worker): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let Drain { reason } = json_or_nothing(request).await?;
    drain_worker(&app, &worker, reason.trim(), &who.name).await?;
    let answer = Json(Draining { worker, state: "draining" });
    Ok((StatusCode::ACCEPTED, answer).into_response())
}
