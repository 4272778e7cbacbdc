//! The server itself.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use prs_common::traces;
use prs_common::wire::PROTOCOL_VERSION;
use prs_jobs::fleet::ended_jobs;
use prs_jobs::homes::active_ids;
use serde::Serialize;

use crate::app::App;
use crate::auth::{Known, Principal, Role, check, not_known};
use crate::http::params::Params;
use crate::metrics::{Fleet, MEDIA_TYPE, Told};
use crate::problem::Problem;

/// `GET /whoami`.
pub(crate) async fn whoami(Known(who): Known, params: Params) -> Result<Response, Problem> {
    params.check(&[])?;
    Ok(Json(who).into_response())
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
    /// The form of what programs of a fleet tell each other; those of one fleet have the same.
    protocol: u32,
    /// What it was built with, or started with, beside what every server has.
    features: Vec<&'static str>,
}

/// `GET /version`.
pub(crate) async fn version(State(app): State<App>, params: Params) -> Result<Response, Problem> {
    params.check(&[])?;
    let features = [
        ("fleet", app.whereabouts.urls.is_some()),
        ("oidc", cfg!(feature = "oidc")),
        ("traces", traces::is_on()),
        ("direct-downloads", app.direct.downloads),
        ("direct-uploads", app.direct.uploads),
    ];
    Ok(Json(About {
        version: env!("CARGO_PKG_VERSION"),
        commit: app.commit,
        api: ["v1"],
        schema: prs_jobs::records::SCHEMA,
        protocol: PROTOCOL_VERSION,
        features: features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect(),
    })
    .into_response())
}

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<App>, params: Params) -> Result<Response, Problem> {
    params.check(&[])?;
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
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))], text).into_response())
}

/// `GET /livez`.
pub(crate) async fn livez(params: Params) -> Result<&'static str, Problem> {
    params.check(&[])?;
    Ok("ok\n")
}

/// Whether something that the server needs is there.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Check {
    /// `server`, `audit`, `storage` or `ledger`.
    name: &'static str,
    ok: bool,
}

/// Whether the server can answer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Readiness {
    /// Whether it can.
    ready: bool,
    /// What keeps it from that: `server` where it is about to end, `audit`, `storage`, `ledger`.
    not_ready: Vec<&'static str>,
    /// All that was looked at, with `verbose`; else null.
    checks: Option<Vec<Check>>,
}

/// `GET /readyz`.
pub(crate) async fn readyz(
    State(app): State<App>,
    who: Option<Extension<Principal>>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["verbose"])?;
    // Probes write it without a value.
    let is_verbose = match params.one("verbose")? {
        None => params.has("verbose"),
        Some(_) => params.flag("verbose")?,
    };
    if is_verbose {
        let Some(Extension(who)) = who else { return Err(not_known()) };
        check(&who, Role::Read)?;
    }
    // A list from the ledger says nothing of storage.
    let (list, storage, ledger) =
        tokio::join!(app.index.snapshot(), active_ids(&app.whereabouts), app.fleet.targets());
    let has_ledger = app.whereabouts.urls.is_some();
    let checks: Vec<Check> = [
        Some(Check { name: "server", ok: !app.stop.is_cancelled() }),
        Some(Check { name: "audit", ok: !app.audit.is_stuck() }),
        Some(Check { name: "storage", ok: storage.is_ok() && list.is_ok() }),
        has_ledger.then(|| Check { name: "ledger", ok: ledger.is_ok() }),
    ]
    .into_iter()
    .flatten()
    .collect();
    let not_ready: Vec<&str> = checks.iter().filter(|check| !check.ok).map(|check| check.name).collect();
    let ready = not_ready.is_empty();
    let mut response =
        Json(Readiness { ready, not_ready, checks: is_verbose.then_some(checks) }).into_response();
    if !ready {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    Ok(response)
}
