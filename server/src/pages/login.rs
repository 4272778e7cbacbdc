//! Logging in and out. A `GET` changes nothing: a program that only looks at a link does not use it up.

use std::net::IpAddr;

use axum::Form;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{Extensions, HeaderValue};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::timestamp::now_us;
use prs_portal::view::LoginPage;
use serde::Deserialize;
use url::form_urlencoded;

use crate::app::App;
use crate::audit::Asking;
use crate::auth::{How, Principal, Role};
use crate::http::addresses;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

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
    Ok(Html(page_of(&app, code, next, "")))
}

/// `POST /login`.
pub(crate) async fn log_in(
    State(app): State<App>,
    extensions: Extensions,
    Form(given): Form<Credentials>,
) -> Result<Response, Problem> {
    let next = back(&given.next);
    let address = addresses::of(&extensions);
    let asking = extensions.get::<Asking>();
    let wrong = match enter(&app, &given, address, asking).await? {
        Ok(cookie) => return Ok(([(SET_COOKIE, cookie)], Redirect::to(next)).into_response()),
        Err(wrong) => wrong,
    };
    Ok(Html(page_of(&app, "", next, &wrong)).into_response())
}

/// The cookie for the right code or token; otherwise what was wrong with it.
async fn enter(
    app: &App,
    given: &Credentials,
    address: IpAddr,
    asking: Option<&Asking>,
) -> Result<Result<HeaderValue, String>, Problem> {
    let (access, now) = (&app.access, now_us());
    if !given.code.is_empty() {
        if access.codes.take(&given.code, now) {
            if let Some(asking) = asking {
                asking.is(&Principal::local(How::Local));
            }
            return Ok(Ok(access.sessions.begin(now)));
        }
        access.guesses.count(address)?;
        return Ok(Err(
            "The link has been used, or is older than five minutes. prs serve --link prints another."
                .to_owned(),
        ));
    }
    let who = match access.bearer(given.token.trim(), address).await {
        Ok(who) => who,
        Err(problem) if problem.kind == Kind::WRONG_CREDENTIALS => return Ok(Err(sentence(&problem.detail))),
        Err(problem) => return Err(problem),
    };
    if let Some(asking) = asking {
        asking.is(&who);
    }
    let Some(id) = who.token_id else { return Ok(Ok(access.sessions.begin(now))) };
    if !who.role.allows(Role::Read) {
        return Ok(Err(format!("A token of the role {} opens no page: it is for programs.", who.role)));
    }
    let cookie = access.sessions.begin_of(&id, now).await;
    Ok(Ok(cookie.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?))
}

/// A message as a sentence.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

pub(super) fn page_of(app: &App, code: &str, next: &str, wrong: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
    let at = format!("/oidc/start?{query}");
    let provider = app.access.sign_in.as_ref().map(|sign_in| (sign_in.provider.name(), &*at));
    LoginPage { chrome: &app.chrome, code, next, wrong, has_links: app.has_links, provider }.html()
}

/// `POST /logout`.
pub(crate) async fn log_out(State(app): State<App>) -> Response {
    ([(SET_COOKIE, app.access.sessions.end())], Redirect::to("/login")).into_response()
}

/// Where to go behind the login, or another form of a reader's own: an address of this server, whatever the link says.
pub(super) fn back(next: &str) -> &str {
    let is_ours = next.starts_with('/')
        && !next.starts_with("//")
        && !next.contains(|letter: char| letter == '\\' || letter.is_control())
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
            ("/\t/evil.example.org/", "/jobs"),
            ("/login?next=/login", "/jobs"),
        ] {
            assert_eq!(back(given), expected, "{given}");
        }
    }
}
