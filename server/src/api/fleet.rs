//! What the targets of the fleet want and have, for autoscalers; and its workers.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::fleet::{TargetView, WorkerView, workers as of_fleet};
use serde::Serialize;

use crate::app::App;
use crate::auth::{Known, MayRead};
use crate::http::cursor;
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// A target, and when that was so.
#[derive(Debug, Serialize)]
struct Target {
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
    Ok(Json(super::jobs::Page { value, next_cursor: None, total: Some(total), as_of }).into_response())
}

/// `GET /targets/{target}`.
pub(crate) async fn target(
    _: Known,
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let targets = app.fleet.targets().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    Ok(Json(Target { view: targets.named(&name), as_of: format_us(targets.read_us) }).into_response())
}

/// What a worker is at.
pub(crate) fn state_of(worker: &WorkerView) -> &'static str {
    if worker.job.is_some() { "serving" } else { "idle" }
}

/// A worker, and what it is at.
#[derive(Debug, Serialize)]
struct Worker {
    #[serde(flatten)]
    view: WorkerView,
    state: &'static str,
}

/// `GET /workers`.
pub(crate) async fn workers(_: MayRead, State(app): State<App>, params: Params) -> Result<Response, Problem> {
    params.check(&["target", "state", "job", "limit", "cursor"])?;
    let (limit, target, job) = (params.limit()?, params.one("target")?, params.one("job")?);
    let state = params.one("state")?;
    if let Some(state) = state.filter(|state| !["idle", "serving"].contains(state)) {
        return Err(bad("state", format_args!("{state:?} is neither idle nor serving")));
    }
    let of = format!("workers?{}", params.without(&["limit", "cursor"]));
    let after: Option<(String, String)> =
        params.one("cursor")?.map(|cursor| cursor::read(&of, cursor)).transpose()?;
    let found = of_fleet(&app.whereabouts, target).await;
    let mut found = found.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    found.retain(|worker| {
        state.is_none_or(|state| state_of(worker) == state)
            && job.is_none_or(|job| worker.job.as_deref() == Some(job))
    });
    let total = found.len() as u64;
    let is_behind = |worker: &WorkerView| {
        after.as_ref().is_none_or(|(host, name)| (&worker.host, &worker.worker) > (host, name))
    };
    let mut rest = found.into_iter().filter(is_behind);
    let value: Vec<Worker> =
        rest.by_ref().take(limit).map(|view| Worker { state: state_of(&view), view }).collect();
    let last = value.last().filter(|_| rest.next().is_some());
    let next_cursor = last.map(|last| cursor::write(&of, &(&last.view.host, &last.view.worker)));
    let as_of = format_us(now_us());
    Ok(Json(super::jobs::Page { value, next_cursor, total: Some(total), as_of }).into_response())
}
