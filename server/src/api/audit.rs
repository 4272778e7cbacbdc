//! Who changed what at the servers in front of these jobs.

use axum::extract::State;
use axum::response::Response;
use prs_common::timestamp::now_us;
use prs_jobs::audit::{Page as Lines, Wanted, list as lines};
use tracing::warn;

use super::jobs::Page;
use crate::app::App;
use crate::auth::MayAdmin;
use crate::http::cursor;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// The filters.
const FILTERS: [&str; 7] = ["principal", "action", "resource", "result", "request_id", "since", "until"];
/// How far back a list goes where nobody says so, microseconds: a week.
const WEEK_US: u64 = 7 * 86_400_000_000;

/// The lines that `params` ask for, and the cursor of the next page.
pub(crate) async fn find(app: &App, params: &Params) -> Result<(Lines, Option<String>), Problem> {
    let mut known = FILTERS.to_vec();
    known.extend(["limit", "cursor"]);
    params.check(&known)?;
    let now = now_us();
    let text = |name| Ok::<_, Problem>(params.one(name)?.map(str::to_owned));
    let wanted = Wanted {
        principal: text("principal")?,
        action: text("action")?,
        resource: text("resource")?,
        result: text("result")?,
        request_id: text("request_id")?,
        since_us: params.moment("since", now)?.unwrap_or(now - WEEK_US),
        until_us: params.moment("until", now)?.unwrap_or(now),
        limit: params.limit()?,
    };
    let of = format!("audit?{}", params.without(&["limit", "cursor"]));
    let position = params.one("cursor")?.map(|cursor| cursor::read(&of, cursor)).transpose()?;
    // What this server noted a moment ago is among them.
    if let Err(failure) = app.audit.flush().await {
        warn!(%failure, "the newest lines of the audit are not written yet");
    }
    let found = lines(app.audit.storage(), &wanted, position).await;
    let found = found.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    let next = found.next.as_ref().map(|next| cursor::write(&of, next));
    Ok((found, next))
}

/// `GET /audit`.
pub(crate) async fn list(_: MayAdmin, State(app): State<App>, params: Params) -> Result<Response, Problem> {
    let (found, next_cursor) = find(&app, &params).await?;
    Ok(Page::now(found.lines, next_cursor, None).answer(&params))
}
