//! Forms: a new job, a job that goes on, a job that runs again.

use axum::extract::{Path, Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::job::keys::{Start, settable};
use prs_jobs::homes::Seen;
use prs_portal::view::{AgainPage, Planned, Refused, SubmitPage};

use crate::api::once::to_the_end;
use crate::api::received::{change, job};
use crate::api::submit::{Key, dry_run, resubmit_job, resume_job, submit_job};
use crate::app::App;
use crate::auth::{May, MaySubmit, random_text};
use crate::http::params::Params;
use crate::problem::Problem;

/// A job file to begin with.
const BEGINNING: &str =
    "name: my-job\nentry_script: main.py\ninputs:\n  - type: file\n    path: data\nmini_batch_size: 10\n";

/// What a form says that was refused; a problem that no form can mend stays one.
pub(super) fn said(app: &App, problem: Problem) -> Result<Refused, Problem> {
    let problem = app.places.without(problem);
    if ![400, 409, 413, 422].contains(&problem.kind.status) {
        return Err(problem);
    }
    let place = |key: &str, line: Option<usize>| match line {
        Some(line) if key.is_empty() => format!("line {line}"),
        Some(line) => format!("line {line}, {key}"),
        None => key.to_owned(),
    };
    let problems = problem.errors.iter().map(|one| (place(&one.key, one.line), one.detail.clone()));
    Ok(Refused { says: problem.detail.clone(), problems: problems.collect() })
}

/// Settings as they stand in the form.
fn lines(set: &[(String, String)]) -> String {
    let lines: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    lines.join("\n")
}

/// `GET /submit`.
pub(super) async fn form(
    _: MaySubmit,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let page = SubmitPage {
        chrome: &app.chrome,
        key: &random_text::<16>(),
        text: BEGINNING,
        set: "",
        name: "",
        refused: Refused::default(),
        planned: None,
    };
    Ok(Html(page.html()))
}

/// `POST /submit`.
pub(super) async fn submit(
    May(who): MaySubmit,
    State(app): State<App>,
    request: Request,
) -> Result<Response, Problem> {
    let again = |text: &str, set: &str, name: &str, refused: Refused, planned: Option<Planned>| {
        let key = random_text::<16>();
        let page = SubmitPage { chrome: &app.chrome, key: &key, text, set, name, refused, planned };
        Html(page.html()).into_response()
    };
    let received = match job(&app, request).await {
        Ok(received) => received,
        Err(problem) => return Ok(again("", "", "", said(&app, problem)?, None)),
    };
    let (text, set) = (received.submission.text.clone(), lines(&received.submission.set));
    let name = received.submission.called.name.clone().unwrap_or_default();
    let shared = app.clone();
    if received.is_dry {
        return Ok(match to_the_end(move || dry_run(shared, received)).await {
            Ok(planned) => {
                let counts = planned.mini_batches.zip(planned.items);
                let planned = Planned { counts, code_bytes: planned.code_bytes, notes: planned.notes };
                again(&text, &set, &name, Refused::default(), Some(planned))
            }
            Err(problem) => again(&text, &set, &name, said(&app, problem)?, None),
        });
    }
    let key = Key::OfPage(received.key.clone());
    match to_the_end(move || submit_job(shared, who, key, received)).await {
        Ok(made) => Ok(Redirect::to(&format!("/jobs/{}", made.job_id)).into_response()),
        Err(problem) => Ok(again(&text, &set, &name, said(&app, problem)?, None)),
    }
}

/// The form about a former job.
fn again_page(
    app: &App,
    seen: &Seen,
    is_new: bool,
    (set, only_group): (&str, &str),
    refused: Refused,
) -> Html<String> {
    let counts = seen.result.mini_batches;
    let done = match counts.succeeded {
        0 => "None of its mini-batches is done.".to_owned(),
        done => format!("{done} of {} mini-batches are done, with the code of the job.", counts.scheduled),
    };
    let start = if is_new { Start::Submission } else { Start::Resumption };
    let page = AgainPage {
        chrome: &app.chrome,
        job_id: &seen.record.job_id,
        is_new,
        done: &done,
        settable: settable(start),
        key: &random_text::<16>(),
        set,
        only_group,
        refused,
    };
    Html(page.html())
}

/// `GET /jobs/{job}/resume`.
pub(super) async fn ask_to_resume(
    _: MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["only_group"])?;
    let only_group = params.one("only_group")?.unwrap_or_default();
    let (_, seen) = app.seen(&id).await?;
    Ok(again_page(&app, &seen, false, ("", only_group), Refused::default()))
}

/// `GET /jobs/{job}/resubmit`.
pub(super) async fn ask_to_resubmit(
    _: MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    let (_, seen) = app.seen(&id).await?;
    Ok(again_page(&app, &seen, true, ("", ""), Refused::default()))
}

/// `POST /jobs/{job}/resume`.
pub(super) async fn resume(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (_, seen) = app.seen(&id).await?;
    let change = match change(&app, request, false).await {
        Ok(change) => change,
        Err(problem) => {
            return Ok(again_page(&app, &seen, false, ("", ""), said(&app, problem)?).into_response());
        }
    };
    let (set, key) = (lines(&change.set), Key::OfPage(change.key.clone()));
    let only_group = change.only_group.clone().unwrap_or_default();
    let (shared, job) = (app.clone(), id.clone());
    match to_the_end(move || resume_job(shared, who, key, job, change)).await {
        Ok(made) => Ok(Redirect::to(&format!("/jobs/{}", made.job_id)).into_response()),
        Err(problem) => {
            Ok(again_page(&app, &seen, false, (&set, &only_group), said(&app, problem)?).into_response())
        }
    }
}

/// `POST /jobs/{job}/resubmit`.
pub(super) async fn resubmit(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (_, seen) = app.seen(&id).await?;
    let change = match change(&app, request, true).await {
        Ok(change) => change,
        Err(problem) => {
            return Ok(again_page(&app, &seen, true, ("", ""), said(&app, problem)?).into_response());
        }
    };
    let (set, key) = (lines(&change.set), Key::OfPage(change.key.clone()));
    let (shared, job) = (app.clone(), id.clone());
    match to_the_end(move || resubmit_job(shared, who, key, job, change)).await {
        Ok(made) => Ok(Redirect::to(&format!("/jobs/{}", made.job_id)).into_response()),
        Err(problem) => Ok(again_page(&app, &seen, true, (&set, ""), said(&app, problem)?).into_response()),
    }
}
