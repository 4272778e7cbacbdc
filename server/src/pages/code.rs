//! The code that a job ran, with a number at each line, which frames of tracebacks lead to.

use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_jobs::code;
use prs_portal::view::{CodePage, CodeRow, Tab};

use super::job::in_address;
use super::tabs::OnTabs;
use crate::api::code::text;
use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Lines of a file on a page; the rest of a longer one is downloaded.
const LINES: usize = 20_000;

/// `GET /jobs/{job}/code`; with `frame` and `line` the place that a frame of a traceback names.
pub(super) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["frame", "line"])?;
    let line = params.number("line", (1, 100_000_000))?;
    let (home, job) = OnTabs::of_id(&app, &id).await?;
    let files = code::files(&*home, &job.seen.record).await;
    let files = files.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    let mut says = String::new();
    if let Some(frame) = params.one("frame")? {
        if let Some(file) = code::of_frame(&files, frame) {
            let anchor = line.map(|line| format!("#L{line}")).unwrap_or_default();
            let at = format!("/jobs/{id}/code/{}{anchor}", in_address(&file.path));
            return Ok(Redirect::to(&at).into_response());
        }
        says = format!("{frame} is no file of the code that the job ran last.");
    }
    let rows = files.into_iter().map(|file| CodeRow {
        link: format!("/jobs/{id}/code/{}", in_address(&file.path)),
        path: file.path,
        bytes: file.bytes,
    });
    let page = CodePage {
        chrome: &app.chrome,
        tabs: job.tabs(&id, Tab::Settings),
        job_id: &id,
        title: job.title(),
        says,
        path: "",
        rows: rows.collect(),
        lines: Vec::new(),
        is_cut: false,
    };
    Ok(Html(page.html()).into_response())
}

/// `GET /jobs/{job}/code/{path}`.
pub(super) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, path)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let text = text(&app, &id, &path).await?;
    let (_, job) = OnTabs::of_id(&app, &id).await?;
    let page = CodePage {
        chrome: &app.chrome,
        tabs: job.tabs(&id, Tab::Settings),
        job_id: &id,
        title: job.title(),
        says: String::new(),
        path: &path,
        rows: Vec::new(),
        lines: text.lines().take(LINES).map(str::to_owned).collect(),
        is_cut: text.lines().nth(LINES).is_some(),
    };
    Ok(Html(page.html()))
}
