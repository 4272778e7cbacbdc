//! The errors of a job and the items that are missing because of them.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse, Response};
use prs_jobs::error_groups::{error_group, lost_by};
use prs_jobs::errors::{errors, failed_mini_batches};
use prs_jobs::homes;
use prs_jobs::records::{FailedItems, Item, Versioned};

use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// `GET /jobs/{job}/errors`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (home, seen) = app.seen(&id).await?;
    let found = errors(&*home, seen, &app.whereabouts).await;
    let found = found.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    Ok(Json(Versioned::from(found.record())).into_response())
}

/// `GET /jobs/{job}/errors/{group}`.
pub(crate) async fn group(
    _: MayRead,
    State(app): State<App>,
    Path((id, group)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (home, seen) = app.seen(&id).await?;
    let found = error_group(&*home, seen, &group).await;
    let found = found.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    let found = found.ok_or_else(|| no_group(&group))?;
    Ok(Json(Versioned::from(found)).into_response())
}

/// That the job has no such group.
pub(crate) fn no_group(group: &str) -> Problem {
    Problem::new(Kind::ERROR_NOT_FOUND, format_args!("The job has no error group {group:?}."))
        .hint("/errors lists them, each with its group")
}

/// `GET /jobs/{job}/errors/{group}/items`.
pub(crate) async fn items(
    _: MayRead,
    State(app): State<App>,
    Path((id, group)): Path<(String, String)>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let refused = |failure| Problem::of(&failure, Kind::REFUSED);
    let (home, seen) = app.seen(&id).await?;
    home.check_has_mini_batches(&seen.record).map_err(refused)?;
    let lost = lost_by(&*home, &seen.record, &group).await.map_err(refused)?;
    if lost.is_empty() && error_group(&*home, seen, &group).await.map_err(refused)?.is_none() {
        return Err(no_group(&group));
    }
    Ok(answer(&headers, FailedItems { job_id: id, mini_batches: lost }))
}

/// Mini-batches with their items, or these alone as text.
fn answer(headers: &HeaderMap, found: FailedItems) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/plain") {
        let items = found.mini_batches.iter().flat_map(|mini_batch| &mini_batch.items);
        let lines: Vec<String> = items.map(line).chain([String::new()]).collect();
        return lines.join("\n").into_response();
    }
    Json(Versioned::from(found)).into_response()
}

/// `GET /jobs/{job}/failed-items`.
pub(crate) async fn failed_items(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    app.home(&id).await?;
    let refused = |failure| Problem::of(&failure, Kind::REFUSED);
    let home = homes::find_at_work(&id, &app.whereabouts).await.map_err(refused)?;
    let record = home.record().await.map_err(refused)?;
    home.check_has_mini_batches(&record).map_err(refused)?;
    let mini_batches = failed_mini_batches(&*home, &record).await.map_err(refused)?;
    Ok(answer(&headers, FailedItems { job_id: record.job_id, mini_batches }))
}

/// An item on one line.
pub(crate) fn line(item: &Item) -> String {
    match item {
        Item::File(path) => path.clone(),
        Item::Part { file, start, end: Some(end), .. } => format!("{file} bytes {start} to {end}"),
        Item::Part { file, start, .. } => format!("{file} from byte {start} on"),
        Item::Stored { descriptor } => descriptor.clone(),
    }
}
