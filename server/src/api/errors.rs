//! The errors of a job and the items that are missing because of them.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse, Response};
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
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/plain") {
        let items = mini_batches.iter().flat_map(|mini_batch| &mini_batch.items);
        let lines: Vec<String> = items.map(line).chain([String::new()]).collect();
        return Ok(lines.join("\n").into_response());
    }
    Ok(Json(Versioned::from(FailedItems { job_id: record.job_id, mini_batches })).into_response())
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
