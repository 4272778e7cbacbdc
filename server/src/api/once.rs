//! `Idempotency-Key`: a request that comes twice under one key is done once, and answered twice.

use std::time::{Duration, Instant};

use axum::http::header::{HeaderName, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use prs_common::traces;
use prs_jobs::Failure;
use prs_jobs::idempotency::{Begun, Held, KEPT, is_key};
use tokio::runtime::Handle;
use tracing::{Instrument, Span, warn};

use super::job_object::JobObject;
use crate::app::App;
use crate::auth::Principal;
use crate::problem::{Kind, Problem};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The key in these headers, where there is one.
pub(crate) fn key_in(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let wrong =
        |why: &str| Err(Problem::new(Kind::BAD_REQUEST, format_args!("The header Idempotency-Key {why}.")));
    let mut keys = headers.get_all(KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.next().is_some() {
        return wrong("stands there several times");
    }
    match key.to_str().ok().filter(|key| is_key(key)) {
        Some(key) => Ok(Some(key.to_owned())),
        None => wrong("takes 1 to 255 visible characters of ASCII"),
    }
}

/// What is to be done with a request.
pub(crate) enum Once {
    /// It is to be done; held where it has a key.
    Do(Option<Box<Held>>),
    /// It was done, about this job.
    Done(String),
}

/// How long a person who pressed twice is kept waiting for the answer to the first.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks for it.
const LOOK: Duration = Duration::from_millis(300);

/// Begins a request of a page: who pressed twice gets the answer of the first.
pub(crate) async fn begin_of_page(
    app: &App,
    who: &Principal,
    route: &str,
    key: Option<&str>,
    fingerprint: &str,
) -> Result<Once, Problem> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match begin(app, who, route, key, fingerprint).await {
            Err(problem) if problem.kind == Kind::IN_PROGRESS && Instant::now() < deadline => {
                tokio::time::sleep(LOOK).await;
            }
            begun => return begun,
        }
    }
}

/// Begins a request of `who`, for what `route` says, with `key` where it has one.
pub(crate) async fn begin(
    app: &App,
    who: &Principal,
    route: &str,
    key: Option<&str>,
    fingerprint: &str,
) -> Result<Once, Problem> {
    let Some(key) = key else { return Ok(Once::Do(None)) };
    let scope = format!("{} {route}", who.id());
    let begun = app.desk.begin(&scope, key, fingerprint).await;
    match begun.map_err(|failure| Problem::of(&failure, Kind::REFUSED))? {
        Begun::Mine(held) => Ok(Once::Do(Some(held))),
        Begun::Done(job_id) => Ok(Once::Done(job_id)),
        Begun::UnderWay => Err(Problem::new(
            Kind::IN_PROGRESS,
            "A request with this Idempotency-Key is being served at this moment.",
        )
        .retry_after(1)),
        Begun::Other => Err(Problem::new(
            Kind::KEY_REUSED,
            format_args!(
                "The Idempotency-Key was used for another request within the last {} hours.",
                KEPT.as_secs() / 3600
            ),
        )),
    }
}

/// Ends a request that was done about the job `job_id`, or failed.
pub(crate) async fn end(held: Option<Box<Held>>, done: Result<&str, &Failure>) {
    let Some(held) = held else { return };
    match done {
        Ok(job_id) => {
            if let Err(failure) = held.done(job_id).await {
                // Another request of the key finds the job there.
                warn!(%failure, job_id, "the answer to a request is not noted");
            }
        }
        // Nothing came of it.
        Err(failure) if failure.is_usage() => held.forget().await,
        // Another request of the key goes on with it.
        Err(_) => {}
    }
}

/// The answer about a job, for the first or for another time.
pub(crate) async fn answer(
    app: &App,
    status: StatusCode,
    job_id: &str,
    is_replayed: bool,
) -> Result<Response, Problem> {
    let (_, seen) = app.seen(job_id).await?;
    // What was given the output of a former job at once made nothing.
    let is_given = status == StatusCode::CREATED && seen.result.reused.is_some();
    let status = if is_given { StatusCode::OK } else { status };
    let at = format!("/api/v1/jobs/{job_id}");
    let mut response = (status, [(LOCATION, at)], JobObject::of(&seen)).into_response();
    if is_replayed {
        response.headers_mut().insert(REPLAYED, "true".parse().expect("it is a header's value"));
    }
    Ok(response)
}

/// Does `work` to its end also when who asked is gone. It packs, unpacks and waits for programs, so it has a thread of its own.
pub(crate) async fn to_the_end<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, Problem>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Problem>>,
{
    let handle = Handle::current();
    // It is a part of the request still: to the log, and to those who trace it.
    let (around, span) = (Span::current(), traces::current());
    let done =
        tokio::task::spawn_blocking(move || handle.block_on(traces::within(span, work()).instrument(around)))
            .await;
    done.unwrap_or_else(|_| {
        Err(Problem::new(Kind::INTERNAL, "The call failed; the log of the server says why."))
    })
}
