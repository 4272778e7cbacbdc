//! Tokens: who may ask. A secret is shown once, in the answer that makes the token.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use prs_common::timestamp::now_us;
use prs_jobs::records;
use prs_jobs::tokens::{Creator, NewToken, Role, Secret, Token};
use serde::Deserialize;
use tracing::{info, warn};

use super::jobs::Page;
use super::received::json;
use crate::app::App;
use crate::auth::{Known, May, MaySubmit, Principal};
use crate::http::cursor;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// What a request says of a token that is to be made.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "NewToken"))]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    name: String,
    role: Role,
    #[serde(default)]
    endpoints: Vec<String>,
    /// 0 for never.
    #[serde(default = "ninety")]
    expires_in_days: u16,
}

fn ninety() -> u16 {
    90
}

/// The longest life of a token that users make for themselves.
const LONGEST_OF_OWN: Duration = Duration::from_hours(90 * 24);

/// Whether `who` may see and revoke a token: administrators all, others those that they show or made themselves.
fn may_have(who: &Principal, token: &Token) -> bool {
    let own = who.own_id();
    who.role == Role::Admin
        || own.is_some_and(|own| token.id == own || token.created_by_id.as_deref() == Some(own))
}

/// Refuses what nobody may make for themselves. A program was given its token; a person who logged in makes others.
fn check_own(who: &Principal, new: &NewToken) -> Result<(), Problem> {
    let refused = |why: String| Err(Problem::new(Kind::FORBIDDEN, why));
    if who.role == Role::Admin {
        return Ok(());
    }
    let Principal { name, role, .. } = who;
    if !who.is_ambient() {
        return refused(format!(
            "{name} has the role {role}, and makes tokens after a login at /login alone."
        ));
    }
    if !role.allows(new.role) {
        return refused(format!("{name} has the role {role}, and makes no token of the role {}.", new.role));
    }
    if new.lifetime.is_none_or(|lifetime| lifetime > LONGEST_OF_OWN) {
        return refused(format!("{name} has the role {role}, and makes tokens of 90 days at most."));
    }
    Ok(())
}

/// The tokens that `who` may see, the newest first.
pub(crate) async fn visible(app: &App, who: &Principal) -> Result<Vec<Token>, Problem> {
    let found = app.access.tokens.list().await;
    let (mut tokens, damaged) = found.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    for error in damaged {
        warn!(%error, "a token is left out");
    }
    tokens.retain(|token| may_have(who, token));
    Ok(tokens)
}

/// Makes a token for `who`; with 0 `days` one that is taken for good.
pub(crate) async fn make(
    app: &App,
    who: &Principal,
    name: String,
    role: Role,
    endpoints: Vec<String>,
    days: u16,
) -> Result<(Token, Secret), Problem> {
    let lifetime = (days > 0).then(|| Duration::from_hours(24 * u64::from(days)));
    let new = NewToken { name, role, endpoints, lifetime };
    check_own(who, &new)?;
    let by = Creator { name: &who.name, id: who.own_id() };
    let made = app.access.tokens.create(&new, by, now_us()).await;
    let (token, secret) = made.map_err(|failure| Problem::of(&failure, Kind::BAD_REQUEST))?;
    info!(by = who.name, id = token.id, role = %token.role, "a token was created");
    Ok((token, secret))
}

/// Revokes the token with this id, where `who` may.
pub(crate) async fn end(app: &App, who: &Principal, id: &str) -> Result<(), Problem> {
    if who.role != Role::Admin && !visible(app, who).await?.iter().any(|token| token.id == id) {
        let detail = format_args!("You have no token {id:?}; an administrator revokes those of others.");
        return Err(Problem::new(Kind::TOKEN_NOT_FOUND, detail));
    }
    let revoked = app.access.tokens.revoke(id, now_us()).await;
    let token = revoked.map_err(|failure| Problem::of(&failure, Kind::TOKEN_NOT_FOUND))?;
    info!(by = who.name, id = token.id, "a token was revoked");
    Ok(())
}

/// `GET /tokens`.
pub(crate) async fn list(
    Known(who): Known,
    State(app): State<App>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["limit", "cursor"])?;
    let limit = params.limit()?;
    let after: Option<(u64, String)> =
        params.one("cursor")?.map(|cursor| cursor::read("tokens", cursor)).transpose()?;
    let tokens = visible(&app, &who).await?;
    let total = tokens.len() as u64;
    // The newest first.
    let is_behind = |token: &Token| {
        after.as_ref().is_none_or(|(created, id)| (token.created_us, &token.id) < (*created, id))
    };
    let mut rest = tokens.into_iter().filter(is_behind);
    let page: Vec<_> = rest.by_ref().take(limit).collect();
    let last = page.last().filter(|_| rest.next().is_some());
    let next_cursor = last.map(|last| cursor::write("tokens", &(last.created_us, &last.id)));
    let now = now_us();
    let value: Vec<_> = page.into_iter().map(|token| records::Token::at(now, token)).collect();
    Ok(Page::now(value, next_cursor, Some(total)).answer(&params))
}

/// `POST /tokens`.
pub(crate) async fn create(
    May(who): MaySubmit,
    State(app): State<App>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (wanted, _): (Wanted, _) = json(request).await?;
    let Wanted { name, role, endpoints, expires_in_days } = wanted;
    let (token, secret) = make(&app, &who, name, role, endpoints, expires_in_days).await?;
    let at = format!("/api/v1/tokens/{}", token.id);
    let body = Json(records::CreatedToken::new(now_us(), token, &secret));
    Ok((StatusCode::CREATED, [(LOCATION, at)], body).into_response())
}

/// `DELETE /tokens/{id}`.
pub(crate) async fn revoke(
    Known(who): Known,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<StatusCode, Problem> {
    params.check(&[])?;
    end(&app, &who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
