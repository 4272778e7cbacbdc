//! Signing in with an identity provider: where the browser goes, and where it comes back.

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{Extensions, HeaderMap};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::timestamp::now_us;
use prs_jobs::tokens::Role;
use tracing::{info, warn};

use super::login::{back, page_of};
use crate::app::App;
use crate::audit::Asking;
use crate::auth::oidc::{Awaited, Refused, SignIn};
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

fn sign_in(app: &App) -> Result<&SignIn, Problem> {
    let absent = || Problem::new(Kind::NOT_FOUND, "The server has no identity provider.");
    app.access.sign_in.as_ref().ok_or_else(absent)
}

/// The problem that the provider gives no answer.
fn away(why: &str) -> Problem {
    warn!(why, "the identity provider gives no answer");
    Problem::new(
        Kind::SERVERS_UNREACHABLE,
        "The identity provider gives no answer. A token logs in without it.",
    )
    .retry_after(5)
}

/// `GET /oidc/start`.
pub(super) async fn start(State(app): State<App>, params: Params) -> Result<Response, Problem> {
    params.check(&["next"])?;
    let sign_in = sign_in(&app)?;
    let now = now_us();
    let awaited = Awaited::new(back(params.one("next")?.unwrap_or_default()), now);
    let at = sign_in.provider.begin(&awaited).await.map_err(|refused| match refused {
        Refused::Away(why) | Refused::Untrue(why) => away(&why),
    })?;
    let cookie = sign_in.returning.set(&awaited, now).await;
    let cookie = cookie.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to(&at)).into_response())
}

/// `GET /oidc/return`.
pub(super) async fn end(
    State(app): State<App>,
    extensions: Extensions,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    let sign_in = sign_in(&app)?;
    let now = now_us();
    let failed = |failure| Problem::of(&failure, Kind::INTERNAL);
    let awaited = sign_in.returning.awaited(&headers, now).await.map_err(failed)?;
    let again = |next: &str, why: &str| {
        let page = Html(page_of(&app, "", next, why));
        ([(SET_COOKIE, sign_in.returning.clear())], page).into_response()
    };
    let state = params.one("state")?.unwrap_or_default();
    let Some(awaited) = awaited.filter(|awaited| awaited.is(state)) else {
        return Ok(again(
            "/jobs",
            "This browser did not begin to sign in here, or more than ten minutes ago. Sign in again.",
        ));
    };
    let next = &awaited.next;
    if let Some(error) = params.one("error")? {
        let error: String = error.chars().take(100).collect();
        return Ok(again(next, &format!("The identity provider let nobody in: {error}.")));
    }
    let known = match sign_in.provider.end(params.one("code")?.unwrap_or_default(), &awaited).await {
        Ok(known) => known,
        Err(Refused::Away(why)) => return Err(away(&why)),
        Err(Refused::Untrue(why)) => {
            warn!(why, "what the identity provider says does not hold");
            return Ok(again(
                next,
                "What the identity provider says does not hold; the log of the server says why. Sign in again.",
            ));
        }
    };
    let name = known.name.clone();
    let Some(user) = sign_in.signed_in(known) else {
        return Ok(again(
            next,
            &format!("{name} has no role here: none of the groups that the identity provider names has one."),
        ));
    };
    if !user.role.allows(Role::Read) {
        return Ok(again(next, &format!("The role {} opens no page: it is for programs.", user.role)));
    }
    info!(user = user.name, subject = user.subject, role = %user.role, "signed in with the identity provider");
    if let (Some(asking), Some(who)) = (extensions.get::<Asking>(), sign_in.principal(user.clone(), now)) {
        asking.is(&who);
    }
    let cookie = app.access.sessions.begin_signed_in(&user, now).await.map_err(failed)?;
    let mut response = Redirect::to(next).into_response();
    response.headers_mut().append(SET_COOKIE, cookie);
    response.headers_mut().append(SET_COOKIE, sign_in.returning.clear());
    Ok(response)
}
