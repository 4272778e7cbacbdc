//! The pages for people. What they show comes from the same calls as the API's answers.
//!
//! | file | pages |
//! |---|---|
//! | `jobs` | the list of jobs |
//! | `selected` | what is done with jobs that were selected in it |
//! | `job` | a job: overview, live parts, settings, cancel, remove |
//! | `output` | what it brought, and the pictures in it |
//! | `errors` | its errors, and one of them |
//! | `mini_batches` | its mini-batches, and one of them |
//! | `code` | the code that it ran |
//! | `graph` | the steps of a pipeline as a picture |
//! | `compare` | two jobs beside each other |
//! | `nodes` | its nodes, and one of them |
//! | `logs` | its logs |
//! | `endpoints` | endpoints: list, and one |
//! | `invoke` | the form that calls one |
//! | `registry` | what is registered: names, versions, one of them |
//! | `fleet` | targets and workers, one of each; asking a worker to leave |
//! | `admin` | tokens, and who changed what |
//! | `servers` | the servers behind this one |
//! | `submit` | forms: a new job, one that goes on, one that runs again |
//! | `tabs` | what pages of a job have in common that show little of it |
//! | `login` | logging in and out |
//! | `oidc` | signing in with an identity provider |
//! | `display` | how pages look to one reader |
//! | `assets` | stylesheet, script, picture of the tab |
//! | `help` | help, the components of pages, problems, the addresses of the API |

mod admin;
mod assets;
mod code;
mod compare;
mod display;
mod endpoints;
mod errors;
mod fleet;
mod graph;
mod help;
mod invoke;
mod job;
mod jobs;
mod login;
mod logs;
mod mini_batches;
mod nodes;
mod oidc;
mod output;
mod registry;
mod selected;
mod servers;
mod submit;
mod tabs;

use axum::Router;
use axum::handler::Handler;
use axum::response::Redirect;
use axum::routing::{MethodRouter, get, post};

use crate::api::large;
use crate::app::App;
use crate::http::rates::Sizes;
use crate::problem::{Kind, Problem};

pub(crate) use assets::Assets;

/// The addresses of the pages: method, path, and the least role, as the list of the API has them.
pub(crate) const PAGES: &[(&str, &str, &str)] = &[
    ("get", "/", "any"),
    ("get", "/jobs", "read"),
    ("post", "/selected", "submit"),
    ("get", "/jobs/{job}", "read"),
    ("get", "/jobs/{job}/live", "read"),
    ("get", "/jobs/{job}/part/{part}", "read"),
    ("get", "/jobs/{job}/errors", "read"),
    ("get", "/jobs/{job}/errors/{group}", "read"),
    ("get", "/jobs/{job}/errors/part/{part}", "read"),
    ("get", "/jobs/{job}/logs", "read"),
    ("get", "/jobs/{job}/logs/{path}", "read"),
    ("get", "/jobs/{job}/mini-batches", "read"),
    ("get", "/jobs/{job}/mini-batches/{index}", "read"),
    ("get", "/jobs/{job}/nodes", "read"),
    ("get", "/jobs/{job}/nodes/part/{part}", "read"),
    ("get", "/jobs/{job}/nodes/{node}", "read"),
    ("get", "/jobs/{job}/nodes/{node}/part/{part}", "read"),
    ("get", "/jobs/{job}/output", "read"),
    ("get", "/jobs/{job}/picture/{path}", "read"),
    ("get", "/jobs/{job}/settings", "read"),
    ("get", "/jobs/{job}/code", "read"),
    ("get", "/jobs/{job}/code/{path}", "read"),
    ("get", "/jobs/{job}/report.html", "read"),
    ("get", "/jobs/{job}/graph", "read"),
    ("get", "/compare", "read"),
    ("get", "/submit", "submit"),
    ("post", "/submit", "submit"),
    ("get", "/jobs/{job}/resume", "submit"),
    ("post", "/jobs/{job}/resume", "submit"),
    ("get", "/jobs/{job}/resubmit", "submit"),
    ("post", "/jobs/{job}/resubmit", "submit"),
    ("get", "/jobs/{job}/cancel", "submit"),
    ("post", "/jobs/{job}/cancel", "submit"),
    ("get", "/jobs/{job}/remove", "submit"),
    ("post", "/jobs/{job}/remove", "submit"),
    ("get", "/endpoints", "read"),
    ("get", "/endpoints/{endpoint}", "read"),
    ("get", "/endpoints/{endpoint}/invoke", "submit"),
    ("post", "/endpoints/{endpoint}/invoke", "submit"),
    ("post", "/endpoints", "submit"),
    ("get", "/endpoints/{endpoint}/edit", "submit"),
    ("post", "/endpoints/{endpoint}/edit", "submit"),
    ("post", "/endpoints/{endpoint}/default", "submit"),
    ("get", "/endpoints/{endpoint}/delete", "submit"),
    ("post", "/endpoints/{endpoint}/delete", "submit"),
    ("get", "/endpoints/{endpoint}/deployments/{deployment}/delete", "submit"),
    ("post", "/endpoints/{endpoint}/deployments/{deployment}/delete", "submit"),
    ("get", "/registry", "read"),
    ("get", "/registry/{kind}", "read"),
    ("get", "/registry/{kind}/{name}", "read"),
    ("get", "/registry/{kind}/{name}/{version}", "read"),
    ("post", "/registry/{kind}/{name}/{version}/archive", "submit"),
    ("get", "/registry/{kind}/{name}/{version}/delete", "admin"),
    ("post", "/registry/{kind}/{name}/{version}/delete", "admin"),
    ("get", "/fleet", "read"),
    ("get", "/fleet/{target}", "read"),
    ("get", "/workers/{worker}", "read"),
    ("get", "/workers/{worker}/drain", "admin"),
    ("post", "/workers/{worker}/drain", "admin"),
    ("get", "/admin/tokens", "read"),
    ("post", "/admin/tokens", "submit"),
    ("get", "/admin/tokens/{token}/revoke", "read"),
    ("post", "/admin/tokens/{token}/revoke", "read"),
    ("get", "/admin/audit", "admin"),
    ("get", "/admin/servers", "read"),
    ("get", "/login", ""),
    ("post", "/login", ""),
    ("post", "/logout", ""),
    ("get", "/oidc/start", ""),
    ("get", "/oidc/return", ""),
    ("get", "/display", ""),
    ("post", "/display", ""),
    ("get", "/help", ""),
    ("get", "/help/components", ""),
    ("get", "/api", ""),
    ("get", "/problems", ""),
    ("get", "/problems/{slug}", ""),
    ("get", "/static/{name}", ""),
];

/// The pages.
pub(crate) fn router(sizes: &Sizes) -> Router<App> {
    let large = || large(sizes);
    let at = |path: &str, methods: MethodRouter<App>| Router::new().route(path, methods);
    Router::new()
        .merge(at("/", get(|| async { Redirect::temporary("/jobs") })))
        .merge(at("/jobs", get(jobs::list)))
        .merge(at("/selected", post(selected::act)))
        .merge(at("/jobs/{job}", get(job::overview)))
        .merge(at("/jobs/{job}/live", get(job::live)))
        .merge(at("/jobs/{job}/part/{part}", get(job::part)))
        .merge(at("/jobs/{job}/errors", get(errors::list)))
        .merge(at("/jobs/{job}/errors/{group}", get(errors::one)))
        .merge(at("/jobs/{job}/errors/part/{part}", get(errors::part)))
        .merge(at("/jobs/{job}/mini-batches", get(mini_batches::list)))
        .merge(at("/jobs/{job}/mini-batches/{index}", get(mini_batches::one)))
        .merge(at("/jobs/{job}/nodes", get(nodes::list)))
        .merge(at("/jobs/{job}/nodes/part/{part}", get(nodes::part)))
        .merge(at("/jobs/{job}/nodes/{node}", get(nodes::one)))
        .merge(at("/jobs/{job}/nodes/{node}/part/{part}", get(nodes::part_of_one)))
        .merge(at("/jobs/{job}/logs", get(logs::list)))
        .merge(at("/jobs/{job}/logs/{*path}", get(logs::one)))
        .merge(at("/jobs/{job}/output", get(output::output)))
        .merge(at("/jobs/{job}/picture/{*path}", get(output::picture)))
        .merge(at("/jobs/{job}/settings", get(job::settings)))
        .merge(at("/jobs/{job}/code", get(code::list)))
        .merge(at("/jobs/{job}/code/{*path}", get(code::one)))
        .merge(at("/jobs/{job}/report.html", get(crate::api::jobs::report)))
        .merge(at("/jobs/{job}/graph", get(graph::page)))
        .merge(at("/compare", get(compare::page)))
        .merge(at("/submit", get(submit::form).post(submit::submit.layer(large()))))
        .merge(at("/jobs/{job}/resume", get(submit::ask_to_resume).post(submit::resume.layer(large()))))
        .merge(at("/jobs/{job}/resubmit", get(submit::ask_to_resubmit).post(submit::resubmit.layer(large()))))
        .merge(at("/jobs/{job}/cancel", get(job::ask_to_cancel).post(job::cancel)))
        .merge(at("/jobs/{job}/remove", get(job::ask_to_remove).post(job::remove)))
        .merge(at("/endpoints", get(endpoints::list).post(endpoints::create)))
        .merge(at("/endpoints/{endpoint}/edit", get(endpoints::edit).post(endpoints::save)))
        .merge(at("/endpoints/{endpoint}/default", post(endpoints::set_default)))
        .merge(at("/endpoints/{endpoint}/delete", get(endpoints::ask_to_delete).post(endpoints::delete)))
        .merge(at(
            "/endpoints/{endpoint}/deployments/{deployment}/delete",
            get(endpoints::ask_to_undeploy).post(endpoints::undeploy),
        ))
        .merge(at("/registry", get(|| async { Redirect::temporary("/registry/models") })))
        .merge(at("/registry/{kind}", get(registry::list)))
        .merge(at("/registry/{kind}/{name}", get(registry::versions)))
        .merge(at("/registry/{kind}/{name}/{version}", get(registry::version)))
        .merge(at("/registry/{kind}/{name}/{version}/archive", post(registry::archive)))
        .merge(at(
            "/registry/{kind}/{name}/{version}/delete",
            get(registry::ask_to_delete).post(registry::delete),
        ))
        .merge(at("/endpoints/{endpoint}/invoke", get(invoke::form).post(invoke::call.layer(large()))))
        .merge(at("/endpoints/{endpoint}", get(endpoints::one)))
        .merge(at("/fleet", get(fleet::page)))
        .merge(at("/fleet/{target}", get(fleet::target)))
        .merge(at("/workers/{worker}", get(fleet::worker)))
        .merge(at("/workers/{worker}/drain", get(fleet::ask_to_drain).post(fleet::drain)))
        .merge(at("/admin/tokens", get(admin::tokens_page).post(admin::make)))
        .merge(at("/admin/tokens/{token}/revoke", get(admin::ask_to_revoke).post(admin::revoke)))
        .merge(at("/admin/audit", get(admin::audit_page)))
        .merge(at("/admin/servers", get(servers::page)))
        .merge(at("/login", get(login::page).post(login::log_in)))
        .merge(at("/logout", post(login::log_out)))
        .merge(at("/oidc/start", get(oidc::start)))
        .merge(at("/oidc/return", get(oidc::end)))
        .merge(at("/display", get(display::page).post(display::choose)))
        .merge(at("/help", get(help::page)))
        .merge(at("/help/components", get(help::components)))
        .merge(at("/api", get(help::api)))
        .merge(at("/problems", get(help::problems)))
        .merge(at("/problems/{slug}", get(help::problem)))
        .merge(at("/static/{name}", get(assets::one)))
        .fallback(|| async { Problem::new(Kind::NOT_FOUND, "There is nothing at this address.") })
}
