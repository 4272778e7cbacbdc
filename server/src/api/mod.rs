//! The API for programs, below `/api/v1`: JSON in the words of `prs ... -o json`, lists in pages, problems as RFC 9457 has them.
//!
//! | file | addresses |
//! |---|---|
//! | `jobs` | jobs: list, one, cancel |
//! | `change` | what is said of a job, and that it is removed |
//! | `submit` | jobs that are handed in, go on, and run again |
//! | `received` | what comes with these requests |
//! | `packing` | what a program is to pack before it hands a job in |
//! | `once` | `Idempotency-Key`: what comes twice is done once |
//! | `job_object` | how a job is written |
//! | `code` | the code that it ran |
//! | `errors` | its errors, what one of them cost, and failed items |
//! | `events` | what happens to it, as it happens |
//! | `list_events` | what changes in the list of jobs, likewise |
//! | `fleet` | targets of the fleet, for autoscalers; its workers |
//! | `logs` | its logs: list, one, a window of one, text in them |
//! | `log_archive` | its logs as one archive |
//! | `outputs` | its result and its files |
//! | `preview` | the first or the last rows of a file of its output |
//! | `mini_batches` | its mini-batches and their tries |
//! | `statistics` | what it did over time, its nodes and their hosts |
//! | `steps` | the steps of a pipeline |
//! | `audit` | who changed what |
//! | `tokens` | tokens: list, create, revoke |
//! | `servers` | the servers behind this one |
//! | `service` | the server itself |
//! | `endpoints` | batch endpoints, their deployments, calls |
//! | `deployments` | the deployments of an endpoint |
//! | `registry` | what is registered: names, versions, files |
//! | `asset_file` | bodies that say what is to be registered |
//! | `uploads` | files that are sent before what needs them |
//! | `azure` | the same calls in the shapes of Azure's REST |
//! | `management` | endpoints, deployments and versions in the shapes of Azure's management REST |
//! | `azure_objects` | what these shapes say, and how they are made |
//! | `answers` | what they answer and take, and the schemas of that |
//! | `parameters` | what their parameters take, and which problems they answer |
//! | `document` | the list of all of them |

mod answers;
mod asset_file;
pub(crate) mod audit;
pub(crate) mod azure;
mod azure_objects;
pub(crate) mod change;
pub(crate) mod code;
pub(crate) mod deployments;
mod document;
pub(crate) mod endpoints;
pub(crate) mod errors;
mod events;
pub(crate) mod files;
pub(crate) mod fleet;
pub(crate) mod job_object;
pub(crate) mod jobs;
mod list_events;
mod log_archive;
pub(crate) mod logs;
mod management;
pub(crate) mod mini_batches;
pub(crate) mod once;
pub(crate) mod outputs;
mod packing;
mod parameters;
pub(crate) mod preview;
pub(crate) mod received;
pub(crate) mod registry;
pub(crate) mod servers;
mod service;
pub(crate) mod statistics;
mod steps;
pub(crate) mod submit;
pub(crate) mod tokens;
mod uploads;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};

use crate::app::App;
use crate::http::rates::Sizes;
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

/// What stands before the addresses of Azure's management REST where they name a workspace: any.
const WORKSPACE: &str = "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}";

/// The addresses of Azure's management REST, with `before` before each.
fn of_azure(before: &str) -> Router<App> {
    let at =
        |path: &str, methods: MethodRouter<App>| Router::new().route(&format!("{before}{path}"), methods);
    Router::new()
        .merge(at(
            "/batchEndpoints/{endpoint}",
            get(management::endpoint).put(management::put_endpoint).delete(management::delete_endpoint),
        ))
        .merge(at(
            "/batchEndpoints/{endpoint}/deployments/{deployment}",
            get(management::deployment).put(management::put_deployment).delete(management::delete_deployment),
        ))
        .merge(at("/{kind}/{name}/versions/{version}", get(management::version).put(management::put_version)))
}

/// Bodies may be larger: files come with them.
pub(crate) fn large(sizes: &Sizes) -> DefaultBodyLimit {
    DefaultBodyLimit::max(sizes.form)
}

/// The addresses.
pub(crate) fn router(sizes: &Sizes) -> Router<App> {
    let large = || large(sizes);
    let at = |path: &str, methods: MethodRouter<App>| Router::new().route(path, methods);
    Router::new()
        .merge(at("/api/v1/jobs", get(jobs::list).post(submit::submit.layer(large()))))
        .merge(at("/api/v1/job-paths", post(packing::job_paths)))
        .merge(at("/api/v1/kept-out", post(packing::kept_out)))
        .merge(at("/api/v1/jobs/{job}", get(jobs::one).patch(change::patch).delete(change::delete)))
        .merge(at("/api/v1/jobs/{job}/cancel", post(jobs::cancel)))
        .merge(at("/api/v1/jobs/{job}/resume", post(submit::resume.layer(large()))))
        .merge(at("/api/v1/jobs/{job}/resubmit", post(submit::resubmit.layer(large()))))
        .merge(at("/api/v1/jobs/{job}/spec", get(jobs::spec)))
        .merge(at("/api/v1/jobs/{job}/code", get(code::list)))
        .merge(at("/api/v1/jobs/{job}/code.tar.gz", get(code::archive)))
        .merge(at("/api/v1/jobs/{job}/code/{*path}", get(code::one)))
        .merge(at("/api/v1/jobs/{job}/steps", get(steps::steps)))
        .merge(at("/api/v1/jobs/{job}/report.html", get(jobs::report)))
        .merge(at("/api/v1/jobs/{job}/errors", get(errors::list)))
        .merge(at("/api/v1/jobs/{job}/errors/{group}", get(errors::group)))
        .merge(at("/api/v1/jobs/{job}/errors/{group}/items", get(errors::items)))
        .merge(at("/api/v1/jobs/{job}/failed-items", get(errors::failed_items)))
        .merge(at("/api/v1/jobs/{job}/statistics", get(statistics::statistics)))
        .merge(at("/api/v1/jobs/{job}/nodes", get(statistics::list)))
        .merge(at("/api/v1/jobs/{job}/nodes/{node_id}", get(statistics::one)))
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
        .merge(at("/api/v1/jobs/{job}/output-preview", get(preview::preview)))
        .merge(at("/api/v1/jobs/{job}/logs.tar.gz", get(log_archive::archive)))
        .merge(at("/api/v1/events", get(events::of_jobs)))
        .merge(at("/api/v1/targets", get(fleet::targets)))
        .merge(at("/api/v1/targets/{target}", get(fleet::target)))
        .merge(at("/api/v1/workers", get(fleet::workers)))
        .merge(at("/api/v1/workers/{worker}/drain", post(fleet::drain)))
        .merge(at("/api/v1/servers", get(servers::list)))
        .merge(at("/metrics", get(service::metrics)))
        .merge(at("/api/v1/endpoints", get(endpoints::list)))
        .merge(at(
            "/api/v1/endpoints/{endpoint}",
            get(endpoints::one).put(endpoints::put).patch(endpoints::patch).delete(endpoints::delete),
        ))
        .merge(at("/api/v1/endpoints/{endpoint}/deployments", get(deployments::list)))
        .merge(at(
            "/api/v1/endpoints/{endpoint}/deployments/{deployment}",
            get(deployments::one)
                .put(deployments::put.layer(large()))
                .patch(deployments::patch)
                .delete(deployments::delete),
        ))
        .merge(at("/api/v1/endpoints/{endpoint}/jobs", get(jobs::of_endpoint)))
        .merge(at("/api/v1/endpoints/{endpoint}/deployments/{deployment}/jobs", get(jobs::of_deployment)))
        .merge(at("/api/v1/endpoints/{endpoint}/invoke", post(endpoints::invoke)))
        .merge(at("/api/v1/uploads/missing", post(uploads::ask)))
        .merge(at(
            "/api/v1/blobs/{sha256}",
            get(uploads::get).put(uploads::put.layer(DefaultBodyLimit::disable())),
        ))
        .merge(at("/api/v1/registry/{kind}", get(registry::list)))
        .merge(at("/api/v1/registry/{kind}/{name}", get(registry::versions)))
        .merge(at(
            "/api/v1/registry/{kind}/{name}/versions",
            get(registry::versions).post(registry::create.layer(large())),
        ))
        .merge(at(
            "/api/v1/registry/{kind}/{name}/versions/{version}",
            get(registry::one)
                .put(registry::put.layer(large()))
                .patch(registry::patch)
                .delete(registry::delete),
        ))
        .merge(at("/api/v1/registry/{kind}/{name}/versions/{version}/files", get(registry::list_files)))
        .merge(at("/api/v1/registry/{kind}/{name}/versions/{version}/files/{*path}", get(registry::one_file)))
        .merge(at("/endpoints/{endpoint}/jobs", get(azure::jobs).post(azure::call)))
        .merge(at("/endpoints/{endpoint}/jobs/{job}", get(azure::job)))
        .merge(at("/endpoints/{endpoint}/jobs/{job}/cancel", post(azure::cancel)))
        .merge(of_azure(""))
        .merge(of_azure(WORKSPACE))
        .merge(at("/azure/operations/{operation}", get(management::operation)))
        .merge(at("/api/v1/tokens", get(tokens::list).post(tokens::create)))
        .merge(at("/api/v1/tokens/{token}", delete(tokens::revoke)))
        .merge(at("/api/v1/audit", get(audit::list)))
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
