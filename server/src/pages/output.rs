//! What a job brought: its result with some rows of it, the files of its output, the pictures among them.

use axum::extract::{Path, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use futures_util::future::try_join_all;
use prs_common::job::JobSpec;
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::storage::{Storage, StorageErrorKind, is_valid_key};
use prs_jobs::homes::Seen;
use prs_jobs::pictures::{MOST_BYTES, Picture, is_picture, may_be_picture, picture as read_picture};
use prs_jobs::preview::{Kind as PreviewKind, preview as rows_of};
use prs_portal::text::{bytes, counted, plain};
use prs_portal::view::{OutputFile, OutputPage, PictureFile, Preview, PreviewPart, Tab};
use serde_json::Value;

use super::job::in_address;
use super::tabs::OnTabs;
use crate::api::files::{SANDBOX, absent, of_storage};
use crate::api::outputs::{OutputFile as Listed, files, result_file};
use crate::api::preview::form_of;
use crate::app::App;
use crate::auth::{May, MayRead};
use crate::http::cursor;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Files of an output on a page.
const FILES: usize = 100;
/// Files of a page that are looked into whether they are pictures.
const PICTURES: usize = 12;
/// Rows of a result that are shown from each end.
const ROWS: usize = 10;
/// Letters of a cell, or of a line, that are shown.
const LETTERS: usize = 500;

/// `GET /jobs/{job}/output`.
pub(crate) async fn output(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["cursor"])?;
    let of = format!("outputs of {id}?");
    let after: Option<String> = params.one("cursor")?.map(|text| cursor::read(&of, text)).transpose()?;
    let (home, job) = OnTabs::of_id(&app, &id).await?;
    let seen = &job.seen;
    let storage = home.output(&seen.record);
    let link = |path: &str| format!("/api/v1/jobs/{id}/outputs/{}", in_address(path));
    let found = result_file(&home, seen);
    let (result, why_not) = match &found {
        Ok((_, name)) => {
            let bytes = seen.result.output.bytes;
            (Some(OutputFile { path: name.clone(), link: link(name), bytes }), String::new())
        }
        Err(problem) => (None, grows(&job).unwrap_or_else(|| problem.detail.clone())),
    };
    // Without a place among the previews the page has the rest.
    let preview = match (&found, app.counts.preview(who.id())) {
        (Ok((storage, name)), Ok(_place)) => preview(&**storage, name, &seen.record.spec).await?,
        (Ok(_), Err(problem)) => Preview { why_not: problem.detail, ..Preview::default() },
        (Err(_), _) => Preview::default(),
    };
    let (files, has_more) = files(&*storage, "", after.as_deref().unwrap_or_default(), FILES).await?;
    let next = files
        .last()
        .filter(|_| has_more)
        .map(|last| format!("/jobs/{id}/output?cursor={}", cursor::write(&of, &last.path)));
    let failed = failed_list(&*storage, seen).await?;
    let failed = failed.map(|bytes| OutputFile {
        path: FAILED_MINI_BATCHES.to_owned(),
        link: link(FAILED_MINI_BATCHES),
        bytes,
    });
    let pictures = pictures(&*storage, &files).await?;
    let pictures = pictures.into_iter().map(|file| PictureFile {
        picture: format!("/jobs/{id}/picture/{}", in_address(&file.path)),
        file: OutputFile { link: link(&file.path), path: file.path, bytes: file.bytes },
    });
    let files = files.into_iter().filter(|file| file.path != FAILED_MINI_BATCHES).map(|file| OutputFile {
        link: link(&file.path),
        path: file.path,
        bytes: file.bytes,
    });
    let page = OutputPage {
        chrome: &app.chrome,
        tabs: job.tabs(&id, Tab::Output),
        job_id: &id,
        title: job.title(),
        uri: seen.result.output.folder().to_owned(),
        result,
        about: (seen.result.output.rows, seen.result.output.sha256.clone()),
        why_not,
        preview,
        failed,
        files: files.collect(),
        pictures: pictures.collect(),
        next: next.unwrap_or_default(),
    };
    Ok(Html(page.html()))
}

/// How far the result is while the job runs; nothing where nobody said it.
fn grows(job: &OnTabs) -> Option<String> {
    let live = job.published.live.as_ref().filter(|_| !job.seen.result.state.is_final())?;
    let counted = (counted(live.succeeded, "mini-batch"), counted(live.rows, "row"), bytes(live.bytes));
    let (mini_batches, rows, bytes) = counted;
    Some(format!(
        "The result grows: {mini_batches} done, with {rows} in {bytes}. The file is there when the job has completed."
    ))
}

/// The size of the list of items that are missing; nothing where none is, or nothing lists them.
async fn failed_list(storage: &dyn Storage, seen: &Seen) -> Result<Option<u64>, Problem> {
    if seen.result.items.failed == 0 && seen.result.mini_batches.failed == 0 {
        return Ok(None);
    }
    match storage.head(FAILED_MINI_BATCHES).await {
        Ok(meta) => Ok(Some(meta.size)),
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
        Err(error) => Err(of_storage(&error)),
    }
}

/// Those of the files that are pictures, as far as they are looked into.
async fn pictures(storage: &dyn Storage, files: &[Listed]) -> Result<Vec<Listed>, Problem> {
    let candidates = files.iter().filter(|file| may_be_picture(&file.path, file.bytes)).take(PICTURES);
    let looks = candidates.map(async |file| {
        let found = is_picture(storage, &file.path, file.bytes).await;
        Ok(found.map_err(|error| of_storage(&error))?.then(|| file.clone()))
    });
    Ok(try_join_all(looks).await?.into_iter().flatten().collect())
}

/// `GET /jobs/{job}/picture/{path}`: a picture of the output, which pages show.
pub(super) async fn picture(
    _: MayRead,
    State(app): State<App>,
    Path((id, path)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let (home, seen) = app.seen(&id).await?;
    if !is_valid_key(&path) {
        return Err(absent(&path));
    }
    let found = read_picture(&*home.output(&seen.record), &path).await;
    match found.map_err(|error| of_storage(&error))? {
        Picture::Shown(media_type, bytes) => {
            let headers = [(CONTENT_TYPE, media_type), (CONTENT_SECURITY_POLICY, SANDBOX)];
            Ok((headers, bytes).into_response())
        }
        Picture::TooLarge(bytes) => Err(Problem::new(
            Kind::TOO_LARGE,
            format_args!(
                "{path:?} has {bytes} bytes, and pages show pictures of {MOST_BYTES} at most: download it."
            ),
        )),
        Picture::None => Err(Problem::new(
            Kind::FILE_NOT_FOUND,
            format_args!(
                "{path:?} is no picture that pages show, which are PNG, JPEG, GIF and WebP: download it."
            ),
        )),
    }
}

/// The first rows of a result, and the last.
async fn preview(storage: &dyn Storage, name: &str, spec: &JobSpec) -> Result<Preview, Problem> {
    let form = form_of(spec);
    let read = async |from_end| {
        let found = rows_of(storage, name, form, (from_end, ROWS)).await;
        found.map_err(|error| of_storage(&error))
    };
    let first = read(false).await?;
    let why_not = match first.kind {
        PreviewKind::Image => "The result is a picture.",
        PreviewKind::Binary => "The result is no text: download it to look into it.",
        _ if first.rows.is_empty() => "The result has no rows.",
        _ => "",
    };
    let last = if first.cut && why_not.is_empty() { read(true).await?.rows } else { Vec::new() };
    let part = |(title, rows): (&'static str, Vec<Vec<Value>>)| PreviewPart {
        title,
        rows: rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect(),
    };
    let parts = [(if first.cut { "First rows" } else { "Rows" }, first.rows), ("Last rows", last)];
    Ok(Preview {
        parts: parts.into_iter().filter(|(_, rows)| !rows.is_empty()).map(part).collect(),
        columns: first.columns.unwrap_or_default(),
        is_table: matches!(first.kind, PreviewKind::Table | PreviewKind::JsonLines),
        is_guessed: first.is_guessed && first.kind == PreviewKind::Table,
        why_not: why_not.to_owned(),
    })
}

/// A cell as text, as short as a page needs it.
fn cell(value: Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    let text = plain(&text);
    match text.char_indices().nth(LETTERS) {
        Some((at, _)) => format!("{}\u{2026}", &text[..at]),
        None => text,
    }
}
