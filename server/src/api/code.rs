//! The code that a job ran: its files, one of them, all of it as an archive.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use prs_common::layout;
use prs_jobs::code::{self, Content};
use serde::Serialize;

use super::files::{SANDBOX, absent};
use super::jobs::Page;
use crate::app::App;
use crate::auth::MayRead;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Bytes of a file that is given as text.
pub(crate) const MOST: u64 = 2 << 20;

/// The files of the code as a page of a list.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CodeFiles"))]
pub(crate) struct Files {
    #[serde(flatten)]
    page: Page<code::CodeFile>,
    /// SHA-256 of the code; null where the job has none.
    sha256: Option<String>,
    /// The address of all of it as an archive.
    archive: String,
}

/// `GET /jobs/{job}/code`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (home, seen) = app.seen(&id).await?;
    let value = code::files(&*home, &seen.record).await;
    let value = value.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    let code = seen.record.as_given().code;
    let page = Page::whole(value);
    let sha256 = Some(layout::checksum_of_code(&code).to_owned()).filter(|sum| !sum.is_empty());
    Ok(Json(Files { page, sha256, archive: format!("/api/v1/jobs/{id}/code.tar.gz") }).into_response())
}

/// `GET /jobs/{job}/code.tar.gz`.
pub(crate) async fn archive(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (home, seen) = app.seen(&id).await?;
    let body = code::archive_of(&*home, &seen.record).await;
    let body = body.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    let body = body.ok_or_else(|| Problem::new(Kind::FILE_NOT_FOUND, "The job has no code."))?;
    let headers = [
        (CONTENT_TYPE, "application/gzip"),
        (CONTENT_DISPOSITION, "attachment; filename=\"code.tar.gz\""),
        (CONTENT_SECURITY_POLICY, SANDBOX),
    ];
    Ok((headers, body).into_response())
}

/// The text of a file of the code of the job `id`.
pub(crate) async fn text(app: &App, id: &str, path: &str) -> Result<String, Problem> {
    let (home, seen) = app.seen(id).await?;
    let found = code::file(&*home, &seen.record, path, MOST).await;
    match found.map_err(|failure| Problem::of(&failure, Kind::REFUSED))? {
        None => Err(absent(path)),
        Some(Content::Whole(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Some(Content::TooLong(bytes)) => Err(Problem::new(
            Kind::TOO_LARGE,
            format_args!("{path} has {bytes} bytes, and {MOST} are given as text."),
        )
        .hint(format_args!("/api/v1/jobs/{id}/code.tar.gz has all of the code"))),
    }
}

/// `GET /jobs/{job}/code/{path}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, path)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let text = text(&app, &id, &path).await?;
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CONTENT_SECURITY_POLICY, SANDBOX)];
    Ok((headers, text).into_response())
}
