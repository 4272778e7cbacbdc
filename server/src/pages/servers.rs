//! The servers behind this one.

use axum::extract::State;
use axum::response::Html;
use prs_jobs::servers::{ServerRoom, ServerView};
use prs_jobs::tokens::Role;
use prs_portal::view::{ServerRow, ServersPage};

use crate::api::servers::visible;
use crate::app::App;
use crate::auth::{May, MayRead};
use crate::http::params::Params;
use crate::problem::Problem;

/// `GET /admin/servers`.
pub(super) async fn page(
    May(who): MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let (servers, at_us) = visible(&app, &who).await;
    let page = ServersPage {
        chrome: &app.chrome,
        rows: servers.into_iter().map(row).collect(),
        is_admin: who.role == Role::Admin,
        version: env!("CARGO_PKG_VERSION"),
        at_us,
    };
    Ok(Html(page.html()))
}

/// A row of the page.
pub(super) fn row(of: ServerView) -> ServerRow {
    let ServerRoom { memory_bytes, memory_limit_bytes, dead_messages, free_bytes, incomplete_uploads } =
        of.room;
    ServerRow {
        dependency: of.dependency.as_str(),
        kind: of.kind,
        place: of.place.unwrap_or_default(),
        is_reachable: of.reachable,
        problem: of.problem.unwrap_or_default(),
        latency_seconds: of.latency_seconds,
        version: of.version.unwrap_or_default(),
        memory: memory_bytes.map(|used| (used, memory_limit_bytes)),
        dead_messages,
        free_bytes,
        incomplete_uploads,
    }
}
