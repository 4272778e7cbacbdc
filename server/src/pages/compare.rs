//! Two jobs beside each other.

use axum::extract::State;
use axum::response::Html;
use prs_jobs::compare::{Comparison, Side, compare};
use prs_jobs::homes::{Home, Seen};
use prs_portal::text::day_and_clock;
use prs_portal::text::times::machine;
use prs_portal::view::{ComparePage, ComparedFile, ComparedJob};

use super::job::in_address;
use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Other jobs of the same name that are offered.
const OFFERED: usize = 20;

/// `GET /compare`.
pub(super) async fn page(
    _: MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["a", "b"])?;
    let asked = (params.one("a")?.unwrap_or_default(), params.one("b")?.unwrap_or_default());
    let asked = (asked.0.trim(), asked.1.trim());
    let mut page = ComparePage {
        chrome: &app.chrome,
        asked,
        wrong: String::new(),
        others: Vec::new(),
        jobs: Vec::new(),
        settings: Vec::new(),
        files: Vec::new(),
        files_left_out: 0,
    };
    if asked.0.is_empty() {
        return Ok(Html(page.html()));
    }
    let first = match app.seen(asked.0).await {
        Ok(found) => found,
        Err(problem) => return wrong(page, problem),
    };
    if asked.1.is_empty() {
        page.others = others(&app, &first.1).await?;
        return Ok(Html(page.html()));
    }
    let second = match app.seen(asked.1).await {
        Ok(found) => found,
        Err(problem) => return wrong(page, problem),
    };
    let found = compared(first, second).await?;
    let ids = [0, 1].map(|at| found.sides[at].seen.record.job_id.clone());
    page.files = found
        .files
        .into_iter()
        .map(|file| {
            let link = |id: &str, is_there: bool| {
                if is_there { format!("/jobs/{id}/code/{}", in_address(&file.path)) } else { String::new() }
            };
            let links = (link(&ids[0], file.is_in.0), link(&ids[1], file.is_in.1));
            ComparedFile { links, lines: file.lines, path: file.path }
        })
        .collect();
    page.files_left_out = found.files_left_out;
    page.settings = found
        .settings
        .into_iter()
        .map(|(key, one, other)| (key, one.unwrap_or_default(), other.unwrap_or_default()))
        .collect();
    page.jobs = found.sides.iter().map(job).collect();
    Ok(Html(page.html()))
}

async fn compared(first: (Home, Seen), second: (Home, Seen)) -> Result<Comparison, Problem> {
    let ((one, one_seen), (other, other_seen)) = (first, second);
    let found = Box::pin(compare([&one, &other], [one_seen, other_seen])).await;
    found.map_err(|failure| Problem::of(&failure, Kind::REFUSED))
}

/// The page with what is wrong with a job that was named.
fn wrong(mut page: ComparePage<'_>, problem: Problem) -> Result<Html<String>, Problem> {
    if problem.kind != Kind::JOB_NOT_FOUND {
        return Err(problem);
    }
    page.wrong = problem.detail;
    Ok(Html(page.html()))
}

/// The newest other jobs of the name of this one.
async fn others(app: &App, seen: &Seen) -> Result<Vec<(String, String)>, Problem> {
    let snapshot = app.index.snapshot().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    let (name, job_id) = (&seen.record.spec.name, &seen.record.job_id);
    let fitting = snapshot.jobs.iter().filter(|job| job.name == *name && job.job_id != *job_id);
    let says = |us: u64, state: &str| format!("{state}, submitted {} UTC", day_and_clock(us));
    Ok(fitting
        .take(OFFERED)
        .map(|job| (job.job_id.clone(), says(job.submitted_us, job.state.as_str())))
        .collect())
}

fn job(side: &Side) -> ComparedJob {
    let Seen { record, result, .. } = &side.seen;
    ComparedJob {
        job_id: record.job_id.clone(),
        title: record.spec.display_name.clone().unwrap_or_else(|| record.spec.name.clone()),
        state: Some((result.state, result.findings.complete)),
        submitted: (format!("{} UTC", day_and_clock(record.submitted_us)), machine(record.submitted_us)),
        seconds: result.seconds,
        items: (result.items.total, result.items.failed),
        run: side.run,
        load: side.load,
        shares: side.shares,
    }
}
