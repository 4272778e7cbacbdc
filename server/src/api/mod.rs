//! The API for programs, below `/api/v1`: JSON in the words of `prs ... -o json`, lists in pages, problems as RFC 9457 has them.
//!
//! | file | addresses |
//! |---|---|
//! | `jobs` | jobs: list, one, cancel, remove |
//! | `job_object` | how a job is written |
//! | `errors` | its errors and failed items |
//! | `events` | what happens to it, as it happens |
//! | `logs` | its logs: list, one, a window of one, text in them |
//! | `outputs` | its result and its files |
//! | `mini_batches` | its mini-batches and their tries |
//! | `statistics` | what it did over time, its nodes and their hosts |
//! | `service` | the server itself |
//! | `document` | the list of all of them |

mod document;
pub(crate) mod errors;
mod events;
pub(crate) mod files;
mod job_object;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod mini_batches;
pub(crate) mod outputs;
mod service;
mod statistics;

use axum::Router;
use axum::routing::{MethodRouter, get, post};

use crate::app::App;

pub(crate) use document::ROUTES;

/// An address, for the list of them.
pub(crate) struct Route {
    /// The method.
    pub(crate) method: &'static str,
    /// The path, with `{name}` for what stands in it.
    pub(crate) path: &'static str,
    /// The least role; empty where none is needed.
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
        .merge(at("/api/v1/jobs/{job}/statistics", get(statistics::statistics)))
        .merge(at("/api/v1/jobs/{job}/nodes", get(statistics::list)))
        .merge(at("/api/v1/jobs/{job}/perf", get(statistics::hosts)))
        .merge(at("/api/v1/jobs/{job}/mini-batches", get(mini_batches::of_job)))
        .merge(at("/api/v1/jobs/{job}/mini-batches/{index}", get(mini_batches::of_index)))
        .merge(at("/api/v1/jobs/{job}/tries", get(mini_batches::tries)))
        .merge(at("/api/v1/jobs/{job}/events", get(events::of_job)))
        .merge(at("/api/v1/jobs/{job}/logs", get(logs::list)))
        .merge(at("/api/v1/jobs/{job}/logs/{*path}", get(logs::one)))
        .merge(at("/api/v1/jobs/{job}/log-lines", get(logs::lines)))
        .merge(at("/api/v1/jobs/{job}/log-search", get(logs::search)))
        .merge(at("/api/v1/jobs/{job}/outputs", get(outputs::list)))
        .merge(at("/api/v1/jobs/{job}/outputs/{*path}", get(outputs::one)))
        .merge(at("/api/v1/jobs/{job}/result", get(outputs::result)))
        .merge(at("/api/v1/whoami", get(service::whoami)))
        .merge(at("/api/v1/version", get(service::version)))
        .merge(at("/livez", get(service::livez)))
        .merge(at("/readyz", get(service::readyz)))
        .merge(at("/openapi.json", get(document::openapi)))
}
