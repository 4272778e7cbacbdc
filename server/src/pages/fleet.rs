//! The fleet: its targets and its workers, one target, one worker; asking a worker to leave.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::{Html, Redirect};
use prs_common::timestamp::now_us;
use prs_jobs::fleet::{
    HISTORY_STEP, HISTORY_STEPS, TargetCounts, TargetView, WORKER_STATES, WorkerView, workers as of_fleet,
};
use prs_jobs::tokens::Role;
use prs_portal::chart::{Figure, Wanted, WantedStep};
use prs_portal::view::{
    ConfirmPage, FleetPage, ServerRow, TargetRow, WorkerFilter, WorkerList, WorkerPage, WorkerRow,
};

use super::servers::row;
use crate::api::fleet::{contains, drain_worker};
use crate::api::servers::visible;
use crate::app::App;
use crate::auth::{May, MayAdmin, MayRead};
use crate::http::cursor;
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// Workers on a page.
const MOST: usize = 50;
/// Targets with a picture on the page of the fleet.
const MOST_PICTURES: usize = 4;
/// What their pictures are called.
const PICTURES: [&str; MOST_PICTURES] = ["wanted-1", "wanted-2", "wanted-3", "wanted-4"];

/// `GET /fleet`.
pub(crate) async fn page(
    May(who): MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    let servers = visible(&app, &who).await.0.into_iter().map(row).collect();
    of_targets(&app, None, (who.role >= Role::Admin, servers), &params).await
}

/// `GET /fleet/{target}`.
pub(crate) async fn target(
    May(who): MayRead,
    State(app): State<App>,
    Path(target): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    of_targets(&app, Some(&target), (who.role >= Role::Admin, Vec::new()), &params).await
}

/// The page about all targets, or one.
async fn of_targets(
    app: &App,
    target: Option<&str>,
    (may_drain, servers): (bool, Vec<ServerRow>),
    params: &Params,
) -> Result<Html<String>, Problem> {
    params.check(&["state", "q", "target", "cursor", "part"])?;
    check_fleet(app)?;
    let failed = |failure| Problem::of(&failure, Kind::INTERNAL);
    let targets = app.fleet.targets().await.map_err(failed)?;
    let workers = app.fleet.workers(target).await.map_err(failed)?;
    let asks = app.fleet.asks().await.map_err(failed)?;
    let row_of = |of: &TargetView| row_of(of, asks.get(&of.target).copied());
    let mut rows: Vec<TargetRow> = match target {
        None => targets.all.iter().map(row_of).collect(),
        Some(name) => vec![row_of(&targets.named(name))],
    };
    count_versions(&mut rows, &workers);
    let here = target.map_or_else(|| "/fleet".to_owned(), |target| format!("/fleet/{target}"));
    let page = FleetPage {
        chrome: &app.chrome,
        target: target.unwrap_or_default(),
        servers,
        history: history(app, &rows).await?,
        history_left_out: rows.len().saturating_sub(MOST_PICTURES) as u64,
        targets: rows,
        workers: list(&workers, params, &here)?,
        may_drain,
        rows_address: address(&here, &[&params.without(&["part"]), "part=rows"]),
        at_us: targets.read_us,
    };
    Ok(Html(match params.one("part")? {
        None => page.html(),
        Some("rows") => page.rows_html(),
        Some(other) => return Err(bad("part", format_args!("{other:?} is not rows"))),
    }))
}

/// `GET /workers/{worker}`.
pub(crate) async fn worker(
    May(who): MayRead,
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let found = find_worker(&app, &name).await?;
    let page = WorkerPage {
        chrome: &app.chrome,
        worker: worker_row(found),
        may_drain: who.role >= Role::Admin,
        at_us: now_us(),
    };
    Ok(Html(page.html()))
}

/// `GET /workers/{worker}/drain`.
pub(crate) async fn ask_to_drain(
    _: MayAdmin,
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Html<String>, Problem> {
    let found = find_worker(&app, &name).await?;
    let does = match &found.job_id {
        None => "It has no job, and ends within seconds.".to_owned(),
        Some(job) => format!(
            "It lets what it runs of {job} end, within its time for that (30 s where it was started without --drain-timeout), gives the rest back and ends. Others go on with the job."
        ),
    };
    let page = ConfirmPage {
        chrome: &app.chrome,
        title: &format!("Drain {name}?"),
        says: &format!("{does} What starts workers may start another one in its place."),
        button: "Drain the worker",
        action: &format!("/workers/{name}/drain"),
        back: &format!("/workers/{name}"),
    };
    Ok(Html(page.html()))
}

/// `POST /workers/{worker}/drain`.
pub(crate) async fn drain(
    May(who): MayAdmin,
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Redirect, Problem> {
    drain_worker(&app, &name, "", &who.name).await?;
    Ok(Redirect::to(&format!("/workers/{name}")))
}

fn check_fleet(app: &App) -> Result<(), Problem> {
    if app.chrome.has_fleet {
        return Ok(());
    }
    let detail = "The jobs here run on the machine of the server: there is no fleet.";
    Err(Problem::new(Kind::NOT_FOUND, detail))
}

async fn find_worker(app: &App, name: &str) -> Result<WorkerView, Problem> {
    check_fleet(app)?;
    let workers = of_fleet(&app.whereabouts, None).await;
    let workers = workers.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    workers.into_iter().find(|worker| worker.worker == name).ok_or_else(|| {
        let detail = format_args!(
            "There is no worker {name:?}: it has ended, or nothing was heard of it for a minute."
        );
        Problem::new(Kind::NOT_FOUND, detail)
    })
}

/// What the targets of these rows wanted and had over the last day.
async fn history(app: &App, rows: &[TargetRow]) -> Result<Vec<Figure>, Problem> {
    let mut figures = Vec::new();
    for (row, id) in rows.iter().zip(PICTURES) {
        let history = app.fleet.history(&row.target).await;
        let history = history.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
        figures.extend(picture(id, &row.target, &history, now_us()));
    }
    Ok(figures)
}

/// The last day of a target up to `now_us`, of the steps that were noted.
fn picture(id: &'static str, target: &str, history: &[(u64, TargetCounts)], now_us: u64) -> Option<Figure> {
    let step_us = HISTORY_STEP.as_micros() as u64;
    let from_us = (now_us / step_us + 1).saturating_sub(HISTORY_STEPS) * step_us;
    let mut known = vec![None; HISTORY_STEPS as usize];
    for (begins_us, TargetCounts { wanted, live, idle, waiting }) in history.iter().copied() {
        let at = begins_us.checked_sub(from_us).map(|behind| (behind / step_us) as usize);
        if let Some(step) = at.and_then(|at| known.get_mut(at)) {
            *step = Some(WantedStep { wanted, live, idle, waiting });
        }
    }
    Wanted::figure(id, target, from_us, HISTORY_STEP.as_secs() as u32, &known)
}

/// The workers that the filters leave, one page of them.
fn list(workers: &[WorkerView], params: &Params, here: &str) -> Result<WorkerList, Problem> {
    let target = params.one("target")?.unwrap_or_default();
    let (state, query) = (params.one("state")?, params.one("q")?.unwrap_or_default().to_owned());
    if let Some(state) = state.filter(|state| !WORKER_STATES.contains(state)) {
        let known = WORKER_STATES.join(", ");
        return Err(bad("state", format_args!("{state:?} is none of {known}")));
    }
    let small = query.to_lowercase();
    let is_of = |worker: &WorkerView| target.is_empty() || worker.targets.iter().any(|each| each == target);
    let found = workers.iter().filter(|worker| is_of(worker) && contains(worker, &small));
    let found: Vec<WorkerView> = found.cloned().collect();
    let rest = params.without(&["state", "cursor", "part"]);
    let filter = |word: &str| WorkerFilter {
        name: if word.is_empty() { "all".to_owned() } else { word.to_owned() },
        count: found.iter().filter(|worker| word.is_empty() || worker.state == word).count() as u64,
        link: if word.is_empty() {
            address(here, &[&rest])
        } else {
            address(here, &[&rest, &format!("state={word}")])
        },
        is_shown: state.unwrap_or_default() == word,
    };
    let filters = [""].into_iter().chain(WORKER_STATES).map(filter).collect();
    let of = format!("fleet {here}?{}", params.without(&["cursor", "part"]));
    let after: Option<(String, String)> =
        params.one("cursor")?.map(|cursor| cursor::read(&of, cursor)).transpose()?;
    let found: Vec<WorkerView> =
        found.into_iter().filter(|worker| state.is_none_or(|state| worker.state == state)).collect();
    let total = found.len() as u64;
    let is_behind = |worker: &WorkerView| {
        after.as_ref().is_none_or(|(host, name)| (&worker.host, &worker.worker) > (host, name))
    };
    let mut behind = found.into_iter().filter(is_behind);
    let shown: Vec<WorkerView> = behind.by_ref().take(MOST).collect();
    let last = shown.last().filter(|_| behind.next().is_some());
    let next = last.map(|last| format!("cursor={}", cursor::write(&of, &(&last.host, &last.worker))));
    let kept = params.without(&["cursor", "part"]);
    let pages = (
        if after.is_some() { address(here, &[&kept]) } else { String::new() },
        next.map(|next| address(here, &[&kept, &next])).unwrap_or_default(),
    );
    Ok(WorkerList {
        rows: shown.into_iter().map(worker_row).collect(),
        total,
        filters,
        query,
        target: target.to_owned(),
        state: state.unwrap_or_default().to_owned(),
        pages,
    })
}

/// An address with these parameters.
fn address(here: &str, parts: &[&str]) -> String {
    let query: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    if query.is_empty() { here.to_owned() } else { format!("{here}?{}", query.join("&")) }
}

/// Adds which versions the workers of each target have.
fn count_versions(rows: &mut [TargetRow], workers: &[WorkerView]) {
    for row in rows {
        let mut versions = BTreeMap::<&str, u64>::new();
        for worker in workers.iter().filter(|worker| worker.targets.contains(&row.target)) {
            *versions.entry(&worker.version).or_default() += 1;
        }
        row.versions = versions.into_iter().map(|(version, count)| (version.to_owned(), count)).collect();
    }
}

/// The row of a target that an autoscaler asked for so long ago.
fn row_of(of: &TargetView, asked: Option<Duration>) -> TargetRow {
    TargetRow {
        target: of.target.clone(),
        wanted: of.wanted_nodes,
        live: of.live_nodes,
        idle: of.idle_workers,
        needed: of.workers_needed,
        waiting: of.waiting_mini_batches,
        jobs: of.jobs,
        unwatched: of.unwatched_jobs,
        oldest_wait_seconds: of.oldest_wait_seconds,
        asked_seconds: asked.map(|ago| ago.as_secs_f64()),
        versions: Vec::new(),
    }
}

fn worker_row(of: WorkerView) -> WorkerRow {
    WorkerRow {
        worker: of.worker,
        state: of.state,
        host: of.host,
        ip: of.ip,
        targets: of.targets.join(", "),
        slots: (of.busy_slots, of.slots),
        gpus: of.gpus,
        python: of.python,
        job: of.job_id.unwrap_or_default(),
        node_id: of.node_id,
        drain_reason: of.drain_reason.unwrap_or_default(),
        version: of.version,
        memory: of.memory,
        load: (of.cpu_percent, of.gpu_percent),
        unavailable: of.unavailable.join(", "),
        since: of.since.unwrap_or_default(),
        seen_seconds: of.last_seen_seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_ends_with_the_step_of_now() {
        let step = HISTORY_STEP.as_micros() as u64;
        let now = 1_000 * step + 7;
        let counts = TargetCounts { wanted: 3, live: 1, ..TargetCounts::default() };
        // Of the step of now, of the first that is shown, and of one before that.
        for (begins, is_shown) in [(1_000 * step, true), (713 * step, true), (712 * step, false)] {
            assert_eq!(picture("w", "gpu", &[(begins, counts)], now).is_some(), is_shown, "{begins}");
        }
    }
}
