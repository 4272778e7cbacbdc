//! Logging in and out. A `GET` changes nothing: whoever only looks at a link does not use it up.

use axum::Form;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::timestamp::now_us;
use prs_portal::view::LoginPage;
use serde::Deserialize;

use crate::app::App;
use crate::http::params::Params;
use crate::problem::Problem;

/// What the form sends.
#[derive(Debug, Deserialize)]
pub(crate) struct Credentials {
    #[serde(default)]
    code: String,
    #[serde(default)]
    token: String,
    #[serde(default)]
    next: String,
}

/// `GET /login`.
pub(crate) async fn page(State(app): State<App>, params: Params) -> Result<Html<String>, Problem> {
    params.check(&["code", "next"])?;
    let code = params.one("code")?.unwrap_or_default();
    let next = back(params.one("next")?.unwrap_or_default());
    Ok(Html(LoginPage { chrome: &app.chrome, code, next, wrong: "" }.html()))
}

/// `POST /login`.
pub(crate) async fn log_in(
    State(app): State<App>,
    Form(given): Form<Credentials>,
) -> Result<Response, Problem> {
    let now = now_us();
    let access = &app.access;
    let is_right = match given.code.as_str() {
        "" => access.is_secret(given.token.trim()),
        code => access.codes.take(code, now),
    };
    let next = back(&given.next);
    if is_right {
        return Ok(([(SET_COOKIE, access.sessions.begin(now))], Redirect::to(next)).into_response());
    }
    access.count_wrong()?;
    let wrong = if given.code.is_empty() {
        "The token is not one of this server."
    } else {
        "The link has been used, or is older than five minutes. prs serve --link prints another."
    };
    Ok(Html(LoginPage { chrome: &app.chrome, code: "", next, wrong }.html()).into_response())
}

/// `POST /logout`.
pub(crate) async fn log_out(State(app): State<App>) -> Response {
    ([(SET_COOKIE, app.access.sessions.end())], Redirect::to("/login")).into_response()
}

/// Where to go behind the login: an address of this server, whatever the link says.
fn back(next: &str) -> &str {
    let is_ours = next.starts_with('/')
        && !next.starts_with("//")
        && !next.contains(['\\', '\r', '\n'])
        && !next.starts_with("/login");
    if is_ours { next } else { "/jobs" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_pages_of_this_server_alone() {
        for (given, expected) in [
            ("/jobs/x?at=1", "/jobs/x?at=1"),
            ("", "/jobs"),
            ("https://evil.example.org/", "/jobs"),
            ("//evil.example.org/", "/jobs"),
            ("/\\evil.example.org/", "/jobs"),
            ("/login?next=/login", "/jobs"),
        ] {
            assert_eq!(back(given), expected, "{given}");
        }
    }
}
