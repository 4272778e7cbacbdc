//! The errors of a job, and one of them.

use axum::extract::{Path, State};
use axum::response::Html;
use prs_common::statistics::{Errors, Live, Nodes, Part};
use prs_jobs::error_groups::{LostItems, lost_items};
use prs_jobs::homes::{self, Home, Seen};
use prs_jobs::report;
use prs_portal::view::{
    ERROR_ITEMS, ERROR_ORDERS, ErrorPage, ErrorsPage, Facts, sort_errors, traceback_html,
};

use crate::api::errors::{line, no_group};
use crate::app::App;
use crate::auth::{May, MayRead, Role};
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// The parts of the statistics that these pages show.
const PARTS: [&str; 3] = [Live::NAME, Nodes::NAME, Errors::NAME];

/// What is known of a job.
async fn known(app: &App, id: &str) -> Result<(Facts, Seen, Home), Problem> {
    let home = app.home(id).await?;
    let found = report::facts(&*home, &app.whereabouts, &PARTS, false, Some(("/jobs/", ""))).await;
    let (seen, facts) = found.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    Ok((facts, seen, home))
}

/// The same, its errors with the lines of code that they came from.
async fn facts(app: &App, id: &str) -> Result<(Facts, Seen, Home), Problem> {
    let (mut facts, seen, home) = known(app, id).await?;
    app.watches.code_lines().put(&*home, &seen, &mut facts).await;
    Ok((facts, seen, home))
}

/// `GET /jobs/{job}/errors`. The tracebacks stand in it that `table` names by the groups of their errors, beside the first.
pub(crate) async fn list(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["sort", "from", "table"])?;
    let from = params.number("from", (0, 1_000_000))?.unwrap_or_default() as usize;
    let order = params.one("sort")?.unwrap_or(ERROR_ORDERS[0].0);
    if !ERROR_ORDERS.iter().any(|(word, _)| *word == order) {
        let known: Vec<_> = ERROR_ORDERS.iter().map(|(word, _)| *word).collect();
        return Err(bad("sort", format_args!("{order:?} is none of {}", known.join(", "))));
    }
    let (mut facts, ..) = facts(&app, &id).await?;
    sort_errors(&mut facts.errors, order);
    let may_submit = who.role.allows(Role::Submit);
    Ok(Html(ErrorsPage::new(&facts, &app.chrome, (order, from), &params.all("table"), may_submit).html()))
}

/// `GET /jobs/{job}/errors/part/{part}`: the traceback of an error alone.
pub(crate) async fn part(
    _: MayRead,
    State(app): State<App>,
    Path((id, part)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let absent = || Problem::new(Kind::NOT_FOUND, "The page has no such part, or not any more.");
    let group = part.strip_prefix("table-").filter(|group| !group.is_empty()).ok_or_else(absent)?;
    let (facts, ..) = known(&app, &id).await?;
    traceback_html(&facts, group).map(Html).ok_or_else(absent)
}

/// `GET /jobs/{job}/errors/{group}`.
pub(crate) async fn one(
    May(who): MayRead,
    State(app): State<App>,
    Path((id, group)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let (facts, seen, home) = facts(&app, &id).await?;
    let error = facts.errors.iter().find(|error| error.group == group && !group.is_empty());
    let error = error.ok_or_else(|| no_group(&group))?;
    let refused = |failure| Problem::of(&failure, Kind::REFUSED);
    let lost = if error.lost > 0 {
        let home = Box::pin(homes::at_work_of(home, &seen.record, &id, &app.whereabouts));
        let home = home.await.map_err(refused)?;
        let record = home.record().await.map_err(refused)?;
        lost_items(&*home, &record, Some(&group), None, ERROR_ITEMS).await.map_err(refused)?
    } else {
        LostItems::default()
    };
    let listed: u64 = lost.mini_batches.iter().map(|mini_batch| mini_batch.items.len() as u64).sum();
    // Each of the others has one item at least.
    let others = error.lost.saturating_sub(lost.mini_batches.len() as u64);
    let all = listed + if lost.next.is_some() { others } else { 0 };
    let items = lost.mini_batches.iter().flat_map(|mini_batch| &mini_batch.items);
    let items = items.take(ERROR_ITEMS).map(line).collect();
    let may_submit = who.role.allows(Role::Submit);
    Ok(Html(ErrorPage::new(&facts, &app.chrome, error, (items, all), may_submit).html()))
}
