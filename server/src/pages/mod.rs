//! The pages for people. What they show comes from the same calls as the API's answers.
//!
//! | file | pages |
//! |---|---|
//! | `jobs` | the list of jobs |
//! | `job` | a job: overview, live parts, output, settings, cancel, remove |
//! | `logs` | its logs |
//! | `submit` | forms: a new job, one that goes on, one that runs again |
//! | `login` | logging in and out |
//! | `assets` | stylesheet, script, picture of the tab |
//! | `help` | problems, the addresses of the API |

mod assets;
mod help;
mod job;
mod jobs;
mod login;
mod logs;
mod submit;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Uri;
use axum::http::header::{ACCEPT, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get};

use crate::api::large;
use crate::app::App;
use crate::auth::Principal;
use crate::problem::{Kind, Problem};

pub(crate) use assets::Assets;

/// The pages.
pub(crate) fn router() -> Router<App> {
    let at = |path: &str, methods: MethodRouter<App>| Router::new().route(path, methods);
    let pages = Router::new()
        .merge(at("/", get(|| async { Redirect::temporary("/jobs") })))
        .merge(at("/jobs", get(jobs::list)))
        .merge(at("/jobs/{job}", get(job::overview)))
        .merge(at("/jobs/{job}/live", get(job::live)))
        .merge(at("/jobs/{job}/logs", get(logs::list)))
        .merge(at("/jobs/{job}/logs/{*path}", get(logs::one)))
        .merge(at("/jobs/{job}/output", get(job::output)))
        .merge(at("/jobs/{job}/settings", get(job::settings)))
        .merge(at("/jobs/{job}/report.html", get(crate::api::jobs::report)))
        .merge(at("/submit", get(submit::form).post(submit::submit.layer(large()))))
        .merge(at("/jobs/{job}/resume", get(submit::ask_to_resume).post(submit::resume.layer(large()))))
        .merge(at("/jobs/{job}/resubmit", get(submit::ask_to_resubmit).post(submit::resubmit.layer(large()))))
        .merge(at("/jobs/{job}/cancel", get(job::ask_to_cancel).post(job::cancel)))
        .merge(at("/jobs/{job}/remove", get(job::ask_to_remove).post(job::remove)))
        .layer(axum::middleware::from_fn(send_to_login));
    Router::new()
        .merge(pages)
        .merge(at("/login", get(login::page).post(login::log_in)))
        .merge(at("/logout", axum::routing::post(login::log_out)))
        .merge(at("/api", get(help::api)))
        .merge(at("/problems", get(help::problems)))
        .merge(at("/problems/{slug}", get(help::problem)))
        .merge(at("/static/{name}", get(assets::one)))
        .fallback(|| async { Problem::new(Kind::NOT_FOUND, "There is nothing at this address.") })
}

/// Sends a browser that is not logged in to the login, and back behind it.
async fn send_to_login(request: Request, next: Next) -> Response {
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_page = request.method().is_safe() && accepts.contains("text/html");
    if !is_page || request.extensions().get::<Principal>().is_some() {
        return next.run(request).await;
    }
    login_address(request.uri()).into_response()
}

fn login_address(uri: &Uri) -> impl IntoResponse {
    let back = uri.path_and_query().map_or("/", |back| back.as_str());
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", back).finish();
    let at = HeaderValue::from_str(&format!("/login?{query}")).unwrap_or(HeaderValue::from_static("/login"));
    (StatusCode::SEE_OTHER, [(LOCATION, at)])
}
