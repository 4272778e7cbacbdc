//! The errors of a job and the items that are missing because of them, page by page.

use std::cmp::Reverse;
use std::collections::HashMap;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use prs_common::ledger::JobState;
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::Failure;
use prs_jobs::error_groups::{LostItems, error_group, lost_items};
use prs_jobs::errors::{INIT, errors};
use prs_jobs::homes::{self, Home};
use prs_jobs::mini_batches::Cursor;
use prs_jobs::records::{DistinctError, Errors, FailedMiniBatch, Item, Versioned};
use prs_jobs::statistics::published_parts;
use prs_orchestrator::JobRecord;
use serde::Serialize;

use crate::app::App;
use crate::auth::MayRead;
use crate::http::cursor;
use crate::http::page::with_next;
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// The orders of errors, the first where none is named.
pub(super) const SORTS: [&str; 3] = ["-lost", "-tries", "-last_at"];
/// Mini-batches of a piece of a list as text.
const PIECE: usize = 500;

/// The errors of a job; of one that has not ended, those so far.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ErrorsPage {
    /// Id of the job.
    job_id: String,
    /// Its state.
    #[cfg_attr(test, schemars(with = "String"))]
    state: JobState,
    /// Tries that failed.
    failed_tries: u64,
    /// The distinct errors of its tries. A pipeline has none of its own.
    value: Vec<TimedError>,
    /// Errors of processes that did not start: of importing the script, and of `init()`. They are on each page.
    init: Vec<DistinctError>,
    /// What has errors that are not told apart any more.
    others: Others,
    /// Of a pipeline: the errors of its steps, as far as these were started, in its order; null for every other job.
    steps: Option<Vec<Errors>>,
    next_cursor: Option<String>,
    total: Option<u64>,
    as_of: String,
}

/// An error, and when it was.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TimedError {
    #[serde(flatten)]
    error: DistinctError,
    /// When the first of its tries began: UTC, RFC 3339; null where that was not published.
    first_at: Option<String>,
    /// When the last of them began.
    last_at: Option<String>,
}

/// Errors that are not told apart.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Others {
    /// Their tries.
    tries: u64,
    /// The mini-batches that they cost.
    lost: u64,
}

/// Mini-batches that failed or lack items.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LostPage {
    /// Id of the job.
    job_id: String,
    /// The mini-batches; of their tries those that stand in the parts of the table of tries that were read for the page.
    value: Vec<FailedMiniBatch>,
    next_cursor: Option<String>,
    /// Nobody counts them.
    total: Option<u64>,
    /// When the table of tries was written; null where there is none yet.
    as_of: Option<String>,
    /// Whether that has all tries up to `as_of`, and all items are known.
    complete: bool,
}

fn refused(failure: &Failure) -> Problem {
    Problem::of(failure, Kind::REFUSED)
}

/// `GET /jobs/{job}/errors`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["sort", "lost", "limit", "cursor"])?;
    let (limit, lost_alone) = (params.limit()?, params.flag("lost")?);
    let sort = params.one("sort")?.unwrap_or(SORTS[0]);
    if !SORTS.contains(&sort) {
        return Err(bad("sort", format_args!("{sort:?} is none of {}", SORTS.join(", "))));
    }
    let of = format!("errors of {id}?{}", params.without(&["limit", "cursor"]));
    let from: usize = params.one("cursor")?.map(|text| cursor::read(&of, text)).transpose()?.unwrap_or(0);
    let (home, seen) = app.seen(&id).await?;
    let told = published_parts(&*home, &seen.record, &["live", "errors"]).await;
    let told = told.map_err(|failure| refused(&failure))?.errors.unwrap_or_default();
    let times: HashMap<&str, (u64, u64)> =
        told.groups.iter().map(|group| (&*group.id, (group.first_us, group.last_us))).collect();
    let result = &seen.result;
    let missing = result.findings.mini_batches_missing.max(result.mini_batches.failed);
    let found = errors(&*home, seen, &app.whereabouts).await.map_err(|failure| refused(&failure))?;
    let Errors { job_id, state, failed_tries, others, errors, steps } = found.record();
    let (init, mut groups): (Vec<_>, Vec<_>) = errors.into_iter().partition(|error| error.status == INIT);
    let known: u64 = groups.iter().map(|error| error.mini_batches_lost).sum();
    let others = Others { tries: others, lost: if others > 0 { missing.saturating_sub(known) } else { 0 } };
    let time = |error: &DistinctError| error.group.as_deref().and_then(|group| times.get(group)).copied();
    groups.retain(|error| !lost_alone || error.mini_batches_lost > 0);
    match sort {
        "-tries" => groups.sort_by_key(|error| Reverse(error.tries)),
        "-last_at" => groups.sort_by_key(|error| Reverse(time(error).map(|(_, last_us)| last_us))),
        // They are listed so.
        _ => {}
    }
    let total = groups.len();
    let with_times = |error: DistinctError| {
        let (first, last) = time(&error).unzip();
        TimedError { error, first_at: first.map(format_us), last_at: last.map(format_us) }
    };
    let value: Vec<_> = groups.into_iter().skip(from).take(limit).map(with_times).collect();
    let next = from + value.len();
    let next_cursor = (next < total).then(|| cursor::write(&of, &next));
    let page = ErrorsPage {
        job_id,
        state,
        failed_tries,
        value,
        init,
        others,
        steps,
        next_cursor: next_cursor.clone(),
        total: Some(total as u64),
        as_of: format_us(now_us()),
    };
    Ok(with_next(&params, next_cursor.as_deref(), Json(Versioned::from(page))))
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
    let found = error_group(&*home, seen, &group).await.map_err(|failure| refused(&failure))?;
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
    params.check(&["limit", "cursor"])?;
    let (home, seen) = app.seen(&id).await?;
    home.check_has_mini_batches(&seen.record).map_err(|failure| refused(&failure))?;
    let record = seen.record.clone();
    let asked = Asked::new(&params, format!("items of {group} of {id}"), Some(group.clone()))?;
    let page = asked.page(&home, &record).await?;
    if page.mini_batches.is_empty()
        && page.next.is_none()
        && error_group(&*home, seen, &group).await.map_err(|failure| refused(&failure))?.is_none()
    {
        return Err(no_group(&group));
    }
    Ok(asked.answer(&headers, &params, (home, record), page))
}

/// `GET /jobs/{job}/failed-items`.
pub(crate) async fn failed_items(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["limit", "cursor"])?;
    app.home(&id).await?;
    let home = homes::find_at_work(&id, &app.whereabouts).await.map_err(|failure| refused(&failure))?;
    let record = home.record().await.map_err(|failure| refused(&failure))?;
    home.check_has_mini_batches(&record).map_err(|failure| refused(&failure))?;
    let asked = Asked::new(&params, format!("failed items of {id}"), None)?;
    let page = asked.page(&home, &record).await?;
    Ok(asked.answer(&headers, &params, (home, record), page))
}

/// Which mini-batches that failed or lack items a request is about.
#[derive(Debug)]
struct Asked {
    /// What its cursors are of.
    of: String,
    group: Option<String>,
    limit: usize,
    begins: Option<Cursor>,
}

impl Asked {
    fn new(params: &Params, of: String, group: Option<String>) -> Result<Self, Problem> {
        let begins = params.one("cursor")?.map(|text| cursor::read(&of, text)).transpose()?;
        Ok(Self { limit: params.limit()?, of, group, begins })
    }

    async fn page(&self, home: &Home, record: &JobRecord) -> Result<LostItems, Problem> {
        let page = lost_items(&**home, record, self.group.as_deref(), self.begins.clone(), self.limit).await;
        page.map_err(|failure| refused(&failure))
    }

    /// The page; or, where text is wanted, the items of it and of all that follow, one a line.
    fn answer(
        self,
        headers: &HeaderMap,
        params: &Params,
        (home, record): (Home, JobRecord),
        page: LostItems,
    ) -> Response {
        let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if accepts.contains("text/plain") {
            return text(home, record, self.group, page);
        }
        let next_cursor = page.next.map(|next| cursor::write(&self.of, &next));
        let answer = LostPage {
            job_id: record.job_id,
            value: page.mini_batches,
            next_cursor: next_cursor.clone(),
            total: None,
            as_of: page.as_of_us.map(format_us),
            complete: page.complete,
        };
        with_next(params, next_cursor.as_deref(), Json(Versioned::from(answer)))
    }
}

/// The items, a piece for each few parts of the table.
fn text(home: Home, record: JobRecord, group: Option<String>, first: LostItems) -> Response {
    let state = Some((home, record, group, first));
    let pieces = futures_util::stream::try_unfold(state, |state| async move {
        let Some((home, record, group, page)) = state else { return Ok(None) };
        let items = page.mini_batches.iter().flat_map(|mini_batch| &mini_batch.items);
        let lines: String = items.map(|item| line(item) + "\n").collect();
        let next = match page.next {
            Some(next) => {
                let page = lost_items(&*home, &record, group.as_deref(), Some(next), PIECE).await;
                let page = page.map_err(|failure| {
                    tracing::warn!(%failure, "a list of items breaks off");
                    std::io::Error::other(failure.to_string())
                })?;
                Some((home, record, group, page))
            }
            None => None,
        };
        Ok::<_, std::io::Error>(Some((bytes::Bytes::from(lines), next)))
    });
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], Body::from_stream(pieces)).into_response()
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
