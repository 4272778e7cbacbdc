//! The fleet: its targets and its workers.

use axum::extract::State;
use axum::response::Html;
use prs_jobs::fleet::{TargetView, WorkerView, workers as of_fleet};
use prs_portal::view::{FleetPage, TargetRow, WorkerRow};

use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Workers on the page.
const MOST: usize = 500;

/// `GET /fleet`.
pub(crate) async fn page(
    _: MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    if !app.chrome.has_fleet {
        return Err(Problem::new(
            Kind::NOT_FOUND,
            "The jobs here run on the machine of the server: there is no fleet.",
        ));
    }
    let failed = |failure| Problem::of(&failure, Kind::INTERNAL);
    let targets = app.fleet.targets().await.map_err(failed)?;
    let workers = of_fleet(&app.whereabouts, None).await.map_err(failed)?;
    let page = FleetPage {
        chrome: &app.chrome,
        targets: targets.all.iter().map(target).collect(),
        total: workers.len() as u64,
        workers: workers.into_iter().take(MOST).map(worker).collect(),
        at_us: targets.read_us,
    };
    Ok(Html(page.html()))
}

fn target(of: &TargetView) -> TargetRow {
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
    }
}

fn worker(of: WorkerView) -> WorkerRow {
    WorkerRow {
        worker: of.worker,
        host: of.host,
        targets: of.targets.join(", "),
        slots: of.slots,
        job: of.job.unwrap_or_default(),
        version: of.version,
        seen_seconds: of.seen_seconds,
    }
}
