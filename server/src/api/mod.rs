//! The API for programs, below `/api/v1`: JSON in the words of `prs ... -o json`, lists in pages, problems as RFC 9457 has them.
//!
//! | file | addresses |
//! |---|---|
//! | `jobs` | jobs: list, one, cancel, remove |
//! | `job_object` | how a job is written |
//! | `errors` | its errors and failed items |
//! | `events` | what happens to it, as it happens |
//! | `fleet` | targets of the fleet, for autoscalers; its workers |
//! | `logs` | its logs: list, one, a window of one |
//! | `outputs` | its result and its files |
//! | `tokens` | tokens: list, create, revoke |
//! | `service` | the server itself |
//! | `document` | the list of all of them |

mod document;
mod errors;
mod events;
pub(crate) mod files;
pub(crate) mod fleet;
mod job_object;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod outputs;
mod service;
mod tokens;

use axum::Router;
use axum::routing::{MethodRouter, delete, get, post};

use crate::app::App;
use crate::problem::{Kind, Problem};

pub(crate) use document::ROUTES;

/// An address, for the list of them.
pub(crate) struct Route {
    /// The method.
    pub(crate) method: &'static str,
    /// The path, with `{name}` for what stands in it.
    pub(crate) path: &'static str,
    /// The least role; `any` where all do; empty where none is needed.
    pub(crate) role: &'static str,
    /// Its parameters, with what each takes.
    pub(crate) parameters: &'static [(&'static str, &'static str)],
    /// What it does.
    pub(crate) does: &'static str,
}

/// The addresses.
pub(crate) fn router() -> Router<App> {
    let at = |path: &str, methods: MethodRouter<App>| Router::new().route(path, methods);
    Router::new()
        .merge(at("/api/v1/jobs", get(jobs::list)))
        .merge(at("/api/v1/jobs/{job}", get(jobs::one).delete(jobs::remove)))
        .merge(at("/api/v1/jobs/{job}/cancel", post(jobs::cancel)))
        .merge(at("/api/v1/jobs/{job}/spec", get(jobs::spec)))
        .merge(at("/api/v1/jobs/{job}/steps", get(jobs::steps)))
        .merge(at("/api/v1/jobs/{job}/report.html", get(jobs::report)))
        .merge(at("/api/v1/jobs/{job}/errors", get(errors::list)))
        .merge(at("/api/v1/jobs/{job}/failed-items", get(errors::failed_items)))
        .merge(at("/api/v1/jobs/{job}/events", get(events::of_job)))
        .merge(at("/api/v1/jobs/{job}/logs", get(logs::list)))
        .merge(at("/api/v1/jobs/{job}/logs/{*path}", get(logs::one)))
        .merge(at("/api/v1/jobs/{job}/log-lines", get(logs::lines)))
        .merge(at("/api/v1/jobs/{job}/outputs", get(outputs::list)))
        .merge(at("/api/v1/jobs/{job}/outputs/{*path}", get(outputs::one)))
        .merge(at("/api/v1/jobs/{job}/result", get(outputs::result)))
        .merge(at("/api/v1/targets", get(fleet::targets)))
        .merge(at("/api/v1/targets/{target}", get(fleet::target)))
        .merge(at("/api/v1/workers", get(fleet::workers)))
        .merge(at("/metrics", get(service::metrics)))
        .merge(at("/api/v1/tokens", get(tokens::list).post(tokens::create)))
        .merge(at("/api/v1/tokens/{token}", delete(tokens::revoke)))
        .merge(at("/api/v1/whoami", get(service::whoami)))
        .merge(at("/api/v1/version", get(service::version)))
        .merge(at("/livez", get(service::livez)))
        .merge(at("/readyz", get(service::readyz)))
        .merge(at("/openapi.json", get(document::openapi)))
}

/// The addresses for what looks after the server: they ask nobody who they are.
pub(crate) fn of_machines() -> Router<App> {
    Router::new()
        .route("/metrics", get(service::metrics))
        .route("/livez", get(service::livez))
        .route("/readyz", get(service::readyz))
        .fallback(|| async { Problem::new(Kind::NOT_FOUND, "There are /metrics, /livez and /readyz here.") })
}
