//! Tokens: who may ask. Their secrets are shown once, to whoever makes them.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::records;
use prs_jobs::tokens::{NewToken, Role};
use serde::Deserialize;
use tracing::{info, warn};

use super::jobs::Page;
use crate::app::App;
use crate::auth::{May, MayAdmin};
use crate::http::cursor;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// What a request says of a token that is to be made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
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

/// `GET /tokens`.
pub(crate) async fn list(_: MayAdmin, State(app): State<App>, params: Params) -> Result<Response, Problem> {
    params.check(&["limit", "cursor"])?;
    let limit = params.limit()?;
    let after: Option<(u64, String)> =
        params.one("cursor")?.map(|cursor| cursor::read("tokens", cursor)).transpose()?;
    let found = app.access.tokens.list().await;
    let (tokens, damaged) = found.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    for error in damaged {
        warn!(%error, "a token is left out");
    }
    let total = tokens.len() as u64;
    // The newest first.
    let is_behind = |token: &prs_jobs::tokens::Token| {
        after.as_ref().is_none_or(|(created, id)| (token.created_us, &token.id) < (*created, id))
    };
    let mut rest = tokens.into_iter().filter(is_behind);
    let page: Vec<_> = rest.by_ref().take(limit).collect();
    let last = page.last().filter(|_| rest.next().is_some());
    let next_cursor = last.map(|last| cursor::write("tokens", &(last.created_us, &last.id)));
    let now = now_us();
    let value: Vec<_> = page.into_iter().map(|token| records::Token::at(now, token)).collect();
    Ok(Json(Page { value, next_cursor, total: Some(total), as_of: format_us(now) }).into_response())
}

/// `POST /tokens`.
pub(crate) async fn create(
    May(who): MayAdmin,
    State(app): State<App>,
    params: Params,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err(Problem::new(Kind::WRONG_MEDIA_TYPE, "The address takes application/json."));
    }
    let wanted: Wanted = serde_json::from_slice(&body).map_err(|error| {
        Problem::new(Kind::BAD_REQUEST, format_args!("The body cannot be used: {error}."))
    })?;
    let days = u64::from(wanted.expires_in_days);
    let new = NewToken {
        name: wanted.name,
        role: wanted.role,
        endpoints: wanted.endpoints,
        lifetime: (days > 0).then(|| Duration::from_hours(24 * days)),
    };
    let now = now_us();
    let made = app.access.tokens.create(&new, &who.name, now).await;
    let (token, secret) = made.map_err(|failure| Problem::of(&failure, Kind::BAD_REQUEST))?;
    info!(by = who.name, id = token.id, role = %token.role, "a token was created");
    let at = format!("/api/v1/tokens/{}", token.id);
    let body = Json(records::CreatedToken::new(now, token, &secret));
    Ok((StatusCode::CREATED, [(LOCATION, at)], body).into_response())
}

/// `DELETE /tokens/{id}`.
pub(crate) async fn revoke(
    May(who): MayAdmin,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<StatusCode, Problem> {
    params.check(&[])?;
    let revoked = app.access.tokens.revoke(&id, now_us()).await;
    let token = revoked.map_err(|failure| Problem::of(&failure, Kind::TOKEN_NOT_FOUND))?;
    info!(by = who.name, id = token.id, "a token was revoked");
    Ok(StatusCode::NO_CONTENT)
}
