//! The first or the last rows of a file of the output of a job.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use prs_common::job::{CsvFormat, JobSpec, OutputFormat};
use prs_common::storage::is_valid_key;
use prs_jobs::preview::{Form, preview as rows_of};
use prs_jobs::records::Versioned;

use super::files::{absent, of_storage};
use super::outputs::result_file;
use crate::app::App;
use crate::auth::{May, MayRead};
use crate::http::params::{Params, bad};
use crate::problem::Problem;

/// Rows that are given, at most and by default.
const ROWS: (u64, u64) = (500, 20);

/// `GET /jobs/{job}/output-preview`.
pub(crate) async fn preview(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["path", "from", "rows"])?;
    let most = params.number("rows", (1, ROWS.0))?.unwrap_or(ROWS.1) as usize;
    let from_end = match params.one("from")?.unwrap_or("start") {
        "start" => false,
        "end" => true,
        other => return Err(bad("from", format_args!("{other:?} is neither start nor end"))),
    };
    let _place = app.counts.preview(who.id())?;
    let (home, seen) = app.seen(&id).await?;
    let result = result_file(&home, &seen);
    let (storage, path, is_result) = match params.one("path")? {
        None => {
            let (storage, path) = result?;
            (storage, path, true)
        }
        Some(path) => {
            let is_result = result.is_ok_and(|(_, result)| result == path);
            (home.output(&seen.record), path.to_owned(), is_result)
        }
    };
    if !is_valid_key(&path) {
        return Err(absent(&path));
    }
    let form = form_of(&seen.record.spec).filter(|_| is_result);
    let found = rows_of(&*storage, &path, form, (from_end, most)).await;
    let found = found.map_err(|error| of_storage(&error))?;
    Ok(Json(Versioned::from(found)).into_response())
}

/// How the settings have the result written; nothing where that depends on what the script returned.
pub(crate) fn form_of(spec: &JobSpec) -> Option<Form> {
    match spec.output_format.as_ref()? {
        OutputFormat::Csv(CsvFormat { delimiter, header, .. }) => {
            Some(Form { delimiter: *delimiter, has_header: *header })
        }
        OutputFormat::Plain(_) => None,
    }
}
