//! The servers behind this one: storage, ledger and broker of a fleet, or the folder of the runs of this machine.

use axum::extract::State;
use axum::response::Response;
use prs_common::timestamp::format_us;
use prs_jobs::servers::{ServerRoom, ServerView};
use prs_jobs::tokens::Role;

use super::jobs::Page;
use crate::app::App;
use crate::auth::{May, MayRead, Principal};
use crate::http::params::Params;
use crate::problem::Problem;

/// The servers as `who` may see them, and when they were seen, microseconds since the Unix epoch: where they are, why one does not
/// answer, versions and room are for administrators.
pub(crate) async fn visible(app: &App, who: &Principal) -> (Vec<ServerView>, u64) {
    let seen = app.servers.look_closely().await;
    let without_details = |server: ServerView| ServerView {
        place: None,
        problem: None,
        version: None,
        room: ServerRoom::default(),
        ..server
    };
    let all =
        if who.role == Role::Admin { seen.all } else { seen.all.into_iter().map(without_details).collect() };
    (all, seen.at_us)
}

/// `GET /servers`.
pub(crate) async fn list(
    May(who): MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (value, at_us) = visible(&app, &who).await;
    let total = Some(value.len() as u64);
    Ok(Page { value, next_cursor: None, total, as_of: format_us(at_us) }.answer(&params))
}
