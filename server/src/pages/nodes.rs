//! The nodes of a job, and one of them. What hosts were used for is a part of its own: it takes many reads, and pages are there without it.

use axum::extract::{Path, State};
use axum::response::Html;
use prs_common::statistics::{Activity, Errors, Live, Nodes, Part};
use prs_common::timestamp::now_us;
use prs_jobs::homes::{self, Home};
use prs_jobs::report;
use prs_jobs::statistics::{Point, Series, Window, perf};
use prs_portal::chart::LinePoint;
use prs_portal::view::{
    Facts, HostNode, HostPictures, HostSeries, NodePage, NodeProcess, NodesPage, OfHosts, StepsPage, Tab,
    hosts_html,
};

use super::tabs::ON_TABS;
use crate::api::statistics::{node_of, processes};
use crate::app::App;
use crate::auth::{May, MayRead, Role};
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// Points of a picture of hosts.
const POINTS: usize = 240;
/// The parts of the statistics that the page of all nodes shows.
const OF_ALL: &[&str] = &ON_TABS;
/// Those that the page of one shows.
const OF_ONE: &[&str] = &[Live::NAME, Nodes::NAME, Activity::NAME, Errors::NAME];
/// The part with the pictures of hosts.
const HOSTS: &str = "hosts";
/// What an address says that wants a picture of each figure.
const ALL: &str = "all";

fn refused(failure: &prs_jobs::Failure) -> Problem {
    Problem::of(failure, Kind::REFUSED)
}

/// What is known of a job, with these parts of its statistics, and what of it nodes ran last.
async fn facts(app: &App, id: &str, names: &'static [&'static str]) -> Result<(Facts, Home), Problem> {
    let home = app.home(id).await?;
    let found = report::facts(&*home, &app.whereabouts, names, false, Some(("/jobs/", ""))).await;
    let (seen, facts) = found.map_err(|failure| refused(&failure))?;
    let at_work = homes::at_work_of(home, &seen.record, id, &app.whereabouts).await;
    Ok((facts, at_work.map_err(|failure| refused(&failure))?))
}

/// What nodes used of their hosts, `node_id` alone where it is one.
async fn hosts(
    (id, home): (&str, &Home),
    (nodes, node_id): (Vec<u32>, Option<u32>),
    pictures: HostPictures,
) -> Result<String, Problem> {
    let all = nodes.len();
    let window = Window { nodes, points: POINTS, to_us: Some(now_us()), ..Window::default() };
    let series = perf(&**home, pictures.metrics(), &window).await.map_err(|failure| refused(&failure))?;
    let point = |one: &Point| {
        let at = one.0.parse::<jiff::Timestamp>().ok()?;
        let at_us = u64::try_from(at.as_microsecond()).ok()?;
        Some(LinePoint { at_us, values: [one.1, one.2, one.3] })
    };
    let points = |of: &[Point]| of.iter().filter_map(point).collect();
    let of = |one: Series| HostSeries {
        metric: one.metric,
        points: points(&one.points),
        nodes: (one.nodes, all),
        highest: one
            .highest
            .iter()
            .map(|one| HostNode { node_id: one.node_id, points: points(&one.points) })
            .collect(),
    };
    let json = format!("/api/v1/jobs/{id}/perf");
    let series: Vec<HostSeries> = series.into_iter().map(of).collect();
    Ok(hosts_html(&json, &series, pictures, &OfHosts { job_id: id, node_id }))
}

/// The nodes of a job.
fn all_of(facts: &Facts) -> Vec<u32> {
    let rows = facts.statistics.nodes.iter().flat_map(|nodes| &nodes.rows);
    rows.filter(|row| row.of <= 1).map(|row| row.node_id).collect()
}

/// The pictures of hosts that stand in the page that is asked for.
fn with_hosts(params: &Params) -> Result<Option<HostPictures>, Problem> {
    let pictures = match params.one("metrics")? {
        None => HostPictures::Four,
        Some(ALL) => HostPictures::All,
        Some(unknown) => return Err(bad("metrics", format_args!("{unknown:?} is not {ALL}"))),
    };
    match params.one("table")? {
        None if pictures == HostPictures::All => {
            Err(bad("metrics", format_args!("goes with table={HOSTS}, which shows them")))
        }
        None => Ok(None),
        Some(HOSTS) => Ok(Some(pictures)),
        Some(unknown) => Err(bad("table", format_args!("{unknown:?} is not {HOSTS}"))),
    }
}

/// `GET /jobs/{job}/nodes`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["from", "table", "metrics", "sort"])?;
    let from = params.number("from", (0, u64::from(u32::MAX)))?.unwrap_or(0) as usize;
    let with_hosts = with_hosts(&params)?;
    let order = params.one("sort")?;
    if let Some(unknown) = order.filter(|word| !NodesPage::is_order(word)) {
        return Err(bad("sort", format_args!("{unknown:?} is no order of this table: its heads sort it")));
    }
    let (facts, home) = Box::pin(facts(&app, &id, OF_ALL)).await?;
    if !facts.steps.is_empty() && !facts.has_main_step {
        return Ok(Html(StepsPage::new(&app.chrome, &facts, Tab::Nodes).html()));
    }
    let hosts = match with_hosts {
        Some(pictures) => Some(hosts((&id, &home), (all_of(&facts), None), pictures).await?),
        None => None,
    };
    Ok(Html(NodesPage::new(&app.chrome, &facts, (order, from), hosts).html()))
}

/// `GET /jobs/{job}/nodes/{node}`.
pub(crate) async fn one(
    May(who): MayRead,
    State(app): State<App>,
    Path((id, node)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["table", "metrics"])?;
    let with_hosts = with_hosts(&params)?;
    let node_id = node_of(&node)?;
    let (facts, home) = Box::pin(facts(&app, &id, OF_ONE)).await?;
    let hosts = match with_hosts {
        Some(pictures) => Some(hosts((&id, &home), (vec![node_id], Some(node_id)), pictures).await?),
        None => None,
    };
    // Without them the page has the rest.
    let mut rows = facts.statistics.nodes.iter().flat_map(|nodes| &nodes.rows);
    let row = rows.find(|row| row.of <= 1 && row.node_id == node_id);
    let told = row.map(|row| &*row.each_process).unwrap_or_default();
    let found = processes(&home, node_id, told).await.unwrap_or_default();
    let processes: Vec<NodeProcess> = found
        .into_iter()
        .map(|one| NodeProcess {
            logs: [
                ("Output", one.stdout),
                ("Errors printed", one.stderr),
                ("Tries", one.mini_batches),
                ("Tracebacks", one.errors),
            ],
            name: one.name,
        })
        .collect();
    let may_drain = app.chrome.has_fleet && who.role.allows(Role::Admin);
    let page = NodePage::new(&app.chrome, &facts, node_id, &processes, hosts, may_drain);
    let absent = || Problem::new(Kind::NODE_NOT_FOUND, format_args!("The job has no node {node:?}."));
    Ok(Html(page.ok_or_else(absent)?.html()))
}

/// What a part of these pages is called in an address.
fn check_part(part: &str) -> Result<(), Problem> {
    let absent = || Problem::new(Kind::NOT_FOUND, "The page has no such part.");
    (part.strip_prefix("table-") == Some(HOSTS)).then_some(()).ok_or_else(absent)
}

/// `GET /jobs/{job}/nodes/part/{part}`.
pub(crate) async fn part(
    _: MayRead,
    State(app): State<App>,
    Path((id, part)): Path<(String, String)>,
) -> Result<Html<String>, Problem> {
    check_part(&part)?;
    let (facts, home) = Box::pin(facts(&app, &id, OF_ALL)).await?;
    hosts((&id, &home), (all_of(&facts), None), HostPictures::Four).await.map(Html)
}

/// `GET /jobs/{job}/nodes/{node}/part/{part}`.
pub(crate) async fn part_of_one(
    _: MayRead,
    State(app): State<App>,
    Path((id, node, part)): Path<(String, String, String)>,
) -> Result<Html<String>, Problem> {
    check_part(&part)?;
    let node_id = node_of(&node)?;
    let home = app.home(&id).await?;
    let record = home.record().await.map_err(|failure| refused(&failure))?;
    let home = homes::at_work_of(home, &record, &id, &app.whereabouts);
    let home = Box::pin(home).await.map_err(|failure| refused(&failure))?;
    hosts((&id, &home), (vec![node_id], Some(node_id)), HostPictures::Four).await.map(Html)
}
