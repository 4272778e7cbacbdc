//! The server itself.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prs_jobs::fleet::ended_jobs;
use prs_jobs::homes::active_ids;
use serde::Serialize;

use crate::app::App;
use crate::auth::Known;
use crate::metrics::{Fleet, MEDIA_TYPE, Told};
use crate::problem::{Kind, Problem};

/// `GET /whoami`.
pub(crate) async fn whoami(Known(who): Known) -> Response {
    Json(who).into_response()
}

/// What the server is.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Version"))]
pub(crate) struct About {
    /// Its version.
    version: &'static str,
    /// The commit that it was built of; `unknown` where nobody knows.
    commit: &'static str,
    /// The versions of the API that it has.
    api: [&'static str; 1],
    /// The form of the records.
    schema: u32,
}

/// `GET /version`.
pub(crate) async fn version(State(app): State<App>) -> Response {
    let schema = prs_jobs::records::SCHEMA;
    Json(About { version: env!("CARGO_PKG_VERSION"), commit: app.commit, api: ["v1"], schema })
        .into_response()
}

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let targets = app.fleet.targets().await;
    let (ended, servers) = match app.whereabouts.urls {
        Some(_) => {
            let (ended, servers) =
                tokio::join!(ended_jobs(&app.whereabouts), app.servers.look(targets.is_err()));
            (ended.ok(), Some(servers))
        }
        None => (None, None),
    };
    let fleet = servers.as_deref().map(|servers| Fleet {
        targets: targets.as_ref().ok().map(|targets| &targets.all[..]),
        ended: ended.as_ref(),
        servers,
    });
    let (watched, audit_lag, index) = (app.watches.watched(), app.audit.lag(), app.index.standing());
    let text = app.metrics.text(&Told { watched, audit_lag, index, fleet });
    ([(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))], text).into_response()
}

/// `GET /livez`.
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// `GET /readyz`.
pub(crate) async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    if app.stop.is_cancelled() {
        return Err(Problem::new(Kind::BUSY, "The server is about to end.").retry_after(5));
    }
    if app.audit.is_stuck() {
        return Err(Problem::new(
            Kind::SERVERS_UNREACHABLE,
            "The lines of the audit cannot be stored, so nothing can be changed here.",
        )
        .retry_after(5));
    }
    let failed = |failure| Problem::of(&failure, Kind::INTERNAL);
    app.index.snapshot().await.map_err(failed)?;
    // A list from the ledger says nothing of storage.
    active_ids(&app.whereabouts).await.map_err(failed)?;
    Ok("ok\n")
}
