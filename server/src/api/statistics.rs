//! What a job did over time, its nodes, and what these used of their hosts.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use prs_common::ledger::{ProcessExit, ProcessView};
use prs_common::statistics::{Live, Nodes, Part};
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::homes::Home;
use prs_jobs::logs::{self, LogChoice, LogKind, LogName};
use prs_jobs::records::Log;
use prs_jobs::statistics::{
    METRICS, NodeOrder, NodeRecord, PARTS, Parts, Series, Window, nodes, perf, published, published_parts,
};
use prs_portal::view::Published;
use serde::Serialize;
use serde_json::{Value, json};

use super::jobs::Page;
use super::logs::home;
use crate::app::App;
use crate::auth::MayRead;
use crate::http::conditional::{self, short_checksum};
use crate::http::cursor;
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// Points of a series, by default and at most.
const POINTS: (u64, u64) = (120, 500);

fn refused(failure: &prs_jobs::Failure) -> Problem {
    Problem::of(failure, Kind::REFUSED)
}

fn none() -> Problem {
    Problem::new(
        Kind::NO_STATISTICS,
        "Nothing is published of this job: it has just begun, it is a pipeline, or an older prs ran it.",
    )
}

/// The words of a parameter that may stand several times, with commas or without.
fn words<'a>(params: &'a Params, name: &str, known: &[&str]) -> Result<Vec<&'a str>, Problem> {
    let words: Vec<&str> = params.all(name).into_iter().flat_map(|value| value.split(',')).collect();
    match words.iter().find(|word| !known.contains(word)) {
        Some(word) => Err(bad(name, format_args!("{word:?} is none of {}", known.join(", ")))),
        None => Ok(words),
    }
}

/// Parts of the statistics of a job. Those that were not asked for are left out of an answer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Statistics {
    /// When they were published.
    as_of: String,
    /// The start of the job that they are of, from 1.
    incarnation: u32,
    #[serde(flatten)]
    parts: Parts,
}

/// What nodes used of their hosts.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Hosts {
    /// A series for each figure.
    value: Vec<Series>,
    as_of: String,
}

/// `GET /jobs/{job}/statistics`.
pub(crate) async fn statistics(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["parts"])?;
    let wanted = wanted_parts(&params)?;
    let home = home(&app, &id).await?;
    let record = home.record().await.map_err(|failure| refused(&failure))?;
    let published = published(&*home, &record).await.map_err(|failure| refused(&failure))?;
    let Some(live) = &published.live else { return Err(none()) };
    let parts = short_checksum(wanted.join(",").as_bytes());
    let tag = format!("W/\"{}.{}.{parts}\"", live.incarnation, live.written_us);
    if conditional::has(&headers, &tag) {
        return Ok(conditional::answer(&headers, &tag, ()));
    }
    let told = told(&published, &wanted).ok_or_else(none)?;
    Ok(conditional::answer(&headers, &tag, Json(told)))
}

/// The parts that a request names, or those that are given where it names none.
pub(super) fn wanted_parts(params: &Params) -> Result<Vec<String>, Problem> {
    let named = words(params, "parts", &PARTS)?;
    let all = PARTS.into_iter().filter(|part| *part != "nodes");
    let wanted = if named.is_empty() { all.collect() } else { named };
    Ok(wanted.into_iter().map(str::to_owned).collect())
}

/// These parts of what is published; nothing where nothing is.
pub(super) fn told(published: &Published, wanted: &[String]) -> Option<Value> {
    let live = published.live.as_ref()?;
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let mut told = json!(Statistics {
        as_of: format_us(live.written_us),
        incarnation: live.incarnation,
        parts: Parts::of(published, &wanted),
    });
    if let Value::Object(keys) = &mut told {
        keys.retain(|key, _| wanted.contains(&key.as_str()) || !PARTS.contains(&key.as_str()));
    }
    Some(told)
}

/// `GET /jobs/{job}/nodes`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["sort", "live", "limit", "cursor"])?;
    let limit = params.limit()?;
    let sort = params.one("sort")?.unwrap_or("node_id");
    let order = NodeOrder::ALL.into_iter().find(|(word, _)| *word == sort).map(|(_, order)| order);
    let known = NodeOrder::ALL.map(|(word, _)| word).join(", ");
    let is_live = params.flag("live")?;
    let order = order.ok_or_else(|| bad("sort", format_args!("{sort:?} is none of {known}")))?;
    let of = format!("nodes of {id}?{}", params.without(&["limit", "cursor"]));
    let from: usize = params.one("cursor")?.map(|text| cursor::read(&of, text)).transpose()?.unwrap_or(0);
    let home = home(&app, &id).await?;
    let record = home.record().await.map_err(|failure| refused(&failure))?;
    let published = published(&*home, &record).await.map_err(|failure| refused(&failure))?;
    let Some(known) = &published.nodes else { return Err(none()) };
    let mut value = nodes(known, order, published.has_ended());
    value.retain(|node| !is_live || ["live", "silent"].contains(&node.state));
    let total = value.len();
    value.drain(..from.min(total));
    value.truncate(limit);
    let next = from + value.len();
    Ok(Page {
        value,
        next_cursor: (next < total).then(|| cursor::write(&of, &next)),
        total: Some(total as u64),
        as_of: format_us(known.written_us),
    }
    .answer(&params))
}

/// How a process ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LastExit {
    /// When.
    at: String,
    /// What it returned, the negative number of the signal where one ended it.
    returncode: i32,
    /// Why its node ended it: `run_timeout`, `load_timeout`, `init_timeout`, `memory`, `protocol`, `superseded`, `replaced`,
    /// `used_up` or `not_needed`; `init_failed` where it could not use the script. Null where it ended by itself.
    killed_for: Option<String>,
}

impl LastExit {
    fn of(exit: &ProcessExit) -> Self {
        let killed_for = Some(exit.killed_for.clone()).filter(|text| !text.is_empty());
        Self { at: format_us(exit.at_us), returncode: exit.returncode, killed_for }
    }
}

/// A process of a node, and its logs, each by its name; null where there is none. What its node does not tell is null, too: it
/// tells of 64 at most, one of many nodes of fewer.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NodeProcess {
    /// Its name.
    pub(crate) name: String,
    /// Its process id on the host.
    pid: Option<u32>,
    /// Tries that ended in it.
    tries: Option<u64>,
    /// Of these, those that failed.
    failed_tries: Option<u64>,
    /// When it was started.
    started_at: Option<String>,
    /// How it ended; null while it is up, and of one that was when its node was heard of last.
    last_exit: Option<LastExit>,
    /// What it printed.
    pub(crate) stdout: Option<String>,
    /// What it wrote to standard error.
    pub(crate) stderr: Option<String>,
    /// A line for each of its tries.
    pub(crate) mini_batches: Option<String>,
    /// Tracebacks.
    pub(crate) errors: Option<String>,
}

/// The processes of a node, those that were replaced among them, as its logs and what is `told` of it say.
pub(crate) async fn processes(
    home: &Home,
    node_id: u32,
    told: &[ProcessView],
) -> Result<Vec<NodeProcess>, Problem> {
    let kinds = vec![LogKind::Stdout, LogKind::Stderr, LogKind::Process, LogKind::Error];
    let wanted = LogChoice { kinds, nodes: vec![node_id], ..LogChoice::default() };
    let found = logs::all(&**home, &wanted).await.map_err(|failure| refused(&failure))?;
    let told = told.iter().map(|one| {
        let process = NodeProcess {
            name: format!("process{:03}", one.number),
            pid: Some(one.pid),
            tries: Some(one.tries),
            failed_tries: Some(one.failed_tries),
            started_at: Some(format_us(one.started_us)),
            last_exit: one.exit.as_ref().map(LastExit::of),
            ..NodeProcess::default()
        };
        (process.name.clone(), process)
    });
    let mut processes: BTreeMap<String, NodeProcess> = told.collect();
    for Log { file, .. } in found {
        let LogName { kind: Some(kind), process: Some(name), .. } = LogName::of(&file) else { continue };
        let name = name.to_owned();
        let of = processes.entry(name.clone()).or_insert(NodeProcess { name, ..NodeProcess::default() });
        match kind {
            LogKind::Stdout => of.stdout = Some(file),
            LogKind::Stderr => of.stderr = Some(file),
            LogKind::Process => of.mini_batches = Some(file),
            _ => of.errors = Some(file),
        }
    }
    Ok(processes.into_values().collect())
}

/// The number of a node in an address.
pub(crate) fn node_of(text: &str) -> Result<u32, Problem> {
    text.parse()
        .map_err(|_| Problem::new(Kind::NODE_NOT_FOUND, format_args!("The job has no node {text:?}.")))
}

/// Addresses about a node.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NodeLinks {
    portal: String,
    tries: String,
    perf: String,
    /// All of its logs.
    logs: String,
}

/// A node of a job, with its processes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NodeObject {
    #[serde(flatten)]
    node: NodeRecord,
    /// The last failure to import the script or of `init()`; null where there was none, or another node had a later one.
    init_error: Option<String>,
    processes: Vec<NodeProcess>,
    links: NodeLinks,
    as_of: String,
}

/// `GET /jobs/{job}/nodes/{node_id}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, node)): Path<(String, String)>,
    params: Params,
) -> Result<Json<NodeObject>, Problem> {
    params.check(&[])?;
    let node_id = node_of(&node)?;
    let home = home(&app, &id).await?;
    let record = home.record().await.map_err(|failure| refused(&failure))?;
    let published = published_parts(&*home, &record, &[Live::NAME, Nodes::NAME]).await;
    let published = published.map_err(|failure| refused(&failure))?;
    let Some(known) = &published.nodes else { return Err(none()) };
    let told = known.rows.iter().find(|row| row.of <= 1 && row.node_id == node_id);
    let told = told.map(|row| &*row.each_process).unwrap_or_default();
    let found = nodes(known, NodeOrder::Id, published.has_ended());
    let found = found.into_iter().find(|one| one.node_id == Some(node_id));
    let found = found
        .ok_or_else(|| Problem::new(Kind::NODE_NOT_FOUND, format_args!("The job has no node {node_id}.")))?;
    let init = published.live.as_ref().map(|live| &live.init);
    let init = init.filter(|init| init.failures > 0 && init.node_id == node_id && !init.error.is_empty());
    let below = |what: &str| format!("/api/v1/jobs/{id}/{what}node={node_id}");
    Ok(Json(NodeObject {
        node: found,
        init_error: init.map(|init| init.error.clone()),
        processes: processes(&home, node_id, told).await?,
        links: NodeLinks {
            portal: format!("/jobs/{id}/nodes/{node_id}"),
            tries: below("tries?"),
            perf: below("perf?"),
            logs: below("logs.tar.gz?"),
        },
        as_of: format_us(known.written_us),
    }))
}

/// `GET /jobs/{job}/perf`.
pub(crate) async fn hosts(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["node", "metric", "from", "to", "points"])?;
    let known = METRICS.map(|(name, _)| name);
    let mut metrics = words(&params, "metric", &known)?;
    if metrics.is_empty() {
        metrics = known.to_vec();
    }
    let now = now_us();
    let node_id: Option<u32> = params.value("node", "the number of a node")?;
    let mut window = Window {
        from_us: params.moment("from", now)?,
        to_us: params.moment("to", now)?,
        points: params.number("points", (1, POINTS.1))?.unwrap_or(POINTS.0) as usize,
        ..Window::default()
    };
    let home = home(&app, &id).await?;
    let record = home.record().await.map_err(|failure| refused(&failure))?;
    window.nodes = if let Some(node_id) = node_id {
        vec![node_id]
    } else {
        let published = published_parts(&*home, &record, &[Live::NAME, Nodes::NAME]).await;
        let published = published.map_err(|failure| refused(&failure))?;
        let rows = published.nodes.iter().flat_map(|nodes| &nodes.rows);
        rows.filter(|row| row.of <= 1).map(|row| row.node_id).collect()
    };
    let series = perf(&*home, &metrics, &window).await.map_err(|failure| refused(&failure))?;
    if series.is_empty() {
        let problem =
            Problem::new(Kind::NO_STATISTICS, "Nothing is known of the hosts of this job in this time.");
        return Err(problem.hint(if record.spec.resource_monitor_interval == 0 {
            "resource_monitor_interval of the job is 0, so nobody looked"
        } else {
            "the first look is taken 10 seconds after a node begins"
        }));
    }
    Ok(Json(Hosts { value: series, as_of: format_us(now) }).into_response())
}
