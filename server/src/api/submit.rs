//! Jobs that are handed in, go on, and run again.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use prs_jobs::intake::{DryRun, Resumed};
use tracing::info;

use super::once::{Once, answer, begin, begin_of_page, end, key_in, to_the_end};
use super::received::{Change, Received, change, job, refused};
use crate::app::App;
use crate::auth::{May, MaySubmit, Principal};
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// What became of a request: the job, and whether the request came before.
pub(crate) struct Made {
    pub(crate) job_id: String,
    is_replayed: bool,
}

/// The key of a request, where it has one.
pub(crate) enum Key {
    /// Of a program, which asks again.
    OfProgram(Option<String>),
    /// Of a page, where a person may have pressed twice.
    OfPage(Option<String>),
}

impl Key {
    /// Begins a request under it.
    pub(crate) async fn begin(
        &self,
        app: &App,
        who: &Principal,
        route: &str,
        fingerprint: &str,
    ) -> Result<Once, Problem> {
        match self {
            Self::OfProgram(key) => begin(app, who, route, key.as_deref(), fingerprint).await,
            Self::OfPage(key) => begin_of_page(app, who, route, key.as_deref(), fingerprint).await,
        }
    }
}

/// Hands a job in.
pub(crate) async fn submit_job(
    app: App,
    who: Principal,
    key: Key,
    received: Received,
) -> Result<Made, Problem> {
    let Received { mut submission, form, fingerprint, .. } = received;
    submission.called.submitted_by = Some(who.submitter());
    let once = key.begin(&app, &who, "POST /api/v1/jobs", &fingerprint).await?;
    let mut held = match once {
        Once::Do(held) => held,
        Once::Done(job_id) => return Ok(Made { job_id, is_replayed: true }),
    };
    let done = Box::pin(app.desk.submit(submission, &mut held)).await;
    end(held, done.as_deref()).await;
    let job_id = done.map_err(|failure| refused(&failure, Some(form)))?;
    info!(job_id, who = who.name, "handed in");
    Ok(Made { job_id, is_replayed: false })
}

/// Runs the former job `former` again as a new one.
pub(crate) async fn resubmit_job(
    app: App,
    who: Principal,
    key: Key,
    former: String,
    mut change: Change,
) -> Result<Made, Problem> {
    change.called.submitted_by = Some(who.submitter());
    let route = format!("POST /api/v1/jobs/{former}/resubmit");
    let mut held = match key.begin(&app, &who, &route, &change.fingerprint).await? {
        Once::Do(held) => held,
        Once::Done(job_id) => return Ok(Made { job_id, is_replayed: true }),
    };
    let done =
        Box::pin(app.desk.resubmit(&former, change.set, change.called, change.staging, &mut held)).await;
    end(held, done.as_deref()).await;
    let job_id = done.map_err(|failure| refused(&failure, None))?;
    info!(job_id, former, who = who.name, "runs again");
    Ok(Made { job_id, is_replayed: false })
}

/// Goes on with the job `id`.
pub(crate) async fn resume_job(
    app: App,
    who: Principal,
    key: Key,
    id: String,
    change: Change,
) -> Result<Made, Problem> {
    let route = format!("POST /api/v1/jobs/{id}/resume");
    let mut held = match key.begin(&app, &who, &route, &change.fingerprint).await? {
        Once::Do(held) => held,
        Once::Done(job_id) => return Ok(Made { job_id, is_replayed: true }),
    };
    let done = Box::pin(app.desk.resume(&id, change.set, change.only_group, change.staging, &mut held)).await;
    match &done {
        Ok(Resumed::GoesOn) => end(held, Ok(&id)).await,
        Err(failure) => end(held, Err(failure)).await,
        // Nothing came of it.
        Ok(_) => {
            if let Some(held) = held {
                held.forget().await;
            }
        }
    }
    match done.map_err(|failure| refused(&failure, None))? {
        Resumed::GoesOn => {
            info!(job_id = id, who = who.name, "goes on");
            Ok(Made { job_id: id, is_replayed: false })
        }
        Resumed::IsActive => {
            Err(Problem::new(Kind::JOB_IS_ACTIVE, "The job has not ended, so it goes on by itself."))
        }
        Resumed::IsComplete => {
            Err(Problem::new(Kind::NOTHING_TO_RESUME, "The job has completed, and no item of it is missing.")
                .hint(format_args!("POST /api/v1/jobs/{id}/resubmit runs all of it again as a new job")))
        }
    }
}

/// What would run of a job.
pub(crate) async fn dry_run(app: App, received: Received) -> Result<DryRun, Problem> {
    let form = received.form;
    let planned = Box::pin(app.desk.dry_run(received.submission)).await;
    planned.map_err(|failure| refused(&failure, Some(form)))
}

/// `POST /jobs`.
pub(crate) async fn submit(
    May(who): MaySubmit,
    State(app): State<App>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&["dry_run"])?;
    let is_dry = params.flag("dry_run")?;
    let key = Key::OfProgram(key_in(request.headers())?);
    let received = job(&app, request).await?;
    if is_dry || received.is_dry {
        let planned = to_the_end(move || dry_run(app, received)).await?;
        return Ok(Json(planned).into_response());
    }
    let made = {
        let app = app.clone();
        to_the_end(move || submit_job(app, who, key, received)).await?
    };
    let status = if made.is_replayed { StatusCode::OK } else { StatusCode::CREATED };
    answer(&app, status, &made.job_id, made.is_replayed).await
}

/// `POST /jobs/{job}/resubmit`.
pub(crate) async fn resubmit(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let key = Key::OfProgram(key_in(request.headers())?);
    let change = change(&app, request, true).await?;
    let made = {
        let app = app.clone();
        to_the_end(move || resubmit_job(app, who, key, id, change)).await?
    };
    let status = if made.is_replayed { StatusCode::OK } else { StatusCode::CREATED };
    answer(&app, status, &made.job_id, made.is_replayed).await
}

/// `POST /jobs/{job}/resume`.
pub(crate) async fn resume(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let key = Key::OfProgram(key_in(request.headers())?);
    let change = change(&app, request, false).await?;
    let made = {
        let app = app.clone();
        to_the_end(move || resume_job(app, who, key, id, change)).await?
    };
    answer(&app, StatusCode::ACCEPTED, &made.job_id, made.is_replayed).await
}
