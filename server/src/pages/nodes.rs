//! The nodes of a job, and one of them.

use axum::extract::{Path, State};
use axum::response::Html;
use prs_jobs::homes::{self, Home};
use prs_jobs::report;
use prs_jobs::statistics::{METRICS, Window, perf};
use prs_portal::chart::LinePoint;
use prs_portal::view::{Facts, HostSeries, NodePage, NodesPage, StepsPage, Tab};

use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Points of a picture of hosts.
const POINTS: usize = 240;

fn refused(failure: &prs_jobs::Failure) -> Problem {
    Problem::of(failure, Kind::REFUSED)
}

/// What is known of a job, and what of it nodes ran last.
async fn facts(app: &App, id: &str) -> Result<(Facts, Home), Problem> {
    let home = app.home(id).await?;
    let found = report::facts(&*home, &app.whereabouts, false, Some(("/jobs/", ""))).await;
    let (seen, facts) = found.map_err(|failure| refused(&failure))?;
    let at_work = homes::at_work_of(home, &seen.record, id, &app.whereabouts).await;
    Ok((facts, at_work.map_err(|failure| refused(&failure))?))
}

/// What a node, or all of them, used of their hosts.
async fn hosts(home: &Home, node_id: Option<u32>) -> Result<Vec<HostSeries>, Problem> {
    let window = Window { node_id, points: POINTS, ..Window::default() };
    let metrics = METRICS.map(|(name, _)| name);
    let series = perf(&**home, &metrics, &window).await.map_err(|failure| refused(&failure))?;
    let point = |one: &prs_jobs::statistics::Point| {
        let at = one.0.parse::<jiff::Timestamp>().ok()?;
        let at_us = u64::try_from(at.as_microsecond()).ok()?;
        Some(LinePoint { at_us, values: [one.1, one.2, one.3] })
    };
    let of = |one: prs_jobs::statistics::Series| (one.metric, one.points.iter().filter_map(point).collect());
    Ok(series.into_iter().map(of).collect())
}

/// `GET /jobs/{job}/nodes`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let (facts, home) = Box::pin(facts(&app, &id)).await?;
    if !facts.steps.is_empty() && !facts.has_main_step {
        return Ok(Html(StepsPage::new(&app.chrome, &facts, Tab::Nodes).html()));
    }
    let hosts = hosts(&home, None).await?;
    Ok(Html(NodesPage::new(&app.chrome, &facts, &hosts).html()))
}

/// `GET /jobs/{job}/nodes/{node}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, node)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let absent = || Problem::new(Kind::NOT_FOUND, format_args!("The job has no node {node:?}."));
    let node_id = node.parse().map_err(|_| absent())?;
    let (facts, home) = Box::pin(facts(&app, &id)).await?;
    let hosts = hosts(&home, Some(node_id)).await?;
    let page = NodePage::new(&app.chrome, &facts, node_id, &hosts).ok_or_else(absent)?;
    Ok(Html(page.html()))
}
